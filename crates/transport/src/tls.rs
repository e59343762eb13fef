//! TLS 1.3 on a non-blocking socket. Each side accepts data only after the other has shown a certificate of the job's
//! CA.

use super::plain_socket::PlainSocket;
use crate::certificates::{Identity, Names, counterpart, date};
use rustls::{
    AlertDescription, CertificateError, ClientConnection, Connection, Error, InvalidMessage, ServerConnection,
};
use std::fmt;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use syncline_protocol::handshake::Role;

/// The most encrypted bytes of one read.
const STAGING: usize = 64 << 10;

/// The most encrypted bytes of one read during the handshake, and of the whole handshake. Certificates take one or two
/// thousand bytes.
const HANDSHAKE: usize = 16 << 10;

/// The most encrypted bytes that wait for room in the socket, without the overhead of TLS.
const WAITING: usize = 128 << 10;

/// The other side violated TLS or has no acceptable certificate.
#[derive(Debug)]
pub(crate) struct Rejected {
    /// A clause about the other side.
    pub(crate) why: String,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Rejected {}

/// Why TLS rejected the other side, if the error is a [`Rejected`].
pub(crate) fn rejection(error: &io::Error) -> Option<&str> {
    error.get_ref().and_then(|inner| inner.downcast_ref::<Rejected>()).map(|rejected| rejected.why.as_str())
}

/// A socket with TLS. All data is encrypted, and data that was changed in transit is rejected.
pub struct Secured {
    below: PlainSocket,
    tls: Connection,
    /// Encrypted bytes that were read from the socket. Those in the range `next` are still to be decrypted.
    staged: Vec<u8>,
    next: std::ops::Range<usize>,
    /// The number of bytes read during the handshake.
    handshake_bytes: usize,
    /// The error that the next read returns, after all data that was decrypted before it.
    broken: Option<io::Error>,
    /// Whether the socket's sending direction ends once everything is written, and whether it has ended.
    ending: bool,
    ended: bool,
}

impl fmt::Debug for Secured {
    /// Shows none of the data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secured").field("below", &self.below).finish_non_exhaustive()
    }
}

impl Secured {
    /// Begins TLS as the side that connected, in a role.
    pub(crate) fn connect(below: PlainSocket, identity: &Identity, role: &Role) -> Result<Self, String> {
        let (config, name) = identity.client(counterpart(role));
        let client = ClientConnection::new(config, name).map_err(|error| error.to_string())?;
        Ok(Self::new(below, client.into()))
    }

    /// Begins TLS as the side that accepted the connection.
    pub(crate) fn accept(below: PlainSocket, identity: &Identity) -> Result<Self, String> {
        let server = ServerConnection::new(identity.server()).map_err(|error| error.to_string())?;
        Ok(Self::new(below, server.into()))
    }

    fn new(below: PlainSocket, mut tls: Connection) -> Self {
        tls.set_buffer_limit(Some(WAITING));
        let (staged, next) = (Vec::new(), 0..0);
        Self { below, tls, staged, next, handshake_bytes: 0, broken: None, ending: false, ended: false }
    }

    /// The names in the other side's certificate, once the handshake is complete.
    pub(crate) fn names(&self) -> Option<Names> {
        let shown = self.tls.peer_certificates()?.first()?;
        (!self.tls.is_handshaking()).then(|| Names::of(shown))
    }

    /// Removes TLS and returns the socket, once the handshake is complete.
    ///
    /// # Errors
    /// TLS still has bytes to read or write.
    pub(crate) fn into_below(self) -> Result<PlainSocket, String> {
        if self.tls.is_handshaking()
            || self.tls.wants_write()
            || !self.next.is_empty()
            || self.broken.is_some()
        {
            return Err("sent data beyond its handshake".to_owned());
        }
        Ok(self.below)
    }

    pub(super) const fn below(&self) -> &PlainSocket {
        &self.below
    }

    pub(super) const fn below_mut(&mut self) -> &mut PlainSocket {
        &mut self.below
    }

    /// Whether encrypted bytes, or the end, wait for room in the socket. The poll reports when there is room.
    pub(super) fn has_unwritten(&self) -> bool {
        self.tls.wants_write() || self.ending && !self.ended
    }

