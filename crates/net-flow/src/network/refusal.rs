//! The error for weights that leave messages without a rate, with the largest weights that work.

use super::Flows;
use crate::settings::name;
use crate::sharing::{Starved, UNIT};
use syncline_diagnostics::{Code, Diagnostic};

impl Flows<'_> {
    /// Reports connections on a link that have no rate, whose messages would never end.
    pub(super) fn starved(&self) -> Option<Diagnostic> {
        let Starved { link: port, connection, weights } = self.sharing.starved()?;
        let link = self.connections.links()[port as usize];
        let fabric = self.connections.fabric();
        let (built, rate) = (fabric.link(link), fabric.speed(link).0);
        let weight = self.connections.get(connection).ends.weight;
        let weighed = self.settings.weights.iter().find(|&(_, &each)| each == weight);
        let paths = self.settings.paths > 1;
        let key = match weighed {
            Some((&traffic, _)) => format!("weights.{}", name(traffic)),
            None if paths => "paths".to_owned(),
            None => "model".to_owned(),
        };
        let ends = [built.from, built.to].map(|vertex| fabric.vertex_name(vertex)).join(" -> ");
        let most = self.sharing.most(rate);
        let more = if paths {
            format!("; with several `paths` rates are multiples of 1/{} of that", self.sharing.whole())
        } else {
            String::new()
        };
        let help = match (weighed.is_some(), paths) {
            (true, _) => "use smaller weights with the same ratios, or a faster link",
            (false, true) => "use a faster link, or a single path",
            (false, false) => "use a faster link: too many connections share this one",
        };
        Some(
            Diagnostic::error(
                Code::BadValue,
                format!("connections on a link of {rate} get no rate: the sum of their weights is too large"),
            )
            .key(format!("network.{key}"))
            .found(format!("weight {weight}; the weights of connections at {ends} sum to {weights}"))
            .allowed(format!("weights that sum to at most {most} on {rate}"))
            .note(format!(
                "shares of a link are whole multiples of 1/{} b/s for each unit of weight{more}",
                1 << UNIT
            ))
            .help(help),
        )
    }
}
