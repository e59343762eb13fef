//! The details of a step, compared with the step.

use crate::{PLAIN, SERVERS, gpt3, single};
use syncline_estimate::machine::AttentionWork;
use syncline_estimate::{Collective, Costs, Group, MemorySoftware, Precision, Product, estimate, profile};

/// A second for each operation of a kernel, on an accelerator whose peak allows only one in two seconds; nothing else takes
/// time.
struct BeyondPeak;

/// Seconds of an operation at the peak.
const PEAK_S: f64 = 2.0;

impl Costs for BeyondPeak {
    fn product(&self, _: Product, _: Precision, m: u64, n: u64, k: u64, groups: u64) -> f64 {
        (2 * m * n * k * groups) as f64
    }

    fn attention(&self, work: AttentionWork) -> f64 {
        work.flop()
    }

    fn least_product(&self, _: Precision, m: u64, n: u64, k: u64, groups: u64) -> f64 {
        PEAK_S * (2 * m * n * k * groups) as f64
    }

    fn least_attention(&self, work: AttentionWork) -> f64 {
        PEAK_S * work.flop()
    }

    fn memory(&self, _: f64) -> f64 {
        0.0
    }

    fn collective(&self, _: Collective, _: f64, _: Group) -> f64 {
        0.0
    }
}

#[test]
fn kernels_of_a_profile_are_no_faster_than_the_peak() {
    let (model, job) = (gpt3(), single(2048));
    let step = estimate(&model, &job, SERVERS, &PLAIN, &BeyondPeak);
    let found = profile(&model, &job, SERVERS, &PLAIN, &MemorySoftware::MEGATRON, &BeyondPeak);
    assert!(found.kernels.len() > 6);
    for kernel in &found.kernels {
        assert!((kernel.each_s / (PEAK_S * kernel.flop) - 1.0).abs() < 1e-9, "{kernel:?}");
    }
    let kernels: f64 = found.kernels.iter().map(|each| each.times * each.each_s).sum();
    assert!((kernels / step.seconds() - 1.0).abs() < 1e-9);
}
