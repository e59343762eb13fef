//! A handshake on a non-blocking socket. If the job has certificates, the handshake of TLS comes first.

use crate::certificates::Names;
use crate::random::nonce;
use crate::socket::Socket;
use crate::tls::rejection;
use crate::trust::Trust;
use mio::net::TcpStream;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use syncline_protocol::handshake::{
    Acceptor, HandshakeError, Hello, Initiator, Next, Refusal, Rejection, Role,
};

/// How long a handshake may take.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// The most unfinished handshakes of connecting peers at any time.
pub const MAX_PENDING: usize = 64;

#[derive(Debug)]
enum Side {
    Initiator(Initiator),
    Acceptor(Acceptor),
}

/// How this side identifies itself to the other.
#[derive(Clone, Copy, Debug)]
pub struct Identification<'a> {
    /// How both sides authenticate each other.
    pub trust: &'a Trust,
    /// The job's name; empty if the connection belongs to no job.
    pub job: &'a str,
}

/// How long to wait for a process.
#[derive(Clone, Copy, Debug)]
pub struct DialLimits {
    /// How long its host may take to accept the connection.
    pub connect: Duration,
    /// How long it may then take to admit this side.
    pub answer: Duration,
}

/// Why a process has not admitted this side. Each has a clause that says why.
#[derive(Debug)]
pub enum DialError {
    /// Its host answers that nobody listens there.
    NobodyListens(String),
    /// Nothing answers in time.
    NoAnswer(String),
    /// The process refuses this side or cannot be authenticated, or the connection has ended.
    Failed(HandshakeError),
    /// The caller no longer wants to connect.
    Stopped(String),
}

/// A handshake under way.
#[derive(Debug)]
pub struct Handshaking {
    /// The socket.
    pub socket: Socket,
    /// When it began.
    pub began: Instant,
    /// When the other side connected, or last sent something.
    pub heard: Instant,
    side: Side,
    /// The role in which this side connects, and its job; `None` if this side accepted the connection.
    own: Option<(Role, String)>,
    out: Vec<u8>,
    /// The handshake's result, which takes effect once `out` is written.
    result: Option<Result<(), String>>,
}

impl Handshaking {
    /// Begins a handshake as `role`, on a socket that this side has connected.
    pub fn begin(socket: Socket, trust: Trust, job: &str, role: Role) -> Result<Self, String> {
        let socket = match &trust {
            Trust::Tls(identity) => socket.connect_tls(identity, &role)?,
            Trust::Everybody | Trust::Key(_) => socket,
        };
        let own = Some((role.clone(), job.to_owned()));
        let (initiator, out) = Initiator::new(trust.authentication(), job, role, nonce()?);
        let (began, side) = (Instant::now(), Side::Initiator(initiator));
        Ok(Self { socket, began, heard: began, side, own, out, result: None })
    }

