//! What the connections to each member are, for people.

use std::sync::{Mutex, PoisonError};
use syncline_transport::Connection;

/// Descriptions of the connections to each member, over all lanes.
#[derive(Debug)]
pub(super) struct Transports(Mutex<Vec<Vec<String>>>);

impl Transports {
    /// Describes connections, by lane and member.
    pub(super) fn new(connections: &[Vec<Option<Connection>>]) -> Self {
        let members = connections.first().map_or(0, Vec::len);
        let transports = Self(Mutex::new(vec![Vec::new(); members]));
        for lane in connections {
            for (member, connection) in (0u32..).zip(lane) {
                connection.iter().for_each(|connection| transports.add(member, connection));
            }
        }
        transports
    }

    /// Adds a connection to a member.
    pub(super) fn add(&self, member: u32, connection: &Connection) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all[member as usize].push(connection.describe());
    }

    /// Describes the connections to each member; empty if there are none.
    pub(super) fn describe(&self) -> Vec<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let describe = |words: &Vec<String>| {
            let mut words = words.clone();
            words.dedup();
            words.join(", ")
        };
        all.iter().map(describe).collect()
    }
}
