//! The paths of connections, stored compactly because they are read whenever a connection's bottleneck is
//! elsewhere.

use super::NO_NODE;
use std::ops::Range;

/// A node on a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hop {
    pub(super) node: u32,
    /// What the connection takes of it, in multiples of the level.
    pub(super) usage: u32,
    /// The index of the connection among the members of the node.
    pub(super) place: u32,
}

/// The path of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    /// The first of its hops.
    start: u32,
    len: u32,
    /// Number of its nodes that are followed.
    followed: u32,
    /// The node with the lowest level.
    pub(super) bottleneck: u32,
    /// Whether it takes the same of all its nodes.
    pub(super) even: bool,
}

impl Path {
    fn all(&self) -> Range<usize> {
        self.start as usize..(self.start + self.len) as usize
    }
}

/// Paths of all connections.
#[derive(Clone, Debug, Default)]
pub(super) struct Paths {
    list: Vec<Path>,
    /// Hops of one path after those of the other; within a path, those with followed nodes come first.
    hops: Vec<Hop>,
}

impl Paths {
    /// Adds a path of `len` hops, not yet set up.
    pub(super) fn add(&mut self, len: u32) {
        let start = self.hops.len() as u32;
        self.list.push(Path { start, len, followed: 0, bottleneck: NO_NODE, even: true });
        self.hops.resize((start + len) as usize, Hop { node: NO_NODE, usage: 0, place: 0 });
    }

    /// Sets the nodes of a path, and what its connection takes of each. No node is followed yet.
    pub(super) fn set(&mut self, connection: u32, nodes: impl Iterator<Item = (u32, u32)>) {
        let path = &mut self.list[connection as usize];
        let hops = &mut self.hops[path.all()];
        for (hop, (node, usage)) in hops.iter_mut().zip(nodes) {
            *hop = Hop { node, usage, place: 0 };
        }
        path.followed = 0;
        path.even = hops.iter().all(|hop| hop.usage == hops[0].usage);
    }

    #[inline]
    pub(super) fn path(&self, connection: u32) -> &Path {
        &self.list[connection as usize]
    }

    #[inline]
    pub(super) fn path_mut(&mut self, connection: u32) -> &mut Path {
        &mut self.list[connection as usize]
    }

    /// Returns all hops of a path.
    #[inline]
    pub(super) fn hops(&self, connection: u32) -> &[Hop] {
        &self.hops[self.list[connection as usize].all()]
    }

    /// Returns the hops whose nodes are followed.
    #[inline]
    pub(super) fn followed(&self, connection: u32) -> &[Hop] {
        let path = &self.list[connection as usize];
        &self.hops[path.start as usize..(path.start + path.followed) as usize]
    }

    /// Returns the hop of a node on a path.
    #[cfg(test)]
    pub(super) fn hop(&self, connection: u32, node: u32) -> &Hop {
        self.hops(connection).iter().find(|hop| hop.node == node).expect("the node is on the path")
    }

    #[inline]
    pub(super) fn hop_mut(&mut self, connection: u32, node: u32) -> &mut Hop {
        let hops = &mut self.hops[self.list[connection as usize].all()];
        hops.iter_mut().find(|hop| hop.node == node).expect("the node is on the path")
    }

    /// Moves a node of a path to the followed ones, or out of them.
    pub(super) fn lead(&mut self, connection: u32, node: u32, followed: bool) {
        let path = &mut self.list[connection as usize];
        let hops = &mut self.hops[path.all()];
        let from = hops.iter().position(|hop| hop.node == node).expect("the node is on the path");
        path.followed -= u32::from(!followed);
        hops.swap(from, path.followed as usize);
        path.followed += u32::from(followed);
    }
}
