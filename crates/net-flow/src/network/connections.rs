//! Which messages share a connection, and the paths of open connections.

use crate::sharing::Sharing;
use std::collections::BTreeMap;
use syncline_fabric::{Fabric, Symmetry};
use syncline_net_api::StretchId;
use syncline_units::{LinkId, NpuId, Rate, TierId, Time};

/// What the messages of a connection have in common. This includes priority and weight, because adapters and
/// switches keep separate queues for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ends {
    pub(super) from: NpuId,
    pub(super) to: NpuId,
    /// Which of several parallel paths it takes.
    pub(super) lane: u32,
    /// Which of several jobs it belongs to.
    pub(super) job: u32,
    /// Priority class.
    pub(super) class: u32,
    pub(super) weight: u32,
}

/// The paths over which a connection sends equal parts of each message.
type Paths = Vec<Vec<LinkId>>;

/// A port on a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed {
    pub(super) port: u32,
    /// How many links of that class the path passes.
    pub(super) times: u32,
    /// The same, in parts of a message.
    pub(super) parts: u32,
}

/// An open connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Connection {
    pub(super) ends: Ends,
    /// Ports on its paths.
    pub(super) links: Vec<Passed>,
    /// Latency of its path; of the longest if there are several.
    pub(super) latency: Time,
    /// Rate that it would have with nothing else in flight.
    pub(super) alone: Rate,
    /// The stretch of the critical path with which its last message was complete, and when that was.
    pub(super) last: (StretchId, Time),
}

/// Connections on a fabric. One link of each class is represented.
#[derive(Debug)]
pub(super) struct Connections<'a> {
    fabric: &'a Fabric,
    symmetry: Symmetry,
    /// Most paths of a connection.
    most: u32,
    /// Indexed by port: its tier, and the rate of its links.
    tiers: Vec<TierId>,
    rates: Vec<Rate>,
    open: BTreeMap<Ends, u32>,
    /// Indexed by connection.
    list: Vec<Connection>,
    /// Paths of connections that are about to be opened.
    found: BTreeMap<Ends, Paths>,
}

impl<'a> Connections<'a> {
    /// Starts with no open connection; each may take up to `most` paths.
    pub(super) fn new(fabric: &'a Fabric, symmetry: Symmetry, most: u32) -> Self {
        let (open, list, found) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        let (parts, ports) = (fabric.parts(), symmetry.ports() as usize);
        let (mut tiers, mut rates) = (vec![TierId(0); ports], vec![Rate(0); ports]);
        for link in symmetry.links() {
            let port = symmetry.port(link) as usize;
            (tiers[port], rates[port]) = (parts.tier_id(link), fabric.speed(link).0);
        }
        Self { fabric, symmetry, most, tiers, rates, open, list, found }
    }

    /// Returns the open connection with these ends, if any.
    pub(super) fn number(&self, ends: &Ends) -> Option<u32> {
        self.open.get(ends).copied()
    }

