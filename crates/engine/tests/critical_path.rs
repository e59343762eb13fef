//! The critical path predicts the effect of small changes exactly, and of large ones approximately.
//!
//! As long as events keep their order, the time of a run is that of the longest chain of tasks and messages, and the
//! time of a chain is a sum of transfer times, latencies and compute times. So if one kind of them changes by a small
//! fraction, the run changes by that fraction of the kind's time on the path. This is exact to the picosecond for
//! latencies and compute times that stay whole numbers; transfer times are rounded up for each message.
//!
//! If another chain is equally long, or the order of events changes, the run takes longer than predicted. Random
//! numbers make that rare.

use crate::support::simulate;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use syncline_timeline::{PathKind, Summary};

/// The kind of time that a change makes longer, and by how many millionths.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Nothing,
    /// Transfer times of a tier.
    Bytes(usize, i64),
    Latency(i64),
    Compute(i64),
    Reduction(i64),
}

/// Latencies and compute times are multiples of this many picoseconds, so that they stay whole if they change by
/// [`STEP`].
const GRAIN: u64 = 50_000;

/// The relative change, in millionths.
const STEP: i64 = 20;

/// `time` plus exactly `millionths` millionths of it.
fn more(time: u64, millionths: i64) -> u64 {
    assert_eq!(time % GRAIN, 0);
    time.checked_add_signed(
        time as i64 / 1_000_000 * millionths + time as i64 % 1_000_000 * millionths / 1_000_000,
    )
    .unwrap()
}

