//! Fused attention (FlashAttention): tiles of queries in turn on the multiprocessors, each of which passes over blocks of
//! keys and values.
//!
//! A tile of queries takes a time to start and a time for each block of keys that it may see: its two matrix products at
//! the rate of the matrix units, and the exponentials of its scores at the rate of the units that compute those (Dao,
//! "FlashAttention-2", 2023, section 3; Shah et al., "FlashAttention-3", 2024, section 3.2). With a causal mask, a tile
//! sees only the keys before its own end. Tiles have unequal work, so that all multiprocessors are busy only until the
//! last tiles: the longest tile adds to the mean load. The time is the 4-norm of this and of the memory's traffic.
//!
//! A tile and a head size have rates relative to `flop_per_s`. Each of these numbers alone means little, and may exceed 1; their
//! product is a rate of the matrix units, and no file may make it higher than their peak. No time is shorter than the
//! operations take at the peak, either.
//!
//! The backward pass is either fitted to measured kernels, too, or follows from the forward pass by the ratio of their
//! operations and of the rates that were published for both. Kernels of other [libraries](Library) than the measured one
//! follow by the ratios of their rates, pass by pass.

use crate::estimate::{Bound, Estimate};
use crate::lattice::{Lattice, LatticeFile};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most shapes of tiles, and most head sizes, in a file.
pub const MAX_VARIANTS: usize = 16;
/// Files round constants to five digits.
pub(crate) const ROUNDED: f64 = 1.0001;
/// Matrix products of the backward pass over those of the forward pass: five and two (Dao, "FlashAttention-2", 2023, 3.1).
const BACKWARD_PRODUCTS: f64 = 2.5;

/// Whose kernels compute attention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Library {
    /// The library whose kernels were measured.
    #[default]
    Measured,
    /// `FlashAttention` as it is written in Triton, of before `FlashAttention`-2 (MPT's `attn_impl: triton`).
    Triton,
    /// `FlashAttention`-2, which `PyTorch`'s `scaled_dot_product_attention` has, too.
    #[serde(rename = "flash-attention-2")]
    FlashAttention2,
    /// cuDNN, which Transformer Engine takes on Hopper and later.
    Cudnn,
    /// cuDNN in 8 bits with a scale for each block of 32 elements (MXFP8).
    CudnnMxfp8,
}

/// Rates of a library's kernels, over that of the measured forward pass.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rates {
    /// Head sizes in increasing order, each with the FLOP per second of its forward pass, and of its backward pass, which
    /// counts five matrix products.
    heads: Vec<(u64, f64, f64)>,
    /// The same with a window, for sizes whose rates differ then.
    #[serde(default)]
    windowed: Vec<(u64, f64, f64)>,
    /// Pairs of a query and a key that the backward pass computes although the mask leaves them out.
    #[serde(default)]
    masked: Masked,
    /// Where they come from.
    #[serde(rename = "source")]
    _source: String,
}

/// Pairs that a mask leaves out, and a kernel computes all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Masked {
    /// None: it skips them.
    #[default]
    None,
    /// Those beyond the window.
    Window,
    /// All: those beyond the window, and those of later keys.
    All,
}

impl Masked {
    /// The shape whose pairs a kernel computes.
    const fn computed(self, shape: AttentionShape) -> AttentionShape {
        match self {
            Self::None => shape,
            Self::Window => AttentionShape { window: 0, ..shape },
            Self::All => AttentionShape { window: 0, causal: false, ..shape },
        }
    }
}

impl Rates {
    fn new(file: Self) -> Result<Self, String> {
        let above =
            |&(size, forward, backward): &(u64, f64, f64)| size > 0 && forward > 0.0 && backward > 0.0;
        let mut all = file.heads.iter().chain(&file.windowed);
        let fits = |heads: &[(u64, f64, f64)]| heads.len() <= MAX_VARIANTS;
        if file.heads.is_empty() || !fits(&file.heads) || !fits(&file.windowed) || !all.all(above) {
            return Err(format!(
                "a library has 1 to {MAX_VARIANTS} heads, whose sizes and rates are above zero"
            ));
        }
        let rising = |heads: &[(u64, f64, f64)]| heads.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if !rising(&file.heads) || !rising(&file.windowed) {
            return Err("heads of a library increase".to_owned());
        }
        Ok(file)
    }

