//! Price lists: data with its source and year.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};
use syncline_units::Rate;

/// Highest price or power of one piece; sums stay finite.
pub const MOST: f64 = 1e12;
/// Most ports of a switch or card.
pub const MAX_PORTS: u32 = 1 << 20;

/// Most parts that carry one link in parallel.
pub const MAX_PARALLEL: u32 = 1 << 10;

/// A component that is bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    /// An NPU, or the machine that it represents.
    Npu,
    /// A network card.
    Nic,
    /// A switch.
    Switch,
    /// A port of a switch.
    SwitchPort,
    /// A cable with everything at its ends, or a share of that.
    Link,
    /// Converts a port's signals to light; one at each end of a cable.
    Transceiver,
    /// A fibre between two transceivers.
    Fibre,
    /// A port of a patch panel, which joins fibres and takes minutes to change.
    PatchPanelPort,
    /// A port of an optical circuit switch, which joins fibres and takes milliseconds to change.
    OcsPort,
    /// A switch that connects one fibre to either of two (1x2).
    OpticalSwitch,
}

impl Component {
    /// All components, in the order in which bills list them.
    pub const ALL: [Self; 10] = [
        Self::Npu,
        Self::Nic,
        Self::Switch,
        Self::SwitchPort,
        Self::Link,
        Self::Transceiver,
        Self::Fibre,
        Self::PatchPanelPort,
        Self::OcsPort,
        Self::OpticalSwitch,
    ];

    /// Returns its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Npu => "npu",
            Self::Nic => "nic",
            Self::Switch => "switch",
            Self::SwitchPort => "switch_port",
            Self::Link => "link",
            Self::Transceiver => "transceiver",
            Self::Fibre => "fibre",
            Self::PatchPanelPort => "patch_panel_port",
            Self::OcsPort => "ocs_port",
            Self::OpticalSwitch => "optical_switch",
        }
    }
}

/// How hosts are joined if there is no switch between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direct {
    /// By a cable from one to the other.
    #[default]
    Cable,
    /// Each end by a fibre to a patch panel: one port per end.
    PatchPanel,
    /// Each end by a fibre to a 1x2 switch that chooses between two patch panels, one of which is prepared
    /// for the next job: two ports and a 1x2 switch per end (topoopt2022 section 4, Fig. 10).
    LookAhead,
    /// Each end by a fibre to an optical circuit switch: one port per end.
    Ocs,
}

impl Direct {
    /// Returns its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cable => "cable",
            Self::PatchPanel => "patch_panel",
            Self::LookAhead => "look_ahead",
            Self::Ocs => "ocs",
        }
    }
}

/// The currency of prices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Currency {
    /// US dollars.
    #[default]
    Usd,
}

/// Marks something as not paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Absent {
    /// Not paid for.
    None,
}

/// A price list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceList {
    /// Name of the list.
    pub name: String,
    /// Where its prices come from.
    pub source: String,
    /// The year of its prices.
    pub year: u32,
    /// The currency of its prices.
    #[serde(default)]
    pub currency: Currency,
    /// How hosts are joined if there is no switch between them.
    #[serde(default)]
    pub direct: Direct,
    /// Prices for all links and what they join.
    #[serde(default)]
    pub components: Components,
    /// Prices of particular tiers that replace `components`. The name of a tier is the `tier` of a dimension,
    /// the name of a dimension or of a tier of links, or a kind of links such as `scale_up` and `pcie`.
    #[serde(default)]
    pub tiers: BTreeMap<String, Section>,
    /// The tiers that were written for this fabric: if one matches no links, the bill says so. A shared list
    /// may have tiers for other fabrics.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub own_tiers: BTreeSet<String>,
}

/// Prices of a tier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Section {
    /// Its links, and the ports at their ends, are not paid for.
    Absent(Absent),
    /// These prices apply, and no others.
    Priced(Components),
}

/// Prices by component.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Components {
    /// An NPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub npu: Option<Price>,
    /// A network card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nic: Option<Price>,
    /// A switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch: Option<Price>,
    /// A port of a switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch_port: Option<Price>,
    /// A cable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<Price>,
    /// A transceiver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transceiver: Option<Price>,
    /// A fibre.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fibre: Option<Price>,
    /// A port of a patch panel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch_panel_port: Option<Price>,
    /// A port of an optical circuit switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ocs_port: Option<Price>,
    /// A 1x2 switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optical_switch: Option<Price>,
}

