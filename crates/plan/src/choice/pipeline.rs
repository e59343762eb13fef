//! What phases take that run one after the other for each chunk, and at the same time for different chunks.
//!
//! Some phase is the slowest: it begins when the phases before it have handed on their first chunk, and what comes after it
//! still has to do with its last chunks when it ends. Phases that keep the same links busy, such as a reduce-scatter and
//! the all-gather that follows it, are the slowest together.

use super::estimate::Cost;
use syncline_units::Time;

/// The time of all phases; each has its line, which stands for the links that it keeps busy.
pub(super) fn time(phases: &[(usize, Cost)]) -> Time {
    let mut before = 0u64;
    let mut most = 0;
    for (from, (line, cost)) in phases.iter().enumerate() {
        // The slowest alone, then with each later phase on its line.
        let mut slowest = before.saturating_add(cost.whole.0);
        most = most.max(slowest.saturating_add(drain(cost, &phases[from + 1..])));
        let mut between = 0u64;
        for (to, (other, next)) in phases.iter().enumerate().skip(from + 1) {
            if other != line {
                between = between.saturating_add(next.alone.0);
                continue;
            }
            slowest = slowest.saturating_add(next.busy().0);
            let together = slowest.saturating_add(between);
            most = most.max(together.saturating_add(drain(next, &phases[to + 1..])));
        }
        before = before.saturating_add(cost.first.0);
    }
    Time(most)
}

/// What phases still have to do when the one before them ends: with one chunk, or with as many as come at once.
fn drain(slowest: &Cost, later: &[(usize, Cost)]) -> u64 {
    let more = slowest.burst.saturating_sub(1);
    let rest = |cost: &Cost| cost.alone.0.saturating_add(cost.each.0.saturating_mul(more.min(cost.chunks)));
    later.iter().map(|(_, cost)| rest(cost)).fold(0, u64::saturating_add)
}
