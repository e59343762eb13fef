//! A connection: messages between the same two ends, served in the order in which they came.

use std::collections::VecDeque;

/// Messages that share one rate: the oldest is served, the others wait.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    /// Rate per unit of the level.
    pub(super) weight: u64,
    /// Service received since it was opened, per unit of weight, is this plus the service of its bottleneck.
    pub(super) offset: u128,
    /// The service of its bottleneck at which the oldest message is complete; [`u128::MAX`] without messages.
    first: u128,
    /// Service received when it was last recorded on its links.
    pub(super) booked: u128,
    /// Service received when the oldest message began to be served.
    began: u128,
    /// For each message, the service at which it is complete; oldest first.
    queue: VecDeque<(u128, u32)>,
}

impl Connection {
    /// A connection that has received no service.
    pub(super) fn new(weight: u64) -> Self {
        Self { weight, offset: 0, first: u128::MAX, booked: 0, began: 0, queue: VecDeque::new() }
    }

    /// Resets it, without messages.
    pub(super) fn reset(&mut self, weight: u64) {
        debug_assert!(self.is_idle());
        (self.weight, self.offset, self.first, self.booked) = (weight, 0, u128::MAX, 0);
    }

    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.first == u128::MAX
    }

    /// Returns the service of its bottleneck at which the oldest message is complete; [`u128::MAX`] without
    /// messages.
    #[inline]
    pub(super) fn first(&self) -> u128 {
        self.first
    }

    /// Appends a message that needs `need`. If it is the only one, its service begins once the connection has
    /// received `had`.
    pub(super) fn append(&mut self, had: u128, need: u128, message: u32) {
        if let Some(&(end, _)) = self.queue.back() {
            self.queue.push_back((end + need, message));
        } else {
            self.began = had;
            self.queue.push_back((had + need, message));
            self.look();
        }
    }

    /// Removes the oldest message if it is complete at this service of the bottleneck. The next one follows
    /// at once.
    #[inline]
    pub(super) fn take(&mut self, service: u128) -> Option<u32> {
        if self.first > service {
            return None;
        }
        let (end, message) = self.queue.pop_front()?;
        self.began = end;
        self.look();
        Some(message)
    }

    /// Moves it to another bottleneck, whose service is `new` while that of the last one is `old`.
    #[inline]
    pub(super) fn hand_over(&mut self, old: u128, new: u128) {
        self.offset = self.offset.wrapping_add(old).wrapping_sub(new);
        self.look();
    }

    fn look(&mut self) {
        self.first = self.queue.front().map_or(u128::MAX, |&(end, _)| end.wrapping_sub(self.offset));
    }

    /// Returns the service of the oldest message, given that of the connection.
    pub(super) fn served(&self, had: u128) -> u128 {
        self.queue.front().map_or(0, |&(end, _)| had.min(end).saturating_sub(self.began))
    }
}
