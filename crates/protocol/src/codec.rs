//! Control messages as bytes: JSON, preceded by its length in four bytes, little-endian.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Most bytes of a message; each vector of a job takes some hundred bytes. A reader allocates only for bytes that
/// have arrived.
pub const MAX_MESSAGE_BYTES: usize = 1 << 24;

/// Encodes a message.
///
/// # Panics
/// Never: messages are short, and every message can be written as JSON.
pub fn encode(message: &impl Serialize) -> Vec<u8> {
    let text = serde_json::to_vec(message).expect("messages are plain data");
    let mut bytes = (text.len() as u32).to_le_bytes().to_vec();
    bytes.extend(text);
    bytes
}

/// Splits a stream of bytes into messages.
#[derive(Clone, Debug)]
pub struct Decoder {
    bytes: Vec<u8>,
    longest: usize,
}

impl Decoder {
    /// A decoder for messages of at most `longest` bytes.
    pub fn new(longest: usize) -> Self {
        Self { bytes: Vec::new(), longest }
    }

    /// Adds bytes that have arrived.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// How many more bytes complete what is arriving now, which is a length or a message.
    pub fn wants(&self) -> usize {
        match self.bytes.first_chunk::<4>() {
            None => 4 - self.bytes.len(),
            Some(&length) => (4 + u32::from_le_bytes(length) as usize)
                .min(4 + self.longest)
                .saturating_sub(self.bytes.len()),
        }
    }

    /// Whether the bytes are TLS: they begin with the header of a TLS record instead of a length.
    pub fn gets_tls(&self) -> bool {
        matches!(self.bytes.first_chunk::<4>(), Some([20..=23, 3, 0..=4, _]))
    }

    /// The next message, if it is complete.
    ///
    /// # Errors
    /// A clause that says why the bytes are not a message. Nothing after them can be read.
    pub fn message<M: DeserializeOwned>(&mut self) -> Result<Option<M>, String> {
        let Some(text) = self.next_bytes()? else { return Ok(None) };
        let message = serde_json::from_slice(&text);
        message.map(Some).map_err(|error| format!("sent an invalid message ({error})"))
    }

    /// The bytes of the next message, if it is complete. Checks its length before it allocates.
    ///
    /// # Errors
    /// A clause that says that the message is too long.
    pub fn next_bytes(&mut self) -> Result<Option<Vec<u8>>, String> {
        let Some(&length) = self.bytes.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(length) as usize;
        if length > self.longest {
            return Err(format!(
                "sent a message of {length} bytes, and at most {} are allowed",
                self.longest
            ));
        }
        if self.bytes.len() < 4 + length {
            return Ok(None);
        }
        let text = self.bytes[4..4 + length].to_vec();
        self.bytes.drain(..4 + length);
        Ok(Some(text))
    }
}
