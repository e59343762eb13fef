//! The transfers of one lane: bytes that one rank sends and another receives, matched in order by group, sender and
//! tag.
//!
//! The sender offers a transfer. A large one is a *rendezvous*: once the receiver has a matching receive, it asks for
//! the bytes, and these go directly from the sender's memory to the receiver's. They go in [pieces](PIECE) that
//! alternate with the frames of plans; only a few pieces wait on a connection at a time. A small transfer of an
//! application is *eager*: its bytes come with its offer, and are kept until they are received.
//!
//! What a peer may offer ahead is limited, both in transfers ([`MAX_OFFERS`]) and in bytes that come with offers
//! ([`KEPT`]). The receiver reports what it has stopped keeping, and treats a sender that exceeds a limit as faulty.
//! Sends above the limits wait in the sender's memory.

use super::connections::Connections;
use super::frame_owner::{FrameOwner, Piece};
use crate::extract::take_out;
use crate::fault::ProtocolError;
use crate::link::Landing;
use crate::memory::{Buffer, Pool, Region};
use crate::wire::{Digest, FrameKind, Header};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most bytes of an eager transfer.
pub const EAGER: usize = 64 << 10;

/// Most bytes that came with a peer's offers and are kept.
pub const KEPT: usize = 1 << 20;

/// Most transfers that a peer has offered and that no receive has matched.
pub const MAX_OFFERS: u32 = 4096;

/// Bytes of every piece of a transfer except the last.
pub const PIECE: usize = 128 << 10;

/// Most pieces of transfers that wait to be written to a peer. Frames of plans thus wait behind no more than these.
const MAX_PIECES: u32 = 2;

/// The receiver reports what it has stopped keeping once it is this many transfers, or [`REPORTED_BYTES`].
const REPORTED_TRANSFERS: u32 = 16;

/// The receiver reports what it has stopped keeping once it is this many bytes, or [`REPORTED_TRANSFERS`].
const REPORTED_BYTES: usize = 128 << 10;

/// What transfers are matched by, besides the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    /// The group's id, which is the same on all its members; 0 for the whole job.
    pub group: u64,
    /// 0 for application messages; otherwise the number of one collective. Transfers of a collective are never eager,
    /// so both sides report a length mismatch.
    pub space: u64,
    /// The application's tag.
    pub tag: i64,
}

impl Label {
    /// Bytes of an offer's payload: the label and a length.
    pub(super) const OFFER: usize = 32;

    fn encode(self, length: u64) -> [u8; Self::OFFER] {
        let mut bytes = [0; Self::OFFER];
        bytes[0..8].copy_from_slice(&self.group.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.space.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.tag.to_le_bytes());
        bytes[24..32].copy_from_slice(&length.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; Self::OFFER]) -> (Self, u64) {
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        (Self { group: long(0), space: long(8), tag: long(16).cast_signed() }, long(24))
    }
}

/// A send or a receive of this rank.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// This rank's number of the transfer.
    pub id: u64,
    /// What the transfer is matched by.
    pub label: Label,
    /// The other member of the job; none for a receive from any member.
    pub peer: Option<u32>,
    /// The bytes to send, or where to put those received.
    pub region: Region,
}

/// Sender and receiver have different lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The member at the other side.
    pub peer: u32,
    /// Bytes that the sender sends.
    pub sent: u64,
    /// Bytes that the receiver expects.
    pub expected: u64,
}

/// A transfer that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Its number ([`Transfer::id`]).
    pub id: u64,
    /// The member at the other side, or why the transfer failed.
    pub outcome: Result<u32, Mismatch>,
}

/// Where an incoming transfer goes.
#[derive(Debug)]
enum Place {
    /// To the receive that it matches.
    Awaited(Transfer),
    /// Into a buffer, until a receive matches it; to that receive, if one already does.
    Aside(Option<Transfer>),
    /// Nowhere: its receive was withdrawn, or its group left.
    Nowhere,
}

/// A transfer whose pieces are arriving.
#[derive(Debug)]
struct Arriving {
    label: Label,
    length: u64,
    /// Whether it comes with its offer.
    small: bool,
    /// The index of the next piece.
    next: u32,
    place: Place,
}

