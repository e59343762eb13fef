//! What lies in the host's memory, by hand: bytes that leave the accelerator, and copies that computing does not hide.

use crate::{Counting, SERVERS, llama, routed, single};
use syncline_estimate::activations::activations;
use syncline_estimate::check::check;
use syncline_estimate::{
    Cluster, Experts, Host, Input, Job, MemorySoftware, Model, Module, Offload, Overlap, Precision,
    Recompute, Schedule, Software, estimate, memory, memory_by_stage,
};

const SOFTWARE: MemorySoftware = MemorySoftware { fragmentation: 0.0, ..MemorySoftware::MEGATRON };
const PLAIN: Software = Software { memory: SOFTWARE, ..crate::PLAIN };

/// Eight layers of 64 elements: queries and keys of eight heads of 8, a block of 256.
fn model() -> Model {
    Model { rotary: false, ..llama(64, 8, 8, 8, 256, 512) }
}

const TOKENS: u64 = 128;

fn job() -> Job {
    single(TOKENS)
}

/// Two norms and two inputs of products of `h`, queries, keys, values and outputs of `h`, `3 f` of a gated block, all in 16
/// bits, and a logarithm of 4 bytes for each head.
const LAYER: u64 = TOKENS * (2 * (4 * 64 + 4 * 64 + 3 * 256) + 4 * 8);

fn with(offload: Offload) -> Job {
    Job { offload, ..job() }
}

fn layers(layers: u32) -> Offload {
    Offload { layers, ..Offload::default() }
}

fn modules(modules: &[Input]) -> Offload {
    Offload { modules: modules.to_vec().into(), ..Offload::default() }
}

/// Forward and backward time of one layer with a second for each operation, and nothing else: four products and attention.
fn layer_seconds() -> (f64, f64) {
    let products = 2 * TOKENS * (64 * 192 + 64 * 64 + 64 * 512 + 256 * 64);
    let attention = TOKENS * TOKENS * 8 * 16;
    ((products + attention) as f64, (2 * products) as f64 + 2.5 * attention as f64)
}

fn host(to_host: f64, to_device: f64) -> Cluster {
    Cluster { host: Some(Host { to_host, to_device, update: 1.0 }), ..SERVERS }
}

#[test]
fn layers_in_the_hosts_memory_leave_one_on_its_way() {
    let (here, there) = (memory(&model(), &job(), &SOFTWARE), memory(&model(), &with(layers(5)), &SOFTWARE));
    assert_eq!(here.host, 0);
    assert_eq!(there.host, 5 * LAYER);
    assert_eq!(here.activations - there.activations, 5 * LAYER);
    // The copy that is on its way is working memory, as far as logits do not leave it room.
    let one = activations(&model(), &with(layers(1)), &SOFTWARE, 0);
    let none = activations(&model(), &job(), &SOFTWARE, 0);
    assert_eq!((one.kept, one.host), (0.0, LAYER as f64));
    assert_eq!(one.working - none.working, LAYER as f64);
}

/// Stages keep a micro-batch for each stage from theirs on, of which every one leaves two layers.
#[test]
fn each_micro_batch_in_flight_has_layers_in_the_hosts_memory() {
    let job = Job { pipeline: 2, micro_batches: 8, ..with(layers(2)) };
    let stages = memory_by_stage(&model(), &job, &SOFTWARE);
    assert_eq!(stages.iter().map(|stage| stage.host).collect::<Vec<_>>(), [2 * 2 * LAYER, 2 * LAYER]);
    // Zero-bubble schedules count what they hold turn by turn.
    let plain = Job { schedule: Schedule::ZbH1, offload: Offload::default(), ..job.clone() };
    let ordered = Job { schedule: Schedule::ZbH1, ..job };
    let kept = |job: &Job| memory_by_stage(&model(), job, &SOFTWARE)[0].activations;
    assert!(kept(&plain) - kept(&ordered) >= 2 * LAYER);
}

/// Logits make the last stage the fullest one, and the first stage keeps two micro-batches.
#[test]
fn the_fullest_memory_of_a_host_may_be_that_of_another_stage() {
    let model = Model { vocab: 1 << 16, ..model() };
    let job = Job { pipeline: 2, micro_batches: 8, ..with(layers(2)) };
    let found = memory(&model, &job, &SOFTWARE);
    assert_eq!((found.stage, found.host), (1, 2 * 2 * LAYER));
}

