//! The time of a pipeline of phases. Each chunk runs the phases one after the other, and different chunks run
//! different phases at the same time.
//!
//! The slowest phase decides. It begins when the earlier phases have finished their first chunk, and when it ends the
//! later phases still process its last chunks. Phases along one axis, such as a reduce-scatter and the all-gather
//! that follows it, compete for the same links, so their times add up.

use super::estimate::Cost;
use syncline_units::Time;

/// The time of all phases, given as axis and cost.
pub(super) fn time(phases: &[(usize, Cost)]) -> Time {
    let mut before = 0u64;
    let mut most = 0;
    for (from, (axis, cost)) in phases.iter().enumerate() {
        // This phase by itself, then together with each later phase along its axis. Together they keep the axis busy
        // for the sum of what each sends; the phase whose chunks wait longest for each other adds that wait.
        let mut busy = before.saturating_add(cost.busy().0);
        let mut waits = cost.whole.0.saturating_sub(cost.busy().0);
        most = most.max(busy.saturating_add(waits).saturating_add(drain(cost, &phases[from + 1..])));
        let mut between = 0u64;
        for (to, (other, next)) in phases.iter().enumerate().skip(from + 1) {
            if other != axis {
                between = between.saturating_add(next.alone.0);
                continue;
            }
            busy = busy.saturating_add(next.busy().0);
            waits = waits.max(next.whole.0.saturating_sub(next.busy().0));
            let together = busy.saturating_add(waits).saturating_add(between);
            most = most.max(together.saturating_add(drain(next, &phases[to + 1..])));
        }
        before = before.saturating_add(cost.first.0);
    }
    Time(most)
}

/// How long later phases continue after `slowest` ends: they process the chunks that it finishes last, one or a
/// burst.
fn drain(slowest: &Cost, later: &[(usize, Cost)]) -> u64 {
    let more = slowest.burst.saturating_sub(1);
    let rest = |cost: &Cost| cost.alone.0.saturating_add(cost.each.0.saturating_mul(more.min(cost.chunks)));
    later.iter().map(|(_, cost)| rest(cost)).fold(0, u64::saturating_add)
}
