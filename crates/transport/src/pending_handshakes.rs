//! Handshakes of peers that have connected and are not admitted yet.

use crate::handshaking::{Handshaking, MAX_PENDING, TIMEOUT};
use crate::trust::Trust;
use mio::net::TcpStream;
use mio::{Registry, Token};
use std::collections::BTreeMap;
use syncline_protocol::handshake::{Hello, Refusal};

/// Handshakes under way, by the token under which the registry reports them.
#[derive(Debug, Default)]
pub struct PendingHandshakes {
    handshakes: BTreeMap<usize, Handshaking>,
    next: usize,
    /// The number of handshakes that were refused or timed out so far.
    pub refused: u64,
    /// Refused peers since the caller last took this list: at most the first 8.
    pub rejections: Vec<Rejected>,
}

/// A peer that was refused.
#[derive(Debug)]
pub struct Rejected {
    /// Its address.
    pub address: String,
    /// The reason.
    pub why: String,
}

/// The most rejections that are kept with their reasons.
const MAX_REJECTIONS: usize = 8;

impl PendingHandshakes {
    /// Returns a token that no other handshake has.
    pub fn next_token(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    /// Begins the handshake of a peer that has connected. At the limit, it replaces the handshake whose peer has been
    /// silent longest.
    pub fn add(&mut self, stream: TcpStream, trust: &Trust, job: Option<&str>, registry: &Registry) {
        if self.handshakes.len() >= MAX_PENDING {
            let silent = self.handshakes.iter().min_by_key(|(_, handshake)| handshake.heard);
            let silent = silent.map(|(&token, _)| token).and_then(|token| self.handshakes.remove(&token));
            let why = format!(
                "was silent longest when the limit of {MAX_PENDING} unfinished handshakes was reached"
            );
            self.reject(silent.as_ref(), why);
        }
        let handshake = stream.set_nodelay(true).map_err(|error| error.to_string());
        let handshake = handshake.and_then(|()| Handshaking::accept(stream.into(), trust.clone(), job));
        let Ok(mut handshake) = handshake else { return };
        let token = self.next_token();
        if handshake.socket.watch(registry, Token(token)).is_ok() {
            self.handshakes.insert(token, handshake);
        }
    }

    /// Advances handshakes and returns the first that is complete, with its token; `None` if no other one is. `admit`
    /// decides who is admitted.
    pub fn next_admitted(
        &mut self,
        mut admit: impl FnMut(&Hello) -> Result<(), Refusal>,
    ) -> Option<(usize, Handshaking)> {
        let tokens: Vec<usize> = self.handshakes.keys().copied().collect();
        for token in tokens {
            let Some(handshake) = self.handshakes.get_mut(&token) else { continue };
            let why = match handshake.advance(&mut admit) {
                Ok(false) if handshake.began.elapsed() <= TIMEOUT => continue,
                Ok(true) => None,
                Ok(false) => Some(format!("did not finish its handshake within {} s", TIMEOUT.as_secs_f64())),
                Err(shut) => Some(shut.why),
            };
            let handshake = self.handshakes.remove(&token);
            match why {
                None => return handshake.map(|handshake| (token, handshake)),
                Some(why) => self.reject(handshake.as_ref(), why),
            }
        }
        None
    }

    fn reject(&mut self, handshake: Option<&Handshaking>, why: String) {
        self.refused += 1;
        if self.rejections.len() < MAX_REJECTIONS {
            let address = handshake.and_then(|handshake| handshake.socket.peer());
            let address =
                address.map_or_else(|| "an unknown address".to_owned(), |address| address.to_string());
            self.rejections.push(Rejected { address, why });
        }
    }
}
