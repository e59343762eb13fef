//! Transfers of one lane: bytes that one rank sends and another receives, matched by group, sender and tag, in their order.
//!
//! The sender offers a transfer. Once the receiver awaits it, it asks, and the bytes go from the sender's memory right to the
//! receiver's, in [pieces](PIECE) that take turns with what plans send: few of them wait on a connection at a time. Small
//! transfers of applications come with their offers, and are kept until they are awaited.
//!
//! What a peer may offer ahead is bounded, in transfers ([`MOST_OFFERS`]) and in bytes that came with offers ([`KEPT`]). The
//! receiver says when they are kept no longer, and does not believe a sender that exceeds the bound. What exceeds it waits in
//! the sender's own memory.

use crate::extract::take_out;
use crate::fault::Broken;
use crate::link::{Landing, Link, Owner};
use crate::memory::{Buffer, Pool, Region};
use crate::wire::{Digest, Header, Kind};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most bytes of a transfer that comes with its offer.
pub const SMALL: usize = 64 << 10;

/// Most bytes that came with offers of one peer and are kept.
pub const KEPT: usize = 1 << 20;

/// Most transfers that one peer has offered and that nobody awaits.
pub const MOST_OFFERS: u32 = 4096;

/// Bytes of every piece of a transfer but the last.
pub const PIECE: usize = 128 << 10;

/// Most pieces of asked transfers that wait to be written to one peer: what plans send meanwhile waits behind no more.
const MOST_PIECES: u32 = 2;

/// When it is said what is kept no longer: so many transfers, or so many bytes.
const TAKEN: (u32, usize) = (16, 128 << 10);

/// The [owner](Owner) of a piece: its first part has [`OWNER`] and flags, its second the piece's number, its third the
/// transfer's. The first part of a plan's message is less than `OWNER`.
const OWNER: u64 = !(LAST | UNASKED);

/// Flag of the last piece of a transfer.
const LAST: u64 = 1;

/// Flag of a piece that the receiver did not ask for.
const UNASKED: u64 = 2;

/// Whether an owner is that of a piece, and not of a plan's message.
pub(super) fn is_piece((owner, ..): Owner) -> bool {
    owner >= OWNER
}

/// What a transfer is matched by, beside its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    /// The group, by the number that all its members have for it; 0 for all members of the job.
    pub group: u64,
    /// 0 for applications; every other number is one collective's own, which has no small transfers: both sides learn
    /// where lengths differ.
    pub space: u64,
    /// The application's tag.
    pub tag: i64,
}

impl Label {
    /// Bytes of an offer: the label and a length.
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
    /// This rank's own number of it.
    pub id: u64,
    /// What it is matched by.
    pub label: Label,
    /// The other member of the job; none for a receive from any.
    pub peer: Option<u32>,
    /// What is sent, or where it goes.
    pub region: Region,
}

/// A sender and a receiver that mean different lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The member that is the other side.
    pub peer: u32,
    /// Bytes that are sent.
    pub sent: u64,
    /// Bytes that are expected.
    pub expected: u64,
}

/// What became of a transfer: the member at the other side, or why nothing came.
pub type Delivery = (u64, Result<u32, Mismatch>);

/// What a transfer needs of its lane.
pub(super) struct Setting<'a> {
    pub links: &'a mut [Link],
    pub epoch: u16,
    pub pool: &'a mut Pool,
}

impl Setting<'_> {
    fn header(&self, kind: Kind, sequence: u32, chunk: u32) -> Header {
        Header { kind, epoch: self.epoch, sequence, chunk }
    }

    /// Sends a frame that is not a piece.
    fn say(&mut self, peer: u32, (kind, sequence, chunk): (Kind, u32, u32), payload: &[u8]) {
        let header = self.header(kind, sequence, chunk);
        self.links[peer as usize].urge(header, payload);
    }
}

/// Where an incoming transfer goes.
#[derive(Debug)]
enum Place {
    /// To whoever awaits it.
    Awaited(Transfer),
    /// Aside, until somebody does, or to who does meanwhile.
    Aside(Option<Transfer>),
    /// Nowhere: who awaited it does no longer.
    Nowhere,
}

/// A transfer whose pieces come in.
#[derive(Debug)]
struct Coming {
    label: Label,
    length: u64,
    /// Whether it came with its offer.
    small: bool,
    /// The next piece.
    next: u32,
    place: Place,
}

