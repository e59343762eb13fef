//! Weights that leave messages without a rate, told with what fits.

use super::Flows;
use crate::settings::name;
use crate::sharing::UNIT;
use syncline_diagnostics::{Code, Diagnostic};

impl Flows<'_> {
    /// What is wrong where connections on a link have no rate, as none will ever end there.
    pub(super) fn starved(&self) -> Option<Diagnostic> {
        let (port, connection, weights) = self.sharing.starved()?;
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
            format!("; with several `paths` the model counts rates by 1/{} of that", self.sharing.whole())
        } else {
            String::new()
        };
        let help = match (weighed.is_some(), paths) {
            (true, _) => "give smaller weights with the same ratios, or the link a higher rate",
            (false, true) => "give the link a higher rate, or take one path",
            (false, false) => "give the link a higher rate: too many connections share it",
        };
        Some(
            Diagnostic::error(
                Code::BadValue,
                format!(
                    "connections have no rate on a link of {rate}: the sum of their weights is too large"
                ),
            )
            .key(format!("network.{key}"))
            .found(format!("weight {weight}; connections at {ends} have weights of {weights} together"))
            .allowed(format!("weights of {most} together on {rate}"))
            .note(format!(
                "shares of a link are whole multiples of 1/{} b/s for each unit of weight{more}",
                1 << UNIT
            ))
            .help(help),
        )
    }
}
