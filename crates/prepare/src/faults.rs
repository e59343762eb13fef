//! Stragglers and broken parts: converts the faults of a scenario to slowdowns of ranks and rates of links.

use rand::SeedableRng;
use rand::seq::index::sample;
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_engine::{Slowdown, Slowdowns};
use syncline_fabric::Fabric;
use syncline_scenario::{Fault, LinkName};
use syncline_units::{LinkId, RankId, Rate, Time};

/// A factor of 1. The engine takes factors as whole millionths.
const ONE: f64 = 1e6;
/// Largest factor by which a part may be slower.
const MOST: f64 = 1e9;

/// Slow links, with their factors, and dead links.
#[derive(Debug, Default)]
pub(crate) struct Links {
    slow: BTreeMap<LinkId, f64>,
    dead: BTreeSet<LinkId>,
}

/// The faults of a scenario: slowdowns of ranks, who is affected, and all faults in words.
#[derive(Debug, Default)]
pub struct Faults {
    pub slow: Slowdowns,
    /// The slow ranks, in the order of the faults.
    pub ranks: Vec<RankId>,
    /// The NPUs at broken links.
    pub npus: BTreeSet<u32>,
    /// Each fault in words.
    pub descriptions: Vec<String>,
}

/// Two vertices and the directed links between them, each way, by number.
type Cables = BTreeMap<(u32, u32), Vec<LinkId>>;

/// Breaks or slows links of `fabric`, and finds the slow ranks among `ranks` ranks. Random choices depend only on
/// `seed` and the fault's position in the list.
///
/// # Errors
/// Ranks and links that do not exist, more random ranks or links than there are, factors out of range.
pub(crate) fn apply(faults: &[Fault], seed: u64, ranks: u32, fabric: Fabric) -> Result<(Fabric, Faults)> {
    if faults.is_empty() {
        return Ok((fabric, Faults::default()));
    }
    let mut errors = Diagnostics::new();
    let (mut slow, mut links, mut descriptions) = (Vec::new(), Links::default(), Vec::new());
    let of_links = |fault: &Fault| fault.link.is_some() || fault.random_links.is_some();
    let cables = if faults.iter().any(of_links) { cables(&fabric) } else { Cables::new() };
    for (index, fault) in faults.iter().enumerate() {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(index as u64);
        let found = if of_links(fault) {
            of_fabric(fault, &fabric, &cables, &mut random, &mut links)
        } else {
            of_ranks(fault, ranks, &mut random, &mut slow)
        };
        match found {
            Ok(words) => descriptions.push(words),
            Err(error) => {
                let key = error.key.as_deref().map_or(String::new(), |key| format!(".{key}"));
                errors.push(error.key(format!("faults.{index}{key}")));
            }
        }
    }
    errors.into_result()?;
    let rate = |id: LinkId, factor: f64| {
        let rate = fabric.link(id).rate;
        Rate(((rate.0 as f64 / factor) as u64).max(1))
    };
    let slowed = links.slow.iter().map(|(&id, &factor)| (id, rate(id, factor))).collect();
    let broken = links.slow.keys().chain(&links.dead).map(|&id| fabric.link(id));
    let npus = broken.flat_map(|link| [link.from, link.to]).filter(|&end| end < fabric.npus()).collect();
    let ranks = slow.iter().map(|each: &Slowdown| each.rank).collect();
    Ok((fabric.damaged(slowed, links.dead), Faults { slow: Slowdowns::new(slow), ranks, npus, descriptions }))
}

fn bad(key: &str, message: &str, found: impl ToString, allowed: impl Into<String>) -> Diagnostic {
    Diagnostic::error(Code::BadValue, message).key(key).found(found.to_string()).allowed(allowed)
}

/// The factor of a fault that must have one.
fn factor(fault: &Fault) -> std::result::Result<f64, Diagnostic> {
    match fault.factor {
        Some(factor) if (1.0..=MOST).contains(&factor) => Ok(factor),
        Some(factor) => Err(bad("factor", "the factor is out of range", factor, "from 1 to 1000000000")),
        None => Err(Diagnostic::error(Code::MissingKey, "the fault has no `factor`")
            .help("say how many times as slow the part is: `factor: 2` is half the speed")),
    }
}