    /// Rate of a pass: that of the nearest head size, or of this one with a window, where it has one.
    fn of(&self, shape: AttentionShape) -> f64 {
        let window = shape.causal && 0 < shape.window && shape.window < shape.sequence;
        let windowed = self.windowed.iter().find(|each| window && each.0 == shape.head_dim);
        let nearest = || self.heads.iter().min_by_key(|each| each.0.abs_diff(shape.head_dim));
        windowed.or_else(nearest).map_or(1.0, |&(_, forward, backward)| match shape.pass {
            Pass::Forward => forward,
            Pass::Backward => backward,
        })
    }
}

/// Direction of training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The outputs.
    Forward,
    /// The gradients of queries, keys and values; scores are computed again.
    Backward,
}

/// Attention of `heads` queries to `kv_heads` keys and values over sequences of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionShape {
    /// Sequences.
    pub batch: u64,
    /// Tokens of a sequence.
    pub sequence: u64,
    /// Query heads.
    pub heads: u64,
    /// Heads of keys and values; divides `heads`.
    pub kv_heads: u64,
    /// Elements of a head.
    pub head_dim: u64,
    /// Each token attends only to itself and earlier ones.
    pub causal: bool,
    /// Number of tokens to which each attends at most; 0 for no limit.
    pub window: u64,
    /// Direction.
    pub pass: Pass,
    /// Counts the rotary embedding and the copy of keys and values into a cache, where these were measured, too.
    pub prepare: bool,
}

/// Constants of the machine for one data type, fitted to measured kernels.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttentionConstants {
    /// FLOP per second of all matrix units, times the rate of a tile and of a head size.
    pub flop_per_s: f64,
    /// Scores per second whose exponentials all multiprocessors compute.
    pub scores_per_s: f64,
    /// Bytes per second of the memory.
    pub memory_bytes_per_s: f64,
    /// Bytes at which half of what is prepared no longer fits into the cache. As far as it fits, moving it takes 0.3 of the
    /// time.
    pub cache_bytes: f64,
    /// Time of the kernel without work.
    pub launch_s: f64,
    /// Time to start a tile.
    pub tile_s: f64,
    /// Time for each block of keys, beside its operations.
    pub block_s: f64,
    /// Part of the longest tile's time that adds to the mean load, from 0 to 1.
    pub tail: f64,
    /// Part by which kernels much longer than `throttle_s` are slower, because the clock falls.
    pub throttle: f64,
    /// Time after which the clock has fallen halfway.
    pub throttle_s: f64,
    /// How often queries, keys and values are read and written before the kernel; 0 if that was not measured.
    pub prepare: f64,
    /// Time of what comes before the kernel, beside that traffic; 0 if that was not measured.
    pub prepare_s: f64,
}

/// A fitted pass as a file holds it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FittedFile {
    /// Queries and keys of each tile, and its rate relative to `flop_per_s`.
    tiles: Vec<(f64, f64, f64)>,
    /// Head sizes and their rate relative to that, in increasing order.
    heads: Vec<(u64, f64)>,
    constants: AttentionConstants,
    range: Ranges,
    #[serde(default)]
    corrections: Vec<CorrectionFile>,
    /// Errors on kernels that were left out, for people.
    #[serde(default, rename = "held_out")]
    _held_out: serde_json::Value,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CorrectionFile {
    head_dim: u64,
    window: u64,
    lattice: LatticeFile,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ranges {
    batch_heads: (f64, f64),
    sequence: (f64, f64),
    /// Whether masks other than the causal one were measured.
    #[serde(default)]
    full: bool,
}

/// The backward pass by rule.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    /// Operations over those of the forward pass.
    flop_ratio: f64,
    /// FLOP per second over that of the forward pass.
    rate_ratio: f64,
    /// Where the ratios come from.
    #[serde(rename = "source")]
    _source: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum BackwardFile {
    Rule(Rule),
    Fitted(Box<FittedFile>),
}

/// The model of one data type as a file holds it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttentionFile {
    element_bytes: f64,
    forward: FittedFile,
    backward: BackwardFile,
    /// Rates of other libraries.
    #[serde(default)]
    libraries: BTreeMap<Library, Rates>,
}

