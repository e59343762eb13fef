//! The memory that a rank of each stage needs in its NPU.
//!
//! - *Parameters, gradients and optimizer states* each have their own type ([`crate::types`]). The states are Adam's
//!   two moments, and a copy of the parameters if these have a shorter type. With bf16 that is 2 + 4 + 12 bytes a
//!   parameter, as in the distributed optimizer of Megatron-LM; with fp16, 2 + 2 + 12 (Rajbhandari et al. 2020, 3.1).
//!   ZeRO divides among the copies: in stage 1 the optimizer states, in stage 2 also the gradients, in stage 3 also
//!   the parameters. Stage 3 also gathers the parameters of two blocks at a time: the block being computed and the
//!   next one.
//! - *Activations* are what layers keep from their forward pass for their backward pass ([`Layer::kept`]), for as
//!   many micro-batches as the schedule has in flight. The layer determines what tensor-parallel ranks divide: the
//!   inputs of column layers and of replicated layers are kept whole (Korthikanti et al. 2022, 4.1), unless sequence
//!   parallelism divides them too (4.2.2). With full recomputation, blocks keep their input, and one block at a time
//!   holds what it recomputes; with selective recomputation, marked layers keep less (5).
//!
//! Communication buffers, fragmentation, and the memory of libraries are not included.

use crate::division::Division;
use crate::exchanged;
use crate::job::Training;
use crate::layer::{Layer, Sharding};
use crate::parallel::Recompute;
use crate::types::Optimizer;
use std::borrow::Cow;
use std::ops::Range;
use syncline_units::Bytes;

/// The memory that a rank of a stage needs, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// The stage.
    pub stage: u32,
    /// Its parameters, or its share of them.
    pub parameters: Bytes,
    /// Parameters gathered temporarily from other ranks.
    pub gathered: Bytes,
    /// Gradients.
    pub gradients: Bytes,
    /// States of the optimizer.
    pub optimizer: Bytes,
    /// Activations; `None` if a layer does not say what it keeps.
    pub activations: Option<Bytes>,
    /// Most micro-batches whose activations are kept at the same time; parts of the model count separately.
    pub live: u32,
}

impl Footprint {
    /// The sum, without activations if these are unknown.
    pub fn total(&self) -> Bytes {
        let parts = [self.parameters, self.gathered, self.gradients, self.optimizer];
        let known = parts.into_iter().chain(self.activations);
        Bytes(known.fold(0, |sum: u64, part| sum.saturating_add(part.0)))
    }
}

/// The memory that ranks of each stage of a training job need. If ranks of a stage have different layers, that of the
/// ranks that need the most.
pub fn footprints(training: &Training<'_>, optimizer: Optimizer) -> Vec<Footprint> {
    let of_stage = |stage: u32| {
        let all = training.sets(stage).into_iter().map(|present| {
            let held = training.stages.held(training.layers);
            let chunks = training.stages.chunks(stage).collect();
            Rank { training, held, present, chunks, stage }.footprint(optimizer)
        });
        all.max_by_key(Footprint::total).expect("every stage has ranks")
    };
    (0..training.stages.pipeline.stages).map(of_stage).collect()
}

/// A rank, for its memory.
struct Rank<'a> {
    training: &'a Training<'a>,
    /// The layers as stages hold them.
    held: Vec<Cow<'a, Layer>>,
    /// Whether the rank has each layer, its stage aside.
    present: Vec<bool>,
    /// The layers of its stage.
    chunks: Vec<Range<usize>>,
    stage: u32,
}

