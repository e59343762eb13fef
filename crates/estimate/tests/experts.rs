//! Experts: what comes to them, what travels, and what launches them.

use crate::{Counting, PLAIN, SERVERS, gpt3, routed, single};
use syncline_estimate::machine::AttentionWork;
use syncline_estimate::work::{layer_work, ranks_of};
use syncline_estimate::{
    Cluster, Collective, Costs, Dispatcher, Experts, Graphs, Group, Job, Model, Module, Overlap, Precision,
    Product, Recompute, Routing, Software, TokenKernels, estimate,
};
use syncline_nccl::Exchange;

/// A model with eight experts, of which a token goes to two.
fn model() -> Model {
    let experts = routed(8, 2, 1000);
    Model { experts: Some(experts), gated: true, ..gpt3() }
}

#[test]
fn experts_compute_as_many_tokens_as_come_to_them() {
    for (expert, data) in [(1, 1), (4, 4), (8, 8)] {
        let work = layer_work(&model(), &Job { expert, data, ..single(1024) }, 0);
        // Every rank sends its tokens to two experts, and computes as many.
        let routed: u64 = work.linears[2..].iter().map(|each| each.tokens * each.groups).sum();
        assert_eq!(routed, 2 * 2 * 1024);
        assert_eq!(
            (work.linears[2].groups, work.local_experts),
            (8 / u64::from(expert), 8 / u64::from(expert))
        );
        assert_eq!(work.expert_parameters, 3 * 12_288 * 1000 * 8 / u64::from(expert));
        // Two copies of each token, in 16 bits, there and back.
        let sent = if expert == 1 { 0 } else { 2 * 1024 * 12_288 * 4 };
        assert_eq!(work.dispatched_bytes, sent);
    }
}

#[test]
fn biases_of_experts_are_kernels_of_their_own() {
    let biased = Model { biased_experts: true, ..model() };
    let work = layer_work(&biased, &single(1024), 0);
    // Two copies of each token; bytes of an element that each operation reads and writes, one after the other.
    let (outputs, inputs) = (2 * 1024 * 12_288, 2 * 1024 * 2 * 1000);
    let weighted_bias = 4;
    let (added, joined, narrowed) = (2 + 4 + 4, 4 + 4, 4 + 2);
    let (each_half, halves) = (2 + 2, 2 + 2);
    let forward = outputs * (weighted_bias + added + joined + narrowed) + inputs * (each_half + halves);
    let (widened, of_outputs) = (2 + 4, 4 + 2);
    let product_and_sum = (4 + 4) + 4;
    let limits = (2 + 2 + 2) + (2 + 2);
    let backward = outputs * (widened + of_outputs + 2 * product_and_sum) + inputs * limits;
    assert_eq!(work.biased_bytes, [forward, backward]);
    assert_eq!(layer_work(&biased, &Job { fused_experts: true, ..single(1024) }, 0).biased_bytes, [0, 0]);
    assert_eq!(layer_work(&model(), &single(1024), 0).biased_bytes, [0, 0]);
    // Software that fuses them spends no time on them; kernels of PyTorch take 1.32 times as long as their bytes.
    let costs = Counting { memory: 1.0, ..Counting::default() };
    let step =
        |job: &Job, software: &Software| estimate(&biased, job, SERVERS, software, &costs).stage.element_wise;
    let (plain, fused) = (single(1024), Software { fused_biases: true, ..PLAIN });
    let both = 1.32 * (forward + backward) as f64 * 96.0;
    assert!(((step(&plain, &PLAIN) - step(&plain, &fused)) / both - 1.0).abs() < 1e-6);
    // Activations that are computed again are limited again.
    let again = Job {
        recompute: Recompute::Selective,
        recompute_modules: vec![Module::MoeAct].into(),
        ..single(1024)
    };
    let more = |software: &Software| step(&again, software) - step(&plain, software);
    let limited = 1.32 * (inputs * (each_half + halves)) as f64 * 96.0;
    assert!(((more(&PLAIN) - more(&fused)) / limited - 1.0).abs() < 1e-6);
}

