//! What came in before anybody wanted it.

use crate::memory::Buffer;
use std::collections::BTreeMap;

/// Operation, chunk, rank that it comes from, number of the message.
pub(super) type Key = (u64, u32, u32, u16);

/// Messages that wait for their step, whole or still coming in.
#[derive(Debug, Default)]
pub(super) struct Early {
    messages: BTreeMap<Key, (usize, Option<Buffer>)>,
    bytes: BTreeMap<u32, usize>,
}

impl Early {
    /// Whether the message has come or is coming in.
    pub(super) fn awaits(&self, key: Key) -> bool {
        self.messages.contains_key(&key)
    }

    /// Whether the message is there.
    pub(super) fn has(&self, key: Key) -> bool {
        self.messages.get(&key).is_some_and(|(_, buffer)| buffer.is_some())
    }

    /// That a message of `length` bytes is coming in.
    pub(super) fn expect(&mut self, key: Key, length: usize) {
        *self.bytes.entry(key.2).or_default() += length;
        self.messages.insert(key, (length, None));
    }

    /// That a message is there.
    pub(super) fn put(&mut self, key: Key, buffer: Buffer) {
        if let Some((_, place)) = self.messages.get_mut(&key) {
            *place = Some(buffer);
        }
    }

    /// Takes a message that is there.
    pub(super) fn take(&mut self, key: Key) -> Option<Buffer> {
        let (length, buffer) = self.messages.get_mut(&key)?;
        let buffer = buffer.take()?;
        *self.bytes.entry(key.2).or_default() -= *length;
        self.messages.remove(&key);
        Some(buffer)
    }

    /// Bytes of messages from a rank.
    pub(super) fn bytes(&self, rank: u32) -> usize {
        self.bytes.get(&rank).copied().unwrap_or(0)
    }
}
