//! What links carried, when they were busy, and which messages they held back.

use super::connections::{Connection, Passed};
use crate::sharing::Sharing;
use std::collections::BTreeMap;
use syncline_net_api::activity::{Activity, Recent};
use syncline_net_api::{Contention, LinkUse, Owner};
use syncline_units::{Bytes, LinkId, Time};

/// Messages that a port has delayed.
#[derive(Clone, Copy, Debug, Default)]
struct Delayed {
    messages: u64,
    bytes: u64,
    /// Sum of their delays.
    delay: Time,
}

/// Accounts of all ports.
#[derive(Debug)]
pub(super) struct Accounts {
    /// Indexed by port.
    uses: Vec<LinkUse>,
    /// By port and owner.
    contention: BTreeMap<(u32, Owner), Delayed>,
    activity: Activity,
    recents: Vec<Recent>,
    /// Up to when activity is recorded, and what each port had carried by then.
    booked: Time,
    carried: Vec<u128>,
}

impl Accounts {
    pub(super) fn new(ports: usize) -> Self {
        Self {
            uses: vec![LinkUse::default(); ports],
            contention: BTreeMap::new(),
            activity: Activity::new(ports),
            recents: vec![Recent::default(); ports],
            booked: Time::ZERO,
            carried: vec![0; ports],
        }
    }

    /// Returns what ports did, indexed by port.
    pub(super) fn uses(&self) -> &[LinkUse] {
        &self.uses
    }

    pub(super) fn activity(&mut self) -> &mut Activity {
        &mut self.activity
    }

    /// Counts a complete message. A message has `whole` parts.
    pub(super) fn count(&mut self, connection: &Connection, bytes: Bytes, whole: u32) {
        self.count_bytes(connection, bytes, whole);
        for &Passed { port, times, .. } in &connection.links {
            self.uses[port as usize].messages += u64::from(times);
        }
    }

    /// Counts bytes of a message that may be incomplete.
    pub(super) fn count_bytes(&mut self, connection: &Connection, bytes: Bytes, whole: u32) {
        for &Passed { port, parts, .. } in &connection.links {
            self.uses[port as usize].bytes += bytes.0 * u64::from(parts) / u64::from(whole);
        }
    }

    /// Records that a message was complete `delay` later at this port than it would have been alone.
    pub(super) fn delay(&mut self, port: u32, owner: Owner, bytes: Bytes, delay: Time) {
        let used = &mut self.uses[port as usize];
        used.waited = used.waited.saturating_add(delay);
        let delayed = self.contention.entry((port, owner)).or_default();
        delayed.messages += 1;
        delayed.bytes += bytes.0;
        delayed.delay = delayed.delay.saturating_add(delay);
    }

    /// Returns which messages were delayed where; `links` are the links of the ports.
    pub(super) fn contention(&self, links: &[LinkId]) -> Vec<Contention> {
        let row = |(&(port, owner), &Delayed { messages, bytes, delay }): (&(u32, Owner), &Delayed)| {
            Contention { link: links[port as usize], owner, messages, bytes, delay }
        };
        self.contention.iter().map(row).collect()
    }

    /// Records what links carried up to `now`, slice by slice; rates have not changed since the last call.
    /// `idle` says that nothing has been in flight since the slice recorded last.
    pub(super) fn book(&mut self, sharing: &mut Sharing, now: Time, idle: bool) {
        if self.activity.is_stopped() {
            return;
        }
        while self.booked < now {
            let until = self.activity.slice_end(self.booked);
            if until > now {
                return;
            }
            self.book_slice(sharing, until);
            // The slice in which the last messages ended is recorded; nothing was sent after it.
            if idle {
                self.booked = now;
            }
        }
    }

    /// Records what links carried up to `until`, which is within the current slice.
    fn book_slice(&mut self, sharing: &mut Sharing, until: Time) {
        let from = std::mem::replace(&mut self.booked, until);
        sharing.book_all(until);
        for port in 0..self.uses.len() {
            let carried = sharing.carried(port as u32);
            let more = carried - std::mem::replace(&mut self.carried[port], carried);
            let busy = sharing.busy(port as u32, more).0.min(until.0 - from.0);
            if busy > 0 {
                self.activity.book(port, &mut self.recents[port], from, Time(from.0 + busy));
            }
        }
    }

    /// Records activity up to `now`, and nothing from then on.
    pub(super) fn stop(&mut self, sharing: &mut Sharing, now: Time, idle: bool) {
        if !self.activity.is_stopped() {
            self.book(sharing, now, idle);
            if self.booked < now {
                self.book_slice(sharing, now);
            }
        }
        self.activity.stop(now, self.recents.iter_mut());
    }

    #[cfg(test)]
    pub(super) fn uses_mut(&mut self) -> &mut [LinkUse] {
        &mut self.uses
    }
}
