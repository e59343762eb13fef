//! Which parts of a list make up a port or a cable of a given rate.
//!
//! Of parts made for certain rates, the next higher rate is used; above the highest, as many of the fastest
//! part in parallel as carry the rate. Ports of a host go on the cards that are cheapest per port, the rest
//! on the cheapest card that has enough ports. A switch is the cheapest box with enough ports that are fast
//! enough.

use super::list::{Offer, Spec};
use std::cmp::Ordering;
use std::fmt::Write as _;
use syncline_diagnostics::{Code, Diagnostic};
use syncline_units::Rate;

/// A part that is bought.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    /// Which offer it is, and why that one.
    pub(super) description: String,
    pub(super) usd: f64,
    pub(super) watts: Option<f64>,
    /// How many of them are needed in parallel.
    pub(super) parallel: u32,
}

/// Formats a rate as sellers of parts do.
pub(super) fn bits(rate: Rate) -> String {
    format!("{} Gb/s", number(rate.0 as f64 / 1e9))
}

/// Formats a number without trailing zeros, with a comma between groups of three digits.
fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    match part.trim_end_matches('0') {
        "" => grouped,
        part => format!("{grouped}.{part}"),
    }
}

/// Returns a rate in GB/s, as prices use it.
fn gbps(rate: Rate) -> f64 {
    rate.0 as f64 / 8e9
}

/// Returns the part that carries `rate`.
pub(super) fn piece(spec: &Spec, rate: Rate) -> Piece {
    if let Some(each) = spec.usd_per_gbps {
        let watts = spec.watts_per_gbps.map(|watts| watts * gbps(rate)).or(spec.watts);
        let description = format!("{} GB/s at ${} a GB/s", number(gbps(rate)), number(each));
        return Piece { description, usd: each * gbps(rate), watts, parallel: 1 };
    }
    let watts = spec.watts.or_else(|| spec.watts_per_gbps.map(|watts| watts * gbps(rate)));
    if let (Some(each), Some(length)) = (spec.usd_per_m, spec.length_m) {
        let description = format!("{} m at ${} a metre", number(length), number(each));
        return Piece { description, usd: each * length, watts, parallel: 1 };
    }
    if let Some(offers) = &spec.by_rate {
        let (class, parallel) = class(offers, rate);
        // At equal rate, the cheapest per port.
        let mut alike = offers.iter().filter(|offer| offer.rate == class);
        let Some(first) = alike.next() else { return nothing() };
        let offer = alike.fold(first, |best, offer| if by_port(offer, best).is_lt() { offer } else { best });
        let share = f64::from(offer.ports);
        let mut description = named(class, parallel, rate);
        if offer.ports > 1 {
            let _ = write!(description, ", 1/{} of ${}", offer.ports, number(offer.usd));
        }
        let watts = offer.watts.map(|watts| watts / share).or(watts);
        return Piece { description, usd: offer.usd / share, watts, parallel };
    }
    Piece { description: "any rate".to_owned(), usd: spec.usd.unwrap_or(0.0), watts, parallel: 1 }
}

fn nothing() -> Piece {
    Piece { description: String::new(), usd: 0.0, watts: None, parallel: 1 }
}

/// Returns the rate of the parts that carry `rate`, and how many are needed in parallel.
fn class(offers: &[Offer], rate: Rate) -> (Rate, u32) {
    let next = offers.iter().map(|offer| offer.rate).filter(|&class| class >= rate).min();
    let largest = offers.iter().map(|offer| offer.rate).max().unwrap_or(Rate(1));
    match next {
        Some(class) => (class, 1),
        None => (largest, u32::try_from(rate.0.div_ceil(largest.0)).unwrap_or(u32::MAX)),
    }
}

/// Returns how many parts carry `rate` in parallel; 1 if they are not made for certain rates.
pub(super) fn parallel(spec: &Spec, rate: Rate) -> u32 {
    spec.by_rate.as_deref().map_or(1, |offers| class(offers, rate).1)
}

/// Names a part, and says why it was chosen if that is not obvious.
fn named(class: Rate, parallel: u32, rate: Rate) -> String {
    match (parallel, class == rate) {
        (1, true) => bits(class),
        (1, false) => format!("{}, next above {}", bits(class), bits(rate)),
        _ => format!("{}, {parallel} in parallel for {}", bits(class), bits(rate)),
    }
}

