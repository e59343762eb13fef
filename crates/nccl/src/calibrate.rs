//! Finds the constants of one operation in one node, or of the network between nodes, from measured times.
//!
//! Constants that are times or rates follow by the method of Levenberg and Marquardt, on the logarithm of estimated over
//! measured time, with a loss that grows linearly beyond 2 %, so that outliers count little. Where NCCL changes
//! algorithm and protocol is found by trying the sizes between those measured: the time jumps there.
//!
//! The result depends on the measurements alone: no start is random.

use crate::call::{Call, Operation};
use crate::descent::descend;
use crate::estimate::{estimate, in_node};
use crate::machine::{InNode, LowLatency, LowLatency128, Machine, Network, Nvls, Simple, SimpleFrom};

/// A measured time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measurement {
    /// What was measured, in one node.
    pub call: Call,
    /// How long it took, seconds.
    pub seconds: f64,
}

/// Constants that were found, and how well they fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibrated {
    /// The constants.
    pub constants: InNode,
    /// Mean loss of a measurement: about the mean absolute relative error where errors are large.
    pub loss: f64,
}

/// Fewest measurements that determine the constants of an operation.
pub const FEWEST_MEASUREMENTS: usize = 8;
/// Fewest different sizes among them.
pub const FEWEST_SIZES: usize = 6;
/// A NVLS regime is accepted only if it lowers the loss by this part: otherwise the ring explains the times, too.
const NVLS_GAIN: f64 = 0.97;
/// Ratios of the difference of launches to that of hops that are tried.
const LAUNCH_HOPS: [f64; 4] = [0.0, 1.0, 3.0, 10.0];
/// See [`Found::preference`].
const HANDICAP: f64 = 0.01;
/// Iterations for each size that is tried, and for the best of them.
const ITERATIONS: (usize, usize) = (10, 150);
/// How many of the tries are refined.
const REFINED: usize = 6;

/// Factors of the first guesses of hop latencies with LL128 and Simple.
const HOP_STARTS: [f64; 4] = [0.5, 1.0, 2.0, 4.0];

const CONSTANTS: usize = 16;
type Point = [f64; CONSTANTS];

/// Finds the constants of an operation from measurements in one node; all have `operation`, at least two GPUs, positive
/// bytes and positive seconds. Returns nothing if there are fewer than [`FEWEST_MEASUREMENTS`] or [`FEWEST_SIZES`].
#[must_use]
pub fn calibrate(operation: Operation, measured: &[Measurement]) -> Option<Calibrated> {
    calibrate_together(&[(operation, measured)]).into_iter().next().flatten()
}

