//! Bytes and groups of collectives.

use crate::{Counting, PLAIN, SERVERS, gpt3, routed, single};
use syncline_estimate::check::check;
use syncline_estimate::job::ContextMethod;
use syncline_estimate::{Collective, Group, Job, Model, Overlap, Recompute, Software, estimate};

fn model() -> Model {
    Model { layers: 2, ..gpt3() }
}

fn group(in_domain: u32, domains: u32, concurrent: u32) -> Group {
    Group { in_domain, domains, concurrent }
}

#[test]
fn groups_are_where_their_ranks_are() {
    assert_eq!(Group::strided(8, 1, 8), group(8, 1, 1));
    assert_eq!(Group::strided(16, 1, 8), group(8, 2, 1));
    // Data-parallel ranks beside tensor-parallel ones: 8 apart they are on servers of their own, 2 apart four share one.
    assert_eq!(Group::strided(64, 8, 8), group(1, 64, 8));
    assert_eq!(Group::strided(64, 2, 8), group(4, 16, 2));
    assert_eq!(Group::strided(2, 16, 8), group(1, 2, 8));
    assert_eq!(Group::strided(1, 4, 8), group(1, 1, 4));
    // Of groups of six, the second one has two ranks on the first server and four on the next.
    assert_eq!(Group::strided(6, 1, 8), group(3, 2, 1));
    assert_eq!(Group::strided(3, 2, 8), group(2, 2, 2));
    assert_eq!(Group::strided(6, 1, 6), group(6, 1, 1));
}

#[test]
fn tensor_parallelism_sums_four_times_in_a_layer() {
    let job = Job { tensor: 8, ..single(2048) };
    let costs = Counting { network: 1.0, ..Counting::default() };
    let step = estimate(&model(), &job, SERVERS, &PLAIN, &costs);
    // Shoeybi et al. 2019: two all-reduces of the activations forward and two backward; one more forward, of rows of the table
    // of tokens, and one backward, of gradients from the output layer.
    let bytes = 2048.0 * 12_288.0 * 2.0;
    assert_eq!(step.stage.tensor, (2.0 * 4.0 + 2.0) * bytes);
    // Sequence parallelism replaces each by a reduce-scatter and an all-gather.
    let job = Job { sequence_parallel: true, ..job };
    let costs = Counting { network: 1.0, ..Counting::default() };
    assert_eq!(estimate(&model(), &job, SERVERS, &PLAIN, &costs).stage.tensor, (2.0 * 8.0 + 4.0) * bytes);
    assert!(costs.calls.borrow().contains(&(Collective::ReduceScatter, bytes, group(8, 1, 1))));
    // Recomputation repeats those of layers' forward pass, of which overlap hides three quarters.
    let job =
        Job { recompute: Recompute::Full, overlap: Overlap { tensor: true, ..Overlap::default() }, ..job };
    let costs = Counting { network: 1.0, ..Counting::default() };
    assert_eq!(
        estimate(&model(), &job, SERVERS, &PLAIN, &costs).stage.tensor,
        (2.0 * 12.0 / 4.0 + 4.0) * bytes
    );
}

#[test]
fn zero_changes_what_is_exchanged() {
    let held = model().parameters() as f64;
    let exchanged = |zero: u8, batches: u32| {
        let job = Job { data: 64, zero, shard_group: 64, micro_batches: batches, ..single(2048) };
        let costs = Counting { network: 1.0, ..Counting::default() };
        let step = estimate(&model(), &job, SERVERS, &PLAIN, &costs);
        assert!(costs.calls.borrow().iter().all(|(_, _, each)| *each == group(8, 8, 1)));
        step.whole_exchange_s
    };
    // Gradients have 4 bytes and parameters 2. ZeRO-3 gathers parameters twice in every micro-batch.
    assert_eq!(exchanged(0, 3), 4.0 * held);
    assert_eq!(exchanged(1, 3), (4.0 + 2.0) * held);
    assert_eq!(exchanged(3, 1), (2.0 * 2.0 + 4.0) * held);
    assert_eq!(exchanged(3, 3), 3.0 * (2.0 * 2.0 + 4.0) * held);
    // ZeRO-2 keeps a part of the sum, so each micro-batch reduces its gradients.
    assert_eq!(exchanged(2, 3), (3.0 * 4.0 + 2.0) * held);
}

