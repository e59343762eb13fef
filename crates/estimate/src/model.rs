//! The architecture of a decoder.

use crate::job::Routing;
use crate::work::ranks_of;
use serde::Deserialize;

/// A decoder-only language model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Elements of a token between layers.
    pub hidden: u64,
    /// Layers, without those of multi-token prediction.
    pub layers: u32,
    /// Heads of queries.
    pub heads: u64,
    /// Heads of keys and values.
    pub kv_heads: u64,
    /// Elements of a head.
    pub head_dim: u64,
    /// Elements between the two products of a dense feed-forward block.
    pub ffn: u64,
    /// Whether that block multiplies by a gate, as `SwiGLU` does: three matrices in place of two.
    pub gated: bool,
    /// Different tokens.
    pub vocab: u64,
    /// Whether the output layer uses the table of the embedding.
    pub tied: bool,
    /// Whether positions are rotated into queries and keys.
    pub rotary: bool,
    /// Whether `YaRN` stretches these rotations to longer sequences, and scales queries and keys with them (Peng et al. 2023, 3.4).
    #[serde(default)]
    pub yarn: bool,
    /// Whether dropout follows attention and feed-forward block.
    pub dropout: bool,
    /// The kind of attention.
    pub attention: Attention,
    /// Experts, in layers that have them.
    #[serde(default)]
    pub experts: Option<Experts>,
    /// Whether experts have biases, and limits to the inputs of their activations, as those of GPT-OSS.
    #[serde(default)]
    pub biased_experts: bool,
    /// Layers for multi-token prediction (DeepSeek-V3), each with a loss of its own.
    #[serde(default)]
    pub prediction_layers: u32,
}

/// What a token attends to.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Attention {
    /// All earlier tokens.
    Full,
    /// The last `tokens` ones, except in every `full_every`-th layer, if that is not 0.
    Window {
        /// Size of the window.
        tokens: u64,
        /// Each layer of this number attends to all tokens.
        full_every: u32,
    },
    /// All earlier tokens, whose keys and values are compressed (multi-head latent attention).
    Latent(Latent),
}

/// Sizes of multi-head latent attention (DeepSeek-V2, section 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latent {
    /// Rank of the compressed queries; 0 if queries are not compressed.
    pub query_rank: u64,
    /// Rank of the compressed keys and values.
    pub kv_rank: u64,
    /// Elements of a head of queries and keys without position.
    pub nope_dim: u64,
    /// Elements of a head with position, which all heads of keys share.
    pub rope_dim: u64,
    /// Elements of a head of values.
    pub value_dim: u64,
}

/// A mixture of experts in place of the dense feed-forward block.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experts {
    /// Experts of a layer.
    pub count: u64,
    /// Experts that a token goes to.
    pub top_k: u64,
    /// Elements between the two products of an expert.
    pub ffn: u64,
    /// The same for the part that all tokens go to; 0 if there is none.
    pub shared_ffn: u64,
    /// Layers at the beginning that have none.
    pub dense_layers: u32,
    /// Afterwards, each layer of this number has experts: 1 for all.
    pub every: u32,
    /// Groups into which experts are divided, of which a token chooses some before it chooses experts in these.
    #[serde(default = "Experts::one_group")]
    pub groups: u64,
    /// How many groups a token chooses: its experts are in these.
    #[serde(default = "Experts::one_group")]
    pub top_groups: u64,
}

impl Experts {
    const fn one_group() -> u64 {
        1
    }

    /// The number of places with experts of a token, where each place has `local` experts, one after the other.
    ///
    /// A token chooses `top_groups` groups, and its experts in these (DeepSeek-V3 report, 2.1.2). Places are parts of groups,
    /// or have several of them, each of which has then one of the token's experts at least.
    pub fn places(&self, local: u64, routing: Routing) -> f64 {
        if routing == Routing::Consecutive {
            // Of two divisions of the experts, by tokens and by places, each new border is one more place of a token. One that starts
            // and ends in the same place, after the last expert, reaches all.
            let (tokens, places) = (self.top_k as f64, local as f64);
            let reached = 1.0 + tokens / places - tokens / lcm(self.top_k, local) as f64;
            return reached.min((self.count / local) as f64);
        }
        let each = self.count / self.groups;
        if local <= each {
            ranks_of(each * self.top_groups, local, self.top_k)
        } else {
            ranks_of(self.groups, local / each, self.top_groups)
        }
    }
}