/// Orders by price per port, then by fewer ports.
fn by_port(a: &Offer, b: &Offer) -> Ordering {
    let each = |offer: &Offer| offer.usd / f64::from(offer.ports);
    each(a).total_cmp(&each(b)).then(a.ports.cmp(&b.ports))
}

/// Chooses cards for `ports` ports of one host, one offer after the other.
pub(super) fn cards_for(spec: &Spec, rate: Rate, ports: u32) -> Vec<(Piece, u64)> {
    let Some(offers) = &spec.by_rate else { return vec![(piece(spec, rate), u64::from(ports))] };
    let (class, parallel) = class(offers, rate);
    let mut offered: Vec<&Offer> = offers.iter().filter(|offer| offer.rate == class).collect();
    offered.sort_by(|a, b| by_port(a, b));
    let mut left = u64::from(ports) * u64::from(parallel);
    let mut bought: Vec<(Piece, u64)> = Vec::new();
    let mut buy = |offer: &Offer, cards: u64| {
        let mut description = named(class, parallel, rate);
        if offer.ports > 1 {
            let _ = write!(description, ", {} ports", offer.ports);
        }
        bought.push((Piece { description, usd: offer.usd, watts: offer.watts, parallel: 1 }, cards));
    };
    while left > 0 {
        // Use cards that would be filled, cheapest per port first, unless one card that is not filled costs
        // less for all.
        let filled = offered.iter().find(|offer| u64::from(offer.ports) <= left);
        let whole = offered
            .iter()
            .filter(|offer| u64::from(offer.ports) >= left)
            .min_by(|a, b| a.usd.total_cmp(&b.usd));
        match (filled, whole) {
            (Some(offer), Some(one))
                if one.usd <= offer.usd * left.div_ceil(u64::from(offer.ports)) as f64 =>
            {
                buy(one, 1);
                left = 0;
            }
            (Some(offer), _) => {
                let cards = left / u64::from(offer.ports);
                buy(offer, cards);
                left -= cards * u64::from(offer.ports);
            }
            (None, Some(one)) => {
                buy(one, 1);
                left = 0;
            }
            (None, None) => left = 0,
        }
    }
    bought
}

/// Chooses the box with these numbers of ports of these rates.
pub(super) fn box_for(spec: &Spec, wanted: &[(Rate, u32)]) -> Result<Piece, Diagnostic> {
    let offers = spec.by_rate.as_deref().unwrap_or_default();
    let fastest = wanted.iter().map(|each| each.0).max().unwrap_or(Rate(0));
    let (least, _) = class(offers, fastest);
    let ports: u64 =
        wanted.iter().map(|&(rate, count)| u64::from(count) * u64::from(class(offers, rate).1)).sum();
    let fits = offers.iter().filter(|offer| offer.rate >= least && u64::from(offer.ports) >= ports);
    let found =
        fits.min_by(|a, b| a.usd.total_cmp(&b.usd).then(a.rate.cmp(&b.rate)).then(a.ports.cmp(&b.ports)));
    let rates: Vec<String> =
        wanted.iter().map(|(rate, count)| format!("{count} x {}", bits(*rate))).collect();
    let rates = rates.join(" + ");
    match found {
        Some(offer) => Ok(Piece {
            description: format!("{} ports of {} for {rates}", offer.ports, bits(offer.rate)),
            usd: offer.usd,
            watts: offer.watts,
            parallel: 1,
        }),
        None => {
            let largest =
                offers.iter().filter(|offer| offer.rate >= least).map(|offer| offer.ports).max().unwrap_or(0);
            Err(Diagnostic::error(Code::NoPrice, "no switch of the list has enough ports")
                .found(format!("{ports} ports of {} ({rates})", bits(least)))
                .allowed(format!("at most {largest} ports of {}", bits(least)))
                .help(
                    "build the fabric from switches that the list has, such as a `leaf_spine` or `fat_tree`, or give \
                     the list a price per port: `switch_port`",
                ))
        }
    }
}