/// The bytes that come with an offer.
#[derive(Debug)]
enum Content {
    /// There are none: the receiver asks for the transfer.
    OnRequest,
    /// They are arriving.
    Arriving,
    /// They have arrived.
    Here(Buffer),
}

/// An offer of a peer that no receive has matched.
#[derive(Debug)]
struct Offer {
    peer: u32,
    number: u32,
    length: u64,
    content: Content,
}

impl Arriving {
    /// Whether it counts as kept and a receive matches it, so that it will not be kept once it has arrived.
    fn awaited(&self) -> bool {
        self.small && matches!(self.place, Place::Awaited(_) | Place::Aside(Some(_)))
    }
}

impl Offer {
    /// Whether all its bytes have arrived.
    fn is_here(&self) -> bool {
        matches!(self.content, Content::Here(_))
    }

    /// Bytes that are kept of it.
    fn kept(&self) -> usize {
        if matches!(self.content, Content::OnRequest) { 0 } else { self.length as usize }
    }
}

/// A send that the receiver has asked for, and the index of its next piece.
#[derive(Debug)]
struct Moving {
    number: u32,
    transfer: Transfer,
    next: u32,
}

/// A send that was offered to the receiver.
#[derive(Debug)]
struct OfferedSend {
    /// The id of its group.
    group: u64,
    /// None if the group was left meanwhile.
    transfer: Option<Transfer>,
}

/// Transfers to and from one peer.
#[derive(Debug, Default)]
struct Peer {
    /// Sends that wait until the peer keeps less.
    queued: VecDeque<Transfer>,
    /// Sends that were offered and not asked for yet.
    offered: BTreeMap<u32, OfferedSend>,
    moving: VecDeque<Moving>,
    /// Sends whose last pieces are queued or being written.
    leaving: BTreeMap<u32, Transfer>,
    /// Pieces of sends that were asked for and wait to be written.
    pieces: u32,
    /// The tag of a send whose memory changed before its last piece was written.
    changed: Option<i64>,
    /// The number of the next offer to the peer.
    next: u32,
    /// Transfers and bytes of this rank that the peer keeps, as far as is known here.
    used: u32,
    used_bytes: usize,
    /// Transfers whose pieces are arriving.
    arriving: BTreeMap<u32, Arriving>,
    /// The number of the peer's next offer.
    next_from_peer: u32,
    /// Transfers and bytes of the peer that are kept here, and those no longer kept that are not yet reported to
    /// the peer.
    kept: u32,
    kept_bytes: usize,
    unreported: u32,
    unreported_bytes: usize,
}

/// All transfers of a lane.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    peers: Vec<Peer>,
    offers: BTreeMap<Label, VecDeque<Offer>>,
    awaited: BTreeMap<Label, VecDeque<Transfer>>,
    /// Groups that this rank has left, and the members that may still send something of them.
    left: BTreeMap<u64, BTreeSet<u32>>,
    delivered: VecDeque<Delivery>,
    /// Bytes that came with offers and are kept.
    kept: usize,
}

/// Number of pieces of a transfer.
fn pieces(length: u64) -> u64 {
    length.div_ceil(PIECE as u64)
}

/// The range of bytes of a piece.
fn piece(number: u32, length: u64) -> std::ops::Range<usize> {
    let start = u64::from(number) * PIECE as u64;
    start as usize..(start + PIECE as u64).min(length) as usize
}

impl Transfers {
    pub(super) fn new(members: u32) -> Self {
        Self { peers: (0..members).map(|_| Peer::default()).collect(), ..Self::default() }
    }

    /// The result of the next transfer that has ended.
    pub(super) fn delivered(&mut self) -> Option<Delivery> {
        self.delivered.pop_front()
    }

    /// Begins a send.
    pub(super) fn send(&mut self, connections: &mut Connections, transfer: Transfer) {
        let Some(to) = transfer.peer else { return };
        self.peers[to as usize].queued.push_back(transfer);
        self.offer(connections, to);
    }

