//! Tags separate the messages of trace nodes, of collectives and of rendezvous. ASTRA-sim 2,
//! `Sys.cc:front_end_sim_send`.

/// Where the tags of collectives begin; each kind of tag has this many.
const COLLECTIVE: u32 = 500_000_000;
/// Where the tags of rendezvous begin.
pub(crate) const RENDEZVOUS: u32 = 1_000_000_000;
/// Number of streams of a communicator group before its numbers collide with those of the next group.
const GROUP: u64 = 1_000_000;

/// Returns the tag of a trace node with this `comm_tag`.
pub(crate) const fn native(tag: u32) -> u32 {
    tag % COLLECTIVE
}

/// Returns the tag of a collective's stream.
pub(crate) const fn collective(stream: u64) -> u32 {
    (stream % COLLECTIVE as u64) as u32 + COLLECTIVE
}

/// Returns the number of a communicator group's first stream.
pub(crate) const fn first_of_group(group: u32) -> u64 {
    group as u64 * GROUP
}

/// Describes a tag, for reports.
pub(crate) fn describe(tag: u32) -> String {
    match tag {
        RENDEZVOUS.. => format!("rendezvous of {}", describe(tag - RENDEZVOUS)),
        COLLECTIVE.. => format!("stream {}", tag - COLLECTIVE),
        _ => format!("tag {tag}"),
    }
}
