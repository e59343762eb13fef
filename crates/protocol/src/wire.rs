//! Frames: the units that a connection between two ranks carries, one after the other.
//!
//! A frame is a header of 16 bytes and a payload. The payload's length is not transmitted, since both sides know it:
//! that of a plan's message follows from the plan, that of a piece of a transfer from its offer, and that of any
//! other frame from its kind (luo2020 4.2.2 "minimal metadata"). Numbers are little-endian.
//!
//! The frames of one side arrive in order or not at all, and nothing is acknowledged. Both sides count them, and the
//! checksum of a frame includes its place on the connection. A frame that is lost, duplicated or inserted is thus
//! detected by the next frame at the latest.
//!
//! | bytes | what |
//! |---|---|
//! | 0..2 | the message's number among those of the chunk between these two seats; values from [`FIRST_CONTROL_CODE`] on are other kinds of frame |
//! | 2..4 | epoch: how often the membership has changed; a frame of another epoch is refused |
//! | 4..8 | of a plan's frame: the sender's number of the group of ranks (upper 12 bits) and the lower 20 bits of the operation's sequence number in that group; of a transfer's frame: the offering side's number of the transfer |
//! | 8..12 | of a plan's frame: the chunk of the operation; of a transfer's frame: see [`FrameKind`] |
//! | 12..16 | CRC-32C of the payload, then the 12 bytes above, then the frame's place (from 0 on, 4 bytes); the payload comes first, so that one that goes to many peers is summed once |

use crate::memory::Region;

/// Bytes of a header.
pub const HEADER: usize = 16;

/// First code that is not the number of a message; so also the limit on messages between two seats for one chunk.
pub const FIRST_CONTROL_CODE: u16 = 0xff00;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// A message of a plan, by its number among those of a chunk from this sender to this receiver.
    Message(u16),
    /// Announces an operation, before its first message on a connection. Its description follows
    /// ([`Announcement`](crate::operation::Announcement)).
    Begin,
    /// A heartbeat.
    Heartbeat,
    /// The sender leaves the job. Nothing follows, and the end of the connection is no fault.
    Leave,
    /// The sender has opened a group, and numbers it as the sequence says. The group's id follows (8 bytes).
    Open,
    /// The sender has left a group, given by its own number. It sends nothing more under that number. The chunk is 0,
    /// or, if the group has lost a member, that member's rank in the job plus 1. A chunk of 2^32 - 1 answers the
    /// receiver's own `Close`: the sender has not opened the group, and the number is the receiver's.
    Close,
    /// Asks the receiver to send no messages of plans until [`FrameKind::Resume`]: this side has no room for messages that
    /// it does not need yet.
    Hold,
    /// Ends [`FrameKind::Hold`].
    Resume,
    /// Offers a transfer; its label and length follow (32 bytes). If the chunk is 1, its only piece comes without
    /// being asked for.
    Offer,
    /// Asks for the pieces of a transfer, by the number that the receiver of this frame gave it.
    Ask,
    /// A piece of a transfer; the chunk is its index. All pieces but the last have the same length.
    Piece,
    /// Refuses a transfer, by the number that the receiver of this frame gave it: its length differs from the
    /// expected one, which follows (8 bytes).
    Refuse,
    /// Offered transfers that the sender of this frame has stopped keeping: their number (sequence) and the bytes
    /// that came with their offers (chunk).
    Taken,
}

impl FrameKind {
    const fn code(self) -> u16 {
        match self {
            Self::Message(number) => number,
            Self::Begin => FIRST_CONTROL_CODE,
            Self::Heartbeat => FIRST_CONTROL_CODE + 1,
            Self::Leave => FIRST_CONTROL_CODE + 2,
            Self::Open => FIRST_CONTROL_CODE + 3,
            Self::Close => FIRST_CONTROL_CODE + 4,
            Self::Hold => FIRST_CONTROL_CODE + 5,
            Self::Resume => FIRST_CONTROL_CODE + 6,
            Self::Offer => FIRST_CONTROL_CODE + 7,
            Self::Ask => FIRST_CONTROL_CODE + 8,
            Self::Piece => FIRST_CONTROL_CODE + 9,
            Self::Refuse => FIRST_CONTROL_CODE + 10,
            Self::Taken => FIRST_CONTROL_CODE + 11,
        }
    }

