//! Who is there, who lives, and who is at fault: every member has one connection to a coordinator, beside its connections to
//! other members. No sockets, clocks or threads.
//!
//! A member that loses a peer cannot know whether the peer, the connection or itself is at fault: the neighbours of a process
//! that died lose each other a moment later. So it only reports, and the [`coordinator`] decides once for all, and tells all
//! the same. Whoever loses the coordinator knows only that ([`member`]).
//!
//! - [`message`]: what is said;
//! - [`coordinator`], [`member`]: the two sides;
//! - [`judge`]: what a member makes of trouble;
//! - [`admission`]: who may come in; [`assembly`]: who takes part in the next epoch.

pub mod admission;
pub mod assembly;
pub mod coordinator;
pub mod judge;
pub mod member;
pub mod message;

pub use assembly::Assembly;
pub use coordinator::Coordinator;
pub use judge::Judge;
pub use member::Member;
