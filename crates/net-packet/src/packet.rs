//! A packet: 16 bytes, so that events hold it and nothing is allocated.

/// What travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Packet {
    /// Its connection.
    pub flow: u32,
    /// Data: lowest bits of the stream's offset of its first byte. Acknowledgement: of the first byte that is missing.
    pub sequence: u32,
    /// Data: when it was sent ([`stamp`]); an acknowledgement returns that of the segment that made it (RFC 7323), or
    /// where it has [`Packet::SELECTIVE`] the number of its blocks.
    pub stamp: u32,
    /// Bytes behind the headers that all packets have: payload, or what an acknowledgement of RDMA has more.
    pub length: u16,
    /// Where it is on the ways of its connection.
    pub hop: u8,
    /// See the constants.
    pub flags: u8,
}

impl Packet {
    /// It acknowledges, and carries no data.
    pub const ACKNOWLEDGES: u8 = 1;
    /// It has selective acknowledgements (RFC 2018).
    pub const SELECTIVE: u8 = 2;
    /// It met congestion (CE of RFC 3168).
    pub const MARKED: u8 = 4;
    /// It tells the sender that data met congestion (ECE).
    pub const ECHO: u8 = 8;
    /// It has been sent before.
    pub const AGAIN: u8 = 16;
    /// It opens a connection (SYN), or answers that.
    pub const OPENS: u8 = 32;
    /// Data: the last of its message. Acknowledgement of RDMA: what comes next was not in sequence (NAK).
    pub const LAST: u8 = 64;
    /// A notification of congestion (CNP), before which nothing waits.
    pub const NOTIFIES: u8 = 128;

    /// Whether it has all of these flags.
    #[inline]
    pub fn is(self, flags: u8) -> bool {
        self.flags & flags == flags
    }
}

/// Packets carry times in units of 2^13 ps: 32 bits of them last 35 s, longer than any packet is under way.
const UNIT: u32 = 13;

/// A time as packets carry it.
#[inline]
pub fn stamp(now: u64) -> u32 {
    (now >> UNIT) as u32
}

/// How long ago a stamp was made.
#[inline]
pub fn age(now: u64, made: u32) -> u64 {
    u64::from(stamp(now).wrapping_sub(made)) << UNIT
}

/// The stream's offset of which a packet carries the lowest bits, next to one that is known.
#[inline]
pub fn offset(near: u64, sequence: u32) -> u64 {
    near.wrapping_add_signed(i64::from(sequence.wrapping_sub(near as u32) as i32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_packet_is_small() {
        assert_eq!(size_of::<Packet>(), 16);
    }

    proptest! {
        #[test]
        fn offsets_are_found_again(at in 1u64 << 31..u64::MAX / 2, away in -(1i64 << 31) + 1..1i64 << 31) {
            let other = at.wrapping_add_signed(away);
            prop_assert_eq!(offset(at, other as u32), other);
        }
    }
}
