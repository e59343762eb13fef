//! Connections whose rates and ends are known.

use super::*;

/// One byte per picosecond.
const FAST: Rate = Rate(8_000_000_000_000);

/// Returns the rates of open connections in thousandths of a link's rate.
fn parts(sharing: &Sharing, connections: &[u32]) -> Vec<u64> {
    let whole = (FAST.0 << UNIT) / 1000;
    connections.iter().map(|&number| sharing.rate(number).div_ceil(whole)).collect()
}

/// Runs to the end, and returns when each message is complete.
fn to_the_end(sharing: &mut Sharing, messages: usize) -> Vec<u64> {
    let mut ends = vec![0; messages];
    while let Some(now) = sharing.next() {
        sharing.finish(now, |message| ends[message as usize] = now.0);
        sharing.settle(now, |_| {});
        sharing.audit();
    }
    ends
}

/// The first message has the whole rate, and is complete when half of all bytes were sent.
#[test]
fn messages_of_one_connection_follow_each_other() {
    let mut sharing = Sharing::new([FAST], 1, false, None);
    let number = sharing.open(&[(0, 1)], 1, 0);
    assert!(!sharing.start(Time(0), number, Bytes(1_000), 0));
    assert!(sharing.start(Time(0), number, Bytes(500), 1));
    sharing.settle(Time(0), |_| {});
    assert_eq!(parts(&sharing, &[number]), [1000]);
    // A later message waits, and changes no rate.
    let looks = sharing.looks();
    assert!(sharing.start(Time(600), number, Bytes(2_000), 2));
    sharing.settle(Time(600), |_| {});
    assert_eq!(sharing.looks(), looks);
    assert_eq!(sharing.served(number, Time(600)), Bytes(600));
    sharing.finish(Time(1_000), |message| assert_eq!(message, 0));
    sharing.settle(Time(1_000), |_| {});
    assert_eq!(sharing.served(number, Time(1_200)), Bytes(200));
    assert_eq!(to_the_end(&mut sharing, 3)[1..], [1_500, 3_500]);
}

/// A connection with many messages gets no more of a link than one with a single message.
#[test]
fn links_are_shared_by_connections() {
    let mut sharing = Sharing::new([FAST], 1, false, None);
    let numbers = [0, 1].map(|_| sharing.open(&[(0, 1)], 1, 0));
    for message in 0..9 {
        sharing.start(Time(0), numbers[0], Bytes(100), message);
    }
    sharing.start(Time(0), numbers[1], Bytes(300), 9);
    sharing.settle(Time(0), |_| {});
    assert_eq!(parts(&sharing, &numbers), [500, 500]);
    assert_eq!(to_the_end(&mut sharing, 10), [200, 400, 600, 700, 800, 900, 1_000, 1_100, 1_200, 600]);
}

/// A message sent at the moment when a connection becomes idle finds it unchanged, with its rate.
#[test]
fn a_connection_stays_open_if_a_message_follows_at_once() {
    let mut sharing = Sharing::new([FAST], 1, false, None);
    let numbers = [0, 1].map(|_| sharing.open(&[(0, 1)], 1, 0));
    numbers.iter().zip(0..).for_each(|(&number, message)| {
        sharing.start(Time(0), number, Bytes(100), message);
    });
    sharing.settle(Time(0), |_| {});
    let (looks, mut closed) = (sharing.looks(), Vec::new());
    sharing.finish(Time(200), |_| {});
    assert!(!sharing.start(Time(200), numbers[0], Bytes(50), 2));
    sharing.settle(Time(200), |number| closed.push(number));
    assert_eq!((closed, parts(&sharing, &numbers[..1])), (vec![numbers[1]], vec![1000]));
    assert!(sharing.looks() > looks);
    assert_eq!(sharing.served(numbers[0], Time(210)), Bytes(10));
    // The closed connection's number is reused.
    assert_eq!(sharing.open(&[(0, 1)], 1, 0), numbers[1]);
    sharing.start(Time(210), numbers[1], Bytes(5), 3);
    sharing.settle(Time(210), |_| {});
    assert_eq!(sharing.served(numbers[1], Time(220)), Bytes(5));
    assert_eq!(to_the_end(&mut sharing, 4)[2..], [255, 220]);
}

