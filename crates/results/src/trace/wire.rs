//! Writes the protocol-buffer wire format, as far as a trace needs it.

/// A message that is being written.
#[derive(Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    /// The bytes so far.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Removes all bytes, but keeps the memory.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds bytes that are already encoded.
    pub(super) fn append(&mut self, encoded: &[u8]) {
        self.0.extend_from_slice(encoded);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// Adds a `uint32`, `uint64`, `bool`, enum, or an `int32` or `int64` that is not negative.
    pub(super) fn uint(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(value);
    }

    /// Adds a `fixed64`, or the bits of a `double`.
    pub(super) fn fixed64(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Adds a `string`.
    pub(super) fn text(&mut self, field: u32, value: &str) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value.as_bytes());
    }

    /// Adds a nested message, whose fields `fill` adds.
    pub(super) fn message(&mut self, field: u32, fill: impl FnOnce(&mut Self)) {
        self.varint(u64::from(field) << 3 | 2);
        let start = self.0.len();
        fill(self);
        let length = self.0.len() - start;
        // The length precedes the content: append it, then rotate it to the front.
        self.varint(length as u64);
        let taken = self.0.len() - start - length;
        self.0[start..].rotate_right(taken);
    }
}

/// A reader for the tests, independent of the writer.
#[cfg(test)]
pub(super) mod decode {
    /// One field: its number, and its content by wire type.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) enum Value<'a> {
        Varint(u64),
        Fixed64(u64),
        Bytes(&'a [u8]),
    }

    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        value
    }

    /// The fields of a message in order. Panics if the bytes are not a message.
    pub(crate) fn fields(mut bytes: &[u8]) -> Vec<(u64, Value<'_>)> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let tag = varint(&mut bytes);
            let value = match tag & 7 {
                0 => Value::Varint(varint(&mut bytes)),
                1 => {
                    let (head, rest) = bytes.split_at(8);
                    bytes = rest;
                    Value::Fixed64(u64::from_le_bytes(head.try_into().unwrap()))
                }
                2 => {
                    let length = varint(&mut bytes) as usize;
                    let (head, rest) = bytes.split_at(length);
                    bytes = rest;
                    Value::Bytes(head)
                }
                other => panic!("wire type {other}"),
            };
            fields.push((tag >> 3, value));
        }
        fields
    }
}

#[cfg(test)]
mod tests {
    use super::Message;
    use super::decode::{Value, fields};

    #[test]
    fn messages_are_encoded_as_in_the_format_description() {
        let mut message = Message::default();
        message.uint(1, 150);
        message.text(2, "testing");
        message.message(3, |inner| inner.uint(1, 150));
        assert_eq!(message.bytes(), b"\x08\x96\x01\x12\x07testing\x1a\x03\x08\x96\x01");
    }

    #[test]
    fn messages_of_any_length_are_decoded() {
        for length in [0, 1, 127, 128, 16_383, 16_384, 70_000] {
            let text = "x".repeat(length);
            let mut message = Message::default();
            message.message(47, |inner| inner.message(1, |inner| inner.text(2, &text)));
            message.fixed64(48, u64::MAX);
            let outer = fields(message.bytes());
            assert_eq!(outer[1], (48, Value::Fixed64(u64::MAX)));
            let Value::Bytes(inner) = &outer[0].1 else { panic!("{:?}", outer[0]) };
            let Value::Bytes(inner) = fields(inner)[0].1.clone() else { panic!() };
            assert_eq!(fields(inner), [(2, Value::Bytes(text.as_bytes()))]);
        }
    }
}