#[test]
fn exchanges_hide_behind_passes_that_are_long_enough() {
    let overlap = Overlap { gradients: true, ..Overlap::default() };
    let job = Job { data: 8, overlap, ..single(2048) };
    let step = |network: f64| {
        estimate(&model(), &job, SERVERS, &PLAIN, &Counting { network, ..Counting::default() })
    };
    let fast = step(1.0);
    assert_eq!(fast.exchange_s, fast.whole_exchange_s / 2.0);
    // Longer than the backward pass: what is left after it is not hidden.
    let slow = step(1e9);
    let backward = slow.stages_s[0] - step(0.0).stages_s[0] + backward_s();
    assert!((slow.exchange_s / (slow.whole_exchange_s - backward) - 1.0).abs() < 1e-9);
}

/// The backward pass of the model, with its output layer.
fn backward_s() -> f64 {
    let step = estimate(&model(), &single(2048), SERVERS, &PLAIN, &Counting::default());
    step.stage.products * 2.0 / 3.0 + step.stage.attention * 2.5 / 3.5 + step.ends_s
}

#[test]
fn keys_and_values_go_to_all_ranks_of_a_sequence() {
    let job = Job { context: 4, tensor: 2, ..single(8192) };
    let costs = Counting::default();
    estimate(&model(), &job, SERVERS, &PLAIN, &costs);
    // Keys and values of half of the heads, of the whole sequence, 2 bytes each; with their gradients backward.
    let forward = 8192.0 * 2.0 * 6144.0 * 2.0;
    for bytes in [forward, 2.0 * forward] {
        assert!(costs.calls.borrow().contains(&(Collective::AllGather, bytes, group(4, 1, 2))));
    }
}

#[test]
fn jobs_that_cannot_run_are_refused_with_what_works() {
    let job = Job { tensor: 7, pipeline: 8, virtual_stages: 2, ..single(2048) };
    let found = check(&model(), &job);
    let said: Vec<_> =
        found.iter().map(|each| (each.key.clone().unwrap(), each.help.clone().unwrap())).collect();
    assert_eq!(said[0], ("tensor".to_owned(), "write tensor: 6".to_owned()));
    assert!(said.contains(&("pipeline".to_owned(), "write pipeline: 2".to_owned())));
    assert_eq!(check(&model(), &Job { expert: 2, ..single(2048) }).len(), 1);
    assert!(check(&model(), &single(2048)).is_empty());
}

#[test]
fn exchanges_of_zero_3_hide_only_a_part() {
    let overlap = Overlap { gradients: true, parameters: true, ..Overlap::default() };
    let job = Job { data: 8, zero: 3, shard_group: 8, micro_batches: 4, overlap, ..single(2048) };
    let costs = Counting { network: 1.0, ..Counting::default() };
    // Kernels of exchanges take half of their time of computing. The embedding has hardly anything to hide behind: its gather
    // before the forward pass and its reduction after the backward pass, and the gather and the reduction of the first layer
    // beside it; nor has the first gather backward, of the output layer, whose table is the embedding's.
    let tables = f64::from(u32::try_from(model().vocab * model().hidden).unwrap());
    let layer = (model().parameters() as f64 - tables) / 2.0;
    let exposed = |step: &syncline_estimate::Step, part: f64, batches: f64| {
        let ends = batches * ((2.0 + 4.0) * (tables + layer));
        let lost = part * step.whole_exchange_s;
        assert!(
            step.exchange_s > lost + 0.5 * ends && step.exchange_s < lost + 1.01 * ends,
            "{step:?} {ends}"
        );
    };
    exposed(&estimate(&model(), &job, SERVERS, &PLAIN, &costs), 0.5, 4.0);
    let software = Software { sharded_exposed: Some(0.25), ..PLAIN };
    let costs = Counting { network: 1.0, ..Counting::default() };
    exposed(
        &estimate(&model(), &Job { micro_batches: 1, ..job.clone() }, SERVERS, &software, &costs),
        0.25,
        1.0,
    );
    // In a pipeline parameters stay gathered, and gradients are reduced once.
    let staged = Job { pipeline: 2, ..job.clone() };
    let costs = Counting { network: 1.0, ..Counting::default() };
    let held = model().parameters() as f64;
    let step = estimate(&model(), &staged, SERVERS, &PLAIN, &costs);
    assert!(step.whole_exchange_s < (2.0 + 4.0) * held);
    // Adapters leave frozen parameters, which are gathered all the same.
    let adapters = Job { adapters: Some(16), ..job };
    let costs = Counting { network: 1.0, ..Counting::default() };
    let step = estimate(&model(), &adapters, SERVERS, &PLAIN, &costs);
    // Of their own, they have two matrices for each product: of 16 columns, and as many rows as it has inputs and outputs.
    let hidden = 12_288.0;
    let sizes = 4.0 * hidden + 2.0 * hidden + 2.0 * 5.0 * hidden;
    let trained = f64::from(model().layers) * 16.0 * sizes;
    assert_eq!(step.whole_exchange_s, 4.0 * (2.0 * 2.0 * held + 4.0 * trained));
}

