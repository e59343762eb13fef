//! The part of protobuf's wire format that Chakra's schema needs.
//!
//! Readers never allocate by a length field: they only slice bytes that are there.

/// An error in the bytes, with its offset in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireError {
    /// Offset in the file.
    pub at: usize,
    /// What is wrong, without a full stop.
    pub problem: &'static str,
}

/// The layout of a field's value: the lower three bits of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A varint.
    Varint = 0,
    /// Eight bytes.
    Fixed64 = 1,
    /// A length and that many bytes.
    Bytes = 2,
    /// Four bytes.
    Fixed32 = 5,
}

/// The value of a field, still encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// A varint.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// A length and that many bytes.
    Bytes(&'a [u8]),
    /// Four bytes.
    Fixed32(u32),
}

/// The error for a field whose layout differs from the schema.
const fn mismatch(at: usize) -> WireError {
    WireError { at, problem: "a field's wire type differs from Chakra's schema" }
}

impl<'a> Payload<'a> {
    /// The varint, or an error if it has another layout.
    pub const fn varint(self, at: usize) -> Result<u64, WireError> {
        if let Self::Varint(value) = self { Ok(value) } else { Err(mismatch(at)) }
    }
    /// The bytes, or an error if it has another layout.
    pub const fn bytes(self, at: usize) -> Result<&'a [u8], WireError> {
        if let Self::Bytes(value) = self { Ok(value) } else { Err(mismatch(at)) }
    }
    /// The text, or an error if it has another layout.
    pub fn text(self, at: usize) -> Result<&'a str, WireError> {
        std::str::from_utf8(self.bytes(at)?)
            .map_err(|_| WireError { at, problem: "a text is not valid UTF-8" })
    }
}

/// Reads the fields of a message.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    /// Offset of the first of `bytes` in the file.
    at: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor over the message in `bytes`, which start at offset `at` of the file.
    pub const fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }
    /// Whether all bytes have been read.
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
    /// Offset in the file of the next byte.
    pub const fn at(&self) -> usize {
        self.at
    }
    fn take(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        match self.bytes.split_at_checked(count) {
            Some((head, tail)) => {
                self.bytes = tail;
                self.at += count;
                Ok(head)
            }
            None => Err(WireError { at: self.at, problem: "a field is longer than its message" }),
        }
    }
    /// Reads a varint.
    pub fn varint(&mut self) -> Result<u64, WireError> {
        let mut value = 0u64;
        for (index, &byte) in self.bytes.iter().enumerate().take(10) {
            if index == 9 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.bytes = &self.bytes[index + 1..];
                self.at += index + 1;
                return Ok(value);
            }
        }
        let problem =
            if self.bytes.len() < 10 { "a varint is truncated" } else { "a varint exceeds 64 bits" };
        Err(WireError { at: self.at, problem })
    }
    /// Reads a value with layout `key`.
    pub fn payload(&mut self, key: Key) -> Result<Payload<'a>, WireError> {
        Ok(match key {
            Key::Varint => Payload::Varint(self.varint()?),
            Key::Fixed64 => {
                Payload::Fixed64(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes")))
            }
            Key::Fixed32 => {
                Payload::Fixed32(u32::from_le_bytes(self.take(4)?.try_into().expect("four bytes")))
            }
            Key::Bytes => {
                let at = self.at;
                let length = self.varint()?;
                let length = usize::try_from(length)
                    .map_err(|_| WireError { at, problem: "a field is longer than its message" })?;
                Payload::Bytes(self.take(length)?)
            }
        })
    }
    /// Reads the next field: its number, its value, and the offset of its value; `None` at the end.
    pub fn field(&mut self) -> Result<Option<(u32, Payload<'a>, usize)>, WireError> {
        if self.is_empty() {
            return Ok(None);
        }
        let at = self.at;
        let key = self.varint()?;
        let layout = match key & 7 {
            0 => Key::Varint,
            1 => Key::Fixed64,
            2 => Key::Bytes,
            5 => Key::Fixed32,
            _ => return Err(WireError { at, problem: "a field has an unknown wire type" }),
        };
        let number = u32::try_from(key >> 3)
            .ok()
            .filter(|&number| number != 0 && number < 1 << 29)
            .ok_or(WireError { at, problem: "a field has an impossible number" })?;
        let payload = self.payload(layout)?;
        let at = self.at - if let Payload::Bytes(bytes) = payload { bytes.len() } else { 0 };
        Ok(Some((number, payload, at)))
    }
}