#[test]
fn fused_experts_are_products_with_the_tokens_of_all() {
    let sizes = |fused_experts| {
        let costs = Sizes::default();
        estimate(&model(), &Job { fused_experts, ..single(1024) }, SERVERS, &PLAIN, &costs);
        costs.rows.into_inner()
    };
    let tokens = 2 * 1024;
    let (apart, fused) = (sizes(false), sizes(true));
    // Two products of experts in a layer, and their gradients of inputs; rows of gradients of weights are elements.
    assert!(apart.contains(&(tokens / 8, 2000)) && !apart.contains(&(tokens, 2000)));
    assert!(fused.contains(&(tokens, 2000)) && fused.contains(&(8 * 2000, 12_288)));
}

#[test]
fn gradients_of_gates_take_their_time_in_fused_experts() {
    // Products take no time, but for these.
    let step = |model: &Model, fused_experts| {
        let job = Job { fused_experts, precision: Precision::Mxfp8, ..single(1024) };
        estimate(model, &job, SERVERS, &PLAIN, &Sizes::default()).stage.products
    };
    let elements = 2.0 * 1024.0 * 1000.0;
    let expected = 96.0 * elements * 5.5e-12;
    assert_eq!(step(&model(), false), 0.0);
    assert!((step(&model(), true) / expected - 1.0).abs() < 1e-9);
    let biased = Model { biased_experts: true, ..model() };
    assert!((step(&biased, true) / expected - 1.12).abs() < 1e-9);
    assert_eq!(step(&Model { gated: false, ..model() }, true), 0.0);
}

/// Kernels that take no time, and the rows and columns of their products.
#[derive(Default)]
struct Sizes {
    rows: std::cell::RefCell<Vec<(u64, u64)>>,
}

impl Costs for Sizes {
    fn product(&self, _: Product, _: Precision, m: u64, n: u64, _: u64, _: u64) -> f64 {
        self.rows.borrow_mut().push((m, n));
        0.0
    }
    fn attention(&self, _: AttentionWork) -> f64 {
        0.0
    }
    fn memory(&self, _: f64) -> f64 {
        0.0
    }
    fn collective(&self, _: Collective, _: f64, _: Group) -> f64 {
        0.0
    }
}

#[test]
fn products_of_8_bits_cast_inputs_once_and_gradients_once() {
    let bytes = |job: &Job| {
        let work = layer_work(&model(), job, 0);
        (work.element_bytes, work.routed_bytes)
    };
    let (half, fp8) = (single(1024), Job { precision: Precision::Fp8, ..single(1024) });
    let (plain, cast) = (bytes(&half), bytes(&fp8));
    // Each element of inputs, forward, and of gradients of outputs, backward: 16 bits read, 8 bits written twice.
    let qkv = 12_288 + 3 * 12_288;
    let out = 2 * 12_288;
    let both_passes = 4 * 1024 * (qkv + out);
    assert!((3 * (cast.0 - plain.0)).abs_diff(both_passes) < 6);
    let experts = 4 * 2 * 1024 * ((12_288 + 2000) + (1000 + 12_288));
    assert!((3 * (cast.1 - plain.1)).abs_diff(experts) < 6);
    // One kernel for all of an expert casts what comes in, and the gradient of what goes out.
    let fused = bytes(&Job { fused_experts: true, ..fp8.clone() }).1;
    let without = bytes(&Job { fused_experts: true, ..half }).1;
    assert!((3 * (fused - without)).abs_diff(4 * 2 * 1024 * 2 * 12_288) < 6);
    // Frozen weights have no gradients, for which the other copy is.
    let adapters = Job { adapters: Some(16), ..fp8 };
    assert!((3 * (bytes(&adapters).0 - plain.0)).abs_diff(both_passes * 3 / 4) < 6);
}