#[derive(Clone, Debug, PartialEq)]
struct Fitted {
    tiles: Vec<(f64, f64, f64)>,
    heads: Vec<(u64, f64)>,
    constants: AttentionConstants,
    range: Ranges,
    corrections: Vec<((u64, u64), Lattice)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Backward {
    Rule(Rule),
    Fitted(Fitted),
}

/// Times of attention in one data type.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    multiprocessors: f64,
    element_bytes: f64,
    /// Most FLOP per second of the matrix units; infinite if it is unknown.
    peak_flop_per_s: f64,
    forward: Fitted,
    backward: Backward,
    libraries: BTreeMap<Library, Rates>,
}

/// Times of the parts of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parts {
    /// Time of the tiles.
    pub compute: f64,
    /// Time of the memory's traffic.
    pub memory: f64,
    /// Time of the kernel without work.
    pub launch: f64,
    /// Time of what comes before the kernel.
    pub prepare: f64,
}

impl Parts {
    /// All parts together.
    pub fn seconds(&self) -> f64 {
        let square = |each: f64| each * each;
        let busy = (square(square(self.compute)) + square(square(self.memory))).sqrt().sqrt();
        self.launch + busy + self.prepare
    }
}

impl AttentionShape {
    /// Pairs of a query and a key of one sequence and head that the mask leaves.
    pub fn pairs(self) -> f64 {
        let (sequence, window) = (self.sequence as f64, self.window as f64);
        if !self.causal {
            sequence * sequence
        } else if self.window == 0 || window >= sequence {
            sequence * (sequence + 1.0) / 2.0
        } else {
            window * sequence - window * (window - 1.0) / 2.0
        }
    }

    /// Operations of the products that the mask leaves: two products forward, five backward (Dao 2023, section 3.1).
    pub fn flop(self) -> f64 {
        let products = if self.pass == Pass::Forward { 2.0 } else { 5.0 };
        2.0 * products * (self.batch * self.heads) as f64 * self.pairs() * self.head_dim as f64
    }
}

impl Fitted {
    fn new(file: FittedFile, peak_flop_per_s: f64) -> Result<Self, String> {
        let c = file.constants;
        let above =
            [c.flop_per_s, c.scores_per_s, c.memory_bytes_per_s, c.cache_bytes, c.launch_s, c.throttle_s];
        if above.iter().any(|&each| !(each > 0.0 && each.is_finite())) {
            return Err("rates, `cache_bytes`, `launch_s` and `throttle_s` are above zero".to_owned());
        }
        if [c.tile_s, c.block_s, c.tail, c.throttle, c.prepare, c.prepare_s]
            .iter()
            .any(|&each| !(each >= 0.0 && each.is_finite()))
        {
            return Err("constants are at least zero".to_owned());
        }
        let tiles = 1..=MAX_VARIANTS;
        if !tiles.contains(&file.tiles.len()) || !tiles.contains(&file.heads.len()) {
            return Err(format!("`tiles` and `heads` have 1 to {MAX_VARIANTS} entries"));
        }
        let sizes = |&(queries, keys, efficiency): &(f64, f64, f64)| {
            queries >= 1.0 && keys >= 1.0 && efficiency > 0.0
        };
        let rising = file.heads.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if !file.tiles.iter().all(sizes)
            || !rising
            || file.heads.iter().any(|&(size, part)| size == 0 || part <= 0.0)
        {
            return Err("tiles and heads have sizes and efficiencies above zero; heads increase".to_owned());
        }
        let tile = file.tiles.iter().map(|each| each.2).fold(0.0, f64::max);
        let head = file.heads.iter().map(|each| each.1).fold(0.0, f64::max);
        let rate = c.flop_per_s * tile * head;
        if rate > peak_flop_per_s * ROUNDED {
            return Err(format!("tiles and heads reach {rate:.4e} FLOP/s, more than the peak"));
        }
        let corrections = file
            .corrections
            .into_iter()
            .map(|each| Ok(((each.head_dim, each.window), Lattice::new(each.lattice)?)));
        Ok(Self {
            tiles: file.tiles,
            heads: file.heads,
            constants: c,
            range: file.range,
            corrections: corrections.collect::<Result<_, String>>()?,
        })
    }

