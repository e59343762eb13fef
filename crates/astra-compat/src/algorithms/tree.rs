//! `doubleBinaryTree`: each chunk goes as a whole up one of two trees and down again; chunks alternate
//! between the trees. Powers of two only. ASTRA-sim 2, `DoubleBinaryTreeAllReduce.cc`, `BinaryTree.cc`.
//!
//! Both trees are numbered in order. The first has its root at the last position, with only a left child; the
//! second has it at position 0, with only a right child. Below the root is a complete tree of n-1 nodes.

use super::{Command, Happened, Insertion, Members};

/// The role of a rank in its tree, and its progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Begin,
    /// Waits for both children.
    AwaitTwo,
    /// Waits for one child.
    AwaitOne,
    /// Sends up next.
    Up,
    /// Waits for the parent.
    AwaitParent,
    /// Sends down next.
    Down,
    /// Ends next.
    End,
}

/// The state machine of `doubleBinaryTree`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree {
    bytes: u64,
    parent: Option<u32>,
    left: Option<u32>,
    right: Option<u32>,
    state: State,
    /// Whether the data of the first of two children has passed the endpoint.
    first_inserted: bool,
}

/// Returns the positions of parent, left and right child of position `me` among `count`, a power of two;
/// `second` selects the second tree.
fn relatives(count: u32, me: u32, second: bool) -> [Option<u32>; 3] {
    let root = if second { 0 } else { count - 1 };
    // In the complete tree, positions count from 1.
    let shift = if second { 0 } else { 1 };
    if me == root {
        let child = Some(count / 2 - shift);
        return if second { [None, None, child] } else { [None, child, None] };
    }
    let place = me + shift;
    let level = 1 << place.trailing_zeros();
    let parent = if place == count / 2 {
        root
    } else if place & (2 * level) == 0 {
        place + level - shift
    } else {
        place - level - shift
    };
    if level == 1 {
        return [Some(parent), None, None];
    }
    [Some(parent), Some(place - level / 2 - shift), Some(place + level / 2 - shift)]
}

impl Tree {
    /// A phase in which each rank holds `bytes`.
    pub(crate) fn new(bytes: u64, members: &Members<'_>, second: bool) -> Self {
        let [parent, left, right] = relatives(members.count, members.me, second)
            .map(|position| position.map(|position| members.at(position)));
        Self { bytes, parent, left, right, state: State::Begin, first_inserted: false }
    }

    pub(super) fn step(&mut self, happened: Happened, wants: &mut Vec<Command>) {
        match (self.parent, self.left, self.right) {
            (Some(parent), Some(left), Some(right)) => self.inner(happened, parent, [left, right], wants),
            (Some(parent), ..) => self.leaf(parent, wants),
            (None, left, right) => {
                if let Some(child) = left.or(right) {
                    self.root(child, wants);
                }
            }
        }
    }

    /// Passes the vector through the endpoint.
    fn insert(&self, reduce: bool, to_unit: bool, send_back: bool, wants: &mut Vec<Command>) {
        wants.push(Command::Insert(Insertion { bytes: self.bytes, reduce, to_unit, send_back }));
    }

    fn leaf(&mut self, parent: u32, wants: &mut Vec<Command>) {
        let bytes = self.bytes;
        match self.state {
            State::Begin => {
                self.insert(false, true, false, wants);
                self.state = State::Up;
            }
            State::Up => {
                wants.push(Command::Exchange { to: parent, from: parent, bytes });
                self.state = State::AwaitParent;
            }
            State::AwaitParent => {
                self.insert(false, false, false, wants);
                self.state = State::End;
            }
            State::End => wants.push(Command::Done),
            State::AwaitTwo | State::AwaitOne | State::Down => {}
        }
    }

    fn inner(&mut self, happened: Happened, parent: u32, children: [u32; 2], wants: &mut Vec<Command>) {
        let bytes = self.bytes;
        let received = happened == Happened::Received;
        match self.state {
            State::Begin => {
                self.state = State::AwaitTwo;
                wants.extend(children.map(|from| Command::Receive { from, bytes }));
            }
            State::AwaitTwo if received => {
                self.insert(true, false, false, wants);
                self.state = State::AwaitOne;
            }
            State::AwaitOne if received => {
                self.insert(true, false, true, wants);
                self.state = State::Up;
            }
            _ if !self.first_inserted && happened == Happened::Inserted => self.first_inserted = true,
            State::Up => {
                self.state = State::AwaitParent;
                wants.push(Command::Exchange { to: parent, from: parent, bytes });
            }
            State::AwaitParent if received => {
                self.insert(true, false, true, wants);
                self.state = State::Down;
            }
            State::Down => {
                wants.extend(children.map(|to| Command::Send { to, bytes }));
                wants.push(Command::Done);
            }
            State::AwaitTwo | State::AwaitOne | State::AwaitParent | State::End => {}
        }
    }

    fn root(&mut self, child: u32, wants: &mut Vec<Command>) {
        let bytes = self.bytes;
        match self.state {
            State::Begin => {
                self.state = State::AwaitOne;
                wants.push(Command::Receive { from: child, bytes });
            }
            State::AwaitOne => {
                self.insert(true, false, true, wants);
                self.state = State::Down;
            }
            State::Down => {
                wants.push(Command::Send { to: child, bytes });
                wants.push(Command::Done);
            }
            State::AwaitTwo | State::Up | State::AwaitParent | State::End => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::relatives;

    #[test]
    fn both_trees_of_eight_ranks_have_the_expected_parents_and_children() {
        // First: 7 -> 3 -> (1, 5) -> (0, 2), (4, 6).
        assert_eq!(relatives(8, 7, false), [None, Some(3), None]);
        assert_eq!(relatives(8, 3, false), [Some(7), Some(1), Some(5)]);
        assert_eq!(relatives(8, 5, false), [Some(3), Some(4), Some(6)]);
        assert_eq!(relatives(8, 6, false), [Some(5), None, None]);
        // Second: 0 -> 4 -> (2, 6) -> (1, 3), (5, 7).
        assert_eq!(relatives(8, 0, true), [None, None, Some(4)]);
        assert_eq!(relatives(8, 2, true), [Some(4), Some(1), Some(3)]);
        assert_eq!(relatives(2, 1, false), [None, Some(0), None]);
        assert_eq!(relatives(2, 1, true), [Some(0), None, None]);
    }

    #[test]
    fn parents_and_children_agree() {
        for (count, second) in [2u32, 4, 16, 64].into_iter().flat_map(|n| [(n, false), (n, true)]) {
            for me in 0..count {
                let [parent, left, right] = relatives(count, me, second);
                for child in [left, right].into_iter().flatten() {
                    assert_eq!(relatives(count, child, second)[0], Some(me));
                }
                if let Some(parent) = parent {
                    assert!(relatives(count, parent, second)[1..].contains(&Some(me)));
                }
            }
        }
    }
}
