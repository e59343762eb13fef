//! The congestion-aware backend: one dimension with directed links. A message passes as a whole over one link
//! after the other. A busy link queues messages first in, first out. ASTRA-sim 2,
//! `congestion_aware/network/Link.cpp`.

use super::channel::Sent;
use super::{bytes_per_ns, whole_ns};
use crate::slab::Slab;
use crate::table::Table;
use syncline_formats::astra2::{NetworkFile, Topology};

/// A message in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Message {
    /// Its channel.
    pub(crate) channel: u32,
    /// What the sender waits for.
    pub(crate) sent: Sent,
    dst: u32,
    /// The device where it is, or to which it is travelling.
    at: u32,
    bytes: u64,
    /// The next message that waits for the same link.
    next: Option<u32>,
}

/// A directed link.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    busy: bool,
    first: Option<u32>,
    last: Option<u32>,
}

/// What happens next to a message that starts to cross a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) message: u32,
    pub(crate) link: u32,
    /// Nanoseconds until it arrives at the other end.
    pub(crate) arrival: u64,
    /// Nanoseconds until the link is free.
    pub(crate) free: u64,
}

/// The congestion-aware network.
pub(crate) struct Aware {
    topology: Topology,
    npus: u32,
    latency: f64,
    rate: f64,
    links: Vec<Link>,
    /// Links of a fully connected network by `(from, to)`, created on first use.
    pairs: Table<(u32, u32)>,
    messages: Slab<Message>,
}

impl Aware {
    /// Returns `None` unless there is exactly one dimension.
    pub(crate) fn new(network: &NetworkFile) -> Option<Self> {
        let [dim] = network.dims.as_slice() else { return None };
        let links = match dim.topology {
            Topology::FullyConnected => 0,
            Topology::Ring | Topology::Switch => 2 * dim.npus as usize,
        };
        Some(Self {
            topology: dim.topology,
            npus: dim.npus,
            latency: dim.latency,
            rate: bytes_per_ns(dim),
            links: vec![Link::default(); links],
            pairs: Table::new(),
            messages: Slab::new(),
        })
    }

    /// Puts a message on its first link; `None` if it must wait.
    pub(crate) fn send(&mut self, channel: u32, sent: Sent, src: u32, dst: u32, bytes: u64) -> Option<Start> {
        let message = self.messages.insert(Message { channel, sent, dst, at: src, bytes, next: None });
        self.hop(message)
    }

    /// Returns a message that reached a device, if that is its destination.
    pub(crate) fn arrived(&mut self, message: u32) -> Option<Message> {
        let at = &self.messages[message];
        (at.at == at.dst).then(|| self.messages.remove(message))
    }

    /// Puts a message on its next link; `None` if it must wait.
    pub(crate) fn hop(&mut self, message: u32) -> Option<Start> {
        let number = self.next_link(message);
        let link = &mut self.links[number as usize];
        if !link.busy {
            return Some(self.start(number, message));
        }
        match link.last.replace(message) {
            Some(last) => self.messages[last].next = Some(message),
            None => link.first = Some(message),
        }
        None
    }

    /// Frees a link, and starts the message that waits for it.
    pub(crate) fn free(&mut self, number: u32) -> Option<Start> {
        let link = &mut self.links[number as usize];
        link.busy = false;
        let message = link.first?;
        link.first = self.messages[message].next.take();
        if link.first.is_none() {
            link.last = None;
        }
        Some(self.start(number, message))
    }

    fn start(&mut self, link: u32, message: u32) -> Start {
        self.links[link as usize].busy = true;
        let serialisation = self.messages[message].bytes as f64 / self.rate;
        Start {
            message,
            link,
            arrival: whole_ns(self.latency + serialisation),
            free: whole_ns(serialisation),
        }
    }

    /// Moves a message to the next device on its path and returns the link to it. Rings use the shorter
    /// direction, or clockwise if both are equal; from then on clockwise is the shorter one.
    fn next_link(&mut self, message: u32) -> u32 {
        let npus = self.npus;
        let message = &mut self.messages[message];
        let (at, dst) = (message.at, message.dst);
        match self.topology {
            Topology::Ring => {
                let clockwise = if dst > at { dst - at } else { dst + npus - at };
                if npus - clockwise < clockwise {
                    message.at = if at == 0 { npus - 1 } else { at - 1 };
                    2 * at + 1
                } else {
                    message.at = if at + 1 == npus { 0 } else { at + 1 };
                    2 * at
                }
            }
            Topology::FullyConnected => {
                message.at = dst;
                let (number, new) = self.pairs.find_or_insert((at, dst), self.links.len() as u32);
                if new {
                    self.links.push(Link::default());
                }
                number
            }
            Topology::Switch if at == npus => {
                message.at = dst;
                npus + dst
            }
            Topology::Switch => {
                message.at = npus;
                at
            }
        }
    }
}
