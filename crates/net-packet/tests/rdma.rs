//! RDMA: the guarantees of lossless switches, and DCQCN's effect on queues.

use crate::support::{Star, Told, eight_share_a_link};
use proptest::prelude::*;
use syncline_net_packet::{Congestion, Layout, Link, Marking, Parameters, Sharing, Simulation, Transport};
use syncline_units::{Bytes, Rate, Time};

fn rdma() -> Parameters {
    Parameters { transport: Transport::Rdma, congestion: Some(Congestion::None), ..Parameters::default() }
}

/// All hosts but the last send `bytes` to the last.
fn incast(parameters: Parameters, hosts: u32, bytes: u64) -> (Star, Told) {
    let mut star = Star::new(hosts, parameters);
    let mut told = Told::default();
    for from in 0..hosts - 1 {
        star.simulation.write(Time::ZERO, star.flow(from, hosts - 1), bytes, from, 0, &mut told);
    }
    star.run(&mut told);
    assert_eq!(told.delivered.len() as u32, hosts - 1);
    (star, told)
}

fn drops(star: &Star) -> u64 {
    (0..2 * star.hosts).map(|port| star.simulation.count(port).drops).sum()
}

fn repairs(star: &Star) -> (u64, u64) {
    let all = star.simulation.flows().map(|(repairs, _)| (repairs.retransmissions, repairs.timeouts));
    all.fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1))
}

/// Returns when the last message arrived, in seconds.
fn end(told: &Told) -> f64 {
    told.delivered.iter().map(|&(time, _)| time.as_s()).fold(0.0, f64::max)
}

/// Returns the ratio of a full packet's bytes on the wire to its payload.
fn wire_over_payload(parameters: &Parameters) -> f64 {
    parameters.wire() as f64 / parameters.segment() as f64
}

#[test]
fn a_single_connection_fills_its_link() {
    for mtu in [1500, 9000] {
        let parameters = Parameters { mtu: Bytes(mtu), ..rdma() };
        let bytes = 100_000_000;
        let (star, told) = incast(parameters, 2, bytes);
        let rate = bytes as f64 * 8.0 * wire_over_payload(&parameters) / end(&told) / 100e9;
        assert!(rate > 0.999 && rate <= 1.0, "{rate}");
        assert_eq!((drops(&star), repairs(&star)), (0, (0, 0)));
    }
}

#[test]
fn an_incast_with_pauses_loses_nothing_and_keeps_its_link_busy() {
    for sharing in [Sharing::Even, Sharing::Dynamic] {
        let parameters = Parameters { buffer: Some(Bytes(1 << 20)), sharing, ..rdma() };
        let (star, told) = incast(parameters, 17, 1_000_000);
        assert_eq!((drops(&star), repairs(&star)), (0, (0, 0)), "{sharing:?}");
        let pauses: u64 = (0..17).map(|host| star.simulation.count(host).pauses).sum();
        assert!(pauses > 0, "{sharing:?}: no sender was paused");
        let ideal = 16.0 * 1e6 * 8.0 * wire_over_payload(&parameters) / 100e9;
        assert!(end(&told) > ideal && end(&told) < 1.02 * ideal, "{sharing:?}: {} {ideal}", end(&told));
    }
}

#[test]
fn without_pauses_senders_go_back_to_lost_packets() {
    let parameters = Parameters {
        buffer: Some(Bytes(17 * 20_000)),
        pfc: Some(false),
        min_timeout: Time::from_ns(500_000),
        ..rdma()
    };
    let (star, _) = incast(parameters, 17, 200_000);
    assert!(drops(&star) > 0);
    let (again, _) = repairs(&star);
    // Everything in flight after a lost packet is sent again, not only the lost packet.
    assert!(again > drops(&star) / 2, "{again} {}", drops(&star));
}

