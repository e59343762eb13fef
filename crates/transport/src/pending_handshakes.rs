//! Handshakes of peers that have connected and are not admitted yet.

use crate::handshaking::{Handshaking, MAX_PENDING, TIMEOUT};
use crate::trust::Trust;
use mio::net::TcpStream;
use mio::{Registry, Token};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use syncline_protocol::handshake::{Hello, Refusal};

/// All handshakes are advanced this often, because some may have timed out.
const ADVANCE_ALL: Duration = Duration::from_millis(100);

/// Handshakes under way, by the token under which the registry reports them.
#[derive(Debug)]
pub struct PendingHandshakes {
    handshakes: BTreeMap<usize, Handshaking>,
    /// The most handshakes at any time.
    most: usize,
    /// Handshakes to advance.
    ready: BTreeSet<usize>,
    advanced_all: Instant,
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

impl Default for PendingHandshakes {
    fn default() -> Self {
        Self::of(MAX_PENDING)
    }
}

impl PendingHandshakes {
    /// Creates an empty set of at most `most` handshakes.
    pub fn of(most: usize) -> Self {
        Self {
            handshakes: BTreeMap::new(),
            most,
            ready: BTreeSet::new(),
            advanced_all: Instant::now(),
            next: 0,
            refused: 0,
            rejections: Vec::new(),
        }
    }

    /// Returns a token that no other handshake has.
    pub fn next_token(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    /// Begins the handshake of a peer that has connected. At the limit, it replaces the handshake whose peer has been
    /// silent longest.
    pub fn add(&mut self, stream: TcpStream, trust: &Trust, job: Option<&str>, registry: &Registry) {
        if self.handshakes.len() >= self.most {
            let silent = self.handshakes.iter().min_by_key(|(_, handshake)| handshake.heard);
            let silent = silent.map(|(&token, _)| token).and_then(|token| self.handshakes.remove(&token));
            let why = format!(
                "was silent longest when the limit of {} unfinished handshakes was reached",
                self.most
            );
            self.reject(silent.as_ref(), why);
        }
        let handshake = stream.set_nodelay(true).map_err(|error| error.to_string());
        let handshake = handshake.and_then(|()| Handshaking::accept(stream.into(), trust.clone(), job));
        let Ok(mut handshake) = handshake else { return };
        let token = self.next_token();
        if handshake.socket.watch(registry, Token(token)).is_ok() {
            self.handshakes.insert(token, handshake);
            self.ready.insert(token);
        }
    }

    /// Notes that the socket of a handshake had an event. Does nothing if there is no handshake of this token.
    pub fn note_event(&mut self, token: Token) {
        if self.handshakes.contains_key(&token.0) {
            self.ready.insert(token.0);
        }
    }

    /// Advances the handshakes whose sockets had events, and all of them from time to time. Returns the first that is
    /// complete, with its token; `None` if no other one is. `admit` decides who is admitted.
    pub fn next_admitted(
        &mut self,
        mut admit: impl FnMut(&Hello) -> Result<(), Refusal>,
    ) -> Option<(usize, Handshaking)> {
        if self.advanced_all.elapsed() > ADVANCE_ALL {
            self.advanced_all = Instant::now();
            self.ready.extend(self.handshakes.keys());
        }
        while let Some(token) = self.ready.pop_first() {
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
