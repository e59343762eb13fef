//! Which connections pass a link, and which of them it holds back.

use super::ways::Hop;
use super::{NOWHERE, Sharing};

/// How many other nodes of its way a member names.
const OTHERS: usize = 3;

/// The first of the others where they are to be looked up: there are more of them, or the connection takes different parts of
/// them.
const ELSEWHERE: u32 = NOWHERE - 1;

/// A connection that passes a node, with what is read whenever its rate changes. Bottleneck and others are kept up to date
/// where the node is followed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    /// What the connection takes of the link, in multiples of the level.
    pub(super) takes: u32,
    pub(super) connection: u32,
    /// Where the lowest level on its way is.
    pub(super) bottleneck: u32,
    /// The other nodes on its way that are followed, and then [`NOWHERE`].
    others: [u32; OTHERS],
}

impl Member {
    /// Whether it names all the others, of each of which the connection takes `takes`.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.others[0] != ELSEWHERE
    }

    /// The other nodes on its way that are followed, where it is plain.
    #[inline]
    pub(super) fn others(&self) -> impl Iterator<Item = u32> + Clone {
        self.others.iter().copied().take_while(|&other| other < ELSEWHERE)
    }
}

impl Sharing {
    /// The nodes on the way of a member of a node that is followed which are followed, too; that node may be among them.
    #[inline]
    pub(super) fn elsewhere(&self, member: &Member) -> impl Iterator<Item = u32> {
        let listed = if member.is_plain() { &[] } else { self.ways.followed(member.connection) };
        member.others().chain(listed.iter().map(|hop| hop.node))
    }

    /// Puts a connection on its links.
    pub(super) fn enter(&mut self, number: u32) {
        for at in 0..self.ways.hops(number).len() {
            let Hop { node, usage: takes, .. } = self.ways.hops(number)[at];
            let members = &mut self.nodes[node as usize].members;
            self.ways.hop_mut(number, node).place = members.len() as u32;
            members.push(Member {
                takes,
                connection: number,
                bottleneck: NOWHERE,
                others: [NOWHERE; OTHERS],
            });
            if self.shares.marks(node).followed {
                self.ways.lead(number, node, true);
            }
        }
        self.write(number);
    }

    /// Takes a connection that has no bottleneck off its links.
    pub(super) fn leave(&mut self, number: u32) {
        for at in 0..self.ways.hops(number).len() {
            let Hop { node, place, .. } = self.ways.hops(number)[at];
            let members = &mut self.nodes[node as usize].members;
            members.swap_remove(place as usize);
            if let Some(&Member { connection: moved, .. }) = members.get(place as usize) {
                self.ways.hop_mut(moved, node).place = place;
            }
        }
    }

    /// Says on all links of a connection that are followed where it is held back, and where else it passes.
    pub(super) fn write(&mut self, number: u32) {
        let (way, hops) = (self.ways.way(number), self.ways.followed(number));
        let named = hops.len() <= OTHERS + 1 && way.even;
        for (at, &Hop { node, place, .. }) in hops.iter().enumerate() {
            let mut others = [NOWHERE; OTHERS];
            if named {
                let elsewhere = hops[..at].iter().chain(&hops[at + 1..]);
                others.iter_mut().zip(elsewhere).for_each(|(to, hop)| *to = hop.node);
            } else {
                others[0] = ELSEWHERE;
            }
            let member = &mut self.nodes[node as usize].members[place as usize];
            (member.bottleneck, member.others) = (way.bottleneck, others);
        }
    }

    /// Puts a connection among those that a node on its way holds back.
    #[inline]
    pub(super) fn hold(&mut self, number: u32, node: u32) {
        let place = self.held[node as usize];
        self.held[node as usize] += 1;
        self.swap(number, node, place);
    }

    /// Takes a connection from among those that its bottleneck holds back.
    #[inline]
    pub(super) fn release(&mut self, number: u32) {
        let node = self.ways.way(number).bottleneck;
        self.held[node as usize] -= 1;
        let place = self.held[node as usize];
        self.swap(number, node, place);
    }

    /// Moves a connection to another place among the members of a node.
    #[inline]
    fn swap(&mut self, number: u32, node: u32, place: u32) {
        let from = std::mem::replace(&mut self.ways.hop_mut(number, node).place, place);
        if from != place {
            let members = &mut self.nodes[node as usize].members;
            members.swap(from as usize, place as usize);
            let other = members[from as usize].connection;
            self.ways.hop_mut(other, node).place = from;
        }
    }

    /// Puts a node among those that are followed on the way of one of its members, or takes it from among them.
    pub(super) fn lead(&mut self, number: u32, node: u32, followed: bool) {
        self.ways.lead(number, node, followed);
        self.write(number);
    }
}