/// In 16 bits: norms have inputs of `h`, the product of queries, keys and values too, attention has three of `h`, the product
/// after it one.
#[test]
fn modules_leave_their_inputs() {
    let bytes = |modules: &[Input], job: &Job| {
        let job = Job { offload: self::modules(modules), ..job.clone() };
        activations(&model(), &job, &SOFTWARE, 0).host
    };
    let each = (TOKENS * 2 * 64) as f64;
    for (module, times) in [
        (Input::AttnNorm, 1.0),
        (Input::QkvLinear, 1.0),
        (Input::CoreAttention, 3.0),
        (Input::AttnProj, 1.0),
        (Input::MlpNorm, 1.0),
    ] {
        assert_eq!(bytes(&[module], &job()), times * each, "{module:?}");
    }
    assert_eq!(bytes(&[Input::AttnNorm, Input::CoreAttention], &job()), 4.0 * each);
    // The product after attention keeps 8 bits.
    let fp8 = Job { precision: Precision::Fp8, ..job() };
    assert_eq!(bytes(&[Input::AttnProj], &fp8), each / 2.0);
}

/// Each of two copies of a token: its input of `h`, and outputs of a gate and its block of 32, in 16 bits. Activations that are
/// computed again are those behind these.
#[test]
fn experts_leave_tokens_and_outputs_of_their_first_product() {
    let experts = Experts { dense_layers: 2, ..routed(8, 2, 32) };
    let model = Model { experts: Some(experts), ..model() };
    let job = Job {
        recompute: Recompute::Selective,
        recompute_modules: vec![Module::MoeAct].into(),
        ..with(modules(&[Input::ExpertFc1, Input::MoeAct]))
    };
    let bytes = |layer| activations(&model, &job, &SOFTWARE, layer).host;
    assert_eq!(bytes(0), 0.0);
    assert_eq!(bytes(2), (TOKENS * 2 * (2 * 64 + 2 * 2 * 32)) as f64);
    // Six layers have experts, and the last one before the loss stays.
    let each = bytes(2) as u64;
    assert_eq!(memory(&model, &job, &SOFTWARE).host, 5 * each);
}

/// Eight layers whose copies take twice the time of a forward pass. The first forward pass has nothing to copy, the output layer
/// hides too.
#[test]
fn copies_that_take_longer_than_the_other_layers_are_waited_for() {
    let (forward, backward) = layer_seconds();
    let output = (2 * TOKENS * 512 * 64) as f64;
    let rate = LAYER as f64 / (2.0 * forward);
    let step =
        |count, cluster| estimate(&model(), &with(layers(count)), cluster, &PLAIN, &Counting::default());
    let plain = step(0, SERVERS);
    let fast = step(7, host(1e9, 1e9));
    assert_eq!((fast.stage.offload, fast.seconds()), (0.0, plain.seconds()));
    let slow = step(7, host(rate, 1e9));
    let waited = 7.0 * 2.0 * forward - 7.0 * forward - output;
    assert!((slow.stage.offload / waited - 1.0).abs() < 1e-12);
    assert!((slow.seconds() - plain.seconds() - waited).abs() < 1e-6 * waited);
    // As long on the way back, behind longer passes.
    let both = step(7, host(rate, rate / 4.0));
    let back = 7.0 * 8.0 * forward - 7.0 * backward - 2.0 * output;
    assert!((both.stage.offload / (waited + back) - 1.0).abs() < 1e-12);
    // Three layers of eight have time enough.
    assert_eq!(step(3, host(rate, 1e9)).stage.offload, 0.0);
    // Nothing says how fast the host is.
    assert!(step(3, SERVERS).seconds().is_infinite());
}

