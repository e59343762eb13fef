//! Memory that two members on one host share, as a transport: bytes are copied from tensors into a ring, and combined from
//! there right where they belong.
//!
//! A Unix socket stays open beside the rings. Its end is the peer's end, and whoever waits is woken by a byte on it; nobody
//! writes one while the other is awake. The member that connected makes the segment and sends its file on that socket, which
//! leads to a process of the same user that has shown that it has the job's key:
//!
//! ```text
//! connected                          was connected to
//!   "syncline ring", capacity, file  ->
//!                                    <-  1: mapped it       or 0: cannot
//! ```
//!
//! Where one of them cannot, the socket itself carries the bytes.

use super::ring::{BYTES, ROOM, Reader, Segment, Sleep, Writer};
use super::socket::{Socket, Stream};
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

/// Bytes of a ring, unless told otherwise: so many that both sides have something to do while the other copies, and so few
/// that all rings of a member stay in its cache.
pub const CAPACITY: usize = 256 << 10;

/// Bytes that are lent or copied at once, so that the other side may go on meanwhile.
const PIECE: usize = 64 << 10;

/// What an offer begins with.
const OFFER: &[u8; 16] = b"syncline ring 1\n";

/// Two members agree on a segment, on a socket that does not block.
#[derive(Debug)]
pub struct Agreement {
    socket: UnixStream,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Offered one.
    Offered(Segment),
    /// Waits for an offer.
    Waits,
    Agreed {
        segment: Segment,
        side: usize,
    },
    /// Why there will be none.
    Without(String),
}

