//! What a link layer adds on the wire to a packet of the network layer.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use syncline_units::Bytes;

/// Bytes that Ethernet sends with a frame that are not part of it: 7 of preamble, the start frame delimiter, and an
/// inter-packet gap of 12 (IEEE 802.3, 3.2.1, 3.2.2 and 4.4.2).
const AROUND_FRAME: u64 = 20;
/// Bytes of an Ethernet frame beside its data: two addresses, length or type, and the frame check sequence (3.1.1).
const IN_FRAME: u64 = 18;
/// The shortest Ethernet frame (4.4.2, `minFrameSize`): shorter data is padded.
const SHORTEST_FRAME: u64 = 64;
/// The header of the Point-to-Point Protocol as ns-3's `PointToPointNetDevice` sends it: the protocol's number.
const POINT_TO_POINT: u64 = 2;

/// What a link layer adds on the wire to a packet of the network layer. In files: `ethernet`,
/// `point_to_point`, or a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Framing {
    /// IEEE 802.3: 38 bytes per packet, and frames of at least 64 bytes, which take 84 on the wire.
    #[default]
    Ethernet,
    /// ns-3's point-to-point links: 2 bytes per packet.
    PointToPoint,
    /// This many bytes per packet.
    Bytes(Bytes),
}

impl Framing {
    /// Returns the bytes added to a packet that is not padded.
    pub fn overhead(self) -> u64 {
        match self {
            Self::Ethernet => IN_FRAME + AROUND_FRAME,
            Self::PointToPoint => POINT_TO_POINT,
            Self::Bytes(bytes) => bytes.0,
        }
    }

    /// Returns the bytes of the shortest packet on the wire; 0 if packets are not padded.
    pub fn shortest(self) -> u64 {
        match self {
            Self::Ethernet => SHORTEST_FRAME + AROUND_FRAME,
            Self::PointToPoint | Self::Bytes(_) => 0,
        }
    }

    /// Returns the bytes on the wire of a packet with `packet` bytes in the network layer.
    pub fn wire(self, packet: u64) -> u64 {
        packet.saturating_add(self.overhead()).max(self.shortest())
    }
}

impl fmt::Display for Framing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ethernet => f.write_str("ethernet"),
            Self::PointToPoint => f.write_str("point_to_point"),
            Self::Bytes(bytes) => bytes.fmt(f),
        }
    }
}

impl Serialize for Framing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Bytes(bytes) => bytes.serialize(serializer),
            named => serializer.collect_str(named),
        }
    }
}

impl<'de> Deserialize<'de> for Framing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.as_str() {
            "ethernet" => Ok(Self::Ethernet),
            "point_to_point" => Ok(Self::PointToPoint),
            size => size.parse().map(Self::Bytes).map_err(D::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IEEE 802.3: a full frame with 1500 bytes of data has 1518 bytes, and one follows another every 1538
    /// byte times. The shortest takes 84 byte times (so 1 Gb/s carries 81,274 full or 1,488,095 shortest
    /// frames a second).
    #[test]
    fn frames_have_the_sizes_of_ieee_802_3() {
        assert_eq!(Framing::Ethernet.wire(1500), 1538);
        assert_eq!(1_000_000_000 / (8 * Framing::Ethernet.wire(1500)), 81_274);
        assert_eq!(1_000_000_000 / (8 * Framing::Ethernet.wire(40)), 1_488_095);
        for (packet, wire) in [(0, 84), (46, 84), (47, 85), (52, 90), (9000, 9038)] {
            assert_eq!(Framing::Ethernet.wire(packet), wire, "{packet}");
        }
        assert_eq!((Framing::PointToPoint.wire(1500), Framing::PointToPoint.wire(52)), (1502, 54));
        assert_eq!(Framing::Bytes(Bytes(14)).wire(52), 66);
    }

    #[test]
    fn files_give_framing_as_a_word_or_a_size() {
        for (text, framing) in [
            ("\"ethernet\"", Framing::Ethernet),
            ("\"point_to_point\"", Framing::PointToPoint),
            ("\"14B\"", Framing::Bytes(Bytes(14))),
        ] {
            assert_eq!(serde_json::from_str::<Framing>(text).unwrap(), framing);
            assert_eq!(serde_json::to_string(&framing).unwrap(), text);
        }
        assert!(serde_json::from_str::<Framing>("\"ethernets\"").is_err());
    }
}