/// What a peer has offered and nobody awaits yet.
#[derive(Debug)]
struct Offer {
    peer: u32,
    number: u32,
    length: u64,
    /// What came with it: nothing, something that is still coming in, or all of it.
    content: Option<Option<Buffer>>,
}

impl Coming {
    /// Whether it counts as kept, and somebody awaits it: once it is there it is kept no longer.
    fn awaited(&self) -> bool {
        self.small && matches!(self.place, Place::Awaited(_) | Place::Aside(Some(_)))
    }
}

impl Offer {
    /// Whether all of it has come.
    fn is_here(&self) -> bool {
        matches!(self.content, Some(Some(_)))
    }

    /// Bytes that are kept of it.
    fn kept(&self) -> usize {
        if self.content.is_some() { self.length as usize } else { 0 }
    }
}

/// A send that was asked for: its next piece.
#[derive(Debug)]
struct Moving {
    number: u32,
    transfer: Transfer,
    next: u32,
}

/// Transfers to and from one peer.
#[derive(Debug, Default)]
struct Peer {
    /// Sends that wait until the peer keeps less.
    queued: VecDeque<Transfer>,
    /// Sends that were offered and not asked for; none where they were withdrawn meanwhile. With their groups.
    offered: BTreeMap<u32, (u64, Option<Transfer>)>,
    moving: VecDeque<Moving>,
    /// Sends whose last pieces are queued.
    leaving: BTreeMap<u32, Transfer>,
    /// Pieces of asked sends that wait to be written.
    pieces: u32,
    /// The tag of a send whose memory changed before its last piece was written.
    changed: Option<i64>,
    /// The number of the next offer.
    next: u32,
    /// What the peer keeps, as far as is known here.
    spent: u32,
    spent_bytes: usize,
    /// Transfers whose pieces come in.
    coming: BTreeMap<u32, Coming>,
    /// The number of the peer's next offer.
    come: u32,
    /// What is kept of the peer here, and what it has not been told to be kept no longer.
    kept: u32,
    kept_bytes: usize,
    taken: u32,
    taken_bytes: usize,
}

/// All transfers of a lane.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    peers: Vec<Peer>,
    offers: BTreeMap<Label, VecDeque<Offer>>,
    awaited: BTreeMap<Label, VecDeque<Transfer>>,
    /// Groups that this rank has left, and members that may still send something of them.
    left: BTreeMap<u64, BTreeSet<u32>>,
    delivered: VecDeque<Delivery>,
    /// Bytes that came with offers and are kept.
    kept: usize,
}

/// Number of pieces of a transfer.
fn pieces(length: u64) -> u64 {
    length.div_ceil(PIECE as u64)
}

/// Which of its bytes a piece has.
fn piece(number: u32, length: u64) -> std::ops::Range<usize> {
    let start = u64::from(number) * PIECE as u64;
    start as usize..(start + PIECE as u64).min(length) as usize
}

impl Transfers {
    pub(super) fn new(members: u32) -> Self {
        Self { peers: (0..members).map(|_| Peer::default()).collect(), ..Self::default() }
    }

    /// What became of the next transfer that is over.
    pub(super) fn delivered(&mut self) -> Option<Delivery> {
        self.delivered.pop_front()
    }

    /// Sends something.
    pub(super) fn send(&mut self, setting: &mut Setting<'_>, transfer: Transfer) {
        let Some(to) = transfer.peer else { return };
        self.peers[to as usize].queued.push_back(transfer);
        self.offer(setting, to);
    }

    /// Offers what waits for it, as long as the peer may keep more.
    fn offer(&mut self, setting: &mut Setting<'_>, to: u32) {
        let peer = &mut self.peers[to as usize];
        while peer.spent < MOST_OFFERS
            && let Some(transfer) = peer.queued.pop_front()
        {
            let Transfer { id, label, region, .. } = transfer;
            let number = peer.next;
            peer.next = peer.next.wrapping_add(1);
            peer.spent += 1;
            let room = SMALL.min(KEPT - peer.spent_bytes);
            let small = label.space == 0 && region.len() <= room;
            let payload = label.encode(region.len() as u64);
            setting.say(to, (Kind::Offer, number, u32::from(small)), &payload);
            if !small {
                peer.offered.insert(number, (label.group, Some(transfer)));
            } else if region.is_empty() {
                self.delivered.push_back((id, Ok(to)));
            } else {
                peer.spent_bytes += region.len();
                peer.leaving.insert(number, transfer);
                let header = setting.header(Kind::Piece, number, 0);
                setting.links[to as usize].piece(header, region, (OWNER | LAST | UNASKED, 0, number));
            }
        }
    }

