//! The search for the best parallel configuration of a model on a number of ranks.

use crate::check::{check, most_offloaded};
use crate::job::{Job, Offload, Overlap, Recompute, Schedule, Split};
use crate::machine::{Cluster, Costs, Software};
use crate::memory::{Memory, memory};
use crate::model::Model;
use crate::stages::{divide_chunks, layers_of};
use crate::step::{Step, estimate};
use serde::Deserialize;
use std::sync::atomic::{AtomicBool, Ordering};

/// The space of a search: what may vary.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Space {
    /// Number of ranks.
    pub ranks: u32,
    /// Global batch, in sequences.
    pub global_batch: u32,
    /// Largest micro-batch.
    pub micro_batch: u32,
    /// Most chunks a stage (virtual pipeline stages).
    pub virtual_stages: u32,
    /// Schedules of a pipeline.
    pub schedules: Vec<Schedule>,
    /// Most context-parallel ranks.
    pub context: u32,
    /// Whether layers may be recomputed.
    pub recompute: bool,
    /// Whether data-parallel ranks may shard parameters (ZeRO-3), without a pipeline.
    pub shard_parameters: bool,
    /// What may be offloaded to host memory.
    #[serde(default)]
    pub offload: Vec<Offloaded>,
    /// Whether configurations with the same axes that differ in chunks, micro-batch, recomputation or offload are returned one
    /// by one; else the fastest one stands for all of them.
    pub variants: bool,
    /// The weight of a second of waiting against a second of computing when configurations are ranked, from 0 to 1: 1 ranks them
    /// by time; the part of its power that an accelerator draws while it waits ranks them by energy.
    pub waiting: f64,
}

/// What a search may move to host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offloaded {
    /// Activations of half of the layers of each chunk, or of as many layers as possible.
    Activations,
    /// Optimizer states, of half of the parameters or of all.
    Optimizer,
}

/// Memory of each accelerator, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Its own memory.
    pub device: u64,
    /// Its part of host memory.
    pub host: u64,
}

impl Capacity {
    fn fits(self, needed: &Memory) -> bool {
        needed.fits(self.device) && needed.host <= self.host
    }
}

/// A parallel configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Its axes, batches and recomputation.
    pub job: Job,
    /// The time of its step.
    pub step: Step,
    /// Memory of the fullest rank.
    pub memory: u64,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Found {
    /// The best candidates that fit, the best one first.
    pub best: Vec<Candidate>,
    /// The candidate that needs the least memory, if none fits.
    pub smallest: Option<(Job, u64)>,
    /// Number of configurations that the model and the batch allow.
    pub possible: usize,
    /// Number of these that fit.
    pub fitting: usize,
}

/// What is searched, and on what.
pub struct Request<'a, C> {
    /// The model.
    pub model: &'a Model,
    /// What does not vary: sequence, precision, overlaps.
    pub base: &'a Job,
    /// What varies.
    pub space: &'a Space,
    /// The cluster.
    pub cluster: Cluster,
    /// The constants of training software.
    pub software: &'a Software,
    /// Times of kernels and collectives.
    pub costs: &'a C,
    /// Memory that a rank may take.
    pub capacity: Capacity,
    /// How many candidates to return.
    pub keep: usize,
    /// Set to true to end the search, which then returns what it has found.
    pub stop: &'a AtomicBool,
}

/// Searches all configurations: tensor parallelism within an NVLink domain, pipelines with one or more chunks a stage,
/// context parallelism, experts over any ranks of a stage, micro-batches of powers of two, with and without recomputation, and
/// with what the space offloads.
///
/// Returns the best candidates that fit; equally good ones in the order of fewer tensor-parallel, then fewer
/// pipeline-parallel ranks.
pub fn search<C: Costs>(request: &Request<'_, C>) -> Found {
    let Request { model, base, space, cluster, software, costs, capacity, keep, stop } = *request;
    let mut found = Found::default();
    let score = |step: &Step| {
        let seconds = step.seconds();
        if space.waiting < 1.0 && seconds.is_finite() { step.weighted(space.waiting) } else { seconds }
    };
    visit(model, base, space, cluster, |job| {
        if stop.load(Ordering::Relaxed) || !check(model, &job).is_empty() {
            return;
        }
        found.possible += 1;
        let needed = memory(model, &job, &software.memory);
        let bytes = needed.total();
        if !capacity.fits(&needed) {
            let first = found.smallest.as_ref().is_none_or(|(_, least)| bytes < *least);
            if first && needed.host <= capacity.host {
                found.smallest = Some((job, bytes));
            }
            return;
        }
        found.fitting += 1;
        let step = estimate(model, &job, cluster, software, costs);
        if !step.seconds().is_finite() {
            return;
        }
        if !space.variants
            && let Some(at) = found.best.iter().position(|each| axes(&each.job) == axes(&job))
        {
            if score(&found.best[at].step) <= score(&step) {
                return;
            }
            found.best.remove(at);
        }
        let reached = score(&step);
        let place = found.best.partition_point(|each| score(&each.step) <= reached);
        if place < keep {
            found.best.insert(place, Candidate { job, step, memory: bytes });
            found.best.truncate(keep);
        }
    });
    if found.fitting > 0 {
        found.smallest = None;
    }
    found
}

