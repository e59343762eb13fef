//! One connection to a peer, without the connection: frames that wait to be written, and bytes that become frames.
//!
//! A transport asks [`Link::gather`] for bytes to write and says with [`Link::sent`] how many it wrote; it gives bytes that
//! it read to [`Link::take`], or reads them right where they belong, where [`Link::direct`] says that it may.
//!
//! Frames wait in three queues: those of plans, in their order, which the peer may [hold](Link::hold); pieces of transfers,
//! which take turns with them; and urgent ones, which overtake both. A frame gets its place on the connection when it is about
//! to be written.

#![allow(unsafe_code)]

use crate::fault::Broken;
use crate::memory::{Buffer, Region};
use crate::operation::Asked;
use crate::wire::{Checksum, Digest, HEADER, Header};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;
use syncline_reduction::{Element, Reduction};

/// Bytes of the longest frame that is not a message.
const HEAD: usize = HEADER + Asked::ENCODED;

/// Bytes that are gathered at once, and some more: payloads are summed right before they are written, so that a core has both
/// to do with what is in its cache.
const GATHERED: usize = 256 << 10;

/// Whose message it was: job, chunk and step.
pub type Owner = (u64, u32, u32);

/// Messages of which it is remembered what was sent: as many as may be on their way.
const REMEMBERED: usize = 1 << 10;

/// A frame that waits to be written.
#[derive(Debug)]
struct Outgoing {
    head: [u8; HEAD],
    head_length: usize,
    payload: Region,
    owner: Option<Owner>,
    /// The buffer that the payload lies in, where that is not memory of an operation.
    kept: Option<Arc<Buffer>>,
    header: Header,
    /// Of its payload, where it is known.
    digest: Option<Digest>,
}

impl Outgoing {
    fn len(&self) -> usize {
        self.head_length + self.payload.len()
    }

    /// Gives it its header, for its place on the connection. Whose a message is, and what is sent of it, if that is summed.
    fn close(&mut self, place: u32, checked: bool) -> Option<(Owner, Digest)> {
        let summed = checked || !self.header.kind.carries();
        let digest = match summed {
            true => self.digest.unwrap_or_else(|| Digest::of_region(self.payload)),
            false => Digest::NOTHING,
        };
        self.head[..HEADER].copy_from_slice(&self.header.encode_with(place, digest));
        self.owner.zip(checked.then_some(digest))
    }

    /// Gives its owner's memory back: what is still to be written of it is copied.
    fn keep(&mut self) {
        if self.kept.is_none() && !self.payload.is_empty() {
            let mut kept = Buffer::new(self.payload.len());
            self.payload.read(kept.as_mut_slice());
            self.payload = kept.reading();
            self.kept = Some(Arc::new(kept));
        }
    }
}

/// Where a payload goes.
#[derive(Debug)]
pub enum Landing {
    /// Nowhere: there is none.
    Nothing,
    /// Aside, until it is wanted.
    Aside(Buffer),
    /// To its place, which it overwrites.
    Put(Region),
    /// To its place, where it is combined with what is there as it comes.
    Combine(Region, Element, Reduction),
}

impl Landing {
    /// Where bytes may be put as they come.
    fn place(&mut self) -> Option<Region> {
        match self {
            Self::Aside(buffer) => Some(buffer.region()),
            Self::Put(place) => Some(*place),
            Self::Nothing | Self::Combine(..) => None,
        }
    }
}

/// What has come in of the next frame.
#[derive(Debug)]
enum Incoming {
    Header {
        bytes: [u8; HEADER],
        have: usize,
    },
    /// The header is complete, and nobody has said yet where the payload goes.
    Asked(Header, Checksum),
    Payload(Payload),
}

#[derive(Debug)]
struct Payload {
    header: Header,
    checksum: Checksum,
    /// Whether the payload is part of it.
    summed: bool,
    landing: Landing,
    length: usize,
    got: usize,
    /// The beginning of an element of which the rest is still to come.
    carry: [u8; 8],
}

