//! Costs of a double binary tree: the longer one of two trees, each as long as its longest path from the root.

use crate::anneal::Swaps;
use crate::distances::Matrix;
use syncline_units::Time;

/// Two binary trees. In the first, the root of a range of ranks is its middle, and its children are the roots of both
/// halves. In the second, each rank is one lower, modulo their number (luo2020 5.2.1).
#[derive(Debug)]
pub(crate) struct Trees {
    /// Times of messages with half of the vector.
    pub(crate) matrix: Matrix,
    /// The parent of each rank in the first tree; the root has none.
    parents: Vec<Option<u32>>,
    children: Vec<[Option<u32>; 2]>,
    root: u32,
}

impl Trees {
    pub(crate) fn new(matrix: Matrix) -> Self {
        let ranks = matrix.hosts();
        let mut trees = Self {
            matrix,
            parents: vec![None; ranks as usize],
            children: vec![[None; 2]; ranks as usize],
            root: (ranks - 1) / 2,
        };
        for (child, parent) in places(ranks) {
            trees.parents[child as usize] = Some(parent);
            trees.children[parent as usize][usize::from(child > parent)] = Some(child);
        }
        trees
    }

    /// The ranks at both ends of each link of a tree.
    pub(crate) fn links(ranks: u32, tree: u32) -> impl Iterator<Item = (u32, u32)> {
        let rank = move |place: u32| (place + ranks - tree) % ranks;
        places(ranks).into_iter().map(move |(child, parent)| (rank(child), rank(parent)))
    }

    /// What an order costs.
    pub(crate) fn cost(&self, order: &[u32]) -> Time {
        (0..2).map(|tree| self.depth(order, tree, self.root)).max().unwrap_or_default()
    }

    /// The host at a place of a tree.
    #[inline]
    fn host(order: &[u32], tree: u32, place: u32) -> u32 {
        let ranks = order.len() as u32;
        order[((place + (ranks - tree)) % ranks) as usize]
    }

    fn depth(&self, order: &[u32], tree: u32, place: u32) -> Time {
        let own = Self::host(order, tree, place);
        let down = |child: u32| {
            self.matrix.between(own, Self::host(order, tree, child)) + self.depth(order, tree, child)
        };
        self.children[place as usize].into_iter().flatten().map(down).max().unwrap_or_default()
    }
}

/// Each place of the first tree but the root, with its parent.
fn places(ranks: u32) -> Vec<(u32, u32)> {
    let mut found = Vec::new();
    // Ranges of places whose roots have the given parent.
    let mut ranges = vec![(0, ranks, None)];
    while let Some((first, end, parent)) = ranges.pop() {
        if first == end {
            continue;
        }
        let root = u32::midpoint(first, end - 1);
        found.extend(parent.map(|parent| (root, parent)));
        ranges.extend([(first, root, Some(root)), (root + 1, end, Some(root))]);
    }
    found
}

/// An order, and the length of the longest path below each place of both trees.
pub(crate) struct TreesState<'a> {
    trees: &'a Trees,
    order: Vec<u32>,
    below: [Vec<Time>; 2],
    sum: u128,
}

impl<'a> TreesState<'a> {
    pub(crate) fn new(trees: &'a Trees, order: Vec<u32>) -> Self {
        let empty = vec![Time(0); order.len()];
        let mut state = Self { trees, order, below: [empty.clone(), empty], sum: 0 };
        for tree in 0..2 {
            state.fill(tree, trees.root);
            state.sum += (0..state.order.len() as u32).map(|place| state.up(tree, place)).sum::<u128>();
        }
        state
    }

    fn fill(&mut self, tree: u32, place: u32) {
        for child in self.trees.children[place as usize].into_iter().flatten() {
            self.fill(tree, child);
        }
        self.below[tree as usize][place as usize] = self.longest(tree, place);
    }

    fn longest(&self, tree: u32, place: u32) -> Time {
        let own = Trees::host(&self.order, tree, place);
        let down = |child: u32| {
            let hop = self.trees.matrix.between(own, Trees::host(&self.order, tree, child));
            hop + self.below[tree as usize][child as usize]
        };
        self.trees.children[place as usize].into_iter().flatten().map(down).max().unwrap_or_default()
    }

    /// Time of the link between a place and its parent.
    fn up(&self, tree: u32, place: u32) -> u128 {
        let Some(parent) = self.trees.parents[place as usize] else { return 0 };
        let hosts = [place, parent].map(|place| Trees::host(&self.order, tree, place));
        u128::from(self.trees.matrix.between(hosts[0], hosts[1]).0)
    }

    /// Times of all links of two places, each once.
    fn around(&self, tree: u32, places: [u32; 2]) -> u128 {
        let mut ends: Vec<u32> = Vec::with_capacity(6);
        for place in places {
            ends.push(place);
            ends.extend(self.trees.children[place as usize].into_iter().flatten());
        }
        ends.sort_unstable();
        ends.dedup();
        ends.into_iter().map(|place| self.up(tree, place)).sum()
    }
}

impl Swaps for TreesState<'_> {
    fn order(&self) -> &[u32] {
        &self.order
    }

    fn swap(&mut self, a: u32, b: u32) {
        let ranks = self.order.len() as u32;
        let places = [0, 1].map(|tree| [a, b].map(|rank| (rank + tree) % ranks));
        for tree in 0..2 {
            self.sum -= self.around(tree, places[tree as usize]);
        }
        self.order.swap(a as usize, b as usize);
        for tree in 0..2 {
            self.sum += self.around(tree, places[tree as usize]);
            for place in places[tree as usize] {
                // A path from the root changes with either end of a link.
                let mut at = Some(place);
                while let Some(place) = at {
                    self.below[tree as usize][place as usize] = self.longest(tree, place);
                    at = self.trees.parents[place as usize];
                }
            }
        }
    }

    fn cost(&self) -> Time {
        let root = self.trees.root as usize;
        self.below[0][root].max(self.below[1][root])
    }

    fn sum(&self) -> u128 {
        self.sum
    }
}
