//! TLS 1.3 on a socket that does not block: both sides show certificates of the job's CA before a byte of theirs is taken.

use super::socket::Socket;
use crate::certificates::{Identity, Names, counterpart, date};
use rustls::{
    AlertDescription, CertificateError, ClientConnection, Connection, Error, InvalidMessage, ServerConnection,
};
use std::fmt;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use syncline_protocol::handshake::Role;

/// Encrypted bytes that are read at once, at most.
const STAGING: usize = 64 << 10;

/// The same while strangers shake hands, and most bytes of a handshake: certificates take one or two thousand.
const HANDSHAKE: usize = 16 << 10;

/// Bytes that wait, encrypted, for room in the socket, at most (and what TLS puts around them).
const WAITING: usize = 128 << 10;

/// Why the other side is not believed.
#[derive(Debug)]
pub(crate) struct Disbelief {
    /// A clause, of which the other side is the subject.
    pub(crate) why: String,
}

impl fmt::Display for Disbelief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Disbelief {}

/// Why an error is one of belief, where it is.
pub(crate) fn disbelief(error: &io::Error) -> Option<&str> {
    error.get_ref().and_then(|inner| inner.downcast_ref::<Disbelief>()).map(|why| why.why.as_str())
}

/// A socket on which everything is encrypted, and nothing that was changed on its way is taken.
pub struct Secured {
    below: Socket,
    tls: Connection,
    /// Encrypted bytes that were read from the socket and are still to be decrypted.
    staged: Vec<u8>,
    next: std::ops::Range<usize>,
    /// Bytes of the handshake so far.
    greeted: usize,
    /// Why nothing more can be read, for when all that was decrypted before is taken.
    broken: Option<io::Error>,
    /// Whether the other side gets an end once everything is written, and whether it has.
    ending: bool,
    ended: bool,
}

impl fmt::Debug for Secured {
    /// Shows nothing of what is said.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secured").field("below", &self.below).finish_non_exhaustive()
    }
}

impl Secured {
    /// The side of whoever connects, in a role.
    pub(crate) fn connect(below: Socket, identity: &Identity, role: &Role) -> Result<Self, String> {
        let (config, name) = identity.client(counterpart(role));
        let client = ClientConnection::new(config, name).map_err(|error| error.to_string())?;
        Ok(Self::new(below, client.into()))
    }

    /// The side of whoever is connected to.
    pub(crate) fn accept(below: Socket, identity: &Identity) -> Result<Self, String> {
        let server = ServerConnection::new(identity.server()).map_err(|error| error.to_string())?;
        Ok(Self::new(below, server.into()))
    }

    fn new(below: Socket, mut tls: Connection) -> Self {
        tls.set_buffer_limit(Some(WAITING));
        let (staged, next) = (Vec::new(), 0..0);
        Self { below, tls, staged, next, greeted: 0, broken: None, ending: false, ended: false }
    }

    /// What the other side's certificate says, once it has been believed.
    pub(crate) fn names(&self) -> Option<Names> {
        let shown = self.tls.peer_certificates()?.first()?;
        (!self.tls.is_handshaking()).then(|| Names::of(shown))
    }

    /// The socket itself, for what needs no TLS once both sides are known: nothing may be under way.
    ///
    /// # Errors
    /// Where something is.
    pub(crate) fn into_below(self) -> Result<Socket, String> {
        if self.tls.is_handshaking()
            || self.tls.wants_write()
            || !self.next.is_empty()
            || self.broken.is_some()
        {
            return Err("said more than its handshake".to_owned());
        }
        Ok(self.below)
    }

    pub(super) const fn below(&self) -> &Socket {
        &self.below
    }

    pub(super) const fn below_mut(&mut self) -> &mut Socket {
        &mut self.below
    }

    /// Whether encrypted bytes wait for room in the socket, which tells when there is some.
    pub(super) fn waits(&self) -> bool {
        self.tls.wants_write() || self.ending && !self.ended
    }

