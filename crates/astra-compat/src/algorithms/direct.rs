//! `direct` and `directN`: each rank sends to all others in turn, +1, +2, ..., with N messages in flight. An
//! all-reduce starts its second half once all messages of the first have arrived. ASTRA-sim 2, `AllToAll.cc`.

use super::Pattern;
use super::ring::Ring;

/// A phase over `count` ranks in which each holds `bytes`. `listed` means a group that is only part of the
/// machine.
pub(crate) fn direct(
    pattern: Pattern,
    count: u32,
    bytes: u64,
    forward: bool,
    window: Option<u32>,
    listed: bool,
) -> Ring {
    let others = count - 1;
    let window = window.map_or(others, |window| window.min(others));
    Ring::new(pattern, count, bytes, forward).into_direct(count, window, listed)
}
