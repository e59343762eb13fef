//! The memory that a rank of each stage needs, by kind.
//!
//! Weights, gradients and optimizer states follow from parameters and ZeRO's stage; activations from the layers of a stage and
//! the micro-batches in flight. The peak is at the beginning of a backward pass, when the last stage holds all logits, and other
//! stages hold the gradients of a layer.

use crate::adapters::trained;
use crate::held::Held;
use crate::in_flight::kept_at_once;
use crate::job::{ELEMENT, Job, Schedule};
use crate::kept::{Kept, kept_by_chunk};
use crate::memory_software::MemorySoftware;
use crate::model::Model;
use crate::offload::HOST_GRADIENT;
use crate::parameters::{divided_weights, whole_weights};
use crate::schedule::places;
use crate::schedule::run::{ChunkBytes, peak};
use crate::stages::{Block, divide};
use serde::Serialize;

/// The peak memory of a rank, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Memory {
    /// The stage of this rank.
    #[serde(skip)]
    pub stage: u32,
    /// Parameters, in 16 bits, in the type in which linear layers multiply, or in both; of FSDP in 32 bits.
    pub weights: u64,
    /// Gradients, summed over micro-batches, and a copy in the type of the backward pass if the software has one.
    pub gradients: u64,
    /// Both moments of Adam and, except with FSDP, the parameters in 32 bits.
    pub optimizer: u64,
    /// Activations of all micro-batches in flight.
    pub activations: u64,
    /// Logits and their gradients.
    pub logits: u64,
    /// Working memory of a layer while it computes, beyond the memory of logits, which is free by then, and workspaces of
    /// libraries.
    pub working: u64,
    /// Parameters that ZeRO-3 has gathered, and gradients that it has not reduced yet.
    pub gathered: u64,
    /// Memory that the allocator has reserved and cannot use.
    pub fragmentation: u64,
    /// Buffers of NCCL communicators.
    pub buffers: u64,
    /// CUDA context.
    pub context: u64,
    /// Activations and optimizer states in host memory; all other kinds are in the accelerator's memory. [`memory`] gives the most
    /// of any rank.
    pub host: u64,
}

impl Memory {
    /// Tensors: PyTorch's `max_memory_allocated`.
    pub const fn allocated(&self) -> u64 {
        self.weights
            + self.gradients
            + self.optimizer
            + self.activations
            + self.logits
            + self.working
            + self.gathered
    }

    /// What the allocator has taken from the driver: PyTorch's `max_memory_reserved`.
    pub const fn reserved(&self) -> u64 {
        self.allocated() + self.fragmentation
    }

    /// All of it.
    pub const fn total(&self) -> u64 {
        self.reserved() + self.buffers + self.context
    }

    /// Whether it fits an accelerator with `capacity` bytes.
    pub const fn fits(&self, capacity: u64) -> bool {
        self.total() <= capacity
    }
}

/// The memory of the fullest rank, with the most host memory of any rank: that may be another rank, because early stages keep more
/// micro-batches. The job must be one that [`crate::check::check`] accepts.
pub fn memory(model: &Model, job: &Job, software: &MemorySoftware) -> Memory {
    let stages = memory_by_stage(model, job, software);
    let host = stages.iter().map(|stage| stage.host).max().unwrap_or_default();
    // The earliest of equal stages.
    let fullest = stages.into_iter().rev().max_by_key(Memory::total).unwrap_or_default();
    Memory { host, ..fullest }
}

/// The memory of a rank of each stage.
pub fn memory_by_stage(model: &Model, job: &Job, software: &MemorySoftware) -> Vec<Memory> {
    let kept = kept_by_chunk(model, job, software);
    (0..)
        .zip(&divide(model, job))
        .map(|(number, blocks)| stage(model, job, software, number, blocks, &kept))
        .collect()
}

/// Bytes of the parameters that the optimizer updates.
const MASTER: f64 = 4.0;

/// Bytes of both moments of Adam for each parameter. Moments in 8 bits have a scale of 4 bytes for each block of 2,048 (Dettmers
/// et al. 2022).
fn moments(job: &Job) -> f64 {
    let scale = if job.moment_bytes == 1 { 4.0 / 2048.0 } else { 0.0 };
    2.0 * (f64::from(job.moment_bytes) + scale)
}

fn stage(
    model: &Model,
    job: &Job,
    software: &MemorySoftware,
    number: u32,
    blocks: &[Block],
    chunks: &[Kept],
) -> Memory {
    let held = Held::of(model, job, blocks);
    let States { weights, gradients, optimizer, gathered, host } = states(model, job, software, held, blocks);
    // Only GPipe computes a forward pass before the loss of the previous micro-batch has gone backward.
    let losses = if job.schedule == Schedule::GPipe { f64::from(job.micro_batches) } else { 1.0 };
    let chunks_of_stage = || places(job, number).map(|place| chunks[place.chunk as usize]);
    let at_once = |bytes: fn(Kept) -> f64, loss: f64| {
        kept_at_once(job, number, &chunks_of_stage().map(bytes).collect::<Vec<f64>>(), loss)
    };
    let logits = losses * chunks_of_stage().map(|chunk| chunk.logits).sum::<f64>();
    let working = chunks_of_stage().map(|chunk| chunk.working).fold(0.0, f64::max);
    let kept = if job.schedule.is_ordered() {
        let bytes: Vec<ChunkBytes> = chunks.iter().map(|chunk| chunk.ordered()).collect();
        peak(job, number, &bytes)
    } else {
        let output = losses * chunks_of_stage().map(|chunk| chunk.output).sum::<f64>();
        at_once(|chunk| chunk.layers, output + logits) + output
    };
    let host = host + at_once(|chunk| chunk.host, 0.0);
    let working = (working - logits).max(0.0);
    let fragmentation = software.fragmentation_in(job) * (kept + logits + working + gathered);
    Memory {
        stage: number,
        weights: bytes(weights),
        gradients: bytes(gradients),
        optimizer: bytes(optimizer),
        activations: bytes(kept),
        logits: bytes(logits),
        working: bytes(working) + software.workspace_bytes,
        gathered: bytes(gathered),
        fragmentation: bytes(fragmentation),
        buffers: software.communicator_bytes * communicators(job),
        context: software.context_bytes,
        host: bytes(host),
    }
}

