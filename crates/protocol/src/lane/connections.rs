//! The connections of a lane to the other ranks, and its free buffers.

use super::frame_owner::FrameOwner;
use crate::link::Link;
use crate::memory::Pool;
use crate::wire::{FrameKind, Header};
use std::collections::{BTreeSet, VecDeque};
use std::ops::{Index, IndexMut};

/// A peer with which a lane needs a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedPeer {
    /// The peer's rank.
    pub peer: u32,
    /// Whether frames wait for it. If not, the peer is the one that has something to send.
    pub sends: bool,
}

/// How much a connection to a peer is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    /// Not at all.
    None,
    /// Something from the peer is expected.
    Receives,
    /// Frames wait for the peer.
    Sends,
    /// There is one.
    Connected,
}

/// This rank's ends of the connections to the other ranks. Frames wait in them until there is a connection.
#[derive(Debug)]
pub(super) struct Links {
    /// Indexed by rank; own entry unused.
    list: Vec<Link<FrameOwner>>,
    needs: Vec<Need>,
    /// Whether connections are made when they are first needed.
    on_demand: bool,
    /// Peers whose connections are needed more than the caller of [`Links::next_wanted`] knows.
    wanted: VecDeque<u32>,
    /// Peers whose links may have changed since the last call of [`Links::take_changed`], each once.
    changed: Vec<u32>,
    /// Whether a peer is in that list, by rank.
    has_changed: Vec<bool>,
}

impl Links {
    fn new(world: u32) -> Self {
        Self {
            list: (0..world).map(|_| Link::default()).collect(),
            needs: vec![Need::Connected; world as usize],
            on_demand: false,
            wanted: VecDeque::new(),
            changed: Vec::new(),
            has_changed: vec![false; world as usize],
        }
    }

    /// Notes that a link may have changed.
    fn change(&mut self, peer: usize) {
        if !std::mem::replace(&mut self.has_changed[peer], true) {
            self.changed.push(peer as u32);
        }
    }

    /// Adds the peers whose links may have changed since the last call.
    pub(super) fn take_changed(&mut self, peers: &mut BTreeSet<u32>) {
        for peer in self.changed.drain(..) {
            self.has_changed[peer as usize] = false;
            peers.insert(peer);
        }
    }

    /// From now on no peer is connected. Connections are made when they are first needed.
    pub(super) fn connect_on_demand(&mut self) {
        (self.on_demand, self.needs) = (true, vec![Need::None; self.list.len()]);
    }

    /// Whether connections are made when they are first needed.
    pub(super) fn on_demand(&self) -> bool {
        self.on_demand
    }

    /// Notes that a peer is connected.
    pub(super) fn connected(&mut self, peer: u32) {
        self.needs[peer as usize] = Need::Connected;
    }

    /// The link to a peer, for a frame to it.
    pub(super) fn to(&mut self, peer: u32) -> &mut Link<FrameOwner> {
        self.need(peer, Need::Sends);
        &mut self[peer as usize]
    }

    /// Notes that something from a peer is expected.
    pub(super) fn expect(&mut self, peer: u32) {
        self.need(peer, Need::Receives);
    }

    fn need(&mut self, peer: u32, need: Need) {
        let known = &mut self.needs[peer as usize];
        if *known < need {
            *known = need;
            self.wanted.push_back(peer);
        }
    }

    /// The next peer with which a connection is needed more than returned before.
    pub(super) fn next_wanted(&mut self) -> Option<WantedPeer> {
        loop {
            let peer = self.wanted.pop_front()?;
            let need = self.needs[peer as usize];
            if need != Need::Connected {
                return Some(WantedPeer { peer, sends: need == Need::Sends });
            }
        }
    }

    /// The peers for which frames wait, and which are not connected.
    pub(super) fn unconnected(&self) -> impl Iterator<Item = u32> {
        let links = (0u32..).zip(self.needs.iter().zip(&self.list));
        links.filter(|(_, (need, link))| **need == Need::Sends && link.waiting() > 0).map(|(peer, _)| peer)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Link<FrameOwner>> {
        self.list.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Link<FrameOwner>> {
        self.list.iter_mut()
    }
}

impl Index<usize> for Links {
    type Output = Link<FrameOwner>;

    fn index(&self, peer: usize) -> &Self::Output {
        &self.list[peer]
    }
}

impl IndexMut<usize> for Links {
    fn index_mut(&mut self, peer: usize) -> &mut Self::Output {
        self.change(peer);
        &mut self.list[peer]
    }
}

/// The connections of a lane to the other ranks.
#[derive(Debug)]
pub(super) struct Connections {
    pub links: Links,
    /// The epoch of all frames.
    pub epoch: u16,
    pub pool: Pool,
}

impl Connections {
    /// Creates the connections of a rank in a job of `world` ranks.
    pub(super) fn new(world: u32, epoch: u16) -> Self {
        Self { links: Links::new(world), epoch, pool: Pool::default() }
    }

    pub(super) fn header(&self, kind: FrameKind, sequence: u32, chunk: u32) -> Header {
        Header { kind, epoch: self.epoch, sequence, chunk }
    }

    /// Queues an urgent frame, which is not a piece.
    pub(super) fn urge(&mut self, peer: u32, header: Header, payload: &[u8]) {
        self.links.to(peer).urge(header, payload);
    }

    /// Queues an urgent frame that is only its kind.
    pub(super) fn signal(&mut self, peer: u32, kind: FrameKind) {
        self.urge(peer, self.header(kind, 0, 0), &[]);
    }
}