fn of_ranks(
    fault: &Fault,
    ranks: u32,
    random: &mut ChaCha8Rng,
    slow: &mut Vec<Slowdown>,
) -> std::result::Result<String, Diagnostic> {
    let factor = factor(fault)?;
    let (from, until) = (fault.from.unwrap_or(Time::ZERO), fault.until.unwrap_or(Time::MAX));
    if until <= from {
        return Err(bad("until", "the slowdown ends before it begins", until, format!("after {from}")));
    }
    let chosen: Vec<u32> = match (&fault.rank, fault.random_ranks) {
        (Some(listed), _) => listed.iter().map(|rank| rank.0).collect(),
        (None, Some(count)) if count <= ranks => drawn(random, ranks, count),
        (None, Some(count)) => {
            return Err(bad(
                "random_ranks",
                "the fault asks for more ranks than the job has",
                count,
                format!("at most {ranks}"),
            ));
        }
        (None, None) => {
            return Err(Diagnostic::error(
                Code::MissingKey,
                "the fault does not say which ranks or links it affects",
            )
            .help("give `rank`, `link`, `random_ranks` or `random_links`"));
        }
    };
    if let Some(rank) = chosen.iter().find(|&&rank| rank >= ranks) {
        return Err(bad(
            "rank",
            "the job has no rank with this number",
            rank,
            format!("0 to {}", ranks.saturating_sub(1)),
        ));
    }
    let millionths = (factor * ONE).round() as u64;
    slow.extend(chosen.iter().map(|&rank| Slowdown { rank: RankId(rank), factor: millionths, from, until }));
    let be = if chosen.len() == 1 { "is" } else { "are" };
    let mut words = format!("{} {be} {factor} times as slow", counted("rank", &chosen));
    if from > Time::ZERO {
        write!(words, " from {from}").expect("strings take all");
    }
    if until < Time::MAX {
        write!(words, " until {until}").expect("strings take all");
    }
    Ok(words)
}

