//! How long a step of training a language model takes, and how much memory it needs, without a simulation.
//!
//! A simulation follows every message; an estimate adds up the kernels and collectives of one rank in each stage, and executes
//! the schedule of the pipeline. It takes less than a millisecond, so that a search can compare thousands of parallel
//! configurations.
//!
//! - [`model`]: the architecture: a decoder with any of today's kinds of attention and experts;
//! - [`job`]: how it is trained: axes of parallelism, batch, precision, recomputation, what overlaps;
//! - [`machine`]: what kernels and collectives take, which callers supply, and the constants of machine and software;
//! - [`work`]: the kernels of a layer on one rank;
//! - [`layer`]: the time of a layer, forward and backward: `kernels`, and `dispatch` of tokens to experts;
//! - `collectives`: collectives of tensor and context parallelism that a layer waits for;
//! - `adapters`: products and traffic of adapters beside frozen products;
//! - `recompute`: what parts of a layer take if the backward pass computes them again;
//! - `vocabulary`: the time of embedding, output layer and loss;
//! - [`stages`]: layers divided among the stages of a pipeline;
//! - `micro_batch`: the time of one micro-batch in each chunk, and `messages`: that of its messages between stages;
//! - [`schedule`]: schedules of a pipeline: their orders, executed;
//! - `held`: how many parameters a rank holds, and `parameters`: their types and bytes;
//! - [`exchange`]: gradients and parameters among data-parallel ranks; [`units`]: those of ZeRO-3, executed;
//! - [`step`]: all of this put together, and where the time goes;
//! - [`measured`]: costs of kernels and collectives by fitted models of measured ones;
//! - [`blocks`]: the blocks of a job one by one, for simulations;
//! - [`profile`]: the step of one job in detail: turns, memory over the step, communication, kernels;
//! - [`search`]: the best parallel configurations, by the time of a step;
//! - [`memory`]: the memory of each stage by kind, of which [`activations`] is the part that grows with the batch;
//! - [`memory_software`]: what frameworks allocate beyond that, and what they keep whole;
//! - `kept`: these activations, added up for each chunk of layers; [`in_flight`]: how many micro-batches keep them at once;
//! - `offload`: copies to host memory and back, and updates that the host computes;
//! - [`check`]: jobs that no cluster can run.
//!
//! Sources: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters" (SC21), for the division of
//! layers and the pipeline; Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models" (2022),
//! for sequence parallelism and activations; Rajbhandari et al., "ZeRO" (2020), for the division of states.

pub mod activations;
mod adapters;
pub mod blocks;
pub mod check;
mod collectives;
mod dispatch;
pub mod exchange;
mod held;
pub mod in_flight;
pub mod job;
mod kept;
mod kernels;
pub mod layer;
pub mod machine;
pub mod measured;
pub mod memory;
pub mod memory_software;
mod messages;
mod micro_batch;
pub mod model;
mod offload;
mod parameters;
pub mod profile;
mod recompute;
pub mod rotation;
pub mod schedule;
pub mod search;
pub mod stages;
pub mod step;
pub mod units;
mod vocabulary;
pub mod work;

pub use blocks::{Blocks, blocks};
pub use job::{
    Adapted, ContextMethod, Dispatcher, ExpertAdapters, Graphs, Input, Job, Module, Offload, Overlap,
    Precision, Recompute, RecomputeMethod, Routing, Schedule, Set, Split,
};
pub use machine::{Cluster, Collective, Costs, Group, Host, Product, Software, TokenKernels};
pub use measured::Measured;
pub use memory::{Memory, memory, memory_by_stage};
pub use memory_software::MemorySoftware;
pub use model::{Attention, Experts, Latent, Model};
pub use profile::{Profile, profile};
pub use step::{Step, estimate};