    /// Efficiency of a head size: that of the nearest one that was fitted.
    fn efficiency(&self, head_dim: u64) -> f64 {
        let nearest = self.heads.iter().min_by_key(|(size, _)| size.abs_diff(head_dim));
        nearest.map_or(1.0, |&(_, efficiency)| efficiency)
    }

    fn parts(&self, shape: AttentionShape, multiprocessors: f64, element_bytes: f64) -> Parts {
        let c = &self.constants;
        let [batch, sequence, heads, kv_heads, head_dim] =
            [shape.batch, shape.sequence, shape.heads, shape.kv_heads, shape.head_dim]
                .map(|size| size as f64);
        let efficiency = self.efficiency(shape.head_dim);
        let mut compute = f64::INFINITY;
        for &(queries, keys, of_tile) in &self.tiles {
            let products =
                4.0 * queries * keys * head_dim * multiprocessors / (c.flop_per_s * efficiency * of_tile);
            let block = products + queries * keys * multiprocessors / c.scores_per_s + c.block_s;
            let per_head = (sequence / queries).ceil();
            let (blocks, longest) = blocks(shape, per_head, queries, keys);
            let tiles = per_head * batch * heads;
            let time = if tiles <= multiprocessors {
                longest * block + c.tile_s
            } else {
                let load = blocks * batch * heads / multiprocessors * block;
                load + (tiles / multiprocessors).ceil() * c.tile_s + c.tail.min(1.0) * longest * block
            };
            compute = compute.min(time);
        }
        compute *= 1.0 + c.throttle * compute / (compute + c.throttle_s);
        let queries = batch * heads * sequence * head_dim * element_bytes;
        let keys = batch * kv_heads * sequence * head_dim * element_bytes;
        let memory = (2.0 * queries + 2.0 * keys) / c.memory_bytes_per_s;
        let moved = queries + 2.0 * keys;
        let fill = moved / c.cache_bytes;
        let again = 0.3 + 0.7 * fill * fill / (1.0 + fill * fill);
        let prepare = c.prepare_s + c.prepare * 2.0 * moved / c.memory_bytes_per_s * again;
        Parts { compute, memory, launch: c.launch_s, prepare: if shape.prepare { prepare } else { 0.0 } }
    }

    fn time(&self, shape: AttentionShape, multiprocessors: f64, element_bytes: f64) -> Estimate {
        let parts = self.parts(shape, multiprocessors, element_bytes);
        let batch_heads = (shape.batch * shape.heads) as f64;
        let sequence = shape.sequence as f64;
        let corrected = self.corrections.iter().find(|(key, _)| *key == (shape.head_dim, shape.window));
        let correction = corrected.map_or(0.0, |(_, lattice)| {
            lattice.at([batch_heads, sequence, (shape.heads / shape.kv_heads.max(1)).max(1) as f64])
        });
        let within = |size: f64, (low, high): (f64, f64)| (low..=high).contains(&size);
        let covers = within(batch_heads, self.range.batch_heads)
            && within(sequence, self.range.sequence)
            && self.heads.iter().any(|&(size, _)| size == shape.head_dim)
            && (shape.causal || self.range.full);
        Estimate {
            seconds: parts.seconds() * libm::exp(correction),
            bound: Bound::of(parts.compute, parts.memory, parts.launch + parts.prepare),
            extrapolates: !covers,
        }
    }
}

/// Blocks of keys that all tiles of one head pass over, and that the longest of them passes over.
fn blocks(shape: AttentionShape, tiles: f64, queries: f64, keys: f64) -> (f64, f64) {
    let all = (shape.sequence as f64 / keys).ceil();
    if !shape.causal {
        return (tiles * all, all);
    }
    // Tile j from 1 sees ceil(j / r) blocks, where r tiles are as long as a block, up to the window's length.
    let r = (keys / queries).max(1.0);
    let per_tile = (queries / keys).max(1.0);
    let triangle = |tiles: f64| {
        let full = (tiles / r).floor();
        (r * full * (full + 1.0) / 2.0 + (tiles - r * full) * (full + 1.0)) * per_tile
    };
    let longest = ((tiles / r).ceil() * per_tile).min(all);
    if shape.window == 0 {
        return (triangle(tiles), longest);
    }
    let limit = ((shape.window as f64 - 1.0 + queries) / keys).ceil();
    if longest <= limit {
        return (triangle(tiles), longest);
    }
    let growing = (limit / per_tile).floor() * r;
    (triangle(growing) + (tiles - growing) * limit, limit)
}

