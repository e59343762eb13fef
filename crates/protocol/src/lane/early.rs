//! Messages that arrived before they were needed.

use crate::extract::take_out;
use crate::memory::{Buffer, Pool};
use std::collections::BTreeMap;

/// Operation (its [key](super::key)), chunk, rank that sends the message, number of the message.
pub(super) type Key = (u64, u32, u32, u16);

/// Messages that wait for their step. They have arrived, or are arriving.
#[derive(Debug, Default)]
pub(super) struct Early {
    messages: BTreeMap<Key, (usize, Option<Buffer>)>,
    /// Bytes of these messages by sending rank.
    by_rank: BTreeMap<u32, usize>,
    bytes: usize,
    most: usize,
}

impl Early {
    /// Whether a message has arrived or is arriving.
    pub(super) fn awaits(&self, key: Key) -> bool {
        self.messages.contains_key(&key)
    }

    /// Whether a message has arrived.
    pub(super) fn has(&self, key: Key) -> bool {
        self.messages.get(&key).is_some_and(|(_, buffer)| buffer.is_some())
    }

    /// Adds a message of `length` bytes that is arriving. Returns the bytes that there are now from its rank.
    pub(super) fn expect(&mut self, key: Key, length: usize) -> usize {
        let of_rank = self.by_rank.entry(key.2).or_default();
        *of_rank += length;
        let of_rank = *of_rank;
        self.bytes += length;
        self.most = self.most.max(self.bytes);
        self.messages.insert(key, (length, None));
        of_rank
    }

    /// Subtracts a message that was removed.
    fn less(&mut self, rank: u32, length: usize) {
        self.bytes -= length;
        if let Some(of_rank) = self.by_rank.get_mut(&rank) {
            *of_rank -= length;
        }
    }

    /// Stores a message that has arrived.
    pub(super) fn put(&mut self, key: Key, buffer: Buffer) {
        if let Some((_, place)) = self.messages.get_mut(&key) {
            *place = Some(buffer);
        }
    }

    /// Removes a message that has arrived, and returns it.
    pub(super) fn take(&mut self, key: Key) -> Option<Buffer> {
        let (length, buffer) = self.messages.get_mut(&key)?;
        let (length, buffer) = (*length, buffer.take()?);
        self.less(key.2, length);
        self.messages.remove(&key);
        Some(buffer)
    }

    /// Forgets the messages of operations with these keys. Those that are still arriving are not stored.
    pub(super) fn forget(&mut self, keys: &std::ops::Range<u64>, pool: &mut Pool) {
        for (key, (length, buffer)) in take_out(&mut self.messages, |(key, ..), _| keys.contains(key)) {
            self.less(key.2, length);
            buffer.into_iter().for_each(|buffer| pool.give(buffer));
        }
    }

    /// Bytes of messages from all ranks, and the most that there have been.
    pub(super) fn bytes(&self) -> (usize, usize) {
        (self.bytes, self.most)
    }
}
