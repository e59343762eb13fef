//! Groups of servers that reduce gradients together, numbered in the order in which they are first used.

use crate::role::{Axis, Role, RoleId};
use std::collections::BTreeMap;
use syncline_diagnostics::{Code, Diagnostic};

/// Most groups of a job.
const MOST: usize = 1 << 15;

/// The groups of a job, by their members.
#[derive(Clone, Debug, Default)]
pub struct ServerGroups {
    numbers: BTreeMap<Vec<u32>, u16>,
}

impl ServerGroups {
    /// The role of the group with these members, whatever their order.
    pub fn role(&mut self, mut members: Vec<u32>) -> RoleId {
        members.sort_unstable();
        let next = self.numbers.len() as u16;
        RoleId(*self.numbers.entry(members).or_insert(next))
    }

    /// The roles of all groups, in a job of `servers` servers.
    ///
    /// # Errors
    /// More than 32,768 groups.
    pub fn roles(self, servers: u32) -> Result<Vec<Role>, Diagnostic> {
        if self.numbers.len() > MOST {
            return Err(Diagnostic::error(Code::BadWorkload, "too many different groups reduce gradients")
                .found(self.numbers.len().to_string())
                .allowed(format!("at most {MOST}")));
        }
        let mut groups: Vec<(u16, Vec<u32>)> =
            self.numbers.into_iter().map(|(members, number)| (number, members)).collect();
        groups.sort_unstable();
        let role = |(number, members): (u16, Vec<u32>)| {
            let axis = Axis { size: members.len() as u32, stride: 0, dim: None };
            Role::lists(&group_name(number), vec![members], vec![axis], servers)
        };
        groups.into_iter().map(role).collect()
    }
}

/// The name of the group of servers with this number.
pub fn group_name(number: u16) -> String {
    format!("servers {number}")
}