impl Attention {
    /// Checks a model that was read from a file. Without a peak, nothing bounds its times.
    ///
    /// # Errors
    /// Numbers that no device has, such as rates above the peak.
    pub fn new(
        file: AttentionFile,
        multiprocessors: f64,
        peak_flop_per_s: Option<f64>,
    ) -> Result<Self, String> {
        let peak_flop_per_s = peak_flop_per_s.unwrap_or(f64::INFINITY);
        if !(file.element_bytes > 0.0 && file.element_bytes.is_finite()) {
            return Err("`element_bytes` is above zero".to_owned());
        }
        let backward = match file.backward {
            BackwardFile::Rule(rule) => {
                if !(rule.flop_ratio > 0.0 && rule.rate_ratio > 0.0) {
                    return Err("ratios of a rule are above zero".to_owned());
                }
                Backward::Rule(rule)
            }
            BackwardFile::Fitted(fitted) => Backward::Fitted(Fitted::new(*fitted, peak_flop_per_s)?),
        };
        let libraries = file.libraries.into_iter().map(|(library, rates)| Ok((library, Rates::new(rates)?)));
        let libraries = libraries.collect::<Result<_, String>>()?;
        let forward = Fitted::new(file.forward, peak_flop_per_s)?;
        let element_bytes = file.element_bytes;
        Ok(Self { multiprocessors, element_bytes, peak_flop_per_s, forward, backward, libraries })
    }

    /// The model of a device that differs only in the rate of its memory, which is `ratio` times as high.
    #[must_use]
    pub fn with_memory(mut self, ratio: f64) -> Self {
        self.forward.constants.memory_bytes_per_s *= ratio;
        if let Backward::Fitted(fitted) = &mut self.backward {
            fitted.constants.memory_bytes_per_s *= ratio;
        }
        self
    }

    /// The time of so many operations at the peak of the matrix units, in seconds: no kernel is faster. 0 if the peak is
    /// unknown.
    pub fn least_seconds(&self, flop: f64) -> f64 {
        flop / self.peak_flop_per_s
    }

    /// Time of attention, at least that of its operations at the peak.
    pub fn time(&self, shape: AttentionShape) -> Estimate {
        self.bounded(shape, self.fitted(shape))
    }

    fn bounded(&self, shape: AttentionShape, found: Estimate) -> Estimate {
        let least = self.least_seconds(shape.flop());
        if found.seconds < least {
            return Estimate { seconds: least, bound: Bound::Compute, extrapolates: true };
        }
        found
    }

    fn fitted(&self, shape: AttentionShape) -> Estimate {
        match (shape.pass, &self.backward) {
            (Pass::Forward, _) => self.forward.time(shape, self.multiprocessors, self.element_bytes),
            (Pass::Backward, Backward::Fitted(fitted)) => {
                fitted.time(shape, self.multiprocessors, self.element_bytes)
            }
            (Pass::Backward, Backward::Rule(rule)) => {
                self.after_forward(shape, rule.flop_ratio / rule.rate_ratio)
            }
        }
    }

    /// Time of attention by the kernels of a library. One of which the file has no rates is as fast as the measured one.
    pub fn time_by(&self, library: Library, shape: AttentionShape) -> Estimate {
        let Some(rates) = self.libraries.get(&library) else { return self.time(shape) };
        let rate = rates.of(shape);
        let found = match shape.pass {
            Pass::Forward => self.after_forward(shape, 1.0 / rate),
            Pass::Backward => self.after_forward(rates.masked.computed(shape), BACKWARD_PRODUCTS / rate),
        };
        self.bounded(shape, found)
    }

    /// A kernel that takes `ratio` times as long as the measured forward pass.
    fn after_forward(&self, shape: AttentionShape, ratio: f64) -> Estimate {
        let shape = AttentionShape { prepare: false, ..shape };
        let forward = self.forward.time(shape, self.multiprocessors, self.element_bytes);
        // The launch does not grow with the operations.
        let launch = self.forward.constants.launch_s.min(forward.seconds);
        Estimate { seconds: launch + (forward.seconds - launch) * ratio, extrapolates: true, ..forward }
    }

