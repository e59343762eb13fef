//! Compares with ns-3 on networks that match to the byte: packets of 1502 B, acknowledgements of 54 B, links
//! of 100 Gb/s and 0.5 us around one switch, windows of 512 KiB that begin with 10 segments.

use crate::support::{IN_STEP, Star, all_reduce};
use syncline_net_packet::{Framing, Parameters};
use syncline_units::Bytes;

fn parameters(buffer: u64) -> Parameters {
    Parameters { buffer: Some(Bytes(buffer << 20)), framing: Framing::PointToPoint, ..Parameters::default() }
}

/// ns-3 3.37 and 3.48: 0.3279 ms.
#[test]
fn an_all_reduce_of_2_mb_on_32_hosts_takes_as_long_as_in_ns3() {
    let mut star = Star::new(32, parameters(16));
    let time = all_reduce(&mut star, 2_000_000, IN_STEP).as_s() * 1e3;
    assert!((time / 0.3279 - 1.0).abs() < 0.02, "{time} ms");
    assert!(star.simulation.flows().all(|(repairs, _)| repairs.retransmissions == 0));
}

/// ns-3 3.37 and 3.48: 1.3400 ms.
#[test]
fn an_all_reduce_of_8_mb_on_128_hosts_takes_as_long_as_in_ns3() {
    let mut star = Star::new(128, parameters(64));
    let time = all_reduce(&mut star, 8_000_000, IN_STEP).as_s() * 1e3;
    assert!((time / 1.34 - 1.0).abs() < 0.02, "{time} ms");
    assert!(star.simulation.flows().all(|(repairs, _)| repairs.retransmissions == 0));
}