    /// Offers the sends that wait, while the peer may keep more.
    fn offer(&mut self, connections: &mut Connections, to: u32) {
        let peer = &mut self.peers[to as usize];
        while peer.used < MAX_OFFERS
            && let Some(transfer) = peer.queued.pop_front()
        {
            let Transfer { id, label, region, .. } = transfer;
            let number = peer.next;
            peer.next = peer.next.wrapping_add(1);
            peer.used += 1;
            let room = EAGER.min(KEPT - peer.used_bytes);
            let small = label.space == 0 && region.len() <= room;
            let payload = label.encode(region.len() as u64);
            let header = connections.header(FrameKind::Offer, number, u32::from(small));
            connections.urge(to, header, &payload);
            if !small {
                let offered = OfferedSend { group: label.group, transfer: Some(transfer) };
                peer.offered.insert(number, offered);
            } else if region.is_empty() {
                self.delivered.push_back(Delivery { id, outcome: Ok(to) });
            } else {
                peer.used_bytes += region.len();
                peer.leaving.insert(number, transfer);
                let header = connections.header(FrameKind::Piece, number, 0);
                let piece = Piece { number, index: 0, last: true, asked: false };
                connections.links.to(to).piece(header, region, FrameOwner::Piece(piece));
            }
        }
    }

    /// Queues pieces of the sends that were asked for, in turn.
    fn queue_pieces(&mut self, connections: &mut Connections, to: u32) {
        let peer = &mut self.peers[to as usize];
        while peer.pieces < MAX_PIECES
            && let Some(Moving { number, transfer, next }) = peer.moving.pop_front()
        {
            let length = transfer.region.len() as u64;
            let header = connections.header(FrameKind::Piece, number, next);
            let region = transfer.region.part(piece(next, length));
            let last = u64::from(next) + 1 == pieces(length);
            let piece = Piece { number, index: next, last, asked: true };
            connections.links.to(to).piece(header, region, FrameOwner::Piece(piece));
            peer.pieces += 1;
            if last {
                peer.leaving.insert(number, transfer);
            } else {
                peer.moving.push_back(Moving { number, transfer, next: next + 1 });
            }
        }
    }

    /// A piece has been written.
    pub(super) fn written(&mut self, connections: &mut Connections, to: u32, written: Piece) {
        let Piece { number, index, last, asked } = written;
        let peer = &mut self.peers[to as usize];
        if asked {
            peer.pieces -= 1;
        }
        if last && let Some(transfer) = peer.leaving.remove(&number) {
            // The caller may write to the memory from now on, so this is the last chance to find an earlier write.
            let sent = transfer.region.part(piece(index, transfer.region.len() as u64));
            let owner = FrameOwner::Piece(written);
            let digest = connections.links[to as usize].sent_digests().rev().find(|&(each, _)| each == owner);
            if digest.is_some_and(|(_, digest)| Digest::of_region(sent) != digest) {
                peer.changed = Some(transfer.label.tag);
            }
            self.delivered.push_back(Delivery { id: transfer.id, outcome: Ok(to) });
        }
        self.queue_pieces(connections, to);
    }

    /// The tag of a send to a peer whose memory has changed since its piece had this digest.
    pub(super) fn changed(&self, to: u32, sent: Piece, digest: Digest) -> Option<i64> {
        let Piece { number, index, .. } = sent;
        let peer = &self.peers[to as usize];
        let moving = peer.moving.iter().find(|each| each.number == number).map(|each| &each.transfer);
        let transfer = moving.or_else(|| peer.leaving.get(&number));
        let differs = |transfer: &&Transfer| {
            let sent = transfer.region.part(piece(index, transfer.region.len() as u64));
            Digest::of_region(sent) != digest
        };
        transfer.filter(differs).map(|transfer| transfer.label.tag).or(peer.changed)
    }

    /// Begins a receive.
    pub(super) fn receive(&mut self, connections: &mut Connections, transfer: Transfer) {
        let offers = self.offers.get_mut(&transfer.label);
        let fits = |offer: &Offer| transfer.peer.is_none_or(|peer| peer == offer.peer);
        let found = offers.and_then(|offers| {
            let place = offers.iter().position(fits)?;
            offers.remove(place)
        });
        let Some(offer) = found else {
            transfer.peer.into_iter().for_each(|peer| connections.links.expect(peer));
            self.awaited.entry(transfer.label).or_default().push_back(transfer);
            return;
        };
        self.remove_empty(transfer.label);
        self.match_offer(connections, offer, transfer);
    }