    /// Queues pieces of what was asked for, of one send after the other.
    fn pump(&mut self, setting: &mut Setting<'_>, to: u32) {
        let peer = &mut self.peers[to as usize];
        while peer.pieces < MOST_PIECES
            && let Some(Moving { number, transfer, next }) = peer.moving.pop_front()
        {
            let length = transfer.region.len() as u64;
            let header = setting.header(Kind::Piece, number, next);
            let region = transfer.region.part(piece(next, length));
            let last = u64::from(next) + 1 == pieces(length);
            setting.links[to as usize].piece(
                header,
                region,
                (OWNER | if last { LAST } else { 0 }, next, number),
            );
            peer.pieces += 1;
            if last {
                peer.leaving.insert(number, transfer);
            } else {
                peer.moving.push_back(Moving { number, transfer, next: next + 1 });
            }
        }
    }

    /// That a piece is written.
    pub(super) fn written(&mut self, setting: &mut Setting<'_>, to: u32, owner: Owner) {
        let (what, index, number) = owner;
        let peer = &mut self.peers[to as usize];
        if what & UNASKED == 0 {
            peer.pieces -= 1;
        }
        if what & LAST != 0
            && let Some(transfer) = peer.leaving.remove(&number)
        {
            // The caller may write to the memory from now on, so this is the last chance to find an earlier write.
            let sent = transfer.region.part(piece(index, transfer.region.len() as u64));
            let digest = setting.links[to as usize].trail().rev().find(|&(each, _)| each == owner);
            if digest.is_some_and(|(_, digest)| Digest::of_region(sent) != digest) {
                peer.changed = Some(transfer.label.tag);
            }
            self.delivered.push_back((transfer.id, Ok(to)));
        }
        self.pump(setting, to);
    }

    /// The tag of a send to a peer whose memory has changed since its piece got this digest.
    pub(super) fn changed(&self, to: u32, (_, index, number): Owner, digest: Digest) -> Option<i64> {
        let peer = &self.peers[to as usize];
        let moving = peer.moving.iter().find(|each| each.number == number).map(|each| &each.transfer);
        let transfer = moving.or_else(|| peer.leaving.get(&number));
        let differs = |transfer: &&Transfer| {
            let sent = transfer.region.part(piece(index, transfer.region.len() as u64));
            Digest::of_region(sent) != digest
        };
        transfer.filter(differs).map(|transfer| transfer.label.tag).or(peer.changed)
    }

    /// Awaits something.
    pub(super) fn receive(&mut self, setting: &mut Setting<'_>, transfer: Transfer) {
        let offers = self.offers.get_mut(&transfer.label);
        let fits = |offer: &Offer| transfer.peer.is_none_or(|peer| peer == offer.peer);
        let found = offers.and_then(|offers| {
            let place = offers.iter().position(fits)?;
            offers.remove(place)
        });
        let Some(offer) = found else {
            self.awaited.entry(transfer.label).or_default().push_back(transfer);
            return;
        };
        self.tidy(transfer.label);
        self.pair(setting, offer, transfer);
    }

    /// Awaits something no longer, unless it has begun to come in; whether it does not.
    pub(super) fn withdraw(&mut self, label: Label, id: u64) -> bool {
        let Some(awaited) = self.awaited.get_mut(&label) else { return false };
        let before = awaited.len();
        awaited.retain(|transfer| transfer.id != id);
        let gone = awaited.len() < before;
        self.tidy(label);
        gone
    }

    /// Forgets lists that are empty.
    fn tidy(&mut self, label: Label) {
        if self.offers.get(&label).is_some_and(VecDeque::is_empty) {
            self.offers.remove(&label);
        }
        if self.awaited.get(&label).is_some_and(VecDeque::is_empty) {
            self.awaited.remove(&label);
        }
    }

