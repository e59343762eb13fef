//! The model of a pass whose kernels were measured: tiles of queries, and blocks of keys.

use super::shape::AttentionShape;
use super::{MAX_VARIANTS, ROUNDED};
use crate::estimate::{Bound, Estimate};
use crate::lattice::{Lattice, LatticeFile};
use serde::Deserialize;

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
pub(super) struct FittedFile {
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
pub(super) struct CorrectionFile {
    head_dim: u64,
    window: u64,
    lattice: LatticeFile,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ranges {
    batch_heads: (f64, f64),
    sequence: (f64, f64),
    /// Whether masks other than the causal one were measured.
    #[serde(default)]
    full: bool,
}

/// A pass whose kernels were measured.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fitted {
    tiles: Vec<(f64, f64, f64)>,
    heads: Vec<(u64, f64)>,
    pub(super) constants: AttentionConstants,
    range: Ranges,
    corrections: Vec<((u64, u64), Lattice)>,
}

/// Times of the parts of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Parts {
    /// Time of the tiles.
    pub(super) compute: f64,
    /// Time of the memory's traffic.
    pub(super) memory: f64,
    /// Time of the kernel without work.
    pub(super) launch: f64,
    /// Time of what comes before the kernel.
    pub(super) prepare: f64,
}

impl Parts {
    /// All parts together.
    pub(super) fn seconds(&self) -> f64 {
        let square = |each: f64| each * each;
        let busy = (square(square(self.compute)) + square(square(self.memory))).sqrt().sqrt();
        self.launch + busy + self.prepare
    }
}

impl Fitted {
    /// Checks a pass that was read from a file.
    pub(super) fn new(file: FittedFile, peak_flop_per_s: f64) -> Result<Self, String> {
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

    /// The times of the parts of a kernel, without corrections.
    pub(super) fn parts(&self, shape: AttentionShape, multiprocessors: f64, element_bytes: f64) -> Parts {
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

    /// The time of a kernel, with the correction at its shape.
    pub(super) fn time(&self, shape: AttentionShape, multiprocessors: f64, element_bytes: f64) -> Estimate {
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
pub(super) fn blocks(shape: AttentionShape, tiles: f64, queries: f64, keys: f64) -> (f64, f64) {
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
