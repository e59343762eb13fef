//! One end of a connection to a peer, without the connection itself: queues frames to write, and splits the bytes
//! that arrive into frames.
//!
//! A transport gets the bytes to write from [`Link::gather`] and reports with [`Link::sent`] how many it has written.
//! It passes bytes that it has read to [`Link::take`], or reads them directly into their place if [`Link::direct`]
//! returns one.
//!
//! Frames wait in three queues. The peer may [hold](Link::hold) the frames of plans, which are sent in order. Pieces
//! of transfers alternate with them. Urgent frames overtake both. A frame gets its place on the connection only when
//! it is about to be written.

#![allow(unsafe_code)]

use crate::fault::ProtocolError;
use crate::memory::{Buffer, Region};
use crate::operation::Announcement;
use crate::wire::{Checksum, Digest, HEADER, Header};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;
use syncline_reduction::{Element, Reduction};

/// Bytes of the longest frame that carries no callers' data.
const HEAD: usize = HEADER + Announcement::ENCODED;

/// Frames get their places until they have this many bytes, so that little is gathered at once. A payload is summed
/// when its frame gets its place, right before it is written; it is then still in the cache.
const GATHERED: usize = 256 << 10;

/// Most messages whose digests are remembered: as many as may be in transit.
const REMEMBERED: usize = 1 << 10;

/// Where a payload comes from.
#[derive(Debug)]
enum Source {
    /// Memory of an operation; empty if there is no payload.
    Region(Region),
    /// A buffer that the frame owns, perhaps with others.
    Buffer(Arc<Buffer>),
}

impl Source {
    /// No payload.
    const NOTHING: Self = Self::Region(Region::EMPTY);

    fn len(&self) -> usize {
        match self {
            Self::Region(region) => region.len(),
            Self::Buffer(buffer) => buffer.as_slice().len(),
        }
    }

    fn digest(&self) -> Digest {
        match self {
            Self::Region(region) => Digest::of_region(*region),
            Self::Buffer(buffer) => Digest::of(buffer.as_slice()),
        }
    }
}

/// A frame to be written.
#[derive(Debug)]
struct Outgoing<O> {
    head: [u8; HEAD],
    head_length: usize,
    payload: Source,
    owner: Option<O>,
    header: Header,
    /// The digest of the payload, if it is known.
    digest: Option<Digest>,
}

impl<O: Copy> Outgoing<O> {
    fn len(&self) -> usize {
        self.head_length + self.payload.len()
    }

    /// Completes the header, for the frame's place on the connection. Returns the message's owner and the digest of
    /// its payload, if payloads are summed.
    fn seal(&mut self, place: u32, checked: bool) -> Option<(O, Digest)> {
        let summed = checked || !self.header.kind.carries();
        let digest = match summed {
            true => self.digest.unwrap_or_else(|| self.payload.digest()),
            false => Digest::NOTHING,
        };
        self.head[..HEADER].copy_from_slice(&self.header.encode_with(place, digest));
        self.owner.zip(checked.then_some(digest))
    }

    /// The operation's memory that has the payload, if there is any.
    fn lent(&self) -> Option<Region> {
        match self.payload {
            Source::Region(region) if !region.is_empty() => Some(region),
            Source::Region(_) | Source::Buffer(_) => None,
        }
    }

    /// Copies the payload, so that its owner's memory is no longer used.
    fn copy_payload(&mut self) {
        if let Some(region) = self.lent() {
            let mut copy = Buffer::new(region.len());
            region.read(copy.as_mut_slice());
            self.payload = Source::Buffer(Arc::new(copy));
        }
    }
}

/// Where a payload goes.
#[derive(Debug)]
pub enum Landing {
    /// It is discarded, or there is none.
    Nothing,
    /// Into a buffer, until it is needed.
    Aside(Buffer),
    /// To its destination, which it overwrites.
    Put(Region),
    /// To its destination, where it is combined with the present content as it arrives.
    Combine {
        /// The destination.
        place: Region,
        /// Type of its elements.
        element: Element,
        /// How they are combined.
        reduction: Reduction,
    },
}