/// As [`calibrate`], for several operations on one machine. Those that use rings change to Simple at the same
/// [`SimpleFrom`]: NCCL's tuning model has the same latencies and rates for all of them.
#[must_use]
pub fn calibrate_together(operations: &[(Operation, &[Measurement])]) -> Vec<Option<Calibrated>> {
    let enough = |measured: &[Measurement]| {
        let mut sizes: Vec<u64> = measured.iter().map(|each| each.call.bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        measured.len() >= FEWEST_MEASUREMENTS && sizes.len() >= FEWEST_SIZES
    };
    let mut found = vec![None; operations.len()];
    let known: Vec<usize> = (0..operations.len()).filter(|&at| enough(operations[at].1)).collect();
    let (rings, others): (Vec<usize>, Vec<usize>) = known
        .into_iter()
        .partition(|&at| !matches!(operations[at].0, Operation::AllToAll | Operation::SendRecv));
    for group in std::iter::once(rings).chain(others.into_iter().map(|at| vec![at])) {
        let sets: Vec<&[Measurement]> = group.iter().map(|&at| operations[at].1).collect();
        for (&at, ring) in group.iter().zip(best_together(&sets)) {
            let (operation, measured) = operations[at];
            let best = if operation == Operation::AllReduce { with_nvls(measured, ring) } else { ring };
            found[at] = Some(finished(operation, measured, &best));
        }
    }
    found
}

/// The best constants of each set of measurements with one [`SimpleFrom`] for all.
fn best_together(sets: &[&[Measurement]]) -> Vec<Found> {
    let all: Vec<Measurement> = sets.concat();
    let total = |found: &[Found]| -> f64 {
        found.iter().zip(sets).map(|(found, set)| found.preference() * set.len() as f64).sum()
    };
    let mut tries: Vec<Vec<Found>> = froms(&all)
        .into_iter()
        .map(|simple_from| {
            let choice = Choice { simple_from, nvls: None };
            sets.iter().map(|measured| Search { measured, choice }.rough()).collect()
        })
        .collect();
    tries.sort_by(|a, b| total(a).total_cmp(&total(b)));
    let refined = tries.iter().take(REFINED).map(|tried| {
        let each = tried.iter().zip(sets);
        each.map(|(found, measured)| Search { measured, choice: found.choice }.refined(found)).collect()
    });
    refined.min_by(|a: &Vec<Found>, b| total(a).total_cmp(&total(b))).unwrap_or_default()
}

/// All-reduces by the ring, and by NVLS where that explains the times better.
fn with_nvls(measured: &[Measurement], ring: Found) -> Found {
    let mut best = ring;
    for nvls in nvls_regimes(measured) {
        let found = Search { measured, choice: Choice { nvls: Some(nvls), ..ring.choice } }.near(&ring);
        if found.loss < NVLS_GAIN * ring.loss && found.loss < best.loss {
            best = found;
        }
    }
    if best.choice.nvls.is_some() {
        // The ring's constants were found with the times of NVLS among them.
        let search = Search { measured, choice: best.choice };
        let again = search.refined(&search.rough());
        let refined = search.refined(&best);
        best = if again.loss < refined.loss { again } else { refined };
    }
    best
}

fn finished(operation: Operation, measured: &[Measurement], best: &Found) -> Calibrated {
    let mut constants = constants(&best.point, best.choice);
    if !operation.reduces() || measured.iter().all(|each| each.call.element_bytes > 1) {
        // No measurement says anything about sums of narrow elements.
        constants.low_latency_128.narrow_s = 0.0;
        constants.simple.narrow_s = 0.0;
    }
    Calibrated { constants, loss: best.loss }
}

/// Where NCCL changes algorithm and protocol.
#[derive(Debug, Clone, Copy)]
struct Choice {
    simple_from: SimpleFrom,
    /// Bytes from which, and GPUs from which, NVLS is used.
    nvls: Option<(f64, u32)>,
}

const fn at(bytes_per_gpu: f64) -> SimpleFrom {
    SimpleFrom { bytes_per_gpu, launch_hops: 0.0 }
}

/// A try and its loss.
#[derive(Debug, Clone, Copy)]
struct Found {
    point: Point,
    choice: Choice,
    loss: f64,
}

impl Found {
    /// The loss, with a small handicap for each hop that launches are worth: of two explanations that are equally good, the
    /// simpler one counts.
    fn preference(&self) -> f64 {
        self.loss * (1.0 + HANDICAP * self.choice.simple_from.launch_hops.min(3.0))
    }
}

/// Sizes per GPU between those measured, where NCCL may change to Simple.
fn froms(measured: &[Measurement]) -> Vec<SimpleFrom> {
    let mut sizes: Vec<f64> =
        measured.iter().map(|each| each.call.bytes as f64 / each.call.group.gpus()).collect();
    sizes.sort_unstable_by(f64::total_cmp);
    sizes.dedup_by(|a, b| *a < *b * 1.3);
    let between =
        sizes.windows(2).map(|pair| (pair[0] * pair[1]).sqrt()).filter(|from| *from > 16e3 && *from < 40e6);
    let mut found: Vec<SimpleFrom> = between
        .flat_map(|bytes_per_gpu| LAUNCH_HOPS.map(|launch_hops| SimpleFrom { bytes_per_gpu, launch_hops }))
        .collect();
    // Small calls only, or large calls only.
    found.extend([at(1.0), at(1e15)]);
    found
}

/// Where NVLS may begin: each number of GPUs, and sizes between those measured with it.
fn nvls_regimes(measured: &[Measurement]) -> Vec<(f64, u32)> {
    let wide: Vec<_> = measured.iter().filter(|each| each.call.element_bytes > 1).collect();
    let mut gpus: Vec<u32> = wide.iter().map(|each| each.call.group.gpus_per_node).collect();
    gpus.sort_unstable();
    gpus.dedup();
    let mut found = Vec::new();
    for gpus in gpus {
        let mut sizes: Vec<u64> = wide
            .iter()
            .filter(|each| each.call.group.gpus_per_node >= gpus && each.call.bytes > 1 << 20)
            .map(|each| each.call.bytes)
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        // At least three sizes determine a latency and a rate.
        let last = sizes.len().saturating_sub(2);
        found
            .extend(sizes.windows(2).take(last).map(|pair| ((pair[0] as f64 * pair[1] as f64).sqrt(), gpus)));
    }
    found
}

fn constants(point: &Point, choice: Choice) -> InNode {
    let x = point.map(f64::exp);
    InNode {
        launch_s: x[0],
        low_latency: LowLatency { hop_s: x[1], rate: x[2] },
        low_latency_128: LowLatency128 {
            hop_s: x[3],
            pace_s: x[15],
            rate: x[4],
            all_channels_from: x[5],
            narrow_s: x[11],
        },
        simple: Simple {
            launch_s: x[6],
            hop_s: x[7],
            pace_s: x[8],
            local_rate: x[9],
            bus_rate: x[10],
            narrow_s: x[12],
        },
        simple_from: choice.simple_from,
        nvls: choice.nvls.map(|(from, gpus)| Nvls { latency_s: x[13], rate: x[14], from, gpus }),
    }
}

/// A search for constants with a given choice of protocols.
struct Search<'a> {
    measured: &'a [Measurement],
    choice: Choice,
}