    /// Connects to the addresses in turn as `role`, until one of them admits this side or the deadline has passed.
    /// Calls `stop` repeatedly, and gives up if that returns an error.
    ///
    /// # Errors
    /// Why no address admitted this side.
    pub fn reach(
        addresses: &[SocketAddr],
        identification: Identification<'_>,
        role: &Role,
        deadline: Instant,
        stop: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<Socket, HandshakeError> {
        const AGAIN: Duration = Duration::from_millis(50);
        let mut next = addresses.iter().cycle();
        // The latest error of each address.
        let mut whys: BTreeMap<SocketAddr, String> = BTreeMap::new();
        let given_up = |why: String| HandshakeError { why, permanent: true };
        loop {
            stop().map_err(given_up)?;
            let Some(&address) = next.next() else { return Err(given_up("has no address".to_owned())) };
            let answer = deadline.saturating_duration_since(Instant::now()).min(TIMEOUT);
            let limits = DialLimits { connect: Duration::from_millis(500), answer };
            let why = match Self::dial(address, identification, role, limits, stop) {
                Ok(socket) => return Ok(socket),
                Err(DialError::Stopped(why)) => return Err(given_up(why)),
                Err(DialError::Failed(shut)) if shut.permanent => return Err(shut),
                Err(DialError::Failed(shut)) => shut.why,
                Err(DialError::NobodyListens(why) | DialError::NoAnswer(why)) => why,
            };
            whys.insert(address, why);
            let all = whys.len() == addresses.len();
            if Instant::now() > deadline && all {
                let each = whys.iter().map(|(address, why)| format!("{address}: {why}"));
                return Err(match addresses.len() {
                    1 => whys.into_values().collect::<String>().into(),
                    _ => each.collect::<Vec<_>>().join("; ").into(),
                });
            }
            if all {
                std::thread::sleep(AGAIN);
            }
        }
    }

    /// Connects to one address as `role`, once. Calls `stop` repeatedly, and gives up if that returns an error.
    ///
    /// # Errors
    /// Why the process there has not admitted this side.
    pub fn dial(
        address: SocketAddr,
        identification: Identification<'_>,
        role: &Role,
        limits: DialLimits,
        stop: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<Socket, DialError> {
        // Many processes of a host may wait for one that has to answer all of them: look less and less often.
        const LONGEST_PAUSE: Duration = Duration::from_millis(16);
        let Identification { trust, job } = identification;
        let stream = match std::net::TcpStream::connect_timeout(&address, limits.connect) {
            Ok(stream) => stream,
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                return Err(DialError::NobodyListens(error.to_string()));
            }
            Err(error) => return Err(DialError::NoAnswer(error.to_string())),
        };
        let unable = |why: String| DialError::Failed(HandshakeError { why, permanent: true });
        let ready = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
        ready.map_err(|error| unable(error.to_string()))?;
        let socket = Socket::from(TcpStream::from_std(stream));
        let mut handshake = Self::begin(socket, trust.clone(), job, role.clone()).map_err(unable)?;
        let mut pause = Duration::from_millis(1);
        while !handshake.advance(|_| Ok(())).map_err(DialError::Failed)? {
            if handshake.began.elapsed() > limits.answer {
                return Err(DialError::NoAnswer("it does not answer".to_owned()));
            }
            stop().map_err(DialError::Stopped)?;
            std::thread::sleep(pause);
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
        Ok(handshake.socket)
    }

    /// Begins a handshake on a socket that this side has accepted.
    pub fn accept(socket: Socket, trust: Trust, job: Option<&str>) -> Result<Self, String> {
        let socket = match &trust {
            Trust::Tls(identity) => socket.accept_tls(identity)?,
            Trust::Everybody | Trust::Key(_) => socket,
        };
        let acceptor = Acceptor::new(trust.authentication(), job, nonce()?);
        let (began, side) = (Instant::now(), Side::Acceptor(acceptor));
        Ok(Self { socket, began, heard: began, side, own: None, out: Vec::new(), result: None })
    }

    /// Advances as far as the socket allows, and returns whether the handshake is complete. Bytes that follow it stay
    /// in the socket.
    ///
    /// # Errors
    /// Why the handshake failed.
    pub fn advance(
        &mut self,
        mut admit: impl FnMut(&Hello) -> Result<(), Refusal>,
    ) -> Result<bool, HandshakeError> {
        loop {
            while !self.out.is_empty() {
                match self.socket.write(&self.out) {
                    Ok(written) => _ = self.out.drain(..written),
                    Err(error) if blocks(&error) => return Ok(false),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(handshake_error(&error)),
                }
            }
            match self.socket.flush() {
                Err(error) if blocks(&error) && self.result.is_some() => return Ok(false),
                // If the peer has closed the connection, its last message says why: read on.
                _ => {}
            }
            if let Some(result) = self.result.take() {
                return result.map(|()| true).map_err(HandshakeError::from);
            }
            let wants = match &self.side {
                Side::Initiator(initiator) => initiator.wants(),
                Side::Acceptor(acceptor) => acceptor.wants(),
            };
            let mut bytes = vec![0; wants.max(1)];
            let read = match self.socket.read(&mut bytes) {
                Ok(0) => return Err("closed its connection during the handshake".to_owned().into()),
                Ok(read) => read,
                Err(error) if blocks(&error) => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(handshake_error(&error)),
            };
            self.heard = Instant::now();
            let names = self.socket.names();
            let next = match &mut self.side {
                Side::Initiator(initiator) => {
                    let next = initiator.received(&bytes[..read])?;
                    if let (Some(names), Some((role, job))) = (names, &self.own) {
                        let shut = |why| HandshakeError {
                            why: format!("shows the wrong certificate: {why}"),
                            permanent: true,
                        };
                        names.serves(role, job).map_err(shut)?;
                    }
                    next
                }
                Side::Acceptor(acceptor) => match acceptor.received(&bytes[..read], |hello| {
                    names.map_or(Ok(()), |names: Names| names.connects(&hello.role, &hello.job))?;
                    admit(hello)
                }) {
                    Ok(next) => next,
                    Err(Rejection { why, answer }) => {
                        self.out = answer;
                        self.result = Some(Err(why));
                        continue;
                    }
                },
            };
            match next {
                Next::Wait => {}
                Next::Send(answer) => self.out = answer,
                Next::Done(answer) => {
                    self.out = answer;
                    self.result = Some(Ok(()));
                }
            }
        }
    }

    /// Whether this side may no longer time out, because the other side may already use the connection.
    pub fn is_binding(&self) -> bool {
        matches!(&self.side, Side::Initiator(initiator) if initiator.has_proved())
    }

    /// The initiator's job, once the initiator has sent it.
    pub fn job(&self) -> Option<&str> {
        match &self.side {
            Side::Acceptor(acceptor) => acceptor.job(),
            Side::Initiator(_) => None,
        }
    }

    /// The initiator's role, once the initiator has sent it.
    pub fn role(&self) -> Option<&Role> {
        match &self.side {
            Side::Acceptor(acceptor) => acceptor.role(),
            Side::Initiator(_) => None,
        }
    }
}

/// Converts an error of the socket. A certificate that is rejected now will be rejected later too.
fn handshake_error(error: &std::io::Error) -> HandshakeError {
    match rejection(error) {
        Some(why) => HandshakeError { why: why.to_owned(), permanent: true },
        None => error.to_string().into(),
    }
}

fn blocks(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected)
}
