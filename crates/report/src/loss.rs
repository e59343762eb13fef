//! What retransmission time-outs cost, and the sentence about the most expensive one.

use std::cmp::Reverse;
use syncline_net_api::Stall;
use syncline_prepare::Prepared;
use syncline_timeline::{Table, tables};
use syncline_units::Time;

/// Time of some spans of a run in which a connection waited for its time-out and no link on its ways sent anything.
/// Where several connections did so at once it counts once, so this is a lower bound of what time-outs cost in these
/// spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Cost {
    /// Cost of initial time-outs, before a round trip was measured.
    pub initial: Time,
    /// Further cost of all other time-outs, not counting times that `initial` counts.
    pub later: Time,
    /// The stall with the most such time.
    pub longest: Option<StallCost>,
}

/// What one stall costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StallCost {
    pub stall: Stall,
    pub time: Time,
}

impl Cost {
    /// What stalls cost in `spans` of time, in any order.
    pub(crate) fn of(stalls: &[Stall], spans: &[(Time, Time)]) -> Self {
        let spans = joined(spans.iter().copied());
        let idle = |wanted: fn(&&Stall) -> bool| {
            stalls.iter().filter(wanted).map(|stall| (stall.idle_from, stall.end))
        };
        let initial = common(&joined(idle(|stall| stall.initial)), &spans);
        let all = common(&joined(idle(|_| true)), &spans);
        let within = |stall: &Stall| common(&[(stall.idle_from, stall.end)], &spans);
        let costs = stalls.iter().map(|stall| StallCost { stall: *stall, time: within(stall) });
        let longest = costs.filter(|cost| !cost.time.is_zero()).max_by_key(|&StallCost { stall, time }| {
            (time, Reverse((stall.end, stall.from, stall.to, stall.lane)))
        });
        Self { initial, later: all.saturating_sub(initial), longest }
    }

    /// Cost of all time-outs.
    pub(crate) fn all(&self) -> Time {
        self.initial.saturating_add(self.later)
    }
}

/// Merges overlapping spans of time and sorts them.
fn joined(spans: impl Iterator<Item = (Time, Time)>) -> Vec<(Time, Time)> {
    let mut sorted: Vec<(Time, Time)> = spans.filter(|(start, end)| start < end).collect();
    sorted.sort_unstable();
    let mut joined: Vec<(Time, Time)> = Vec::new();
    for (start, end) in sorted {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    joined
}

/// Total time that is in both of two lists of [`joined`] spans.
fn common(a: &[(Time, Time)], b: &[(Time, Time)]) -> Time {
    let (mut i, mut j, mut sum) = (0, 0, Time::ZERO);
    while let (Some(&(start, end)), Some(&(other, until))) = (a.get(i), b.get(j)) {
        sum += end.min(until).saturating_sub(start.max(other));
        if end < until { i += 1 } else { j += 1 }
    }
    sum
}

/// Which time-out cost most and what all of them cost, as parts of `total`: sentences with a space before them, or
/// nothing.
pub(crate) fn sentence(prepared: &Prepared, cost: &Cost, total: Time) -> String {
    let Some(StallCost { stall, time: idle }) = cost.longest else { return String::new() };
    let share = |time: Time| percent(time.0 as f64 / total.0.max(1) as f64);
    let name = |npu: syncline_units::NpuId| prepared.fabric.vertex_name(npu.0);
    let what = match (stall.initial, stall.in_a_row) {
        (true, 1) => "its first retransmission time-out (`network.initial_timeout`)".to_owned(),
        (true, times) => format!(
            "time-out {times} in a row before its first round trip (`network.initial_timeout`, doubled each time)"
        ),
        (false, 1) => "a retransmission time-out (`network.min_timeout`)".to_owned(),
        (false, times) => format!("time-out {times} in a row (`network.min_timeout`, doubled each time)"),
    };
    let mut words = format!(
        " Connection {} -> {} waited {} for {what}, {} of the run with its links idle.",
        name(stall.from),
        name(stall.to),
        stall.end.saturating_sub(stall.start),
        share(idle),
    );
    if cost.all() > idle {
        words.push_str(&match (cost.initial.is_zero(), cost.later.is_zero()) {
            (false, false) => format!(
                " All initial time-outs together left links idle for {} of the run, and later ones for {} more.",
                share(cost.initial),
                share(cost.later),
            ),
            (false, true) => {
                format!(" All initial time-outs together left links idle for {} of the run.", share(cost.initial))
            }
            _ => format!(" All time-outs together left links idle for {} of the run.", share(cost.later)),
        });
    }
    words
}

/// The table of the longest stalls.
pub(crate) fn table(stalls: &[Stall]) -> Table {
    let time = |of: fn(&Stall) -> Time| stalls.iter().map(|stall| of(stall).as_s()).collect::<Vec<f64>>();
    let whole = |of: fn(&Stall) -> u32| stalls.iter().map(|stall| i64::from(of(stall))).collect::<Vec<i64>>();
    Table::from(tables::Timeouts {
        from: whole(|stall| stall.from.0),
        to: whole(|stall| stall.to.0),
        lane: whole(|stall| stall.lane),
        start_s: time(|stall| stall.start),
        end_s: time(|stall| stall.end),
        idle_s: time(|stall| stall.end.saturating_sub(stall.idle_from)),
        initial: stalls.iter().map(|stall| stall.initial).collect(),
        in_a_row: whole(|stall| stall.in_a_row),
    })
}

/// Formats a share. Shares just below all or just above nothing are not rounded to 100 % or 0 %.
fn percent(fraction: f64) -> String {
    match 100.0 * fraction {
        p if p > 99.9 && p < 100.0 => "more than 99.9 %".to_owned(),
        p if p > 0.0 && p < 0.1 => "less than 0.1 %".to_owned(),
        p => format!("{p:.1} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syncline_units::NpuId;

    fn stall(from: u32, idle_from: u64, end: u64, initial: bool) -> Stall {
        let (start, idle_from, end) = (Time(idle_from.saturating_sub(5)), Time(idle_from), Time(end));
        Stall { from: NpuId(from), to: NpuId(0), lane: 0, start, end, idle_from, initial, in_a_row: 1 }
    }

    #[test]
    fn time_lost_by_several_connections_at_once_counts_once() {
        let stalls = [
            stall(1, 10, 50, false),
            stall(2, 20, 60, false),
            stall(3, 40, 140, true),
            stall(4, 130, 150, false),
            stall(5, 200, 300, false),
        ];
        let all = Cost::of(&stalls, &[(Time(0), Time(1_000))]);
        // Initial 40 to 140; others 10 to 40, 140 to 150 and 200 to 300.
        assert_eq!((all.initial, all.later), (Time(100), Time(140)));
        assert_eq!(
            all.longest,
            Some(StallCost { stall: stalls[2], time: Time(100) }),
            "the one that ended first of two"
        );
        // Of the spans 0 to 30, 35 to 45 and 290 to 400: 10 to 30, 35 to 45, 290 to 300.
        let spans = [(Time(290), Time(400)), (Time(0), Time(30)), (Time(35), Time(45))];
        let some = Cost::of(&stalls, &spans);
        assert_eq!((some.initial, some.all()), (Time(5), Time(40)));
        assert_eq!(Cost::of(&[], &spans), Cost::default());
        assert_eq!(Cost::of(&stalls, &[]), Cost::default());
    }
}
