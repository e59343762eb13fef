//! Matrix products: tiles of the result in waves over the multiprocessors, or the traffic of memory and cache.
//!
//! A kernel divides the result into tiles. Each multiprocessor computes one tile at a time, so the tiles take
//! `ceil(tiles / multiprocessors)` *waves*, and the last wave is seldom full (NVIDIA, "Matrix Multiplication Background
//! User's Guide", tile and wave quantization). A tile takes a time to start, a time for each block of the sum, and a time
//! to write its elements. Where the tiles do not fill the multiprocessors, a kernel may *split* the sum among several of
//! them and add their results afterwards.
//!
//! Meanwhile operands and result pass through the memory once, again for each wave that finds them no longer in the
//! cache, and through the cache once for each tile. The time is the 4-norm of the three: a maximum with a rounded corner.
//! Long kernels heat the device, which lowers its clock.
//!
//! A library chooses a kernel by rules of its own. The model does not know them, but they seldom miss the best kernel by
//! much: it takes a mean over the kernels that come close to the best, with the weight `(1 - excess / spread)^2`.
//! [Corrections](crate::lattice) hold what is left.

use crate::attention::ROUNDED;
use crate::estimate::{Bound, Estimate};
use crate::lattice::{Lattice, LatticeFile};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Most shapes of tiles in a file.
pub const MAX_TILES: usize = 64;
/// Most numbers of splits in a file.
pub const MAX_SPLITS: usize = 8;
/// Highest rate of a library over that of the measured kernels.
const MOST_RATE: f64 = 100.0;
/// Fewest products that each part of a split sum adds.
const SPLIT_K: f64 = 128.0;
/// Rows of the result that kernels need no special case for are a multiple of this.
const ALIGNED: u64 = 8;
/// Products with at most this many rows have one kernel, aligned or not.
const FEW_ROWS: u64 = 16;

/// How the operands of a product lie in memory: `n` as in the product, `t` transposed; the left operand first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Both operands have the elements of a sum side by side: the forward pass of a linear layer.
    Nt,
    /// The gradient of its input.
    Nn,
    /// The gradient of its weights.
    Tn,
}

impl Layout {
    /// The layout with this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "nt" => Some(Self::Nt),
            "nn" => Some(Self::Nn),
            "tn" => Some(Self::Tn),
            _ => None,
        }
    }
}

/// Whose kernels multiply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GemmLibrary {
    /// The library whose kernels were measured, with the kernels that cast the left operand.
    #[default]
    Measured,
    /// cuBLAS, of operands that have the data type already.
    Cublas,
    /// cuBLAS in 8 bits with a scale for each block of 32 elements (MXFP8), likewise.
    CublasMxfp8,
}

/// The rate of a library's kernels.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct GemmRate {
    /// Over that of the measured kernels, without those that cast.
    rate: f64,
    /// Where it comes from.
    #[serde(rename = "source")]
    _source: String,
}

/// `groups` products of `m` x `k` times `k` x `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GemmShape {
    /// Rows of the result.
    pub m: u64,
    /// Columns of the result.
    pub n: u64,
    /// Length of the sums.
    pub k: u64,
    /// Number of products, which one kernel computes.
    pub groups: u64,
    /// How the operands lie in memory.
    pub layout: Layout,
}

impl GemmShape {
    /// One product of the forward pass.
    pub const fn forward(m: u64, n: u64, k: u64) -> Self {
        Self { m, n, k, groups: 1, layout: Layout::Nt }
    }
}

/// Constants of the machine for one data type, fitted to measured kernels.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GemmConstants {
    /// FLOP per second of all matrix units, at the clock of short kernels.
    pub flop_per_s: f64,
    /// Bytes per second of operands that one multiprocessor takes.
    pub operand_bytes_per_s: f64,
    /// Bytes per second of the memory.
    pub memory_bytes_per_s: f64,
    /// Bytes per second of the cache.
    pub cache_bytes_per_s: f64,
    /// Bytes of operands and result at which half of the reads find them in the cache.
    pub cache_bytes: f64,
    /// Part of the operands that a wave reads again if they are not in the cache.
    pub reread: f64,
    /// Time of an empty kernel.
    pub launch_s: f64,
    /// Time to start a tile.
    pub tile_s: f64,
    /// Time for each block of a sum, beside its operations.
    pub block_s: f64,
    /// Time to write one element of a tile.
    pub element_s: f64,
    /// Time to add the results of a split sum, beside their traffic.
    pub split_s: f64,
    /// Part by which kernels much longer than `throttle_s` are slower, because the clock falls.
    pub throttle: f64,
    /// Time after which the clock has fallen halfway.
    pub throttle_s: f64,
    /// How much slower than the best a kernel may be to be chosen at all.
    pub spread: f64,
    /// Time of the kernels that cast the left operand to the data type first; 0 if nothing does.
    #[serde(default)]
    pub cast_s: f64,
    /// Bytes that these read and write for each of its elements.
    #[serde(default)]
    pub cast_bytes: f64,
}

