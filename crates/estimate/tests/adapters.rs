//! Adapters of low rank, by hand.

use crate::{Counting, PLAIN, SERVERS, gpt3, single};
use syncline_estimate::{Adapted, Job, MemorySoftware, Model, Step, estimate, memory};

fn job(adapters: Option<u32>, adapted: Adapted) -> Job {
    Job { adapters, adapted, ..single(2048) }
}

fn step(job: &Job) -> Step {
    // No vocabulary to speak of, so that layers are all.
    estimate(&Model { vocab: 1, ..gpt3() }, job, SERVERS, &PLAIN, &Counting::default())
}

#[test]
fn adapters_multiply_three_times_as_training_does() {
    // A layer's products have 3 h and h outputs of h inputs in attention, 4 h of h and h of 4 h in the block: adapters of rank r
    // have r (inputs + outputs) weights, 11 h r of which are outside the block: 4 h r + 2 h r; the block's are 5 h r twice.
    let (s, h, l, r) = (2048.0, 12_288.0, 96.0, 16.0);
    let frozen = 4.0 * s * 12.0 * h * h * l;
    let all = [(Adapted::Qkv, 4.0), (Adapted::Attention, 6.0), (Adapted::All, 16.0)];
    for (adapted, weights) in all.map(|(adapted, times)| (adapted, times * h * r)) {
        let found = step(&job(Some(16), adapted)).stage.products;
        // Frozen products have no gradients of weights; adapters have all three passes.
        let expected = frozen + 3.0 * 2.0 * s * weights * l;
        assert!((found / expected - 1.0).abs() < 1e-12, "{found} is not {expected}");
    }
}

#[test]
fn what_adapters_add_is_read_and_written() {
    let costs = Counting { memory: 1.0, ..Counting::default() };
    let model = Model { vocab: 1, ..gpt3() };
    let moved = |job: &Job| estimate(&model, job, SERVERS, &PLAIN, &costs).stage.element_wise;
    // Outputs forward and inputs backward, 6 bytes each: 4 h and 2 h in attention, 5 h and 5 h in the block.
    let (s, h, l) = (2048.0, 12_288.0, 96.0);
    let block = moved(&job(Some(16), Adapted::All)) - moved(&job(Some(16), Adapted::Attention));
    assert!((block / (6.0 * s * 10.0 * h * l) - 1.0).abs() < 1e-9);
    // More rank moves no more.
    assert_eq!(moved(&job(Some(16), Adapted::All)), moved(&job(Some(64), Adapted::All)));
}

#[test]
fn adapters_of_attention_alone_have_fewer_states() {
    let software = MemorySoftware::MEGATRON;
    let states = |adapted| memory(&gpt3(), &job(Some(16), adapted), &software).optimizer as f64;
    let (h, l) = (12_288.0, 96.0);
    assert_eq!(states(Adapted::Attention), 12.0 * 16.0 * 6.0 * h * l);
    assert_eq!(states(Adapted::All), 12.0 * 16.0 * 16.0 * h * l);
}