impl Search<'_> {
    /// Constants near the best ones.
    fn rough(&self) -> Found {
        let [slow, fast] = [0.02, 1.0].map(|pace| self.descend(self.choice, &self.start(pace), ITERATIONS.0));
        if fast.loss < slow.loss { fast } else { slow }
    }

    /// The best constants near others.
    fn refined(&self, found: &Found) -> Found {
        self.descend(self.choice, &found.point, ITERATIONS.1)
    }

    /// The best constants from those of another choice.
    fn near(&self, other: &Found) -> Found {
        let mut point = other.point;
        let start = self.start(1.0);
        point[13..15].copy_from_slice(&start[13..15]);
        self.descend(self.choice, &point, ITERATIONS.0 * 3)
    }

    /// Constants of the right order, from the shortest time and the rate of the largest calls. `pace` is relative to the
    /// shortest time.
    fn start(&self, pace: f64) -> Point {
        let shortest = self.measured.iter().map(|each| each.seconds).fold(f64::INFINITY, f64::min);
        let largest = self.measured.iter().map(|each| each.call.bytes).max().unwrap_or(1);
        let mut rates: Vec<f64> = self
            .measured
            .iter()
            .filter(|each| each.call.bytes >= largest / 2)
            .map(|each| each.call.bytes as f64 / each.seconds)
            .collect();
        rates.sort_unstable_by(f64::total_cmp);
        let rate = rates[rates.len() / 2];
        [
            0.7 * shortest,
            0.12 * shortest,
            15e9,
            0.2 * shortest,
            0.5 * rate,
            300e3,
            2.0 * shortest,
            0.3 * shortest,
            pace * shortest,
            2.5 * rate,
            2.0 * rate,
            1e-14,
            1e-13,
            5.0 * shortest,
            rate,
            0.03 * shortest,
        ]
        .map(f64::ln)
    }

    fn descend(&self, choice: Choice, start: &Point, iterations: usize) -> Found {
        let residuals = |point: &Point, into: &mut Vec<f64>| {
            let constants = constants(point, choice);
            let measured = self.measured.iter();
            into.extend(measured.map(|each| (in_node(&constants, &each.call).seconds() / each.seconds).ln()));
        };
        let (point, loss) = descend(start, iterations, residuals);
        Found { point, choice, loss }
    }
}

/// Finds efficiency and hop latencies of a network from measurements between nodes; all other constants of the machine and
/// of its network stay. Returns the network and the loss; nothing if the machine has no network, or no estimate for one of
/// the measurements.
#[must_use]
pub fn calibrate_network(machine: &Machine, measured: &[Measurement]) -> Option<(Network, f64)> {
    let known = machine.network?;
    if measured.is_empty() || measured.iter().any(|each| estimate(machine, &each.call).is_none()) {
        return None;
    }
    let network = |point: &[f64; 4]| {
        let x = point.map(f64::exp);
        let hops = [x[1], x[2], x[3]];
        let hop_s = [0, 1, 2].map(|protocol| known.hop_s[protocol].map(|_| hops[protocol]));
        Network { efficiency: x[0].min(1.0), hop_s, ..known }
    };
    let mut start = [known.efficiency; 4];
    for (at, hop) in known.hop_s.into_iter().enumerate() {
        start[at + 1] = hop.unwrap_or(1e-5);
    }
    let residuals = |point: &[f64; 4], into: &mut Vec<f64>| {
        let machine = Machine { network: Some(network(point)), ..machine.clone() };
        into.extend(measured.iter().map(|each| {
            estimate(&machine, &each.call).map_or(0.0, |found| (found.seconds() / each.seconds).ln())
        }));
    };
    // Which protocol is the fastest depends on all constants, so one start may end beside the best ones.
    let mut best: Option<([f64; 4], f64)> = None;
    for efficiency in [start[0], 0.95] {
        for middle in HOP_STARTS {
            for last in HOP_STARTS {
                let from = [efficiency, start[1], start[2] * middle, start[3] * last].map(f64::ln);
                let found = descend(&from, ITERATIONS.1, residuals);
                if best.is_none_or(|best| found.1 < best.1) {
                    best = Some(found);
                }
            }
        }
    }
    best.map(|(point, loss)| (network(&point), loss))
}
