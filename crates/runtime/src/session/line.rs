//! A connection on which messages go both ways, without blocking.

use crate::control::message::{Decoder, LONGEST, encode};
use crate::transport::socket::Socket;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{ErrorKind, Read, Write};

/// A connection between a member and the coordinator, after the handshake.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) socket: Socket,
    decoder: Decoder,
    out: Vec<u8>,
}

impl Line {
    pub(crate) fn new(socket: Socket) -> Self {
        Self { socket, decoder: Decoder::new(LONGEST), out: Vec::new() }
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

    /// Reads what there is, up to 64 KiB: whoever floods does not have it all kept at once.
    ///
    /// # Errors
    /// How the connection ended.
    pub(crate) fn read(&mut self) -> Result<(), String> {
        const PIECES: usize = 16;
        let mut bytes = [0; 4096];
        for _ in 0..PIECES {
            match self.socket.read(&mut bytes) {
                Ok(0) => return Err("end of file".to_owned()),
                Ok(read) => self.decoder.feed(&bytes[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
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