impl Landing {
    /// The `range` of the payload in the memory into which it can be read directly, if there is any.
    ///
    /// # Safety
    /// If the landing is a region, then as for [`Region::bytes_mut`], while the slice is alive.
    unsafe fn direct(&mut self, range: Range<usize>) -> Option<&mut [u8]> {
        match self {
            Self::Aside(buffer) => Some(&mut buffer.as_mut_slice()[range]),
            // SAFETY: as promised by the caller.
            Self::Put(place) => Some(unsafe { place.part(range).bytes_mut() }),
            Self::Nothing | Self::Combine { .. } => None,
        }
    }
}

/// The part of the next frame that has arrived.
#[derive(Debug)]
enum Incoming {
    Header {
        bytes: [u8; HEADER],
        have: usize,
    },
    /// The header is complete. [`Link::land`] has not been called yet to say where the payload goes.
    AwaitsLand {
        header: Header,
        checksum: Checksum,
    },
    Payload(Payload),
}

#[derive(Debug)]
struct Payload {
    header: Header,
    checksum: Checksum,
    /// Whether the checksum covers the payload.
    summed: bool,
    landing: Landing,
    length: usize,
    got: usize,
    /// The first bytes of an element whose other bytes have not arrived.
    carry: [u8; 8],
}

/// What has arrived.
#[derive(Debug)]
pub enum Event {
    /// A header. Call [`Link::land`] next to say where its payload goes.
    Header(Header),
    /// A complete frame.
    Frame {
        /// Its header.
        header: Header,
        /// Where [`Link::land`] has put its payload.
        landing: Landing,
    },
}

/// A message that is arriving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialMessage {
    /// Its number among all frames of the connection; wraps.
    pub number: u32,
    /// Bytes that have arrived.
    pub bytes: usize,
}

/// Frames that have no place on the connection yet, and their total size.
#[derive(Debug)]
struct Queue<O> {
    frames: VecDeque<Outgoing<O>>,
    bytes: usize,
}

impl<O> Default for Queue<O> {
    fn default() -> Self {
        Self { frames: VecDeque::new(), bytes: 0 }
    }
}

impl<O: Copy> Queue<O> {
    fn push(&mut self, frame: Outgoing<O>) {
        self.bytes += frame.len();
        self.frames.push_back(frame);
    }

    fn retain(&mut self, stays: impl Fn(&Outgoing<O>) -> bool) {
        self.frames.retain(stays);
        self.bytes = self.frames.iter().map(Outgoing::len).sum();
    }

    fn pop(&mut self) -> Option<Outgoing<O>> {
        let frame = self.frames.pop_front()?;
        self.bytes -= frame.len();
        Some(frame)
    }
}

/// One end of a connection to a peer. `O` identifies what a message belongs to; the link reports it when the message is
/// written.
#[derive(Debug)]
pub struct Link<O> {
    /// Frames that have a place on the connection.
    outgoing: VecDeque<Outgoing<O>>,
    /// Bytes of `outgoing` that are not written yet.
    placed: usize,
    /// Bytes of the first frame of `outgoing` that are written.
    written: usize,
    /// Frames without a place: urgent ones, pieces of transfers, and those of plans.
    urgent: Queue<O>,
    pieces: Queue<O>,
    plans: Queue<O>,
    /// Whether a piece was chosen last when pieces and frames of plans both waited.
    piece_was_last: bool,
    /// Whether the peer holds the frames of plans.
    held: bool,
    incoming: Incoming,
    /// Number of frames that were given a place so far; wraps.
    places_given: u32,
    /// Number of frames whose headers have arrived so far; wraps.
    headers_arrived: u32,
    /// Whether checksums cover the payloads of messages, or only headers.
    checked: bool,
    /// The digests of messages sent recently, each computed when the message got its checksum.
    sent_digests: VecDeque<(O, Digest)>,
}