/// Something that came in.
#[derive(Debug)]
pub enum Event {
    /// A header; [`Link::land`] says where its payload goes.
    Header(Header),
    /// A whole frame, with its payload where it was to go.
    Frame(Header, Landing),
}

/// Frames that wait for their places, and their bytes.
#[derive(Debug, Default)]
struct Queue {
    frames: VecDeque<Outgoing>,
    bytes: usize,
}

impl Queue {
    fn push(&mut self, frame: Outgoing) {
        self.bytes += frame.len();
        self.frames.push_back(frame);
    }

    fn retain(&mut self, stays: impl Fn(&Outgoing) -> bool) {
        self.frames.retain(stays);
        self.bytes = self.frames.iter().map(Outgoing::len).sum();
    }

    fn pop(&mut self) -> Option<Outgoing> {
        let frame = self.frames.pop_front()?;
        self.bytes -= frame.len();
        Some(frame)
    }
}

/// One connection to a peer.
#[derive(Debug)]
pub struct Link {
    /// Frames that have their places, and bytes that are still to be written of them.
    outgoing: VecDeque<Outgoing>,
    placed: usize,
    /// Bytes of the first frame that are written.
    written: usize,
    /// Frames that have none yet.
    urgent: Queue,
    pieces: Queue,
    plans: Queue,
    /// Whether a piece went last, where there are both.
    turn: bool,
    /// Whether the peer holds those of plans.
    held: bool,
    incoming: Incoming,
    /// Frames that have had their places, and whose headers have come, ever; it wraps.
    places: u32,
    come: u32,
    /// Whether messages' payloads are summed, too, or headers alone.
    checked: bool,
    /// What was sent of late, as it was when it got its checksum.
    trail: VecDeque<(Owner, Digest)>,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            outgoing: VecDeque::new(),
            placed: 0,
            written: 0,
            urgent: Queue::default(),
            pieces: Queue::default(),
            plans: Queue::default(),
            turn: false,
            held: false,
            incoming: Incoming::Header { bytes: [0; HEADER], have: 0 },
            places: 0,
            come: 0,
            checked: true,
            trail: VecDeque::new(),
        }
    }
}

impl Link {
    /// Payloads of messages have no checksums, on either side: whatever carries them keeps them as they are. Nothing has been
    /// written yet.
    pub fn believe(&mut self) {
        self.checked = false;
    }

    /// Whether they have.
    pub fn checked(&self) -> bool {
        self.checked
    }

    /// Queues a message whose payload lies in a region until it is written.
    pub fn message(&mut self, header: Header, payload: Region, owner: Owner) {
        self.plans.push(Self::frame(header, payload, None, owner));
    }

    /// Queues a message whose payload is a buffer that others may share, and whose digest may be known.
    pub fn shared_message(
        &mut self,
        header: Header,
        payload: Arc<Buffer>,
        digest: Option<Digest>,
        owner: Owner,
    ) {
        let frame = Self::frame(header, payload.reading(), digest, owner);
        self.plans.push(Outgoing { kept: Some(payload), ..frame });
    }

    /// Queues a piece of a transfer that lies in a region until it is written, in turn with what plans send.
    pub fn piece(&mut self, header: Header, payload: Region, owner: Owner) {
        self.pieces.push(Self::frame(header, payload, None, owner));
    }

    fn frame(header: Header, payload: Region, digest: Option<Digest>, owner: Owner) -> Outgoing {
        let head = [0; HEAD];
        Outgoing { head, head_length: HEADER, payload, owner: Some(owner), kept: None, header, digest }
    }

    /// Queues another frame, behind messages of plans.
    pub fn control(&mut self, header: Header, payload: &[u8]) {
        self.plans.push(Self::whole(header, payload));
    }

    /// Queues a frame without a payload that says that nothing follows of what plans send, as far as `whose` says so of its
    /// headers: what waits of it is dropped, and the frame waits for nothing that the peer holds. `owner` learns when it is
    /// written.
    pub fn end(&mut self, header: Header, owner: Owner, whose: impl Fn(Header) -> bool) {
        self.plans.retain(|frame| !whose(frame.header));
        self.urgent.push(Outgoing { owner: Some(owner), ..Self::whole(header, &[]) });
    }

