//! Strangers at a door: handshakes that are under way with whoever connects.

use super::greeting::{Greeting, LONGEST, MOST};
use crate::handshake::{Hello, Refusal, Trust};
use crate::transport::socket::Socket;
use mio::net::TcpStream;
use mio::{Registry, Token};
use std::collections::BTreeMap;

/// Handshakes under way, by number, under which the registry tells of them.
#[derive(Debug, Default)]
pub(crate) struct Porch {
    greetings: BTreeMap<usize, Greeting>,
    next: usize,
    /// How many did not come in.
    pub(crate) refused: u64,
    /// Where those came from that did not come in since this was looked at last, and why: the first of them, as there may be
    /// any number.
    pub(crate) turned_away: Vec<(String, String)>,
}

/// Most of whom it is remembered why they did not come in.
const REMEMBERED: usize = 8;

impl Porch {
    /// A number that nobody else at this door has.
    pub(crate) fn number(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    /// Somebody comes. Whoever has been silent for longest makes room.
    pub(crate) fn come(&mut self, stream: TcpStream, trust: &Trust, job: Option<&str>, registry: &Registry) {
        if self.greetings.len() >= MOST {
            let silent = self.greetings.iter().min_by_key(|(_, greeting)| greeting.heard);
            let silent = silent.map(|(&number, _)| number).and_then(|number| self.greetings.remove(&number));
            self.turn_away(silent.as_ref(), "made room for others".to_owned());
        }
        let greeting = stream.set_nodelay(true).map_err(|error| error.to_string());
        let greeting = greeting.and_then(|()| Greeting::answer(Socket::Tcp(stream), trust.clone(), job));
        let Ok(mut greeting) = greeting else { return };
        let number = self.number();
        if greeting.socket.watch(registry, Token(number)).is_ok() {
            self.greetings.insert(number, greeting);
        }
    }

    /// Goes on with handshakes, and gives the first that is through, with its number: to be asked until there is none.
    /// `admit` says who may come in.
    pub(crate) fn next_guest(
        &mut self,
        mut admit: impl FnMut(&Hello) -> Result<(), Refusal>,
    ) -> Option<(usize, Greeting)> {
        let numbers: Vec<usize> = self.greetings.keys().copied().collect();
        for number in numbers {
            let Some(greeting) = self.greetings.get_mut(&number) else { continue };
            let why = match greeting.go_on(&mut admit) {
                Ok(false) if greeting.began.elapsed() <= LONGEST => continue,
                Ok(true) => None,
                Ok(false) => Some(format!("has not come in within {} s", LONGEST.as_secs_f64())),
                Err(shut) => Some(shut.why),
            };
            let greeting = self.greetings.remove(&number);
            match why {
                None => return greeting.map(|greeting| (number, greeting)),
                Some(why) => self.turn_away(greeting.as_ref(), why),
            }
        }
        None
    }

    fn turn_away(&mut self, greeting: Option<&Greeting>, why: String) {
        self.refused += 1;
        if self.turned_away.len() < REMEMBERED {
            let from = greeting.and_then(|greeting| greeting.socket.peer());
            self.turned_away.push((from.map_or_else(|| "somebody".to_owned(), |from| from.to_string()), why));
        }
    }
}
