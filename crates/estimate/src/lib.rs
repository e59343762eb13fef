//! How long a step of training a language model takes, and how much memory it needs, without a simulation.
//!
//! A simulation follows every message; an estimate adds up the kernels and collectives of one rank in each stage, and executes
//! the schedule of the pipeline. It takes less than a millisecond, so that a search can compare thousands of parallel
//! configurations.
//!
//! Inputs:
//!
//! - [`model`]: the architecture, a decoder with any of today's kinds of attention and experts;
//! - [`job`]: how it is trained: axes of parallelism, batch, precision, recomputation, overlap;
//! - [`machine`]: times of kernels and collectives, which callers supply, and constants of machine and software;
//!   [`measured`]: such times by models of measured kernels and collectives;
//! - [`check`]: jobs that no cluster can run.
//!
//! Time of a step:
//!
//! - [`work`]: the sizes of a layer's kernels and collectives on one rank; [`rotation`]: rotary embedding;
//! - [`layer`]: the time of a layer, forward and backward, from its `kernels`, tensor- and context-parallel `collectives`, and
//!   the `dispatch` of tokens to experts; with `recompute` and `adapters`;
//! - `vocabulary`: the time of embedding, output layer and loss;
//! - [`stages`]: layers divided among the stages of a pipeline;
//! - `micro_batch`: the time of one micro-batch in each chunk; `messages`: its messages between stages;
//! - [`schedule`]: schedules of a pipeline, executed pass by pass;
//! - [`exchange`]: data-parallel collectives, among the groups of `data_parallel`; `zero3` and [`units`]: those of ZeRO-3, unit by
//!   unit;
//! - `optimizer`: the update of parameters; `offload`: copies to host memory and back, and updates by the host;
//! - [`step`]: all of this put together, and where the time goes.
//!
//! Memory:
//!
//! - `held`: how many parameters a rank holds; `parameters`: their types and bytes;
//! - [`activations`]: what a layer keeps of a micro-batch; `kept`: that of each chunk; [`in_flight`]: how many micro-batches keep
//!   it at once;
//! - [`memory_software`]: what frameworks allocate beyond that, and what they keep whole;
//! - [`memory`]: the memory of each stage, by kind.
//!
//! Uses:
//!
//! - [`search`]: the best parallel configurations, by the time of a step;
//! - [`profile`]: the step of one job in detail: passes, memory over the step, communication, kernels;
//! - [`blocks`]: the blocks of a job one by one, for simulations.
//!
//! Sources: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters" (SC21), for the division of
//! layers and the pipeline; Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models" (2022),
//! for sequence parallelism and activations; Rajbhandari et al., "ZeRO" (2020), for the division of states.

pub mod activations;
mod adapters;
pub mod blocks;
pub mod check;
mod collectives;
mod data_parallel;
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
mod optimizer;
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
mod zero3;

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