    /// Queues another frame, to be written before all that waits.
    pub fn urge(&mut self, header: Header, payload: &[u8]) {
        self.urgent.push(Self::whole(header, payload));
    }

    fn whole(header: Header, payload: &[u8]) -> Outgoing {
        let mut head = [0; HEAD];
        head[HEADER..HEADER + payload.len()].copy_from_slice(payload);
        let (head_length, digest) = (HEADER + payload.len(), Some(Digest::of(payload)));
        Outgoing { head, head_length, payload: Region::EMPTY, owner: None, kept: None, header, digest }
    }

    /// Whether the peer holds what plans send, from now on: that waits until it does not.
    pub fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// Messages that were sent of late, or are about to be, and what their payloads were when they got their checksums. None
    /// where payloads have no checksums.
    pub fn trail(&self) -> impl DoubleEndedIterator<Item = (Owner, Digest)> {
        self.trail.iter().copied()
    }

    /// Bytes that wait to be written, and may be.
    pub fn waiting(&self) -> usize {
        self.placed + self.urgent.bytes + self.pieces.bytes + if self.held { 0 } else { self.plans.bytes }
    }

    /// Gives frames their places until there are `most`, or enough bytes.
    fn place(&mut self, most: usize) {
        while self.outgoing.len() < most && self.placed < GATHERED && self.place_one() {}
    }

    /// Gives the next frame its place, if there is one.
    fn place_one(&mut self) -> bool {
        let pieces = !self.pieces.frames.is_empty();
        let plans = !self.held && !self.plans.frames.is_empty();
        let next = match (self.urgent.pop(), pieces, plans) {
            (Some(frame), ..) => Some(frame),
            (None, true, true) => {
                self.turn = !self.turn;
                if self.turn { self.pieces.pop() } else { self.plans.pop() }
            }
            (None, true, false) => self.pieces.pop(),
            (None, false, true) => self.plans.pop(),
            (None, false, false) => None,
        };
        let Some(mut frame) = next else { return false };
        if let Some(sent) = frame
            .close(self.places, self.checked)
            .filter(|_| frame.kept.is_none() && !frame.payload.is_empty())
        {
            if self.trail.len() == REMEMBERED {
                self.trail.pop_front();
            }
            self.trail.push_back(sent);
        }
        self.places = self.places.wrapping_add(1);
        self.placed += frame.len();
        self.outgoing.push_back(frame);
        true
    }