/// Appends a varint.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a field's key.
pub fn put_key(out: &mut Vec<u8>, field: u32, key: Key) {
    put_varint(out, u64::from(field) << 3 | key as u64);
}

/// Appends a length and the bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

macro_rules! scalars {
    ($($name:ident: $ty:ty, $key:ident, |$payload:ident, $at:ident| $read:expr, |$out:ident, $value:ident| $put:expr;)+) => {$(
        #[doc = concat!("Protobuf's `", stringify!($name), "`.")]
        pub mod $name {
            use super::*;
            /// Its layout on the wire.
            pub const WIRE: Key = Key::$key;
            /// Decodes a value.
            #[allow(unused_variables)]
            pub fn read($payload: Payload<'_>, $at: usize) -> Result<$ty, WireError> {
                $read
            }
            /// Appends a value.
            #[allow(clippy::ptr_arg)]
            pub fn put($out: &mut Vec<u8>, $value: &$ty) {
                $put
            }
        }
    )+};
}

scalars! {
    double: f64, Fixed64,
        |payload, at| if let Payload::Fixed64(v) = payload { Ok(f64::from_bits(v)) } else { Err(mismatch(at)) },
        |out, value| out.extend_from_slice(&value.to_le_bytes());
    float: f32, Fixed32,
        |payload, at| if let Payload::Fixed32(v) = payload { Ok(f32::from_bits(v)) } else { Err(mismatch(at)) },
        |out, value| out.extend_from_slice(&value.to_le_bytes());
    int32: i32, Varint, |payload, at| Ok(payload.varint(at)? as i32), |out, value| put_varint(out, i64::from(*value) as u64);
    int64: i64, Varint, |payload, at| Ok(payload.varint(at)? as i64), |out, value| put_varint(out, *value as u64);
    uint32: u32, Varint, |payload, at| Ok(payload.varint(at)? as u32), |out, value| put_varint(out, u64::from(*value));
    uint64: u64, Varint, |payload, at| payload.varint(at), |out, value| put_varint(out, *value);
    sint32: i32, Varint,
        |payload, at| { let v = payload.varint(at)? as u32; Ok((v >> 1) as i32 ^ -((v & 1) as i32)) },
        |out, value| put_varint(out, u64::from(((*value << 1) ^ (*value >> 31)) as u32));
    sint64: i64, Varint,
        |payload, at| { let v = payload.varint(at)?; Ok((v >> 1) as i64 ^ -((v & 1) as i64)) },
        |out, value| put_varint(out, ((*value << 1) ^ (*value >> 63)) as u64);
    fixed32: u32, Fixed32,
        |payload, at| if let Payload::Fixed32(v) = payload { Ok(v) } else { Err(mismatch(at)) },
        |out, value| out.extend_from_slice(&value.to_le_bytes());
    fixed64: u64, Fixed64,
        |payload, at| if let Payload::Fixed64(v) = payload { Ok(v) } else { Err(mismatch(at)) },
        |out, value| out.extend_from_slice(&value.to_le_bytes());
    sfixed32: i32, Fixed32,
        |payload, at| if let Payload::Fixed32(v) = payload { Ok(v as i32) } else { Err(mismatch(at)) },
        |out, value| out.extend_from_slice(&value.to_le_bytes());
    sfixed64: i64, Fixed64,
        |payload, at| if let Payload::Fixed64(v) = payload { Ok(v as i64) } else { Err(mismatch(at)) },
        |out, value| out.extend_from_slice(&value.to_le_bytes());
    boolean: bool, Varint, |payload, at| Ok(payload.varint(at)? != 0), |out, value| out.push(u8::from(*value));
    string: String, Bytes, |payload, at| Ok(payload.text(at)?.to_owned()), |out, value| put_bytes(out, value.as_bytes());
    blob: Vec<u8>, Bytes, |payload, at| Ok(payload.bytes(at)?.to_vec()), |out, value| put_bytes(out, value);
}
