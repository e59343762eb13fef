//! The rate of work of a training job: samples, tokens and operations per second, and the fraction of the peak that it
//! reaches.
//!
//! *Model FLOP* are those of the matrix products that a model's forward and backward pass need: about six for each
//! parameter and token, and attention's (Narayanan et al. 2021, equation 3). *MFU* is model FLOP a second over the peak
//! of all NPUs (Chowdhery et al. 2022, 4.1). It does not count recomputation, and in causal attention it counts only
//! the scores that the mask leaves, as Megatron-LM and MaxText do; [`WorkRates::mfu_unmasked`] counts all scores, as
//! PaLM did. *HFU* counts all matrix products that NPUs compute, including recomputation.

use syncline_compute::{ComputeModel, Timing};
use syncline_prepare::jobs::StepWork;
use syncline_timeline::WorkRates;
use syncline_workload::{Part, TaskGraph, TaskKind, Work, Workload};

/// The rates of a job whose steps take `step_s` seconds each.
pub(crate) fn rates(workload: &Workload, compute: &ComputeModel, step: &StepWork, step_s: f64) -> WorkRates {
    let parameters = Some(step.parameters);
    if step_s <= 0.0 {
        return WorkRates { parameters, ..WorkRates::default() };
    }
    let (samples, sample) = (step.samples, step.sample);
    let tokens = samples.zip(sample.and_then(|sample| sample.tokens)).map(|(a, b)| a.saturating_mul(b));
    let npus = f64::from(workload.ranks);
    // FLOP per second of one NPU.
    let each = |flop: u64| samples.map(|samples| samples as f64 * flop as f64 / step_s / npus);
    let model = sample.and_then(|sample| each(sample.model_flop.0));
    let unmasked = sample.and_then(|sample| each(sample.model_flop_unmasked?.0));
    let peak = peak(compute);
    let of_peak = |flop_per_s: f64| peak.filter(|&peak| peak > 0.0).map(|peak| flop_per_s / peak);
    let done = executed(workload) / step_s / npus;
    WorkRates {
        parameters,
        samples_per_step: samples,
        tokens_per_step: tokens,
        samples_per_s: samples.map(|samples| samples as f64 / step_s),
        tokens_per_s: tokens.map(|tokens| tokens as f64 / step_s),
        model_tflop_per_s_per_npu: model.map(|model| model / 1e12),
        mfu: model.and_then(of_peak),
        mfu_unmasked: unmasked.and_then(of_peak),
        hfu: model.and_then(|_| of_peak(done)),
    }
}

/// Peak FLOP per second of one NPU, if the compute model has a peak.
fn peak(compute: &ComputeModel) -> Option<f64> {
    let peak = match &compute.timing {
        Timing::Roofline(model) => model.peak.0 as f64,
        Timing::Throughput(model) => model.rate.0 as f64,
        Timing::Systolic(array) => {
            2.0 * f64::from(array.rows) * f64::from(array.columns) * array.clock.0 as f64
        }
        Timing::Measured(model) => model.peak?.0 as f64,
        Timing::Given | Timing::Table(_) => return None,
    };
    Some(peak * compute.power.factor())
}

/// FLOP of all matrix products of a step. If no matrix products are known, FLOP of all passes.
fn executed(workload: &Workload) -> f64 {
    let sum = |of: fn(Part, &Work) -> u64| {
        let graph = |graph: &TaskGraph| {
            let tasks = (0u32..).zip(&graph.tasks).map(|(index, task)| match &task.kind {
                TaskKind::Compute(work) => {
                    u128::from(of(task.part, work)) * u128::from(graph.times_a_step(index))
                }
                _ => 0,
            });
            tasks.sum::<u128>()
        };
        workload.sum(graph)
    };
    let products = sum(|_, work| match work {
        Work::Ops { products, .. } => {
            products.iter().fold(0, |sum: u64, each| sum.saturating_add(each.flop().unwrap_or(u64::MAX)))
        }
        _ => 0,
    });
    let all = || {
        sum(|part, work| match work {
            Work::Ops { flop, .. } if part != Part::Update => flop.0,
            _ => 0,
        })
    };
    (if products > 0 { products } else { all() }) as f64
}