    const fn of(code: u16) -> Option<Self> {
        match code {
            FIRST_CONTROL_CODE.. => match code - FIRST_CONTROL_CODE {
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

    /// Whether the payload is callers' data, which has no checksum on connections that keep it intact.
    pub const fn carries(self) -> bool {
        matches!(self, Self::Message(_) | Self::Piece)
    }

    /// Whether the frame has no payload.
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
    pub kind: FrameKind,
    /// How often the membership has changed.
    pub epoch: u16,
    /// The sender's number of the group and the lower bits of the operation's sequence number, or the number of a
    /// transfer.
    pub sequence: u32,
    /// The chunk of an operation; of other frames see [`FrameKind`].
    pub chunk: u32,
}

impl Header {
    /// Encodes the header of the frame at this place of a connection, with a checksum that covers `payload`.
    pub fn encode(&self, place: u32, payload: &[u8]) -> [u8; HEADER] {
        self.encode_with(place, Digest::of(payload))
    }

    /// Like [`Header::encode`], for a payload whose digest is known.
    pub fn encode_with(&self, place: u32, payload: Digest) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0..2].copy_from_slice(&self.kind.code().to_le_bytes());
        bytes[2..4].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.chunk.to_le_bytes());
        let checksum = crc32c::crc32c_append(payload.0, &summed_header(&bytes, place));
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes the header of the frame at this place of a connection. The payload has yet to be added to the returned
    /// checksum.
    ///
    /// # Errors
    /// The code, if it is not that of a kind of frame.
    pub fn decode(bytes: &[u8; HEADER], place: u32) -> Result<(Self, Checksum), u16> {
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let kind = FrameKind::of(half(0)).ok_or(half(0))?;
        let header = Self { kind, epoch: half(2), sequence: word(4), chunk: word(8) };
        let head = summed_header(bytes, place);
        Ok((header, Checksum { payload: Digest::NOTHING, head, promised: word(12) }))
    }
}

/// The part of a frame that its checksum covers besides the payload: the header and the frame's place.
fn summed_header(header: &[u8; HEADER], place: u32) -> [u8; HEADER] {
    let mut bytes = *header;
    bytes[12..16].copy_from_slice(&place.to_le_bytes());
    bytes
}

/// Represents a payload in the checksum of its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u32);

impl Digest {
    /// The digest of no bytes.
    pub const NOTHING: Self = Self(0);

    /// The digest of these bytes.
    pub fn of(payload: &[u8]) -> Self {
        Self(crc32c::crc32c(payload))
    }

    /// The digest of a region's bytes.
    pub fn of_region(payload: Region) -> Self {
        Self(payload.crc32c_append(0))
    }
}

/// The checksum of a frame whose payload is arriving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum {
    payload: Digest,
    head: [u8; HEADER],
    promised: u32,
}

impl Checksum {
    /// Adds the next bytes of the payload.
    pub fn add(&mut self, bytes: &[u8]) {
        self.payload = Digest(crc32c::crc32c_append(self.payload.0, bytes));
    }

    /// Like [`Checksum::add`], for bytes in a region.
    pub fn add_region(&mut self, bytes: Region) {
        self.payload = Digest(bytes.crc32c_append(self.payload.0));
    }

    /// Whether the frame is the one that was sent: header, place and payload match the checksum in the header.
    pub fn holds(self) -> bool {
        crc32c::crc32c_append(self.payload.0, &self.head) == self.promised
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Number of kinds of frames other than messages.
    const OTHERS: u16 = 12;

    #[test]
    fn every_code_decodes_to_its_kind() {
        for code in 0..OTHERS {
            assert_eq!(
                FrameKind::of(FIRST_CONTROL_CODE + code).map(FrameKind::code),
                Some(FIRST_CONTROL_CODE + code)
            );
        }
        assert_eq!(FrameKind::of(FIRST_CONTROL_CODE + OTHERS), None);
    }

    fn kinds() -> impl Strategy<Value = FrameKind> {
        prop_oneof![
            (0..FIRST_CONTROL_CODE).prop_map(FrameKind::Message),
            (0..OTHERS).prop_map(|code| { FrameKind::of(FIRST_CONTROL_CODE + code).unwrap() })
        ]
    }

    proptest! {
        #[test]
        fn an_encoded_header_decodes_to_itself(
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
        fn a_frame_is_valid_only_at_its_place(kind in kinds(), place: u32, other: u32) {
            let header = Header { kind, epoch: 1, sequence: 2, chunk: 3 };
            let (_, checksum) = Header::decode(&header.encode(place, &[]), other).unwrap();
            prop_assert_eq!(checksum.holds(), place == other);
        }

        #[test]
        fn every_flipped_bit_is_detected(payload in prop::collection::vec(any::<u8>(), 1..100), bit: usize) {
            let header = Header { kind: FrameKind::Message(3), epoch: 1, sequence: 2, chunk: 3 };
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
