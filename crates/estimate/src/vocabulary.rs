//! The time of the layers of the vocabulary: embedding, output layer with the loss, and the product in front of layers of
//! multi-token prediction.

use crate::job::Precision;
use crate::layer::Setting;
use crate::machine::{Collective, Costs, Product};
use crate::work::{Linear, Part, cast_bytes};

/// Times of the layers of the vocabulary for one micro-batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vocabulary {
    pub(crate) embedding: VocabularyLayer,
    /// The output layer, with the loss.
    pub(crate) output: VocabularyLayer,
    /// The product that joins two tokens, which each layer of multi-token prediction has beside a layer and an output layer.
    pub(crate) joining: VocabularyLayer,
}

/// Times of one of them, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub(crate) struct VocabularyLayer {
    /// Forward and backward pass.
    pub(crate) seconds: f64,
    /// Of these, the forward pass.
    pub(crate) forward: f64,
    /// Of these, the gradients of weights.
    pub(crate) weight: f64,
    /// Collectives of tensor parallelism, forward and backward, in addition.
    pub(crate) tensor: [f64; 2],
}

impl VocabularyLayer {
    /// Seconds of the forward pass, of both passes, and of the gradients of weights, with collectives, for `times` such layers.
    pub(crate) fn passes(&self, times: f64) -> [f64; 3] {
        let [forward, backward] = self.tensor;
        [self.forward + forward, self.seconds + forward + backward, self.weight].map(|each| each * times)
    }
}

impl<C: Costs> Setting<'_, C> {
    /// Bytes that the loss and its gradient move, with casts of the inputs and gradients of logits as those of layers.
    pub(crate) fn logit_bytes(&self, precision: Precision, tokens: u64, vocab: u64) -> f64 {
        let elements = if precision.casts() { tokens * (self.model.hidden + vocab) } else { 0 };
        let cast = cast_bytes(self.job) * elements as f64;
        self.software.logit_bytes * (tokens * vocab) as f64 + self.software.element_wise * cast
    }

    /// The layers of the vocabulary for one micro-batch.
    pub(crate) fn vocabulary(&self) -> Vocabulary {
        let (job, tokens) = (self.job, self.job.tokens());
        let vocab = job.rank_vocab(self.model);
        let hidden = self.model.hidden;
        let precision = job.output_precision();
        let product = |product, m, n, k| self.product_of(product, precision, m, n, k);
        let logits = self.costs.memory(self.logit_bytes(precision, tokens, vocab));
        let forward = product(Product::Forward, tokens, vocab, hidden);
        let mut output = logits + forward + product(Product::InputGradient, tokens, hidden, vocab);
        let mut weight = 0.0;
        if job.adapters.is_none() {
            weight =
                product(Product::WeightGradient, vocab, hidden, tokens) + self.accumulation(vocab * hidden);
            output += weight;
        }
        let joining = self.joining();
        let joined = |product| self.product(product, &joining);
        let mut joining_s = joined(Product::Forward) + joined(Product::InputGradient);
        let mut joining_weight = 0.0;
        if job.adapters.is_none() {
            joining_weight =
                joined(Product::WeightGradient) + self.accumulation(joining.inputs * joining.outputs);
            joining_s += joining_weight;
        }
        // Rows of the table are read and written forward; their gradients are read and added backward.
        let embedding = self.costs.memory((tokens * hidden * 10) as f64);
        let read = embedding * 4.0 / 10.0;
        Vocabulary {
            embedding: VocabularyLayer {
                seconds: embedding,
                forward: read,
                weight: embedding - read,
                tensor: [false, true].map(|backward| self.around_embedding(backward)),
            },
            // Half of the logits' traffic is that of the loss, the other half that of its gradient.
            output: VocabularyLayer {
                seconds: output,
                forward: forward + logits / 2.0,
                weight,
                tensor: [false, true].map(|backward| self.around_output(backward)),
            },
            joining: VocabularyLayer {
                seconds: joining_s,
                forward: joined(Product::Forward),
                weight: joining_weight,
                tensor: [0.0; 2],
            },
        }
    }

    /// The product that joins two tokens in a layer of multi-token prediction.
    pub(crate) fn joining(&self) -> Linear {
        let hidden = self.model.hidden;
        let outputs = hidden / u64::from(self.job.tensor);
        Linear {
            tokens: self.job.tokens(),
            inputs: 2 * hidden,
            outputs,
            groups: 1,
            part: Part::Dense,
            gate: false,
        }
    }

    /// The collective of a pass around the embedding: each rank has rows of the table, and they sum what they find. With
    /// sequence parallelism, ranks gather gradients of all tokens.
    pub(crate) fn around_embedding(&self, backward: bool) -> f64 {
        match (self.job.sequence_parallel, backward) {
            (true, false) => self.tokens_of(Collective::ReduceScatter),
            (true, true) => self.tokens_of(Collective::AllGather),
            (false, false) => self.tokens_of(Collective::AllReduce),
            (false, true) => 0.0,
        }
    }

    /// The collective of a pass around the output layer, of which each rank has a part of the vocabulary.
    pub(crate) fn around_output(&self, backward: bool) -> f64 {
        match (self.job.sequence_parallel, backward) {
            (true, false) => self.tokens_of(Collective::AllGather),
            (true, true) => self.tokens_of(Collective::ReduceScatter),
            (false, false) => 0.0,
            (false, true) => self.tokens_of(Collective::AllReduce),
        }
    }
}
