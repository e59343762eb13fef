//! A transport on memory that two members on one host share. The sender copies bytes from tensors into a ring; the
//! receiver combines them from there directly into their final place.
//!
//! A Unix socket stays open beside the rings. Its end is the peer's end. A byte on it wakes a peer that sleeps; none is
//! written while the peer is awake. The member that connected creates the segment and sends its file on that socket. By
//! then the handshake is complete, and the process at the other side belongs to the same user:
//!
//! ```text
//! side that connected                side that accepted
//!   "syncline ring", capacity, file  ->
//!                                    <-  1: mapped it       or 0: cannot
//! ```
//!
//! If one side cannot share memory, the socket itself carries the bytes.

use super::ring::segment::Segment;
use super::ring::{BYTES, ROOM, Reader, Sleep, Writer};
use super::socket::Stream;
use super::{Connection, Halt, Intake, Transport};
use mio::event::Event;
use mio::net::UnixStream;
use mio::{Interest, Registry, Token};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::OwnedFd;

/// Default number of bytes of a ring: enough that each side has something to do while the other copies, and few enough
/// that all rings of a member stay in its cache.
pub const CAPACITY: usize = 256 << 10;

/// Most bytes lent or copied per call, so that both sides work in parallel.
const PIECE: usize = 64 << 10;

/// The first bytes of an offer.
const OFFER: &[u8; 16] = b"syncline ring 1\n";

/// How two members agree on a segment, on a non-blocking socket.
#[derive(Debug)]
pub struct Agreement {
    socket: UnixStream,
    state: State,
}

#[derive(Debug)]
enum State {
    /// This side has offered a segment and waits for the answer.
    Offered(Segment),
    /// This side waits for an offer.
    WaitsForOffer,
    /// Both sides have mapped the segment.
    Agreed(Segment),
    /// The socket carries the bytes. The reason why memory is not shared.
    SocketOnly(String),
}

impl Agreement {
    /// Offers the other side a segment with rings of `capacity` bytes (a power of two, 4 KiB to 1 GiB).
    ///
    /// # Errors
    /// The connection is broken.
    pub fn offer(socket: UnixStream, capacity: usize) -> io::Result<Self> {
        let (segment, why) = match Segment::new(capacity) {
            Ok(segment) => (Some(segment), String::new()),
            Err(error) => (None, format!("cannot create shared memory: {error}")),
        };
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        let file = segment.as_ref().map(Segment::file);
        if let Some(file) = &file {
            control.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(file)));
        }
        let capacity = segment.as_ref().map_or(0, Segment::capacity) as u64;
        let bytes = [OFFER.as_slice(), &capacity.to_le_bytes()].concat();
        // The socket is new, so it has room for these few bytes.
        let sent = rustix::net::sendmsg(&socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
        if sent != bytes.len() {
            return Err(ErrorKind::WriteZero.into());
        }
        let state = segment.map_or(State::SocketOnly(why), State::Offered);
        Ok(Self { socket, state })
    }

    /// Waits for the other side's offer.
    pub fn answer(socket: UnixStream) -> Self {
        Self { socket, state: State::WaitsForOffer }
    }

    /// Advances as far as the socket allows, and returns whether the agreement is complete.
    ///
    /// # Errors
    /// The connection is broken, or the other side sent something unexpected.
    pub fn advance(&mut self) -> io::Result<bool> {
        let bad = || io::Error::new(ErrorKind::InvalidData, "sent an invalid message about shared memory");
        let unless_blocked = |error: io::Error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(false),
            _ => Err(error),
        };
        match std::mem::replace(&mut self.state, State::WaitsForOffer) {
            State::WaitsForOffer => {
                let (bytes, file) = match self.receive_offer() {
                    Ok(offer) => offer,
                    Err(error) => return unless_blocked(error),
                };
                let capacity = bytes.strip_prefix(OFFER.as_slice()).and_then(|rest| rest.try_into().ok());
                let capacity = u64::from_le_bytes(capacity.ok_or_else(bad)?);
                self.state = match file.map(|file| Segment::of(file, capacity)) {
                    Some(Ok(segment)) => State::Agreed(segment),
                    Some(Err(error)) => State::SocketOnly(format!("cannot use the offered memory: {error}")),
                    None => State::SocketOnly("the other side cannot create shared memory".to_owned()),
                };
                if capacity > 0 {
                    let mapped = matches!(self.state, State::Agreed(_));
                    self.socket.write_all(&[u8::from(mapped)])?;
                }
                Ok(true)
            }
            State::Offered(segment) => {
                let mut answer = [0];
                match self.socket.read(&mut answer) {
                    Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
                    Ok(_) => {
                        self.state = match answer {
                            [1] => State::Agreed(segment),
                            [0] => {
                                State::SocketOnly("the other side cannot use the offered memory".to_owned())
                            }
                            _ => return Err(bad()),
                        };
                        Ok(true)
                    }
                    Err(error) => {
                        self.state = State::Offered(segment);
                        unless_blocked(error)
                    }
                }
            }
            done => {
                self.state = done;
                Ok(true)
            }
        }
    }

    /// Receives the bytes of an offer, and its file.
    fn receive_offer(&self) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
        let mut bytes = [0; OFFER.len() + 8];
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut room);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let message =
            rustix::net::recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags)?;
        if message.bytes == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let mut files = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        });
        let file = files.next().and_then(|mut files| files.next());
        Ok((bytes[..message.bytes].to_vec(), file))
    }

    /// The socket on which the members agree.
    pub fn socket(&mut self) -> &mut UnixStream {
        &mut self.socket
    }

    /// The connection that was agreed on, once [`Agreement::advance`] has returned true: shared memory, or else the
    /// socket.
    pub fn connection(self) -> Connection {
        match self.state {
            State::Agreed(segment) => {
                let (writer, reader, sleep) = segment.ends();
                let (readable, closed, ending) = (true, false, false);
                Box::new(Shared { socket: self.socket, writer, reader, sleep, readable, closed, ending })
            }
            State::SocketOnly(why) => Box::new(Stream::new(self.socket).because(Some(why))),
            State::Offered(_) | State::WaitsForOffer => Box::new(Stream::new(self.socket)),
        }
    }
}

