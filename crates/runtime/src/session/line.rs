//! A connection on which messages go both ways, without blocking.

use crate::control::message::{Decoder, LONGEST, encode};
use crate::transport::socket::Socket;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{ErrorKind, Read, Write};

/// How many pieces of 4 KiB are read at a time: whoever floods has others wait no longer.
const PIECES: usize = 16;

/// A connection between a member and the coordinator, after the handshake.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) socket: Socket,
    decoder: Decoder,
    out: Vec<u8>,
    /// Whether something has come since it was asked last.
    heard: bool,
}

impl Line {
    pub(crate) fn new(socket: Socket) -> Self {
        Self { socket, decoder: Decoder::new(LONGEST), out: Vec::new(), heard: false }
    }

    /// Has something said, at the next [`Line::write`].
    pub(crate) fn say(&mut self, message: &impl Serialize) {
        self.out.extend(encode(message));
    }

    /// Whether everything is said.
    pub(crate) fn said(&self) -> bool {
        self.out.is_empty() && !self.socket.waits()
    }

    /// The next message that has come.
    ///
    /// # Errors
    /// A clause that says why it is none.
    pub(crate) fn message<M: DeserializeOwned>(&mut self) -> Result<Option<M>, String> {
        self.decoder.message()
    }

    /// Whether something has come since it was asked last.
    pub(crate) fn heard(&mut self) -> bool {
        std::mem::take(&mut self.heard)
    }

    /// Reads what there is, up to 64 KiB: whoever floods does not have it all kept at once.
    ///
    /// # Errors
    /// How the connection ended.
    pub(crate) fn read(&mut self) -> Result<(), String> {
        let mut bytes = [0; 4096];
        for _ in 0..PIECES {
            match self.socket.read(&mut bytes) {
                Ok(0) => return Err("end of file".to_owned()),
                Ok(read) => {
                    self.heard = true;
                    self.decoder.feed(&bytes[..read]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    /// Says what there is to say and then that nothing more will follow; whether the other side has ended, too. To be asked
    /// again and again: a connection that is closed with something unread takes back what is on its way.
    pub(crate) fn parts(&mut self) -> bool {
        if self.write().is_err() {
            return true;
        }
        if self.said() {
            _ = self.socket.shutdown();
        }
        // What still comes is of no interest.
        let mut waste = [0; 4096];
        for _ in 0..PIECES {
            match self.socket.read(&mut waste) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() != ErrorKind::WouldBlock,
            }
        }
        false
    }

    /// Writes as much as there is room for.
    ///
    /// # Errors
    /// How the connection ended.
    pub(crate) fn write(&mut self) -> Result<(), String> {
        while !self.out.is_empty() {
            match self.socket.write(&self.out) {
                Ok(written) => _ = self.out.drain(..written),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        match self.socket.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error.to_string()),
            _ => Ok(()),
        }
    }
}