/// Visits all configurations that divide ranks, layers and batch.
fn visit(model: &Model, base: &Job, space: &Space, cluster: Cluster, mut visitor: impl FnMut(Job)) {
    let batches: Vec<u32> = (0..=space.micro_batch.max(1).ilog2())
        .map(|power| 1 << power)
        .filter(|&b| b <= space.micro_batch)
        .collect();
    let small = space.ranks <= cluster.domain;
    let whole = |tensor: u32| small || cluster.domain.is_multiple_of(tensor);
    for tensor in divisors(space.ranks).filter(|&tensor| tensor <= cluster.domain && whole(tensor)) {
        for pipeline in divisors(space.ranks / tensor) {
            for context in divisors(space.ranks / tensor / pipeline).filter(|&c| c <= space.context) {
                // Sequence parallelism divides the tokens of a rank among the tensor-parallel ones.
                if !base.sequence.is_multiple_of(u64::from(context * tensor)) {
                    continue;
                }
                let data = space.ranks / tensor / pipeline / context;
                for (schedule, chunks) in schedules(space, pipeline) {
                    let divided = Job {
                        tensor,
                        sequence_parallel: tensor > 1,
                        pipeline,
                        virtual_stages: chunks,
                        schedule,
                        context,
                        data,
                        zero: 1,
                        shard_group: data * context * schedule.ways(),
                        ..base.clone()
                    };
                    for divided in with_splits(model, &divided) {
                        for job in with_experts(model, &divided) {
                            for &micro_batch in &batches {
                                batched(model, &job, space, micro_batch, &mut visitor);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Schedules with the numbers of chunks that each allows; a single one without a pipeline.
fn schedules(space: &Space, pipeline: u32) -> Vec<(Schedule, u32)> {
    if pipeline < 2 {
        return vec![(Schedule::default(), 1)];
    }
    let mut found = Vec::new();
    for &schedule in &space.schedules {
        match schedule.chunks() {
            Some(chunks) => found.push((schedule, chunks)),
            None => found.extend((1..=space.virtual_stages).map(|chunks| (schedule, chunks))),
        }
    }
    found
}

/// The axes of a configuration, and whether parameters are sharded.
const fn axes(job: &Job) -> [u32; 6] {
    [job.tensor, job.pipeline, job.context, job.expert, job.data, job.zero as u32]
}

/// The job with its layers divided among chunks: equally, or with embedding and output layer counted as a layer each. Where
/// neither divides, chunks are as equal as they can be with both ends counted, as Megatron-LM's users write layouts
/// (`--pipeline-model-parallel-layout Et|(tt|)*30L`): the first and the last chunk have fewer layers. Stages that are not
/// interleaved may also have unequal numbers of layers without the ends.
fn with_splits(model: &Model, job: &Job) -> Vec<Job> {
    let layers = model.layers + model.prediction_layers;
    let chunks = job.pipeline * job.virtual_stages;
    let mut found = Vec::with_capacity(2);
    let even = layers.is_multiple_of(chunks);
    if even || (job.virtual_stages == 1 && job.pipeline <= layers) {
        found.push(Job { split: Split::Even, ..job.clone() });
    }
    if job.pipeline < 2 || chunks > layers + 2 {
        return found;
    }
    let ends = Job { split: Split::Ends, ..job.clone() };
    if (layers + 2).is_multiple_of(chunks) {
        found.push(ends);
    } else if !even {
        let chunk_layers = divide_chunks(model, &ends).iter().map(|chunk| layers_of(chunk)).collect();
        found.push(Job { split: Split::Even, chunk_layers, ..ends });
    }
    found
}

/// The job with its experts on any number of ranks of a stage.
fn with_experts(model: &Model, job: &Job) -> Vec<Job> {
    let Some(experts) = model.experts else {
        return vec![Job { expert: 1, expert_tensor: 1, ..job.clone() }];
    };
    let ranks = job.stage_ranks();
    divisors(ranks)
        .filter(|&expert| experts.count.is_multiple_of(u64::from(expert)))
        .map(|expert| Job { expert, expert_tensor: 1, ..job.clone() })
        .collect()
}

/// The job with each micro-batch size, with and without recomputation, sharded parameters and offload.
fn batched(model: &Model, job: &Job, space: &Space, micro_batch: u32, mut visitor: impl FnMut(Job)) {
    let each = job.data * micro_batch;
    if !space.global_batch.is_multiple_of(each) {
        return;
    }
    let micro_batches = space.global_batch / each;
    // Interleaved schedules work on as many micro-batches at a time as there are stages.
    let interleaved = job.virtual_stages > 1 && !job.schedule.is_ordered();
    if interleaved && !micro_batches.is_multiple_of(job.pipeline) {
        return;
    }
    for recompute in [Recompute::None, Recompute::Full] {
        if recompute == Recompute::Full && !space.recompute {
            continue;
        }
        for offload in offloads(model, job, space) {
            let overlap = Overlap { optimizer: offload.optimizer > 0.0, ..job.overlap };
            let job = Job { micro_batch, micro_batches, recompute, offload, overlap, ..job.clone() };
            if space.shard_parameters && job.pipeline == 1 && job.data * job.context > 1 {
                visitor(Job { zero: 3, ..job.clone() });
            }
            visitor(job);
        }
    }
}

/// What a job may have in host memory: nothing first.
fn offloads(model: &Model, job: &Job, space: &Space) -> Vec<Offload> {
    let most = most_offloaded(model, job);
    let mut layers = vec![0];
    if space.offload.contains(&Offloaded::Activations) {
        layers.extend([most / 2, most]);
        layers.dedup();
    }
    let states = if space.offload.contains(&Offloaded::Optimizer) { &[0.0, 0.5, 1.0][..] } else { &[0.0] };
    let with =
        |layers| states.iter().map(move |&optimizer| Offload { layers, optimizer, ..Offload::default() });
    layers.into_iter().flat_map(with).collect()
}

fn divisors(whole: u32) -> impl Iterator<Item = u32> {
    (1..=whole).filter(move |each| whole.is_multiple_of(*each))
}