impl Rank<'_> {
    fn footprint(&self, optimizer: Optimizer) -> Footprint {
        // The sum over layers of the parameters that a rank holds, if copies divide them from ZeRO stage `from` on.
        let sum = |from: u8, bytes: &dyn Fn(&Division) -> u64, of_exchanged: bool| {
            let layers = self.chunks.iter().cloned().flatten();
            let of_layer = |sum: u64, at: usize| {
                let (layer, by) = (&self.held[at], self.training.division(at));
                let copies = u64::from(by.data.size);
                let parameters = match layer.is_exchanged() {
                    true if !of_exchanged => 0,
                    true => exchanged::parameters(layer, by),
                    false if by.zero >= from && by.shards(layer) => by.parameters(layer).div_ceil(copies),
                    false => by.parameters(layer),
                };
                sum.saturating_add(parameters.saturating_mul(bytes(by)))
            };
            Bytes(layers.filter(|&at| self.present[at]).fold(0, of_layer))
        };
        let pipeline = &self.training.stages.pipeline;
        let live = if pipeline.stages > 1 { pipeline.peak(self.stage, |_| 1) as u32 } else { 1 };
        Footprint {
            stage: self.stage,
            parameters: sum(3, &|by| by.types.parameters.bytes(), true),
            gathered: self.gathered(),
            gradients: sum(2, &|by| by.types.gradients.bytes(), false),
            optimizer: sum(1, &|by| optimizer.bytes(&by.types), true),
            activations: self.activations(),
            live,
        }
    }

    /// The layers that the rank has, with their divisions.
    fn had(&self, block: Range<usize>) -> impl Iterator<Item = (&Layer, &Division)> {
        let layers = block.filter(|&at| self.present[at]);
        layers.map(|at| (&self.training.layers[at], self.training.division(at)))
    }

    /// The parameters of two consecutive blocks, if parameters are gathered.
    fn gathered(&self) -> Bytes {
        let of = |block: Range<usize>| {
            let layers = block.filter(|&at| self.present[at]);
            layers.fold(0u64, |sum, at| {
                let (layer, by) = (&self.held[at], self.training.division(at));
                let parameters = if by.zero > 2 && by.shards(layer) { by.parameters(layer) } else { 0 };
                sum.saturating_add(parameters.saturating_mul(by.types.parameters.bytes()))
            })
        };
        let pairs = self.chunks.iter().flat_map(|chunk| {
            let of: Vec<u64> = blocks(self.training.layers, chunk.clone()).into_iter().map(of).collect();
            (0..of.len()).map(move |at| of[at].saturating_add(of.get(at + 1).copied().unwrap_or(0)))
        });
        Bytes(pairs.max().unwrap_or(0))
    }

    /// What the rank keeps of forward passes; `None` if a layer does not say.
    fn activations(&self) -> Option<Bytes> {
        let layers = self.training.layers;
        if self.chunks.iter().any(|chunk| self.had(chunk.clone()).any(|(layer, _)| layer.kept.is_none())) {
            return None;
        }
        let (mut each, mut again) = (Vec::new(), 0);
        for chunk in &self.chunks {
            let mut of_chunk = 0u128;
            for block in blocks(layers, chunk.clone()) {
                let sum = |of: fn(&Layer, &Division) -> Option<u64>| {
                    self.had(block.clone()).map(|(layer, by)| u128::from(of(layer, by).unwrap_or(0))).sum()
                };
                let whole: u128 = sum(kept);
                let recompute = self.training.division(block.start).recompute;
                let left = match (recompute, self.had(block.clone()).next()) {
                    (Recompute::Full, Some((first, by))) if first.block.is_some() => {
                        u128::from(checkpoint(first, by))
                    }
                    (Recompute::Selective, _) => sum(less),
                    _ => whole,
                };
                of_chunk += left;
                // The input is already counted once.
                again = again.max(if left == whole { 0 } else { whole.saturating_sub(left) });
            }
            each.push(of_chunk);
        }
        let pipeline = &self.training.stages.pipeline;
        let live = match pipeline.stages {
            1 => each.iter().sum(),
            _ => pipeline.peak(self.stage, |chunk| each[chunk as usize]),
        };
        Some(Bytes(u64::try_from(live + again).unwrap_or(u64::MAX)))
    }
}

/// The blocks among `layers`; a layer without a block is a block by itself.
fn blocks(layers: &[Layer], chunk: Range<usize>) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for index in chunk {
        let block = layers[index].block;
        match found.last_mut() {
            Some(last) if block.is_some() && layers[last.start].block == block => last.end = index + 1,
            _ => found.push(index..index + 1),
        }
    }
    found
}

