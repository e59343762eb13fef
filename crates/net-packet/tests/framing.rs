//! Bytes on the wire, and the resulting times, against IEEE 802.3, InfiniBand's annex A17 (RoCEv2) and
//! calculations by hand: 80 ps per byte at 100 Gb/s, two links of 0.5 us, store and forward at the switch
//! between them.

use crate::support::{Star, Told};
use syncline_net_packet::{Congestion, Framing, Parameters, Transport};
use syncline_units::{Bytes, Time};

/// Picoseconds that a byte takes at 100 Gb/s.
const BYTE: u64 = 80;

/// Windows never stop the sender, and nothing is lost.
fn open(parameters: Parameters) -> Parameters {
    Parameters { initial_window: 1_000, window: Some(Bytes(1 << 29)), buffer: None, ..parameters }
}

fn rdma() -> Parameters {
    Parameters { transport: Transport::Rdma, congestion: Some(Congestion::None), ..Parameters::default() }
}

/// One host sends `bytes` to the other. Returns when they have arrived, and the bytes on the wire in each
/// direction.
fn send(parameters: Parameters, bytes: u64) -> (Time, u64, u64) {
    let mut star = Star::new(2, open(parameters));
    let mut told = Told::default();
    star.simulation.write(Time::ZERO, star.flow(0, 1), bytes, 0, 0, &mut told);
    star.run(&mut told);
    let bytes = |port: u32| star.simulation.count(port).bytes;
    (told.delivered[0].0, bytes(0), bytes(1))
}

#[test]
fn packets_have_the_wire_sizes_of_the_standards() {
    let ethernet = Parameters::default();
    let ns3 = Parameters { framing: Framing::PointToPoint, ..ethernet };
    let bare = Parameters { headers: Some(Bytes(40)), ..ethernet };
    let jumbo = Parameters { mtu: Bytes(9000), ..ethernet };
    let roce = rdma();
    for (parameters, segment, full, acknowledgement) in [
        // 1500 + 38; 52 of headers + 38.
        (ethernet, 1448, 1538, 90),
        (jumbo, 8948, 9038, 90),
        // Without time stamps, an acknowledgement is padded to the shortest frame: 64 + 20.
        (bare, 1460, 1538, 84),
        (ns3, 1448, 1502, 54),
        // 44 of headers, and 48 for an acknowledgement.
        (roce, 1456, 1538, 86),
    ] {
        assert_eq!(parameters.segment(), segment);
        let packets = 100;
        let (time, there, back) = send(parameters, packets * segment);
        assert_eq!((there, back), (packets * full, packets * acknowledgement), "{parameters:?}");
        // All packets over the first link, and the last one over the second.
        assert_eq!(time.0, (packets + 1) * full * BYTE + 2 * 500_000, "{parameters:?}");
    }
}

#[test]
fn short_packets_are_padded_only_on_ethernet() {
    let bare = Parameters { headers: Some(Bytes(40)), ..Parameters::default() };
    for (payload, wire) in [(1, 84), (6, 84), (7, 85), (100, 178)] {
        assert_eq!(send(bare, payload).1, wire, "{payload}");
    }
    let bytes = Parameters { framing: Framing::Bytes(Bytes(14)), ..bare };
    assert_eq!(send(bytes, 1).1, 55);
}

/// A marked packet triggers a congestion notification: 60 bytes of the network layer, 98 on the wire.
#[test]
fn congestion_notifications_have_their_own_length() {
    let mark = Some(syncline_net_packet::Marking::step(Bytes(0)));
    let marked = Parameters { congestion: Some(Congestion::Dcqcn), mark, ..rdma() };
    let (_, _, back) = send(marked, 1456);
    assert_eq!(back, 86 + 98);
}