impl Components {
    /// Returns the price of a component.
    pub fn get(&self, component: Component) -> Option<&Price> {
        match component {
            Component::Npu => &self.npu,
            Component::Nic => &self.nic,
            Component::Switch => &self.switch,
            Component::SwitchPort => &self.switch_port,
            Component::Link => &self.link,
            Component::Transceiver => &self.transceiver,
            Component::Fibre => &self.fibre,
            Component::PatchPanelPort => &self.patch_panel_port,
            Component::OcsPort => &self.ocs_port,
            Component::OpticalSwitch => &self.optical_switch,
        }
        .as_ref()
    }

    /// Whether it has no price for any part of a link.
    pub fn is_empty(&self) -> bool {
        Component::ALL.iter().all(|&each| each == Component::Npu || self.get(each).is_none())
    }
}

/// The price of a component.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Price {
    /// Nothing: it is not needed, or not paid for.
    Absent(Absent),
    /// A price.
    Priced(Box<Spec>),
}

/// The price of a component. Set exactly one of `usd`, `usd_per_GBps`, `usd_per_m` and `by_rate`.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Spec {
    /// Price per piece, whatever its rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Price per GB/s of its rate; for a switch, per GB/s of each port.
    #[serde(rename = "usd_per_GBps", skip_serializing_if = "Option::is_none")]
    pub usd_per_gbps: Option<f64>,
    /// Price per metre. Only for a fibre.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd_per_m: Option<f64>,
    /// Mean length. Only for a fibre.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length_m: Option<f64>,
    /// Prices of the kinds on sale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_rate: Option<Vec<Offer>>,
    /// Power per piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watts: Option<f64>,
    /// Power per GB/s of its rate, like `usd_per_GBps`.
    #[serde(rename = "watts_per_GBps", skip_serializing_if = "Option::is_none")]
    pub watts_per_gbps: Option<f64>,
    /// Whether a cable between two hosts is paid for once per direction. Only for a link.
    #[serde(skip_serializing_if = "is_false")]
    pub each_way: bool,
    /// Where NICs are needed. Only for a NIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<At>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// Where NICs are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum At {
    /// Where a host is joined to a switch.
    Switches,
    /// At every port of a host.
    Everything,
}

/// A kind of a component on sale.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// Its rate; the rate per port of a switch or card with several ports.
    pub rate: Rate,
    /// Its price.
    pub usd: f64,
    /// Its ports, for a switch and a NIC, which are bought whole; for a switch port, how many the price
    /// covers.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub ports: u32,
    /// Its power.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watts: Option<f64>,
}

const fn one() -> u32 {
    1
}
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_one(number: &u32) -> bool {
    *number == 1
}

impl Spec {
    /// Whether a NIC is needed at every port of a host.
    pub(crate) fn wants_all(&self) -> bool {
        self.at == Some(At::Everything)
    }
}

impl PriceList {
    /// Reports everything that is wrong with the list itself.
    pub fn check(&self) -> Diagnostics {
        let mut errors = Diagnostics::new();
        if !(1900..=2200).contains(&self.year) {
            errors.push(
                bad("prices.year", "year out of range").found(self.year.to_string()).allowed("1900 to 2200"),
            );
        }
        for (key, text) in [("name", &self.name), ("source", &self.source)] {
            if text.trim().is_empty() {
                errors.push(
                    bad(&format!("prices.{key}"), format!("a price list needs a {key}"))
                        .help("give the source of the prices, so that others can look them up"),
                );
            }
        }
        check_all(&self.components, "prices.components", &mut errors);
        for (name, section) in &self.tiers {
            if let Section::Priced(components) = section {
                let key = format!("prices.tiers.{name}");
                if components.npu.is_some() {
                    errors.push(
                        bad(&format!("{key}.npu"), "NPUs belong to no tier of links")
                            .help("give their price in `components`"),
                    );
                }
                if components.is_empty() {
                    errors.push(
                        bad(&key, "a tier without prices")
                            .help("give it prices, or `none` to leave it out of the bill"),
                    );
                }
                check_all(components, &key, &mut errors);
            }
        }
        if self.components.is_empty() && self.tiers.is_empty() {
            errors.push(
                Diagnostic::error(Code::MissingKey, "the list has no price for any part of a link")
                    .key("prices.components")
                    .help("give `components` with prices, such as `link: {usd_per_GBps: 2}`"),
            );
        }
        errors
    }
}

fn bad(key: &str, message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(Code::BadValue, message).key(key)
}

fn check_all(components: &Components, key: &str, errors: &mut Diagnostics) {
    for component in Component::ALL {
        if let Some(Price::Priced(spec)) = components.get(component) {
            check(spec, component, &format!("{key}.{}", component.name()), errors);
        }
    }
}