impl<O> Default for Link<O> {
    fn default() -> Self {
        Self {
            outgoing: VecDeque::new(),
            placed: 0,
            written: 0,
            urgent: Queue::default(),
            pieces: Queue::default(),
            plans: Queue::default(),
            piece_was_last: false,
            held: false,
            incoming: Incoming::Header { bytes: [0; HEADER], have: 0 },
            places_given: 0,
            headers_arrived: 0,
            checked: true,
            sent_digests: VecDeque::new(),
        }
    }
}

impl<O: Copy> Link<O> {
    /// Stops using checksums for payloads of messages, because the connection itself keeps them intact. Both sides
    /// call this before anything is written.
    pub fn disable_checksums(&mut self) {
        self.checked = false;
    }

    /// Whether payloads of messages have checksums.
    pub fn checked(&self) -> bool {
        self.checked
    }

    /// Queues a message whose payload stays in a region until it is written.
    pub fn message(&mut self, header: Header, payload: Region, owner: O) {
        self.plans.push(Self::data_frame(header, Source::Region(payload), None, owner));
    }

    /// Queues a message whose payload is a buffer that may be shared, and whose digest may be known.
    pub fn shared_message(&mut self, header: Header, payload: Arc<Buffer>, digest: Option<Digest>, owner: O) {
        self.plans.push(Self::data_frame(header, Source::Buffer(payload), digest, owner));
    }

    /// Queues a piece of a transfer, which stays in a region until it is written. Pieces alternate with frames of
    /// plans.
    pub fn piece(&mut self, header: Header, payload: Region, owner: O) {
        self.pieces.push(Self::data_frame(header, Source::Region(payload), None, owner));
    }

    fn data_frame(header: Header, payload: Source, digest: Option<Digest>, owner: O) -> Outgoing<O> {
        Outgoing { head: [0; HEAD], head_length: HEADER, payload, owner: Some(owner), header, digest }
    }

    /// Queues a frame that carries no callers' data, after the messages of plans.
    pub fn control(&mut self, header: Header, payload: &[u8]) {
        self.plans.push(Self::control_frame(header, payload));
    }

    /// Queues a frame without a payload that ends the messages whose headers `whose` accepts. Those that still wait
    /// are dropped. The frame is urgent, so a hold does not delay it. `owner` is reported when the frame is written.
    pub fn end(&mut self, header: Header, owner: O, whose: impl Fn(Header) -> bool) {
        self.plans.retain(|frame| !whose(frame.header));
        self.urgent.push(Outgoing { owner: Some(owner), ..Self::control_frame(header, &[]) });
    }

    /// Queues a frame to be written before all that wait.
    pub fn urge(&mut self, header: Header, payload: &[u8]) {
        self.urgent.push(Self::control_frame(header, payload));
    }

    fn control_frame(header: Header, payload: &[u8]) -> Outgoing<O> {
        let mut head = [0; HEAD];
        head[HEADER..HEADER + payload.len()].copy_from_slice(payload);
        let (head_length, digest) = (HEADER + payload.len(), Some(Digest::of(payload)));
        Outgoing { head, head_length, payload: Source::NOTHING, owner: None, header, digest }
    }

    /// Sets whether the peer holds the frames of plans. They wait while it does.
    pub fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// The owners of messages that were sent recently or are about to be, and the digests of their payloads when they
    /// got their checksums. Empty if payloads have no checksums.
    pub fn sent_digests(&self) -> impl DoubleEndedIterator<Item = (O, Digest)> {
        self.sent_digests.iter().copied()
    }

    /// Number of bytes that wait and may be written.
    pub fn waiting(&self) -> usize {
        self.placed + self.urgent.bytes + self.pieces.bytes + if self.held { 0 } else { self.plans.bytes }
    }

    /// Gives frames their places, until `most` frames or enough bytes have one.
    fn place(&mut self, most: usize) {
        while self.outgoing.len() < most && self.placed < GATHERED && self.place_one() {}
    }