    /// Withdraws a receive, unless its message has begun to arrive. Returns whether it was withdrawn.
    pub(super) fn withdraw(&mut self, label: Label, id: u64) -> bool {
        let Some(awaited) = self.awaited.get_mut(&label) else { return false };
        let before = awaited.len();
        awaited.retain(|transfer| transfer.id != id);
        let gone = awaited.len() < before;
        self.remove_empty(label);
        gone
    }

    /// Removes empty lists.
    fn remove_empty(&mut self, label: Label) {
        if self.offers.get(&label).is_some_and(VecDeque::is_empty) {
            self.offers.remove(&label);
        }
        if self.awaited.get(&label).is_some_and(VecDeque::is_empty) {
            self.awaited.remove(&label);
        }
    }

    /// Matches an offer with a receive.
    fn match_offer(&mut self, connections: &mut Connections, offer: Offer, transfer: Transfer) {
        let Offer { peer: from, number, length, content } = offer;
        let peer = &mut self.peers[from as usize];
        let expected = transfer.region.len() as u64;
        let asks = matches!(content, Content::OnRequest);
        let outcome =
            if length == expected { Ok(from) } else { Err(Mismatch { peer: from, sent: length, expected }) };
        match content {
            Content::OnRequest if outcome.is_err() => {
                let header = connections.header(FrameKind::Refuse, number, 0);
                connections.urge(from, header, &expected.to_le_bytes());
            }
            Content::OnRequest => {
                let header = connections.header(FrameKind::Ask, number, 0);
                connections.urge(from, header, &[]);
                if length > 0 {
                    let place = Place::Awaited(transfer);
                    let label = transfer.label;
                    peer.arriving.insert(number, Arriving { label, length, small: false, next: 0, place });
                }
            }
            // The receive ends once all bytes have arrived.
            Content::Arriving => {
                if let Some(arriving) = peer.arriving.get_mut(&number) {
                    arriving.place = Place::Aside(Some(transfer));
                }
                return;
            }
            Content::Here(buffer) => {
                if outcome.is_ok() {
                    transfer.region.write(buffer.as_slice());
                }
                connections.pool.give(buffer);
            }
        }
        if asks {
            // `Ask` and `Refuse` tell the peer that its offer is no longer kept.
            peer.kept -= 1;
        } else {
            self.release(connections, from, length as usize);
        }
        if !asks || length == 0 || outcome.is_err() {
            self.delivered.push_back(Delivery { id: transfer.id, outcome });
        }
    }

    /// Stops keeping an offer and the bytes that came with it. Tells the peer once enough have accumulated.
    fn release(&mut self, connections: &mut Connections, from: u32, bytes: usize) {
        let peer = &mut self.peers[from as usize];
        peer.kept -= 1;
        peer.kept_bytes -= bytes;
        self.kept -= bytes;
        peer.unreported += 1;
        peer.unreported_bytes += bytes;
        if peer.unreported >= REPORTED_TRANSFERS || peer.unreported_bytes >= REPORTED_BYTES {
            let (released, bytes) =
                (std::mem::take(&mut peer.unreported), std::mem::take(&mut peer.unreported_bytes));
            let header = connections.header(FrameKind::Taken, released, bytes as u32);
            connections.urge(from, header, &[]);
        }
    }