/// A rank's share of what tensor-parallel ranks divide, if `layer` is divided or if they divide by tokens.
fn share(bytes: Bytes, layer: &Layer, by: &Division) -> u64 {
    let divided = by.sequence || matches!(layer.sharding, Sharding::Row | Sharding::Divided);
    if divided { by.portion(layer).share(bytes.0) } else { bytes.0 }
}

/// The bytes that a rank keeps of a layer for one micro-batch.
fn kept(layer: &Layer, by: &Division) -> Option<u64> {
    layer.kept.map(|bytes| share(bytes, layer, by))
}

/// As [`kept`], if marked layers are recomputed.
fn less(layer: &Layer, by: &Division) -> Option<u64> {
    let left = if layer.selective { layer.kept_selective.or(Some(Bytes(0))) } else { layer.kept };
    left.map(|bytes| share(bytes, layer, by))
}

/// The bytes that a rank keeps of a block's input. All tensor-parallel ranks keep it whole unless they divide it.
fn checkpoint(first: &Layer, by: &Division) -> u64 {
    let bytes = first.inputs.saturating_mul(by.types.activations.bytes());
    if by.sequence || by.divided_checkpoints { bytes.div_ceil(u64::from(by.tensor.size)) } else { bytes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;
    use crate::mesh::FabricAxis;
    use crate::parallel::{Axes, Parallel, Schedule};
    use crate::types::Types;
    use syncline_units::DataType;

    fn axes(ranks: u32) -> Vec<FabricAxis> {
        vec![FabricAxis { name: "d".to_owned(), size: ranks, dim: Some(0) }]
    }

    fn of(layers: &[Layer], ranks: u32, parallel: &Parallel, micro_batches: u32) -> Vec<Footprint> {
        let fp16 = Types { optimizer: DataType::Float32, ..Types::uniform(DataType::Float16) };
        with(layers, ranks, parallel, micro_batches, fp16)
    }

    fn with(layers: &[Layer], ranks: u32, parallel: &Parallel, number: u32, types: Types) -> Vec<Footprint> {
        let training = Training::new(layers, &axes(ranks), parallel, 1, Batch::of(number), types).unwrap();
        footprints(&training, Optimizer::Adam)
    }

    #[test]
    fn zero_stages_need_the_memory_that_rajbhandari_gives() {
        // Figure 1: 7.5 billion parameters, 64 copies, Adam in mixed precision: 120, 31.4, 16.6 and 1.9 GB.
        let layer = Layer { name: "l".to_owned(), parameters: 7_500_000_000, ..Layer::default() };
        let state = |zero: u8| {
            let found = of(std::slice::from_ref(&layer), 64, &Parallel { zero, ..Parallel::default() }, 1)[0];
            found.parameters.0 + found.gradients.0 + found.optimizer.0
        };
        let gigabytes = [0, 1, 2, 3].map(|zero| (state(zero) as f64 / 1e8).round() / 10.0);
        assert_eq!(gigabytes, [120.0, 31.4, 16.6, 1.9]);
        // While a layer is computed, it is there whole.
        let found = of(std::slice::from_ref(&layer), 64, &Parallel { zero: 3, ..Parallel::default() }, 1)[0];
        assert_eq!((found.gathered, found.activations), (Bytes(15_000_000_000), None));
    }

    #[test]
    fn bytes_per_parameter_equal_megatrons() {
        use DataType::{BFloat16, Float16, Float32, Float64};
        // Megatron Core, distributed optimizer, "memory": bf16 parameters and fp32 gradients 18 bytes, divided over d
        // copies 6 + 12 / d; fp32 16 bytes, divided 8 + 8 / d. fp16 is ZeRO's 2 + 2 + 12.
        let layer = Layer { name: "l".to_owned(), parameters: 1_000_000, ..Layer::default() };
        let bytes = |types: Types, copies: u32, zero: u8| {
            let parallel = Parallel { zero, ..Parallel::default() };
            let found = with(std::slice::from_ref(&layer), copies, &parallel, 1, types)[0];
            (found.parameters.0 + found.gradients.0 + found.optimizer.0) as f64 / 1e6
        };
        let bf16 = Types { gradients: Float32, optimizer: Float32, ..Types::uniform(BFloat16) };
        assert_eq!([bytes(bf16, 1, 0), bytes(bf16, 8, 1), bytes(bf16, 8, 2)], [18.0, 7.5, 2.0 + 16.0 / 8.0]);
        let fp32 = Types::uniform(Float32);
        assert_eq!([bytes(fp32, 1, 0), bytes(fp32, 8, 1)], [16.0, 9.0]);
        let fp16 = Types { optimizer: Float32, ..Types::uniform(Float16) };
        assert_eq!([bytes(fp16, 1, 0), bytes(fp16, 8, 1)], [16.0, 5.5]);
        // A job that computes in fp8 holds the same as one in bf16.
        assert_eq!(bytes(Types { compute: DataType::Float8, ..bf16 }, 1, 0), 18.0);
        assert_eq!(bytes(Types::uniform(BFloat16), 1, 0), 8.0);
        assert_eq!(bytes(Types::uniform(Float64), 1, 0), 32.0);
        assert_eq!([Optimizer::Sgd, Optimizer::None].map(|optimizer| optimizer.bytes(&bf16)), [0, 0]);
    }

    /// Eight blocks, each with a replicated layer and a divided one.
    fn blocks() -> Vec<Layer> {
        let layer = |block: u32, name: &str, sharding| Layer {
            name: format!("{name}{block}"),
            parameters: 100,
            inputs: 40,
            outputs: 40,
            kept: Some(Bytes(1000)),
            kept_selective: Some(Bytes(200)),
            selective: sharding == Sharding::Divided,
            sharding,
            block: Some(block),
            ..Layer::default()
        };
        (0..8)
            .flat_map(|b| [layer(b, "whole", Sharding::Replicated), layer(b, "part", Sharding::Divided)])
            .collect()
    }

    #[test]
    fn schedules_differ_in_micro_batches_in_flight() {
        let kept = |schedule, virtual_stages, micro_batches| {
            let parallel = Parallel {
                pipeline: Axes::All,
                data: Axes::None,
                schedule,
                virtual_stages,
                ..Parallel::default()
            };
            let found = of(&blocks(), 4, &parallel, micro_batches);
            found.iter().map(|each| each.activations.unwrap().0).collect::<Vec<_>>()
        };
        // Two blocks of 2,000 bytes in each stage.
        assert_eq!(kept(Schedule::GPipe, 1, 12), [48_000; 4]);
        assert_eq!(kept(Schedule::OneForwardOneBackward, 1, 12), [16_000, 12_000, 8_000, 4_000]);
        assert_eq!(kept(Schedule::OneForwardOneBackward, 1, 2), [8_000, 8_000, 8_000, 4_000]);
        // 2 (p - 1) + p + 1 = 11 parts of one block in the first stage.
        assert_eq!(kept(Schedule::Interleaved, 2, 12), [22_000, 18_000, 14_000, 10_000]);
    }

    #[test]
    fn divided_and_recomputed_activations_need_less_memory() {
        let kept = |tensor: u32, recompute, sequence, divided_checkpoints| {
            let parallel = Parallel {
                tensor: Axes::Degree(tensor),
                recompute,
                sequence,
                divided_checkpoints,
                ..Parallel::default()
            };
            of(&blocks(), tensor, &parallel, 1)[0].activations.unwrap().0
        };
        let (none, selective, full) = (Recompute::None, Recompute::Selective, Recompute::Full);
        assert_eq!(kept(1, none, false, false), 8 * 2000);
        assert_eq!(kept(4, none, false, false), 8 * 1250);
        assert_eq!(kept(4, none, true, false), 8 * 500);
        // In addition, one block holds what it recomputes.
        assert_eq!(kept(1, selective, false, false), 8 * 1200 + 800);
        assert_eq!(kept(4, selective, true, false), 8 * 300 + 200);
        assert_eq!(kept(1, full, false, false), 8 * 80 + 1920);
        assert_eq!(kept(4, full, false, false), 8 * 80 + 1170);
        assert_eq!(kept(4, full, false, true), 8 * 20 + 1230);
    }
}
