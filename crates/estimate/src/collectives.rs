//! Tensor-parallel and context-parallel collectives of a layer.

use crate::job::ContextMethod;
use crate::layer::Setting;
use crate::machine::{Collective, Costs, Group};
use crate::work::LayerWork;

impl<C: Costs> Setting<'_, C> {
    /// Collectives of tensor parallelism in one pass: an all-gather and a reduce-scatter, or an all-reduce, around
    /// attention and around the feed-forward block (Korthikanti et al. 2022, 4.2.2).
    pub(crate) fn tensor(&self, work: &LayerWork) -> f64 {
        self.around_block(work) + self.tensor_pair()
    }

    /// Those around the feed-forward block. Experts take the tokens as they are divided: nothing is gathered around them before
    /// their dispatch.
    pub(crate) fn around_block(&self, work: &LayerWork) -> f64 {
        let alone =
            work.expert_parameters > 0 && self.model.experts.is_none_or(|experts| experts.shared_ffn == 0);
        if alone { 0.0 } else { self.tensor_pair() }
    }

    /// The exposed time in which ranks gather the inputs of a block, and reduce its outputs.
    fn tensor_pair(&self) -> f64 {
        let exposed = if self.job.overlap.tensor { self.software.tensor_exposed } else { 1.0 };
        exposed
            * if self.job.sequence_parallel {
                self.tokens_of(Collective::AllGather) + self.tokens_of(Collective::ReduceScatter)
            } else {
                self.tokens_of(Collective::AllReduce)
            }
    }

    /// A collective of the tokens of a micro-batch among tensor-parallel ranks.
    pub(crate) fn tokens_of(&self, collective: Collective) -> f64 {
        self.among_tensor(collective, self.job.tokens() * self.model.hidden * 2)
    }

    /// Queries, keys and values of all tensor-parallel ranks, where these are more than the heads of keys; backward, their
    /// gradients.
    pub(crate) fn heads(&self, work: &LayerWork, collective: Collective) -> f64 {
        if work.heads_bytes == 0 { 0.0 } else { self.among_tensor(collective, work.heads_bytes) }
    }

    fn among_tensor(&self, collective: Collective, bytes: u64) -> f64 {
        if self.job.tensor < 2 {
            return 0.0;
        }
        let group = Group::strided(self.job.tensor, 1, self.domain());
        self.costs.collective(collective, bytes as f64, group)
    }

    /// The exposed time of communication among context-parallel ranks, around attention that takes `attention` seconds.
    pub(crate) fn context(&self, work: &LayerWork, attention: f64, backward: bool) -> f64 {
        let (job, Some(shape)) = (self.job, work.attention) else { return 0.0 };
        if job.context < 2 {
            return 0.0;
        }
        let (tokens, key_dim, value_dim) = (job.tokens(), shape.key_dim, shape.value_dim);
        let keys = 2.0 * (tokens * shape.kv_heads * (key_dim + value_dim)) as f64;
        let group = Group::strided(job.context, job.tensor, self.domain());
        let among = |collective, bytes: f64| self.costs.collective(collective, bytes, group);
        let gathered = keys * f64::from(job.context);
        match job.context_method {
            ContextMethod::Ring => {
                // Keys and values go around while a rank computes with those that it has, backward with their gradients.
                let times = if backward { 2.0 } else { 1.0 };
                let seconds = among(Collective::AllGather, times * gathered);
                // The first of the parts has its keys already, and nothing to hide behind.
                let hidden = attention * f64::from(job.context - 1) / f64::from(job.context);
                (seconds - hidden).max(seconds / f64::from(job.context))
            }
            ContextMethod::AllGather if backward => {
                among(Collective::AllGather, gathered) + among(Collective::ReduceScatter, gathered)
            }
            ContextMethod::AllGather => among(Collective::AllGather, gathered),
            ContextMethod::Ulysses => {
                // Queries, keys and values before attention, and outputs after it; backward, their gradients.
                let queries = 2.0 * (tokens * shape.heads * key_dim) as f64;
                let outputs = 2.0 * (tokens * shape.heads * value_dim) as f64;
                among(Collective::AllToAll, queries + keys) + among(Collective::AllToAll, outputs)
            }
        }
    }
}
