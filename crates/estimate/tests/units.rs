//! Units of ZeRO-3, and exchanges of interleaved pipelines, beside what can be said by hand.

use syncline_estimate::units::{Hidden, Unit, seconds};

const BOTH: Hidden = Hidden { gathers: true, reductions: true };

fn unit(computing: [f64; 2], gather: f64, reduce: f64) -> Unit {
    Unit { computing, gather, reduce, ..Unit::default() }
}

#[test]
fn nothing_hides_the_first_gathers_and_the_last_reduction() {
    // Three units that compute for longer than they are exchanged: a pass waits for its first gather alone, and the last
    // gradients have nothing to hide behind.
    let units = [unit([10.0, 20.0], 2.0, 4.0); 3];
    assert_eq!(seconds(&units, 1, BOTH), 2.0 * 2.0 + 3.0 * 30.0 + 4.0);
    // The next micro-batch gathers after that reduction.
    assert_eq!(seconds(&units, 5, BOTH), 5.0 * (2.0 * 2.0 + 3.0 * 30.0 + 4.0));
}

#[test]
fn links_that_are_slower_than_computing_set_the_pace() {
    // Forward, each gather but the first hides behind nothing; backward, a gather and a reduction for each unit.
    let units = [unit([1.0, 2.0], 5.0, 10.0); 4];
    let found = seconds(&units, 1, BOTH);
    let links = 4.0 * (2.0 * 5.0 + 10.0);
    assert!(found >= links && found <= links + 3.0, "{found} of {links}");
}

#[test]
fn reductions_hide_where_gathers_do_not() {
    // Backward, the second gather begins with a reduction of 4, and takes 4 seconds rather than 2, at half its rate. The other 2 seconds
    // of the reduction hide behind computing; the last reduction has nothing to hide behind.
    let units = [unit([10.0, 20.0], 2.0, 4.0); 2];
    let alone = Hidden { gathers: false, reductions: true };
    let forward = 2.0 * (2.0 + 10.0);
    assert_eq!(seconds(&units, 1, alone), forward + (2.0 + 20.0) + (4.0 + 20.0) + 4.0);
    // A reduction shorter than the gather is exposed whole: 1 second beside it.
    let units = [unit([10.0, 20.0], 2.0, 1.0); 2];
    assert_eq!(seconds(&units, 1, alone), forward + (2.0 + 20.0) + (3.0 + 20.0) + 1.0);
}

#[test]
fn without_overlap_a_step_is_the_sum_of_all() {
    let units = [unit([3.0, 6.0], 2.0, 4.0), unit([1.0, 2.0], 7.0, 5.0), unit([2.0, 5.0], 1.0, 1.0)];
    let sum: f64 = units
        .iter()
        .map(|each| each.computing[0] + each.computing[1] + 2.0 * each.gather + each.reduce)
        .sum();
    assert_eq!(seconds(&units, 3, Hidden { gathers: false, reductions: false }), 3.0 * sum);
}

#[test]
fn further_micro_batches_take_as_long_as_the_one_before() {
    let units = [unit([1.0, 2.0], 3.0, 2.0), unit([4.0, 9.0], 2.0, 8.0), unit([2.0, 3.0], 6.0, 1.0)];
    let step = |batches| seconds(&units, batches, BOTH);
    assert!((step(9) - step(8) - (step(5) - step(4))).abs() < 1e-9);
    assert!((step(4) - step(3) - (step(5) - step(4))).abs() < 1e-9);
}

#[test]
fn ranks_that_hold_the_same_part_sum_it_in_the_last_micro_batch() {
    let units = [Unit { sum: 3.0, ..unit([10.0, 20.0], 2.0, 4.0) }];
    assert_eq!(seconds(&units, 1, BOTH), 2.0 + 10.0 + 2.0 + 20.0 + 4.0 + 3.0);
    assert_eq!(seconds(&units, 4, BOTH) - seconds(&units, 3, BOTH), 38.0);
}

#[test]
fn tokens_and_gathers_share_links() {
    // Forward: the gather of the second unit takes 8, and the first computes 2 between two exchanges of 3 seconds. When it sends
    // tokens, 7 and then 3 seconds of the gather are left: each goes at half its rate.
    let first = Unit { tokens: [6.0, 0.0], ..unit([2.0, 0.0], 0.0, 0.0) };
    let alone = seconds(&[first], 1, BOTH);
    assert_eq!(alone, 8.0);
    let second = unit([0.0, 0.0], 8.0, 0.0);
    // 1 + 2 x 3 + 1 + 2 x 3 seconds, in which the gather has had 1 + 3 + 1 + 3; then nothing computes forward. Backward, the second
    // unit is gathered again.
    assert_eq!(seconds(&[first, second], 1, BOTH), 14.0 + 8.0);
}