fn bytes(value: f64) -> u64 {
    value.round() as u64
}

/// Communicators of a rank: one of all ranks, and one for each axis. An all-to-all connects each pair of ranks, so expert
/// parallelism counts once for each peer on the same server; peers on other servers have few channels.
fn communicators(job: &Job) -> u64 {
    let axes = [job.tensor, job.pipeline, job.replicas(), job.context, job.ranks()];
    let rings = axes.iter().filter(|ranks| **ranks > 1).count() as u64;
    let peers = (job.expert * job.expert_tensor.max(1)).saturating_sub(1);
    rings + u64::from(peers.min(SERVER_PEERS))
}

/// Other accelerators on a server of eight.
const SERVER_PEERS: u32 = 7;

/// Bytes that do not depend on the batch.
struct States {
    weights: f64,
    gradients: f64,
    optimizer: f64,
    gathered: f64,
    host: f64,
}

/// Weights, gradients and optimizer states (Rajbhandari et al. 2020, section 5, and figure 1): stage 1 shards optimizer states,
/// stage 2 also gradients, stage 3 also weights.
fn states(model: &Model, job: &Job, software: &MemorySoftware, held: Held, blocks: &[Block]) -> States {
    let all = held.all();
    let part = held.divided(job);
    let divided = part.all();
    let at = |stage: u8| if job.zero >= stage { divided } else { all };
    let gradient = f64::from(job.gradient_bytes);
    let weights = if job.zero < 3 {
        let low_precision_output_layer =
            job.low_precision_output_layer && job.precision.casts() && blocks.contains(&Block::Output);
        let output = if low_precision_output_layer { job.rank_table(model) as f64 } else { 0.0 };
        whole_weights(job, software, held, output)
    } else if software.gathers_from_master && job.adapters.is_none() {
        MASTER * divided
    } else {
        divided_weights(job, part)
    };
    let parameter_bytes = |held: Held| {
        let (dense, experts) = job.gathered_bytes(held);
        dense + experts
    };
    if job.adapters.is_some() {
        let trained = trained(model, job, blocks);
        let trained_part = trained.divided(job).all();
        let trained = trained.all();
        return States {
            weights: weights + ELEMENT * trained,
            gradients: (gradient + f64::from(software.gradient_copy_bytes)) * trained,
            optimizer: (moments(job) + MASTER) * trained_part,
            gathered: if job.zero >= 3 { gathered(model, job, blocks, parameter_bytes).1 } else { 0.0 },
            host: 0.0,
        };
    }
    let unit = || gathered(model, job, blocks, |held| held.all()).0;
    let copy = f64::from(software.gradient_copy_bytes);
    let has_master = job.zero < 3 || !software.gathers_from_master;
    let optimizer = moments(job) + if has_master { MASTER } else { 0.0 };
    let gathered = match job.zero {
        0 | 1 => 0.0,
        2 => gradient * unit(),
        // FSDP in a pipeline keeps a stage's parameters gathered (`reshard_after_forward` off in torchtitan), and sums whole
        // gradients over micro-batches before it reduces them (`unsharded_accumulated_grad`).
        _ if job.pipeline > 1 => parameter_bytes(held) + gradient * all,
        // One unit computes, the next one is on its way; gradients are cast before they are reduced.
        _ => gathered(model, job, blocks, parameter_bytes).1 + (ELEMENT + gradient) * unit(),
    };
    States {
        weights,
        gradients: gradient * at(2) + if job.zero < 2 { copy * all } else { 0.0 },
        optimizer: optimizer * at(1) * (1.0 - job.offload.optimizer),
        gathered,
        // The host has the parameters in 32 bits in any case, and copies of their gradients.
        host: (moments(job) + MASTER + HOST_GRADIENT) * at(1) * job.offload.optimizer,
    }
}

/// The size of the largest unit that ZeRO-3 gathers at once, a layer or a table; and that plus the size of the largest layer.
fn gathered(model: &Model, job: &Job, blocks: &[Block], size: impl Fn(Held) -> f64) -> (f64, f64) {
    let size = |block: &Block| size(Held::of(model, job, std::slice::from_ref(block)));
    let largest = |layers: bool| {
        let among = blocks.iter().filter(|block| !layers || matches!(block, Block::Layer(_)));
        among.map(size).fold(0.0, f64::max)
    };
    (largest(false), largest(false) + largest(true))
}
