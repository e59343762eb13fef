//! What a fabric costs, item by item, and how much power it takes.
//!
//! - [`list`]: price lists: data with a source and year;
//! - `inventory`: what a fabric consists of: cables, ports of hosts, switches; by arithmetic if it is
//!   regular;
//! - `parts`: which parts of a list make up a port or a cable of a given rate;
//! - [`bill`]: prices the inventory by the list.
//!
//! Two kinds of prices can be mixed in one list: per GB/s of a link's rate (hier2021 Table II), and for
//! discrete parts made for certain rates (topoopt2022 Table 3). What is counted:
//!
//! - A *cable* is a pair of links, one in each direction, between the same two vertices; its rate is that of
//!   one direction. It is a `link`, or transceivers at both ends and a `fibre` between them, whichever of
//!   these the list has.
//! - A *NIC* is needed where a host (an NPU, or a card that NPUs share) is joined to a switch. Where NPUs are
//!   joined directly, one is needed only if the list says so.
//! - A *switch* is paid for by radix times rate, as a box with enough ports, or port by port.
//! - Hosts joined without a switch may be joined over patch panels or optical circuit switches
//!   ([`list::Direct`]).
//!
//! A fabric with broken links costs as much as the intact one.

mod inventory;
pub mod list;
mod parts;

pub use list::{Component, PriceList};

use crate::Fabric;
use crate::parts::LinkKind;
use inventory::{Ends, Inventory, Port};
use list::{Components, Direct, MAX_PARALLEL, Price, Section};
use parts::{Piece, bits, box_for, cards_for, parallel, piece};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result, nearest};
use syncline_units::Rate;

/// One line of a bill.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Item {
    /// The component.
    pub component: Component,
    /// Which part of the fabric it is for: a dimension, a tier of links, or a level of switches.
    pub part: String,
    /// Which kind of it, and why that one.
    pub description: String,
    /// How many.
    pub quantity: u64,
    /// Price per piece.
    pub unit_usd: f64,
    /// Price of all.
    pub usd: f64,
    /// Power of all; `None` if the list does not give it.
    pub watts: Option<f64>,
}

/// What a fabric costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bill {
    /// Name of the price list.
    pub name: String,
    /// Where the prices come from.
    pub source: String,
    /// The year of the prices.
    pub year: u32,
    /// The lines of the bill, by component and then by part of the fabric.
    pub items: Vec<Item>,
    /// Price of everything.
    pub usd: f64,
    /// Power of everything whose power the list gives; `None` if it gives none.
    pub watts: Option<f64>,
    /// Number of NPUs in the fabric.
    pub npus: u64,
    /// What was decided or left out, one sentence each.
    pub notes: Vec<String>,
}

impl Bill {
    /// Returns the price divided by the number of NPUs.
    pub fn usd_per_npu(&self) -> f64 {
        self.usd / self.npus as f64
    }
}

/// Prices `fabric` by `prices`.
///
/// # Errors
/// Everything that is wrong with the list, and every component of the fabric for which it has no price. Keys
/// begin with `prices`.
pub fn bill(fabric: &Fabric, prices: &PriceList) -> Result<Bill> {
    prices.check().into_result()?;
    let inventory = Inventory::of(fabric);
    let mut made =
        Making { prices, lines: BTreeMap::new(), notes: BTreeSet::new(), errors: Diagnostics::new() };
    let used: BTreeSet<usize> = inventory.cables.iter().map(|cable| cable.tier).collect();
    let tiers = inventory.tiers.iter().enumerate();
    let components: Vec<Option<&Components>> =
        tiers.map(|(index, tier)| if used.contains(&index) { made.prices_of(tier) } else { None }).collect();
    made.unused(&inventory);
    made.cables(&inventory, &components);
    made.hosts(&inventory, &components);
    made.switches(&inventory, &components);
    if let Some(Price::Priced(spec)) = &prices.components.npu {
        let one = piece(spec, Rate(0));
        made.add(Component::Npu, (0, "all"), Rate(0), &one, u64::from(fabric.npus()));
    }
    made.finish(fabric)
}

/// A bill under construction.
struct Making<'a> {
    prices: &'a PriceList,
    /// By component, number of the part, rate, and description.
    lines: BTreeMap<(Component, usize, Rate, String), BillLine>,
    notes: BTreeSet<String>,
    errors: Diagnostics,
}