#[test]
fn a_token_goes_to_as_many_ranks_as_hold_its_experts() {
    // By enumeration: all pairs of 8 experts, of which each of 4 ranks has 2; 4 of the 28 pairs are on one rank.
    let pairs = (0..8_u64).flat_map(|a| (0..a).map(move |b| (a / 2, b / 2)));
    let (mut ranks, mut count) = (0, 0);
    for (a, b) in pairs {
        ranks += if a == b { 1 } else { 2 };
        count += 1;
    }
    assert!((ranks_of(8, 2, 2) - f64::from(ranks) / f64::from(count)).abs() < 1e-12);
    assert!((ranks_of(8, 2, 2) - 52.0 / 28.0).abs() < 1e-12);
    // One expert on each rank, all experts on one rank, and all experts chosen.
    assert!((ranks_of(64, 1, 8) - 8.0).abs() < 1e-12);
    assert!((ranks_of(64, 64, 8) - 1.0).abs() < 1e-12);
    assert!((ranks_of(64, 8, 64) - 8.0).abs() < 1e-12);
}

/// Ranks that divide an expert gather the tokens which came to each of them, and sum their outputs: `top_k` copies of a token,
/// of which each tensor-parallel rank has sent some.
#[test]
fn ranks_that_divide_an_expert_gather_its_tokens() {
    let job = Job { tensor: 4, sequence_parallel: true, expert: 2, expert_tensor: 2, ..single(1024) };
    let work = layer_work(&model(), &job, 0);
    let sent = 2 * 1024 / 4 * 12_288 * 2;
    assert_eq!((work.dispatched_bytes, work.gathered_bytes), (2 * sent, 2 * sent));
    let costs = Counting { network: 1.0, ..Counting::default() };
    let step = estimate(&model(), &job, SERVERS, &PLAIN, &costs);
    // Dispatch and combine, a gathering and a sum, forward and backward.
    assert_eq!(step.stage.expert, (96 * 2 * (2 * sent + 2 * 2 * sent)) as f64);
    let group = |in_domain| Group { in_domain, domains: 1, concurrent: 1 };
    let calls = costs.calls.borrow();
    assert!(calls.contains(&(Collective::AllGather, (2 * sent) as f64, group(2))));
    let all_to_all = calls.iter().find(|call| call.0 == Collective::AllToAll);
    assert_eq!(all_to_all, Some(&(Collective::AllToAll, sent as f64, Group { concurrent: 2, ..group(2) })));
    // Nothing else is gathered around experts without a shared one: around attention, and at the ends.
    let bytes = 1024_u64 * 12_288 * 2;
    assert_eq!(step.stage.tensor, (96 * 4 * bytes + 4 * bytes) as f64);
}

/// Places counted one by one, for as many tokens as use each expert equally often.
#[test]
fn tokens_of_consecutive_experts_reach_few_places() {
    let cases = [(128, 8, 16), (384, 8, 12), (32, 4, 4), (64, 8, 4), (8, 8, 1), (24, 6, 4)];
    // Tokens that go on with the first expert after the last one, within one place and among two of them.
    let around = [(8, 3, 4), (8, 3, 8), (60, 8, 60), (8, 7, 4), (16, 11, 8)];
    for (count, top_k, local) in cases.into_iter().chain(around) {
        let experts = Experts { count, top_k, ..routed(8, 2, 1000) };
        let reached = |token: u64| {
            let chosen = token * top_k..(token + 1) * top_k;
            let mut places: Vec<_> = chosen.map(|each| each % count / local).collect();
            places.sort_unstable();
            places.dedup();
            places.len() as f64
        };
        let tokens = count;
        let mean = (0..tokens).map(reached).sum::<f64>() / tokens as f64;
        assert!(
            (experts.places(local, Routing::Consecutive) - mean).abs() < 1e-12,
            "{count} {top_k} {local}"
        );
    }
}

