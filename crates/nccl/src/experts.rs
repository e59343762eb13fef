//! Dispatch and combine of mixtures of experts by `DeepEP`: tokens to the GPUs of their experts, and back.
//!
//! The time is `launch + tokens token + max(bytes / (sms sm_rate), bytes / link_rate)`: kernels use a given number of
//! streaming multiprocessors, each of which copies at a rate, and links have one. `bytes` are what a GPU sends.

use crate::call::{Algorithm, Call, Protocol};
use crate::estimate::{Estimate, Parts};
use serde::{Deserialize, Serialize};

/// Which kernels of `DeepEP`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kernels {
    /// For training: a token is sent once to each GPU that has one of its experts.
    Normal,
    /// For decoding: a token is sent once to each of its experts.
    LowLatency,
}

impl Kernels {
    /// Copies of a token with `experts` experts that are sent to `places`, among which all experts are distributed evenly:
    /// see [`Tokens::copies`].
    fn copies(self, experts: u32, places: u32) -> f64 {
        let (experts, places) = (f64::from(experts), f64::from(places.max(1)));
        match self {
            Self::Normal => places * (1.0 - (1.0 - 1.0 / places).powf(experts)),
            Self::LowLatency => experts,
        }
    }
}

/// The direction of an exchange of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// To the experts.
    Dispatch,
    /// Back, with a sum over the experts of a token.
    Combine,
}

impl Phase {
    const fn algorithm(self) -> Algorithm {
        match self {
            Self::Dispatch => Algorithm::Dispatch,
            Self::Combine => Algorithm::Combine,
        }
    }
}

/// The tokens of one GPU, and where they go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tokens {
    /// Tokens of the GPU.
    pub tokens: u32,
    /// Bytes of a token: of its hidden state in the type in which it is sent.
    pub token_bytes: u32,
    /// Experts of each token.
    pub experts: u32,
    /// GPUs among which all experts are distributed evenly.
    pub gpus: u32,
    /// Streaming multiprocessors that communicate; 0 for the low-latency kernels, which use all.
    pub sms: u32,
}

impl Tokens {
    /// Copies of a token that a GPU sends: for normal kernels, the expected number of different GPUs if each of the token's
    /// experts is on any GPU with the same probability.
    #[must_use]
    pub fn copies(&self, kernels: Kernels) -> f64 {
        kernels.copies(self.experts, self.gpus)
    }

    /// Bytes that a GPU sends.
    #[must_use]
    pub fn bytes(&self, kernels: Kernels) -> f64 {
        f64::from(self.tokens) * f64::from(self.token_bytes) * self.copies(kernels)
    }
}

/// Constants of dispatches, or of combines, on a machine with a number of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// Time of an exchange of no token, seconds.
    pub launch_s: f64,
    /// Time of a token apart from its bytes, seconds.
    pub token_s: f64,
    /// Rate of a streaming multiprocessor, bytes per second.
    pub sm_rate: f64,
    /// Rate of the links of a GPU, bytes per second.
    pub link_rate: f64,
}

impl Exchange {
    /// The time of an exchange, seconds.
    #[must_use]
    pub fn seconds(&self, kernels: Kernels, tokens: &Tokens) -> f64 {
        self.launch_s
            + f64::from(tokens.tokens) * self.token_s
            + self.transfer_s(tokens.bytes(kernels), tokens.sms)
    }

    /// The time in which a GPU sends `bytes` by `sms` multiprocessors; 0 if these are all, seconds.
    #[must_use]
    pub fn transfer_s(&self, bytes: f64, sms: u32) -> f64 {
        let copy = if sms == 0 { 0.0 } else { bytes / (f64::from(sms) * self.sm_rate) };
        copy.max(bytes / self.link_rate)
    }
}

/// What the tokens of a job have in common: the bytes of each follow from those of an all-to-all, which has a copy for each
/// expert of each token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Routing {
    /// Which kernels.
    pub kernels: Kernels,
    /// Tokens of a GPU in an exchange.
    pub tokens: u32,
    /// Experts of each token.
    pub experts: u32,
    /// Streaming multiprocessors that communicate; low-latency kernels use all.
    pub sms: u32,
}

impl Routing {
    /// The time of an exchange in place of the all-to-all `call`.
    #[must_use]
    pub fn estimate(&self, constants: &Exchange, phase: Phase, call: &Call) -> Estimate {
        let group = call.group;
        let sms = if self.kernels == Kernels::LowLatency { 0 } else { self.sms };
        let copies = |places: u32| self.kernels.copies(self.experts, places) / f64::from(self.experts);
        let bytes = call.bytes as f64 * copies(group.gpus_per_node * group.nodes);
        let transfer_s = constants.transfer_s(bytes, sms);
        let others = f64::from(group.nodes - 1) / f64::from(group.nodes);
        let far_bytes = call.bytes as f64 * copies(group.nodes) * others * f64::from(group.gpus_per_node);
        let far = group.nodes > 1;
        Estimate {
            algorithm: phase.algorithm(),
            protocol: Protocol::Other,
            launch_s: constants.launch_s,
            latency_s: f64::from(self.tokens) * constants.token_s,
            transfer_s,
            parts: Parts {
                far_latency_s: 0.0,
                near_transfer_s: transfer_s,
                far_transfer_s: if far { transfer_s } else { 0.0 },
                far_bytes,
            },
            all_channels: true,
        }
    }