/// If ports have equal parts of a buffer, no queue is longer than its part; otherwise there is no limit per
/// port.
#[test]
fn ports_report_the_limits_of_their_queues() {
    let limits = |parameters: Parameters| {
        let (star, _) = incast(parameters, 17, 200_000);
        let port = star.down(16);
        assert_eq!(star.simulation.limit(0), None, "a host's queue is unlimited");
        (star.simulation.limit(port), star.simulation.longest_queue(port))
    };
    let buffer = Some(Bytes(17 * 20_000));
    let tcp = Parameters { buffer, min_timeout: Time::from_ns(500_000), ..Parameters::default() };
    let lossy = Parameters { pfc: Some(false), transport: Transport::Rdma, ..tcp };
    for even in [tcp, lossy] {
        let (limit, longest) = limits(even);
        assert_eq!(limit, Some(20_000));
        assert!(longest > 18_000 && longest <= 20_000, "{longest}");
    }
    let large = Some(Bytes(1 << 20));
    let dynamic = Parameters { sharing: Sharing::Dynamic, ..tcp };
    for other in [dynamic, Parameters { buffer: None, ..tcp }, Parameters { buffer: large, ..rdma() }] {
        assert_eq!(limits(other).0, None);
    }
}

/// With DCQCN the queue stays below the length at which senders are paused, and the link stays busy.
#[test]
fn dcqcn_keeps_the_queue_short() {
    let loose = Parameters { buffer: Some(Bytes(32 << 20)), ..rdma() };
    let marks =
        Marking { from: Bytes(100_000), to: Bytes(400_000), probability: 0.1, weight: 1.0, drop: false };
    let tight = Parameters { congestion: Some(Congestion::Dcqcn), mark: Some(marks), ..loose };
    let mean = |parameters: Parameters| {
        let (star, told) = incast(parameters, 5, 25_000_000);
        let queued = star.simulation.count(star.down(4)).queued as f64 / 1e12;
        (queued / end(&told), end(&told), star.simulation.count(star.down(4)).marks)
    };
    let (without, ideal, _) = mean(loose);
    let mut times = Vec::new();
    // The marked packets are random.
    for seed in 0..9 {
        let (with, time, marks) = mean(Parameters { seed: Some(seed), ..tight });
        assert!(marks > 0);
        assert!(with < 100_000.0 && without > 10e6, "{with} against {without} B");
        times.push(time);
    }
    // The first notifications halve every rate, and recovery takes milliseconds.
    times.sort_by(f64::total_cmp);
    assert!(times[4] < 1.75 * ideal && times[8] < 2.0 * ideal, "{times:?} against {ideal} s");
}

/// Connections of one host take turns: those of equal length end within a packet or two of each other.
#[test]
fn connections_of_a_host_take_turns() {
    let mut star = Star::new(5, rdma());
    let mut told = Told::default();
    for to in 1..5 {
        star.simulation.write(Time::ZERO, star.flow(0, to), 1_000_000, to, 0, &mut told);
    }
    star.run(&mut told);
    let times: Vec<f64> = told.delivered.iter().map(|&(time, _)| time.as_s()).collect();
    let packet = 1538.0 * 8.0 / 100e9;
    assert!(times[3] - times[0] < 6.0 * packet, "{times:?}");
}