/// A token of eight experts in four groups of two chooses two groups, and two experts of the four in these: counted one by one.
#[test]
fn tokens_go_to_experts_of_the_groups_that_they_choose() {
    let Some(experts) = model().experts else { panic!("experts") };
    let limited = Experts { groups: 4, top_groups: 2, ..experts };
    for (local, place) in [(1, 1), (2, 2), (4, 4)] {
        let (mut reached, mut count) = (0, 0);
        for (first, second) in (0..4_u64).flat_map(|a| (a + 1..4).map(move |b| (a, b))) {
            let chosen = [2 * first, 2 * first + 1, 2 * second, 2 * second + 1];
            for (a, b) in (0..4).flat_map(|a| (a + 1..4).map(move |b| (a, b))) {
                // Where a place has several groups, each group counts as having one of the token's experts.
                let at = if local > 2 { [2 * first, 2 * second] } else { [chosen[a], chosen[b]] };
                reached += if at[0] / place == at[1] / place { 1 } else { 2 };
                count += 1;
            }
        }
        assert!(
            (limited.places(local, Routing::Random) - f64::from(reached) / f64::from(count)).abs() < 1e-12,
            "{local}"
        );
    }
    // Without groups, all experts are one.
    assert!((experts.places(2, Routing::Random) - ranks_of(8, 2, 2)).abs() < 1e-12);
}

#[test]
fn kernels_for_dispatch_send_a_token_once_to_each_rank() {
    let job = Job { expert: 4, data: 4, ..single(1024) };
    let all = layer_work(&model(), &job, 0).dispatched_bytes;
    let once = layer_work(&model(), &Job { dispatcher: Dispatcher::Fused, ..job }, 0).dispatched_bytes;
    assert!((once as f64 / all as f64 - 52.0 / 28.0 / 2.0).abs() < 1e-6);
}

#[test]
fn dispatch_hides_behind_the_computing_of_another_micro_batch() {
    let job = Job { expert: 8, data: 8, ..single(1024) };
    let step = |network: f64, experts: bool, micro_batches: u32| {
        let overlap = Overlap { experts, ..Overlap::default() };
        let costs = Counting { network, ..Counting::default() };
        estimate(&model(), &Job { overlap, micro_batches, ..job.clone() }, SERVERS, &PLAIN, &costs).stage
    };
    // There and back, forward and backward, in 96 layers, 16 bits each.
    let bytes = 2.0 * 1024.0 * 12_288.0 * 2.0 * 4.0 * 96.0;
    assert_eq!(step(1.0, false, 5).expert, 5.0 * bytes);
    // The first micro-batch goes forward alone, and the last one backward; a quarter of the others is exposed.
    assert_eq!(step(1.0, true, 5).expert, (1.0 + 4.0 / 4.0) * bytes);
    assert_eq!(step(1.0, true, 1).expert, bytes);
    // What takes longer than computing is not hidden beyond it.
    let slow = step(1e9, true, 5);
    assert!((slow.expert / (5e9 * bytes - slow.compute() * 4.0 / 5.0) - 1.0).abs() < 1e-9);
}

#[test]
fn stages_wait_for_tokens_of_the_first_and_the_last_micro_batch() {
    let bubble = |experts, virtual_stages| {
        let overlap = Overlap { experts, ..Overlap::default() };
        let job = Job {
            expert: 8,
            data: 8,
            pipeline: 4,
            virtual_stages,
            micro_batches: 16,
            overlap,
            ..single(1024)
        };
        let costs = Counting { network: 1.0, ..Counting::default() };
        let found = estimate(&model(), &job, SERVERS, &PLAIN, &costs);
        (found.stage.expert, found.bubble_s)
    };
    // A stage has 24 layers, in one chunk or in two.
    let bytes = 2.0 * 1024.0 * 12_288.0 * 2.0 * 4.0 * 24.0;
    for chunks in [1_u32, 2] {
        let ((exposed, hidden), (whole, plain)) = (bubble(true, chunks), bubble(false, chunks));
        assert_eq!(whole, 16.0 * bytes);
        // The last stage goes forward with five chunks of micro-batches before the first one goes backward, if it has two.
        let turns = if chunks == 1 { 1.0 } else { 5.0 };
        let alone = turns * 0.75 * bytes / f64::from(chunks);
        assert!((exposed / (16.0 * bytes / 4.0 + alone) - 1.0).abs() < 1e-9);
        // All three other stages pass chunks on that nothing hides, so that the bubble is as long as without overlap.
        assert!((hidden / plain - 1.0).abs() < 1e-9, "{hidden} {plain}");
    }
}

