//! Control messages as bytes: JSON, each message preceded by its length in four bytes, little-endian.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Most bytes of a message: a job's vectors are some hundred bytes each. A reader keeps no more of one than has come.
pub const LONGEST: usize = 1 << 24;

/// A message as bytes.
///
/// # Panics
/// Never: messages are short, and all of them have a form in JSON.
pub fn encode(message: &impl Serialize) -> Vec<u8> {
    let text = serde_json::to_vec(message).expect("messages are plain data");
    let mut bytes = (text.len() as u32).to_le_bytes().to_vec();
    bytes.extend(text);
    bytes
}

/// Bytes that become messages.
#[derive(Clone, Debug)]
pub struct Decoder {
    bytes: Vec<u8>,
    longest: usize,
}

impl Decoder {
    /// Takes messages of at most `longest` bytes.
    pub fn new(longest: usize) -> Self {
        Self { bytes: Vec::new(), longest }
    }

    /// Takes in bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// How many bytes are still to come of what is coming now: of a length, or of a message.
    pub fn wants(&self) -> usize {
        match self.bytes.first_chunk::<4>() {
            None => 4 - self.bytes.len(),
            Some(&length) => (4 + u32::from_le_bytes(length) as usize)
                .min(4 + self.longest)
                .saturating_sub(self.bytes.len()),
        }
    }

    /// Whether what comes is TLS: a record of it, where a length should be.
    pub fn gets_tls(&self) -> bool {
        matches!(self.bytes.first_chunk::<4>(), Some([20..=23, 3, 0..=4, _]))
    }

    /// The next message, if it is all there.
    ///
    /// # Errors
    /// A clause that says why what came is no message; nothing that follows can be read then.
    pub fn message<M: DeserializeOwned>(&mut self) -> Result<Option<M>, String> {
        let Some(text) = self.next_bytes()? else { return Ok(None) };
        let message = serde_json::from_slice(&text);
        message.map(Some).map_err(|error| format!("sent something that is no message ({error})"))
    }

    /// The bytes of the next message, if they are all there. Their number is checked before anything is kept for them.
    ///
    /// # Errors
    /// A clause, where they are too many.
    pub fn next_bytes(&mut self) -> Result<Option<Vec<u8>>, String> {
        let Some(&length) = self.bytes.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(length) as usize;
        if length > self.longest {
            return Err(format!("sent a message of {length} bytes where {} are allowed", self.longest));
        }
        if self.bytes.len() < 4 + length {
            return Ok(None);
        }
        let text = self.bytes[4..4 + length].to_vec();
        self.bytes.drain(..4 + length);
        Ok(Some(text))
    }
}
