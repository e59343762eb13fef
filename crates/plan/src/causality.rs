//! Which instructions happen before which others. Program order, messages and dependencies between streams impose
//! this order, however a plan is timed.
//!
//! An *event* is an instruction of a stream. It happens after all earlier instructions of its stream. Everything
//! behind a wait happens after the sends of all messages received up to that wait; everything behind an
//! [`Op::After`](crate::program::Op::After) happens after the instructions that it names. Lamport, "Time, clocks, and
//! the ordering of events in a distributed system", CACM 21(7), 1978.
//!
//! Queries are rare (two instructions of one seat that touch the same blocks), so no vector clocks are kept. Each
//! query walks back from the later event over the edges recorded so far.

/// Most edges that all queries of a proof may visit together.
const MAX_STEPS: u64 = 1 << 28;

/// When a stream has passed instruction `at`, stream `of` has passed its first `passed` instructions.
#[derive(Clone, Copy, Debug)]
struct Edge {
    at: u32,
    of: u32,
    passed: u32,
}

/// The recorded order. Streams are numbered consecutively over all seats.
#[derive(Clone, Debug, Default)]
pub(crate) struct Causality {
    /// The edges of each stream, in ascending order of [`Edge::at`].
    edges: Vec<Vec<Edge>>,
    /// During a query: how far each stream is known to be.
    known: Vec<u32>,
    /// The streams with an entry in `known`.
    marked: Vec<u32>,
    steps: u64,
}

impl Causality {
    /// Creates an order without edges for `streams` streams.
    pub(crate) fn new(streams: usize) -> Self {
        Self { edges: vec![Vec::new(); streams], known: vec![0; streams], marked: Vec::new(), steps: 0 }
    }

    /// Records that whatever follows instruction `at` of `stream` happens after the first `passed` instructions of
    /// stream `of`. For one stream, `at` must not decrease from one call to the next.
    pub(crate) fn record(&mut self, stream: u32, at: u32, of: u32, passed: u32) {
        if stream != of {
            self.edges[stream as usize].push(Edge { at, of, passed });
        }
    }

    /// Whether the first `passed` instructions of stream `of` happen before instruction `at` of `stream`; `None` if
    /// all queries together have visited too many edges.
    pub(crate) fn precedes(&mut self, of: u32, passed: u32, stream: u32, at: u32) -> Option<bool> {
        if stream == of {
            return Some(passed <= at);
        }
        let mut todo = vec![(stream, 0, at)];
        self.known[stream as usize] = at;
        self.marked.push(stream);
        let mut found = false;
        while let Some((stream, from, to)) = todo.pop().filter(|_| !found) {
            let edges = &self.edges[stream as usize];
            let first = edges.partition_point(|edge| edge.at < from);
            for edge in edges[first..].iter().take_while(|edge| edge.at < to) {
                self.steps += 1;
                let known = &mut self.known[edge.of as usize];
                if edge.passed <= *known {
                    continue;
                }
                if *known == 0 {
                    self.marked.push(edge.of);
                }
                todo.push((edge.of, *known, edge.passed));
                *known = edge.passed;
                found |= edge.of == of && edge.passed >= passed;
            }
        }
        for stream in self.marked.drain(..) {
            self.known[stream as usize] = 0;
        }
        (self.steps <= MAX_STEPS).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::Causality;
    use proptest::prelude::*;

    #[test]
    fn precedence_passes_through_other_streams_only_as_far_as_recorded() {
        let mut order = Causality::new(3);
        // Stream 1 receives at its instruction 4 what stream 0 sent as its instruction 2, and so on.
        order.record(1, 4, 0, 3);
        order.record(2, 7, 1, 6);
        assert_eq!(order.precedes(0, 3, 1, 5), Some(true));
        assert_eq!(order.precedes(0, 3, 1, 4), Some(false), "the wait itself has not been passed");
        assert_eq!(order.precedes(0, 4, 1, 5), Some(false), "the send was instruction 2");
        assert_eq!(order.precedes(0, 3, 2, 8), Some(true));
        assert_eq!(order.precedes(0, 3, 2, 7), Some(false));
        assert_eq!(order.precedes(1, 6, 0, 100), Some(false), "nothing leads back");
        assert_eq!(order.precedes(1, 6, 1, 6), Some(true));
        assert_eq!(order.precedes(1, 6, 1, 5), Some(false));
    }

    proptest! {
        /// The answers equal those of vector clocks, which this test keeps for every instruction.
        #[test]
        fn answers_equal_those_of_vector_clocks(moves in prop::collection::vec((0u32..4, 0u32..4), 0..60)) {
            const STREAMS: usize = 4;
            let mut order = Causality::new(STREAMS);
            // clocks[s][p]: how far each stream is known to be when stream s is about to run its instruction p.
            let mut clocks = vec![vec![[0u32; STREAMS]]; STREAMS];
            for (to, from) in moves {
                // Stream `to` runs an instruction and learns what stream `from` has done so far.
                let (at, passed) = (clocks[to as usize].len() as u32 - 1, clocks[from as usize].len() as u32 - 1);
                let other = clocks[from as usize][passed as usize];
                let mut next = clocks[to as usize][at as usize];
                next.iter_mut().zip(other).for_each(|(a, b)| *a = b.max(*a));
                next[from as usize] = next[from as usize].max(passed);
                next[to as usize] = at + 1;
                clocks[to as usize].push(next);
                order.record(to, at, from, passed);
            }
            for stream in 0..STREAMS as u32 {
                for (at, clock) in (0u32..).zip(&clocks[stream as usize]) {
                    for of in 0..STREAMS as u32 {
                        for passed in 1..clocks[of as usize].len() as u32 {
                            let expected = if of == stream { passed <= at } else { clock[of as usize] >= passed };
                            prop_assert_eq!(order.precedes(of, passed, stream, at), Some(expected));
                        }
                    }
                }
            }
        }
    }
}