    /// A peer has offered a transfer.
    pub(super) fn offered(
        &mut self,
        connections: &mut Connections,
        from: u32,
        header: Header,
        payload: &[u8],
    ) -> Result<(), ProtocolError> {
        let unknown = ProtocolError::Unknown(header);
        let (label, length) = Label::decode(payload.try_into().map_err(|_| unknown.clone())?);
        let (number, small) = (header.sequence, header.chunk == 1);
        let peer = &mut self.peers[from as usize];
        let bytes = if small { length } else { 0 };
        // The peer must count what is not yet reported to it as kept.
        let kept = (peer.kept + peer.unreported, (peer.kept_bytes + peer.unreported_bytes) as u64);
        let fits = number == peer.next_from_peer && header.chunk <= 1 && kept.0 < MAX_OFFERS;
        let long = length > 1 << 48 || pieces(length) > u64::from(u32::MAX);
        if !fits
            || long
            || (small && (label.space != 0 || length > EAGER as u64 || kept.1 + bytes > KEPT as u64))
        {
            return Err(unknown);
        }
        peer.next_from_peer = peer.next_from_peer.wrapping_add(1);
        peer.kept += 1;
        peer.kept_bytes += bytes as usize;
        self.kept += bytes as usize;
        let content = match (small, length) {
            (false, _) => Content::OnRequest,
            (true, 0) => Content::Here(Buffer::new(0)),
            (true, _) => Content::Arriving,
        };
        let arriving = matches!(content, Content::Arriving);
        let arrival = |place| Arriving { label, length, small, next: 0, place };
        if self.left.contains_key(&label.group) {
            if arriving {
                peer.arriving.insert(number, arrival(Place::Nowhere));
            }
            self.release(connections, from, bytes as usize);
            return Ok(());
        }
        let awaited = self.awaited.get_mut(&label).and_then(|awaited| {
            let fits = |transfer: &Transfer| transfer.peer.is_none_or(|peer| peer == from);
            let place = awaited.iter().position(fits)?;
            awaited.remove(place)
        });
        let offer = Offer { peer: from, number, length, content };
        match awaited {
            Some(transfer) => {
                self.remove_empty(label);
                if !arriving {
                    self.match_offer(connections, offer, transfer);
                    return Ok(());
                }
                let fits = length == transfer.region.len() as u64;
                // If the lengths are equal, the bytes go directly to their destination.
                let place = if fits { Place::Awaited(transfer) } else { Place::Aside(Some(transfer)) };
                self.peers[from as usize].arriving.insert(number, arrival(place));
            }
            None => {
                if arriving {
                    self.peers[from as usize].arriving.insert(number, arrival(Place::Aside(None)));
                }
                self.offers.entry(label).or_default().push_back(offer);
            }
        }
        Ok(())
    }

    /// A peer has asked for a transfer that was offered to it.
    pub(super) fn asked(
        &mut self,
        connections: &mut Connections,
        to: u32,
        header: Header,
    ) -> Result<(), ProtocolError> {
        let peer = &mut self.peers[to as usize];
        let offered = peer.offered.remove(&header.sequence).ok_or(ProtocolError::Unknown(header))?;
        peer.used -= 1;
        if let Some(transfer) = offered.transfer {
            if transfer.region.is_empty() {
                self.delivered.push_back(Delivery { id: transfer.id, outcome: Ok(to) });
            } else {
                peer.moving.push_back(Moving { number: header.sequence, transfer, next: 0 });
                self.queue_pieces(connections, to);
            }
        }
        self.offer(connections, to);
        Ok(())
    }

    /// A peer has refused a transfer that was offered to it, because it expects another length.
    pub(super) fn refused(
        &mut self,
        connections: &mut Connections,
        to: u32,
        header: Header,
        payload: &[u8],
    ) -> Result<(), ProtocolError> {
        let unknown = ProtocolError::Unknown(header);
        let expected = u64::from_le_bytes(payload.try_into().map_err(|_| unknown.clone())?);
        let peer = &mut self.peers[to as usize];
        let offered = peer.offered.remove(&header.sequence).ok_or(unknown)?;
        peer.used -= 1;
        if let Some(transfer) = offered.transfer {
            let mismatch = Mismatch { peer: to, sent: transfer.region.len() as u64, expected };
            self.delivered.push_back(Delivery { id: transfer.id, outcome: Err(mismatch) });
        }
        self.offer(connections, to);
        Ok(())
    }

