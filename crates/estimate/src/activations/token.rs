//! Bytes of the tensors of one token in a layer on one rank.

use crate::adapters::is_adapted;
use crate::job::{ContextMethod, ELEMENT, Input, Job, Module, Set};
use crate::memory_software::MemorySoftware;
use crate::model::{Attention, Model};
use crate::work::{LayerWork, Part};

/// Bytes of an element of a query, key or value in FP8.
const FP8_BYTES: f64 = 1.0;

/// Tensor-parallel ranks among which sequence parallelism divides the values between linear layers.
pub(super) fn parts(job: &Job) -> f64 {
    if job.sequence_parallel { f64::from(job.tensor) } else { 1.0 }
}

/// Bytes of an element of the input that a linear layer keeps: in the type in which it multiplies, if it keeps a cast copy.
/// Adapters multiply in 16 bits, and frozen layers keep no copy.
fn operand_bytes(job: &Job, software: &MemorySoftware) -> f64 {
    if keeps_copies(job, software) { job.precision.bytes() } else { ELEMENT }
}

/// Whether linear layers keep cast copies of their inputs.
const fn keeps_copies(job: &Job, software: &MemorySoftware) -> bool {
    software.keeps_casts && job.precision.casts() && job.adapters.is_none()
}

/// Bytes of the tensors of one token.
#[derive(Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) model: &'a Model,
    pub(super) job: &'a Job,
    pub(super) software: &'a MemorySoftware,
    /// Modules whose activations are recomputed, not kept.
    pub(super) recomputed: Set<Module>,
}

