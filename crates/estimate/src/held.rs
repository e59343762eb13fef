//! The number of parameters that a rank holds of some blocks of the model.

use crate::job::Job;
use crate::model::Model;
use crate::stages::Block;

/// Numbers of parameters on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub(crate) struct Held {
    /// Parameters of all but experts.
    pub(crate) dense: f64,
    /// Parameters of experts.
    pub(crate) experts: f64,
    /// Part of `dense`: parameters of linear layers that multiply in 8 or 4 bits.
    pub(crate) low_precision: f64,
    /// Part of `experts`: the same.
    pub(crate) low_precision_experts: f64,
}

impl Held {
    /// All parameters.
    pub(crate) fn all(&self) -> f64 {
        self.dense + self.experts
    }

    /// The parameters of a stage with these blocks.
    pub(crate) fn of(model: &Model, job: &Job, blocks: &[Block]) -> Self {
        let tensor = f64::from(job.tensor);
        let low_precision = job.precision.casts();
        let layers = [false, true].map(|experts| LayerParameters::of(model, job, experts));
        let mut held = Self::default();
        for block in blocks {
            match *block {
                Block::Embedding => held.dense += job.rank_table(model) as f64,
                Block::Output => {
                    // A stage has tied embeddings once.
                    if !(model.tied && (job.pipeline == 1 || blocks.contains(&Block::Embedding))) {
                        held.dense += job.rank_table(model) as f64;
                    }
                    let joining = model.joining_parameters() as f64 / tensor;
                    held.add(f64::from(model.prediction_layers) * joining, 0.0, low_precision);
                }
                Block::Layer(number) => {
                    // Layers of multi-token prediction are like the last layer.
                    let experts = model.has_experts(number.min(model.layers - 1));
                    let LayerParameters { router, linear, routed } = layers[usize::from(experts)];
                    held.dense += router;
                    held.add(linear, routed, low_precision && !job.is_bf16(model, number));
                }
            }
        }
        held
    }

    /// The part of a rank if ZeRO shards them.
    pub(crate) fn divided(self, job: &Job) -> Self {
        let (dense, experts) = job.shares();
        Self {
            dense: self.dense / dense,
            experts: self.experts / experts,
            low_precision: self.low_precision / dense,
            low_precision_experts: self.low_precision_experts / experts,
        }
    }

    /// The one of two with more parameters; the first if both have as many.
    pub(crate) fn larger(self, other: Self) -> Self {
        if other.all() > self.all() { other } else { self }
    }

    /// Adds parameters of linear layers.
    fn add(&mut self, dense: f64, experts: f64, low_precision: bool) {
        self.dense += dense;
        self.experts += experts;
        if low_precision {
            self.low_precision += dense;
            self.low_precision_experts += experts;
        }
    }
}

/// Parameters of a layer on one rank.
#[derive(Clone, Copy)]
struct LayerParameters {
    router: f64,
    /// All other linear layers but experts.
    linear: f64,
    /// Experts.
    routed: f64,
}

impl LayerParameters {
    /// The parameters of a layer with experts, or of one without.
    fn of(model: &Model, job: &Job, experts: bool) -> Self {
        let router = if experts { model.router_parameters() } else { 0 };
        let routed = if experts { model.expert_parameters() as f64 } else { 0.0 };
        Self {
            router: router as f64,
            linear: (model.rank_parameters(experts, u64::from(job.tensor)) - router) as f64,
            routed: routed / f64::from(job.expert * job.expert_tensor),
        }
    }
}

impl Job {
    /// Numbers of shards of optimizer states: of all parameters but experts, and of experts.
    pub(crate) fn shares(&self) -> (f64, f64) {
        if self.zero == 0 {
            return (1.0, 1.0);
        }
        (f64::from(self.shard_group.min(self.replicas()).max(1)), f64::from(self.expert_replicas()))
    }
}
