//! The search for a short ring: a symmetric travelling-salesman problem.
//!
//! Local search by 2-opt and Or-opt moves between near neighbours, repeated after random exchanges of two adjacent parts
//! of the ring (iterated local search; Lourenço, Martin, Stützle 2003).

use crate::distances::Matrix;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;
use syncline_units::Time;

/// Nearest hosts of each host that become its neighbours by a move.
const NEAREST: usize = 10;
/// Longest part that an Or-opt move relocates.
const LONGEST_PART: usize = 3;
/// Longest part that a random exchange moves.
const LONGEST_KICK: usize = 50;

/// The sum of a ring's hops.
pub(crate) fn length(matrix: &Matrix, order: &[u32]) -> Time {
    order.iter().zip(order.iter().cycle().skip(1)).map(|(&a, &b)| matrix.between(a, b)).sum()
}

/// A ring that is not longer than `order`, after `kicks` random exchanges. `stop` is asked before each.
pub(crate) fn shorten(
    matrix: &Matrix,
    order: Vec<u32>,
    kicks: u64,
    rng: &mut ChaCha8Rng,
    stop: &mut dyn FnMut() -> bool,
) -> Vec<u32> {
    let size = order.len();
    if size < 4 {
        return order;
    }
    let mut tour = Tour::new(matrix, order);
    let everyone = tour.order.clone();
    tour.descend(everyone);
    let mut kept = tour.order.clone();
    for _ in 0..kicks {
        if stop() {
            break;
        }
        let longest = LONGEST_KICK.min((size - 2) / 2);
        let at = rng.random_range(0..size);
        let (first, second) = (rng.random_range(1..=longest), rng.random_range(1..=longest));
        let (touched, longer) = tour.exchange(at, first, second);
        if longer <= tour.descend(touched) {
            kept.copy_from_slice(&tour.order);
        } else {
            tour.restore(&kept);
        }
    }
    kept
}

struct Tour<'a> {
    matrix: &'a Matrix,
    order: Vec<u32>,
    position: Vec<u32>,
    near: Vec<u32>,
    nearest: usize,
    queue: VecDeque<u32>,
    queued: Vec<bool>,
}

impl<'a> Tour<'a> {
    fn new(matrix: &'a Matrix, order: Vec<u32>) -> Self {
        let size = order.len();
        let nearest = NEAREST.min(size - 1);
        let mut near = Vec::with_capacity(size * nearest);
        for host in 0..size as u32 {
            let mut others: Vec<u32> = (0..size as u32).filter(|&other| other != host).collect();
            let by_distance = |&other: &u32| (matrix.between(host, other), other);
            if nearest < others.len() {
                others.select_nth_unstable_by_key(nearest, by_distance);
                others.truncate(nearest);
            }
            others.sort_unstable_by_key(by_distance);
            near.extend(others);
        }
        let mut tour = Self {
            matrix,
            position: vec![0; size],
            order: vec![0; size],
            near,
            nearest,
            queue: VecDeque::new(),
            queued: vec![false; size],
        };
        tour.restore(&order);
        tour
    }

    fn restore(&mut self, order: &[u32]) {
        self.order.copy_from_slice(order);
        for (at, &host) in order.iter().enumerate() {
            self.position[host as usize] = at as u32;
        }
    }

    #[inline]
    fn between(&self, a: u32, b: u32) -> i64 {
        self.matrix.between(a, b).0 as i64
    }

    #[inline]
    fn at(&self, position: usize) -> u32 {
        let size = self.order.len();
        self.order[if position >= size { position - size } else { position }]
    }

    #[inline]
    fn next(&self, host: u32) -> u32 {
        self.at(self.position[host as usize] as usize + 1)
    }

    #[inline]
    fn previous(&self, host: u32) -> u32 {
        self.at(self.position[host as usize] as usize + self.order.len() - 1)
    }