    /// A peer has stopped keeping transfers.
    pub(super) fn has_released(
        &mut self,
        connections: &mut Connections,
        to: u32,
        header: Header,
    ) -> Result<(), ProtocolError> {
        let peer = &mut self.peers[to as usize];
        let (released, bytes) = (header.sequence, header.chunk as usize);
        if released > peer.used || bytes > peer.used_bytes {
            return Err(ProtocolError::Unknown(header));
        }
        peer.used -= released;
        peer.used_bytes -= bytes;
        self.offer(connections, to);
        Ok(())
    }

    /// Returns the length and the destination of the payload that follows a piece's header.
    pub(super) fn landing(
        &mut self,
        from: u32,
        header: Header,
        pool: &mut Pool,
    ) -> Result<(usize, Landing), ProtocolError> {
        let arriving = self.peers[from as usize].arriving.get_mut(&header.sequence);
        let arriving = arriving
            .filter(|arriving| arriving.next == header.chunk)
            .ok_or(ProtocolError::Unknown(header))?;
        let range = piece(arriving.next, arriving.length);
        arriving.next += 1;
        let length = range.len();
        let landing = match &arriving.place {
            Place::Awaited(transfer) => Landing::Put(transfer.region.part(range)),
            Place::Aside(_) => Landing::Aside(pool.take(length)),
            Place::Nowhere => Landing::Nothing,
        };
        Ok((length, landing))
    }

    /// A piece has arrived.
    pub(super) fn arrived(
        &mut self,
        connections: &mut Connections,
        from: u32,
        header: Header,
        landing: Landing,
    ) {
        let peer = &mut self.peers[from as usize];
        let Some(arriving) = peer.arriving.get(&header.sequence) else { return };
        if u64::from(arriving.next) < pieces(arriving.length) {
            return;
        }
        let Some(Arriving { label, length, small, place, .. }) = peer.arriving.remove(&header.sequence)
        else {
            return;
        };
        match (place, landing) {
            (Place::Awaited(transfer), _) => {
                if small {
                    self.release(connections, from, length as usize);
                }
                self.delivered.push_back(Delivery { id: transfer.id, outcome: Ok(from) });
            }
            (Place::Aside(None), Landing::Aside(buffer)) => {
                let offers = self.offers.get_mut(&label).into_iter().flatten();
                let mut offer = offers.filter(|each| (each.peer, each.number) == (from, header.sequence));
                if let Some(offer) = offer.next() {
                    offer.content = Content::Here(buffer);
                }
            }
            (Place::Aside(Some(transfer)), Landing::Aside(buffer)) => {
                let offer =
                    Offer { peer: from, number: header.sequence, length, content: Content::Here(buffer) };
                self.match_offer(connections, offer, transfer);
            }
            _ => {}
        }
    }

    /// This rank leaves a group, whose transfers no longer use callers' memory. The members in `here` may still send
    /// something of the group, which is discarded.
    pub(super) fn leave(&mut self, connections: &mut Connections, group: u64, here: BTreeSet<u32>) {
        self.awaited.retain(|label, _| label.group != group);
        // Release what was kept.
        let offers = take_out(&mut self.offers, |label, _| label.group == group);
        let offers = offers.into_iter().flat_map(|(_, offers)| offers);
        let mut released: Vec<(u32, usize)> = offers.map(|offer| (offer.peer, offer.kept())).collect();
        for from in 0..self.peers.len() as u32 {
            let peer = &mut self.peers[from as usize];
            for arriving in peer.arriving.values_mut().filter(|arriving| arriving.label.group == group) {
                released.extend(arriving.awaited().then_some((from, arriving.length as usize)));
                arriving.place = Place::Nowhere;
            }
            let arriving = &peer.arriving;
            connections.links[from as usize].divert(|header| {
                let of = |arriving: &Arriving| arriving.label.group == group;
                header.kind == FrameKind::Piece && arriving.get(&header.sequence).is_some_and(of)
            });
            for offered in peer.offered.values_mut().filter(|offered| offered.group == group) {
                offered.transfer = None;
            }
            self.stop(connections, from, group);
        }
        released.into_iter().for_each(|(from, bytes)| self.release(connections, from, bytes));
        if !here.is_empty() {
            self.left.insert(group, here);
        }
    }