/// Eight connections share a link: Jain's index of the bytes that each sent while all were sending.
#[test]
fn dcqcn_shares_a_link() {
    let marks =
        Marking { from: Bytes(100_000), to: Bytes(400_000), probability: 0.1, weight: 1.0, drop: false };
    let parameters =
        Parameters { congestion: Some(Congestion::Dcqcn), mark: Some(marks), segments_per_ack: 4, ..rdma() };
    let (sent, jain) = eight_share_a_link(parameters);
    let sum = sent.iter().sum::<f64>();
    assert!(jain > 0.9, "{jain} {sent:?}");
    // 20 ms of 100 Gb/s are 250 MB; the first milliseconds are spent recovering from the first notifications.
    assert!(sum > 0.7 * 250.0, "{sum} MB");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// Whatever is sent, a switch that pauses its senders drops nothing, and everything arrives.
    #[test]
    fn lossless_switches_lose_nothing(
        hosts in 2u32..9,
        (mtu, slack) in (prop::sample::select(vec![576u64, 1500, 9000]), 1u64..100),
        dynamic in any::<bool>(),
        tcp in any::<bool>(),
        dcqcn in any::<bool>(),
        alpha in 0.05f64..4.0,
        messages in prop::collection::vec((0u32..8, 1u32..8, 0u64..300_000, 0u64..2_000), 1..40),
    ) {
        let congestion = match (tcp, dcqcn) {
            (true, _) => Congestion::NewReno,
            (false, true) => Congestion::Dcqcn,
            (false, false) => Congestion::None,
        };
        let parameters = Parameters {
            mtu: Bytes(mtu),
            transport: if tcp { Transport::Tcp } else { Transport::Rdma },
            congestion: Some(congestion),
            pfc: Some(true),
            // Headroom is 25 kB per link plus at most four packets; the rest is shared.
            buffer: Some(Bytes(u64::from(hosts) * (26_000 + 4 * (mtu + 38) + slack * mtu))),
            sharing: if dynamic { Sharing::Dynamic } else { Sharing::Even },
            alpha,
            ..Parameters::default()
        };
        let mut star = Star::new(hosts, parameters);
        let mut told = Told::default();
        let mut now = Time::ZERO;
        for (id, &(from, away, bytes, later)) in (0u32..).zip(&messages) {
            now += Time::from_ns(later);
            while star.simulation.next_time().is_some_and(|time| time <= now) {
                star.simulation.step(now, &mut told);
            }
            let (from, to) = (from % hosts, (from % hosts + 1 + (away - 1) % (hosts - 1)) % hosts);
            star.simulation.write(now, star.flow(from, to), bytes, id, 0, &mut told);
        }
        while star.simulation.next_time().is_some() {
            star.simulation.step(Time::MAX, &mut told);
            prop_assert!(star.simulation.events() < 5_000_000, "the simulation does not end");
        }
        prop_assert_eq!(told.delivered.len(), messages.len());
        prop_assert_eq!(told.left.len(), messages.len());
        prop_assert_eq!((drops(&star), repairs(&star)), (0, (0, 0)));
        for &(time, id) in &told.delivered {
            prop_assert!(told.left.iter().any(|&(left, other)| other == id && left <= time));
        }
    }
}

/// Three switches in a ring, each with a host that sends to the host two switches ahead. With pauses, packets
/// that wait for each other in a cycle stop, and the network reports it. If rates fall in time, nothing
/// stops.
#[test]
fn a_cycle_of_pauses_is_reported() {
    let run = |congestion: Congestion, buffer: u64| {
        let parameters = Parameters { buffer: Some(Bytes(buffer)), congestion: Some(congestion), ..rdma() };
        let (rate, latency) = (Rate(100_000_000_000), Time::from_ns(500));
        let link = |from, to| Link { rate, latency, from, to, set: 0 };
        // Links 0 to 2 from hosts, 3 to 5 to hosts, 6 to 8 around the ring, 9 to 11 in the other direction.
        let mut links: Vec<Link> = (0..3).map(|at| link(None, Some(at))).collect();
        links.extend((0..3).map(|at| link(Some(at), None)));
        links.extend((0..3).map(|at| link(Some(at), Some((at + 1) % 3))));
        links.extend((0..3).map(|at| link(Some(at), Some((at + 2) % 3))));
        let mut simulation = Simulation::new(&Layout::new(vec![parameters], &[0, 0, 0], links));
        let mut told = Told::default();
        for at in 0..3 {
            let (next, to) = ((at + 1) % 3, (at + 2) % 3);
            let flow = simulation.open(&[at, 6 + at, 6 + next, 3 + to], &[to, 9 + to, 9 + next, 3 + at]);
            simulation.write(Time::ZERO, flow, 20_000_000, at, 0, &mut told);
        }
        while simulation.next_time().is_some() {
            simulation.step(Time::MAX, &mut told);
            assert!(simulation.events() < 10_000_000, "the simulation does not end");
        }
        let drops: u64 = (0..12).map(|port| simulation.count(port).drops).sum();
        (told.delivered.len(), simulation.stuck(), drops)
    };
    let (came, stuck, drops) = run(Congestion::None, 400_000);
    assert_eq!((came, drops), (0, 0));
    let round: Vec<u32> = stuck.iter().map(|&(port, _)| port).filter(|port| (6..9).contains(port)).collect();
    assert_eq!(round, [6, 7, 8], "every port of the cycle waits: {stuck:?}");
    let (came, stuck, drops) = run(Congestion::Dcqcn, 16 << 20);
    assert_eq!((came, stuck.len(), drops), (3, 0, 0));
}