/// A line of the bill.
struct BillLine {
    part: String,
    quantity: u64,
    usd: f64,
    watts: Option<f64>,
}

impl<'a> Making<'a> {
    /// Returns the prices for the links of a tier: the first of those for the tier that its dimension names,
    /// for its own name, for its kind, and for all. Returns `None` if they are not paid for, which a note
    /// says, or if there are none.
    fn prices_of(&mut self, tier: &inventory::Tier) -> Option<&'a Components> {
        let PriceList { tiers, components, .. } = self.prices;
        let named = if tier.tier.is_empty() { None } else { tiers.get(&tier.tier) };
        let own = named.or_else(|| tiers.get(&tier.name)).or_else(|| tiers.get(tier.kind.name()));
        match own {
            Some(Section::Absent(_)) => {
                self.notes.insert(format!("this list does not charge for {} links", tier.name));
                return None;
            }
            Some(Section::Priced(own)) => return Some(own),
            None if !components.is_empty() => {
                if !tier.tier.is_empty() && !tiers.is_empty() {
                    let note = format!("the list has no tier {}: its `components` are used", tier.tier);
                    self.notes.insert(note);
                }
                return Some(components);
            }
            None => {}
        }
        let wanted = if tier.tier.is_empty() { &tier.name } else { &tier.tier };
        let message = format!("no prices for the links of {}: the list only has prices by tier", tier.name);
        let known = || tiers.keys().map(String::as_str);
        let mut error = Diagnostic::error(Code::NoPrice, message)
            .key(tier.key.clone().unwrap_or_else(|| "prices.tiers".to_owned()))
            .found(wanted.as_str())
            .allowed(known().collect::<Vec<_>>().join(", "))
            .help(
                "set the dimension's tier, such as `tier: inter_node`, or give the dimension the name of a tier; or add \
                 `components` for all tiers to the list",
            );
        error.nearest = nearest(wanted, known()).map(str::to_owned);
        self.errors.push(error);
        None
    }

    /// Notes which tiers written for this fabric match none of its links, and which names would.
    fn unused(&mut self, inventory: &Inventory) {
        let names = |tier: &inventory::Tier| {
            [tier.tier.clone(), tier.name.clone(), tier.kind.name().to_owned()]
                .into_iter()
                .filter(|name| !name.is_empty())
        };
        let mut fitting: Vec<String> = Vec::new();
        for name in inventory.tiers.iter().flat_map(names) {
            if !fitting.contains(&name) {
                fitting.push(name);
            }
        }
        for name in self.prices.own_tiers.iter().filter(|name| !fitting.contains(name)) {
            let near = nearest(name, fitting.iter().map(String::as_str));
            let near = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
            let known = fitting.join(", ");
            self.notes.insert(format!(
                "the list's tier {name} matches no links of this fabric, whose tiers are {known}{near}"
            ));
        }
    }

    /// Adds pieces to a line of the bill.
    fn add(&mut self, component: Component, part: (usize, &str), rate: Rate, piece: &Piece, quantity: u64) {
        let key = (component, part.0, rate, piece.description.clone());
        let line = self.lines.entry(key).or_insert_with(|| BillLine {
            part: part.1.to_owned(),
            quantity: 0,
            usd: piece.usd,
            watts: piece.watts,
        });
        line.quantity += quantity;
    }

    /// Reports that a component has no price, once per part of the fabric.
    fn missing(&mut self, wanted: &[Component], part: &str, what: &str) {
        let names: Vec<String> = wanted.iter().map(|each| format!("`{}`", each.name())).collect();
        let names = names.join(" or ");
        let error = Diagnostic::error(
            Code::NoPrice,
            format!("the list has no price for {names}, which {part} needs"),
        )
        .key("prices.components")
        .note(what)
        .help(format!("add {names} to the list, with a price, or with `none` to leave it out of the bill"));
        if !self.errors.0.contains(&error) {
            self.errors.push(error);
        }
    }

    /// Returns pieces of a component for a rate; `None` if the list has none of it, or says `none`.
    fn buy(
        &mut self,
        price: Option<&Price>,
        component: Component,
        part: (usize, &str),
        rate: Rate,
        quantity: u64,
    ) {
        if let Some(Price::Priced(spec)) = price
            && self.carries(spec, component, part.1, rate)
        {
            let one = piece(spec, rate);
            self.add(component, part, rate, &one, quantity * u64::from(one.parallel));
        }
    }

    /// Whether parts of a component in parallel can carry `rate`; reports an error if that takes too many.
    fn carries(&mut self, spec: &list::Spec, component: Component, part: &str, rate: Rate) -> bool {
        let needed = parallel(spec, rate);
        if needed <= MAX_PARALLEL {
            return true;
        }
        let error =
            Diagnostic::error(Code::NoPrice, format!("the parts of the list are too slow for {part}"))
                .key(format!("prices.components.{}.by_rate", component.name()))
                .found(format!("{needed} in parallel for {}", bits(rate)))
                .allowed(format!("at most {MAX_PARALLEL} in parallel"))
                .help("give the list an entry for a higher rate");
        if !self.errors.0.contains(&error) {
            self.errors.push(error);
        }
        false
    }

    fn cables(&mut self, inventory: &Inventory, components: &[Option<&Components>]) {
        for cable in &inventory.cables {
            let Some(prices) = components[cable.tier] else { continue };
            let tier = &inventory.tiers[cable.tier];
            let part = (cable.tier, tier.name.as_str());
            let (rate, count) = (cable.rate, cable.count);
            if prices.link.is_none() && prices.transceiver.is_none() && prices.fibre.is_none() {
                let what = format!("{count} cables of {rate}");
                self.missing(&[Component::Link, Component::Transceiver, Component::Fibre], &tier.name, &what);
            }
            let twice = match &prices.link {
                Some(Price::Priced(spec)) => spec.each_way && cable.ends == Ends::Hosts && cable.duplex,
                _ => false,
            };
            let links = if twice { 2 * count } else { count };
            self.buy(prices.link.as_ref(), Component::Link, part, rate, links);
            if tier.kind == LinkKind::Pcie {
                continue;
            }
            self.buy(prices.transceiver.as_ref(), Component::Transceiver, part, rate, 2 * count);
            // Parallel transceivers have a fibre each.
            let beside = match &prices.transceiver {
                Some(Price::Priced(spec)) => u64::from(piece(spec, rate).parallel),
                _ => 1,
            };
            let direct = if cable.ends == Ends::Hosts { self.prices.direct } else { Direct::Cable };
            let fibres = if direct == Direct::Cable { 1 } else { 2 };
            self.buy(prices.fibre.as_ref(), Component::Fibre, part, rate, fibres * beside * count);
            let panels: &[(Component, Option<&Price>, u64)] = &[
                (
                    Component::PatchPanelPort,
                    prices.patch_panel_port.as_ref(),
                    match direct {
                        Direct::PatchPanel => 2,
                        Direct::LookAhead => 4,
                        Direct::Cable | Direct::Ocs => 0,
                    },
                ),
                (
                    Component::OpticalSwitch,
                    prices.optical_switch.as_ref(),
                    if direct == Direct::LookAhead { 2 } else { 0 },
                ),
                (Component::OcsPort, prices.ocs_port.as_ref(), if direct == Direct::Ocs { 2 } else { 0 }),
            ];
            for &(component, price, each) in panels.iter().filter(|each| each.2 > 0) {
                if price.is_none() {
                    let what = format!("hosts are joined by `{}`", direct.name());
                    self.missing(&[component], &tier.name, &what);
                }
                self.buy(price, component, part, rate, each * beside * count);
            }
        }
    }

    fn hosts(&mut self, inventory: &Inventory, components: &[Option<&Components>]) {
        for (ports, count) in &inventory.hosts {
            for port in ports {
                let Some(prices) = components[port.tier] else { continue };
                let part = (port.tier, inventory.tiers[port.tier].name.as_str());
                match &prices.nic {
                    Some(Price::Priced(spec)) => {
                        if (port.to_host && !spec.wants_all())
                            || !self.carries(spec, Component::Nic, part.1, port.rate)
                        {
                            continue;
                        }
                        for (card, cards) in cards_for(spec, port.rate, port.count) {
                            self.add(Component::Nic, part, port.rate, &card, cards * count);
                        }
                    }
                    Some(Price::Absent(_)) => {}
                    None if port.to_host => {}
                    None => {
                        let what = format!("{} NPUs or cards are joined to a switch", count);
                        self.missing(&[Component::Nic], part.1, &what);
                    }
                }
            }
        }
    }

    fn switches(&mut self, inventory: &Inventory, components: &[Option<&Components>]) {
        // Levels come after tiers, so that switches of one level stay together.
        let first = inventory.tiers.len();
        for ((level, ports), count) in &inventory.switches {
            let name = inventory.levels[*level].as_str();
            let paid: Vec<(&Port, &Components)> =
                ports.iter().filter_map(|port| Some((port, components[port.tier]?))).collect();
            let part = (first + level, name);
            let mut whole: Vec<(&list::Spec, Rate, u32)> = Vec::new();
            for (port, prices) in &paid {
                if prices.switch.is_none() && prices.switch_port.is_none() {
                    let tier = &inventory.tiers[port.tier].name;
                    self.missing(
                        &[Component::Switch, Component::SwitchPort],
                        name,
                        &format!("{count} x {name}, for {tier}"),
                    );
                }
                let all = count * u64::from(port.count);
                self.buy(prices.switch_port.as_ref(), Component::SwitchPort, part, port.rate, all);
                if let Some(Price::Priced(spec)) = &prices.switch
                    && spec.by_rate.is_none()
                {
                    match whole.iter_mut().find(|each| each.0 == &**spec && each.1 == port.rate) {
                        Some(alike) => alike.2 += port.count,
                        None => whole.push((spec, port.rate, port.count)),
                    }
                }
            }
            for (spec, rate, ports) in whole {
                self.whole(spec, (rate, ports), part, *count);
            }
            self.boxed(&paid, part, *count);
        }
    }

    /// Adds switches with these ports, priced by radix times rate, or at one price for any switch.
    fn whole(&mut self, spec: &list::Spec, (rate, ports): (Rate, u32), part: (usize, &str), count: u64) {
        let one = piece(spec, rate);
        let times = if spec.usd_per_gbps.is_some() { f64::from(ports) } else { 1.0 };
        let one = Piece {
            usd: one.usd * times,
            watts: one.watts.map(|watts| watts * times),
            description: format!("radix {ports}, {}", one.description),
            ..one
        };
        self.add(Component::Switch, part, rate, &one, count);
    }

    /// Adds switches that are bought as boxes with all their ports.
    fn boxed(&mut self, paid: &[(&Port, &Components)], part: (usize, &str), count: u64) {
        let mut wanted: Vec<(Rate, u32)> = Vec::new();
        let mut boxes = None;
        for (port, prices) in paid {
            if let Some(Price::Priced(spec)) = &prices.switch
                && spec.by_rate.is_some()
                && self.carries(spec, Component::Switch, part.1, port.rate)
            {
                wanted.push((port.rate, port.count));
                // With several tiers, the one with the fastest ports decides which list applies.
                boxes = match boxes {
                    Some((rate, known)) if rate >= port.rate => Some((rate, known)),
                    _ => Some((port.rate, spec)),
                };
            }
        }
        let Some((rate, spec)) = boxes else { return };
        match box_for(spec, &wanted) {
            Ok(found) => self.add(Component::Switch, part, rate, &found, count),
            Err(error) => {
                let error = error.key("prices.components.switch").note(format!("{count} x {}", part.1));
                if !self.errors.0.contains(&error) {
                    self.errors.push(error);
                }
            }
        }
    }

    fn finish(self, fabric: &Fabric) -> Result<Bill> {
        let Self { prices, lines, notes, errors, .. } = self;
        errors.into_result()?;
        let items: Vec<Item> = lines
            .into_iter()
            .map(|((component, _, _, description), line)| Item {
                component,
                part: line.part,
                description,
                quantity: line.quantity,
                unit_usd: line.usd,
                usd: line.usd * line.quantity as f64,
                watts: line.watts.map(|watts| watts * line.quantity as f64),
            })
            .collect();
        let mut notes: Vec<String> = notes.into_iter().collect();
        let powered = items.iter().filter(|item| item.watts.is_some()).count();
        if powered > 0 && powered < items.len() {
            let unknown: BTreeSet<&str> =
                items.iter().filter(|item| item.watts.is_none()).map(|item| item.component.name()).collect();
            let unknown: Vec<&str> = unknown.into_iter().collect();
            notes.push(format!("the list gives no power for: {}", unknown.join(", ")));
        }
        Ok(Bill {
            name: prices.name.clone(),
            source: prices.source.clone(),
            year: prices.year,
            usd: items.iter().map(|item| item.usd).sum(),
            watts: (powered > 0).then(|| items.iter().filter_map(|item| item.watts).sum()),
            items,
            npus: u64::from(fabric.npus()),
            notes,
        })
    }
}

#[cfg(test)]
mod tests;
