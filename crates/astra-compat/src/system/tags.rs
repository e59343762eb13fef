//! Tags keep messages of trace nodes, of collectives and of rendezvous apart. ASTRA-sim 2, `Sys.cc:front_end_sim_send`.

/// Where the tags of collectives begin; each kind has so many.
const COLLECTIVE: u32 = 500_000_000;
/// Where the tags of rendezvous begin.
pub(crate) const RENDEZVOUS: u32 = 1_000_000_000;
/// How many streams a communicator group may number before it runs into the next one's.
const GROUP: u64 = 1_000_000;

/// The tag of a trace node with that `comm_tag`.
pub(crate) const fn native(tag: u32) -> u32 {
    tag % COLLECTIVE
}

/// The tag of a collective's stream.
pub(crate) const fn collective(stream: u64) -> u32 {
    (stream % COLLECTIVE as u64) as u32 + COLLECTIVE
}

/// The first stream of a communicator group.
pub(crate) const fn first_of_group(group: u32) -> u64 {
    group as u64 * GROUP
}

/// A tag in words, for reports.
pub(crate) fn describe(tag: u32) -> String {
    match tag {
        RENDEZVOUS.. => format!("rendezvous of {}", describe(tag - RENDEZVOUS)),
        COLLECTIVE.. => format!("stream {}", tag - COLLECTIVE),
        _ => format!("tag {tag}"),
    }
}