    /// What is to be written next, as at most `most` slices.
    pub fn gather<'a>(&'a mut self, slices: &mut Vec<IoSlice<'a>>, most: usize) {
        let frames = most.saturating_sub(slices.len()) / 2;
        self.place(frames);
        let mut skip = self.written;
        for frame in self.outgoing.iter().take(frames) {
            let head = skip.min(frame.head_length);
            if head < frame.head_length {
                slices.push(IoSlice::new(&frame.head[head..frame.head_length]));
            }
            if skip - head < frame.payload.len() {
                let rest = frame.payload.part(skip - head..frame.payload.len());
                // SAFETY: the payload lies in memory of an operation that is not over before the frame is written or kept, or
                // in a buffer of the frame; and whatever changes that needs the link, which the slices borrow.
                slices.push(IoSlice::new(unsafe { rest.bytes() }));
            }
            skip = 0;
        }
    }

    /// Gives memory back to its owners: what is still to be written of it is copied, and what was sent of it is forgotten.
    /// `whose` says whether that is theirs.
    pub fn keep(&mut self, whose: impl Fn(Owner) -> bool) {
        self.trail.retain(|&(owner, _)| !whose(owner));
        let waiting = self.pieces.frames.iter_mut().chain(&mut self.plans.frames);
        let frames = self.outgoing.iter_mut().chain(waiting);
        frames.filter(|frame| frame.owner.is_some_and(&whose)).for_each(Outgoing::keep);
    }

    /// Takes back pieces that have no place yet, if `whose` says so; whose they were.
    pub fn discard(&mut self, whose: impl Fn(Owner) -> bool) -> Vec<Owner> {
        let frames = std::mem::take(&mut self.pieces.frames).into_iter();
        let (gone, left): (VecDeque<Outgoing>, _) = frames.partition(|frame| frame.owner.is_some_and(&whose));
        self.pieces.frames = left;
        self.pieces.bytes -= gone.iter().map(Outgoing::len).sum::<usize>();
        gone.into_iter().filter_map(|frame| frame.owner).collect()
    }

    /// Has what is still to come of a payload go nowhere, if `whose` says so of its header.
    pub fn divert(&mut self, whose: impl Fn(Header) -> bool) {
        if let Incoming::Payload(payload) = &mut self.incoming
            && whose(payload.header)
        {
            payload.landing = Landing::Nothing;
        }
    }

    /// That `bytes` of what was gathered are written; messages that are written to their end go to `done`.
    pub fn sent(&mut self, bytes: usize, done: &mut Vec<Owner>) {
        // Who has not gathered them means the next ones.
        while self.placed < bytes && self.place_one() {}
        self.placed -= bytes;
        self.written += bytes;
        while let Some(frame) = self.outgoing.front().filter(|frame| frame.len() <= self.written) {
            self.written -= frame.len();
            done.extend(frame.owner);
            self.outgoing.pop_front();
        }
    }

    /// Takes bytes that were read, up to the next thing that has to be known; cuts them off `bytes`.
    ///
    /// # Errors
    /// Where a frame is not what was sent.
    pub fn take(&mut self, bytes: &mut &[u8]) -> Result<Option<Event>, Broken> {
        loop {
            match &mut self.incoming {
                Incoming::Header { bytes: header, have } => {
                    if bytes.is_empty() {
                        return Ok(None);
                    }
                    let (now, later) = bytes.split_at(bytes.len().min(HEADER - *have));
                    header[*have..*have + now.len()].copy_from_slice(now);
                    *have += now.len();
                    *bytes = later;
                    if *have == HEADER {
                        let (header, checksum) = Header::decode(header, self.come).map_err(Broken::Kind)?;
                        self.come = self.come.wrapping_add(1);
                        // Where payloads are not summed, what the header says is known to be so before anything follows from it.
                        let alone = header.kind.bare() || (header.kind.carries() && !self.checked);
                        if alone && !checksum.holds() {
                            return Err(Broken::Checksum(header));
                        }
                        self.incoming = Incoming::Asked(header, checksum);
                        return Ok(Some(Event::Header(header)));
                    }
                }
                Incoming::Asked(..) => return Ok(None),
                Incoming::Payload(payload) => {
                    if payload.got == payload.length {
                        return self.complete().map(Some);
                    }
                    if bytes.is_empty() {
                        return Ok(None);
                    }
                    let (now, later) = bytes.split_at(bytes.len().min(payload.length - payload.got));
                    payload.land(now);
                    *bytes = later;
                }
            }
        }
    }

    /// The message that is coming in: its place among all frames, and how many bytes of it have come. None between frames.
    pub fn coming(&self) -> Option<(u32, usize)> {
        match &self.incoming {
            Incoming::Payload(payload) => Some((self.come, payload.got)),
            Incoming::Header { .. } | Incoming::Asked(..) => None,
        }
    }

    /// Says where the payload of the header that came goes, and how long it is.
    pub fn land(&mut self, length: usize, landing: Landing) {
        if let Incoming::Asked(header, checksum) = self.incoming {
            let summed = self.checked || !header.kind.carries();
            let payload = Payload { header, checksum, summed, landing, length, got: 0, carry: [0; 8] };
            self.incoming = Incoming::Payload(payload);
        }
    }

    /// Where the next bytes may be read to right away, if that is worth it.
    pub fn direct(&mut self) -> Option<&mut [u8]> {
        const WORTH: usize = 4096;
        let Incoming::Payload(payload) = &mut self.incoming else { return None };
        let rest = payload.length - payload.got;
        let place = payload.landing.place()?;
        // SAFETY: the payload goes to memory of an operation that is not over before it has come or is diverted, or to a buffer
        // of the payload; and whatever changes that needs the link, which the reference borrows.
        (rest >= WORTH).then(|| unsafe { place.part(payload.got..payload.length).bytes_mut() })
    }

    /// That `bytes` were read to where [`Link::direct`] said.
    ///
    /// # Errors
    /// Where the frame is not what was sent.
    pub fn read_directly(&mut self, bytes: usize) -> Result<Option<Event>, Broken> {
        let Incoming::Payload(payload) = &mut self.incoming else { return Ok(None) };
        if let (Some(place), true) = (payload.landing.place(), payload.summed) {
            payload.checksum.add_region(place.part(payload.got..payload.got + bytes));
        }
        payload.got += bytes;
        if payload.got == payload.length { self.complete().map(Some) } else { Ok(None) }
    }

    fn complete(&mut self) -> Result<Event, Broken> {
        let next = Incoming::Header { bytes: [0; HEADER], have: 0 };
        let Incoming::Payload(payload) = std::mem::replace(&mut self.incoming, next) else {
            unreachable!("only payloads are completed")
        };
        if !payload.checksum.holds() {
            return Err(Broken::Checksum(payload.header));
        }
        Ok(Event::Frame(payload.header, payload.landing))
    }

    /// Forgets what waits and what is coming in; whose messages were not written to their end.
    pub fn abandon(&mut self) -> Vec<Owner> {
        (self.written, self.placed) = (0, 0);
        self.incoming = Incoming::Header { bytes: [0; HEADER], have: 0 };
        self.urgent = Queue::default();
        let (pieces, plans) = (std::mem::take(&mut self.pieces), std::mem::take(&mut self.plans));
        let frames = self.outgoing.drain(..).chain(pieces.frames).chain(plans.frames);
        frames.filter_map(|frame| frame.owner).collect()
    }
}