/// Empty messages complete at once, in order with the others.
#[test]
fn empty_messages_take_no_time() {
    let mut sharing = Sharing::new([FAST], 1, false, None);
    let number = sharing.open(&[(0, 1)], 1, 0);
    for (message, bytes) in [0, 100, 0, 0, 50].into_iter().enumerate() {
        sharing.start(Time(7), number, Bytes(bytes), message as u32);
    }
    sharing.settle(Time(7), |_| {});
    assert_eq!(to_the_end(&mut sharing, 5), [7, 107, 107, 107, 157]);
}

/// Weights and classes apply to connections: a heavy connection with few messages gets more than a light one
/// with many.
#[test]
fn weights_and_classes_apply_to_connections() {
    let mut sharing = Sharing::new([FAST], 2, false, None);
    let [light, heavy, low] =
        [(1, 0), (3, 0), (1, 1)].map(|(weight, class)| sharing.open(&[(0, 1)], weight, class));
    for message in 0..4 {
        sharing.start(Time(0), light, Bytes(25), message);
    }
    sharing.start(Time(0), heavy, Bytes(300), 4);
    sharing.start(Time(0), low, Bytes(10), 5);
    sharing.settle(Time(0), |_| {});
    assert_eq!(parts(&sharing, &[light, heavy, low]), [250, 750, 0]);
    assert_eq!((sharing.load(0, 0), sharing.load(0, 1)), (FAST.0 << UNIT, 0));
    assert_eq!(to_the_end(&mut sharing, 6), [100, 200, 300, 400, 400, 410]);
}

/// Links carried what was sent over them: all bytes of complete messages, and what others received so far.
#[test]
fn links_have_carried_what_was_sent() {
    let mut sharing = Sharing::new([FAST, FAST], 1, true, None);
    let whole = sharing.whole();
    let even = sharing.open(&[(0, whole / 2), (1, whole / 2)], 1, 0);
    let one = sharing.open(&[(1, whole / 2)], 3, 0);
    sharing.start(Time(0), even, Bytes(1_000), 0);
    sharing.start(Time(0), even, Bytes(1_000), 1);
    sharing.start(Time(0), one, Bytes(1_500), 2);
    sharing.settle(Time(0), |_| {});
    // Half of each message passes the second link, and one connection weighs three times as much.
    assert_eq!(parts(&sharing, &[even, one]), [500, 1_500]);
    let carried = |sharing: &mut Sharing, now: u64| {
        sharing.book_all(Time(now));
        // An eighth of a picosecond exceeds the rounding error.
        [0, 1].map(|link| sharing.busy(link, sharing.carried(link) + BIT).0)
    };
    assert_eq!(carried(&mut sharing, 500), [125, 500]);
    // Shares of the link are not whole here: ends are rounded up.
    assert_eq!(sharing.next(), Some(Time(1_001)));
    sharing.finish(Time(1_001), |message| assert_eq!(message, 2));
    sharing.settle(Time(1_001), |_| {});
    assert_eq!(parts(&sharing, &[even]), [2_000]);
    assert_eq!(to_the_end(&mut sharing, 3)[..2], [1_251, 1_751]);
    // Until the end of the picosecond in which the last message completes.
    assert_eq!(carried(&mut sharing, 5_000), [1_000, 1_751]);
    assert_eq!([0, 1].map(|link| sharing.time_of(link, Bytes(7))), [Time(7); 2]);
}

/// A full link has the level of each class that shares it; classes and links that hold nobody back have none.
#[test]
fn levels_belong_to_a_link_and_a_class() {
    let rates = [1, 3, 8].map(|part| Rate(FAST.0 / part));
    let mut sharing = Sharing::new(rates, 3, false, None);
    for (link, class, weight) in [(1, 2, 4), (1, 2, 1), (2, 0, 1)] {
        let number = sharing.open(&[(0, 1), (link, 1)], weight, class);
        sharing.start(Time(0), number, Bytes(1_000), 0);
    }
    sharing.settle(Time(0), |_| {});
    let levels: Vec<u64> = (0..3)
        .flat_map(|link| (0..3).map(move |class| (link, class)))
        .map(|(link, class)| sharing.level(link, class))
        .collect();
    let share = |part: u64, weights: u64| ((FAST.0 / part) << UNIT) / weights;
    let mut expected = [u64::MAX; 9];
    (expected[5], expected[6]) = (share(3, 5), share(8, 1));
    assert_eq!(levels, expected);
}

