//! The congestion-unaware backend: `floor(hops * latency + bytes / rate)`. Only the first dimension in which
//! the ranks' coordinates differ is charged, and nothing is ever busy.
//! ASTRA-sim 2, `congestion_unaware/basic-topology/*.cpp`, `MultiDimTopology.cpp`.

use super::{bytes_per_ns, whole_ns};
use syncline_formats::astra2::{NetworkFile, Topology};

/// A dimension as seen by the sender.
struct Dim {
    topology: Topology,
    npus: u32,
    latency: f64,
    rate: f64,
}

/// The congestion-unaware network.
pub(crate) struct Unaware {
    dims: Vec<Dim>,
}

impl Unaware {
    pub(crate) fn new(network: &NetworkFile) -> Self {
        let dims = network
            .dims
            .iter()
            .map(|dim| Dim {
                topology: dim.topology,
                npus: dim.npus,
                latency: dim.latency,
                rate: bytes_per_ns(dim),
            })
            .collect();
        Self { dims }
    }

    /// Returns the nanoseconds from sending to arrival.
    #[inline]
    pub(crate) fn delay(&self, src: u32, dst: u32, bytes: u64) -> u64 {
        let (mut src, mut dst) = (src, dst);
        for dim in &self.dims {
            let (from, to) = (src % dim.npus, dst % dim.npus);
            if from != to {
                let hops = match dim.topology {
                    Topology::FullyConnected => 1,
                    Topology::Switch => 2,
                    Topology::Ring => {
                        let clockwise = if to > from { to - from } else { to + dim.npus - from };
                        clockwise.min(dim.npus - clockwise)
                    }
                };
                return whole_ns(f64::from(hops) * dim.latency + bytes as f64 / dim.rate);
            }
            src /= dim.npus;
            dst /= dim.npus;
        }
        0
    }
}