    /// Gives the next frame its place. Returns false if no frame may be written.
    fn place_one(&mut self) -> bool {
        let pieces = !self.pieces.frames.is_empty();
        let plans = !self.held && !self.plans.frames.is_empty();
        let next = match (self.urgent.pop(), pieces, plans) {
            (Some(frame), ..) => Some(frame),
            (None, true, true) => {
                self.piece_was_last = !self.piece_was_last;
                if self.piece_was_last { self.pieces.pop() } else { self.plans.pop() }
            }
            (None, true, false) => self.pieces.pop(),
            (None, false, true) => self.plans.pop(),
            (None, false, false) => None,
        };
        let Some(mut frame) = next else { return false };
        if let Some(sent) = frame.seal(self.places_given, self.checked).filter(|_| frame.lent().is_some()) {
            if self.sent_digests.len() == REMEMBERED {
                self.sent_digests.pop_front();
            }
            self.sent_digests.push_back(sent);
        }
        self.places_given = self.places_given.wrapping_add(1);
        self.placed += frame.len();
        self.outgoing.push_back(frame);
        true
    }

    /// Appends the bytes to write next, as at most `most` slices.
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
                let rest = skip - head..frame.payload.len();
                slices.push(IoSlice::new(match &frame.payload {
                    // SAFETY: the operation does not end before the frame is written or has a copy. Both need the link,
                    // which the slices borrow. By the contract of `Region::new`, nothing writes the memory meanwhile.
                    Source::Region(region) => unsafe { region.part(rest).bytes() },
                    Source::Buffer(buffer) => &buffer.as_slice()[rest],
                }));
            }
            skip = 0;
        }
    }

    /// Gives memory back to the owners that `whose` accepts: copies their payloads that are not written yet, and
    /// forgets the digests of those sent.
    pub fn keep(&mut self, whose: impl Fn(O) -> bool) {
        self.sent_digests.retain(|&(owner, _)| !whose(owner));
        let waiting = self.pieces.frames.iter_mut().chain(&mut self.plans.frames);
        let frames = self.outgoing.iter_mut().chain(waiting);
        frames.filter(|frame| frame.owner.is_some_and(&whose)).for_each(Outgoing::copy_payload);
    }

    /// Drops the pieces without a place whose owners `whose` accepts. Returns the owners.
    pub fn discard(&mut self, whose: impl Fn(O) -> bool) -> Vec<O> {
        let frames = std::mem::take(&mut self.pieces.frames).into_iter();
        let (gone, left): (VecDeque<Outgoing<O>>, _) =
            frames.partition(|frame| frame.owner.is_some_and(&whose));
        self.pieces.frames = left;
        self.pieces.bytes -= gone.iter().map(Outgoing::len).sum::<usize>();
        gone.into_iter().filter_map(|frame| frame.owner).collect()
    }

    /// Discards the rest of the payload that is arriving, if `whose` accepts its header.
    pub fn divert(&mut self, whose: impl Fn(Header) -> bool) {
        if let Incoming::Payload(payload) = &mut self.incoming
            && whose(payload.header)
        {
            payload.landing = Landing::Nothing;
        }
    }

    /// Reports that `bytes` of the gathered bytes have been written. Adds the owners of messages that are now written
    /// completely to `done`.
    pub fn sent(&mut self, bytes: usize, done: &mut Vec<O>) {
        // If the bytes were not gathered, they are those of the next frames.
        while self.placed < bytes && self.place_one() {}
        self.placed -= bytes;
        self.written += bytes;
        while let Some(frame) = self.outgoing.front().filter(|frame| frame.len() <= self.written) {
            self.written -= frame.len();
            done.extend(frame.owner);
            self.outgoing.pop_front();
        }
    }

    /// Takes bytes that were read, up to the next event, and removes them from `bytes`.
    ///
    /// # Errors
    /// If a frame is not what was sent.
    pub fn take(&mut self, bytes: &mut &[u8]) -> Result<Option<Event>, ProtocolError> {
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
                        let (header, checksum) = Header::decode(header, self.headers_arrived)
                            .map_err(ProtocolError::UnknownFrame)?;
                        self.headers_arrived = self.headers_arrived.wrapping_add(1);
                        // A header that has no summed payload is verified before it is acted upon.
                        let complete = header.kind.bare() || (header.kind.carries() && !self.checked);
                        if complete && !checksum.holds() {
                            return Err(ProtocolError::Checksum(header));
                        }
                        self.incoming = Incoming::AwaitsLand { header, checksum };
                        return Ok(Some(Event::Header(header)));
                    }
                }
                Incoming::AwaitsLand { .. } => return Ok(None),
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

    /// The message that is arriving. None between frames.
    pub fn coming(&self) -> Option<PartialMessage> {
        match &self.incoming {
            Incoming::Payload(payload) => {
                Some(PartialMessage { number: self.headers_arrived, bytes: payload.got })
            }
            Incoming::Header { .. } | Incoming::AwaitsLand { .. } => None,
        }
    }

    /// Says where the payload of the header that arrived goes, and how long it is.
    pub fn land(&mut self, length: usize, landing: Landing) {
        if let Incoming::AwaitsLand { header, checksum } = self.incoming {
            let summed = self.checked || !header.kind.carries();
            let payload = Payload { header, checksum, summed, landing, length, got: 0, carry: [0; 8] };
            self.incoming = Incoming::Payload(payload);
        }
    }

    /// The memory into which the next bytes can be read directly, if they are enough to make that worthwhile.
    pub fn direct(&mut self) -> Option<&mut [u8]> {
        const WORTH: usize = 4096;
        let Incoming::Payload(payload) = &mut self.incoming else { return None };
        let rest = payload.length - payload.got;
        if rest < WORTH {
            return None;
        }
        // SAFETY: an operation does not end before the payload has arrived or is discarded. Both need the link, which
        // the slice borrows. By the contract of `Region::new`, nothing else uses the memory meanwhile.
        unsafe { payload.landing.direct(payload.got..payload.length) }
    }

    /// Reports that `bytes` were read into the memory that [`Link::direct`] returned.
    ///
    /// # Errors
    /// If the frame is not what was sent.
    pub fn read_directly(&mut self, bytes: usize) -> Result<Option<Event>, ProtocolError> {
        let Incoming::Payload(payload) = &mut self.incoming else { return Ok(None) };
        let range = payload.got..payload.got + bytes;
        if payload.summed {
            match &payload.landing {
                Landing::Aside(buffer) => payload.checksum.add(&buffer.as_slice()[range]),
                Landing::Put(place) => payload.checksum.add_region(place.part(range)),
                Landing::Nothing | Landing::Combine { .. } => {}
            }
        }
        payload.got += bytes;
        if payload.got == payload.length { self.complete().map(Some) } else { Ok(None) }
    }

    fn complete(&mut self) -> Result<Event, ProtocolError> {
        let next = Incoming::Header { bytes: [0; HEADER], have: 0 };
        let Incoming::Payload(payload) = std::mem::replace(&mut self.incoming, next) else {
            unreachable!("only payloads are completed")
        };
        if !payload.checksum.holds() {
            return Err(ProtocolError::Checksum(payload.header));
        }
        Ok(Event::Frame { header: payload.header, landing: payload.landing })
    }

    /// Forgets the frames that wait and the one that is arriving. Returns the owners of messages that were not
    /// written completely.
    pub fn abandon(&mut self) -> Vec<O> {
        (self.written, self.placed) = (0, 0);
        self.incoming = Incoming::Header { bytes: [0; HEADER], have: 0 };
        self.urgent = Queue::default();
        let (pieces, plans) = (std::mem::take(&mut self.pieces), std::mem::take(&mut self.plans));
        let frames = self.outgoing.drain(..).chain(pieces.frames).chain(plans.frames);
        frames.filter_map(|frame| frame.owner).collect()
    }
}