/// The model of one data type as a file holds it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GemmFile {
    element_bytes: f64,
    output_bytes: f64,
    block_k: f64,
    /// Rows, columns and efficiency of each tile.
    tiles: Vec<(f64, f64, f64)>,
    splits: Vec<f64>,
    constants: GemmConstants,
    range: Ranges,
    /// Time of each layout over that of the measured one.
    layouts: Layouts,
    /// Time of grouped products over that of the model; absent if none were measured.
    #[serde(default)]
    grouped: Option<f64>,
    #[serde(default)]
    corrections: Option<Corrections>,
    /// Rates of other libraries.
    #[serde(default)]
    libraries: BTreeMap<GemmLibrary, GemmRate>,
    /// Errors on kernels that were left out, for people.
    #[serde(default, rename = "held_out")]
    _held_out: serde_json::Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ranges {
    m: (f64, f64),
    n: (f64, f64),
    k: (f64, f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Layouts {
    #[serde(default)]
    nt: Option<f64>,
    #[serde(default)]
    nn: Option<f64>,
    #[serde(default)]
    tn: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Corrections {
    aligned: LatticeFile,
    #[serde(default)]
    unaligned: Option<LatticeFile>,
}

/// One shape of tiles, with what does not depend on the product.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tile {
    rows: f64,
    columns: f64,
    per_row: f64,
    per_column: f64,
    /// Time to start and to write a tile.
    fixed: f64,
    /// Time of one block of the sum.
    block: f64,
}

/// A number of parts of a sum.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Split {
    parts: f64,
    inverse: f64,
}

/// Times of matrix products in one data type.
#[derive(Clone, Debug, PartialEq)]
pub struct Gemm {
    /// Most FLOP per second of the matrix units; infinite if it is unknown.
    pub(crate) peak_flop_per_s: f64,
    multiprocessors: f64,
    per_multiprocessor: f64,
    per_memory_byte: f64,
    per_cache_byte: f64,
    per_block_k: f64,
    /// Bytes of one row of a block of operands.
    block_bytes: f64,
    element_bytes: f64,
    output_bytes: f64,
    tiles: Vec<Tile>,
    splits: Vec<Split>,
    constants: GemmConstants,
    range: Ranges,
    layouts: Layouts,
    grouped: Option<f64>,
    aligned: Option<Lattice>,
    unaligned: Option<Lattice>,
    libraries: BTreeMap<GemmLibrary, GemmRate>,
}

/// A product in numbers that all tiles share.
struct Product {
    m: f64,
    n: f64,
    k: f64,
    groups: f64,
    blocks: f64,
    left: f64,
    right: f64,
    result: f64,
    /// Bytes of the sums that are added after a split.
    sums: f64,
    /// Fraction of reads that do not find their data in the cache.
    miss: f64,
}

/// What one choice of tile and split would take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Index of the tile's shape.
    pub tile: usize,
    /// In how many parts the sum is split.
    pub split: f64,
    /// Time of the waves.
    pub compute: f64,
    /// Time of the memory's traffic.
    pub memory: f64,
    /// Time of the cache's traffic.
    pub cache: f64,
    /// Time to launch kernels, with the addition of split sums.
    pub launch: f64,
    /// All of it together.
    pub seconds: f64,
}