    #[inline]
    fn put(&mut self, position: usize, host: u32) {
        let size = self.order.len();
        let at = position % size;
        self.order[at] = host;
        self.position[host as usize] = at as u32;
    }

    fn push(&mut self, host: u32) {
        if !std::mem::replace(&mut self.queued[host as usize], true) {
            self.queue.push_back(host);
        }
    }

    /// Applies moves at `hosts`, and wherever they change the ring, until none shortens it. Returns by how much they did.
    fn descend(&mut self, hosts: Vec<u32>) -> i64 {
        hosts.into_iter().for_each(|host| self.push(host));
        let mut gained = 0;
        while let Some(host) = self.queue.pop_front() {
            self.queued[host as usize] = false;
            while let Some(gain) = self.two_opt(host).or_else(|| self.or_opt(host)) {
                gained += gain;
            }
        }
        gained
    }

    /// Replaces the hop from `a` to a neighbour, and another hop, by two shorter ones.
    fn two_opt(&mut self, a: u32) -> Option<i64> {
        for forward in [true, false] {
            let b = if forward { self.next(a) } else { self.previous(a) };
            let old = self.between(a, b);
            for rank in 0..self.nearest {
                let c = self.near[a as usize * self.nearest + rank];
                let new = self.between(a, c);
                if new >= old {
                    break;
                }
                let d = if forward { self.next(c) } else { self.previous(c) };
                let gain = old + self.between(c, d) - new - self.between(b, d);
                if gain <= 0 {
                    continue;
                }
                // From a b ... c d to a c ... b d, or its mirror image.
                if forward {
                    self.reverse(b, c)
                } else {
                    self.reverse(a, d)
                };
                [a, b, c, d].into_iter().for_each(|host| self.push(host));
                return Some(gain);
            }
        }
        None
    }

    /// Reverses the path from `first` on to `last`, or the rest of the ring, whichever is shorter.
    fn reverse(&mut self, first: u32, last: u32) {
        let size = self.order.len();
        let (mut from, mut to) =
            (self.position[first as usize] as usize, self.position[last as usize] as usize);
        let inside = (to + size - from) % size + 1;
        let mut swaps = inside / 2;
        if 2 * inside > size {
            (from, to) = ((to + 1) % size, (from + size - 1) % size);
            swaps = (size - inside) / 2;
        }
        for _ in 0..swaps {
            let (a, b) = (self.order[from], self.order[to]);
            self.put(from, b);
            self.put(to, a);
            from = (from + 1) % size;
            to = (to + size - 1) % size;
        }
    }

    /// Moves a part of up to three hosts that begins or ends with `x` to a place beside a near neighbour of `x`.
    fn or_opt(&mut self, x: u32) -> Option<i64> {
        let size = self.order.len();
        for count in 1..=LONGEST_PART.min(size - 3) {
            for x_first in [true, false] {
                let at = self.position[x as usize] as usize;
                let start = if x_first { at } else { (at + size + 1 - count) % size };
                let y = if x_first { self.at(start + count - 1) } else { self.order[start] };
                let (before, after) = (self.at(start + size - 1), self.at(start + count));
                let (first, last) = if x_first { (x, y) } else { (y, x) };
                let removed =
                    self.between(before, first) + self.between(last, after) - self.between(before, after);
                if removed <= 0 {
                    continue;
                }
                for rank in 0..self.nearest {
                    let c = self.near[x as usize * self.nearest + rank];
                    let beside = self.between(x, c);
                    if beside >= removed {
                        break;
                    }
                    let inside =
                        |host: u32| (self.position[host as usize] as usize + size - start) % size < count;
                    if inside(c) {
                        continue;
                    }
                    for c_first in [true, false] {
                        let e = if c_first { self.next(c) } else { self.previous(c) };
                        if inside(e) {
                            continue;
                        }
                        let gain = removed + self.between(c, e) - beside - self.between(y, e);
                        if gain <= 0 {
                            continue;
                        }
                        // In the ring's direction: c x ... y e, or e y ... x c.
                        self.relocate(start, count, if c_first { c } else { e }, x_first != c_first);
                        [before, after, x, y, c, e].into_iter().for_each(|host| self.push(host));
                        return Some(gain);
                    }
                }
                if count == 1 {
                    break;
                }
            }
        }
        None
    }

