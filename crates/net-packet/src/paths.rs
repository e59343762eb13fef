//! The paths of a connection: the ports that its packets pass, in order. If there are several paths, packets
//! take them in turn (packet spraying), and each stays on its own to the end.
//!
//! A packet stores its position in 8 bits, so all paths of a connection in one direction share 256 positions:
//! the ports of the first path, its end, the ports of the second, and so on.

/// Positions that a packet can tell apart.
const PLACES: u32 = 1 << u8::BITS;

/// Follows the last port of a path.
const END: u32 = u32::MAX;

/// Returns how many paths of `links` links a connection can have; `None` if it cannot have even one.
pub(crate) fn most(links: usize) -> Option<u32> {
    let each = u32::try_from(links).ok()?.checked_add(1)?;
    (each <= PLACES).then_some(PLACES / each)
}

/// All paths of all connections.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    ports: Vec<u32>,
}

/// The paths of a connection in one direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bundle {
    /// Its first position in the list of all.
    start: u32,
    /// Positions of one path.
    each: u16,
    /// Positions of all its paths.
    all: u16,
    /// Where the next packet begins.
    turn: u16,
}

impl Paths {
    /// Adds paths of equal length that begin with the same port, at most [`most`] of them.
    pub(crate) fn add(&mut self, paths: &[impl AsRef<[u32]>]) -> Bundle {
        let start = self.ports.len() as u32;
        for path in paths {
            self.ports.extend_from_slice(path.as_ref());
            self.ports.push(END);
        }
        let (first, all) = (paths[0].as_ref(), self.ports.len() - start as usize);
        debug_assert!(!first.is_empty() && all <= PLACES as usize, "the caller checked the paths");
        debug_assert!(
            paths.iter().map(AsRef::as_ref).all(|path| path.len() == first.len() && path[0] == first[0])
        );
        Bundle { start, each: first.len() as u16 + 1, all: all as u16, turn: 0 }
    }

    /// Returns the port with which all paths begin.
    #[inline]
    pub(crate) fn first(&self, of: &Bundle) -> u32 {
        self.ports[of.start as usize]
    }

    /// Returns all ports of all paths, one path after the other.
    pub(crate) fn ports(&self, of: &Bundle) -> impl Iterator<Item = u32> {
        let start = of.start as usize;
        self.ports[start..start + usize::from(of.all)].iter().copied().filter(|&port| port != END)
    }

    /// Returns the port at a position; `None` at the end of a path.
    #[inline]
    pub(crate) fn port(&self, of: &Bundle, place: u8) -> Option<u32> {
        let port = self.ports[of.start as usize + usize::from(place)];
        (port != END).then_some(port)
    }
}

impl Bundle {
    /// Returns where the next packet begins.
    #[inline]
    pub(crate) fn take(&mut self) -> u8 {
        if self.each == self.all {
            return 0;
        }
        let place = self.turn as u8;
        self.turn += self.each;
        if self.turn == self.all {
            self.turn = 0;
        }
        place
    }

    /// Whether a packet is at the first port of its path.
    #[inline]
    pub(crate) fn is_first(&self, place: u8) -> bool {
        place == 0 || u16::from(place).is_multiple_of(self.each)
    }

    /// Returns the number of paths.
    pub(crate) fn count(&self) -> u32 {
        u32::from(self.all / self.each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the ports that the next packet passes.
    fn walked(paths: &Paths, of: &mut Bundle) -> Vec<u32> {
        let mut place = of.take();
        assert!(of.is_first(place));
        let mut ports = Vec::new();
        while let Some(port) = paths.port(of, place) {
            ports.push(port);
            place += 1;
            assert!(!of.is_first(place));
        }
        ports
    }

    #[test]
    fn packets_take_paths_in_turn() {
        let mut paths = Paths::default();
        let (mut alone, mut three) = (paths.add(&[[7, 8]]), paths.add(&[[1, 2, 9], [1, 4, 9], [1, 6, 9]]));
        let taken = [(); 5].map(|()| walked(&paths, &mut three));
        assert_eq!(taken, [[1, 2, 9], [1, 4, 9], [1, 6, 9], [1, 2, 9], [1, 4, 9]]);
        assert_eq!([(); 2].map(|()| walked(&paths, &mut alone)), [[7, 8]; 2]);
        assert_eq!((paths.first(&alone), paths.first(&three)), (7, 1));
        assert_eq!((alone.count(), three.count()), (1, 3));
    }

    #[test]
    fn paths_can_use_every_position_that_packets_tell_apart() {
        for links in [1, 2, 4, 6, 100, 127, 128, 255] {
            let mut paths = Paths::default();
            let count = most(links).unwrap();
            let last = |path: u32| (0..links).map(|hop| if hop + 1 == links { path } else { 0 }).collect();
            let many: Vec<Vec<u32>> =
                (0..count).map(|path| if links == 1 { vec![0] } else { last(path) }).collect();
            let mut bundle = paths.add(&many);
            assert_eq!(bundle.count(), count);
            for path in many.iter().chain(&many) {
                assert_eq!(walked(&paths, &mut bundle), *path);
            }
        }
        assert_eq!([4, 6, 255, 256, usize::MAX].map(most), [Some(51), Some(36), Some(1), None, None]);
    }
}