fn of_fabric(
    fault: &Fault,
    fabric: &Fabric,
    cables: &Cables,
    random: &mut ChaCha8Rng,
    links: &mut Links,
) -> std::result::Result<String, Diagnostic> {
    if fault.dead && fault.factor.is_some() {
        return Err(Diagnostic::error(Code::BadValue, "a link fault has both `factor` and `dead`")
            .key("factor")
            .help("give `factor` or `dead`, not both"));
    }
    let factor = if fault.dead { None } else { Some(factor(fault)?) };
    if let Some(key) = [("from", fault.from), ("until", fault.until)].into_iter().find(|(_, at)| at.is_some())
    {
        return Err(Diagnostic::error(Code::BadValue, "a link fault lasts the whole run")
            .key(key.0)
            .help("remove `from` and `until`: only slow ranks take them"));
    }
    let name = |id: LinkId| {
        let link = fabric.link(id);
        format!("{} -> {}", fabric.vertex_name(link.from), fabric.vertex_name(link.to))
    };
    let (chosen, words): (Vec<LinkId>, String) = match (&fault.link, fault.random_links) {
        (Some(LinkName::Number(number)), _) => {
            if *number >= fabric.links() {
                let allowed = format!("0 to {}", fabric.links().saturating_sub(1));
                return Err(bad("link", "the fabric has no link with this number", number, allowed));
            }
            (vec![LinkId(*number)], name(LinkId(*number)))
        }
        (Some(LinkName::Ends(ends)), _) => {
            let [from, to] = [vertex(fabric, &ends[0])?, vertex(fabric, &ends[1])?];
            let there = |from, to| cables.get(&(from, to)).cloned().unwrap_or_default();
            let mut found = there(from, to);
            if !fault.one_way {
                found.extend(there(to, from));
            }
            if found.is_empty() {
                let near = cables.range((from, 0)..=(from, u32::MAX)).map(|(&(_, to), _)| to);
                let near: Vec<String> = near.take(8).map(|to| fabric.vertex_name(to)).collect();
                let allowed = format!("{} and one of {}", fabric.vertex_name(from), near.join(", "));
                return Err(bad("link", "no link connects these two", ends.join(", "), allowed));
            }
            let arrow = if fault.one_way { "->" } else { "<->" };
            (found, format!("{} {arrow} {}", fabric.vertex_name(from), fabric.vertex_name(to)))
        }
        (None, count) => {
            let count = count.unwrap_or(0);
            // A cable: one link, and the one of the same number back.
            let pairs: Vec<(LinkId, Option<LinkId>)> = cables
                .iter()
                .flat_map(|(&(from, to), there)| {
                    let back = cables.get(&(to, from));
                    let seen = from > to && back.is_some();
                    there.iter().enumerate().filter_map(move |(index, &link)| {
                        let back = back.and_then(|back| back.get(index)).copied();
                        (!seen || back.is_none()).then_some((link, back))
                    })
                })
                .collect();
            let most = pairs.len() as u32;
            if count > most {
                return Err(bad(
                    "random_links",
                    "the fault asks for more links than the fabric has",
                    count,
                    format!("at most {most}"),
                ));
            }
            let chosen: Vec<_> =
                drawn(random, most, count).into_iter().map(|index| pairs[index as usize]).collect();
            let named: Vec<String> = chosen.iter().take(4).map(|&(link, _)| name(link)).collect();
            let more =
                if chosen.len() > 4 { format!(" and {} more", chosen.len() - 4) } else { String::new() };
            let all = chosen
                .iter()
                .flat_map(|&(link, back)| std::iter::once(link).chain(back.filter(|_| !fault.one_way)));
            (all.collect(), format!("{}{more}", named.join(", ")))
        }
    };
    match factor {
        None => links.dead.extend(chosen),
        Some(factor) => chosen.iter().for_each(|&link| *links.slow.entry(link).or_insert(1.0) *= factor),
    }
    Ok(match factor {
        None => format!("dead links: {words}"),
        Some(factor) => format!("links {factor} times as slow: {words}"),
    })
}

/// Draws `count` different numbers from `0..of` and returns them in ascending order.
fn drawn(random: &mut ChaCha8Rng, of: u32, count: u32) -> Vec<u32> {
    let mut chosen: Vec<u32> =
        sample(random, of as usize, count as usize).into_iter().map(|index| index as u32).collect();
    chosen.sort_unstable();
    chosen
}

/// Lists numbers in words: `rank 3`, `ranks 3, 4, 9 and 5 more`.
fn counted(what: &str, numbers: &[u32]) -> String {
    let listed: Vec<String> = numbers.iter().take(4).map(u32::to_string).collect();
    let plural = if numbers.len() == 1 { "" } else { "s" };
    let more = if numbers.len() > 4 { format!(" and {} more", numbers.len() - 4) } else { String::new() };
    format!("{what}{plural} {}{more}", listed.join(", "))
}

/// The vertex with this name.
fn vertex(fabric: &Fabric, name: &str) -> std::result::Result<u32, Diagnostic> {
    let parts = fabric.parts();
    let own = fabric.names().iter().position(|own| own == name);
    let known = own.map(|vertex| vertex as u32).or_else(|| parts.vertex(name));
    known.ok_or_else(|| {
        let error = bad("link", "no such NPU or switch", name, parts.names());
        let Some(last) = fabric.names().last() else { return error };
        error.allowed(format!("{} to {last}, or {}", fabric.names()[0], parts.names()))
    })
}

fn cables(fabric: &Fabric) -> Cables {
    let mut cables = Cables::new();
    for id in (0..fabric.links()).map(LinkId) {
        let link = fabric.link(id);
        cables.entry((link.from, link.to)).or_default().push(id);
    }
    cables
}
