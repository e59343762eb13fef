//! Where `analytical` is too quick: links inside the network over which it sends more than they can carry, because no
//! message waits there.

use crate::links::LinkRow;
use syncline_engine::Record;
use syncline_net_api::Measurements;
use syncline_prepare::Prepared;
use syncline_timeline::Overload;
use syncline_units::LinkId;

/// Excess below this part of the watched time is not reported.
const LITTLE: f64 = 1e-3;

/// Finds links that carry too much in a slice of the watched part of a run, or in the whole run; `None` if every link
/// can carry its bytes.
///
/// Both results are lower bounds. Bytes that a link cannot send in a slice of time are sent later, though perhaps while
/// no task waits for them. And a run takes at least as long as its fullest link needs for all its bytes.
pub(crate) fn found(
    prepared: &Prepared,
    record: &Record,
    links: &[LinkRow],
    network: &mut dyn Measurements,
) -> Option<Overload> {
    let symmetry = &prepared.symmetry;
    let (slices, activity) = (&record.slices, network.activity());
    // For a link: the time by which its bytes of a slice take longer than the slice, summed over slices; and the
    // largest ratio of these bytes' time to the length of the slice.
    let excess = |link: &LinkRow| {
        let busy = activity.row(symmetry.port(LinkId(link.id)) as usize);
        let (mut late, mut times) = (0u64, 0.0f64);
        for (slice, &busy) in slices.iter().zip(busy) {
            let length = slice.end.saturating_sub(slice.start).0;
            late += busy.saturating_sub(length);
            if length > 0 {
                times = times.max(busy as f64 / length as f64);
            }
        }
        (late, times)
    };
    let watched = slices.last().map_or(0.0, |slice| slice.end.0 as f64);
    let needed = |link: &LinkRow| link.bytes as f64 / link.rate.max(f64::MIN_POSITIVE);
    let total = record.finish.as_s();
    let (mut over, mut least) = (0, 0.0f64);
    let mut worst: Option<(u64, f64, &LinkRow)> = None;
    for link in links.iter().filter(|link| link.bytes > 0) {
        let (late, times) = excess(link);
        // Ignore rounding.
        if late as f64 <= LITTLE * watched && needed(link) <= total * (1.0 + 1e-9) {
            continue;
        }
        let times = times.max(needed(link) / total.max(f64::MIN_POSITIVE));
        over += u64::from(link.links);
        least = least.max(needed(link));
        if worst.is_none_or(|(most, ..)| late > most) {
            worst = Some((late, times, link));
        }
    }
    let (late, times, link) = worst?;
    Some(Overload {
        link: format!("{} -> {}", link.from, link.to),
        links: over,
        times,
        late_s: late as f64 / crate::links::PS,
        least_time_s: least.max(total),
    })
}