    /// Ends the sending direction, after the bytes that still wait to be written.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        if !self.ending {
            self.ending = true;
            self.tls.send_close_notify();
        }
        unless_blocked(self.drain())
    }

    /// Writes encrypted bytes, as far as there is room.
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

    /// Reads decrypted bytes into the slices in order, and returns their number.
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

    /// Reads decrypted bytes into `room`, and decrypts more if there are none. Returns `None` at the end.
    ///
    /// `before` says whether the caller has already read some bytes. If so, an error, or having to wait, returns `None`
    /// too, and the next call returns the error.
    fn plain(&mut self, room: &mut [u8], before: bool) -> io::Result<Option<usize>> {
        loop {
            match self.tls.reader().read(room) {
                Ok(0) => return Ok(None),
                Ok(read) => return Ok(Some(read)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) if before => return Ok(None),
                Err(_) => {
                    return Err(io::Error::new(
                        ErrorKind::UnexpectedEof,
                        "end of file without TLS close_notify",
                    ));
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

    /// Reads from the socket if all bytes read before are decrypted, and decrypts some.
    fn feed(&mut self) -> io::Result<()> {
        if self.has_unwritten() {
            // If this fails, bytes that arrived before can still be read.
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
                self.handshake_bytes += read;
            }
            if read == 0 && self.tls.is_handshaking() {
                return Err(io::Error::new(
                    ErrorKind::UnexpectedEof,
                    "closed its connection during the handshake",
                ));
            }
            if read == 0 {
                // TLS knows whether the other side has announced the end.
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
        let long = self.tls.is_handshaking() && self.handshake_bytes > HANDSHAKE;
        let too_long = || format!("sent more than {HANDSHAKE} bytes in its handshake");
        let outcome = if long { Err(too_long()) } else { outcome };
        // Writes what TLS answers, as far as there is room.
        _ = self.drain();
        if let Err(why) = outcome {
            // The alert that says why was written last. If the socket were closed with bytes unread, the system would
            // discard the alert, so read them first.
            _ = self.below.shutdown();
            const MOST: usize = 16;
            _ = (0..MOST).find(|_| !matches!(self.below.read(&mut self.staged), Ok(1..)));
            return Err(io::Error::new(ErrorKind::InvalidData, Rejected { why }));
        }
        Ok(())
    }
}

/// Turns an error that means having to wait into success.
fn unless_blocked(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => Ok(()),
        outcome => outcome,
    }
}

/// Says what went wrong, as a clause about the other side.
fn clause(error: &Error, handshaking: bool) -> String {
    match error {
        Error::InvalidCertificate(error) => match error {
            CertificateError::ExpiredContext { not_after, .. } => {
                format!("shows a certificate that expired on {}", date(not_after.as_secs() as i64))
            }
            CertificateError::NotValidYetContext { not_before, .. } => {
                format!("shows a certificate that is not valid before {}", date(not_before.as_secs() as i64))
            }
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "shows a certificate issued by a different CA".to_owned()
            }
            CertificateError::NotValidForNameContext { expected, presented } => format!(
                "shows a certificate for {}, and this connection needs one for `{}`",
                presented.iter().map(|name| name_of(name)).collect::<Vec<_>>().join(", "),
                expected.to_str()
            ),
            error => format!("shows an invalid certificate ({error})"),
        },
        Error::NoCertificatesPresented => "shows no certificate".to_owned(),
        Error::AlertReceived(AlertDescription::UnknownCA | AlertDescription::DecryptError) => {
            "rejects our certificate: it was issued by a different CA".to_owned()
        }
        Error::AlertReceived(AlertDescription::CertificateExpired) => {
            "rejects our certificate: it has expired, or clocks differ".to_owned()
        }
        Error::AlertReceived(AlertDescription::CertificateRequired) => "requires a certificate".to_owned(),
        Error::AlertReceived(alert) => format!("ended the TLS session ({alert:?})"),
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) if handshaking => "does not speak TLS: use certificates everywhere, or nowhere".to_owned(),
        Error::PeerIncompatible(error) => {
            format!("does not support TLS 1.3 as this side requires it ({error:?})")
        }
        Error::DecryptError => "sent bytes that changed in transit: TLS cannot decrypt them".to_owned(),
        error => format!("violates the TLS protocol ({error})"),
    }
}

/// Extracts a name from the form in which rustls shows it, such as `DnsName("hub.syncline")`.
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

    /// Accepts a limited number of bytes, and none before the bytes accepted earlier are written.
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.drain()?;
        let taken = self.tls.writer().write_vectored(slices)?;
        if taken == 0 && slices.iter().any(|slice| !slice.is_empty()) {
            return Err(ErrorKind::WouldBlock.into());
        }
        // Bytes that cannot be written now are written later, because they have been accepted.
        unless_blocked(self.drain())?;
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
        let here = Secured::connect(PlainSocket::Unix(a), &identity, &ROLE).unwrap();
        (here, Secured::accept(PlainSocket::Unix(b), &identity).unwrap())
    }

    /// Reads up to a random number of bytes, in two slices. Returns whether the end has been reached.
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
    fn bytes_arrive_in_order_and_then_the_end_in_both_directions() {
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
                    // A side that has read everything may still have bytes to write.
                    unless_blocked(sides[side].flush()).unwrap();
                    if !over[side] {
                        over[side] = read(&mut sides[side], &mut random, &mut got[side]).unwrap();
                    }
                }
            }
            assert!(got.iter().all(|got| *got == bytes));
        }
    }

    #[test]
    fn an_end_without_close_notify_is_an_error() {
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
                Ok(over) => assert!(!over, "an end that the other side did not announce"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn bytes_that_changed_in_transit_are_rejected() {
        let (mut here, mut there) = pair();
        let (mut random, mut got) = (ChaCha8Rng::seed_from_u64(1), Vec::new());
        while got.is_empty() {
            _ = here.write(b"word");
            _ = read(&mut here, &mut random, &mut Vec::new());
            _ = read(&mut there, &mut random, &mut got).unwrap();
        }
        got.clear();
        // Bytes that look like a TLS record and are none.
        let mut record = vec![23, 3, 3, 0, 40];
        record.resize(45, 7);
        here.below_mut().write_all(&record).unwrap();
        let error = read(&mut there, &mut random, &mut got).unwrap_err();
        assert_eq!((error.kind(), got.len()), (ErrorKind::InvalidData, 0));
        assert!(rejection(&error).unwrap().contains("changed in transit"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn both_sides_reject_garbage(bytes in prop::collection::vec(any::<u8>(), 1..600), tls in any::<bool>()) {
            let (here, there) = pair();
            for mut side in [here, there] {
                let (mut stranger, own) = UnixStream::pair().unwrap();
                side.below = PlainSocket::Unix(own);
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