    /// Moves the part that begins at a position behind the host `after`, turned or not.
    fn relocate(&mut self, start: usize, count: usize, after: u32, turned: bool) {
        let size = self.order.len();
        let mut part: Vec<u32> = (0..count).map(|step| self.at((start + step) % size)).collect();
        if turned {
            part.reverse();
        }
        let target = self.position[after as usize] as usize;
        // Hosts between the part and its new place, in the ring's direction and against it.
        let ahead = (target + size - (start + count - 1)) % size;
        let behind = size - count - ahead;
        let place = if ahead <= behind {
            for step in 0..ahead {
                let host = self.at((start + count + step) % size);
                self.put(start + step, host);
            }
            start + ahead
        } else {
            for step in 0..behind {
                let host = self.at((start + size - 1 - step) % size);
                self.put(start + size + count - 1 - step, host);
            }
            start + size - behind
        };
        for (step, host) in part.into_iter().enumerate() {
            self.put(place + step, host);
        }
    }

    /// Exchanges two adjacent parts behind a position. Returns the ends of the new hops, and by how much the ring became
    /// longer.
    fn exchange(&mut self, at: usize, first: usize, second: usize) -> (Vec<u32>, i64) {
        let size = self.order.len();
        let part = |from: usize, count: usize| (0..count).map(move |step| (from + step) % size);
        let a: Vec<u32> = part(at + 1, first).map(|at| self.order[at]).collect();
        let b: Vec<u32> = part(at + 1 + first, second).map(|at| self.order[at]).collect();
        let (before, after) = (self.order[at], self.at((at + 1 + first + second) % size));
        let (a_ends, b_ends) = ((a[0], a[first - 1]), (b[0], b[second - 1]));
        let old =
            self.between(before, a_ends.0) + self.between(a_ends.1, b_ends.0) + self.between(b_ends.1, after);
        let new =
            self.between(before, b_ends.0) + self.between(b_ends.1, a_ends.0) + self.between(a_ends.1, after);
        for (step, host) in b.into_iter().chain(a).enumerate() {
            self.put(at + 1 + step, host);
        }
        (vec![before, a_ends.0, a_ends.1, b_ends.0, b_ends.1, after], new - old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn moves_gain_what_they_say() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for size in 4..40 {
            let times: Vec<Time> = (0..size * size).map(|_| Time(rng.random_range(1..1000))).collect();
            let matrix = Matrix::new(size, &times);
            let mut tour = Tour::new(&matrix, (0..size).collect());
            let before = length(&matrix, &tour.order).0 as i64;
            let everyone = tour.order.clone();
            let gained = tour.descend(everyone);
            assert_eq!(length(&matrix, &tour.order).0 as i64, before - gained, "{size}");
            let longest = LONGEST_KICK.min((size as usize - 2) / 2);
            for _ in 0..20 {
                let before = length(&matrix, &tour.order).0 as i64;
                let at = rng.random_range(0..size as usize);
                let (first, second) = (rng.random_range(1..=longest), rng.random_range(1..=longest));
                let (touched, longer) = tour.exchange(at, first, second);
                assert_eq!(length(&matrix, &tour.order).0 as i64, before + longer, "{size}");
                let gained = tour.descend(touched);
                assert_eq!(length(&matrix, &tour.order).0 as i64, before + longer - gained, "{size}");
                let mut hosts = tour.order.clone();
                hosts.sort_unstable();
                assert_eq!(hosts, (0..size).collect::<Vec<_>>());
                assert!(
                    tour.order
                        .iter()
                        .enumerate()
                        .all(|(at, &host)| tour.position[host as usize] as usize == at)
                );
            }
        }
    }
}
