//! Routes along the rings of a group (topoopt2022 Algorithm 3).

/// CoinChangeMod: the fewest links from a member to another one, where every member `i` is joined to the members
/// `i + c` for each coin `c`, modulo the number of members.
///
/// The coins are the strides of the group's rings. As in making change, the links of a path are coins whose sum is the
/// distance between two members, but modulo their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoinChange {
    members: u32,
    /// The shortest path to each distance; `None` if no coins reach it.
    best: Vec<Option<Path>>,
}

/// A shortest path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Path {
    links: u32,
    last_coin: u32,
}

impl CoinChange {
    /// Finds the shortest paths for all distances below `members`. Of several last coins, takes the first in `coins`.
    pub fn new(members: u32, coins: &[u32]) -> Self {
        let mut best = vec![None; members as usize];
        if let Some(zero) = best.first_mut() {
            *zero = Some(Path { links: 0, last_coin: 0 });
        }
        // Distances in the order in which they are reached: each round of the paper's loop (lines 10 to 19) adds one
        // link to the paths of the previous one.
        let mut reached = vec![0u32];
        let mut links = 0;
        while !reached.is_empty() {
            links += 1;
            let mut next = Vec::new();
            for &distance in &reached {
                for &coin in coins {
                    let farther =
                        ((u64::from(distance) + u64::from(coin)) % u64::from(members.max(1))) as u32;
                    let known = &mut best[farther as usize];
                    if known.is_none() {
                        *known = Some(Path { links, last_coin: coin });
                        next.push(farther);
                    }
                }
            }
            reached = next;
        }
        Self { members, best }
    }

    /// The links between two members for each distance from 1; `None` if no coins reach it.
    pub fn distances(&self) -> impl Iterator<Item = Option<u32>> + '_ {
        self.best.iter().skip(1).map(|path| path.map(|path| path.links))
    }

    /// The members on the way from member `from` to member `to`, including both; `None` if no coins reach it.
    pub fn route(&self, from: u32, to: u32) -> Option<Vec<u32>> {
        let size = self.members;
        let mut distance = (to + size - from) % size;
        let mut route = vec![to];
        let mut at = to;
        while distance != 0 {
            let coin = self.best[distance as usize]?.last_coin;
            at = (at + size - coin % size) % size;
            distance = (distance + size - coin % size) % size;
            route.push(at);
        }
        route.reverse();
        Some(route)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_route_uses_the_fewest_coins() {
        // 7 = 1 + 1 + 5.
        let change = CoinChange::new(12, &[1, 5]);
        let route = change.route(2, 9).unwrap();
        assert_eq!((route.len(), route[0], route[3]), (4, 2, 9));
        // Backwards by one is 11 = 5 + 5 + 1.
        assert_eq!(change.route(1, 0).unwrap().len(), 4);
        assert_eq!(change.route(5, 5).unwrap(), [5]);
        assert_eq!(CoinChange::new(4, &[2]).route(0, 1), None);
    }

    proptest! {
        /// The distance is that of a breadth-first search over the members, and the route is a path of that length.
        #[test]
        fn routes_on_a_circulant_are_shortest(members in 2u32..120, coins in prop::collection::vec(1u32..120, 1..6)) {
            let coins: Vec<u32> = coins.into_iter().map(|coin| coin % members).filter(|&coin| coin > 0).collect();
            let change = CoinChange::new(members, &coins);
            // Relax edges until nothing changes (Bellman and Ford), from an arbitrary member.
            let start = members / 3;
            let mut distance = vec![u32::MAX; members as usize];
            distance[start as usize] = 0;
            for _ in 0..members {
                for from in (0..members).filter(|&from| distance[from as usize] != u32::MAX).collect::<Vec<_>>() {
                    for coin in &coins {
                        let to = ((from + coin) % members) as usize;
                        distance[to] = distance[to].min(distance[from as usize] + 1);
                    }
                }
            }
            for to in 0..members {
                match change.route(start, to) {
                    None => prop_assert_eq!(distance[to as usize], u32::MAX),
                    Some(route) => {
                        prop_assert_eq!(route.len() as u32 - 1, distance[to as usize]);
                        prop_assert_eq!((route[0], *route.last().unwrap()), (start, to));
                        for pair in route.windows(2) {
                            prop_assert!(coins.contains(&((pair[1] + members - pair[0]) % members)));
                        }
                    }
                }
            }
        }
    }
}