impl Token<'_> {
    /// A hidden vector between linear layers.
    pub(super) fn between(self) -> f64 {
        ELEMENT * self.model.hidden as f64 / parts(self.job)
    }

    /// The input of a linear layer behind a norm: divided by sequence parallelism, or gathered.
    fn product_input(self) -> f64 {
        let bytes = operand_bytes(self.job, self.software) * self.model.hidden as f64;
        let whole = if self.job.sequence_parallel { self.software.whole_inputs } else { 1.0 };
        bytes * whole + bytes * (1.0 - whole) / parts(self.job)
    }

    /// Whether the input of a linear layer is kept: for the gradients of its weights, or of its adapter's. Transformer Engine and
    /// PyTorch keep no input of a frozen layer (`backward_needs_input` in `module/linear.py`).
    const fn keeps_input(self, part: Part) -> bool {
        self.job.adapters.is_none() || is_adapted(self.job, part)
    }

    /// Around a block: the input of its norm, the output of the norm if a linear layer keeps it, and the mask of its dropout.
    fn block(self, kept: bool) -> f64 {
        let mask = if self.model.dropout { self.model.hidden as f64 / parts(self.job) } else { 0.0 };
        let input = if !kept || self.recomputed.has(Module::Layernorm) { 0.0 } else { self.product_input() };
        self.between() + input + mask
    }

    /// Heads of this rank: query heads, and KV heads.
    fn heads(self) -> (f64, f64) {
        let tensor = f64::from(self.job.tensor);
        ((self.model.heads as f64 / tensor).max(1.0), (self.model.kv_heads as f64 / tensor).max(1.0))
    }

    /// The output of attention, which is the input of the next linear layer, and the log-sum-exp of fused attention.
    pub(super) fn attention_output(self) -> f64 {
        // The next linear layer keeps a cast copy of its own.
        let copy = if keeps_copies(self.job, self.software) { self.job.precision.bytes() } else { 0.0 };
        let computed = self.recomputed.has(Module::CoreAttention);
        let logarithms = if self.job.fused_attention && !computed { 4.0 } else { 0.0 };
        (ELEMENT + copy) * self.attention_elements() + self.heads().0 * logarithms
    }

    /// Probabilities of attention that is not fused; with dropout, its mask and its output too.
    fn scores(self) -> f64 {
        if self.job.fused_attention || self.recomputed.has(Module::CoreAttention) {
            return 0.0;
        }
        let bytes = if self.model.dropout { 5.0 } else { 2.0 };
        bytes * self.heads().0 * self.job.sequence as f64
    }

    pub(super) fn attention(self) -> f64 {
        // Compressed queries, keys and values, before and after their norms.
        let compressed = match self.model.attention {
            Attention::Full | Attention::Window { .. } => 0.0,
            Attention::Latent(latent) => {
                2.0 * (latent.query_rank + latent.kv_rank) as f64 + latent.rope_dim as f64
            }
        };
        self.block(true)
            + ELEMENT * compressed / parts(self.job)
            + self.queries_keys_values()
            + self.attention_output()
            + self.scores()
    }

    /// Queries, keys and values. Latent attention keeps a copy of keys with rotary embedding.
    fn queries_keys_values(self) -> f64 {
        let (heads, kv_heads) = self.heads();
        // FP8 attention keeps cast copies, and not what was cast.
        let each = if self.job.fp8_attention { FP8_BYTES } else { ELEMENT };
        match self.model.attention {
            Attention::Full | Attention::Window { .. } => {
                each * self.model.head_dim as f64 * (heads + 2.0 * kv_heads)
            }
            Attention::Latent(_) if self.recomputed.has(Module::MlaUpProj) => 0.0,
            Attention::Latent(latent) => {
                let key = (latent.nope_dim + latent.rope_dim) as f64;
                let (nope, value) = (latent.nope_dim as f64, latent.value_dim as f64);
                if self.job.fp8_attention {
                    return each * heads * (2.0 * key + value);
                }
                each * heads * (2.0 * key + nope + value)
            }
        }
    }

    /// Inputs of modules that are offloaded to host memory.
    pub(super) fn offloaded(self, has_experts: bool) -> f64 {
        let bytes = |module: Input| match module {
            Input::AttnNorm | Input::MlpNorm => self.between(),
            Input::QkvLinear if self.recomputed.has(Module::Layernorm) => 0.0,
            Input::QkvLinear => self.product_input(),
            Input::CoreAttention => self.queries_keys_values(),
            Input::AttnProj if !self.keeps_input(Part::AttentionOutput) => 0.0,
            Input::AttnProj => {
                // The copy that the linear layer keeps. In 16 bits, that is the output of attention itself.
                operand_bytes(self.job, self.software) * self.attention_elements()
            }
            Input::ExpertFc1 | Input::MoeAct if !has_experts || self.recomputed.has(Module::Moe) => 0.0,
            Input::ExpertFc1 if !self.keeps_input(Part::Experts) => 0.0,
            Input::ExpertFc1 => self.routed() * ELEMENT * self.model.hidden as f64,
            Input::MoeAct => {
                let elements = self.expert_elements();
                self.routed() * self.before_activation(elements)
            }
        };
        self.job.offload.modules.iter().map(bytes).sum()
    }

    /// Elements of attention's output.
    fn attention_elements(self) -> f64 {
        let value = match self.model.attention {
            Attention::Latent(latent) => latent.value_dim,
            Attention::Full | Attention::Window { .. } => self.model.head_dim,
        };
        self.heads().0 * value as f64
    }

    /// What the weight gradients of a layer need: 32 `s b h` bytes in a GPT layer (Qi et al. 2024, 2.2). With sequence parallelism,
    /// inputs behind a norm are kept divided, as in the forward pass.
    pub(super) fn products(self, work: &LayerWork) -> f64 {
        if self.job.adapters.is_some() {
            return 0.0;
        }
        let each = operand_bytes(self.job, self.software);
        let hidden = self.model.hidden;
        let linears = work.linears.iter().map(|linear| {
            let divided = linear.groups == 1 && linear.inputs == hidden;
            let inputs = if divided { self.product_input() } else { each * linear.inputs as f64 };
            (linear.tokens * linear.groups) as f64 * (inputs + each * linear.outputs as f64)
        });
        linears.sum()
    }

    /// The input of the second linear layer of a block, if it is kept.
    fn activated(self, elements: f64, part: Part) -> f64 {
        if self.keeps_input(part) { operand_bytes(self.job, self.software) * elements } else { 0.0 }
    }

    /// Outputs of the first linear layer of a block, which the activation function keeps.
    fn before_activation(self, elements: f64) -> f64 {
        let each = match (self.model.gated, self.software.fused_gate) {
            (false, _) => 1.0,
            (true, true) => 2.0,
            (true, false) => 3.0,
        };
        each * ELEMENT * elements
    }

    /// Outputs of the first linear layer of a block, and the input of the second.
    fn expanded(self, elements: f64, part: Part) -> f64 {
        self.before_activation(elements) + self.activated(elements, part)
    }

    pub(super) fn feed_forward(self, has_experts: bool) -> f64 {
        let tensor = f64::from(self.job.tensor);
        match self.model.experts {
            Some(experts) if has_experts => {
                // The router has no adapter.
                let shares = experts.shared_ffn > 0 && self.keeps_input(Part::Shared);
                let block = self.block(self.job.adapters.is_none() || shares);
                if self.recomputed.has(Module::Moe) {
                    return block;
                }
                let elements = self.expert_elements();
                let again = self.recomputed.has(Module::MoeAct);
                let activated = if again { 0.0 } else { self.activated(elements, Part::Experts) };
                let shared =
                    if self.recomputed.has(Module::SharedExperts) { 0.0 } else { experts.shared_ffn as f64 };
                // Inputs in the order of experts, outputs before they are weighted; the router's scores and weights.
                let hidden = self.model.hidden as f64;
                let outputs = if self.software.keeps_expert_outputs { ELEMENT * hidden } else { 0.0 };
                let inputs = self.activated(hidden, Part::Experts);
                let routed = inputs + outputs + self.before_activation(elements) + activated;
                block
                    + self.expanded(shared / tensor, Part::Shared)
                    + self.routed() * routed
                    + 2.0 * 4.0 * experts.count as f64 / tensor
            }
            _ => {
                let block = self.block(self.keeps_input(Part::Dense));
                let again = self.recomputed.has(Module::Mlp);
                let expanded = self.expanded(self.model.ffn as f64 / tensor, Part::Dense);
                block + if again { 0.0 } else { expanded }
            }
        }
    }

    /// Copies of a token that the experts of the most loaded rank receive, on average.
    fn routed(self) -> f64 {
        let job = self.job;
        let copies = self.model.experts.map_or(0.0, |experts| experts.top_k as f64);
        job.expert_load * copies * f64::from(job.expert_tensor.max(1)) / f64::from(job.tensor)
    }

    fn expert_elements(self) -> f64 {
        self.model.experts.map_or(0.0, |experts| experts.ffn as f64)
            / f64::from(self.job.expert_tensor.max(1))
    }

    /// Working memory: gradients around the second linear layer of the feed-forward block, where most exist at once; the gradient
    /// of the layer's output and the input of its first linear layer, both gathered; keys and values of other context-parallel
    /// ranks.
    pub(super) fn working(self, has_experts: bool) -> f64 {
        let matrices = self.model.ffn_matrices() as f64;
        let hidden = self.model.hidden as f64;
        let block = if has_experts {
            self.routed() * ELEMENT * (2.0 * hidden + matrices * self.expert_elements())
        } else {
            ELEMENT * matrices * self.model.ffn as f64 / f64::from(self.job.tensor)
        };
        let keys = if self.job.context < 2 {
            0.0
        } else if self.job.context_method == ContextMethod::Ulysses {
            // The same elements as a rank's own, and their gradients.
            2.0 * self.queries_keys_values()
        } else {
            let (heads, kv_heads) = self.heads();
            let ranks = match self.job.context_method {
                ContextMethod::AllGather => f64::from(self.job.context),
                ContextMethod::Ring | ContextMethod::Ulysses => 1.0,
            };
            2.0 * ELEMENT
                * ranks
                * match self.model.attention {
                    Attention::Latent(latent) => {
                        heads * (latent.nope_dim + latent.rope_dim + latent.value_dim) as f64
                    }
                    Attention::Full | Attention::Window { .. } => 2.0 * kv_heads * self.model.head_dim as f64,
                }
        };
        block + 2.0 * ELEMENT * hidden + keys
    }
}
