//! Which bundles pass a link, and which of them it holds back.

use super::{Member, NOWHERE, Sharing};
use crate::sharing::ways::Ways;

impl Sharing {
    /// A bundle as the first link on its way has it.
    #[inline]
    pub(super) fn member(&self, number: u32) -> Member {
        let first = self.bundles[number as usize].way as usize + 1;
        self.nodes[self.ways.node(first) as usize].members[self.ways.place(first) as usize]
    }

    /// Puts a bundle on its links.
    pub(super) fn enter(&mut self, number: u32) {
        let bundle = &self.bundles[number as usize];
        let way = bundle.way;
        for at in Ways::all(way, bundle.hops) {
            let members = &mut self.nodes[self.ways.node(at) as usize].members;
            self.ways.set_place(at, members.len() as u32);
            let hop = (at - way as usize) as u32;
            members.push(Member { takes: 0, bundle: number, way, hop, bottleneck: NOWHERE });
        }
    }

    /// Takes an empty bundle off its links.
    pub(super) fn close(&mut self, number: u32) {
        self.release(number);
        let bundle = &mut self.bundles[number as usize];
        bundle.bottleneck = NOWHERE;
        let hops = bundle.hops as usize;
        for at in Ways::all(bundle.way, bundle.hops) {
            let place = self.ways.place(at);
            let members = &mut self.nodes[self.ways.node(at) as usize].members;
            members.swap_remove(place as usize);
            if let Some(moved) = members.get(place as usize) {
                self.ways.set_place((moved.way + moved.hop) as usize, place);
            }
        }
        if self.free.len() <= hops {
            self.free.resize(hops + 1, Vec::new());
        }
        self.free[hops].push(number);
    }

    /// Says on all links of a bundle what its flows take now.
    pub(super) fn recount(&mut self, number: u32) {
        let bundle = &self.bundles[number as usize];
        for at in Ways::all(bundle.way, bundle.hops) {
            let members = &mut self.nodes[self.ways.node(at) as usize].members;
            members[self.ways.place(at) as usize].takes =
                u64::from(self.ways.usage(at)) * u64::from(bundle.count);
        }
    }

    /// Says on all links of a bundle where it is held back.
    pub(super) fn set_bottleneck(&mut self, number: u32, node: u32) {
        let bundle = &mut self.bundles[number as usize];
        bundle.bottleneck = node;
        for at in Ways::all(bundle.way, bundle.hops) {
            let members = &mut self.nodes[self.ways.node(at) as usize].members;
            members[self.ways.place(at) as usize].bottleneck = node;
        }
    }

    /// Puts a bundle among those that a node on its way holds back.
    #[inline]
    pub(super) fn hold(&mut self, number: u32, node: u32) {
        let place = self.nodes[node as usize].held;
        self.nodes[node as usize].held += 1;
        self.swap(number, node, place);
    }

    /// Takes a bundle from among those that its bottleneck holds back.
    #[inline]
    pub(super) fn release(&mut self, number: u32) {
        let node = self.bundles[number as usize].bottleneck;
        self.nodes[node as usize].held -= 1;
        let place = self.nodes[node as usize].held;
        self.swap(number, node, place);
    }

    /// Moves a bundle to another place among the members of a node.
    #[inline]
    fn swap(&mut self, number: u32, node: u32, place: u32) {
        let at = self.hop(number, node);
        let from = self.ways.place(at);
        if from != place {
            self.ways.set_place(at, place);
            let members = &mut self.nodes[node as usize].members;
            members.swap(from as usize, place as usize);
            let other = members[from as usize];
            self.ways.set_place((other.way + other.hop) as usize, from);
        }
    }

    /// The place of a node on a bundle's way in the list of all ways.
    #[inline]
    fn hop(&self, number: u32, node: u32) -> usize {
        let bundle = &self.bundles[number as usize];
        let mut all = Ways::all(bundle.way, bundle.hops);
        all.find(|&at| self.ways.node(at) == node).expect("it is on the way")
    }

    /// Puts a node among those that are followed on the way of one of its members, or takes it from among them.
    pub(super) fn lead(&mut self, member: Member, followed: bool) {
        let from = (member.way + member.hop) as usize;
        let to = self.ways.lead(member.way, from, followed);
        for at in [from, to] {
            let members = &mut self.nodes[self.ways.node(at) as usize].members;
            members[self.ways.place(at) as usize].hop = at as u32 - member.way;
        }
    }
}