    /// Says that nothing follows. The end itself comes behind what still waits.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        if !self.ending {
            self.ending = true;
            self.tls.send_close_notify();
        }
        waited(self.drain())
    }

    /// Writes what is encrypted, as far as there is room.
    fn drain(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.below) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        if self.ending && !self.ended {
            self.ended = true;
            self.below.shutdown()?;
        }
        Ok(())
    }

    /// Reads what is decrypted, into several places in turn; how much.
    fn take(&mut self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut taken = 0;
        for slice in slices.iter_mut() {
            let mut filled = 0;
            while filled < slice.len() {
                filled += match self.plain(&mut slice[filled..], taken + filled > 0)? {
                    Some(read) => read,
                    None => return Ok(taken + filled),
                };
            }
            taken += filled;
        }
        Ok(taken)
    }

    /// Reads what is decrypted, decrypting more where there is none; nothing where that has to wait or has come to an end,
    /// which is told where there was nothing before.
    fn plain(&mut self, room: &mut [u8], before: bool) -> io::Result<Option<usize>> {
        loop {
            match self.tls.reader().read(room) {
                Ok(0) => return Ok(None),
                Ok(read) => return Ok(Some(read)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) if before => return Ok(None),
                Err(_) => {
                    return Err(io::Error::new(ErrorKind::UnexpectedEof, "end of file without a farewell"));
                }
            }
            let fed = match self.broken.take() {
                Some(error) => Err(error),
                None => self.feed(),
            };
            match fed {
                Ok(()) => {}
                Err(error) if before => {
                    if error.kind() != ErrorKind::WouldBlock {
                        self.broken = Some(error);
                    }
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Decrypts some of what has come.
    fn feed(&mut self) -> io::Result<()> {
        if self.waits() {
            // Where that cannot be written any more, what came before is still there to be read.
            _ = self.drain();
        }
        if self.next.is_empty() {
            let most = if self.tls.is_handshaking() { HANDSHAKE } else { STAGING };
            if self.staged.len() < most {
                self.staged.resize(most, 0);
            }
            let read = loop {
                match self.below.read(&mut self.staged) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    read => break read?,
                }
            };
            if self.tls.is_handshaking() {
                self.greeted += read;
            }
            if read == 0 && self.tls.is_handshaking() {
                return Err(io::Error::new(
                    ErrorKind::UnexpectedEof,
                    "closed its connection in the handshake",
                ));
            }
            if read == 0 {
                // TLS knows whether it was to end here.
                self.tls.read_tls(&mut io::empty())?;
            }
            self.next = 0..read;
        }
        let mut some = &self.staged[self.next.clone()];
        if !some.is_empty() {
            self.next.start += self.tls.read_tls(&mut some)?;
        }
        let handshaking = self.tls.is_handshaking();
        let outcome = self.tls.process_new_packets().map(drop).map_err(|error| clause(&error, handshaking));
        let long = self.tls.is_handshaking() && self.greeted > HANDSHAKE;
        let outcome = if long { Err("sent more than a handshake takes".to_owned()) } else { outcome };
        // What TLS has to answer; where there is no room it waits.
        _ = self.drain();
        if let Err(why) = outcome {
            // The alert is behind everything that was said: what else has come must not take it back.
            _ = self.below.shutdown();
            const MOST: usize = 16;
            _ = (0..MOST).find(|_| !matches!(self.below.read(&mut self.staged), Ok(1..)));
            return Err(io::Error::new(ErrorKind::InvalidData, Disbelief { why }));
        }
        Ok(())
    }
}

/// An error, but for having to wait.
fn waited(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => Ok(()),
        outcome => outcome,
    }
}

/// What went wrong, as a clause of which the other side is the subject.
fn clause(error: &Error, handshaking: bool) -> String {
    match error {
        Error::InvalidCertificate(error) => match error {
            CertificateError::ExpiredContext { not_after, .. } => {
                format!("shows a certificate that ended on {}", date(not_after.as_secs() as i64))
            }
            CertificateError::NotValidYetContext { not_before, .. } => {
                format!("shows a certificate that begins on {}", date(not_before.as_secs() as i64))
            }
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "shows a certificate of another CA than ours".to_owned()
            }
            CertificateError::NotValidForNameContext { expected, presented } => format!(
                "shows a certificate for {}, and `{}` is wanted here",
                presented.iter().map(|name| name_of(name)).collect::<Vec<_>>().join(", "),
                expected.to_str()
            ),
            error => format!("shows a certificate that cannot be believed ({error})"),
        },
        Error::NoCertificatesPresented => "shows no certificate".to_owned(),
        Error::AlertReceived(AlertDescription::UnknownCA | AlertDescription::DecryptError) => {
            "does not believe our certificate: it is of another CA than theirs".to_owned()
        }
        Error::AlertReceived(AlertDescription::CertificateExpired) => {
            "does not believe our certificate: it has ended, or clocks differ".to_owned()
        }
        Error::AlertReceived(AlertDescription::CertificateRequired) => "wants a certificate".to_owned(),
        Error::AlertReceived(alert) => format!("ends TLS ({alert:?})"),
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) if handshaking => "does not speak TLS: use certificates everywhere, or nowhere".to_owned(),
        Error::PeerIncompatible(error) => format!("speaks another TLS than 1.3 as it is here ({error:?})"),
        Error::DecryptError => "sent bytes that changed on their way, as TLS finds".to_owned(),
        error => format!("breaks the rules of TLS ({error})"),
    }
}

/// A name as rustls shows it (`DnsName("hub.syncline")`), without what is around it.
fn name_of(shown: &str) -> String {
    format!("`{}`", shown.trim_start_matches("DnsName(").trim_end_matches(')').trim_matches('"'))
}

impl Read for Secured {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.read_vectored(&mut [IoSliceMut::new(bytes)])
    }

    fn read_vectored(&mut self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.take(slices)
    }
}