    /// Whether a transfer that matches this receive has arrived completely.
    pub(super) fn has_arrived(&self, transfer: &Transfer) -> bool {
        let fits = |offer: &Offer| transfer.peer.is_none_or(|peer| peer == offer.peer) && offer.is_here();
        self.offers.get(&transfer.label).is_some_and(|offers| offers.iter().any(fits))
    }

    /// A peer has left a group: it sends and takes nothing more of it. If this rank takes part in the group, what has
    /// arrived can still be received.
    pub(super) fn has_left(
        &mut self,
        connections: &mut Connections,
        from: u32,
        group: u64,
        takes_part: bool,
    ) {
        if let Some(here) = self.left.get_mut(&group) {
            here.remove(&from);
            if here.is_empty() {
                self.left.remove(&group);
            }
        }
        let mut released = Vec::new();
        for (_, offers) in self.offers.iter_mut().filter(|(label, _)| label.group == group) {
            offers.retain(|offer| {
                let stays = offer.peer != from || (takes_part && offer.is_here());
                released.extend((!stays).then(|| offer.kept()));
                stays
            });
        }
        self.offers.retain(|_, offers| !offers.is_empty());
        let peer = &mut self.peers[from as usize];
        for (_, arriving) in take_out(&mut peer.arriving, |_, arriving| arriving.label.group == group) {
            released.extend(arriving.awaited().then_some(arriving.length as usize));
        }
        peer.offered.retain(|_, offered| offered.group != group);
        self.stop(connections, from, group);
        released.into_iter().for_each(|bytes| self.release(connections, from, bytes));
        self.offer(connections, from);
    }

    /// Stops sending to a peer what belongs to a group, and copies what is still to be written, so that callers get
    /// their memory back.
    fn stop(&mut self, connections: &mut Connections, to: u32, group: u64) {
        let peer = &mut self.peers[to as usize];
        let of = |transfer: &Transfer| transfer.label.group == group;
        let moving = peer.moving.iter().filter(|each| of(&each.transfer)).map(|each| each.number);
        let leaving = peer.leaving.iter().filter(|(_, each)| of(each)).map(|(&number, _)| number);
        let sent: BTreeSet<u32> = moving.chain(leaving).collect();
        peer.queued.retain(|each| !of(each));
        peer.moving.retain(|each| !of(&each.transfer));
        peer.leaving.retain(|_, each| !of(each));
        let whose =
            |owner: FrameOwner| matches!(owner, FrameOwner::Piece(piece) if sent.contains(&piece.number));
        let link = &mut connections.links[to as usize];
        let gone = link.discard(whose);
        let asked = |owner: &&FrameOwner| matches!(owner, FrameOwner::Piece(piece) if piece.asked);
        peer.pieces -= gone.iter().filter(asked).count() as u32;
        link.keep(whose);
        self.queue_pieces(connections, to);
    }

    /// Whether a transfer, of the given group or of any, needs a member. A receive from any member needs `rank` if
    /// all others of its group have left.
    pub(super) fn need(&self, rank: u32, group: Option<u64>, is_last: impl Fn(u64) -> bool) -> bool {
        let of = |label: Label| group.is_none_or(|group| label.group == group);
        let from = |transfer: &Transfer| {
            transfer.peer.map_or_else(|| is_last(transfer.label.group), |peer| peer == rank)
        };
        let peer = &self.peers[rank as usize];
        let comes = |place: &Place| matches!(place, Place::Awaited(_) | Place::Aside(Some(_)));
        self.awaited.iter().any(|(&label, awaited)| of(label) && awaited.iter().any(from))
            || peer.queued.iter().any(|each| of(each.label))
            || peer.offered.values().any(|each| each.transfer.is_some_and(|transfer| of(transfer.label)))
            || peer.moving.iter().any(|each| of(each.transfer.label))
            || peer.leaving.values().any(|each| of(each.label))
            || peer.arriving.values().any(|each| of(each.label) && comes(&each.place))
    }

    /// Bytes that came with offers and are kept.
    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    /// Aborts all transfers: callers' memory is no longer used.
    pub(super) fn abort(&mut self) {
        *self = Self::new(self.peers.len() as u32);
    }
}