/// Constants of kernels by which sums can be done by hand: a dispatch takes 10 s, 0.5 s a token, and a second for 1,000 bytes of
/// each of 20 multiprocessors; a combine half of that.
fn token_kernels() -> TokenKernels {
    let dispatch = Exchange { launch_s: 10.0, token_s: 0.5, sm_rate: 1e3, link_rate: 1e6 };
    let combine = Exchange { launch_s: 5.0, token_s: 0.25, sm_rate: 2e3, link_rate: 1e6 };
    TokenKernels { dispatch, combine, network_rate: 1e3, multiprocessors: 100.0 }
}

#[test]
fn kernels_for_dispatch_take_the_slower_of_multiprocessors_and_links() {
    let servers = |domain| Cluster { domain, token_kernels: Some(token_kernels()), ..SERVERS };
    let job = Job { expert: 4, data: 4, dispatcher: Dispatcher::Fused, ..single(1024) };
    let each = |job: &Job, cluster| {
        estimate(&model(), job, cluster, &PLAIN, &Counting { network: 1e30, ..Counting::default() })
            .stage
            .expert
            / (96.0 * 2.0)
    };
    // Eight experts on four ranks: a token goes to 52 / 28 of them, by the count above, one of which is its own.
    let token = 12_288.0 * 2.0;
    let bytes = 1024.0 * 52.0 / 28.0 * token * 3.0 / 4.0;
    let by_hand = 10.0 + 512.0 + bytes / 20e3 + 5.0 + 256.0 + bytes / 40e3;
    assert!((each(&job, servers(4)) / by_hand - 1.0).abs() < 1e-6);
    // No multiprocessors beyond the rate of links help.
    let many = Job { dispatch_multiprocessors: 2000, ..job.clone() };
    let by_hand = 10.0 + 512.0 + bytes / 1e6 + 5.0 + 256.0 + bytes / 1e6;
    assert!((each(&many, servers(4)) / by_hand - 1.0).abs() < 1e-6);
    // Two domains of two ranks: of all 28 pairs of experts, 6 are in the own domain, and 6 in the other one alone. So 22 of 28
    // tokens go over the network, once each, and that takes longest.
    let by_hand = 10.0 + 512.0 + 5.0 + 256.0 + 2.0 * 1024.0 * 22.0 / 28.0 * token / 1e3;
    assert!((each(&job, servers(2)) / by_hand - 1.0).abs() < 1e-6);
}

#[test]
fn experts_may_be_divided_over_more_servers_than_there_are_experts() {
    let cluster = Cluster { domain: 2, token_kernels: Some(token_kernels()), ..SERVERS };
    let job = Job { expert: 8, expert_tensor: 8, data: 64, dispatcher: Dispatcher::Fused, ..single(1024) };
    let step = estimate(&model(), &job, cluster, &PLAIN, &Counting::default());
    assert!(step.stage.expert.is_finite() && step.stage.expert > 0.0);
}

#[test]
fn kernels_for_dispatch_take_multiprocessors_from_those_that_compute() {
    let cluster = Cluster { token_kernels: Some(token_kernels()), ..SERVERS };
    let overlap = Overlap { experts: true, ..Overlap::default() };
    let job = Job { expert: 4, data: 4, dispatcher: Dispatcher::Fused, micro_batches: 11, ..single(1024) };
    let each = |overlap| {
        estimate(&model(), &Job { overlap, ..job.clone() }, cluster, &PLAIN, &Counting::default())
            .stage
            .expert
    };
    // 20 of 100 multiprocessors; the first forward pass and the last backward pass are alone.
    assert!((each(overlap) / each(Overlap::default()) - (1.0 + 10.0 * 0.2) / 11.0).abs() < 1e-9);
}

