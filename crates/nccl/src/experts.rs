//! Dispatch and combine of mixtures of experts by `DeepEP`: tokens to the GPUs of their experts, and back.
//!
//! The time is `launch + tokens token + max(bytes / (sms sm_rate), bytes / link_rate)`: kernels use a given number of
//! streaming multiprocessors, each of which copies at a rate, and links have one. `bytes` are what a GPU sends.

/// Which kernels of `DeepEP`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernels {
    /// For training: a token is sent once to each GPU that has one of its experts.
    Normal,
    /// For decoding: a token is sent once to each of its experts.
    LowLatency,
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
        let (experts, gpus) = (f64::from(self.experts), f64::from(self.gpus.max(1)));
        match kernels {
            Kernels::Normal => gpus * (1.0 - (1.0 - 1.0 / gpus).powf(experts)),
            Kernels::LowLatency => experts,
        }
    }

    /// Bytes that a GPU sends.
    #[must_use]
    pub fn bytes(&self, kernels: Kernels) -> f64 {
        f64::from(self.tokens) * f64::from(self.token_bytes) * self.copies(kernels)
    }
}

/// Constants of dispatches, or of combines, on a machine with a number of nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
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
        let bytes = tokens.bytes(kernels);
        let copy = if tokens.sms == 0 { 0.0 } else { bytes / (f64::from(tokens.sms) * self.sm_rate) };
        self.launch_s + f64::from(tokens.tokens) * self.token_s + copy.max(bytes / self.link_rate)
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
