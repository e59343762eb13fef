//! A handshake on a socket that does not block: that of TLS first, where certificates say who may come.

use crate::certificates::Names;
use crate::handshake::{Acceptor, Hello, Initiator, Next, Nonce, Refusal, Role, Shut, Trust};
use crate::transport::socket::Socket;
use crate::transport::tls::{Secured, disbelief};
use mio::net::TcpStream;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How long a handshake may take: whoever is slower has no business here.
pub(crate) const LONGEST: Duration = Duration::from_secs(5);

/// Most handshakes with strangers at once.
pub(crate) const MOST: usize = 64;

#[derive(Debug)]
enum Side {
    Initiator(Initiator),
    Acceptor(Acceptor),
}

/// A handshake under way.
#[derive(Debug)]
pub(crate) struct Greeting {
    pub(crate) socket: Socket,
    pub(crate) began: Instant,
    /// When the other side has said something, or came.
    pub(crate) heard: Instant,
    side: Side,
    /// As what this side connects, and for which job.
    own: Option<(Role, String)>,
    out: Vec<u8>,
    /// What to do once everything is written: it was refused, or it is done.
    last: Option<Result<(), String>>,
}

/// Thirty-two random bytes.
pub(crate) fn nonce() -> Result<Nonce, String> {
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).map_err(|error| format!("gets no random bytes: {error}"))?;
    Ok(nonce)
}

/// A number that nobody can guess.
pub(crate) fn random() -> Result<u64, String> {
    let nonce = nonce()?;
    Ok(u64::from_le_bytes(std::array::from_fn(|byte| nonce[byte])))
}

impl Greeting {
    /// Connects as `role`.
    pub(crate) fn begin(socket: Socket, trust: Trust, job: &str, role: Role) -> Result<Self, String> {
        let socket = match &trust {
            Trust::Tls(identity) => Socket::Tls(Box::new(Secured::connect(socket, identity, &role)?)),
            Trust::Everybody | Trust::Key(_) => socket,
        };
        let own = Some((role.clone(), job.to_owned()));
        let (initiator, out) = Initiator::new(trust, job, role, nonce()?);
        let (began, side) = (Instant::now(), Side::Initiator(initiator));
        Ok(Self { socket, began, heard: began, side, own, out, last: None })
    }