impl Gemm {
    /// Checks a model that was read from a file. Without a peak, nothing bounds its times.
    ///
    /// # Errors
    /// Numbers that no device has, such as rates above the peak.
    pub fn new(file: GemmFile, multiprocessors: f64, peak_flop_per_s: Option<f64>) -> Result<Self, String> {
        let c = file.constants;
        let peak_flop_per_s = peak_flop_per_s.unwrap_or(f64::INFINITY);
        let rates =
            [c.flop_per_s, c.operand_bytes_per_s, c.memory_bytes_per_s, c.cache_bytes_per_s, c.cache_bytes];
        let above = [file.element_bytes, file.output_bytes, file.block_k, c.throttle_s, c.spread, c.launch_s];
        if rates.iter().chain(&above).any(|&each| !(each > 0.0 && each.is_finite())) {
            return Err("rates, sizes, `launch_s`, `throttle_s` and `spread` are above zero".to_owned());
        }
        let others =
            [c.reread, c.tile_s, c.block_s, c.element_s, c.split_s, c.throttle, c.cast_s, c.cast_bytes];
        if others.iter().any(|&each| !(each >= 0.0 && each.is_finite())) {
            return Err("constants are at least zero".to_owned());
        }
        if file.tiles.is_empty() || file.tiles.len() > MAX_TILES {
            return Err(format!("`tiles` has 1 to {MAX_TILES} shapes"));
        }
        let whole = |&(rows, columns, efficiency): &(f64, f64, f64)| {
            rows >= 1.0
                && columns >= 1.0
                && rows.max(columns) <= 1024.0
                && efficiency > 0.0
                && efficiency < 100.0
        };
        if !file.tiles.iter().all(whole) {
            return Err("a tile has 1 to 1024 rows and columns, and an efficiency above 0".to_owned());
        }
        let rate = c.flop_per_s * file.tiles.iter().map(|each| each.2).fold(0.0, f64::max);
        if rate > peak_flop_per_s * ROUNDED {
            return Err(format!("tiles reach {rate:.4e} FLOP/s, more than the peak"));
        }
        if !file.libraries.values().all(|each| each.rate > 0.0 && each.rate <= MOST_RATE) {
            return Err(format!("the rate of a library is above zero, and at most {MOST_RATE}"));
        }
        let rising = file.splits.windows(2).all(|pair| pair[0] < pair[1]);
        if file.splits.first() != Some(&1.0) || file.splits.len() > MAX_SPLITS || !rising {
            return Err(format!("`splits` has 1 to {MAX_SPLITS} increasing numbers, the first of them 1"));
        }
        let tile = |&(rows, columns, efficiency): &(f64, f64, f64)| {
            let operations =
                2.0 * rows * columns * file.block_k * multiprocessors / (c.flop_per_s * efficiency);
            let operands = (rows + columns) * file.block_k * file.element_bytes;
            let operands = operands / (c.operand_bytes_per_s * efficiency);
            let fixed = c.tile_s + rows * columns * c.element_s;
            Tile {
                rows,
                columns,
                per_row: 1.0 / rows,
                per_column: 1.0 / columns,
                fixed,
                block: operations.max(operands) + c.block_s,
            }
        };
        let (aligned, unaligned) = match file.corrections {
            None => (None, None),
            Some(Corrections { aligned, unaligned }) => {
                (Some(Lattice::new(aligned)?), unaligned.map(Lattice::new).transpose()?)
            }
        };
        Ok(Self {
            peak_flop_per_s,
            multiprocessors,
            per_multiprocessor: 1.0 / multiprocessors,
            per_memory_byte: 1.0 / c.memory_bytes_per_s,
            per_cache_byte: 1.0 / c.cache_bytes_per_s,
            per_block_k: 1.0 / file.block_k,
            block_bytes: file.block_k * file.element_bytes,
            element_bytes: file.element_bytes,
            output_bytes: file.output_bytes,
            tiles: file.tiles.iter().map(tile).collect(),
            splits: file.splits.iter().map(|&parts| Split { parts, inverse: 1.0 / parts }).collect(),
            constants: c,
            range: file.range,
            layouts: file.layouts,
            grouped: file.grouped,
            aligned,
            unaligned,
            libraries: file.libraries,
        })
    }

    /// The model of a device that differs only in the rate of its memory, which is `ratio` times as high.
    #[must_use]
    pub fn with_memory(mut self, ratio: f64) -> Self {
        self.constants.memory_bytes_per_s *= ratio;
        self.per_memory_byte /= ratio;
        self
    }

    /// The constants.
    pub const fn constants(&self) -> &GemmConstants {
        &self.constants
    }

    /// Number of shapes of tiles.
    pub fn tiles(&self) -> usize {
        self.tiles.len()
    }

    /// Time of a product. An empty one takes the time of a launch.
    pub fn time(&self, shape: GemmShape) -> Estimate {
        self.time_with(shape, 0.0)
    }