impl Agreement {
    /// Offers the other side a segment with rings of `capacity` bytes (a power of two, 4 KiB to 1 GiB).
    ///
    /// # Errors
    /// Where the connection is broken.
    pub fn offer(socket: UnixStream, capacity: usize) -> io::Result<Self> {
        let (segment, why) = match Segment::new(capacity) {
            Ok(segment) => (Some(segment), String::new()),
            Err(error) => (None, format!("there is no memory to share: {error}")),
        };
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        let file = segment.as_ref().map(Segment::file);
        if let Some(file) = &file {
            control.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(file)));
        }
        let capacity = segment.as_ref().map_or(0, Segment::capacity) as u64;
        let bytes = [OFFER.as_slice(), &capacity.to_le_bytes()].concat();
        // The socket is new, and has room for so few.
        let sent = rustix::net::sendmsg(&socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
        if sent != bytes.len() {
            return Err(ErrorKind::WriteZero.into());
        }
        let state = segment.map_or(State::Without(why), State::Offered);
        Ok(Self { socket, state })
    }

    /// Waits for what the other side offers.
    pub fn answer(socket: UnixStream) -> Self {
        Self { socket, state: State::Waits }
    }

    /// Goes on as far as the socket lets it; whether it is done.
    ///
    /// # Errors
    /// Where the connection is broken, or the other side says something else.
    pub fn go_on(&mut self) -> io::Result<bool> {
        let bad = || io::Error::new(ErrorKind::InvalidData, "said something out of turn about shared memory");
        let unless_blocked = |error: io::Error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(false),
            _ => Err(error),
        };
        match std::mem::replace(&mut self.state, State::Waits) {
            State::Waits => {
                let (bytes, file) = match self.offered() {
                    Ok(offer) => offer,
                    Err(error) => return unless_blocked(error),
                };
                let capacity = bytes.strip_prefix(OFFER.as_slice()).and_then(|rest| rest.try_into().ok());
                let capacity = u64::from_le_bytes(capacity.ok_or_else(bad)?);
                self.state = match file.map(|file| Segment::of(file, capacity)) {
                    Some(Ok(segment)) => State::Agreed { segment, side: 1 },
                    Some(Err(error)) => State::Without(format!("memory cannot be shared: {error}")),
                    None => State::Without("the other side has no memory to share".to_owned()),
                };
                if capacity > 0 {
                    let mapped = matches!(self.state, State::Agreed { .. });
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
                            [1] => State::Agreed { segment, side: 0 },
                            [0] => State::Without("the other side cannot share memory".to_owned()),
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

    /// An offer, and its file.
    fn offered(&self) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
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

    /// The socket that it happens on.
    pub fn socket(&mut self) -> &mut UnixStream {
        &mut self.socket
    }

    /// The connection that was agreed on, once [`Agreement::go_on`] is done: memory, or the socket where there is none.
    pub fn connection(self) -> Connection {
        match self.state {
            State::Agreed { segment, side } => {
                let (writer, reader, sleep) = segment.ends(side);
                let (rang, closed, ending) = (true, false, false);
                Box::new(Shared { socket: self.socket, writer, reader, sleep, rang, closed, ending })
            }
            State::Without(why) => Box::new(Stream::new(Socket::Unix(self.socket)).because(Some(why))),
            State::Offered(_) | State::Waits => Box::new(Stream::new(Socket::Unix(self.socket))),
        }
    }
}

/// Shared memory, and a socket beside it.
#[derive(Debug)]
struct Shared {
    socket: UnixStream,
    writer: Writer,
    reader: Reader,
    sleep: Sleep,
    /// There may be something on the socket.
    rang: bool,
    /// The peer has closed the socket: what is left in the ring is all that comes.
    closed: bool,
    /// This side has finished, and nobody polls any more.
    ending: bool,
}

impl Shared {
    /// Takes what is on the socket: bytes that woke us, or the end.
    fn hear(&mut self) -> io::Result<()> {
        let mut bytes = [0; 64];
        while self.rang {
            match self.socket.read(&mut bytes) {
                Ok(0) => (self.rang, self.closed) = (false, true),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.rang = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // It closed with bytes unread that woke nobody: an end.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    (self.rang, self.closed) = (false, true);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Wakes the peer, if it waits for what there is now.
    fn wake(&mut self, what: u32) {
        if self.sleep.awaited(what) {
            // Where the socket is full the peer has enough to wake it; where it is broken, that will be heard.
            _ = self.socket.write(&[0]);
        }
    }

    /// Whether there is so much room that it is worth waking the writer.
    fn roomy(room: usize, capacity: usize) -> bool {
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

    fn told(&mut self, _: &Event) {
        self.rang = true;
    }

    fn receive(&mut self, intake: &mut dyn Intake) -> Result<usize, Halt> {
        // First the socket: what was written before the end is then there to be seen.
        self.hear()?;
        let waiting = self.reader.waiting().map_err(io::Error::from)?;
        if waiting == 0 {
            return if self.closed { Ok(0) } else { Err(io::Error::from(ErrorKind::WouldBlock).into()) };
        }
        let bytes = self.reader.bytes(waiting.min(PIECE));
        let taken = bytes.len();
        intake.take(bytes)?;
        self.reader.consume(taken);
        if Self::roomy(self.writer.capacity() - (waiting - taken), self.writer.capacity()) {
            self.wake(ROOM);
        }
        Ok(taken)
    }

    fn send(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut room = self.writer.room()?;
        // What a peer that has closed does not read is no news: its end is, once all is read that it has sent.
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

    fn rest(&mut self, reads: bool, writes: bool) -> bool {
        self.sleep.doze(if reads { BYTES } else { 0 } | if writes { ROOM } else { 0 });
        // Nonsense is found where it is read.
        let bytes = reads && (self.rang || self.reader.waiting() != Ok(0));
        let capacity = self.writer.capacity();
        bytes || writes && !self.closed && self.writer.room().is_ok_and(|room| Self::roomy(room, capacity))
    }

    fn rouse(&mut self) {
        self.sleep.wake();
        self.rang |= self.ending;
    }

    fn lively(&self) -> bool {
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

    /// Takes bytes and keeps them.
    #[derive(Default)]
    struct Keep(Vec<u8>);

    impl Intake for Keep {
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
        assert!(!a.go_on().unwrap(), "nobody has answered");
        assert!(b.go_on().unwrap() && a.go_on().unwrap());
        (a.connection(), b.connection())
    }

    #[test]
    fn what_was_written_before_the_end_is_read_before_it() {
        let (mut a, mut b) = agreed(4096);
        let bytes: Vec<u8> = (0..5000u32).map(|at| at as u8).collect();
        let sent = a.send(&[IoSlice::new(&bytes[..10]), IoSlice::new(&bytes[10..])]).unwrap();
        assert_eq!(sent, 4096);
        assert_eq!(a.send(&[IoSlice::new(&bytes)]).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(a);
        let mut keep = Keep::default();
        while b.receive(&mut keep).unwrap() > 0 {}
        assert_eq!(keep.0, bytes[..4096]);
    }

    #[test]
    fn without_memory_the_socket_carries_the_bytes() {
        let (a, b) = pair();
        // No segment is so small.
        let (mut a, mut b) = (Agreement::offer(a, 1).unwrap(), Agreement::answer(b));
        assert!(a.go_on().unwrap() && b.go_on().unwrap());
        let (mut a, mut b) = (a.connection(), b.connection());
        assert!(a.describe().starts_with("Unix socket (there is no memory to share"), "{}", a.describe());
        assert!(b.describe().starts_with("Unix socket (the other side"), "{}", b.describe());
        a.send(&[IoSlice::new(b"hello")]).unwrap();
        let mut keep = Keep::default();
        b.receive(&mut keep).unwrap();
        assert_eq!(keep.0, b"hello");
    }

    #[test]
    fn a_file_that_is_no_memory_is_refused_and_the_socket_is_left() {
        let (a, b) = pair();
        let (pipe, _writer) = std::io::pipe().unwrap();
        let file = std::os::fd::AsFd::as_fd(&pipe);
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        control.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(&file)));
        let bytes = [OFFER.as_slice(), &4096u64.to_le_bytes()].concat();
        rustix::net::sendmsg(&a, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL).unwrap();
        let mut b = Agreement::answer(b);
        assert!(b.go_on().unwrap());
        assert!(b.connection().describe().contains("memory cannot be shared"));
        let mut answer = [9];
        assert_eq!((&a).read(&mut answer).unwrap(), 1);
        assert_eq!(answer, [0]);
    }

    #[test]
    fn garbage_instead_of_an_offer_or_an_answer_is_an_error() {
        let (mut a, b) = pair();
        a.write_all(&[b'x'; 24]).unwrap();
        assert!(Agreement::answer(b).go_on().is_err());
        let (a, mut b) = pair();
        let mut a = Agreement::offer(a, 4096).unwrap();
        b.write_all(&[7]).unwrap();
        assert!(a.go_on().is_err());
        let (a, b) = pair();
        let mut a = Agreement::offer(a, 4096).unwrap();
        drop(b);
        assert!(a.go_on().is_err());
    }
}
