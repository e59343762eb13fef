//! Frames: what travels on a connection between two ranks, one after the other.
//!
//! A frame is a header of 16 bytes and a payload whose length both sides know without its being written: that of a plan's
//! message follows from the plan, that of a piece of a transfer from its offer, that of any other frame from its kind
//! (luo2020 4.2.2 "minimal metadata"). Numbers are little-endian. Frames that one side sends arrive in that order or not at all, and nothing is acknowledged. Both sides count
//! them: the checksum has the place of its frame on the connection in it, so that a frame that is lost, comes twice or comes
//! from elsewhere is found by the next one at the latest.
//!
//! | bytes | what |
//! |---|---|
//! | 0..2 | which message of the chunk between these two seats; from [`LAST_MESSAGE`] on, which other kind of frame |
//! | 2..4 | epoch: how often the membership has changed; a frame of another epoch is refused |
//! | 4..8 | of a plan's frames: the sender's number of the group of ranks (upper 12 bits), and the operation's sequence number in it, its lower 20 bits; of a transfer: the sender's number of it |
//! | 8..12 | of a plan's frames: chunk of the operation; of a transfer: see the [kind](Kind) |
//! | 12..16 | CRC-32C of the payload, then of the 12 bytes before, then of the frame's place (from 0 on, 4 bytes): a payload that goes to many is summed once |

use crate::memory::Region;

/// Bytes of a header.
pub const HEADER: usize = 16;

/// Most messages between two seats for one chunk.
pub const LAST_MESSAGE: u16 = 0xff00;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message of a plan, by its number among those from this sender to this receiver for a chunk.
    Message(u16),
    /// What the operation is, before its first message on a connection.
    Begin,
    /// A sign of life.
    Heartbeat,
    /// The sender leaves: nothing comes after this, and that is no fault.
    Leave,
    /// The sender takes part in a group, by the number that it gives it here; which one follows (8 bytes).
    Open,
    /// The sender has left a group, by its number of it: nothing that it numbers so comes after this. The chunk is 0, or one
    /// more than the member of the job that the group has lost. Where it is 2^32 - 1 the sender has never taken part, and the
    /// number is the receiver's, which has left.
    Close,
    /// Operations of plans are not to be sent until [`Kind::Resume`]: the sender of this has no room for more of what it does
    /// not need yet.
    Hold,
    /// They are sent again.
    Resume,
    /// There is something to transfer; its label and length follow (32 bytes). Where the chunk is 1 its piece comes at once.
    Offer,
    /// The transfer that the receiver of this has numbered so is awaited: its pieces may come.
    Ask,
    /// A piece of a transfer; the chunk says which. All but the last are equally long.
    Piece,
    /// The transfer that the receiver of this has numbered so is awaited with another length, which follows (8 bytes).
    Refuse,
    /// Of offered transfers so many (the sequence) with so many bytes that came at once (the chunk) are kept no longer.
    Taken,
}

impl Kind {
    const fn code(self) -> u16 {
        match self {
            Self::Message(number) => number,
            Self::Begin => LAST_MESSAGE,
            Self::Heartbeat => LAST_MESSAGE + 1,
            Self::Leave => LAST_MESSAGE + 2,
            Self::Open => LAST_MESSAGE + 3,
            Self::Close => LAST_MESSAGE + 4,
            Self::Hold => LAST_MESSAGE + 5,
            Self::Resume => LAST_MESSAGE + 6,
            Self::Offer => LAST_MESSAGE + 7,
            Self::Ask => LAST_MESSAGE + 8,
            Self::Piece => LAST_MESSAGE + 9,
            Self::Refuse => LAST_MESSAGE + 10,
            Self::Taken => LAST_MESSAGE + 11,
        }
    }

    const fn of(code: u16) -> Option<Self> {
        match code {
            LAST_MESSAGE.. => match code - LAST_MESSAGE {
                0 => Some(Self::Begin),
                1 => Some(Self::Heartbeat),
                2 => Some(Self::Leave),
                3 => Some(Self::Open),
                4 => Some(Self::Close),
                5 => Some(Self::Hold),
                6 => Some(Self::Resume),
                7 => Some(Self::Offer),
                8 => Some(Self::Ask),
                9 => Some(Self::Piece),
                10 => Some(Self::Refuse),
                11 => Some(Self::Taken),
                _ => None,
            },
            number => Some(Self::Message(number)),
        }
    }

    /// Whether it carries bytes of callers, which may lie where nobody has to sum them.
    pub const fn carries(self) -> bool {
        matches!(self, Self::Message(_) | Self::Piece)
    }

    /// Whether nothing follows the header.
    pub const fn bare(self) -> bool {
        matches!(
            self,
            Self::Heartbeat | Self::Leave | Self::Close | Self::Hold | Self::Resume | Self::Ask | Self::Taken
        )
    }
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the frame is.
    pub kind: Kind,
    /// How often the membership has changed.
    pub epoch: u16,
    /// The operation, its lower 32 bits.
    pub sequence: u32,
    /// The chunk.
    pub chunk: u32,
}

