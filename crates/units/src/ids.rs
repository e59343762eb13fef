//! Newtypes for numbered things, so that a rank cannot be mistaken for an NPU.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($number:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $number);

        impl $name {
            /// The id as an index into a table.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id!(/// A job's process. Ranks count from 0 within a job.
    RankId(u32), "rank ");
id!(/// An accelerator endpoint of the fabric.
    NpuId(u32), "NPU ");
id!(/// A directed link of the fabric.
    LinkId(u32), "link ");
id!(/// A tier of the fabric's links.
    TierId(u16), "tier ");

/// Formats ascending ranks for people: `rank 3`, `ranks 0-7, 9`. Writes at most eight ranges and counts the rest.
pub fn rank_list(ranks: &[u32]) -> String {
    const RANGES: usize = 8;
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &rank in ranks {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => ranges.push((rank, rank)),
        }
    }
    let written = ranges.iter().take(RANGES).map(|&(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    });
    let mut text = written.collect::<Vec<_>>().join(", ");
    let rest: u32 = ranges.iter().skip(RANGES).map(|&(first, last)| last - first + 1).sum();
    if rest > 0 {
        text += &format!(" and {rest} more");
    }
    format!("rank{} {text}", if ranks.len() == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::rank_list;

    #[test]
    fn ranks_are_listed_as_ranges() {
        assert_eq!(rank_list(&[3]), "rank 3");
        assert_eq!(rank_list(&[0, 1, 2, 5, 7, 8]), "ranks 0-2, 5, 7, 8");
        let odd: Vec<u32> = (0..12).map(|i| 2 * i + 1).collect();
        assert_eq!(rank_list(&odd), "ranks 1, 3, 5, 7, 9, 11, 13, 15 and 4 more");
    }
}