    /// Returns the numbers of all open connections.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.open.values().copied()
    }

    pub(super) fn get(&self, number: u32) -> &Connection {
        &self.list[number as usize]
    }

    pub(super) fn get_mut(&mut self, number: u32) -> &mut Connection {
        &mut self.list[number as usize]
    }

    /// Returns the tier of the links that a port stands for.
    pub(super) fn tier(&self, port: u32) -> TierId {
        self.tiers[port as usize]
    }

    /// Returns the rate that a connection would have alone if links of `tier` were no limit; `None` if it
    /// passes no others. A message has `whole` parts.
    pub(super) fn rate_of_others(&self, connection: &Connection, tier: TierId, whole: u32) -> Option<Rate> {
        let others = connection.links.iter().filter(|passed| self.tier(passed.port) != tier);
        let rates = others.map(|passed| {
            // With several paths, each carries a part of the message; no link carries more than all of it.
            let parts = u128::from(passed.parts.clamp(1, whole));
            Rate((u128::from(self.rates[passed.port as usize].0) * u128::from(whole) / parts) as u64)
        });
        rates.min()
    }

    /// Returns the stretches of the critical path that connections refer to.
    pub(super) fn stretches(&mut self) -> impl Iterator<Item = &mut StretchId> {
        self.list.iter_mut().map(|connection| &mut connection.last.0)
    }

    pub(super) fn are_closed(&self) -> bool {
        self.open.is_empty()
    }

    /// Looks up the paths of a connection before it is opened. Returns whether there are any.
    pub(super) fn find(&mut self, ends: &Ends) -> bool {
        if self.found.contains_key(ends) {
            return true;
        }
        let Ends { from, to, lane, .. } = *ends;
        let paths = if self.most > 1 {
            self.fabric.routes(from, to, lane, self.most)
        } else {
            let mut path = Vec::new();
            if self.fabric.route(from, to, lane, &mut path) { vec![path] } else { Vec::new() }
        };
        let exists = !paths.is_empty();
        if exists {
            self.found.insert(*ends, paths);
        }
        exists
    }

    /// Returns the connection with these ends, and opens it if needed; [`Connections::find`] has found its
    /// paths.
    pub(super) fn open(&mut self, ends: &Ends, sharing: &mut Sharing) -> u32 {
        if let Some(number) = self.number(ends) {
            return number;
        }
        let paths = self.found.remove(ends).expect("a message is accepted only if it has a path");
        let connection = self.connection(*ends, &paths, sharing.whole());
        let usage: Vec<(u32, u32)> =
            connection.links.iter().map(|passed| (passed.port, passed.parts)).collect();
        let number = sharing.open(&usage, ends.weight, ends.class);
        if self.list.len() <= number as usize {
            self.list.resize(number as usize + 1, Connection::default());
        }
        self.list[number as usize] = connection;
        self.open.insert(*ends, number);
        number
    }

    /// A connection that sends equal parts over these paths, as nearly as whole parts allow.
    fn connection(&self, ends: Ends, paths: &Paths, whole: u32) -> Connection {
        let count = paths.len() as u32;
        let (mut links, mut latency) = (Vec::<Passed>::new(), Time::ZERO);
        for (at, path) in (0u32..).zip(paths) {
            let part = whole / count + u32::from(at < whole % count);
            let mut all = Time::ZERO;
            for &link in path {
                let port = self.symmetry.port(link);
                match links.iter_mut().find(|passed| passed.port == port) {
                    Some(passed) => {
                        passed.times += 1;
                        passed.parts += part;
                    }
                    None => links.push(Passed { port, times: 1, parts: part }),
                }
                all = all.saturating_add(self.fabric.speed(link).1);
            }
            latency = latency.max(all);
        }
        // All parts advance at one rate, which the slowest path sets.
        let of_link = |link: &LinkId| {
            let parts = paths.iter().filter(|path| path.contains(link)).count() as u64;
            Rate((u128::from(self.fabric.speed(*link).0.0) * paths.len() as u128 / u128::from(parts)) as u64)
        };
        let alone = paths.iter().flatten().map(of_link).min().unwrap_or_default();
        Connection { ends, links, latency, alone, last: (StretchId::START, Time::ZERO) }
    }

    /// Called when a connection was closed.
    pub(super) fn close(&mut self, number: u32) {
        self.open.remove(&self.list[number as usize].ends);
    }

    /// Returns one link of each port, indexed by port.
    pub(super) fn links(&self) -> Vec<LinkId> {
        let mut links = vec![LinkId(0); self.symmetry.ports() as usize];
        for link in self.symmetry.links() {
            links[self.symmetry.port(link) as usize] = link;
        }
        links
    }

    /// Returns the port of a link.
    pub(super) fn port(&self, link: LinkId) -> u32 {
        self.symmetry.port(link)
    }

    pub(super) fn fabric(&self) -> &'a Fabric {
        self.fabric
    }

    /// Whether any paths are stored for connections that are not open yet.
    #[cfg(test)]
    pub(super) fn has_found(&self) -> bool {
        !self.found.is_empty()
    }
}
