//! A non-blocking connection that carries control messages in both directions.

use crate::socket::Socket;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{ErrorKind, Read, Write};
use syncline_protocol::codec::{Decoder, MAX_MESSAGE_BYTES, encode};

/// The bytes of one read, and the most reads in one call, so that a peer that floods does not keep others waiting. Together
/// they take any message that members send in one call: what is left is read only when more arrives or time has passed.
const READ: usize = 16 << 10;
const MAX_READS: usize = 128;

/// Bytes that are kept for what is queued next.
const SHORT: usize = 4 << 10;

/// A connection for control messages, after the handshake.
#[derive(Debug)]
pub struct ControlConnection {
    /// The socket.
    pub socket: Socket,
    decoder: Decoder,
    out: Vec<u8>,
    heard: bool,
}

impl ControlConnection {
    /// Creates a connection on a socket whose handshake is complete.
    pub fn new(socket: Socket) -> Self {
        Self { socket, decoder: Decoder::new(MAX_MESSAGE_BYTES), out: Vec::new(), heard: false }
    }

    /// Queues a message for the next [`ControlConnection::write`].
    pub fn send(&mut self, message: &impl Serialize) {
        self.out.extend(encode(message));
    }

    /// Queues a message that is [encoded](encode) already, for several connections.
    pub fn send_encoded(&mut self, message: &[u8]) {
        self.out.extend_from_slice(message);
    }

    /// Whether everything that was queued has been written.
    pub fn is_flushed(&self) -> bool {
        self.out.is_empty() && !self.socket.has_unwritten()
    }

    /// Returns the next message that has been read.
    ///
    /// # Errors
    /// A clause about the peer: why what it sent is not a valid message.
    pub fn receive<M: DeserializeOwned>(&mut self) -> Result<Option<M>, String> {
        self.decoder.message()
    }

    /// Returns whether something has been read since the last call.
    pub fn take_heard(&mut self) -> bool {
        std::mem::take(&mut self.heard)
    }

    /// Reads what has arrived, up to 2 MiB, so that a peer that floods cannot fill memory.
    ///
    /// # Errors
    /// How the connection ended.
    pub fn read(&mut self) -> Result<(), String> {
        let mut bytes = [0; READ];
        for _ in 0..MAX_READS {
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

    /// Writes what is queued, then shuts this side down. Returns whether the other side has shut down too. Call it
    /// until it returns true: a socket that is closed with bytes unread discards what it has not delivered yet.
    pub fn close(&mut self) -> bool {
        if self.write().is_err() {
            return true;
        }
        if self.is_flushed() {
            _ = self.socket.shutdown();
        }
        let mut discarded = [0; 4096];
        for _ in 0..MAX_READS {
            match self.socket.read(&mut discarded) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() != ErrorKind::WouldBlock,
            }
        }
        false
    }

    /// Writes as much of what is queued as the socket takes.
    ///
    /// # Errors
    /// How the connection ended.
    pub fn write(&mut self) -> Result<(), String> {
        while !self.out.is_empty() {
            match self.socket.write(&self.out) {
                Ok(written) => _ = self.out.drain(..written),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        // A list of all members is long, and the coordinator sends it to each.
        self.out.shrink_to(SHORT);
        match self.socket.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error.to_string()),
            _ => Ok(()),
        }
    }
}