/// Stages that turn to another micro-batch hide behind all their layers.
#[test]
fn stages_before_the_last_hide_copies_behind_all_layers() {
    let (forward, _) = layer_seconds();
    let model = Model { vocab: 1, ..model() };
    let job = Job { pipeline: 2, micro_batches: 8, ..with(layers(4)) };
    let rate = |times: f64| host(LAYER as f64 / (times * forward), 1e12);
    let step = |cluster| estimate(&model, &job, cluster, &PLAIN, &Counting::default());
    let (same, twice) = (step(rate(1.0)).stages_s, step(rate(2.0)).stages_s);
    let plain = step(host(1e12, 1e12)).stages_s;
    assert_eq!(same[0], plain[0]);
    assert!((twice[0] - plain[0] - 4.0 * forward).abs() < 1.0);
    // The last one begins with a layer that nothing hides, and ends with the output layer of one token.
    let output = (2 * TOKENS * 64) as f64;
    assert!((same[1] - plain[1] - (forward - output)).abs() < 1.0);
}

/// All states: parameters in 32 bits and two moments. The host has them, and gradients in 32 bits.
#[test]
fn states_of_the_optimizer_lie_in_the_hosts_memory() {
    let parameters = model().parameters();
    let states = |optimizer, zero, data| {
        let offload = Offload { optimizer, ..Offload::default() };
        let job = Job { zero, data, shard_group: data, ..with(offload) };
        let found = memory(&model(), &job, &SOFTWARE);
        (found.optimizer, found.host)
    };
    assert_eq!(states(0.0, 0, 1), (12 * parameters, 0));
    assert_eq!(states(1.0, 0, 1), (0, 16 * parameters));
    assert_eq!(states(0.5, 0, 1), (6 * parameters, 8 * parameters));
    assert_eq!(states(1.0, 1, 4), (0, 4 * parameters));
}

/// A second for each byte of the host's memory, and of the link: gradients of 4 bytes come down, 24 bytes of states are read and
/// written, 4 of gradients are read, 6 cast parameters, 2 go up.
#[test]
fn the_host_updates_between_copies_or_beside_them() {
    let parameters = model().parameters() as f64;
    let offload = Offload { optimizer: 1.0, ..Offload::default() };
    let step = |overlap: Overlap, cluster, memory| {
        let job = Job { overlap, ..with(offload) };
        let found = estimate(&model(), &job, cluster, &PLAIN, &Counting { memory, ..Counting::default() });
        (found.update_s, found.copies_s)
    };
    let beside = Overlap { optimizer: true, ..Overlap::default() };
    assert_eq!(step(Overlap::default(), host(1.0, 1.0), 0.0), (34.0 * parameters, 6.0 * parameters));
    assert_eq!(step(beside, host(1.0, 1.0), 0.0), (34.0 * parameters, 0.0));
    // A slow link is what is waited for.
    assert_eq!(step(beside, host(0.1, 1.0), 0.0).1, 40.0 * parameters - 34.0 * parameters);
    // The accelerator reads and clears its gradients meanwhile, 4 bytes of each: no longer than the host takes.
    let (update, _) = step(beside, host(1.0, 1.0), 10.0);
    assert_eq!(update, 80.0 * parameters);
}

#[test]
fn what_cannot_lie_in_the_hosts_memory_is_named_with_what_can() {
    let said = |model: &Model, job: &Job| {
        let found = check(model, job);
        assert_eq!(found.len(), 1, "{found:?}");
        format!("{:?}", found[0])
    };
    assert!(said(&model(), &with(layers(8))).contains("write layers: 7"));
    assert!(check(&model(), &Job { pipeline: 2, micro_batches: 2, ..with(layers(4)) }).is_empty());
    let optimizer = |optimizer| with(Offload { optimizer, ..Offload::default() });
    for part in [-0.1, 1.5, f64::NAN] {
        assert!(said(&model(), &optimizer(part)).contains("0 to 1"));
    }
    let lora = Job { adapters: Some(8), ..optimizer(1.0) };
    assert!(said(&model(), &lora).contains("leave out offload.optimizer"));
    let both = Offload { layers: 2, ..modules(&[Input::AttnNorm]) };
    assert!(said(&model(), &with(both)).contains("exclude each other"));
    let again = Job { recompute: Recompute::Full, ..with(modules(&[Input::AttnNorm])) };
    assert!(said(&model(), &again).contains("recompute: selective"));
    assert!(said(&model(), &with(modules(&[Input::MoeAct]))).contains("no experts"));
    let norms = Job {
        recompute: Recompute::Selective,
        recompute_modules: vec![Module::Layernorm].into(),
        ..with(modules(&[Input::QkvLinear]))
    };
    assert!(said(&model(), &norms).contains("leave qkv_linear out"));
}