impl Header {
    /// The header as bytes, with the checksum of it and of a payload, as a connection's frame at this place.
    pub fn encode(&self, place: u32, payload: &[u8]) -> [u8; HEADER] {
        self.encode_with(place, Digest::of(payload))
    }

    /// As [`Header::encode`], of a payload whose digest is known.
    pub fn encode_with(&self, place: u32, payload: Digest) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0..2].copy_from_slice(&self.kind.code().to_le_bytes());
        bytes[2..4].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.chunk.to_le_bytes());
        let checksum = crc32c::crc32c_append(payload.0, &summed(&bytes, place));
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the header of a connection's frame at this place: what it says, and the checksum, to which the payload is still
    /// to be added.
    ///
    /// # Errors
    /// Where there is no such kind of frame: the code.
    pub fn decode(bytes: &[u8; HEADER], place: u32) -> Result<(Self, Checksum), u16> {
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let kind = Kind::of(half(0)).ok_or(half(0))?;
        let header = Self { kind, epoch: half(2), sequence: word(4), chunk: word(8) };
        let head = summed(bytes, place);
        Ok((header, Checksum { payload: Digest::NOTHING, head, promised: word(12) }))
    }
}

/// What the checksum of a header is of: what the header says, and the frame's place.
fn summed(header: &[u8; HEADER], place: u32) -> [u8; HEADER] {
    let mut bytes = *header;
    bytes[12..16].copy_from_slice(&place.to_le_bytes());
    bytes
}

/// What stands for a payload in the checksum of its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u32);

impl Digest {
    /// Of no bytes.
    pub const NOTHING: Self = Self(0);

    /// Of these bytes.
    pub fn of(payload: &[u8]) -> Self {
        Self(crc32c::crc32c(payload))
    }

    /// Of a region's bytes.
    pub fn of_region(payload: Region) -> Self {
        Self(payload.crc32c_append(0))
    }
}

/// A checksum that grows with the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum {
    payload: Digest,
    head: [u8; HEADER],
    promised: u32,
}

impl Checksum {
    /// Takes in more of the payload.
    pub fn add(&mut self, bytes: &[u8]) {
        self.payload = Digest(crc32c::crc32c_append(self.payload.0, bytes));
    }

    /// The same, where the bytes are in a region.
    pub fn add_region(&mut self, bytes: Region) {
        self.payload = Digest(bytes.crc32c_append(self.payload.0));
    }

    /// Whether what came is what was sent.
    pub fn holds(self) -> bool {
        crc32c::crc32c_append(self.payload.0, &self.head) == self.promised
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Kinds of frames beside messages.
    const OTHERS: u16 = 12;

    #[test]
    fn kinds_are_told_apart_by_their_codes() {
        for code in 0..OTHERS {
            assert_eq!(Kind::of(LAST_MESSAGE + code).map(Kind::code), Some(LAST_MESSAGE + code));
        }
        assert_eq!(Kind::of(LAST_MESSAGE + OTHERS), None);
    }

    fn kinds() -> impl Strategy<Value = Kind> {
        prop_oneof![
            (0..LAST_MESSAGE).prop_map(Kind::Message),
            (0..OTHERS).prop_map(|code| { Kind::of(LAST_MESSAGE + code).unwrap() })
        ]
    }

    proptest! {
        #[test]
        fn headers_are_read_as_they_were_written(
            kind in kinds(), epoch: u16, sequence: u32, chunk: u32, payload: Vec<u8>, cut in 0.0..1.0, place: u32,
        ) {
            let header = Header { kind, epoch, sequence, chunk };
            let (read, mut checksum) = Header::decode(&header.encode(place, &payload), place).unwrap();
            prop_assert_eq!(read, header);
            let (a, b) = payload.split_at((payload.len() as f64 * cut) as usize);
            checksum.add(a);
            checksum.add(b);
            prop_assert!(checksum.holds());
        }

        #[test]
        fn a_frame_is_believed_at_its_place_alone(kind in kinds(), place: u32, other: u32) {
            let header = Header { kind, epoch: 1, sequence: 2, chunk: 3 };
            let (_, checksum) = Header::decode(&header.encode(place, &[]), other).unwrap();
            prop_assert_eq!(checksum.holds(), place == other);
        }

        #[test]
        fn any_flipped_bit_is_found(payload in prop::collection::vec(any::<u8>(), 1..100), bit: usize) {
            let header = Header { kind: Kind::Message(3), epoch: 1, sequence: 2, chunk: 3 };
            let mut frame = header.encode(7, &payload).to_vec();
            frame.extend(&payload);
            let bit = bit % (8 * frame.len());
            frame[bit / 8] ^= 1 << (bit % 8);
            let holds = Header::decode(frame[..HEADER].try_into().unwrap(), 7).is_ok_and(|(_, mut checksum)| {
                checksum.add(&frame[HEADER..]);
                checksum.holds()
            });
            prop_assert!(!holds);
        }
    }
}