    /// Time without corrections; for the backward pass, `None` if it follows by rule.
    pub fn physical(&self, shape: AttentionShape) -> Option<f64> {
        let fitted = match (shape.pass, &self.backward) {
            (Pass::Forward, _) => &self.forward,
            (Pass::Backward, Backward::Fitted(fitted)) => fitted,
            (Pass::Backward, Backward::Rule(_)) => return None,
        };
        Some(fitted.parts(shape, self.multiprocessors, self.element_bytes).seconds())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 multiprocessors of 1 TFLOP/s each, with tiles of 100 queries and 100 keys; exponentials and memory cost nothing.
    fn device(change: impl FnOnce(&mut serde_json::Value)) -> Attention {
        let mut file = serde_json::json!({
            "element_bytes": 2,
            "forward": {
                "tiles": [[100, 100, 1]], "heads": [[50, 0.5], [100, 1]],
                "constants": {
                    "flop_per_s": 1e14, "scores_per_s": 1e30, "memory_bytes_per_s": 1e18, "cache_bytes": 1e6,
                    "launch_s": 1e-12, "tile_s": 0, "block_s": 0, "tail": 0, "throttle": 0, "throttle_s": 1,
                    "prepare": 0, "prepare_s": 0
                },
                "range": { "batch_heads": [1, 1000], "sequence": [100, 10000] }
            },
            "backward": { "rule": { "flop_ratio": 2.5, "rate_ratio": 0.5, "source": "" } }
        });
        change(&mut file);
        Attention::new(serde_json::from_value(file).unwrap(), 100.0, None).unwrap()
    }

    const SHAPE: AttentionShape = AttentionShape {
        batch: 10,
        sequence: 1000,
        heads: 10,
        kv_heads: 10,
        head_dim: 100,
        causal: false,
        window: 0,
        pass: Pass::Forward,
        prepare: true,
    };

    #[track_caller]
    fn close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-4, "{found:e} is not {expected:e}");
    }

    #[test]
    fn two_products_run_at_the_peak_rate() {
        // 4 * 1000 * 1000 * 100 FLOP for each of 100 heads, at 1e14 FLOP/s.
        close(device(|_| ()).time(SHAPE).seconds, 400e-6);
        assert_eq!(device(|_| ()).time(SHAPE).bound, Bound::Compute);
    }

    #[test]
    fn a_causal_mask_leaves_the_blocks_up_to_the_diagonal() {
        // 10 tiles see 1 to 10 blocks: 55 of 100.
        close(device(|_| ()).time(AttentionShape { causal: true, ..SHAPE }).seconds, 220e-6);
    }

    #[test]
    fn a_window_leaves_the_blocks_that_it_touches() {
        // At most ceil(199 / 100) = 2 blocks for each tile, 1 for the first: 19 of 100.
        close(device(|_| ()).time(AttentionShape { causal: true, window: 100, ..SHAPE }).seconds, 76e-6);
    }

    #[test]
    fn blocks_are_counted_like_one_by_one() {
        for (queries, keys) in [(64.0, 64.0), (64.0, 128.0), (128.0, 128.0), (128.0, 64.0)] {
            for sequence in [1u64, 64, 100, 128, 512, 1000, 4096] {
                for window in [0u64, 64, 128, 1024] {
                    let shape = AttentionShape { sequence, window, causal: true, ..SHAPE };
                    let tiles = (sequence as f64 / queries).ceil();
                    let limit = if window == 0 {
                        f64::INFINITY
                    } else {
                        ((window as f64 - 1.0 + queries) / keys).ceil()
                    };
                    let each =
                        (1..=tiles as u64).map(|tile| ((tile as f64 * queries) / keys).ceil().min(limit));
                    let (sum, _) = blocks(shape, tiles, queries, keys);
                    assert_eq!(sum, each.sum::<f64>(), "{queries} {keys} {sequence} {window}");
                }
            }
        }
    }

    #[test]
    fn the_longest_tile_takes_its_time_where_tiles_are_few() {
        // One head: 10 tiles, the longest with 10 blocks of 4 * 100^3 FLOP at 1e12 FLOP/s.
        let shape = AttentionShape { batch: 1, heads: 1, kv_heads: 1, causal: true, ..SHAPE };
        close(device(|_| ()).time(shape).seconds, 40e-6);
        // Many heads: its time adds to the mean load as far as `tail` says.
        let tail = device(|file| file["forward"]["constants"]["tail"] = 0.5.into());
        close(tail.time(AttentionShape { causal: true, ..SHAPE }).seconds, 240e-6);
    }

    #[test]
    fn head_sizes_have_their_efficiency() {
        close(device(|_| ()).time(AttentionShape { head_dim: 50, ..SHAPE }).seconds, 400e-6);
    }

    #[test]
    fn exponentials_add_to_the_products() {
        let model = device(|file| file["forward"]["constants"]["scores_per_s"] = 1e12.into());
        // 1e8 scores at 1e12 a second.
        close(model.time(SHAPE).seconds, 500e-6);
    }

    #[test]
    fn short_sequences_are_bound_by_memory() {
        let model = device(|file| file["forward"]["constants"]["memory_bytes_per_s"] = 1e9.into());
        let estimate = model.time(SHAPE);
        // Queries, keys, values and output: 4 * 10 * 10 * 1000 * 100 elements of 2 bytes.
        close(estimate.seconds, 80e-3);
        assert_eq!(estimate.bound, Bound::Memory);
    }

    #[test]
    fn the_backward_pass_follows_by_rule() {
        let model = device(|_| ());
        let backward = model.time(AttentionShape { pass: Pass::Backward, ..SHAPE });
        close(backward.seconds, 2000e-6);
        assert!(backward.extrapolates && !model.time(AttentionShape { causal: true, ..SHAPE }).extrapolates);
        assert_eq!(model.physical(AttentionShape { pass: Pass::Backward, ..SHAPE }), None);
    }

    #[test]
    fn other_libraries_have_their_rates() {
        let model = device(|file| {
            file["libraries"] =
                serde_json::json!({ "flash-attention-2": { "heads": [[100, 0.5, 0.4]], "source": "" } });
        });
        let backward = AttentionShape { pass: Pass::Backward, ..SHAPE };
        // 4e10 FLOP forward at 0.5e14 FLOP/s, 10e10 backward at 0.4e14.
        close(model.time_by(Library::FlashAttention2, SHAPE).seconds, 800e-6);
        close(model.time_by(Library::FlashAttention2, backward).seconds, 2500e-6);
        assert!(model.time_by(Library::FlashAttention2, SHAPE).extrapolates);
        // Without rates, a library is the measured one.
        for library in [Library::Cudnn, Library::Measured] {
            assert_eq!(model.time_by(library, backward), model.time(backward));
        }
    }

    #[test]
    fn a_library_has_the_rate_of_the_nearest_head_size() {
        let model = device(|file| {
            file["libraries"] =
                serde_json::json!({ "cudnn": { "heads": [[64, 0.25, 1.0], [128, 0.5, 1.0]], "source": "" } });
        });
        close(model.time_by(Library::Cudnn, SHAPE).seconds, 800e-6);
        // Half the operations at half of the head size's efficiency, and a quarter of the rate.
        close(model.time_by(Library::Cudnn, AttentionShape { head_dim: 50, ..SHAPE }).seconds, 1600e-6);
    }

    #[test]
    fn a_library_may_have_other_rates_with_a_window() {
        let model = device(|file| {
            let rates = serde_json::json!({
                "heads": [[64, 0.25, 1.0], [128, 0.5, 1.0]], "windowed": [[100, 0.2, 0.1]], "source": ""
            });
            file["libraries"] = serde_json::json!({ "cudnn": rates });
        });
        let rate = |window, head_dim, pass| {
            let shape = AttentionShape { causal: true, window, head_dim, pass, ..SHAPE };
            model.time(AttentionShape { pass: Pass::Forward, ..shape }).seconds
                / model.time_by(Library::Cudnn, shape).seconds
        };
        close(rate(0, 100, Pass::Forward), 0.5);
        close(rate(100, 100, Pass::Forward), 0.2);
        close(rate(100, 100, Pass::Backward), 0.1 / 2.5);
        // A window as long as the sequence is none, and other sizes have no other rates.
        close(rate(1000, 100, Pass::Forward), 0.5);
        close(rate(100, 50, Pass::Forward), 0.25);
    }

    #[test]
    fn a_backward_pass_computes_what_its_library_does_not_skip() {
        let time = |masked: &str, pass, causal, window| {
            let model = device(|file| {
                let rates = serde_json::json!({ "heads": [[100, 1.0, 1.0]], "masked": masked, "source": "" });
                file["libraries"] = serde_json::json!({ "cudnn": rates });
            });
            model.time_by(Library::Cudnn, AttentionShape { pass, causal, window, ..SHAPE }).seconds
        };
        let backward = |masked: &str, causal, window| time(masked, Pass::Backward, causal, window);
        let (full, causal) = (backward("none", false, 0), backward("none", true, 0));
        assert!(backward("none", true, 100) < causal && causal < full);
        assert_eq!(backward("window", true, 100), causal);
        assert_eq!(backward("all", true, 100), full);
        // The forward pass skips all that the mask leaves out.
        assert_eq!(time("all", Pass::Forward, true, 100), time("none", Pass::Forward, true, 100));
    }

    #[test]
    fn pairs_are_counted_like_one_by_one() {
        for (sequence, window) in [(1u64, 0u64), (7, 0), (100, 1), (100, 33), (100, 100), (100, 200)] {
            let limit = if window == 0 { u64::MAX } else { window };
            let counted: u64 = (1..=sequence).map(|query| query.min(limit)).sum();
            let shape = AttentionShape { sequence, window, causal: true, ..SHAPE };
            assert_eq!(shape.pairs(), counted as f64, "{sequence} {window}");
        }
        assert_eq!(SHAPE.pairs(), 1e6);
    }

    #[test]
    fn no_time_is_shorter_than_the_operations_at_the_peak() {
        let slow = device(|_| ());
        let bounded = Attention { peak_flop_per_s: 5e13, ..slow.clone() };
        // Forward 400 us at 1e14 FLOP/s; five products rather than two backward.
        close(bounded.time(SHAPE).seconds, 800e-6);
        assert!(bounded.time(SHAPE).extrapolates);
        let quick = device(|file| file["backward"]["rule"]["rate_ratio"] = 10.0.into());
        let backward = AttentionShape { pass: Pass::Backward, ..SHAPE };
        close(Attention { peak_flop_per_s: 1e14, ..quick }.time(backward).seconds, 1000e-6);
        assert_eq!(Attention { peak_flop_per_s: 1e30, ..slow.clone() }.time(SHAPE), slow.time(SHAPE));
    }

    #[test]
    fn tiles_that_are_faster_than_the_peak_are_refused() {
        let file = serde_json::json!({
            "element_bytes": 2,
            "forward": {
                "tiles": [[64, 128, 2.0]], "heads": [[128, 1.5]],
                "constants": {
                    "flop_per_s": 1e14, "scores_per_s": 1e13, "memory_bytes_per_s": 1e12, "cache_bytes": 1e6,
                    "launch_s": 1e-6, "tile_s": 0, "block_s": 0, "tail": 0, "throttle": 0, "throttle_s": 1,
                    "prepare": 0, "prepare_s": 0
                },
                "range": { "batch_heads": [1, 1000], "sequence": [100, 10000] }
            },
            "backward": { "rule": { "flop_ratio": 2.5, "rate_ratio": 0.8, "source": "" } }
        });
        let file = || serde_json::from_value::<AttentionFile>(file.clone()).unwrap();
        assert!(Attention::new(file(), 100.0, Some(2.9e14)).unwrap_err().contains("more than the peak"));
        assert!(Attention::new(file(), 100.0, Some(3e14)).is_ok());
    }

    #[test]
    fn other_masks_and_sizes_are_extrapolated() {
        let model = device(|_| ());
        let causal = AttentionShape { causal: true, ..SHAPE };
        for shape in [
            SHAPE,
            AttentionShape { sequence: 99, ..causal },
            AttentionShape { batch: 101, ..causal },
            AttentionShape { head_dim: 64, ..causal },
        ] {
            assert!(model.time(shape).extrapolates, "{shape:?}");
        }
    }
}