/// On a link with more weight than units of rate, connections starve; the report gives the link, a connection
/// and the limits.
#[test]
fn connections_that_starve_on_a_link_are_reported() {
    // A link of one class; the second link of several classes; connections that may split over links.
    for (classes, split) in [(1, false), (3, false), (2, true)] {
        let rate = Rate(if split { u64::from(PARTS) } else { 1 });
        let class = classes - 1;
        let mut sharing = Sharing::new([FAST, rate], classes, split, None);
        let whole = sharing.whole();
        assert_eq!((sharing.starved(), sharing.most(rate)), (None, 4096));
        let numbers = [4_000, 90, 6].map(|weight| sharing.open(&[(1, whole)], weight, class));
        for number in numbers {
            sharing.start(Time(0), number, Bytes(1), number);
        }
        sharing.settle(Time(0), |_| {});
        assert_eq!(sharing.starved(), None);
        let more = sharing.open(&[(1, whole), (0, whole)], 1, class);
        sharing.start(Time(0), more, Bytes(1), more);
        sharing.settle(Time(0), |_| {});
        assert_eq!(
            (sharing.starved(), sharing.next()),
            (Some(Starved { link: 1, connection: numbers[0], weights: 4_097 }), None)
        );
    }
}

/// The load of a link is followed only while the link may be full.
#[test]
fn links_that_cannot_be_full_are_not_followed() {
    let mut sharing = Sharing::new([FAST, Rate(FAST.0 / 16)], 1, false, None);
    let open = |sharing: &mut Sharing, way: &[(u32, u32)], now, bytes| {
        let number = sharing.open(way, 1, 0);
        sharing.start(now, number, Bytes(bytes), number);
        sharing.settle(now, |_| {});
        sharing.audit();
    };
    open(&mut sharing, &[(0, 1), (1, 1)], Time(0), 10_000);
    open(&mut sharing, &[(0, 1)], Time(0), 10);
    let followed = |sharing: &Sharing| [0, 1].map(|node| sharing.shares.marks(node).followed);
    assert_eq!(followed(&sharing), [true; 2]);
    let end = sharing.next().unwrap();
    sharing.finish(end, |_| {});
    sharing.settle(end, |_| {});
    // The next change of rate on the first link shows that it is far from full.
    open(&mut sharing, &[(1, 1)], end, 10_000);
    assert_eq!(followed(&sharing), [false, true]);
}

/// Many similar connections are opened at once, on hosts below switches with fewer uplinks.
#[test]
fn many_similar_connections_settle() {
    for (hosts, leaves, spines, peers) in [(64u32, 8u32, 3u32, 63u32), (64, 4, 8, 20), (32, 16, 2, 31)] {
        let per = hosts / leaves;
        let links = 2 * hosts + 2 * leaves * spines;
        let mut sharing = Sharing::new((0..links).map(|_| Rate(100_000_000_000)), 1, false, None);
        for (peer, host) in (1..=peers).flat_map(|peer| (0..hosts).map(move |host| (peer, host))) {
            let to = (host + peer) % hosts;
            let (a, b) = (host / per, to / per);
            let mut way = vec![(host, 1), (hosts + to, 1)];
            if a != b {
                let spine = (host * 7 + to * 3 + host * to) % spines;
                way.extend([
                    (2 * hosts + a * spines + spine, 1),
                    (2 * hosts + (leaves + b) * spines + spine, 1),
                ]);
            }
            let number = sharing.open(&way, 1, 0);
            sharing.start(Time(0), number, Bytes(8192), number);
        }
        let mut now = Time(0);
        loop {
            sharing.settle(now, |_| {});
            sharing.audit();
            assert!(sharing.looks() < 1_000_000, "settling takes too long");
            let Some(next) = sharing.next() else { break };
            now = next;
            sharing.finish(now, |_| {});
        }
    }
}
