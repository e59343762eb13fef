//! Members of a job: who takes part, who is alive, and who is at fault. Every member has one connection to a
//! coordinator, which runs in the process of rank 0, in an elastic job until another rank has to take over. For each
//! lane it has connections to other members: to all of them in a small job, and in a large one to those with which it
//! exchanges something.
//!
//! A member that loses a peer cannot know whether the peer, the connection or the member itself is at fault: when a
//! process dies, its neighbours abort and lose each other a moment later. So members report what they see. The
//! [`coordinator`] decides once and sends the same verdict to all. A member that loses the coordinator blames only
//! the coordinator ([`member`]).
//!
//! Modules without sockets, clocks and threads:
//!
//! - [`message`]: the messages between members and coordinator;
//! - [`coordinator`], [`member`]: the state of the two sides;
//! - [`fault_rules`]: how a member reacts to trouble with a peer;
//! - `plan_changes`: how all ranks of a group change their plans at the same operation;
//! - [`dialing`]: which connections between lanes a member makes, and when;
//! - [`admission`]: who may join; [`assembly`]: who takes part in the next epoch;
//! - [`coordinator_link`]: the interface between an executor and the coordinator that decides who is at fault.
//!
//! Modules with sockets and threads:
//!
//! - [`member_settings`]: a member's rank, its addresses and the coordinator's; [`hooks`]: callbacks while it joins;
//!   [`join_error`]: why it could not;
//! - [`coordinator_thread`]: the coordinator's thread, or one that stands by for it; [`member_connection`]: a member's
//!   connection to the coordinator; [`member_thread`]: the thread that serves it; [`succession`]: how a member finds its
//!   coordinator again;
//! - [`roster`]: the ranks of an epoch; [`listeners`]: the sockets on which a member listens; [`lane_connector`]:
//!   connects the lanes of members; [`connector_thread`]: the thread that does so when they are first needed.

pub mod admission;
pub mod assembly;
pub mod connector_thread;
pub mod coordinator;
pub mod coordinator_link;
pub mod coordinator_thread;
pub mod dialing;
pub mod fault_rules;
pub mod hooks;
pub mod join_error;
pub mod lane_connector;
pub mod listeners;
pub mod member;
pub mod member_connection;
pub mod member_settings;
pub mod member_thread;
pub mod message;
mod plan_changes;
pub mod roster;
pub mod succession;

pub use assembly::Assembly;
pub use coordinator::Coordinator;
pub use fault_rules::FaultRules;
pub use member::Member;
