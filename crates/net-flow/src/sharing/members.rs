//! Which connections pass a link, and which of them it holds back.

use super::paths::Hop;
use super::{NO_NODE, Sharing};

/// How many other nodes of its path a member lists.
const OTHERS: usize = 3;

/// The first entry of `others` if the nodes must be looked up: there are too many, or the connection takes
/// different parts of them.
const ELSEWHERE: u32 = NO_NODE - 1;

/// A connection that passes a node, with the data read whenever its rate changes. `bottleneck` and `others`
/// are kept up to date only if the node is followed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    /// What the connection takes of the link, in multiples of the level.
    pub(super) takes: u32,
    pub(super) connection: u32,
    /// The node with the lowest level on its path.
    pub(super) bottleneck: u32,
    /// The other followed nodes on its path, then [`NO_NODE`].
    others: [u32; OTHERS],
}

impl Member {
    /// Whether it lists all the others, and the connection takes `takes` of each.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.others[0] != ELSEWHERE
    }

    /// Returns the other followed nodes on its path, if it is plain.
    #[inline]
    pub(super) fn others(&self) -> impl Iterator<Item = u32> + Clone {
        self.others.iter().copied().take_while(|&other| other < ELSEWHERE)
    }
}

impl Sharing {
    /// Returns the followed nodes on the path of a followed node's member; that node may be among them.
    #[inline]
    pub(super) fn elsewhere(&self, member: &Member) -> impl Iterator<Item = u32> {
        let listed = if member.is_plain() { &[] } else { self.paths.followed(member.connection) };
        member.others().chain(listed.iter().map(|hop| hop.node))
    }

    /// Adds a connection to its links.
    pub(super) fn enter(&mut self, number: u32) {
        for at in 0..self.paths.hops(number).len() {
            let Hop { node, usage: takes, .. } = self.paths.hops(number)[at];
            let members = &mut self.nodes[node as usize].members;
            self.paths.hop_mut(number, node).place = members.len() as u32;
            members.push(Member {
                takes,
                connection: number,
                bottleneck: NO_NODE,
                others: [NO_NODE; OTHERS],
            });
            if self.shares.marks(node).followed {
                self.paths.lead(number, node, true);
            }
        }
        self.write(number);
    }

    /// Removes a connection without a bottleneck from its links.
    pub(super) fn leave(&mut self, number: u32) {
        for at in 0..self.paths.hops(number).len() {
            let Hop { node, place, .. } = self.paths.hops(number)[at];
            let members = &mut self.nodes[node as usize].members;
            members.swap_remove(place as usize);
            if let Some(&Member { connection: moved, .. }) = members.get(place as usize) {
                self.paths.hop_mut(moved, node).place = place;
            }
        }
    }

    /// Updates a connection's entries at all its followed nodes: its bottleneck, and its other nodes.
    pub(super) fn write(&mut self, number: u32) {
        let (path, hops) = (self.paths.path(number), self.paths.followed(number));
        let named = hops.len() <= OTHERS + 1 && path.even;
        for (at, &Hop { node, place, .. }) in hops.iter().enumerate() {
            let mut others = [NO_NODE; OTHERS];
            if named {
                let elsewhere = hops[..at].iter().chain(&hops[at + 1..]);
                others.iter_mut().zip(elsewhere).for_each(|(to, hop)| *to = hop.node);
            } else {
                others[0] = ELSEWHERE;
            }
            let member = &mut self.nodes[node as usize].members[place as usize];
            (member.bottleneck, member.others) = (path.bottleneck, others);
        }
    }

    /// Moves a connection to the members that a node holds back.
    #[inline]
    pub(super) fn hold(&mut self, number: u32, node: u32) {
        let place = self.held[node as usize];
        self.held[node as usize] += 1;
        self.swap(number, node, place);
    }

    /// Moves a connection out of the members that its bottleneck holds back.
    #[inline]
    pub(super) fn release(&mut self, number: u32) {
        let node = self.paths.path(number).bottleneck;
        self.held[node as usize] -= 1;
        let place = self.held[node as usize];
        self.swap(number, node, place);
    }

    /// Moves a connection to another place among the members of a node.
    #[inline]
    fn swap(&mut self, number: u32, node: u32, place: u32) {
        let from = std::mem::replace(&mut self.paths.hop_mut(number, node).place, place);
        if from != place {
            let members = &mut self.nodes[node as usize].members;
            members.swap(from as usize, place as usize);
            let other = members[from as usize].connection;
            self.paths.hop_mut(other, node).place = from;
        }
    }

    /// Starts or stops treating a node as followed on the path of one of its members.
    pub(super) fn lead(&mut self, number: u32, node: u32, followed: bool) {
        self.paths.lead(number, node, followed);
        self.write(number);
    }
}
