//! Properties of every network: each message arrives once, whatever is lost, and every packet is accounted
//! for.

use crate::support::{Star, Told, eight_share_a_link};
use proptest::prelude::*;
use syncline_net_packet::{Congestion, Marking, Parameters, Sharing};
use syncline_units::{Bytes, Time};

/// Far more events than any of these cases needs.
const MANY: u64 = 5_000_000;

fn parameters() -> impl Strategy<Value = Parameters> {
    let congestion = prop::sample::select(vec![Congestion::NewReno, Congestion::Cubic, Congestion::Dctcp]);
    let times = (0u64..3, 1u32..3, any::<bool>(), any::<bool>());
    let early = (any::<bool>(), prop::sample::select(vec![0.05, 1.0]), any::<bool>());
    let mtu = prop::sample::select(vec![576u64, 1500, 9000]);
    (congestion, 2u64..40, 1u32..20, 2u64..200, mtu, times, early).prop_map(
        |(congestion, buffer, initial_window, window, mtu, times, (dynamic, weight, drop))| {
            let (forwarding, segments_per_ack, restart, handshake) = times;
            let from = Bytes(buffer * mtu / 3);
            let range = Marking { from, to: Bytes(2 * from.0), probability: 0.2, weight, drop };
            let dctcp = congestion == Congestion::Dctcp;
            Parameters {
                mtu: Bytes(mtu),
                // The buffer is shared by up to 8 ports.
                buffer: Some(Bytes(8 * buffer * (mtu + 38))),
                forwarding: Time::from_ns(100 * forwarding),
                mark: Some(if dctcp { Marking::step(from) } else { range }),
                sharing: if dynamic { Sharing::Dynamic } else { Sharing::Even },
                handshake,
                congestion: Some(congestion),
                initial_window,
                window: Some(Bytes(window * mtu)),
                min_timeout: Time::from_ns(200_000),
                initial_timeout: Time::from_ns(1_000_000),
                segments_per_ack,
                delayed_ack: Time::from_ns(50_000),
                restart,
                ..Parameters::default()
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_message_arrives_once_and_in_order(
        parameters in parameters(),
        hosts in 2u32..9,
        messages in prop::collection::vec((0u32..8, 1u32..8, 0u64..300_000, 0u64..2_000), 1..40),
    ) {
        let mut star = Star::new(hosts, parameters);
        let mut told = Told::default();
        let mut now = Time::ZERO;
        let mut written = Vec::new();
        for (id, &(from, away, bytes, later)) in (0u32..).zip(&messages) {
            now += Time::from_ns(later);
            while star.simulation.next_time().is_some_and(|time| time <= now) {
                star.simulation.step(now, &mut told);
            }
            let (from, to) = (from % hosts, (from % hosts + 1 + (away - 1) % (hosts - 1)) % hosts);
            star.simulation.write(now, star.flow(from, to), bytes, id, 0, &mut told);
            written.push((from, to, bytes));
        }
        while star.simulation.next_time().is_some() {
            star.simulation.step(Time::MAX, &mut told);
            prop_assert!(star.simulation.events() < MANY, "the simulation does not end");
        }
        let mut came: Vec<u32> = told.delivered.iter().map(|&(_, id)| id).collect();
        for pair in told.delivered.windows(2) {
            prop_assert!(pair[0].0 <= pair[1].0);
        }
        // Messages of one connection arrive in the order in which they were written.
        for (at, &id) in came.iter().enumerate() {
            let way = |id: u32| (written[id as usize].0, written[id as usize].1);
            prop_assert!(came[at + 1..].iter().all(|&later| way(later) != way(id) || later > id));
        }
        came.sort_unstable();
        prop_assert_eq!(came, (0..messages.len() as u32).collect::<Vec<_>>());
        // Each message left before it arrived.
        for &(time, id) in &told.delivered {
            let left = told.left.iter().filter(|&&(_, other)| other == id).map(|&(time, _)| time).collect::<Vec<_>>();
            prop_assert!(left.len() == 1 && left[0] <= time, "{id}: {left:?} {time}");
        }
        // No message arrived before its bytes could have crossed the links.
        for &(time, id) in &told.delivered {
            let alone = 2.0 * written[id as usize].2.min(parameters.segment()) as f64 * 8.0 / 100e9 + 1e-6;
            let begun: u64 = messages[..=id as usize].iter().map(|message| message.3).sum();
            prop_assert!(written[id as usize].2 == 0 || time.as_s() - begun as f64 * 1e-9 > alone, "{id} at {time}");
        }
        // The switch forwarded or dropped every packet that a host sent, and hosts sent all bytes at least
        // once.
        let count = |port: u32| star.simulation.count(port);
        let up: u64 = (0..hosts).map(|host| count(host).packets).sum();
        let down: u64 = (0..hosts).map(|host| count(star.down(host)).packets + count(star.down(host)).drops).sum();
        prop_assert_eq!(up, down);
        let bytes: u64 = written.iter().map(|message| message.2).sum();
        let sent: u64 = (0..hosts).map(|host| count(host).bytes).sum();
        prop_assert!(sent >= bytes);
        let drops: u64 = (0..hosts).map(|host| count(star.down(host)).drops).sum();
        let again: u64 = star.simulation.flows().map(|(repairs, _)| repairs.retransmissions).sum();
        prop_assert!(drops > 0 || again == 0, "nothing was lost, and {again} segments were sent again");
    }
}

/// A single flow fills its link: goodput within 3 % of the rate less headers.
#[test]
fn a_single_flow_fills_its_link() {
    for mtu in [1500, 9000] {
        let parameters = Parameters { mtu: Bytes(mtu), ..Parameters::default() };
        let mut star = Star::new(2, parameters);
        let mut told = Told::default();
        let bytes = 100_000_000;
        star.simulation.write(Time::ZERO, star.flow(0, 1), bytes, 0, 0, &mut told);
        star.run(&mut told);
        let share = (mtu - 52) as f64 / (mtu + 38) as f64;
        let goodput = bytes as f64 * 8.0 / told.delivered[0].0.as_s() / 100e9 / share;
        assert!(goodput > 0.97 && goodput <= 1.0, "{goodput}");
    }
}

/// Flows of equal age share a link fairly: Jain's index of the bytes that each sent while all were sending.
#[test]
fn flows_share_a_link() {
    for congestion in [Congestion::NewReno, Congestion::Cubic, Congestion::Dctcp] {
        let parameters = Parameters {
            buffer: Some(Bytes(9 * 400_000)),
            mark: Some(Marking::step(Bytes(100_000))),
            congestion: Some(congestion),
            min_timeout: Time::from_ns(1_000_000),
            ..Parameters::default()
        };
        let (sent, jain) = eight_share_a_link(parameters);
        let sum = sent.iter().sum::<f64>();
        assert!(jain > 0.9, "{congestion:?}: {jain} {sent:?}");
        // 20 ms of 100 Gb/s are 250 MB.
        assert!(sum > 0.9 * 250.0 * 1448.0 / 1538.0, "{congestion:?}: {sum} MB");
    }
}

/// Small messages that follow each other leave one after the other.
#[test]
fn small_messages_take_their_time() {
    let mut star = Star::new(2, Parameters::default());
    let mut told = Told::default();
    for id in 0..100 {
        let flow = star.flow(0, 1);
        star.simulation.write(Time::ZERO, flow, 1032, id, 0, &mut told);
    }
    star.run(&mut told);
    let wire = (1032.0 + 52.0 + 38.0) * 8.0 / 100e9;
    for (number, &(time, id)) in told.delivered.iter().enumerate() {
        let least = wire * (number + 1) as f64 + 1e-6;
        assert!(time.as_s() > least, "{id}: {time}, not before {least}");
    }
    assert_eq!(told.delivered.len(), 100);
}

/// DCTCP keeps its queue near K (Alizadeh et al., SIGCOMM 2010, section 3.3: it oscillates below K by an
/// amount that shrinks with the number of flows, and above K by one segment per flow).
#[test]
fn dctcp_keeps_its_queue_near_k() {
    for (flows, k) in [(2, 65_000), (4, 100_000), (8, 150_000)] {
        let parameters = Parameters {
            buffer: None,
            mark: Some(Marking::step(Bytes(k))),
            congestion: Some(Congestion::Dctcp),
            window: Some(Bytes(4 << 20)),
            ..Parameters::default()
        };
        let mut star = Star::new(flows + 1, parameters);
        let mut told = Told::default();
        for from in 0..flows {
            star.simulation.write(Time::ZERO, star.flow(from, flows), 400_000_000, from, 0, &mut told);
        }
        let port = star.down(flows);
        let mut until = |ms: u64| {
            let until = Time::from_ns(1_000_000 * ms);
            while star.simulation.next_time().is_some_and(|time| time <= until) {
                star.simulation.step(until, &mut told);
            }
            (star.simulation.count(port).queued, star.simulation.count(port).busy)
        };
        // Without the first milliseconds, until slow start ends.
        let (early, late) = (until(5), until(15));
        let (mean, busy) = ((late.0 - early.0) as f64 / 10e9, (late.1 - early.1) as f64 / 10e9);
        let k = k as f64;
        assert!(
            mean > 0.4 * k && mean < 1.1 * k + 1538.0 * f64::from(flows),
            "{flows} flows: {mean} B, K {k} B"
        );
        assert!(busy > 0.99, "{flows} flows: the link is busy {busy} of the time");
    }
}

/// A handshake costs the round trip of two empty segments, once per connection.
#[test]
fn a_handshake_costs_a_round_trip_once() {
    let times = |handshake: bool| {
        let mut star = Star::new(2, Parameters { handshake, ..Parameters::default() });
        let mut told = Told::default();
        for id in 0..2 {
            let now = Time::from_ns(1_000_000 * u64::from(id));
            star.simulation.write(now, star.flow(0, 1), 1000, id, 0, &mut told);
            star.run(&mut told);
        }
        told.delivered.iter().map(|&(time, _)| time.0).collect::<Vec<_>>()
    };
    let (with, without) = (times(true), times(false));
    // Two links of 0.5 us each way, and segments of 90 bytes on the wire (52 of headers, 38 of Ethernet), 80 ps a byte.
    let trip = 4 * (500_000 + 90 * 8 * 10);
    assert_eq!(with[0] - without[0], trip);
    assert_eq!(with[1], without[1]);
}

/// NewReno and CUBIC respond to a mark as to a loss: a queue that marks stays short, and nothing is sent
/// again.
#[test]
fn marks_slow_down_newreno_and_cubic_too() {
    for congestion in [Congestion::NewReno, Congestion::Cubic] {
        let longest = |mark: Option<Marking>| {
            let parameters = Parameters {
                buffer: None,
                mark,
                congestion: Some(congestion),
                window: Some(Bytes(8 << 20)),
                ..Parameters::default()
            };
            let mut star = Star::new(3, parameters);
            let mut told = Told::default();
            for from in 0..2 {
                star.simulation.write(Time::ZERO, star.flow(from, 2), 50_000_000, from, 0, &mut told);
            }
            star.run(&mut told);
            assert!(star.simulation.flows().all(|(repairs, _)| repairs.retransmissions == 0));
            let count = star.simulation.count(star.down(2));
            count.queued as f64 / 1e12 / told.delivered.last().map_or(0.0, |&(time, _)| time.as_s())
        };
        let (with, without) = (longest(Some(Marking::step(Bytes(100_000)))), longest(None));
        assert!(with < 150_000.0 && without > 5e6, "{congestion:?}: {with} and {without} B");
    }
}
