//! A handshake on a socket that does not block.

use crate::handshake::{Acceptor, Initiator, Next, Nonce, Role, Shut, Trust};
use crate::transport::socket::Socket;
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

/// How long a handshake may take: whoever is slower has no business here.
pub(super) const LONGEST: Duration = Duration::from_secs(5);

/// Most handshakes with strangers at once.
pub(super) const MOST: usize = 64;

#[derive(Debug)]
enum Side {
    Initiator(Initiator),
    Acceptor(Acceptor),
}

/// A handshake under way.
#[derive(Debug)]
pub(super) struct Greeting {
    pub(super) socket: Socket,
    pub(super) began: Instant,
    side: Side,
    out: Vec<u8>,
    /// What to do once everything is written: it was refused, or it is done.
    last: Option<Result<(), String>>,
}

/// Thirty-two random bytes.
pub(super) fn nonce() -> Result<Nonce, String> {
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).map_err(|error| format!("gets no random bytes: {error}"))?;
    Ok(nonce)
}

impl Greeting {
    /// Connects as `role`.
    pub(super) fn begin(socket: Socket, trust: Trust, job: &str, role: Role) -> Result<Self, String> {
        let (initiator, out) = Initiator::new(trust, job, role, nonce()?);
        Ok(Self { socket, began: Instant::now(), side: Side::Initiator(initiator), out, last: None })
    }

    /// Is connected to.
    pub(super) fn answer(socket: Socket, trust: Trust, job: &str) -> Result<Self, String> {
        let acceptor = Acceptor::new(trust, job, nonce()?);
        let side = Side::Acceptor(acceptor);
        Ok(Self { socket, began: Instant::now(), side, out: Vec::new(), last: None })
    }

    /// Goes on as far as the socket lets it; whether it is done. Bytes that follow the handshake stay in the socket.
    ///
    /// # Errors
    /// Why it is over.
    pub(super) fn go_on(&mut self, mut admit: impl FnMut(&Role) -> Result<(), String>) -> Result<bool, Shut> {
        loop {
            while !self.out.is_empty() {
                match self.socket.write(&self.out) {
                    Ok(written) => _ = self.out.drain(..written),
                    Err(error) if blocks(&error) => return Ok(false),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error.to_string().into()),
                }
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
                Err(error) => return Err(error.to_string().into()),
            };
            let next = match &mut self.side {
                Side::Initiator(initiator) => initiator.received(&bytes[..read])?,
                Side::Acceptor(acceptor) => match acceptor.received(&bytes[..read], &mut admit) {
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

    /// Who it is, once that is known.
    pub(super) fn role(&self) -> Option<&Role> {
        match &self.side {
            Side::Acceptor(acceptor) => acceptor.role(),
            Side::Initiator(_) => None,
        }
    }
}

fn blocks(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected)
}