/// A random job, each number of which can be changed independently.
#[derive(Clone, Debug)]
struct Job {
    sizes: [u32; 2],
    shapes: [&'static str; 2],
    /// Bytes a second.
    rates: [u64; 2],
    /// Picoseconds: links, endpoints, injection.
    latency: [u64; 4],
    /// Picoseconds of compute, and parameters and outputs, by layer.
    layers: Vec<(u64, u64, u64)>,
    parallel: u32,
    zero: u32,
    micro_batches: u32,
    chunks: u32,
    threshold: u32,
    order: &'static str,
    /// Bytes a second.
    reduction: Option<u64>,
    network: &'static str,
}

/// Number of jobs.
const JOBS: u32 = 150;

impl Change {
    fn millionths(self) -> i64 {
        match self {
            Self::Nothing => 0,
            Self::Bytes(_, by) | Self::Latency(by) | Self::Compute(by) | Self::Reduction(by) => by,
        }
    }
}

const TIERS: [&str; 2] = ["near", "far"];

impl Job {
    fn scenario(&self, change: Change) -> Value {
        let rate = |tier: usize| match change {
            // Times are inversely proportional to rates.
            Change::Bytes(changed, by) if changed == tier => {
                (self.rates[tier] as f64 / (1.0 + by as f64 * 1e-6)).round() as u64
            }
            _ => self.rates[tier],
        };
        let latency = |time: u64| match change {
            Change::Latency(by) => format!("{}ps", more(time, by)),
            _ => format!("{time}ps"),
        };
        let compute = |time: u64| match change {
            Change::Compute(by) => json!({"time": format!("{}ps", more(time, by))}),
            _ => json!({"time": format!("{time}ps")}),
        };
        let dims: Vec<Value> = (0..2)
            .map(|tier| {
                json!({"name": TIERS[tier], "shape": self.shapes[tier], "size": self.sizes[tier],
                       "rate": format!("{}B/s", rate(tier)), "latency": latency(self.latency[tier])})
            })
            .collect();
        let layers: Vec<Value> = self
            .layers
            .iter()
            .enumerate()
            .map(|(number, &(time, parameters, outputs))| {
                json!({"name": format!("l{number}"), "forward": compute(time), "input_grad": compute(2 * time),
                       "weight_grad": compute(3 * time), "parameters": parameters, "inputs": outputs,
                       "outputs": outputs, "sharding": if self.parallel == 0 { "replicated" } else { "row" }})
            })
            .collect();
        let (near, far) = (json!({"dims": ["near"]}), json!({"dims": ["far"]}));
        let parallel = match self.parallel {
            0 => json!({"data": "all", "zero": self.zero}),
            1 => json!({"tensor": near, "data": far, "zero": self.zero}),
            2 => json!({"tensor": near, "pipeline": far}),
            // Stages and replicas share the links of one dimension.
            _ => json!({"tensor": near, "pipeline": {"degree": 2}, "data": {"degree": 2}, "zero": self.zero}),
        };
        let mut value = json!({"schema": "syncline/1", "fabric": {"dims": dims}, "network": {"model": self.network},
            "workload": {"source": "layers", "layers": layers, "parallel": parallel, "types": "fp16",
                "micro_batches": self.micro_batches},
            "collectives": {"chunks": self.chunks, "min_chunk": "1B", "order": self.order, "issue_threshold": self.threshold,
                "endpoint_delay": latency(self.latency[2]), "injection_latency": latency(self.latency[3])}});
        if let Some(rate) = self.reduction {
            let rate = match change {
                Change::Reduction(by) => (rate as f64 / (1.0 + by as f64 * 1e-6)).round() as u64,
                _ => rate,
            };
            value["collectives"]["reduction_rate"] = json!(format!("{rate}B/s"));
        }
        value
    }
}

fn grains(number: std::ops::Range<u64>) -> impl Strategy<Value = u64> {
    number.prop_map(|number| number * GRAIN)
}

fn jobs() -> impl Strategy<Value = Job> {
    let shapes = || prop::sample::select(vec!["ring", "fully_connected", "switch"]);
    (
        (
            [2u32..6, 2u32..5],
            [shapes(), shapes()],
            [50_000_000_000u64..400_000_000_000, 5_000_000_000..50_000_000_000],
        ),
        [grains(2..18), grains(10..80), grains(0..3), grains(0..3)],
        prop::collection::vec((grains(2..1200), 1_000u64..9_000_000, 1_000u64..400_000), 4..13),
        (0u32..4, 1u32..7, 1u32..6, 0u32..9, 0u32..4),
        prop::sample::select(vec!["fifo", "lifo", "priority"]),
        prop::option::of(200_000_000_000u64..900_000_000_000),
        prop::sample::select(vec!["analytical", "queued"]),
    )
        .prop_map(|((mut sizes, shapes, rates), latency, layers, numbers, order, reduction, network)| {
            let (parallel, micro_batches, chunks, threshold, zero) = numbers;
            if parallel == 3 {
                sizes[1] = 4;
            }
            // Every stage has the same number of layers.
            let stages = [1, 1, sizes[1], 2][parallel as usize];
            let count = layers.len() - layers.len() % stages as usize;
            // Each micro-batch, and each rank of a tensor-parallel group, takes a part of a layer's time.
            let parts = u64::from(micro_batches) * if parallel == 0 { 1 } else { u64::from(sizes[0]) };
            let whole = |&(time, parameters, outputs)| (time * parts, parameters, outputs);
            let layers = layers[..count].iter().map(whole).collect();
            Job {
                sizes,
                shapes,
                rates,
                latency,
                layers,
                parallel,
                zero,
                micro_batches,
                chunks,
                threshold,
                order,
                reduction,
                network,
            }
        })
}

/// The seconds of the critical path that `change` affects.
fn part(summary: &Summary, change: Change) -> f64 {
    let of = |kind: PathKind, tier: Option<&str>| match change {
        Change::Nothing => true,
        Change::Bytes(changed, _) => tier == Some(TIERS[changed]),
        Change::Latency(_) => kind == PathKind::Latency,
        Change::Compute(_) => matches!(kind, PathKind::Compute | PathKind::Bubble | PathKind::Skew),
        Change::Reduction(_) => kind == PathKind::Reduction,
    };
    summary
        .critical_path
        .iter()
        .filter(|part| of(part.kind, part.tier.as_deref()))
        .map(|part| part.time_s)
        .sum()
}

/// By how many picoseconds a change makes a run longer.
fn longer(job: &Job, before: &Summary, change: Change) -> i64 {
    let picoseconds = |summary: &Summary| (summary.total_time_s * 1e12).round() as i64;
    picoseconds(&simulate(&job.scenario(change)).summary) - picoseconds(before)
}

/// Whether the run became longer by the predicted time, up to the rounding of transfer times.
fn is_said(change: Change, longer: f64, said: f64) -> bool {
    match change {
        Change::Bytes(..) | Change::Reduction(_) => (longer - said).abs() <= 0.02 * said.abs() + 8.0,
        Change::Latency(_) | Change::Compute(_) | Change::Nothing => (longer - said).abs() < 0.5,
    }
}

#[test]
fn small_changes_have_the_predicted_effect() {
    let mut runner = TestRunner::deterministic();
    // By network model and change: how often the prediction was exact, and how often it was not.
    let mut found = BTreeMap::new();
    for _ in 0..JOBS {
        let job = jobs().new_tree(&mut runner).unwrap().current();
        let before = simulate(&job.scenario(Change::Nothing)).summary;
        let whole = part(&before, Change::Nothing);
        assert!((whole - before.total_time_s).abs() < 1e-12, "{whole} of {} {job:?}", before.total_time_s);
        for by in [STEP, -STEP] {
            let rates = [Change::Bytes(0, 10 * by), Change::Bytes(1, 10 * by), Change::Reduction(10 * by)];
            let changes = rates.into_iter().chain([Change::Latency(by), Change::Compute(by)]);
            for (number, change) in changes.enumerate() {
                let said = part(&before, change) * change.millionths() as f64 * 1e6;
                let longer = longer(&job, &before, change) as f64;
                let counts: &mut [u32; 2] = found.entry((job.network, number)).or_default();
                counts[usize::from(!is_said(change, longer, said))] += 1;
            }
        }
    }
    assert_eq!(found.len(), 10);
    for ((network, change), [exact, others]) in found {
        assert!(exact > 20 * others, "{network}, change {change}: {exact} {others}");
    }
}

/// The predicted saving of `change`, which removes half or all of some kind of time.
fn said_to_save(summary: &Summary, change: Change) -> f64 {
    let is = |kind: PathKind, tier: Option<&str>| match change {
        Change::Bytes(changed, _) => tier == Some(TIERS[changed]),
        Change::Latency(_) => kind == PathKind::Latency,
        Change::Compute(_) => kind == PathKind::Compute,
        Change::Reduction(_) => kind == PathKind::Reduction,
        Change::Nothing => false,
    };
    summary
        .critical_path
        .iter()
        .find(|part| is(part.kind, part.tier.as_deref()))
        .map_or(0.0, |part| part.saves_s)
}

/// If another chain becomes the longest, twice the rate saves the predicted time, which is less than half of the part
/// of the path. The remaining differences come from messages in another order.
#[test]
fn large_changes_save_the_predicted_time() {
    const HALF: i64 = -500_000;
    const ALL: i64 = -1_000_000;
    let mut runner = TestRunner::deterministic();
    let changes = [
        (Change::Bytes(0, HALF), 2.0),
        (Change::Bytes(1, HALF), 2.0),
        (Change::Reduction(HALF), 2.0),
        (Change::Latency(ALL), 1.0),
        (Change::Compute(HALF), 2.0),
    ];
    // By network model and change, as shares of the run: the error of the prediction, and the error of the path alone.
    let mut found: BTreeMap<_, [Vec<f64>; 2]> = BTreeMap::new();
    for _ in 0..JOBS {
        let job = jobs().new_tree(&mut runner).unwrap().current();
        let before = simulate(&job.scenario(Change::Nothing)).summary;
        for (number, (change, times)) in changes.into_iter().enumerate() {
            let saved = -longer(&job, &before, change) as f64 * 1e-12;
            let said = [said_to_save(&before, change), part(&before, change) / times];
            let of_this = found.entry((job.network, number)).or_default();
            for (missed, said) in of_this.iter_mut().zip(said) {
                missed.push((said - saved).abs() / before.total_time_s);
            }
        }
    }
    assert_eq!(found.len(), 10);
    let all = |which: usize| found.values().flat_map(|missed| &missed[which]).sum::<f64>();
    assert!(2.0 * all(0) < all(1), "{} of the runs were missed, {} by the path alone", all(0), all(1));
    for (what, [mut missed, _]) in found.clone() {
        missed.sort_by(f64::total_cmp);
        let of = |share: f64| missed[(share * (missed.len() - 1) as f64) as usize];
        let (most, nearly_all) = (of(0.75), of(0.9));
        assert!(most < 0.005 && nearly_all < 0.025, "{what:?}: {most} {nearly_all} {}", of(1.0));
    }
}
