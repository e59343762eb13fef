//! Paths through a topology.

use std::collections::VecDeque;

/// The servers that each server sends to, ascending.
pub(super) type Neighbours = Vec<Vec<u32>>;

/// For each server, the links of a shortest path to `to`; `None` if there is no path.
pub(super) fn distances_to(backwards: &Neighbours, to: u32) -> Vec<Option<u32>> {
    let mut distance = vec![None; backwards.len()];
    distance[to as usize] = Some(0);
    let mut queue = VecDeque::from([(to, 0)]);
    while let Some((at, links)) = queue.pop_front() {
        for &before in &backwards[at as usize] {
            if distance[before as usize].is_none() {
                distance[before as usize] = Some(links + 1);
                queue.push_back((before, links + 1));
            }
        }
    }
    distance
}

/// Up to `count` of the paths from `from` with the fewest links, by servers; none if there is no path. `distance` is that
/// of [`distances_to`] the destination.
pub(super) fn shortest_paths(
    neighbours: &Neighbours,
    distance: &[Option<u32>],
    from: u32,
    count: usize,
) -> Vec<Vec<u32>> {
    let mut found = Vec::new();
    if let Some(left) = distance[from as usize] {
        extend(neighbours, distance, left, count, &mut vec![from], &mut found);
    }
    found
}

/// Adds all shortest continuations of `path`, which have `left` more links, to `found`, up to `count`.
fn extend(
    neighbours: &Neighbours,
    distance: &[Option<u32>],
    left: u32,
    count: usize,
    path: &mut Vec<u32>,
    found: &mut Vec<Vec<u32>>,
) {
    let Some(left) = left.checked_sub(1) else { return found.push(path.clone()) };
    let at = path[path.len() - 1] as usize;
    for &next in neighbours[at].iter().filter(|&&next| distance[next as usize] == Some(left)) {
        if found.len() >= count {
            return;
        }
        path.push(next);
        extend(neighbours, distance, left, count, path, found);
        path.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reversed(neighbours: &Neighbours) -> Neighbours {
        let mut backwards = vec![Vec::new(); neighbours.len()];
        for (from, to) in
            neighbours.iter().enumerate().flat_map(|(from, tos)| tos.iter().map(move |&to| (from, to)))
        {
            backwards[to as usize].push(from as u32);
        }
        backwards
    }

    /// All paths that visit no server twice, by brute force.
    fn all_paths(neighbours: &Neighbours, path: &mut Vec<u32>, to: u32, found: &mut Vec<Vec<u32>>) {
        let at = path[path.len() - 1];
        if at == to {
            return found.push(path.clone());
        }
        for &next in &neighbours[at as usize] {
            if !path.contains(&next) {
                path.push(next);
                all_paths(neighbours, path, to, found);
                path.pop();
            }
        }
    }

    proptest! {
        #[test]
        fn the_shortest_of_all_paths_are_found(
            edges in prop::collection::vec((0u32..7, 0u32..7), 0..22), count in 1usize..6,
        ) {
            let mut neighbours = vec![Vec::new(); 7];
            for (from, to) in edges {
                if from != to && !neighbours[from as usize].contains(&to) {
                    neighbours[from as usize].push(to);
                }
            }
            neighbours.iter_mut().for_each(|list| list.sort_unstable());
            let distance = distances_to(&reversed(&neighbours), 6);
            let mut every = Vec::new();
            all_paths(&neighbours, &mut vec![0], 6, &mut every);
            every.sort_by_key(|path| (path.len(), path.clone()));
            let shortest = every.first().map_or(0, Vec::len);
            every.retain(|path| path.len() == shortest);
            every.truncate(count);
            prop_assert_eq!(shortest_paths(&neighbours, &distance, 0, count), every);
        }
    }
}
