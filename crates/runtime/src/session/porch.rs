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
}

impl Porch {
    /// A number that nobody else at this door has.
    pub(crate) fn number(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    /// Somebody comes. Whoever has been silent for longest makes room.
    pub(crate) fn come(&mut self, stream: TcpStream, trust: &Trust, job: Option<&str>, registry: &Registry) {
        if self.greetings.len() >= MOST {
            self.greetings.pop_first();
            self.refused += 1;
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
            let done = match greeting.go_on(&mut admit) {
                Ok(false) if greeting.began.elapsed() <= LONGEST => continue,
                Ok(done) => done,
                Err(_) => false,
            };
            let greeting = self.greetings.remove(&number);
            if done {
                return greeting.map(|greeting| (number, greeting));
            }
            self.refused += 1;
        }
        None
    }
}