    /// Brings an offer and who awaits it together.
    fn pair(&mut self, setting: &mut Setting<'_>, offer: Offer, transfer: Transfer) {
        let Offer { peer: from, number, length, content } = offer;
        let peer = &mut self.peers[from as usize];
        let expected = transfer.region.len() as u64;
        let asks = content.is_none();
        let outcome =
            if length == expected { Ok(from) } else { Err(Mismatch { peer: from, sent: length, expected }) };
        match content {
            None if outcome.is_err() => {
                setting.say(from, (Kind::Refuse, number, 0), &expected.to_le_bytes());
            }
            None => {
                setting.say(from, (Kind::Ask, number, 0), &[]);
                if length > 0 {
                    let place = Place::Awaited(transfer);
                    let label = transfer.label;
                    peer.coming.insert(number, Coming { label, length, small: false, next: 0, place });
                }
            }
            // It is told once it is all there.
            Some(None) => {
                if let Some(coming) = peer.coming.get_mut(&number) {
                    coming.place = Place::Aside(Some(transfer));
                }
                return;
            }
            Some(Some(mut buffer)) => {
                if outcome.is_ok() {
                    transfer.region.copy_from(buffer.region());
                }
                setting.pool.give(buffer);
            }
        }
        if asks {
            // Ask and refusal say themselves that it is kept no longer.
            peer.kept -= 1;
        } else {
            self.taken(setting, from, length as usize);
        }
        if !asks || length == 0 || outcome.is_err() {
            self.delivered.push_back((transfer.id, outcome));
        }
    }

    /// An offer is kept no longer, nor are the bytes that came with it. The peer is told, not each time.
    fn taken(&mut self, setting: &mut Setting<'_>, from: u32, bytes: usize) {
        let peer = &mut self.peers[from as usize];
        peer.kept -= 1;
        peer.kept_bytes -= bytes;
        self.kept -= bytes;
        peer.taken += 1;
        peer.taken_bytes += bytes;
        if peer.taken >= TAKEN.0 || peer.taken_bytes >= TAKEN.1 {
            let (taken, bytes) = (std::mem::take(&mut peer.taken), std::mem::take(&mut peer.taken_bytes));
            setting.say(from, (Kind::Taken, taken, bytes as u32), &[]);
        }
    }