/// Least common multiple of two numbers from 1.
const fn lcm(a: u64, b: u64) -> u64 {
    let (mut divisor, mut rest) = (a, b);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    a / divisor * b
}

impl Model {
    /// Whether a layer has experts.
    pub fn has_experts(&self, layer: u32) -> bool {
        self.experts.is_some_and(|experts| {
            layer >= experts.dense_layers && (experts.every < 2 || (layer + 1).is_multiple_of(experts.every))
        })
    }

    /// The number of earlier tokens that a token of a layer attends to at most; nothing if there is no limit.
    pub fn window(&self, layer: u32) -> Option<u64> {
        match self.attention {
            Attention::Window { tokens, full_every }
                if full_every == 0 || !(layer + 1).is_multiple_of(full_every) =>
            {
                Some(tokens)
            }
            _ => None,
        }
    }

    /// Matrices of a feed-forward block.
    pub const fn ffn_matrices(&self) -> u64 {
        if self.gated { 3 } else { 2 }
    }

    /// Parameters of the attention of a layer.
    pub const fn attention_parameters(&self) -> u64 {
        match self.attention {
            Attention::Latent(latent) => {
                let key = latent.nope_dim + latent.rope_dim;
                let queries = if latent.query_rank > 0 {
                    self.hidden * latent.query_rank + latent.query_rank * self.heads * key
                } else {
                    self.hidden * self.heads * key
                };
                queries
                    + self.hidden * (latent.kv_rank + latent.rope_dim)
                    + latent.kv_rank * self.heads * (latent.nope_dim + latent.value_dim)
                    + self.heads * latent.value_dim * self.hidden
            }
            Attention::Full | Attention::Window { .. } => {
                self.hidden * self.head_dim * 2 * (self.heads + self.kv_heads)
            }
        }
    }

    /// Parameters of a layer that tensor-parallel ranks divide: attention, and a dense or shared feed-forward block.
    pub fn dense_parameters(&self, experts: bool) -> u64 {
        let ffn = match (experts, self.experts) {
            (true, Some(experts)) => experts.shared_ffn,
            _ => self.ffn,
        };
        self.attention_parameters() + self.ffn_matrices() * self.hidden * ffn
    }

    /// Parameters of a layer, without those of experts and norms, that each of `tensor` ranks holds. Ranks do not divide the
    /// compressing layers of latent attention, and the router.
    pub fn rank_parameters(&self, experts: bool, tensor: u64) -> u64 {
        let compressing = match self.attention {
            Attention::Latent(latent) => self.hidden * (latent.query_rank + latent.kv_rank + latent.rope_dim),
            Attention::Full | Attention::Window { .. } => 0,
        };
        let router = if experts { self.router_parameters() } else { 0 };
        let divided = self.dense_parameters(experts) - compressing;
        divided / tensor + compressing + router
    }

    /// Parameters of the router of a layer with experts.
    pub fn router_parameters(&self) -> u64 {
        self.experts.map_or(0, |experts| experts.count * self.hidden)
    }

    /// Parameters of a product that joins the embedding of the next token with what a layer of multi-token prediction takes
    /// (`M` in equation 21 of the DeepSeek-V3 report).
    pub const fn joining_parameters(&self) -> u64 {
        2 * self.hidden * self.hidden
    }

    /// Parameters of all experts of a layer.
    pub fn expert_parameters(&self) -> u64 {
        self.experts.map_or(0, |experts| self.ffn_matrices() * self.hidden * experts.ffn * experts.count)
    }

    /// Parameters of a table of tokens.
    pub const fn table_parameters(&self) -> u64 {
        self.vocab * self.hidden
    }

    /// All parameters, without those of norms, biases and learned positions.
    pub fn parameters(&self) -> u64 {
        let layer = |layer: u32| {
            let experts = self.has_experts(layer);
            let routed = if experts { self.expert_parameters() + self.router_parameters() } else { 0 };
            self.dense_parameters(experts) + routed
        };
        let tables = if self.tied { 1 } else { 2 };
        (0..self.layers).map(layer).sum::<u64>() + tables * self.table_parameters()
    }
}