/// A transport on shared memory, with a socket beside it.
#[derive(Debug)]
struct Shared {
    socket: UnixStream,
    writer: Writer,
    reader: Reader,
    sleep: Sleep,
    /// The socket may have bytes, or have ended.
    readable: bool,
    /// The peer has closed the socket: nothing follows the bytes in the ring.
    closed: bool,
    /// This side has finished sending, and the poll may no longer report events.
    ending: bool,
}

impl Shared {
    /// Reads what is on the socket: bytes that woke this side, or the end.
    fn read_socket(&mut self) -> io::Result<()> {
        let mut bytes = [0; 64];
        while self.readable {
            match self.socket.read(&mut bytes) {
                Ok(0) => (self.readable, self.closed) = (false, true),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.readable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The peer closed the socket and left wake-up bytes unread, which is an end too.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    (self.readable, self.closed) = (false, true);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Wakes the peer if it sleeps and waits for `what`.
    fn wake(&mut self, what: u32) {
        if self.sleep.awaited(what) {
            // If the socket is full, the bytes in it wake the peer. If it is broken, a read will find that.
            _ = self.socket.write(&[0]);
        }
    }

    /// Whether at least half the ring is free, which justifies a wake-up.
    fn is_roomy(room: usize, capacity: usize) -> bool {
        room >= capacity / 2
    }
}

impl Transport for Shared {
    fn describe(&self) -> String {
        "shared memory".to_owned()
    }

    fn checked(&self) -> bool {
        false
    }

    fn watch(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut self.socket, token, Interest::READABLE)
    }

    fn unwatch(&mut self, registry: &Registry) -> io::Result<()> {
        registry.deregister(&mut self.socket)
    }

    fn note_event(&mut self, _: &Event) {
        self.readable = true;
    }

    fn receive(&mut self, intake: &mut dyn Intake) -> Result<usize, Halt> {
        // Read the socket first: if it has ended, everything that the peer wrote before is now visible in the ring.
        self.read_socket()?;
        let waiting = self.reader.waiting().map_err(io::Error::from)?;
        if waiting == 0 {
            return if self.closed { Ok(0) } else { Err(io::Error::from(ErrorKind::WouldBlock).into()) };
        }
        let take = |bytes: &[u8]| intake.take(bytes).map(|()| bytes.len());
        let taken = self.reader.read(waiting.min(PIECE), take)?;
        self.reader.consume(taken);
        if Self::is_roomy(self.writer.capacity() - (waiting - taken), self.writer.capacity()) {
            self.wake(ROOM);
        }
        Ok(taken)
    }

    fn send(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut room = self.writer.room()?;
        // A peer that has closed reads nothing more. That is not an error here: `receive` returns its last bytes and
        // the end.
        if room == 0 || self.closed {
            return Err(ErrorKind::WouldBlock.into());
        }
        let mut sent = 0;
        for piece in slices.iter().flat_map(|slice| slice.chunks(PIECE)) {
            let written = self.writer.write(piece, room);
            sent += written;
            room -= written;
            if room == 0 {
                break;
            }
        }
        self.wake(BYTES);
        Ok(sent)
    }

    fn prepare_wait(&mut self, reads: bool, writes: bool) -> bool {
        self.sleep.announce(if reads { BYTES } else { 0 } | if writes { ROOM } else { 0 });
        // Impossible counts become an error at the next read or write.
        let bytes = reads && (self.readable || self.reader.waiting() != Ok(0));
        let capacity = self.writer.capacity();
        bytes || writes && !self.closed && self.writer.room().is_ok_and(|room| Self::is_roomy(room, capacity))
    }

    fn end_wait(&mut self) {
        self.sleep.end();
        self.readable |= self.ending;
    }

    fn cheap_to_poll(&self) -> bool {
        true
    }

    fn unsent(&mut self) -> usize {
        let capacity = self.writer.capacity();
        self.writer.room().map_or(0, |room| capacity - room)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.ending = true;
        self.socket.shutdown(Shutdown::Write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (UnixStream, UnixStream) {
        UnixStream::pair().unwrap()
    }

    /// An intake that stores received bytes.
    #[derive(Default)]
    struct Store(Vec<u8>);

    impl Intake for Store {
        fn fill(
            &mut self,
            read: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
        ) -> Result<usize, Halt> {
            let mut bytes = [0; 100];
            let read = read(&mut [IoSliceMut::new(&mut bytes)])?;
            self.0.extend(&bytes[..read]);
            Ok(read)
        }

        fn take(&mut self, bytes: &[u8]) -> Result<(), Halt> {
            self.0.extend(bytes);
            Ok(())
        }
    }

    fn agreed(capacity: usize) -> (Connection, Connection) {
        let (a, b) = pair();
        let (mut a, mut b) = (Agreement::offer(a, capacity).unwrap(), Agreement::answer(b));
        assert!(!a.advance().unwrap(), "the other side has not answered");
        assert!(b.advance().unwrap() && a.advance().unwrap());
        (a.connection(), b.connection())
    }

    #[test]
    fn bytes_written_before_the_end_arrive_before_the_end() {
        let (mut a, mut b) = agreed(4096);
        let bytes: Vec<u8> = (0..5000u32).map(|at| at as u8).collect();
        let sent = a.send(&[IoSlice::new(&bytes[..10]), IoSlice::new(&bytes[10..])]).unwrap();
        assert_eq!(sent, 4096);
        assert_eq!(a.send(&[IoSlice::new(&bytes)]).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(a);
        let mut store = Store::default();
        while b.receive(&mut store).unwrap() > 0 {}
        assert_eq!(store.0, bytes[..4096]);
    }

    #[test]
    fn without_memory_the_socket_carries_the_bytes() {
        let (a, b) = pair();
        // A segment cannot be so small.
        let (mut a, mut b) = (Agreement::offer(a, 1).unwrap(), Agreement::answer(b));
        assert!(a.advance().unwrap() && b.advance().unwrap());
        let (mut a, mut b) = (a.connection(), b.connection());
        assert!(a.describe().starts_with("Unix socket (cannot create shared memory"), "{}", a.describe());
        assert!(b.describe().starts_with("Unix socket (the other side"), "{}", b.describe());
        a.send(&[IoSlice::new(b"hello")]).unwrap();
        let mut store = Store::default();
        b.receive(&mut store).unwrap();
        assert_eq!(store.0, b"hello");
    }

    #[test]
    fn a_file_that_is_no_segment_is_refused_and_the_socket_carries_the_bytes() {
        let (a, b) = pair();
        let (pipe, _writer) = std::io::pipe().unwrap();
        let file = std::os::fd::AsFd::as_fd(&pipe);
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        control.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(&file)));
        let bytes = [OFFER.as_slice(), &4096u64.to_le_bytes()].concat();
        rustix::net::sendmsg(&a, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL).unwrap();
        let mut b = Agreement::answer(b);
        assert!(b.advance().unwrap());
        assert!(b.connection().describe().contains("cannot use the offered memory"));
        let mut answer = [9];
        assert_eq!((&a).read(&mut answer).unwrap(), 1);
        assert_eq!(answer, [0]);
    }

    #[test]
    fn garbage_instead_of_an_offer_or_an_answer_is_an_error() {
        let (mut a, b) = pair();
        a.write_all(&[b'x'; 24]).unwrap();
        assert!(Agreement::answer(b).advance().is_err());
        let (a, mut b) = pair();
        let mut a = Agreement::offer(a, 4096).unwrap();
        b.write_all(&[7]).unwrap();
        assert!(a.advance().is_err());
        let (a, b) = pair();
        let mut a = Agreement::offer(a, 4096).unwrap();
        drop(b);
        assert!(a.advance().is_err());
    }
}
