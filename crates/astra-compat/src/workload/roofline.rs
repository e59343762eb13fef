//! Computes the time of a computation from its work. ASTRA-sim 2, `Workload.cc:issue_comp`, `Roofline.cc`.

use crate::network::whole_ns;
use crate::world::Settings;
use syncline_formats::chakra::Compute;

/// The time of a computation, and how well it uses the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) time: u64,
    pub(crate) compute_bound: bool,
    pub(crate) compute_utilization: f64,
    pub(crate) memory_utilization: f64,
    pub(crate) intensity: f64,
}

/// Returns the cost of a computation; `None` for one that moves no bytes, which ASTRA-sim skips.
pub(crate) fn time(settings: &Settings, compute: &Compute) -> Option<Cost> {
    let operations = compute.num_ops.unwrap_or(0) as f64;
    let bytes = compute.tensor_size.filter(|&bytes| bytes > 0)? as f64;
    let intensity = operations / bytes;
    let rate = (settings.local_bytes_per_s * intensity).min(settings.peak_flops);
    Some(Cost {
        time: whole_ns(operations / rate * 1e9),
        compute_bound: rate >= settings.peak_flops,
        compute_utilization: rate / settings.peak_flops,
        memory_utilization: rate / intensity / settings.local_bytes_per_s,
        intensity,
    })
}
