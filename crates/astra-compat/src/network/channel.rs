//! Matches arrivals with receives: the k-th send with a given tag, sender, receiver and size matches the k-th
//! receive with the same. ASTRA-sim 2, `CallbackTracker.cc`, `ChunkIdGenerator.cc`.
//!
//! Messages of one channel never overtake each other, so counting is enough: a channel stores waiting
//! receives or unclaimed arrivals, never both. A channel with nothing in flight is deleted.

use crate::slab::Slab;
use crate::table::{self, Table};

/// What identifies a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Channel {
    pub(crate) tag: u32,
    pub(crate) src: u32,
    pub(crate) dst: u32,
    pub(crate) bytes: u64,
}

impl table::Key for Channel {
    #[inline]
    fn bits(&self) -> u64 {
        let pair = u64::from(self.src) << 32 | u64::from(self.dst);
        (pair.wrapping_mul(0x9fb2_1c65_1e98_df25) ^ u64::from(self.tag))
            .wrapping_mul(0xd6e8_feb8_6659_fd93)
            .rotate_left(29)
            ^ self.bytes
    }
}

/// What happens at the sender when its message has arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Nothing.
    #[default]
    Unheeded,
    /// A send node of the sender's trace completes.
    Node(u32),
    /// A send of a stream's custom algorithm completes.
    Custom { stream: u32, node: u32 },
    /// The receiver's half of a rendezvous is complete: this deferred receive can be posted.
    Rendezvous(u32),
}

/// What waits for a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Awaits {
    #[default]
    Nobody,
    /// A chunk of a collective.
    Stream(u32),
    /// A receive node of the receiver's trace.
    Node(u32),
    /// A receive of a stream's custom algorithm.
    Custom { stream: u32, node: u32 },
    /// The sender's half of a rendezvous: this deferred send can start.
    Rendezvous(u32),
}

/// A waiting receive.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    awaits: Awaits,
    next: Option<u32>,
}

/// The state of a channel with messages in flight or waiting receives.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    channel: Channel,
    under_way: u32,
    /// Arrivals without a receive so far.
    unclaimed: u32,
    first: Option<u32>,
    last: Option<u32>,
}

/// All channels.
pub(crate) struct Channels {
    table: Table<Channel>,
    states: Slab<State>,
    waiting: Slab<Waiting>,
}

impl Channels {
    pub(crate) const fn new() -> Self {
        Self { table: Table::new(), states: Slab::new(), waiting: Slab::new() }
    }

    #[inline]
    fn find(&mut self, channel: Channel) -> u32 {
        let fresh = self.states.insert(State { channel, ..State::default() });
        let (number, new) = self.table.find_or_insert(channel, fresh);
        if !new {
            self.states.remove(fresh);
        }
        number
    }

    #[inline]
    fn forget_if_idle(&mut self, number: u32) {
        let state = &self.states[number];
        if state.under_way == 0 && state.unclaimed == 0 && state.first.is_none() {
            self.table.remove(state.channel);
            self.states.remove(number);
        }
    }

    /// Counts a message as in flight and returns the channel's number.
    #[inline]
    pub(crate) fn send(&mut self, channel: Channel) -> u32 {
        let number = self.find(channel);
        self.states[number].under_way += 1;
        number
    }

    /// Handles an arrival. Returns its channel and what was waiting for it, if anything.
    #[inline]
    pub(crate) fn arrive(&mut self, number: u32) -> (Channel, Option<Awaits>) {
        let state = &mut self.states[number];
        state.under_way -= 1;
        let channel = state.channel;
        let Some(first) = state.first else {
            state.unclaimed += 1;
            return (channel, None);
        };
        let waiting = self.waiting.remove(first);
        state.first = waiting.next;
        if state.first.is_none() {
            state.last = None;
        }
        self.forget_if_idle(number);
        (channel, Some(waiting.awaits))
    }

    /// Posts a receive. Returns whether its message has already arrived.
    #[inline]
    pub(crate) fn receive(&mut self, channel: Channel, awaits: Awaits) -> bool {
        let number = self.find(channel);
        let state = &mut self.states[number];
        if state.unclaimed > 0 {
            state.unclaimed -= 1;
            self.forget_if_idle(number);
            return true;
        }
        let waiting = self.waiting.insert(Waiting { awaits, next: None });
        match state.last.replace(waiting) {
            Some(last) => self.waiting[last].next = Some(waiting),
            None => state.first = Some(waiting),
        }
        false
    }

    /// Returns every waiting receive, by channel, in order.
    pub(crate) fn all_waiting(&self) -> Vec<(Channel, Awaits)> {
        let mut all = Vec::new();
        for state in self.states.places() {
            let mut next = state.first;
            while let Some(number) = next {
                let waiting = self.waiting[number];
                all.push((state.channel, waiting.awaits));
                next = waiting.next;
            }
        }
        all.sort_by_key(|&(channel, _)| (channel.dst, channel.src, channel.tag, channel.bytes));
        all
    }
}