#[test]
fn kernels_for_dispatch_leave_less_to_put_in_order() {
    let job = Job { expert: 4, data: 4, ..single(1024) };
    let token = 12_288 * 2;
    // Each of two copies of a token is read and written three times: to the order of ranks, to that of experts, and back.
    assert_eq!(layer_work(&model(), &job, 0).ordered_bytes, 1024 * 2 * 6 * token);
    // A token that came once is read once, written for both experts, read from both, and written once.
    let fused = layer_work(&model(), &Job { dispatcher: Dispatcher::Fused, ..job }, 0).ordered_bytes;
    assert_eq!(fused, 2 * (1024 * 52 / 28 + 2 * 1024) * token);
}

#[test]
fn graphs_launch_what_the_processor_would() {
    let software = Software { expert_cpu_s: 1e30, each_expert_cpu_s: 1e29, layer_cpu_s: 1e20, ..PLAIN };
    let seconds = |graphs| {
        let job = Job { graphs, ..single(1024) };
        estimate(&model(), &job, SERVERS, &software, &Counting::default()).stage.seconds()
    };
    // 96 layers with eight experts each.
    let all = 96.0 * (1e20 + 1e30 + 8.0 * 1e29);
    assert!((seconds(Graphs::None) / all - 1.0).abs() < 1e-12);
    assert!((seconds(Graphs::Partial) / (all / 2.0) - 1.0).abs() < 1e-12);
    let plain = estimate(&model(), &single(1024), SERVERS, &PLAIN, &Counting::default());
    assert_eq!(seconds(Graphs::Full), plain.stage.seconds());
}

#[test]
fn a_processor_nearly_as_slow_as_the_accelerator_delays_it() {
    let layers = 96.0;
    let kernels = estimate(&model(), &single(1024), SERVERS, &PLAIN, &Counting::default()).stage.seconds();
    let seconds = |times: f64, launch_power| {
        let software = Software { expert_cpu_s: times * kernels / layers, launch_power, ..PLAIN };
        estimate(&model(), &single(1024), SERVERS, &software, &Counting::default()).stage.seconds() / kernels
    };
    assert!((seconds(0.5, None) - 1.0).abs() < 1e-9 && (seconds(2.0, None) - 2.0).abs() < 1e-9);
    // Power means by hand: (1 + 0.5^4)^(1/4), and 2^(1/4) where both are equally slow.
    assert!((seconds(0.5, Some(4.0)) - 1.062_5_f64.powf(0.25)).abs() < 1e-9);
    assert!((seconds(1.0, Some(4.0)) - 2.0_f64.powf(0.25)).abs() < 1e-9);
    assert!((seconds(2.0, Some(4.0)) - 2.0 * 1.062_5_f64.powf(0.25)).abs() < 1e-9);
}

#[test]
fn a_fused_block_of_experts_moves_the_bytes_of_one_kernel_and_casts_nothing() {
    let software = Software { expert_element_wise: 2.0, ..PLAIN };
    let job = Job { precision: Precision::Mxfp8, ..single(1024) };
    let step = |fused_experts, software: &Software| {
        let job = Job { fused_experts, ..job.clone() };
        estimate(&model(), &job, SERVERS, software, &Counting { memory: 1.0, ..Counting::default() })
            .stage
            .element_wise
    };
    assert_eq!(step(true, &software), step(true, &PLAIN));
    // The bytes of experts count again, in the forward pass and twice in the backward pass.
    let routed = layer_work(&model(), &job, 0).routed_bytes as f64;
    assert_eq!(step(false, &software) - step(false, &PLAIN), 3.0 * routed * 96.0);
    // What is between both products is read in 16 bits and written in 8, twice, inputs forward and gradients backward: a third
    // of both passes. The activation is read and written in 16 bits.
    let bytes = |fused| layer_work(&model(), &Job { fused_experts: fused, ..job.clone() }, 0).routed_bytes;
    let cast = 2048 * 4 * (2000 + 1000) / 3;
    assert!((bytes(false) - bytes(true)).abs_diff(cast + 2048 * 3 * 1000 * 2) < 4);
}
