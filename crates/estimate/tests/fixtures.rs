//! Models, jobs, software and costs that many tests share.

use std::cell::RefCell;
use syncline_estimate::machine::AttentionWork;
use syncline_estimate::{
    Adapted, Attention, Cluster, Collective, ContextMethod, Costs, Dispatcher, ExpertAdapters, Experts,
    Graphs, Group, Job, MemorySoftware, Model, Offload, Overlap, Precision, Product, Recompute, Routing,
    Schedule, Set, Software, Split,
};
use syncline_kernels::Library;

/// Kernels that take a second for each operation, memory that costs nothing, and collectives that take a second for each
/// byte; it notes the collectives.
#[derive(Default)]
pub(crate) struct Counting {
    /// Seconds of a byte of memory.
    pub(crate) memory: f64,
    /// Seconds of a byte of a collective.
    pub(crate) network: f64,
    /// All collectives.
    pub(crate) calls: RefCell<Vec<(Collective, f64, Group)>>,
}

impl Costs for Counting {
    fn product(&self, _: Product, _: Precision, m: u64, n: u64, k: u64, groups: u64) -> f64 {
        (2 * m * n * k * groups) as f64
    }

    fn attention(&self, work: AttentionWork) -> f64 {
        // Scores and their product with values, half of which a causal mask hides; backward two and a half times that.
        let AttentionWork { batch, sequence, heads, key_dim, value_dim, backward, .. } = work;
        let forward = (batch * sequence * sequence * heads * (key_dim + value_dim)) as f64;
        if backward { 2.5 * forward } else { forward }
    }

    fn memory(&self, bytes: f64) -> f64 {
        self.memory * bytes
    }

    fn collective(&self, collective: Collective, bytes: f64, group: Group) -> f64 {
        self.calls.borrow_mut().push((collective, bytes, group));
        self.network * bytes
    }
}

/// A GPT: no gate, four times as many elements in the feed-forward block, dropout, as many KV heads as query heads.
pub(crate) fn gpt(hidden: u64, layers: u32, heads: u64) -> Model {
    Model {
        hidden,
        layers,
        heads,
        kv_heads: heads,
        head_dim: hidden / heads,
        ffn: 4 * hidden,
        gated: false,
        vocab: 51_200,
        tied: true,
        rotary: false,
        yarn: false,
        dropout: true,
        attention: Attention::Full,
        experts: None,
        biased_experts: false,
        prediction_layers: 0,
    }
}

/// A Llama-style model: gated, without dropout.
pub(crate) fn llama(hidden: u64, layers: u32, heads: u64, kv_heads: u64, ffn: u64, vocab: u64) -> Model {
    Model {
        kv_heads,
        ffn,
        gated: true,
        vocab,
        tied: false,
        rotary: true,
        yarn: false,
        dropout: false,
        ..gpt(hidden, layers, heads)
    }
}

/// GPT-3 of 175 billion parameters.
pub(crate) fn gpt3() -> Model {
    gpt(12_288, 96, 96)
}

/// Experts in all layers, each with `ffn` elements, of which a token chooses `top_k`; none is shared.
pub(crate) fn routed(count: u64, top_k: u64, ffn: u64) -> Experts {
    Experts { count, top_k, ffn, shared_ffn: 0, dense_layers: 0, every: 1, groups: 1, top_groups: 1 }
}

/// One rank, one micro-batch of one sequence.
pub(crate) fn single(sequence: u64) -> Job {
    Job {
        tensor: 1,
        sequence_parallel: false,
        pipeline: 1,
        virtual_stages: 1,
        schedule: Schedule::OneForwardOneBackward,
        split: Split::Even,
        chunk_layers: Vec::new(),
        context: 1,
        context_method: ContextMethod::Ring,
        expert: 1,
        expert_tensor: 1,
        expert_load: 1.0,
        data: 1,
        zero: 0,
        shard_group: 1,
        micro_batch: 1,
        micro_batches: 1,
        sequence,
        precision: Precision::Bf16,
        gradient_bytes: 4,
        moment_bytes: 4,
        recompute: Recompute::None,
        recompute_method: None,
        recompute_layers: 1,
        recompute_modules: Set::default(),
        fused_attention: true,
        rope_fusion: true,
        attention_library: None,
        overlap: Overlap::default(),
        graphs: Graphs::None,
        dispatcher: Dispatcher::AllToAll,
        routing: Routing::Random,
        dispatch_multiprocessors: 20,
        fused_experts: false,
        low_precision_output_layer: false,
        fp8_attention: false,
        low_precision_parameters: false,
        first_layers_bf16: 0,
        last_layers_bf16: 0,
        vocab_multiple: 1,
        adapters: None,
        adapted: Adapted::All,
        expert_adapters: ExpertAdapters::None,
        offload: Offload::default(),
    }
}

/// Software that adds nothing.
pub(crate) const PLAIN: Software = Software {
    products: 1.0,
    low_precision_products: 1.0,
    attention: 1.0,
    attention_library: Library::Measured,
    element_wise: 1.0,
    logit_bytes: 0.0,
    fused_accumulation: true,
    layer_cpu_s: 0.0,
    launch_power: None,
    staged_layer_s: 0.0,
    tensor_exposed: 0.25,
    dispatch: 1.0,
    expert_exposed: 0.25,
    expert_cpu_s: 0.0,
    each_expert_cpu_s: 0.0,
    partial_graphs: 0.5,
    expert_element_wise: 1.0,
    fused_biases: false,
    fused_yarn: false,
    data_exposed: 0.5,
    sharded_exposed: None,
    pipeline_exposed: 0.0,
    memory: MemorySoftware::MEGATRON,
};

/// Servers of eight.
pub(crate) const SERVERS: Cluster =
    Cluster { domain: 8, sustained: 1.0, clock: 1.0, host: None, token_kernels: None, fp8_weight_copies: 2 };

/// Tensors that training needs, and nothing else.
pub(crate) const BARE: MemorySoftware = MemorySoftware {
    gradient_copy_bytes: 0,
    gathers_from_master: false,
    logit_bytes: 4.0,
    fused_gate: true,
    whole_inputs: 0.0,
    keeps_casts: false,
    fp8_weight_copies: 2,
    keeps_expert_outputs: true,
    workspace_bytes: 0,
    communicator_bytes: 0,
    context_bytes: 0,
    fragmentation: 0.0,
    stream_fragmentation: 0.0,
};
