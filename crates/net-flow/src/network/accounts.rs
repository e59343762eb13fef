//! What links carried, when they were busy, and whose messages they held back.

use super::connections::{Connection, Passed};
use crate::sharing::Sharing;
use std::collections::BTreeMap;
use syncline_engine::activity::{Activity, Recent};
use syncline_engine::{Contention, LinkUse, Owner};
use syncline_units::{Bytes, LinkId, Time};

/// Accounts of all ports.
#[derive(Debug)]
pub(super) struct Accounts {
    /// By port.
    uses: Vec<LinkUse>,
    /// Messages of an owner whose bottleneck a port was, their bytes, and their delays.
    contention: BTreeMap<(u32, Owner), (u64, u64, Time)>,
    activity: Activity,
    recents: Vec<Recent>,
    /// Up to when activity is booked, and what each port had carried then.
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

    /// What ports did, by number.
    pub(super) fn uses(&self) -> &[LinkUse] {
        &self.uses
    }

    pub(super) fn activity(&mut self) -> &mut Activity {
        &mut self.activity
    }

    /// Counts a message that is through, of which `whole` parts make one.
    pub(super) fn count(&mut self, connection: &Connection, bytes: Bytes, whole: u32) {
        self.count_bytes(connection, bytes, whole);
        for &Passed { port, times, .. } in &connection.links {
            self.uses[port as usize].messages += u64::from(times);
        }
    }

    /// Counts bytes of a message that may not be through.
    pub(super) fn count_bytes(&mut self, connection: &Connection, bytes: Bytes, whole: u32) {
        for &Passed { port, parts, .. } in &connection.links {
            self.uses[port as usize].bytes += bytes.0 * u64::from(parts) / u64::from(whole);
        }
    }

    /// A message was through so much later at this port than it would have been alone.
    pub(super) fn delay(&mut self, port: u32, owner: Owner, bytes: Bytes, delay: Time) {
        let used = &mut self.uses[port as usize];
        used.waited = used.waited.saturating_add(delay);
        let (messages, sum, delays) = self.contention.entry((port, owner)).or_default();
        *messages += 1;
        *sum += bytes.0;
        *delays = delays.saturating_add(delay);
    }

    /// Who was delayed where; `links` are those of the ports.
    pub(super) fn contention(&self, links: &[LinkId]) -> Vec<Contention> {
        let told = |(&(port, owner), &(messages, bytes, delay)): (&(u32, Owner), &(u64, u64, Time))| {
            Contention { link: links[port as usize], owner, messages, bytes, delay }
        };
        self.contention.iter().map(told).collect()
    }

    /// Books what links carried up to `now`, slice by slice: until then rates are as they are. `idle` says that nothing has
    /// been under way since the slice that was booked last.
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
            // What the last messages had in the slice in which they ended is booked; nothing came after it.
            if idle {
                self.booked = now;
            }
        }
    }

    /// Books what links carried up to `until`, which is not beyond the slice.
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

    /// Books activity up to `now`, and none from then on.
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
