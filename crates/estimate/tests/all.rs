//! Steps by hand: with kernels and collectives whose times are simple, a step is a closed form.

#![expect(clippy::float_cmp, reason = "sums of few whole numbers are exact")]

mod adapters;
mod bf16_layers;
mod experts;
mod fixtures;
mod memory;
mod models;
mod offload;
mod parallel;
mod parameters;
mod pipelines;
mod profile;
mod recompute;
mod rotation;
mod schedules;
mod units;
mod work;

use fixtures::{BARE, Counting, PLAIN, SERVERS, gpt, gpt3, llama, routed, single};
