//! A packet: 16 bytes, so that events hold it by value and nothing is allocated.

/// A packet on the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Packet {
    /// Its connection.
    pub flow: u32,
    /// Data: lowest bits of the stream offset of its first byte. Acknowledgement: those of the first missing
    /// byte.
    pub sequence: u32,
    /// Data: when it was sent ([`stamp`]). An acknowledgement returns the stamp of the segment that caused it
    /// (RFC 7323); with [`Packet::SELECTIVE`], it holds the number of its blocks instead.
    pub stamp: u32,
    /// Bytes after the headers that all packets have: payload, or what an RDMA acknowledgement adds.
    pub length: u16,
    /// Its position on the paths of its connection.
    pub hop: u8,
    /// Bits, defined by the constants below.
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
    /// It opens a connection (SYN), or answers a SYN.
    pub const OPENS: u8 = 32;
    /// Data: the last packet of its message. RDMA acknowledgement: the next packet was out of sequence (NAK).
    pub const LAST: u8 = 64;
    /// A congestion notification (CNP), which overtakes everything in a queue.
    pub const NOTIFIES: u8 = 128;

    /// Whether it has all of `flags`.
    #[inline]
    pub fn is(self, flags: u8) -> bool {
        self.flags & flags == flags
    }
}

/// Packets carry times in units of 2^13 ps: 32 bits of them last 35 s, longer than any packet is in flight.
const UNIT: u32 = 13;

/// Returns a time in the form that packets carry.
#[inline]
pub fn stamp(now: u64) -> u32 {
    (now >> UNIT) as u32
}

/// Returns how long ago a stamp was made.
#[inline]
pub fn age(now: u64, made: u32) -> u64 {
    u64::from(stamp(now).wrapping_sub(made)) << UNIT
}

/// Returns the stream offset closest to `near` whose lowest bits are `sequence`.
#[inline]
pub fn offset(near: u64, sequence: u32) -> u64 {
    near.wrapping_add_signed(i64::from(sequence.wrapping_sub(near as u32) as i32))
}

/// A packet in a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) packet: Packet,
    /// Bytes on the wire.
    pub(crate) bytes: u32,
    /// The link it arrived over; [`crate::port::NONE`] if a host sent it.
    pub(crate) from: u32,
    /// When it arrived.
    pub(crate) came: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_packet_takes_16_bytes() {
        assert_eq!(size_of::<Packet>(), 16);
    }

    proptest! {
        #[test]
        fn offsets_follow_from_their_lowest_bits(at in 1u64 << 31..u64::MAX / 2, away in -(1i64 << 31) + 1..1i64 << 31) {
            let other = at.wrapping_add_signed(away);
            prop_assert_eq!(offset(at, other as u32), other);
        }
    }
}
