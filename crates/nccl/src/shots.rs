//! All-reduces in one shot or two, by kernels of inference frameworks (vLLM, SGLang, TensorRT-LLM) in one node.
//!
//! In one shot, each GPU reads the vectors of all others: `launch + S (g - 1) / rate`. In two, GPUs reduce a part each, then
//! gather: `launch + S 2 (g - 1) / g / rate`. Two GPUs take one shot; more take the faster.

use crate::call::{Algorithm, Call, Operation, Protocol};
use crate::estimate::{Estimate, Parts};
use serde::{Deserialize, Serialize};

/// Such kernels, and the all-reduces for which a framework uses them; it leaves all others to NCCL.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CustomAllReduce {
    /// Constants.
    pub shots: Shots,
    /// Largest number of GPUs, all in one node.
    pub gpus: u32,
    /// Largest vector, bytes.
    pub largest: u64,
}

impl CustomAllReduce {
    /// The time of a call; nothing if the framework leaves it to NCCL.
    #[must_use]
    pub fn estimate(&self, call: &Call) -> Option<Estimate> {
        let gpus = call.group.gpus_per_node;
        let own = call.operation == Operation::AllReduce
            && call.group.nodes <= 1
            && (2..=self.gpus).contains(&gpus)
            && call.bytes <= self.largest;
        own.then(|| self.shots.estimate(gpus, call.bytes))
    }
}

/// Constants of such kernels on a machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shots {
    /// Launch of one shot, seconds.
    pub one_launch_s: f64,
    /// Rate at which a GPU reads in one shot, bytes per second.
    pub one_rate: f64,
    /// Launch of two shots, seconds.
    pub two_launch_s: f64,
    /// Rate of two shots in bytes on the bus per second.
    pub two_rate: f64,
}

impl Shots {
    /// The time of an all-reduce of `bytes` among `gpus`, seconds, and the number of shots.
    #[must_use]
    pub fn seconds(&self, gpus: u32, bytes: u64) -> (f64, u8) {
        let (g, size) = (f64::from(gpus), bytes as f64);
        let one = self.one_launch_s + size * (g - 1.0) / self.one_rate;
        let two = self.two_launch_s + size * 2.0 * (g - 1.0) / g / self.two_rate;
        if gpus <= 2 || one <= two { (one, 1) } else { (two, 2) }
    }

    /// As [`Shots::seconds`], with its parts.
    #[must_use]
    pub fn estimate(&self, gpus: u32, bytes: u64) -> Estimate {
        let (seconds, shots) = self.seconds(gpus, bytes);
        let (algorithm, launch_s) = match shots {
            1 => (Algorithm::OneShot, self.one_launch_s),
            _ => (Algorithm::TwoShots, self.two_launch_s),
        };
        let transfer_s = seconds - launch_s;
        Estimate {
            algorithm,
            protocol: Protocol::Other,
            launch_s,
            latency_s: 0.0,
            transfer_s,
            parts: Parts::in_node(transfer_s),
            all_channels: true,
        }
    }
}

/// Finds the constants from measured times: GPUs, bytes and seconds. Returns them and the mean loss; nothing without
/// measurements.
#[must_use]
pub fn calibrate_shots(measured: &[(u32, u64, f64)]) -> Option<(Shots, f64)> {
    let shortest = measured.iter().map(|each| each.2).reduce(f64::min)?;
    let shots = |point: &[f64; 4]| {
        let x = point.map(f64::exp);
        Shots { one_launch_s: x[0], one_rate: x[1], two_launch_s: x[2], two_rate: x[3] }
    };
    let residuals = |point: &[f64; 4], into: &mut Vec<f64>| {
        let shots = shots(point);
        into.extend(measured.iter().map(|&(gpus, bytes, s)| (shots.seconds(gpus, bytes).0 / s).ln()));
    };
    let starts = [1.1, 1.8, 4.0].map(|two| [shortest, 250e9, two * shortest, 300e9].map(f64::ln));
    let found = starts.map(|start| crate::descent::descend(&start, 200, residuals));
    let best = found.into_iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    Some((shots(&best.0), best.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MADE: Shots = Shots { one_launch_s: 4e-6, one_rate: 250e9, two_launch_s: 8e-6, two_rate: 300e9 };

    #[test]
    fn small_vectors_take_one_shot_and_large_ones_two() {
        // Eight GPUs: 7 vectors of 100 kB at 250 GB/s: 2.8 us.
        assert!((MADE.seconds(8, 100_000).0 - 6.8e-6).abs() < 1e-15);
        assert_eq!(MADE.seconds(8, 100_000).1, 1);
        // 1.2 MB: 33.6 us in one shot; in two, 1.75 * 1.2 MB at 300 GB/s: 7 us.
        let (seconds, shots) = MADE.seconds(8, 1_200_000);
        assert!((seconds - 15e-6).abs() < 1e-15);
        assert_eq!(shots, 2);
        // Two GPUs: one vector of the other.
        let (seconds, shots) = MADE.seconds(2, 25_000_000);
        assert!((seconds - 104e-6).abs() < 1e-12);
        assert_eq!(shots, 1);
    }

    #[test]
    fn frameworks_leave_other_calls_to_nccl() {
        let custom = CustomAllReduce { shots: MADE, gpus: 8, largest: 8 << 20 };
        let call = |operation, gpus, nodes, bytes| {
            let group = crate::Group { gpus_per_node: gpus, nodes, concurrent: 1 };
            custom.estimate(&Call { operation, bytes, element_bytes: 2, group })
        };
        let own = call(Operation::AllReduce, 8, 1, 8 << 20).expect("the largest");
        assert_eq!((own.algorithm, own.protocol.name()), (Algorithm::TwoShots, ""));
        // 8 us and 1.75 * 8 MiB at 300 GB/s.
        assert!((own.seconds() - 56.934e-6).abs() < 1e-9);
        assert_eq!(own.launch_s, 8e-6);
        let small = call(Operation::AllReduce, 4, 1, 1024).expect("small");
        assert_eq!(small.algorithm, Algorithm::OneShot);
        for (operation, gpus, nodes, bytes) in [
            (Operation::AllReduce, 8, 1, (8 << 20) + 1),
            (Operation::AllReduce, 9, 1, 1024),
            (Operation::AllReduce, 1, 1, 1024),
            (Operation::AllReduce, 8, 2, 1024),
            (Operation::AllGather, 8, 1, 1024),
        ] {
            assert_eq!(call(operation, gpus, nodes, bytes), None);
        }
    }

    #[test]
    fn times_give_their_constants() {
        let mut measured = Vec::new();
        for gpus in [2, 4, 8] {
            for exponent in 10..24 {
                measured.push((gpus, 1 << exponent, MADE.seconds(gpus, 1 << exponent).0));
            }
        }
        let (found, _) = calibrate_shots(&measured).expect("measurements");
        for (made, found) in [
            (MADE.one_launch_s, found.one_launch_s),
            (MADE.one_rate, found.one_rate),
            (MADE.two_launch_s, found.two_launch_s),
            (MADE.two_rate, found.two_rate),
        ] {
            assert!((found / made - 1.0).abs() < 0.01, "{found:e} instead of {made:e}");
        }
        assert!(calibrate_shots(&[]).is_none());
    }
}