/// What is left of reductions when the backward pass of the last micro-batch ends, chunk by chunk: gradients of a chunk come while
/// the last one of as many micro-batches as stages goes backward through it, and links reduce them one after the other.
fn left(reductions: f64, backward: f64, stages: u32, chunks: u32) -> f64 {
    let (all, each) = (f64::from(stages), f64::from(chunks));
    (0..chunks).fold(0.0, |left, _| {
        let others = f64::max(left - (all - 1.0) * backward / each, 0.0);
        f64::max(others + reductions / each - backward / each, 0.0)
    })
}

#[test]
fn an_interleaved_pipeline_hides_gradients_of_all_chunks_but_the_first_behind_more_micro_batches() {
    let software = Software { data_exposed: 0.0, ..PLAIN };
    let overlap = Overlap { gradients: true, ..Overlap::default() };
    let deep = Model { layers: 16, tied: false, ..gpt3() };
    for (stages, chunks) in [(2, 1), (4, 1), (2, 2), (4, 2), (4, 4), (2, 8)] {
        for network in [1e3, 1e4, 3e4, 1e5, 1e6] {
            let job = Job {
                pipeline: stages,
                virtual_stages: chunks,
                micro_batches: 2 * stages,
                data: 8,
                overlap,
                ..single(2048)
            };
            let run = |job: &Job, network: f64| {
                let costs = Counting { network, ..Counting::default() };
                estimate(&deep, job, SERVERS, &software, &costs)
            };
            let found = run(&job, network);
            // With one chunk a stage, all but the backward pass of a micro-batch is left.
            let one = run(&Job { virtual_stages: 1, ..job.clone() }, 1e9);
            let backward = one.whole_exchange_s - one.exchange_s;
            let by_hand = left(found.whole_exchange_s, backward, stages, chunks);
            let close = (found.exchange_s - by_hand).abs() <= 1e-6 * (by_hand + backward);
            assert!(close, "{stages} {chunks} {network}: {} {by_hand} {backward}", found.exchange_s);
        }
    }
}

#[test]
fn stages_of_which_some_are_on_other_servers_send_between_servers() {
    let job = Job { tensor: 4, pipeline: 4, micro_batches: 8, ..single(2048) };
    let costs = Counting { network: 1.0, ..Counting::default() };
    estimate(&Model { layers: 4, ..gpt3() }, &job, SERVERS, &PLAIN, &costs);
    // SC21, 4.1: each tensor-parallel rank sends its part of the activations, and the receivers gather them.
    let bytes = 2048.0 * 12_288.0 * 2.0;
    let gather = (Collective::AllGather, bytes, group(4, 1, 1));
    assert!(costs.calls.borrow().contains(&(Collective::Send, bytes / 4.0, group(1, 2, 4))));
    assert!(costs.calls.borrow().contains(&gather));
    // With sequence parallelism, a rank has no more than its part.
    let costs = Counting { network: 1.0, ..Counting::default() };
    estimate(
        &Model { layers: 4, ..gpt3() },
        &Job { sequence_parallel: true, ..job },
        SERVERS,
        &PLAIN,
        &costs,
    );
    let sends: Vec<_> =
        costs.calls.borrow().iter().filter(|call| call.0 == Collective::Send).copied().collect();
    assert!(!sends.is_empty() && sends.iter().all(|call| call.1 == bytes / 4.0));
}

