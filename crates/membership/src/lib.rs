//! Members of a job: who takes part, who is alive, and who is at fault. Every member has one connection to a coordinator, which
//! runs beside rank 0, and a connection to each other member for each lane.
//!
//! A member that loses a peer cannot know whether the peer, the connection or itself is at fault: the neighbours of a process
//! that died lose each other a moment later. So members report what they see; the [`coordinator`] decides once, and sends the
//! same verdict to all. A member that loses the coordinator blames only that ([`member`]).
//!
//! Without sockets, clocks and threads:
//!
//! - [`message`]: the messages between members and coordinator;
//! - [`coordinator`], [`member`]: the two sides;
//! - [`judge`]: what a member does about its troubles;
//! - [`admission`]: who may join; [`assembly`]: who takes part in the next epoch;
//! - [`arbiter`]: what an executor and its arbiter ask of each other.
//!
//! On sockets and threads:
//!
//! - [`place`]: where a member is and where it finds the others; [`hooks`]: what is called while it joins;
//! - [`coordinator_thread`]: the coordinator's thread; [`member_connection`]: a member's connection to it, and its thread;
//! - [`meeting`]: connections between the lanes of members.

pub mod admission;
pub mod arbiter;
pub mod assembly;
pub mod coordinator;
pub mod coordinator_thread;
pub mod hooks;
pub mod judge;
pub mod meeting;
pub mod member;
pub mod member_connection;
pub mod message;
pub mod place;

pub use assembly::Assembly;
pub use coordinator::Coordinator;
pub use judge::Judge;
pub use member::Member;