    /// Time of a product by the kernels of a library. cuBLAS without a rate in the file is as fast as the measured kernels
    /// without those that cast.
    pub fn time_by(&self, library: GemmLibrary, shape: GemmShape) -> Estimate {
        if library == GemmLibrary::Measured {
            return self.time(shape);
        }
        let found = self.time_with(shape, self.cast(shape));
        let Some(&GemmRate { rate, .. }) = self.libraries.get(&library) else { return found };
        let seconds = (found.seconds / rate).max(self.least_seconds(shape));
        Estimate { seconds, bound: found.bound, extrapolates: true }
    }

    /// Time of a product less a part, in seconds.
    fn time_with(&self, shape: GemmShape, less: f64) -> Estimate {
        let layout = match shape.layout {
            Layout::Nt => self.layouts.nt,
            Layout::Nn => self.layouts.nn,
            Layout::Tn => self.layouts.tn,
        };
        let groups = if shape.groups > 1 { self.grouped } else { Some(1.0) };
        let measured = layout.is_some() && groups.is_some() && self.covers(shape);
        let (seconds, bound) = self.physical(shape);
        let seconds = seconds - less;
        let factor = layout.unwrap_or(1.0) * groups.unwrap_or(1.0);
        let seconds = seconds * factor * libm::exp(self.correction(shape));
        let least = self.least_seconds(shape);
        if seconds < least {
            return Estimate { seconds: least, bound: Bound::Compute, extrapolates: true };
        }
        Estimate { seconds, bound, extrapolates: !measured }
    }

    /// The time of a product at the peak of the matrix units, in seconds, which no kernel can beat. 0 if the peak is unknown.
    pub fn least_seconds(&self, shape: GemmShape) -> f64 {
        let [m, n, k, groups] = [shape.m, shape.n, shape.k, shape.groups].map(|size| size as f64);
        2.0 * m * n * k * groups / self.peak_flop_per_s
    }

    /// Whether the shape lies in the range of those that were measured.
    fn covers(&self, shape: GemmShape) -> bool {
        let within = |size: u64, (low, high): (f64, f64)| (low..=high).contains(&(size as f64));
        within(shape.m, self.range.m) && within(shape.n, self.range.n) && within(shape.k, self.range.k)
    }

    /// The logarithm of measured over modelled time.
    fn correction(&self, shape: GemmShape) -> f64 {
        let aligned = shape.m.is_multiple_of(ALIGNED) || shape.m <= FEW_ROWS;
        let lattice = if aligned {
            &self.aligned
        } else {
            self.unaligned.as_ref().map_or(&self.aligned, |_| &self.unaligned)
        };
        lattice.as_ref().map_or(0.0, |lattice| lattice.at([shape.m as f64, shape.n as f64, shape.k as f64]))
    }

    /// Time without corrections, and its bound.
    pub fn physical(&self, shape: GemmShape) -> (f64, Bound) {
        let mut times = [0.0; MAX_TILES * MAX_SPLITS];
        let (mut count, mut best) = (0, None::<Choice>);
        self.choices(shape, true, |choice| {
            times[count] = choice.seconds;
            count += 1;
            if best.is_none_or(|best| choice.seconds < best.seconds) {
                best = Some(choice);
            }
        });
        let cast = self.cast(shape);
        let Some(best) = best else { return (self.constants.launch_s + cast, Bound::Launch) };
        let (mut sum, mut weights) = (0.0, 0.0);
        for &time in &times[..count] {
            let weight = 1.0 - (time / best.seconds - 1.0) / self.constants.spread;
            if weight > 0.0 {
                weights += weight * weight;
                sum += weight * weight * time;
            }
        }
        let memory = best.memory.max(best.cache) + cast - self.constants.cast_s.min(cast);
        let bound = Bound::of(best.compute, memory, best.launch + self.constants.cast_s.min(cast));
        (sum / weights + cast, bound)
    }

