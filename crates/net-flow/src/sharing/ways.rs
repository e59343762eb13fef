//! Where connections go, as short as it can be: it is read whenever one is held back elsewhere.

use super::NOWHERE;
use std::ops::Range;

/// A node on a way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hop {
    pub(super) node: u32,
    /// What the connection takes of it, in multiples of the level.
    pub(super) usage: u32,
    /// The place of the connection among the members of the node.
    pub(super) place: u32,
}

/// The way of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// The first of its hops.
    start: u32,
    len: u32,
    /// How many of its nodes are followed.
    followed: u32,
    /// Where the lowest level is.
    pub(super) bottleneck: u32,
    /// Whether it takes the same of all its nodes.
    pub(super) even: bool,
}

impl Way {
    fn all(&self) -> Range<usize> {
        self.start as usize..(self.start + self.len) as usize
    }
}

/// Ways of all connections.
#[derive(Clone, Debug, Default)]
pub(super) struct Ways {
    list: Vec<Way>,
    /// Hops of one way after those of the other, those whose nodes are followed first.
    hops: Vec<Hop>,
}

impl Ways {
    /// A way of so many hops, of which nothing is said yet.
    pub(super) fn add(&mut self, len: u32) {
        let start = self.hops.len() as u32;
        self.list.push(Way { start, len, followed: 0, bottleneck: NOWHERE, even: true });
        self.hops.resize((start + len) as usize, Hop { node: NOWHERE, usage: 0, place: 0 });
    }

    /// Says where a way goes, and what its connection takes there. No node is followed.
    pub(super) fn set(&mut self, connection: u32, nodes: impl Iterator<Item = (u32, u32)>) {
        let way = &mut self.list[connection as usize];
        let hops = &mut self.hops[way.all()];
        for (hop, (node, usage)) in hops.iter_mut().zip(nodes) {
            *hop = Hop { node, usage, place: 0 };
        }
        way.followed = 0;
        way.even = hops.iter().all(|hop| hop.usage == hops[0].usage);
    }

    #[inline]
    pub(super) fn way(&self, connection: u32) -> &Way {
        &self.list[connection as usize]
    }

    #[inline]
    pub(super) fn way_mut(&mut self, connection: u32) -> &mut Way {
        &mut self.list[connection as usize]
    }

    /// All hops of a way.
    #[inline]
    pub(super) fn hops(&self, connection: u32) -> &[Hop] {
        &self.hops[self.list[connection as usize].all()]
    }

    /// The hops whose nodes are followed.
    #[inline]
    pub(super) fn followed(&self, connection: u32) -> &[Hop] {
        let way = &self.list[connection as usize];
        &self.hops[way.start as usize..(way.start + way.followed) as usize]
    }

    /// A node's hop on a way.
    #[cfg(test)]
    pub(super) fn hop(&self, connection: u32, node: u32) -> &Hop {
        self.hops(connection).iter().find(|hop| hop.node == node).expect("it is on the way")
    }

    #[inline]
    pub(super) fn hop_mut(&mut self, connection: u32, node: u32) -> &mut Hop {
        let hops = &mut self.hops[self.list[connection as usize].all()];
        hops.iter_mut().find(|hop| hop.node == node).expect("it is on the way")
    }

    /// Moves a node of a way to those that are followed, or from among them.
    pub(super) fn lead(&mut self, connection: u32, node: u32, followed: bool) {
        let way = &mut self.list[connection as usize];
        let hops = &mut self.hops[way.all()];
        let from = hops.iter().position(|hop| hop.node == node).expect("it is on the way");
        way.followed -= u32::from(!followed);
        hops.swap(from, way.followed as usize);
        way.followed += u32::from(followed);
    }
}
