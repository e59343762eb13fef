//! What links report about the messages that they carried.

use super::*;
use syncline_fabric::Dimension;
use syncline_units::{DimKind, Turn};

/// Returns what a link did: bytes, messages, and how long these waited for it.
fn did(flows: &Flows<'_>, link: u32) -> (u64, u64, Time) {
    let used = flows.link_use(LinkId(link));
    assert_eq!(used.busy.0, used.bytes * 800, "a byte takes 800 ps");
    (used.bytes, used.messages, used.waited)
}

/// Two connections share the first link, and one of them continues over the third.
fn shared<'a>(fabric: &'a Fabric, calendar: &mut Calendar) -> Flows<'a> {
    let mut flows = flows(fabric, &FlowSettings::default());
    send(&mut flows, 0, &[transfer(0, 0, 2), transfer(1, 0, 1)], calendar);
    flows
}

#[test]
fn links_count_what_was_sent_and_who_waited() {
    let (fabric, mut calendar) = (row(), Calendar::default());
    let mut flows = shared(&fabric, &mut calendar);
    assert_eq!(run(&mut flows, &mut calendar), [(2 * MB, 2)]);
    // Each was complete after twice its time.
    assert_eq!(did(&flows, 0), (2_000_000, 2, Time(2 * MB)));
    assert_eq!(did(&flows, 2), (1_000_000, 1, Time(0)));
    assert_eq!((did(&flows, 1), did(&flows, 3)), ((0, 0, Time(0)), (0, 0, Time(0))));
    let (link, owner) = (LinkId(0), Owner::UNKNOWN);
    let told = Contention { link, owner, messages: 2, bytes: 2_000_000, delay: Time(2 * MB) };
    assert_eq!((flows.contention(), flows.events()), (vec![told], 2));
}

/// A message behind an earlier one of its connection is delayed by that one's time.
#[test]
fn waiting_behind_ones_own_connection_counts_as_delay() {
    let (fabric, mut calendar) = (row(), Calendar::default());
    let mut flows = flows(&fabric, &FlowSettings::default());
    send(&mut flows, 0, &[transfer(0, 0, 1), transfer(1, 0, 1)], &mut calendar);
    send(&mut flows, MB / 2, &[transfer(2, 0, 1)], &mut calendar);
    assert_eq!(run(&mut flows, &mut calendar), [(MB, 1), (2 * MB, 1), (3 * MB, 1)]);
    assert_eq!(did(&flows, 0), (3_000_000, 3, Time(MB + 3 * MB / 2)));
}

/// In a run that is cut short, messages count to the extent that they were served; waiting messages count
/// nothing.
#[test]
fn what_was_sent_up_to_a_cut_counts() {
    let (fabric, mut calendar) = (row(), Calendar::default());
    let mut flows = flows(&fabric, &FlowSettings::default());
    send(&mut flows, 0, &[transfer(0, 0, 2), transfer(1, 0, 2)], &mut calendar);
    flows.cut(Time(MB / 4));
    assert_eq!((did(&flows, 0), did(&flows, 2)), ((250_000, 0, Time(0)), (250_000, 0, Time(0))));
    assert_eq!(flows.overbooked(), None);
}

/// Returns how long links were busy, slice by slice.
fn busy(flows: &mut Flows<'_>, now: u64) -> [Vec<u64>; 2] {
    flows.stop_activity(Time(now));
    [0, 2].map(|link| flows.activity().row(link).to_vec())
}

#[test]
fn links_are_busy_while_they_send() {
    let (fabric, mut calendar) = (row(), Calendar::default());
    let mut flows = shared(&fabric, &mut calendar);
    run(&mut flows, &mut calendar);
    // Nothing is in flight for a long time, and then one message.
    send(&mut flows, 50 * MB, &[transfer(2, 0, 1)], &mut calendar);
    run(&mut flows, &mut calendar);
    let [first, third] = busy(&mut flows, 51 * MB);
    let sum = |slices: &[u64]| slices.iter().sum::<u64>();
    let near = |found: u64, expected: u64| found.abs_diff(expected) <= 128;
    assert!(near(sum(&first), 3 * MB), "{}", sum(&first));
    assert!(near(sum(&third), MB), "{}", sum(&third));
    let idle = first.iter().filter(|&&slice| slice == 0).count();
    assert!(idle > first.len() * 9 / 10, "it is idle most of the time: {idle} of {}", first.len());
}