impl Payload {
    /// Takes bytes of the payload, at most as many as are missing.
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
            Landing::Combine { place, element, reduction } => {
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
    use crate::wire::FrameKind;
    use proptest::prelude::*;

    fn header(number: u16) -> Header {
        Header { kind: FrameKind::Message(number), epoch: 0, sequence: 1, chunk: 2 }
    }

    /// Everything that a link has to write, in writes of at most `step` bytes, and the owners of what was written.
    fn written<O: Copy>(link: &mut Link<O>, step: usize) -> (Vec<u8>, Vec<O>) {
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
        fn messages_arrive_complete_however_the_bytes_are_split(
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
                sender.message(header(number), region, number);
            }
            let (wire, done) = written(&mut sender, step);
            prop_assert_eq!(done.len(), values.len());
            let mut receiver = Link::<()>::default();
            let mut rooms: Vec<Buffer> = values.iter().map(|v| Buffer::new(4 * v.len())).collect();
            let mut frames = 0;
            for mut bytes in wire.chunks(piece) {
                while let Some(event) = receiver.take(&mut bytes).unwrap() {
                    match event {
                        Event::Header(Header { kind: FrameKind::Message(number), .. }) => {
                            let room = rooms[usize::from(number)].region();
                            let landing = match number % 3 {
                                0 => Landing::Put(room),
                                1 => Landing::Combine { place: room, element: Element::I32, reduction: Reduction::Sum },
                                _ => Landing::Aside(Buffer::new(room.len())),
                            };
                            receiver.land(room.len(), landing);
                        }
                        Event::Frame { header: Header { kind: FrameKind::Message(number), .. }, landing } => {
                            if let Landing::Aside(buffer) = landing {
                                rooms[usize::from(number)] = buffer;
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
    fn without_payload_checksums_a_header_is_verified_before_it_is_acted_upon() {
        let mut buffer = Buffer::new(8);
        for bit in 0..8 * HEADER {
            let mut sender = Link::default();
            sender.disable_checksums();
            sender.message(header(0), buffer.region(), ());
            let (mut wire, _) = written(&mut sender, 100);
            wire[bit / 8] ^= 1 << (bit % 8);
            let mut receiver = Link::<()>::default();
            receiver.disable_checksums();
            assert!(receiver.take(&mut &wire[..HEADER]).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_duplicated_or_lost_frame_is_detected_by_the_next_one() {
        let beat = Header { kind: FrameKind::Heartbeat, epoch: 0, sequence: 0, chunk: 0 };
        let mut sender = Link::<()>::default();
        (0..3).for_each(|_| sender.control(beat, &[]));
        let (wire, _) = written(&mut sender, 100);
        let frames: Vec<&[u8]> = wire.chunks(HEADER).collect();
        let outcome = |order: &[usize]| {
            let mut receiver = Link::<()>::default();
            order.iter().try_for_each(|&frame| {
                let mut bytes = frames[frame];
                receiver.take(&mut bytes)?;
                receiver.land(0, Landing::Nothing);
                receiver.take(&mut bytes).map(drop)
            })
        };
        assert_eq!(outcome(&[0, 1, 2]), Ok(()));
        for order in [&[0, 0][..], &[0, 1, 1], &[1], &[0, 2], &[0, 1, 0]] {
            assert_eq!(outcome(order), Err(ProtocolError::Checksum(beat)), "{order:?}");
        }
    }

    #[test]
    fn a_damaged_payload_is_detected() {
        let mut buffer = Buffer::new(8);
        let mut sender = Link::default();
        sender.message(header(0), buffer.region(), ());
        let (mut wire, _) = written(&mut sender, 100);
        wire[HEADER + 3] ^= 4;
        let mut receiver = Link::<()>::default();
        let mut bytes = &wire[..];
        assert!(matches!(receiver.take(&mut bytes), Ok(Some(Event::Header(_)))));
        receiver.land(8, Landing::Nothing);
        assert!(matches!(receiver.take(&mut bytes), Err(ProtocolError::Checksum(_))));
    }
}
