//! Algorithms that a scenario names for single collectives: `algorithms_of`.
//!
//! An entry is for the collectives of one group, kind and size. It lists the phases in order, such as `ring
//! reduce_scatter`; the kinds of the phases determine the composition. An entry takes precedence over all other
//! settings.

use super::Collective;
use super::chosen::ChosenPhase;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_plan::{Algorithm, Composition, Grid, registry};
use syncline_scenario::Collectives;
use syncline_units::{Bytes, CollectiveKind};

/// A phase of an entry.
struct Part {
    kind: CollectiveKind,
    algorithm: Arc<dyn Algorithm>,
}

struct Entry {
    /// Its key, below `collectives`.
    key: String,
    parts: Vec<Part>,
}

/// The entries of `algorithms_of`, by kind and size and then by group.
pub(super) struct Single(BTreeMap<(CollectiveKind, Bytes), BTreeMap<String, Entry>>);

impl Single {
    /// # Errors
    /// Phases that do not name an algorithm and a collective of the library; two entries for the same collectives.
    pub(super) fn new(spec: &Collectives) -> Result<Self> {
        let mut errors = Diagnostics::new();
        let mut entries: BTreeMap<_, BTreeMap<String, Entry>> = BTreeMap::new();
        for (index, given) in spec.algorithms_of.iter().enumerate() {
            let key = format!("algorithms_of.{index}");
            let mut parts = Vec::new();
            for (at, phase) in given.phases.iter().enumerate() {
                match part(phase) {
                    Ok(part) => parts.push(part),
                    Err(found) => {
                        let key = format!("collectives.{key}.phases.{at}");
                        errors.0.extend(found.0.into_iter().map(|error| error.key(key.clone())));
                    }
                }
            }
            let of_size = entries.entry((given.collective, given.bytes)).or_default();
            if of_size.insert(given.group.clone(), Entry { key: key.clone(), parts }).is_some() {
                errors.push(
                    Diagnostic::error(
                        Code::BadValue,
                        "two entries are for the same group, collective and size",
                    )
                    .key(format!("collectives.{key}"))
                    .help("remove one of them"),
                );
            }
        }
        errors.into_result()?;
        Ok(Self(entries))
    }

    /// The key of each entry.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.values().flat_map(BTreeMap::values).map(|entry| entry.key.as_str())
    }

    /// Whether there is an entry for a collective.
    pub(super) fn names(&self, of: &Collective<'_>) -> bool {
        self.entry(of).is_some()
    }

    /// The phases of a collective according to its entry, if it has one, and the entry's key.
    ///
    /// # Errors
    /// No composition of the collective has these phases.
    pub(super) fn phases(
        &self,
        of: &Collective<'_>,
        grid: &Grid,
    ) -> Result<Option<(&str, Vec<ChosenPhase>)>> {
        let Some(Entry { key, parts }) = self.entry(of) else { return Ok(None) };
        let compositions = Composition::ALL.map(|composition| composition.phases(of.kind, grid));
        let kinds = parts.iter().map(|part| part.kind);
        let fits =
            |phases: &&Vec<syncline_plan::Phase>| phases.iter().map(|phase| phase.kind).eq(kinds.clone());
        let Some(phases) = compositions.iter().find(fits) else {
            let mut allowed: Vec<String> = compositions
                .iter()
                .map(|phases| phases.iter().map(|phase| phase.kind.name()).collect::<Vec<_>>().join(", "))
                .collect();
            allowed.sort();
            allowed.dedup();
            return Err(Diagnostic::error(
                Code::BadValue,
                format!("no composition of this {} has these phases", of.kind),
            )
            .key(format!("collectives.{key}.phases"))
            .found(kinds.map(CollectiveKind::name).collect::<Vec<_>>().join(", "))
            .allowed(allowed.join("; or "))
            .into());
        };
        let chosen = phases.iter().zip(parts).map(|(&phase, part)| ChosenPhase {
            phase,
            algorithm: Arc::clone(&part.algorithm),
            is_chosen: false,
        });
        Ok(Some((key, chosen.collect())))
    }

    fn entry(&self, of: &Collective<'_>) -> Option<&Entry> {
        self.0.get(&(of.kind, of.bytes))?.get(&of.role.name)
    }
}

/// Reads a phase such as `ring reduce_scatter`.
fn part(text: &str) -> Result<Part> {
    let Some((name, kind)) = text.trim().rsplit_once(' ') else {
        return Err(Diagnostic::error(Code::BadValue, "a phase needs an algorithm and a collective")
            .found(text)
            .help("write it as in `ring reduce_scatter`")
            .into());
    };
    let algorithm = registry::by_name(name)?;
    let kind = CollectiveKind::from_str(kind).map_err(|_| {
        let names = CollectiveKind::ALL.iter().map(|kind| kind.name());
        Diagnostics::from(
            Diagnostic::error(Code::BadValue, "there is no such collective").one_of(kind, names),
        )
    })?;
    Ok(Part { kind, algorithm })
}