/// Reports what is wrong with the price of a component.
fn check(spec: &Spec, component: Component, key: &str, errors: &mut Diagnostics) {
    let forms = [
        ("usd", spec.usd.is_some()),
        ("usd_per_GBps", spec.usd_per_gbps.is_some()),
        ("usd_per_m", spec.usd_per_m.is_some()),
        ("by_rate", spec.by_rate.is_some()),
    ];
    let given: Vec<&str> = forms.iter().filter(|form| form.1).map(|form| form.0).collect();
    match given.as_slice() {
        [] => errors.push(
            Diagnostic::error(Code::MissingKey, "a component without a price")
                .key(key)
                .help("give one of `usd`, `usd_per_GBps`, `by_rate`, or for a fibre `usd_per_m`"),
        ),
        [_] => {}
        several => errors.push(
            bad(key, "a component needs exactly one price")
                .found(several.join(", "))
                .help("leave all but one of them out"),
        ),
    }
    for (name, value) in [
        ("usd", spec.usd),
        ("usd_per_GBps", spec.usd_per_gbps),
        ("usd_per_m", spec.usd_per_m),
        ("length_m", spec.length_m),
        ("watts", spec.watts),
        ("watts_per_GBps", spec.watts_per_gbps),
    ] {
        if let Some(value) = value {
            amount(value, &format!("{key}.{name}"), errors);
        }
    }
    for (name, given, only) in [
        ("usd_per_m", spec.usd_per_m.is_some(), Component::Fibre),
        ("length_m", spec.length_m.is_some(), Component::Fibre),
        ("each_way", spec.each_way, Component::Link),
        ("at", spec.at.is_some(), Component::Nic),
    ] {
        if given && component != only {
            errors.push(
                bad(&format!("{key}.{name}"), format!("`{name}` is only for a {}", only.name()))
                    .found(component.name())
                    .help("leave it out"),
            );
        }
    }
    if spec.usd_per_m.is_some() != spec.length_m.is_some() {
        errors.push(
            Diagnostic::error(Code::MissingKey, "`usd_per_m` and `length_m` must be given together")
                .key(key)
                .help("give both `usd_per_m` and `length_m`, the mean length of a fibre"),
        );
    }
    if component == Component::Npu && spec.usd.is_none() {
        errors.push(bad(key, "an NPU is priced per unit").help("give `usd`, the price of one"));
    }
    if spec.by_rate.is_some() && spec.watts.is_some() {
        errors.push(
            bad(&format!("{key}.watts"), "with `by_rate`, each kind has its own power")
                .help("give each entry of `by_rate` its `watts`"),
        );
    }
    if let Some(offers) = &spec.by_rate {
        check_offers(offers, component, &format!("{key}.by_rate"), errors);
    }
}

fn check_offers(offers: &[Offer], component: Component, key: &str, errors: &mut Diagnostics) {
    if offers.is_empty() {
        errors.push(
            bad(key, "`by_rate` has no entries").help("give entries such as `{rate: 100Gb/s, usd: 660}`"),
        );
    }
    let mut known = BTreeSet::new();
    for (index, offer) in offers.iter().enumerate() {
        let key = format!("{key}.{index}");
        amount(offer.usd, &format!("{key}.usd"), errors);
        if let Some(watts) = offer.watts {
            amount(watts, &format!("{key}.watts"), errors);
        }
        if offer.rate.is_zero() {
            errors
                .push(bad(&format!("{key}.rate"), "a rate must be above zero").found(offer.rate.to_string()));
        }
        let several = matches!(component, Component::Nic | Component::Switch | Component::SwitchPort);
        if offer.ports == 0 || offer.ports > MAX_PORTS || (offer.ports > 1 && !several) {
            let allowed = if several { format!("1 to {MAX_PORTS}") } else { "1".to_owned() };
            errors.push(
                bad(
                    &format!("{key}.ports"),
                    format!("number of ports of a {} out of range", component.name()),
                )
                .found(offer.ports.to_string())
                .allowed(allowed),
            );
        }
        if !known.insert((offer.rate, offer.ports)) {
            errors.push(
                bad(&key, "two entries for the same rate and number of ports").help("leave one of them out"),
            );
        }
    }
}

/// Rejects values that cannot be a price, length or power.
fn amount(value: f64, key: &str, errors: &mut Diagnostics) {
    if value > 0.0 && value <= MOST {
        return;
    }
    let message = if value < 0.0 {
        "it is below zero"
    } else if value == 0.0 {
        "it is zero"
    } else {
        "it is too large"
    };
    errors.push(
        bad(key, message)
            .found(value.to_string())
            .allowed(format!("above 0, at most {MOST:e}"))
            .help("to leave a component out of the bill, write `none` in place of its price"),
    );
}
