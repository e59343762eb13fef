//! What a job sends between servers in a training step.

use serde::Serialize;

/// What a server sends to another one, outside all-reduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Transfer {
    /// The server that sends.
    pub from: u32,
    /// The server that receives.
    pub to: u32,
    /// Number of bytes.
    pub bytes: u64,
}

/// Bytes from each server to each other one, outside all-reduces: the MP transfers of topoopt2022.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfers {
    servers: u32,
    bytes: Vec<u64>,
}

impl Transfers {
    /// No transfers.
    pub fn new(servers: u32) -> Self {
        Self { servers, bytes: vec![0; servers as usize * servers as usize] }
    }

    /// Number of servers.
    pub fn servers(&self) -> u32 {
        self.servers
    }

    /// Bytes from one server to another.
    #[inline]
    pub fn bytes(&self, from: u32, to: u32) -> u64 {
        self.bytes[from as usize * self.servers as usize + to as usize]
    }

    /// Adds bytes. Bytes of a server for itself do not count.
    #[inline]
    pub fn add(&mut self, from: u32, to: u32, bytes: u64) {
        if from != to {
            let cell = &mut self.bytes[from as usize * self.servers as usize + to as usize];
            *cell = cell.saturating_add(bytes);
        }
    }

    /// Bytes of all transfers.
    pub fn total(&self) -> u64 {
        self.bytes.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// The transfers that are not empty, in order of sender and receiver.
    pub fn iter(&self) -> impl Iterator<Item = Transfer> + '_ {
        let servers = self.servers as usize;
        self.bytes.iter().enumerate().filter(|&(_, &bytes)| bytes > 0).map(move |(at, &bytes)| Transfer {
            from: (at / servers) as u32,
            to: (at % servers) as u32,
            bytes,
        })
    }
}

/// An all-reduce among some servers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// The servers, ascending, at least two.
    pub members: Vec<u32>,
    /// Size of the vectors that are added, over all all-reduces of the group in a step.
    pub bytes: u64,
}

impl Group {
    /// Bytes that all members together send: `2 (k - 1)` times the vector.
    pub fn wire_bytes(&self) -> u64 {
        self.bytes.saturating_mul(2 * (self.members.len() as u64).saturating_sub(1))
    }
}

/// Everything that a job sends between servers in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Transfers outside all-reduces.
    pub transfers: Transfers,
    /// All-reduces, no two with the same members.
    pub groups: Vec<Group>,
}

impl Demand {
    /// Demand without bytes.
    pub fn new(servers: u32) -> Self {
        Self { transfers: Transfers::new(servers), groups: Vec::new() }
    }

    /// Number of servers.
    pub fn servers(&self) -> u32 {
        self.transfers.servers()
    }

    /// Adds an all-reduce of `bytes` among `members`. A single member sends nothing.
    pub fn all_reduce(&mut self, mut members: Vec<u32>, bytes: u64) {
        members.sort_unstable();
        members.dedup();
        if members.len() < 2 || bytes == 0 {
            return;
        }
        match self.groups.iter_mut().find(|group| group.members == members) {
            Some(group) => group.bytes = group.bytes.saturating_add(bytes),
            None => self.groups.push(Group { members, bytes }),
        }
    }

    /// Bytes of all all-reduces on the wire.
    pub fn all_reduce_bytes(&self) -> u64 {
        self.groups.iter().fold(0, |sum, group| sum.saturating_add(group.wire_bytes()))
    }
}
