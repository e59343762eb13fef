//! When messages complete, compared with a fluid simulation of queues in floating point that recomputes all
//! rates at every event.

use super::*;

/// A message: when it arrives, its connection, and its bytes.
#[derive(Clone, Debug)]
struct Arrival {
    time: u64,
    connection: usize,
    bytes: u64,
}

/// Returns when each message completes, in picoseconds: every connection with messages has a max-min fair
/// rate, which its oldest message gets.
fn fluid(capacities: &[f64], connections: &[Plain], arrivals: &[Arrival]) -> Vec<f64> {
    let mut queues = vec![VecDeque::new(); connections.len()];
    let mut left: Vec<f64> = arrivals.iter().map(|arrival| 8.0 * arrival.bytes as f64).collect();
    let mut ends = vec![0.0; arrivals.len()];
    let mut coming = (0..arrivals.len()).peekable();
    let mut now = 0.0;
    loop {
        while let Some(at) = coming.next_if(|&at| arrivals[at].time as f64 <= now) {
            queues[arrivals[at].connection].push_back(at);
        }
        let served: Vec<usize> = (0..queues.len()).filter(|&at| !queues[at].is_empty()).collect();
        let sharing: Vec<&Plain> = served.iter().map(|&at| &connections[at]).collect();
        // Bits per picosecond.
        let rates: Vec<f64> = filled(capacities, &sharing).into_iter().map(|rate| rate / 1e12).collect();
        let heads: Vec<(usize, f64)> = served.iter().map(|&at| queues[at][0]).zip(rates).collect();
        let lasting = heads.iter().map(|&(head, rate)| left[head] / rate).fold(f64::INFINITY, f64::min);
        let next = coming.peek().map_or(f64::INFINITY, |&at| arrivals[at].time as f64 - now);
        let step = lasting.min(next);
        if step == f64::INFINITY {
            return ends;
        }
        now += step;
        for (&at, &(head, rate)) in served.iter().zip(&heads) {
            left[head] -= rate * step;
            // The floating-point remainder is far below a bit.
            if left[head] <= 1e-6 {
                ends[head] = now;
                queues[at].pop_front();
            }
        }
        if let Some(&at) = coming.peek().filter(|_| next <= lasting) {
            now = arrivals[at].time as f64;
        }
    }
}

/// Does the same with the code under test. Connections are opened when they have a message, and closed when
/// they have none.
fn played(rates: &[u64], connections: &[Plain], arrivals: &[Arrival], classes: u32, split: bool) -> Vec<f64> {
    let mut sharing = Sharing::new(rates.iter().map(|&rate| Rate(rate)), classes, split, None);
    let mut open: Vec<Option<u32>> = vec![None; connections.len()];
    let mut ends = vec![0.0; arrivals.len()];
    let mut coming = (0..arrivals.len()).peekable();
    loop {
        let next = coming.peek().map(|&at| Time(arrivals[at].time));
        let Some(now) = next.into_iter().chain(sharing.next()).min() else { return ends };
        sharing.finish(now, |message| ends[message as usize] = now.0 as f64);
        while let Some(at) = coming.next_if(|&at| arrivals[at].time <= now.0) {
            let Arrival { connection, bytes, .. } = arrivals[at];
            let number = *open[connection].get_or_insert_with(|| connections[connection].open(&mut sharing));
            sharing.start(now, number, Bytes(bytes), at as u32);
        }
        sharing.settle(now, |number| {
            open.iter_mut().filter(|at| **at == Some(number)).for_each(|at| *at = None)
        });
        sharing.audit();
    }
}

fn arrivals(classes: u32, split: bool) -> impl Strategy<Value = (Vec<u64>, Vec<Plain>, Vec<Arrival>)> {
    prop::collection::vec(prop::sample::select(vec![10u64, 25, 40, 100, 400]), 1..7).prop_flat_map(
        move |rates| {
            let connections = prop::collection::vec(any_connection(rates.len() as u32, classes, split), 1..6);
            // Some arrive together, some while others are in flight, some after all are complete.
            let gap = prop_oneof![3 => Just(0u64), 3 => 1u64..100_000_000, 1 => Just(1_000_000_000_000)];
            let arrivals = prop::collection::vec((gap, any::<prop::sample::Index>(), 1u64..1_000_000), 1..30);
            (Just(rates), connections, arrivals).prop_map(|(rates, connections, arrivals)| {
                let mut time = 0;
                let arrival = |(gap, connection, bytes): (u64, prop::sample::Index, u64)| {
                    time += gap;
                    Arrival { time, connection: connection.index(connections.len()), bytes }
                };
                let arrivals = arrivals.into_iter().map(arrival).collect();
                (rates.into_iter().map(|rate| rate * 1_000_000_000).collect(), connections, arrivals)
            })
        },
    )
}

fn compare(
    (rates, connections, arrivals): (Vec<u64>, Vec<Plain>, Vec<Arrival>),
    classes: u32,
    split: bool,
) -> Result<(), TestCaseError> {
    let capacities: Vec<f64> = rates.iter().map(|&rate| rate as f64).collect();
    let expected = fluid(&capacities, &connections, &arrivals);
    let found = played(&rates, &connections, &arrivals, classes, split);
    // Ends are whole picoseconds, and rounding errors of earlier messages may add up.
    let rounded = 2.0 * arrivals.len() as f64;
    for ((found, expected), arrival) in found.iter().zip(&expected).zip(&arrivals) {
        let apart = (found - expected).abs();
        let allowed = rounded + 1e-9 * expected * if split { 1e3 } else { 1.0 };
        prop_assert!(apart <= allowed, "{arrival:?} is complete at {found}, not {expected}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn messages_of_a_connection_are_served_in_order(case in arrivals(1, false)) {
        compare(case, 1, false)?;
    }

    #[test]
    fn messages_over_several_paths_are_served_in_order(case in arrivals(1, true)) {
        compare(case, 1, true)?;
    }

    #[test]
    fn messages_behind_higher_classes_are_served_in_order(case in arrivals(2, true)) {
        compare(case, 2, true)?;
    }
}