    /// Calls `visit` with every choice of tile and split; with `pruned`, only with those that may be close to the best.
    pub fn choices(&self, shape: GemmShape, pruned: bool, mut visit: impl FnMut(Choice)) {
        let c = &self.constants;
        if shape.m == 0 || shape.n == 0 || shape.k == 0 || shape.groups == 0 {
            return;
        }
        let product = self.product(shape);
        let limit = 1.0 + c.spread;
        let mut best = f64::INFINITY;
        for (index, tile) in self.tiles.iter().enumerate() {
            let grid = parts(product.m, tile.per_row) * parts(product.n, tile.per_column) * product.groups;
            let memory = self.traffic(&product, tile, grid) * self.per_memory_byte;
            for split in &self.splits {
                if split.parts > 1.0
                    && (2.0 * grid > self.multiprocessors || product.k < SPLIT_K * split.parts)
                {
                    break;
                }
                let blocks = parts(product.blocks, split.inverse);
                let waves = parts(grid * split.parts, self.per_multiprocessor);
                let busy = waves * (tile.fixed + blocks * tile.block);
                let mut launch = c.launch_s;
                if split.parts > 1.0 {
                    launch += c.split_s + product.sums * (split.parts + 1.0) * self.per_cache_byte;
                }
                if pruned && launch + busy.max(memory) > best * limit {
                    continue;
                }
                let compute = busy * (1.0 + c.throttle * busy / (busy + c.throttle_s));
                let edges = grid * split.parts * (tile.rows + tile.columns) * blocks * self.block_bytes;
                let cache = (edges + product.result) * self.per_cache_byte;
                let seconds = launch + norm(compute, memory, cache);
                best = best.min(seconds);
                visit(Choice { tile: index, split: split.parts, compute, memory, cache, launch, seconds });
            }
        }
    }

    /// What distinguishes a product, for the fit of corrections: the logarithm of each tile's time over the model's; then,
    /// for the best choice, those of computation over memory traffic, of cache over memory traffic, and of the split.
    pub fn features(&self, shape: GemmShape) -> Vec<f64> {
        let (time, _) = self.physical(shape);
        let time = time - self.cast(shape);
        let mut features = vec![f64::INFINITY; self.tiles.len()];
        let mut best = None::<Choice>;
        self.choices(shape, false, |choice| {
            features[choice.tile] = features[choice.tile].min(choice.seconds);
            if best.is_none_or(|best| choice.seconds < best.seconds) {
                best = Some(choice);
            }
        });
        for each in &mut features {
            *each = libm::log(*each / time);
        }
        if let Some(best) = best {
            features
                .extend([best.compute / best.memory, best.cache / best.memory, best.split].map(libm::log));
        }
        features
    }

    fn product(&self, shape: GemmShape) -> Product {
        let [m, n, k, groups] = [shape.m, shape.n, shape.k, shape.groups].map(|size| size as f64);
        let left = m * k * groups * self.element_bytes;
        let right = n * k * groups * self.element_bytes;
        let result = m * n * groups * self.output_bytes;
        let miss = self.miss(left + right + result);
        let (blocks, sums) = (parts(k, self.per_block_k), 4.0 * m * n * groups);
        Product { m, n, k, groups, blocks, left, right, result, sums, miss }
    }

    /// Fraction of reads that miss the cache, if kernels work on this many bytes.
    fn miss(&self, bytes: f64) -> f64 {
        let fill = bytes / self.constants.cache_bytes;
        fill * fill / (1.0 + fill * fill)
    }

    /// Bytes that pass through the memory: weights always, activations unless the kernel before left them in the cache,
    /// and operands again for each band of tiles that is computed at once.
    fn traffic(&self, product: &Product, tile: &Tile, grid: f64) -> f64 {
        let once = product.right + (product.left + product.result) * product.miss;
        if grid <= self.multiprocessors {
            return once;
        }
        let area = self.multiprocessors * tile.rows * tile.columns;
        let side = area.sqrt();
        let rows = side.max(tile.rows).min(product.m);
        let columns = (area / rows).min(product.n);
        let rows = (area / columns).min(product.m);
        let again = product.left * (product.n / columns - 1.0) + product.right * (product.m / rows - 1.0);
        once + self.constants.reread * again.max(0.0) * product.miss
    }

    /// Time of the kernels that cast the left operand.
    fn cast(&self, shape: GemmShape) -> f64 {
        let c = &self.constants;
        if c.cast_bytes == 0.0 {
            return c.cast_s;
        }
        let bytes = c.cast_bytes * shape.m as f64 * shape.k as f64 * shape.groups as f64;
        let miss = self.miss(bytes);
        c.cast_s + bytes * (miss / c.memory_bytes_per_s + (1.0 - miss) / c.cache_bytes_per_s)
    }
}

/// Into how many parts of a size a whole number is cut, given the inverse of the size. The half keeps rounding from adding
/// a part.
fn parts(whole: f64, inverse: f64) -> f64 {
    ((whole - 0.5) * inverse).ceil()
}

/// The 4-norm.
fn norm(a: f64, b: f64, c: f64) -> f64 {
    let square = |each: f64| each * each;
    (square(square(a)) + square(square(b)) + square(square(c))).sqrt().sqrt()
}

#[cfg(test)]
#[path = "gemm_tests.rs"]
mod tests;