    /// A peer offers something.
    pub(super) fn offered(
        &mut self,
        setting: &mut Setting<'_>,
        from: u32,
        header: Header,
        payload: &[u8],
    ) -> Result<(), Broken> {
        let unknown = Broken::Unknown(header);
        let (label, length) = Label::decode(payload.try_into().map_err(|_| unknown.clone())?);
        let (number, small) = (header.sequence, header.chunk == 1);
        let peer = &mut self.peers[from as usize];
        let bytes = if small { length } else { 0 };
        // Untold credit is the peer's, as far as it knows.
        let kept = (peer.kept + peer.taken, (peer.kept_bytes + peer.taken_bytes) as u64);
        let fits = number == peer.come && header.chunk <= 1 && kept.0 < MOST_OFFERS;
        let long = length > 1 << 48 || pieces(length) > u64::from(u32::MAX);
        if !fits
            || long
            || (small && (label.space != 0 || length > SMALL as u64 || kept.1 + bytes > KEPT as u64))
        {
            return Err(unknown);
        }
        peer.come = peer.come.wrapping_add(1);
        peer.kept += 1;
        peer.kept_bytes += bytes as usize;
        self.kept += bytes as usize;
        let content = small.then(|| (length == 0).then(|| Buffer::new(0)));
        let coming = matches!(content, Some(None));
        let come = |place| Coming { label, length, small, next: 0, place };
        if self.left.contains_key(&label.group) {
            if coming {
                peer.coming.insert(number, come(Place::Nowhere));
            }
            self.taken(setting, from, bytes as usize);
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
                self.tidy(label);
                if !coming {
                    self.pair(setting, offer, transfer);
                    return Ok(());
                }
                let fits = length == transfer.region.len() as u64;
                // What fits goes right to its place.
                let place = if fits { Place::Awaited(transfer) } else { Place::Aside(Some(transfer)) };
                self.peers[from as usize].coming.insert(number, come(place));
            }
            None => {
                if coming {
                    self.peers[from as usize].coming.insert(number, come(Place::Aside(None)));
                }
                self.offers.entry(label).or_default().push_back(offer);
            }
        }
        Ok(())
    }

    /// A peer asks for what was offered.
    pub(super) fn asked(&mut self, setting: &mut Setting<'_>, to: u32, header: Header) -> Result<(), Broken> {
        let peer = &mut self.peers[to as usize];
        let (_, transfer) = peer.offered.remove(&header.sequence).ok_or(Broken::Unknown(header))?;
        peer.spent -= 1;
        if let Some(transfer) = transfer {
            if transfer.region.is_empty() {
                self.delivered.push_back((transfer.id, Ok(to)));
            } else {
                peer.moving.push_back(Moving { number: header.sequence, transfer, next: 0 });
                self.pump(setting, to);
            }
        }
        self.offer(setting, to);
        Ok(())
    }

    /// A peer refuses what was offered: it expects another length.
    pub(super) fn refused(
        &mut self,
        setting: &mut Setting<'_>,
        to: u32,
        header: Header,
        payload: &[u8],
    ) -> Result<(), Broken> {
        let unknown = Broken::Unknown(header);
        let expected = u64::from_le_bytes(payload.try_into().map_err(|_| unknown.clone())?);
        let peer = &mut self.peers[to as usize];
        let (_, transfer) = peer.offered.remove(&header.sequence).ok_or(unknown)?;
        peer.spent -= 1;
        if let Some(transfer) = transfer {
            let mismatch = Mismatch { peer: to, sent: transfer.region.len() as u64, expected };
            self.delivered.push_back((transfer.id, Err(mismatch)));
        }
        self.offer(setting, to);
        Ok(())
    }

    /// A peer keeps something no longer.
    pub(super) fn has_taken(
        &mut self,
        setting: &mut Setting<'_>,
        to: u32,
        header: Header,
    ) -> Result<(), Broken> {
        let peer = &mut self.peers[to as usize];
        let (taken, bytes) = (header.sequence, header.chunk as usize);
        if taken > peer.spent || bytes > peer.spent_bytes {
            return Err(Broken::Unknown(header));
        }
        peer.spent -= taken;
        peer.spent_bytes -= bytes;
        self.offer(setting, to);
        Ok(())
    }

    /// Where a piece goes that is about to come in, and how long it is.
    pub(super) fn landing(
        &mut self,
        from: u32,
        header: Header,
        pool: &mut Pool,
    ) -> Result<(usize, Landing), Broken> {
        let coming = self.peers[from as usize].coming.get_mut(&header.sequence);
        let coming = coming.filter(|coming| coming.next == header.chunk).ok_or(Broken::Unknown(header))?;
        let range = piece(coming.next, coming.length);
        coming.next += 1;
        let length = range.len();
        let landing = match &coming.place {
            Place::Awaited(transfer) => Landing::Put(transfer.region.part(range)),
            Place::Aside(_) => Landing::Aside(pool.take(length)),
            Place::Nowhere => Landing::Nothing,
        };
        Ok((length, landing))
    }

    /// A piece has come in.
    pub(super) fn arrived(&mut self, setting: &mut Setting<'_>, from: u32, header: Header, landing: Landing) {
        let peer = &mut self.peers[from as usize];
        let Some(coming) = peer.coming.get(&header.sequence) else { return };
        if u64::from(coming.next) < pieces(coming.length) {
            return;
        }
        let Some(Coming { label, length, small, place, .. }) = peer.coming.remove(&header.sequence) else {
            return;
        };
        match (place, landing) {
            (Place::Awaited(transfer), _) => {
                if small {
                    self.taken(setting, from, length as usize);
                }
                self.delivered.push_back((transfer.id, Ok(from)));
            }
            (Place::Aside(None), Landing::Aside(buffer)) => {
                let offers = self.offers.get_mut(&label).into_iter().flatten();
                let mut offer = offers.filter(|each| (each.peer, each.number) == (from, header.sequence));
                if let Some(offer) = offer.next() {
                    offer.content = Some(Some(buffer));
                }
            }
            (Place::Aside(Some(transfer)), Landing::Aside(buffer)) => {
                let offer =
                    Offer { peer: from, number: header.sequence, length, content: Some(Some(buffer)) };
                self.pair(setting, offer, transfer);
            }
            _ => {}
        }
    }

    /// This rank leaves a group: nothing of it touches callers' memory any more. Members of it that are `here` may still send
    /// something, which nobody awaits.
    pub(super) fn leave(&mut self, setting: &mut Setting<'_>, group: u64, here: BTreeSet<u32>) {
        self.awaited.retain(|label, _| label.group != group);
        // What was kept is kept no longer.
        let offers = take_out(&mut self.offers, |label, _| label.group == group);
        let offers = offers.into_iter().flat_map(|(_, offers)| offers);
        let mut taken: Vec<(u32, usize)> = offers.map(|offer| (offer.peer, offer.kept())).collect();
        for from in 0..self.peers.len() as u32 {
            let peer = &mut self.peers[from as usize];
            for coming in peer.coming.values_mut().filter(|coming| coming.label.group == group) {
                taken.extend(coming.awaited().then_some((from, coming.length as usize)));
                coming.place = Place::Nowhere;
            }
            let coming = &peer.coming;
            setting.links[from as usize].divert(|header| {
                let of = |coming: &Coming| coming.label.group == group;
                header.kind == Kind::Piece && coming.get(&header.sequence).is_some_and(of)
            });
            for (_, transfer) in peer.offered.values_mut().filter(|(of, _)| *of == group) {
                *transfer = None;
            }
            self.stop(setting, from, group);
        }
        taken.into_iter().for_each(|(from, bytes)| self.taken(setting, from, bytes));
        if !here.is_empty() {
            self.left.insert(group, here);
        }
    }

    /// Whether something that is to be received is here already, all of it.
    pub(super) fn has_come(&self, transfer: &Transfer) -> bool {
        let fits = |offer: &Offer| transfer.peer.is_none_or(|peer| peer == offer.peer) && offer.is_here();
        self.offers.get(&transfer.label).is_some_and(|offers| offers.iter().any(fits))
    }

    /// A peer has left a group: it sends nothing of it any more, and takes nothing. What has come of it stays to be received,
    /// where this rank takes part in the group.
    pub(super) fn has_left(&mut self, setting: &mut Setting<'_>, from: u32, group: u64, takes_part: bool) {
        if let Some(here) = self.left.get_mut(&group) {
            here.remove(&from);
            if here.is_empty() {
                self.left.remove(&group);
            }
        }
        let mut taken = Vec::new();
        for (_, offers) in self.offers.iter_mut().filter(|(label, _)| label.group == group) {
            offers.retain(|offer| {
                let stays = offer.peer != from || (takes_part && offer.is_here());
                taken.extend((!stays).then(|| offer.kept()));
                stays
            });
        }
        self.offers.retain(|_, offers| !offers.is_empty());
        let peer = &mut self.peers[from as usize];
        for (_, coming) in take_out(&mut peer.coming, |_, coming| coming.label.group == group) {
            taken.extend(coming.awaited().then_some(coming.length as usize));
        }
        peer.offered.retain(|_, (of, _)| *of != group);
        self.stop(setting, from, group);
        taken.into_iter().for_each(|bytes| self.taken(setting, from, bytes));
        self.offer(setting, from);
    }

    /// Sends a peer nothing more of a group, and gives memory back that is still to be written.
    fn stop(&mut self, setting: &mut Setting<'_>, to: u32, group: u64) {
        let peer = &mut self.peers[to as usize];
        let of = |transfer: &Transfer| transfer.label.group == group;
        let moving = peer.moving.iter().filter(|each| of(&each.transfer)).map(|each| each.number);
        let leaving = peer.leaving.iter().filter(|(_, each)| of(each)).map(|(&number, _)| number);
        let sent: BTreeSet<u32> = moving.chain(leaving).collect();
        peer.queued.retain(|each| !of(each));
        peer.moving.retain(|each| !of(&each.transfer));
        peer.leaving.retain(|_, each| !of(each));
        let whose = |owner: Owner| is_piece(owner) && sent.contains(&owner.2);
        let link = &mut setting.links[to as usize];
        let gone = link.discard(whose);
        peer.pieces -= gone.iter().filter(|(what, ..)| what & UNASKED == 0).count() as u32;
        link.keep(whose);
        self.pump(setting, to);
    }

    /// Whether a transfer of a group, or of any, needs a member. What is awaited from any member needs one that is the
    /// last other of its group.
    pub(super) fn need(&self, rank: u32, group: Option<u64>, is_last: impl Fn(u64) -> bool) -> bool {
        let of = |label: Label| group.is_none_or(|group| label.group == group);
        let from = |transfer: &Transfer| {
            transfer.peer.map_or_else(|| is_last(transfer.label.group), |peer| peer == rank)
        };
        let peer = &self.peers[rank as usize];
        let comes = |place: &Place| matches!(place, Place::Awaited(_) | Place::Aside(Some(_)));
        self.awaited.iter().any(|(&label, awaited)| of(label) && awaited.iter().any(from))
            || peer.queued.iter().any(|each| of(each.label))
            || peer.offered.values().any(|(_, each)| each.is_some_and(|each| of(each.label)))
            || peer.moving.iter().any(|each| of(each.transfer.label))
            || peer.leaving.values().any(|each| of(each.label))
            || peer.coming.values().any(|each| of(each.label) && comes(&each.place))
    }

    /// Bytes that came with offers and are kept.
    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    /// Gives up: nothing touches callers' memory any more.
    pub(super) fn abort(&mut self) {
        *self = Self::new(self.peers.len() as u32);
    }
}