    /// Goes to one address after the other as `role`, again and again until it is let in; `stop` is asked now and then whether to
    /// give up.
    ///
    /// # Errors
    /// Why it is not let in, for good or until the deadline.
    pub(crate) fn reach(
        addresses: &[SocketAddr],
        (trust, job): (&Trust, &str),
        role: &Role,
        deadline: Instant,
        stop: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<Socket, Shut> {
        const AGAIN: Duration = Duration::from_millis(50);
        let mut next = addresses.iter().cycle();
        // Why not, at each address.
        let mut whys: BTreeMap<SocketAddr, String> = BTreeMap::new();
        let given_up = |why: String| Shut { why, lasts: true };
        loop {
            stop().map_err(given_up)?;
            let Some(&address) = next.next() else { return Err(given_up("has no address".to_owned())) };
            let why = match std::net::TcpStream::connect_timeout(&address, Duration::from_millis(500)) {
                Err(error) => error.to_string(),
                Ok(stream) => {
                    let ready = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
                    ready.map_err(|error| error.to_string())?;
                    let socket = Socket::Tcp(TcpStream::from_std(stream));
                    let mut greeting = Self::begin(socket, trust.clone(), job, role.clone())?;
                    loop {
                        match greeting.go_on(|_| Ok(())) {
                            Ok(true) => return Ok(greeting.socket),
                            Err(shut) if shut.lasts => return Err(shut),
                            Err(shut) => break shut.why,
                            Ok(false) if Instant::now() > deadline || greeting.began.elapsed() > LONGEST => {
                                break "it does not answer".to_owned();
                            }
                            Ok(false) => {
                                stop().map_err(given_up)?;
                                std::thread::sleep(Duration::from_millis(1));
                            }
                        }
                    }
                }
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

    /// Is connected to.
    pub(crate) fn answer(socket: Socket, trust: Trust, job: Option<&str>) -> Result<Self, String> {
        let socket = match &trust {
            Trust::Tls(identity) => Socket::Tls(Box::new(Secured::accept(socket, identity)?)),
            Trust::Everybody | Trust::Key(_) => socket,
        };
        let acceptor = Acceptor::new(trust, job, nonce()?);
        let (began, side) = (Instant::now(), Side::Acceptor(acceptor));
        Ok(Self { socket, began, heard: began, side, own: None, out: Vec::new(), last: None })
    }

    /// Goes on as far as the socket lets it; whether it is done. Bytes that follow the handshake stay in the socket.
    ///
    /// # Errors
    /// Why it is over.
    pub(crate) fn go_on(
        &mut self,
        mut admit: impl FnMut(&Hello) -> Result<(), Refusal>,
    ) -> Result<bool, Shut> {
        loop {
            while !self.out.is_empty() {
                match self.socket.write(&self.out) {
                    Ok(written) => _ = self.out.drain(..written),
                    Err(error) if blocks(&error) => return Ok(false),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(shut(&error)),
                }
            }
            match self.socket.flush() {
                Err(error) if blocks(&error) && self.last.is_some() => return Ok(false),
                // Where nothing can be written any more, what came last says why.
                _ => {}
            }
            if let Some(last) = self.last.take() {
                return last.map(|()| true).map_err(Shut::from);
            }
            let wants = match &self.side {
                Side::Initiator(initiator) => initiator.wants(),
                Side::Acceptor(acceptor) => acceptor.wants(),
            };
            let mut bytes = vec![0; wants.max(1)];
            let read = match self.socket.read(&mut bytes) {
                Ok(0) => return Err("closed its connection in the handshake".to_owned().into()),
                Ok(read) => read,
                Err(error) if blocks(&error) => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(shut(&error)),
            };
            self.heard = Instant::now();
            let names = self.socket.names();
            let next = match &mut self.side {
                Side::Initiator(initiator) => {
                    let next = initiator.received(&bytes[..read])?;
                    if let (Some(names), Some((role, job))) = (names, &self.own) {
                        let why = |why| Shut { why: format!("does not stand for this: {why}"), lasts: true };
                        names.serves(role, job).map_err(why)?;
                    }
                    next
                }
                Side::Acceptor(acceptor) => match acceptor.received(&bytes[..read], |hello| {
                    names.map_or(Ok(()), |names: Names| names.connects(&hello.role, &hello.job))?;
                    admit(hello)
                }) {
                    Ok(next) => next,
                    Err((why, answer)) => {
                        self.out = answer;
                        self.last = Some(Err(why));
                        continue;
                    }
                },
            };
            match next {
                Next::Wait => {}
                Next::Send(answer) => self.out = answer,
                Next::Done(answer) => {
                    self.out = answer;
                    self.last = Some(Ok(()));
                }
            }
        }
    }

    /// Whether this side is not to give up for want of time: the other may take the connection for made.
    pub(crate) fn is_binding(&self) -> bool {
        matches!(&self.side, Side::Initiator(initiator) if initiator.has_proved())
    }

    /// The job of whoever connects, once that is known.
    pub(crate) fn job(&self) -> Option<&str> {
        match &self.side {
            Side::Acceptor(acceptor) => acceptor.job(),
            Side::Initiator(_) => None,
        }
    }

    /// Who it is, once that is known.
    pub(crate) fn role(&self) -> Option<&Role> {
        match &self.side {
            Side::Acceptor(acceptor) => acceptor.role(),
            Side::Initiator(_) => None,
        }
    }
}

/// Why it is over. Whoever is not believed now is not believed later.
fn shut(error: &std::io::Error) -> Shut {
    match disbelief(error) {
        Some(why) => Shut { why: why.to_owned(), lasts: true },
        None => error.to_string().into(),
    }
}

fn blocks(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected)
}
