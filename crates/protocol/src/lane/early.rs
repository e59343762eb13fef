//! Messages that arrived before they were needed.

use super::started::OperationId;
use crate::extract::take_out;
use crate::memory::{Buffer, Pool};
use std::collections::BTreeMap;

/// Identifies a message of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MessageKey {
    pub operation: OperationId,
    pub chunk: u32,
    /// The rank that sends the message.
    pub rank: u32,
    pub number: u16,
}

/// A message that has arrived, or is arriving.
#[derive(Debug)]
struct EarlyMessage {
    length: usize,
    /// None while it is arriving.
    content: Option<Buffer>,
}

/// Messages that wait for their step. They have arrived, or are arriving.
#[derive(Debug, Default)]
pub(super) struct Early {
    messages: BTreeMap<MessageKey, EarlyMessage>,
    /// Bytes of these messages by sending rank.
    by_rank: BTreeMap<u32, usize>,
    bytes: usize,
    most: usize,
}

impl Early {
    /// Whether a message has arrived or is arriving.
    pub(super) fn awaits(&self, key: MessageKey) -> bool {
        self.messages.contains_key(&key)
    }

    /// Whether a message has arrived.
    pub(super) fn has(&self, key: MessageKey) -> bool {
        self.messages.get(&key).is_some_and(|message| message.content.is_some())
    }

    /// Adds a message of `length` bytes that is arriving. Returns the bytes that there are now from its rank.
    pub(super) fn expect(&mut self, key: MessageKey, length: usize) -> usize {
        let of_rank = self.by_rank.entry(key.rank).or_default();
        *of_rank += length;
        let of_rank = *of_rank;
        self.bytes += length;
        self.most = self.most.max(self.bytes);
        self.messages.insert(key, EarlyMessage { length, content: None });
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
    pub(super) fn put(&mut self, key: MessageKey, buffer: Buffer) {
        if let Some(message) = self.messages.get_mut(&key) {
            message.content = Some(buffer);
        }
    }

    /// Removes a message that has arrived, and returns it.
    pub(super) fn take(&mut self, key: MessageKey) -> Option<Buffer> {
        let message = self.messages.get_mut(&key)?;
        let (length, buffer) = (message.length, message.content.take()?);
        self.less(key.rank, length);
        self.messages.remove(&key);
        Some(buffer)
    }

    /// Forgets the messages of a group, by its number on this rank. Those that are still arriving are not stored.
    pub(super) fn forget(&mut self, group: u32, pool: &mut Pool) {
        for (key, EarlyMessage { length, content }) in
            take_out(&mut self.messages, |key, _| key.operation.group == group)
        {
            self.less(key.rank, length);
            content.into_iter().for_each(|buffer| pool.give(buffer));
        }
    }

    /// Bytes of messages from all ranks.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The most bytes that there have been.
    pub(super) fn most_bytes(&self) -> usize {
        self.most
    }
}