impl Write for Secured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    /// Takes no more than a little, and nothing before what was taken last is written.
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.drain()?;
        let taken = self.tls.writer().write_vectored(slices)?;
        if taken == 0 && slices.iter().any(|slice| !slice.is_empty()) {
            return Err(ErrorKind::WouldBlock.into());
        }
        // What could not be written now is written later: it has been taken.
        waited(self.drain())?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.drain()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificates::issue::issue;
    use mio::net::UnixStream;
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    const ROLE: Role = Role::Lane { from: 1, to: 0, lane: 0, epoch: 0 };

    fn identity() -> Identity {
        let issued = issue(None, 0, 1).unwrap();
        let rank = issued.rank.unwrap();
        Identity::new(issued.ca.as_bytes(), rank.certificate.as_bytes(), rank.key.as_bytes()).unwrap()
    }

    fn pair() -> (Secured, Secured) {
        let (a, b) = UnixStream::pair().unwrap();
        let identity = identity();
        let here = Secured::connect(Socket::Unix(a), &identity, &ROLE).unwrap();
        (here, Secured::accept(Socket::Unix(b), &identity).unwrap())
    }

    /// What there is to read, in pieces.
    fn read(from: &mut Secured, random: &mut ChaCha8Rng, into: &mut Vec<u8>) -> io::Result<bool> {
        let mut bytes = vec![0; random.random_range(1..100_000)];
        let first = random.random_range(0..bytes.len());
        let (a, b) = bytes.split_at_mut(first);
        let read = from.read_vectored(&mut [IoSliceMut::new(a), IoSliceMut::new(b)]);
        match read {
            Ok(0) => Ok(true),
            Ok(read) => {
                into.extend_from_slice(&bytes[..read]);
                Ok(false)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    #[test]
    fn everything_arrives_in_order_and_then_the_end_both_ways() {
        for seed in 0..8 {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let (here, there) = pair();
            let bytes: Vec<u8> = (0..3_000_000).map(|_| random.random::<u8>()).collect();
            let (mut sides, mut sent, mut got) = ([here, there], [0, 0], [Vec::new(), Vec::new()]);
            let mut over = [false; 2];
            while over != [true; 2] {
                for side in 0..2 {
                    let piece = random.random_range(1..300_000).min(bytes.len() - sent[side]);
                    if piece > 0 {
                        let (a, b) = bytes[sent[side]..][..piece].split_at(piece / 3);
                        match sides[side].write_vectored(&[IoSlice::new(a), IoSlice::new(b)]) {
                            Ok(written) => sent[side] += written,
                            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                        }
                        if sent[side] == bytes.len() {
                            sides[side].finish().unwrap();
                        }
                    }
                    // Who has heard all may still have something to say.
                    waited(sides[side].flush()).unwrap();
                    if !over[side] {
                        over[side] = read(&mut sides[side], &mut random, &mut got[side]).unwrap();
                    }
                }
            }
            assert!(got.iter().all(|got| *got == bytes));
        }
    }

    #[test]
    fn an_end_without_a_farewell_is_none() {
        let (mut here, mut there) = pair();
        let (mut random, mut got) = (ChaCha8Rng::seed_from_u64(1), Vec::new());
        while got.is_empty() {
            _ = here.write(b"word");
            _ = read(&mut here, &mut random, &mut Vec::new());
            assert!(!read(&mut there, &mut random, &mut got).unwrap());
        }
        assert!(there.names().unwrap().rank);
        drop(here);
        let error = loop {
            match read(&mut there, &mut random, &mut got) {
                Ok(over) => assert!(!over, "an end that nobody said"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn what_was_changed_on_its_way_is_not_taken() {
        let (mut here, mut there) = pair();
        let (mut random, mut got) = (ChaCha8Rng::seed_from_u64(1), Vec::new());
        while got.is_empty() {
            _ = here.write(b"word");
            _ = read(&mut here, &mut random, &mut Vec::new());
            _ = read(&mut there, &mut random, &mut got).unwrap();
        }
        got.clear();
        // Something that looks like a record, and is none of ours.
        let mut record = vec![23, 3, 3, 0, 40];
        record.resize(45, 7);
        here.below_mut().write_all(&record).unwrap();
        let error = read(&mut there, &mut random, &mut got).unwrap_err();
        assert_eq!((error.kind(), got.len()), (ErrorKind::InvalidData, 0));
        assert!(disbelief(&error).unwrap().contains("changed on their way"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn garbage_is_refused_on_both_sides(bytes in prop::collection::vec(any::<u8>(), 1..600), tls in any::<bool>()) {
            let (here, there) = pair();
            for mut side in [here, there] {
                let (mut stranger, own) = UnixStream::pair().unwrap();
                side.below = Socket::Unix(own);
                if tls {
                    stranger.write_all(&[22, 3, 1, 0, 200, 1]).unwrap();
                }
                stranger.write_all(&bytes).unwrap();
                drop(stranger);
                let mut got = [0; 64];
                let ends = (0..50).find_map(|_| match side.read(&mut got) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => None,
                    outcome => Some(outcome),
                });
                prop_assert!(matches!(ends, Some(Err(_))), "{ends:?}");
            }
        }
    }
}
