//! Maximum flow by Dinic's algorithm (1970): shortest augmenting paths, level by level.

use std::collections::VecDeque;

/// A network of directed arcs with capacities.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    /// Where each arc leads; an arc and its reverse have numbers `2n` and `2n + 1`.
    to: Vec<u32>,
    capacity: Vec<u64>,
    arcs: Vec<Vec<u32>>,
}

impl Flow {
    pub(super) fn new(vertices: usize) -> Self {
        Self { to: Vec::new(), capacity: Vec::new(), arcs: vec![Vec::new(); vertices] }
    }

    /// Adds an arc.
    pub(super) fn arc(&mut self, from: u32, to: u32, capacity: u64) {
        for (from, to, capacity) in [(from, to, capacity), (to, from, 0)] {
            self.arcs[from as usize].push(self.to.len() as u32);
            self.to.push(to);
            self.capacity.push(capacity);
        }
    }

    /// Returns the maximum flow from `source` to `sink`. Uses up the capacities.
    pub(super) fn maximum(&mut self, source: u32, sink: u32) -> u64 {
        let mut flow = 0u64;
        loop {
            let level = self.levels(source);
            if level[sink as usize] == u32::MAX {
                return flow;
            }
            let mut next = vec![0usize; self.arcs.len()];
            while let Some(more) = self.augment(source, sink, &level, &mut next) {
                flow = flow.saturating_add(more);
            }
        }
    }

    fn levels(&self, source: u32) -> Vec<u32> {
        let mut level = vec![u32::MAX; self.arcs.len()];
        level[source as usize] = 0;
        let mut queue = VecDeque::from([source]);
        while let Some(at) = queue.pop_front() {
            for &arc in &self.arcs[at as usize] {
                let to = self.to[arc as usize] as usize;
                if self.capacity[arc as usize] > 0 && level[to] == u32::MAX {
                    level[to] = level[at as usize] + 1;
                    queue.push_back(to as u32);
                }
            }
        }
        level
    }

    /// Finds a path through the levels and returns how much it carries. `next` is the first arc of each
    /// vertex that may still lead on.
    fn augment(&mut self, source: u32, sink: u32, level: &[u32], next: &mut [usize]) -> Option<u64> {
        let mut path: Vec<u32> = Vec::new();
        let mut at = source;
        while at != sink {
            let mut open = self.arcs[at as usize][next[at as usize]..].iter();
            let on = open.position(|&arc| {
                let to = self.to[arc as usize] as usize;
                self.capacity[arc as usize] > 0 && level[to] == level[at as usize] + 1
            });
            match on {
                Some(skipped) => {
                    next[at as usize] += skipped;
                    let arc = self.arcs[at as usize][next[at as usize]];
                    path.push(arc);
                    at = self.to[arc as usize];
                }
                None => {
                    // A dead end: go back, and never enter it again.
                    next[at as usize] = self.arcs[at as usize].len();
                    let arc = path.pop()?;
                    at = self.to[arc as usize ^ 1];
                    next[at as usize] += 1;
                }
            }
        }
        let least = path.iter().map(|&arc| self.capacity[arc as usize]).min()?;
        for arc in path {
            self.capacity[arc as usize] -= least;
            self.capacity[arc as usize ^ 1] += least;
        }
        Some(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The maximum flow equals the minimum cut, found by trying all.
        #[test]
        fn the_maximum_flow_is_the_minimum_cut(arcs in prop::collection::vec((0u32..6, 0u32..6, 0u64..20), 0..20)) {
            let mut flow = Flow::new(6);
            arcs.iter().for_each(|&(from, to, capacity)| flow.arc(from, to, capacity));
            let cut = |side: u32| -> u64 {
                let here = |vertex: u32| side >> vertex & 1 == 1;
                arcs.iter().filter(|&&(from, to, _)| here(from) && !here(to)).map(|arc| arc.2).sum()
            };
            // Cuts with vertex 0 on one side and vertex 5 on the other.
            let least = (0..64).filter(|side| side & 1 == 1 && side >> 5 == 0).map(cut).min();
            prop_assert_eq!(Some(flow.maximum(0, 5)), least);
        }
    }
}