    /// Bytes on links within a node for each byte of an all-to-all there. Normal kernels send a token over the network once
    /// to each node, and from there once to each of its GPUs; low-latency kernels send it to each expert directly.
    #[must_use]
    pub fn near_factor(&self, group: crate::Group) -> f64 {
        match self.kernels {
            Kernels::Normal => {
                self.kernels.copies(self.experts, group.gpus_per_node * group.nodes) / f64::from(self.experts)
            }
            Kernels::LowLatency => 1.0 / f64::from(group.nodes),
        }
    }
}

/// Finds the constants from measured times, seconds. Returns them and the mean loss; nothing without measurements.
#[must_use]
pub fn calibrate_exchange(kernels: Kernels, measured: &[(Tokens, f64)]) -> Option<(Exchange, f64)> {
    let shortest = measured.iter().map(|each| each.1).reduce(f64::min)?;
    let exchange = |point: &[f64; 4]| {
        let x = point.map(f64::exp);
        Exchange { launch_s: x[0], token_s: x[1], sm_rate: x[2], link_rate: x[3] }
    };
    let residuals = |point: &[f64; 4], into: &mut Vec<f64>| {
        let exchange = exchange(point);
        into.extend(measured.iter().map(|(tokens, s)| (exchange.seconds(kernels, tokens) / s).ln()));
    };
    let starts = [100e9, 400e9].map(|link| [shortest, 20e-9, 15e9, link].map(f64::ln));
    let found = starts.map(|start| crate::descent::descend(&start, 200, residuals));
    let best = if found[1].1 < found[0].1 { found[1] } else { found[0] };
    Some((exchange(&best.0), best.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: Tokens = Tokens { tokens: 1000, token_bytes: 7168, experts: 8, gpus: 8, sms: 20 };

    #[test]
    fn copies_go_to_different_gpus_or_to_all_experts() {
        // 8 (1 - (7/8)^8) = 8 * 0.656391...
        assert!((TOKENS.copies(Kernels::Normal) - 5.251_129).abs() < 1e-6);
        assert!((TOKENS.copies(Kernels::LowLatency) - 8.0).abs() < 1e-12);
        let one = Tokens { experts: 1, ..TOKENS };
        assert!((one.copies(Kernels::Normal) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_slower_of_multiprocessors_and_links_counts() {
        let exchange = Exchange { launch_s: 30e-6, token_s: 20e-9, sm_rate: 10e9, link_rate: 400e9 };
        // 8 copies of 7.168 MB: 57.344 MB at 20 * 10 GB/s: 286.72 us; at 400 GB/s: 143.36 us.
        let found = exchange.seconds(Kernels::LowLatency, &TOKENS);
        assert!((found - 336.72e-6).abs() < 1e-12);
        let all = Tokens { sms: 0, ..TOKENS };
        assert!((exchange.seconds(Kernels::LowLatency, &all) - 193.36e-6).abs() < 1e-12);
    }

    #[test]
    fn an_exchange_takes_the_place_of_an_all_to_all() {
        let exchange = Exchange { launch_s: 30e-6, token_s: 20e-9, sm_rate: 10e9, link_rate: 400e9 };
        let group = crate::Group { gpus_per_node: 8, nodes: 2, concurrent: 1 };
        // 1,000 tokens with two experts, 7,168 bytes for each: 14.336 MB.
        let call = Call { operation: crate::Operation::AllToAll, bytes: 14_336_000, element_bytes: 1, group };
        let routing = Routing { kernels: Kernels::Normal, tokens: 1000, experts: 2, sms: 20 };
        let found = routing.estimate(&exchange, Phase::Dispatch, &call);
        // To 16 (1 - (15/16)^2) = 31/16 of 16 GPUs: 13.888 MB at 200 GB/s: 69.44 us.
        assert!((found.seconds() - (30e-6 + 20e-6 + 69.44e-6)).abs() < 1e-12);
        assert_eq!((found.algorithm.name(), found.protocol), ("deepep_dispatch", Protocol::Other));
        // To 2 (1 - 1/4) = 1.5 of two nodes, half of which is the own one, from 8 GPUs: 43.008 MB.
        assert!((found.parts.far_bytes - 43_008_000.0).abs() < 1e-6);
        assert!((routing.near_factor(group) - 31.0 / 32.0).abs() < 1e-12);
        // To both experts, at 400 GB/s: 35.84 us. Half goes to the other node.
        let low = Routing { kernels: Kernels::LowLatency, ..routing };
        let found = low.estimate(&exchange, Phase::Combine, &call);
        assert!((found.seconds() - (30e-6 + 20e-6 + 35.84e-6)).abs() < 1e-12);
        assert_eq!(found.algorithm, Algorithm::Combine);
        assert!((found.parts.far_bytes - 57_344_000.0).abs() < 1e-6);
        assert!((low.near_factor(group) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn times_give_their_constants() {
        let made = Exchange { launch_s: 35e-6, token_s: 25e-9, sm_rate: 17e9, link_rate: 250e9 };
        let mut measured = Vec::new();
        for tokens in [1, 16, 128, 1024, 8192, 65536] {
            for sms in [4, 8, 12, 16, 20, 24] {
                for token_bytes in [2048, 7168] {
                    let tokens = Tokens { tokens, token_bytes, sms, ..TOKENS };
                    measured.push((tokens, made.seconds(Kernels::Normal, &tokens)));
                }
            }
        }
        let (found, _) = calibrate_exchange(Kernels::Normal, &measured).expect("measurements");
        for (made, found) in [
            (made.launch_s, found.launch_s),
            (made.token_s, found.token_s),
            (made.sm_rate, found.sm_rate),
            (made.link_rate, found.link_rate),
        ] {
            assert!((found / made - 1.0).abs() < 0.01, "{found:e} instead of {made:e}");
        }
        assert!(calibrate_exchange(Kernels::Normal, &[]).is_none());
    }
}