#[test]
fn numbers_that_are_nothing_are_refused() {
    for job in [
        Job { data: 0, ..single(2048) },
        Job { expert: 0, ..single(2048) },
        Job { sequence: 0, ..single(2048) },
        Job { data: 1 << 31, tensor: 16, ..single(2048) },
    ] {
        assert!(!check(&model(), &job).is_empty());
    }
    let keys = Model { kv_heads: 8, ..model() };
    assert_eq!(check(&keys, &Job { tensor: 6, ..single(2048) })[0].help.as_deref(), Some("write tensor: 4"));
    assert!(check(&keys, &Job { tensor: 16, ..single(2048) }).is_empty());
}

/// The number after `key: ` in a remedy.
fn remedy(found: &[syncline_diagnostics::Diagnostic], key: &str) -> Option<u32> {
    let wrong = found.iter().find(|each| each.key.as_deref() == Some(key))?;
    wrong.help.as_deref()?.strip_prefix(&format!("write {key}: "))?.parse().ok()
}

/// 40 heads, a block of 27,648 and 8 heads of keys: 1, 2, 4 and 8 ranks divide all three, 5 and 20 the heads alone.
#[test]
fn a_remedy_of_an_axis_divides_all_that_the_axis_divides() {
    let dense = Model { heads: 40, kv_heads: 8, ffn: 27_648, ..model() };
    let experts = routed(160, 6, 1536);
    let mixture = Model { experts: Some(experts), ..dense };
    for ranks in 1..200 {
        let job = Job { tensor: ranks, ..single(2048) };
        if let Some(better) = remedy(&check(&dense, &job), "tensor") {
            assert_eq!(remedy(&check(&dense, &Job { tensor: better, ..job }), "tensor"), None, "{ranks}");
        }
        for expert_tensor in [1, 2, 3] {
            let mut job = Job { expert: ranks, expert_tensor, data: 64, ..single(2048) };
            if let Some(better) = remedy(&check(&mixture, &job), "expert_tensor") {
                job.expert_tensor = better;
                assert_eq!(remedy(&check(&mixture, &job), "expert_tensor"), None, "{ranks} {better}");
            }
            if let Some(better) = remedy(&check(&mixture, &job), "expert") {
                job.expert = better;
                assert_eq!(remedy(&check(&mixture, &job), "expert"), None, "{ranks} {better}");
            }
        }
    }
    assert_eq!(remedy(&check(&dense, &Job { tensor: 16, ..single(2048) }), "tensor"), Some(8));
    assert_eq!(remedy(&check(&mixture, &Job { expert: 64, data: 64, ..single(2048) }), "expert"), Some(32));
    // One head of keys on each rank: none is left to exchange.
    let ulysses = Job { tensor: 8, context: 2, context_method: ContextMethod::Ulysses, ..single(2048) };
    assert_eq!(check(&dense, &ulysses)[0].help.as_deref(), Some("write context_method: ring"));
}

/// Both ends of a pipeline have a tied table, and sum its gradients after all others (Narayanan et al. 2021).
#[test]
fn both_ends_sum_the_gradients_of_a_tied_table() {
    let exchanged = |tied: bool, pipeline: u32| {
        let model = Model { tied, layers: 96, ..model() };
        let job = Job { pipeline, tensor: 8, micro_batches: 8, ..single(2048) };
        let costs = Counting { network: 1.0, ..Counting::default() };
        estimate(&model, &job, SERVERS, &PLAIN, &costs).exchange_s
    };
    let table = model().table_parameters() as f64 / 8.0;
    assert_eq!((exchanged(false, 4), exchanged(true, 1)), (0.0, 0.0));
    assert_eq!(exchanged(true, 4), 4.0 * table);
}

/// Ranks in groups that each hold all states (HSDP, `--num-distributed-optimizer-instances`) reduce gradients among the group,
/// and sum their part with those that hold the same.
#[test]
fn groups_that_hold_all_states_sum_their_parts() {
    let held = model().parameters() as f64;
    for (zero, parameters) in [(1, 2.0), (2, 2.0), (3, 4.0)] {
        let job = Job { data: 64, zero, shard_group: 8, ..single(2048) };
        let costs = Counting { network: 1.0, ..Counting::default() };
        let step = estimate(&model(), &job, SERVERS, &PLAIN, &costs);
        assert_eq!(step.whole_exchange_s, (4.0 + parameters + 4.0 / 8.0) * held);
        let calls = costs.calls.borrow();
        assert!(calls.contains(&(Collective::ReduceScatter, 4.0 * held, group(8, 1, 1))));
        assert!(calls.contains(&(Collective::AllReduce, 4.0 * held / 8.0, group(1, 8, 8))));
    }
}