/// What is in flight when recording stops counts up to then.
#[test]
fn links_are_busy_up_to_the_stop() {
    let (fabric, mut calendar) = (row(), Calendar::default());
    let mut flows = shared(&fabric, &mut calendar);
    let [first, third] = busy(&mut flows, MB / 3);
    assert!(first.iter().sum::<u64>().abs_diff(MB / 3) <= 128);
    assert!(third.iter().sum::<u64>().abs_diff(MB / 6) <= 128);
}

/// Eleven switches behind the first one, of which the last is the farthest: a message in eleven parts, which
/// differ by at most one.
#[test]
fn parts_over_several_paths_make_a_whole() {
    let link = |from, to, rate, latency| GraphLink { from, to, rate: Rate(rate), latency: Time(latency) };
    let mut links = vec![link(0, 2, 200_000_000_000, 0)];
    for switch in 3..14 {
        links.push(link(2, switch, 10_000_000_000, 1_000 * u64::from(switch)));
        links.push(link(switch, 1, 10_000_000_000, 1_000 * u64::from(switch)));
    }
    let fabric = Fabric::graph(Graph::new(2, 12, links, Routing::Ecmp { seed: 1 }).unwrap());
    let (mut flows, mut calendar) =
        (flows(&fabric, &FlowSettings { paths: 11, ..FlowSettings::default() }), Calendar::default());
    let bytes = Bytes(u64::from(flows.sharing.whole()) * 100);
    send(&mut flows, 0, &[Transfer { bytes, ..transfer(0, 0, 1) }], &mut calendar);
    assert_eq!(flows.connections.get(0).latency, Time(26_000));
    assert_eq!(flows.connections.get(0).alone, Rate(110_000_000_000));
    run(&mut flows, &mut calendar);
    assert_eq!(flows.link_use(LinkId(0)).bytes, bytes.0);
    let sent: Vec<u64> = (1..23).map(|link| did(&flows, link).0).collect();
    assert_eq!(sent.iter().sum::<u64>(), 2 * bytes.0);
    assert!(sent.iter().all(|&part| part == 183_200 || part == 183_300), "{sent:?}");
}

/// Of equivalent NPUs on a ring, one is represented: its port carries the traffic of all links of its class.
#[test]
fn a_port_stands_for_all_links_of_its_class() {
    let ring = Dimension::new("ring".to_owned(), DimKind::Ring, 5).with_rate(Rate(10_000_000_000));
    let fabric = Fabric::regular(vec![ring]).unwrap();
    let symmetry = Symmetry::new(&fabric, &[Some(Turn::Cyclic)]);
    let (mut flows, mut calendar) =
        (Flows::new(&fabric, symmetry, &FlowSettings::default()), Calendar::default());
    send(&mut flows, 0, &[transfer(0, 0, 2)], &mut calendar);
    // Two such messages share each link.
    assert_eq!(run(&mut flows, &mut calendar), [(2 * MB, 1)]);
    assert_eq!(did(&flows, 0), (2_000_000, 2, Time(MB)));
}

/// Connections are opened in an order that does not depend on who sends first.
#[test]
fn connections_do_not_depend_on_who_sends_first() {
    let fabric = row();
    let messages = [transfer(0, 0, 1), transfer(1, 0, 2), transfer(2, 1, 2), transfer(3, 0, 1)];
    let opened = |order: [usize; 4]| {
        let (mut flows, mut calendar) = (flows(&fabric, &FlowSettings::default()), Calendar::default());
        send(&mut flows, 0, &order.map(|at| messages[at]), &mut calendar);
        [0, 1, 2].map(|number| flows.connections.get(number).ends)
    };
    let first = opened([0, 1, 2, 3]);
    assert!(first.is_sorted());
    assert_eq!(opened([2, 0, 3, 1]), first);
    assert_eq!(opened([3, 1, 2, 0]), first);
}