impl Payload {
    /// Takes in bytes, at most as many as are still to come.
    fn land(&mut self, bytes: &[u8]) {
        if self.summed {
            self.checksum.add(bytes);
        }
        let from = self.got;
        self.got += bytes.len();
        match &mut self.landing {
            Landing::Nothing => {}
            Landing::Aside(buffer) => buffer.as_mut_slice()[from..self.got].copy_from_slice(bytes),
            Landing::Put(place) => place.part(from..self.got).write(bytes),
            Landing::Combine(place, element, reduction) => {
                let (place, element, reduction) = (*place, *element, *reduction);
                let width = element.bytes();
                let combine = |at: usize, bytes: &[u8]| {
                    place.part(at..at + bytes.len()).combine(bytes, element, reduction);
                };
                let mut bytes = bytes;
                let mut at = from;
                let begun = from % width;
                if begun > 0 {
                    let more = bytes.len().min(width - begun);
                    self.carry[begun..begun + more].copy_from_slice(&bytes[..more]);
                    bytes = &bytes[more..];
                    at += more;
                    if begun + more < width {
                        return;
                    }
                    combine(at - width, &self.carry[..width]);
                }
                let whole = bytes.len() - bytes.len() % width;
                combine(at, &bytes[..whole]);
                self.carry[..bytes.len() - whole].copy_from_slice(&bytes[whole..]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Kind;
    use proptest::prelude::*;

    fn header(number: u16) -> Header {
        Header { kind: Kind::Message(number), epoch: 0, sequence: 1, chunk: 2 }
    }

    /// All bytes that a link has to write, in writes of at most `step` bytes.
    fn written(link: &mut Link, step: usize) -> (Vec<u8>, Vec<Owner>) {
        let (mut all, mut done) = (Vec::new(), Vec::new());
        while link.waiting() > 0 {
            let mut slices = Vec::new();
            link.gather(&mut slices, 4);
            let mut bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
            bytes.truncate(step);
            link.sent(bytes.len(), &mut done);
            all.extend(bytes);
        }
        (all, done)
    }

    proptest! {
        #[test]
        fn messages_arrive_whole_however_they_are_cut(
            values in prop::collection::vec(prop::collection::vec(-1000i32..1000, 0..40), 1..8),
            step in 1usize..70,
            piece in 1usize..50,
        ) {
            let mut memory: Vec<Buffer> = values.iter().map(|v| Buffer::new(4 * v.len())).collect();
            let mut sender = Link::default();
            for (number, (values, buffer)) in (0u16..).zip(values.iter().zip(&mut memory)) {
                let region = buffer.region();
                let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
                region.write(&bytes);
                sender.message(header(number), region, (1, 2, u32::from(number)));
            }
            let (wire, done) = written(&mut sender, step);
            prop_assert_eq!(done.len(), values.len());
            let mut receiver = Link::default();
            let mut rooms: Vec<Buffer> = values.iter().map(|v| Buffer::new(4 * v.len())).collect();
            let mut frames = 0;
            for mut bytes in wire.chunks(piece) {
                while let Some(event) = receiver.take(&mut bytes).unwrap() {
                    match event {
                        Event::Header(Header { kind: Kind::Message(number), .. }) => {
                            let room = rooms[usize::from(number)].region();
                            let landing = match number % 3 {
                                0 => Landing::Put(room),
                                1 => Landing::Combine(room, Element::I32, Reduction::Sum),
                                _ => Landing::Aside(Buffer::new(room.len())),
                            };
                            receiver.land(room.len(), landing);
                        }
                        Event::Frame(Header { kind: Kind::Message(number), .. }, landing) => {
                            if let Landing::Aside(mut buffer) = landing {
                                rooms[usize::from(number)].region().copy_from(buffer.region());
                            }
                            prop_assert_eq!(number, frames);
                            frames += 1;
                        }
                        other => prop_assert!(false, "{:?}", other),
                    }
                }
            }
            prop_assert_eq!(usize::from(frames), values.len());
            for (room, sent) in rooms.iter_mut().zip(&mut memory) {
                prop_assert_eq!(room.as_slice(), sent.as_slice());
            }
        }
    }

    #[test]
    fn where_payloads_are_not_summed_a_header_is_believed_before_anything_follows_from_it() {
        let mut buffer = Buffer::new(8);
        for bit in 0..8 * HEADER {
            let mut sender = Link::default();
            sender.believe();
            sender.message(header(0), buffer.region(), (0, 0, 0));
            let (mut wire, _) = written(&mut sender, 100);
            wire[bit / 8] ^= 1 << (bit % 8);
            let mut receiver = Link::default();
            receiver.believe();
            assert!(receiver.take(&mut &wire[..HEADER]).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_frame_that_comes_twice_or_not_at_all_is_found_by_the_next_one() {
        let beat = Header { kind: Kind::Heartbeat, epoch: 0, sequence: 0, chunk: 0 };
        let mut sender = Link::default();
        (0..3).for_each(|_| sender.control(beat, &[]));
        let (wire, _) = written(&mut sender, 100);
        let frames: Vec<&[u8]> = wire.chunks(HEADER).collect();
        let outcome = |order: &[usize]| {
            let mut receiver = Link::default();
            order.iter().try_for_each(|&frame| {
                let mut bytes = frames[frame];
                receiver.take(&mut bytes)?;
                receiver.land(0, Landing::Nothing);
                receiver.take(&mut bytes).map(drop)
            })
        };
        assert_eq!(outcome(&[0, 1, 2]), Ok(()));
        for order in [&[0, 0][..], &[0, 1, 1], &[1], &[0, 2], &[0, 1, 0]] {
            assert_eq!(outcome(order), Err(Broken::Checksum(beat)), "{order:?}");
        }
    }

    #[test]
    fn a_payload_that_changed_on_its_way_is_found() {
        let mut buffer = Buffer::new(8);
        let mut sender = Link::default();
        sender.message(header(0), buffer.region(), (0, 0, 0));
        let (mut wire, _) = written(&mut sender, 100);
        wire[HEADER + 3] ^= 4;
        let mut receiver = Link::default();
        let mut bytes = &wire[..];
        assert!(matches!(receiver.take(&mut bytes), Ok(Some(Event::Header(_)))));
        receiver.land(8, Landing::Nothing);
        assert!(matches!(receiver.take(&mut bytes), Err(Broken::Checksum(_))));
    }
}
