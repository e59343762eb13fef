//! Algorithms by name: `ring`, `direct(window=3)`, `parameter_server(placement=NCS, hubs=2)`.
//!
//! A name is a word, or a word and parameters `key=value` in parentheses. [`ENTRIES`] lists the words with their
//! parameters; [`by_name`] reads a name; [`for_dimension`] is hier2021 Table I, by kind of dimension.

use crate::algorithm::{
    BCube, Direct, DoubleBinaryTree, HalvingDoubling, MultiRing, ParameterServer, Placement, Ring, Shape,
    Tree, TwoLevel,
};
use crate::program::Algorithm;
use std::num::NonZeroU32;
use std::sync::Arc;
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_units::{CollectiveKind, DimKind};

/// An algorithm of the library.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The name without parameters.
    pub name: &'static str,
    /// A description in one phrase.
    pub summary: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// Names of this algorithm, for documentation; tests prove each of them.
    pub examples: &'static [&'static str],
    build: fn(&Arguments<'_>) -> Result<Arc<dyn Algorithm>>,
}

/// A parameter of an algorithm.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The key.
    pub name: &'static str,
    /// The allowed values, and the default.
    pub values: &'static str,
    /// The meaning.
    pub meaning: &'static str,
}

/// Every algorithm, in the order in which the documentation lists them.
pub const ENTRIES: &[Entry] = &[
    Entry {
        name: "ring",
        summary: "each rank exchanges with its two neighbours",
        parameters: &[],
        examples: &["ring"],
        build: |_| Ok(Arc::new(Ring)),
    },
    Entry {
        name: "multi_ring",
        summary: "several rings at once, each through the ranks in another order",
        parameters: &[Parameter {
            name: "strides",
            values: "whole numbers joined by `+`, each coprime with the number of ranks; default: 1",
            meaning: "for each ring, how far apart neighbours are",
        }],
        examples: &["multi_ring(strides=1)", "multi_ring(strides=1+5+7)", "multi_ring(strides=1+1+3)"],
        build: multi_ring,
    },
    Entry {
        name: "direct",
        summary: "each rank exchanges with all others at once",
        parameters: &[Parameter {
            name: "window",
            values: "a whole number from 1; default: all peers",
            meaning: "number of peers that a rank exchanges messages with at a time",
        }],
        examples: &["direct", "direct(window=1)", "direct(window=3)"],
        build: |arguments| Ok(Arc::new(Direct::new(arguments.count("window")?))),
    },
    Entry {
        name: "halving_doubling",
        summary: "data halves and distance doubles from step to step; any number of ranks",
        parameters: &[],
        examples: &["halving_doubling"],
        build: |_| Ok(Arc::new(HalvingDoubling)),
    },
    Entry {
        name: "double_binary_tree",
        summary: "two complementary binary trees, one for each half of the vector",
        parameters: &[Parameter {
            name: "strides",
            values: "whole numbers joined by `+`, each coprime with the number of ranks; default: 1",
            meaning: "for each pair of trees, what the ranks' labels are multiplied by",
        }],
        examples: &["double_binary_tree", "double_binary_tree(strides=1+3)"],
        build: double_binary_tree,
    },
    Entry {
        name: "tree",
        summary: "reduce to rank 0 and broadcast back along one tree",
        parameters: &[
            Parameter {
                name: "fan_out",
                values: "a whole number from 1; default: 2",
                meaning: "number of children of a rank",
            },
            Parameter {
                name: "shape",
                values: "fan_out or binomial; default: fan_out",
                meaning: "shape of the tree",
            },
        ],
        examples: &["tree", "tree(fan_out=1)", "tree(fan_out=4)", "tree(shape=binomial)"],
        build: tree,
    },
    Entry {
        name: "bcube",
        summary: "halving-doubling with a base other than 2; for powers of the base",
        parameters: &[Parameter {
            name: "base",
            values: "a whole number from 2; default: 4",
            meaning: "number of ranks that exchange in each step",
        }],
        examples: &["bcube", "bcube(base=2)", "bcube(base=3)", "bcube(base=8)"],
        build: bcube,
    },
    Entry {
        name: "parameter_server",
        summary: "workers send their vectors to hubs, which reduce them and send the results back",
        parameters: &[
            Parameter {
                name: "placement",
                values: "CC, CS, NCC or NCS; default: CS",
                meaning: "colocated (C) or not (NC), central (C) or sharded (S)",
            },
            Parameter {
                name: "hubs",
                values: "a whole number from 1; default: the number of ranks, or 1 for CC and NCC",
                meaning: "number of shards of the vector, each with its own hub",
            },
        ],
        examples: &[
            "parameter_server",
            "parameter_server(placement=CC)",
            "parameter_server(placement=CS, hubs=3)",
            "parameter_server(placement=NCC)",
            "parameter_server(placement=NCS)",
            "parameter_server(placement=NCS, hubs=2)",
        ],
        build: parameter_server,
    },
    Entry {
        name: "two_level",
        summary: "local masters reduce within groups, global masters between them",
        parameters: &[Parameter {
            name: "group",
            values: "a whole number from 1; default: 8",
            meaning: "ranks of a group (the last group may be smaller)",
        }],
        examples: &["two_level", "two_level(group=1)", "two_level(group=3)", "two_level(group=4)"],
        build: |arguments| Ok(Arc::new(TwoLevel::new(arguments.count("group")?.unwrap_or(TwoLevel::GROUP)))),
    },
];

/// Finds the algorithm of this name.
///
/// # Errors
/// If the name is not well-formed, if the word or a key is unknown (with the nearest known one), or if a value is not
/// allowed.
pub fn by_name(text: &str) -> Result<Arc<dyn Algorithm>> {
    let trimmed = text.trim();
    let (word, rest) = match trimmed.split_once('(') {
        Some((word, rest)) => (word.trim(), Some(rest)),
        None => (trimmed, None),
    };
    let names = ENTRIES.iter().map(|entry| entry.name);
    let Some(entry) = ENTRIES.iter().find(|entry| entry.name == word) else {
        return Err(Diagnostic::error(Code::BadValue, "there is no such algorithm")
            .one_of(word, names)
            .into());
    };
    let mut arguments = Arguments { entry, given: Vec::new() };
    if let Some(rest) = rest {
        let Some(inner) = rest.strip_suffix(')') else {
            return Err(Diagnostic::error(
                Code::BadValue,
                "the parenthesis of an algorithm's name is not closed",
            )
            .found(text)
            .help(format!("write it like `{}`", entry.examples[entry.examples.len() - 1]))
            .into());
        };
        for part in inner.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            arguments.add(part)?;
        }
    }
    (entry.build)(&arguments)
}

/// The algorithm for `kind` in a dimension of kind `dim`. Follows hier2021 Table I, which lists algorithms that do
/// not congest a dimension (ring: ring, fully connected: direct, switch: halving-doubling). All-to-all uses direct,
/// which a ring routes over itself; broadcast and reduce behind a switch use a binomial tree.
pub fn for_dimension(kind: CollectiveKind, dim: DimKind) -> Arc<dyn Algorithm> {
    match (dim, kind) {
        (DimKind::Ring, _) => Arc::new(Ring),
        (DimKind::FullyConnected, _) | (DimKind::Switch, CollectiveKind::AllToAll) => {
            Arc::new(Direct::default())
        }
        (DimKind::Switch, CollectiveKind::Broadcast | CollectiveKind::Reduce) => {
            Arc::new(Tree::new(Shape::Binomial))
        }
        (DimKind::Switch, _) => Arc::new(HalvingDoubling),
    }
}

/// Converts the refusal of [`Algorithm::offers`] to a diagnostic.
///
/// # Errors
/// [`Code::NoPlan`] if the algorithm does not offer the collective.
pub fn check(algorithm: &dyn Algorithm, kind: CollectiveKind, ranks: u32) -> Result<()> {
    algorithm.offers(kind, ranks).map_err(|refusal| {
        Diagnostic::error(Code::NoPlan, refusal.0)
            .found(format!("{} on {ranks} ranks", kind.name()))
            .help(format!("`ring` and `direct` offer {} for any number of ranks", kind.name()))
            .into()
    })
}

/// The parameters given in a name.
struct Arguments<'a> {
    entry: &'static Entry,
    given: Vec<(&'static str, &'a str)>,
}

impl<'a> Arguments<'a> {
    fn add(&mut self, part: &'a str) -> Result<()> {
        let name = self.entry.name;
        let known = || self.entry.parameters.iter().map(|parameter| parameter.name);
        let Some((key, value)) = part.split_once('=') else {
            return Err(Diagnostic::error(Code::BadValue, format!("a parameter of `{name}` has no value"))
                .found(part)
                .help(format!("write `{part}=VALUE`"))
                .into());
        };
        let (key, value) = (key.trim(), value.trim());
        let Some(parameter) = known().find(|parameter| *parameter == key) else {
            let error = Diagnostic::error(Code::UnknownKey, format!("`{name}` has no such parameter"));
            return Err(if self.entry.parameters.is_empty() {
                error.found(key).help(format!("write `{name}` without parameters")).into()
            } else {
                error.one_of(key, known()).into()
            });
        };
        if self.given.iter().any(|(given, _)| *given == parameter) {
            return Err(Diagnostic::error(Code::BadValue, format!("a parameter of `{name}` is given twice"))
                .found(key)
                .into());
        }
        self.given.push((parameter, value));
        Ok(())
    }
    fn text(&self, key: &str) -> Option<&'a str> {
        self.given.iter().find(|(given, _)| *given == key).map(|(_, value)| *value)
    }
    fn count(&self, key: &'static str) -> Result<Option<NonZeroU32>> {
        self.text(key).map(|value| value.parse().map_err(|_| self.bad(key, value).into())).transpose()
    }
    /// The error for a value that is not allowed.
    fn bad(&self, key: &'static str, value: &str) -> Diagnostic {
        let values = self.entry.parameters.iter().find(|p| p.name == key).map_or("", |p| p.values);
        let message = format!("`{key}` of `{}` cannot have this value", self.entry.name);
        Diagnostic::error(Code::BadValue, message).key(key).found(value).allowed(values)
    }
}

fn multi_ring(arguments: &Arguments<'_>) -> Result<Arc<dyn Algorithm>> {
    Ok(Arc::new(MultiRing::new(strides(arguments)?)))
}

fn double_binary_tree(arguments: &Arguments<'_>) -> Result<Arc<dyn Algorithm>> {
    Ok(Arc::new(DoubleBinaryTree::new(strides(arguments)?)))
}

/// The argument `strides`, whole numbers joined by `+`; a single 1 if there is none.
fn strides(arguments: &Arguments<'_>) -> Result<Vec<NonZeroU32>> {
    let text = arguments.text("strides").unwrap_or("1");
    let parts = text.split('+').map(|part| part.trim().parse()).collect::<std::result::Result<_, _>>();
    Ok(parts.map_err(|_| arguments.bad("strides", text))?)
}

fn tree(arguments: &Arguments<'_>) -> Result<Arc<dyn Algorithm>> {
    let fan_out = arguments.count("fan_out")?;
    let shape = match arguments.text("shape") {
        None | Some("fan_out") => Shape::FanOut(fan_out.unwrap_or(Tree::FAN_OUT)),
        Some("binomial") if fan_out.is_none() => Shape::Binomial,
        Some(value @ "binomial") => {
            return Err(arguments.bad("shape", value).help("a binomial tree has no fan_out").into());
        }
        Some(value) => {
            return Err(arguments.bad("shape", value).one_of(value, ["fan_out", "binomial"]).into());
        }
    };
    Ok(Arc::new(Tree::new(shape)))
}

fn bcube(arguments: &Arguments<'_>) -> Result<Arc<dyn Algorithm>> {
    let base = arguments.count("base")?.map_or(BCube::BASE, NonZeroU32::get);
    match BCube::new(base) {
        Some(cube) => Ok(Arc::new(cube)),
        None => Err(arguments.bad("base", &base.to_string()).into()),
    }
}

fn parameter_server(arguments: &Arguments<'_>) -> Result<Arc<dyn Algorithm>> {
    let hubs = arguments.count("hubs")?;
    let placement = match arguments.text("placement") {
        None => Placement::ColocatedSharded,
        Some(value) => {
            Placement::ALL.into_iter().find(|placement| placement.name() == value).ok_or_else(|| {
                arguments.bad("placement", value).one_of(value, Placement::ALL.map(Placement::name))
            })?
        }
    };
    match (ParameterServer::new(placement, hubs), hubs) {
        (Some(server), _) => Ok(Arc::new(server)),
        (None, hubs) => Err(arguments
            .bad("hubs", &hubs.map_or(String::new(), |hubs| hubs.to_string()))
            .allowed("1")
            .help(format!("{} has one hub; write CS or NCS for several", placement.name()))
            .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> Diagnostic {
        by_name(text).unwrap_err().0.remove(0)
    }

    #[test]
    fn every_example_is_read_and_keeps_its_name() {
        for example in ENTRIES.iter().flat_map(|entry| entry.examples) {
            assert_eq!(by_name(example).unwrap().name(), *example);
        }
    }

    #[test]
    fn spaces_and_usual_values_are_allowed() {
        for (text, name) in [
            (" ring ( ) ", "ring"),
            ("direct( window = 3 )", "direct(window=3)"),
            ("tree(fan_out=2)", "tree"),
            ("bcube(base=4)", "bcube"),
            ("two_level(group=8)", "two_level"),
            ("parameter_server(hubs=2,placement=NCS)", "parameter_server(placement=NCS, hubs=2)"),
            ("parameter_server(placement=NCC, hubs=1)", "parameter_server(placement=NCC)"),
        ] {
            assert_eq!(by_name(text).unwrap().name(), name);
        }
    }

    #[test]
    fn misspelt_names_get_the_nearest() {
        let unknown = error("halving-doubling");
        assert_eq!(unknown.code, Code::BadValue);
        assert_eq!(unknown.nearest.as_deref(), Some("halving_doubling"));
        let key = error("direct(windw=3)");
        assert_eq!((key.code, key.nearest.as_deref()), (Code::UnknownKey, Some("window")));
        assert_eq!(error("parameter_server(placement=ncs)").nearest.as_deref(), Some("NCS"));
    }

    #[test]
    fn bad_parameters_are_named() {
        for (text, message) in [
            ("ring(window=3)", "`ring` has no such parameter"),
            ("direct(window=0)", "`window` of `direct` cannot have this value"),
            ("direct(window)", "a parameter of `direct` has no value"),
            ("direct(window=1, window=2)", "a parameter of `direct` is given twice"),
            ("direct(window=1", "the parenthesis of an algorithm's name is not closed"),
            ("bcube(base=1)", "`base` of `bcube` cannot have this value"),
            ("tree(shape=star)", "`shape` of `tree` cannot have this value"),
            ("tree(shape=binomial, fan_out=3)", "`shape` of `tree` cannot have this value"),
            ("parameter_server(placement=CC, hubs=2)", "`hubs` of `parameter_server` cannot have this value"),
            ("", "there is no such algorithm"),
        ] {
            assert_eq!(error(text).message, message, "{text}");
        }
    }

    #[test]
    fn algorithms_for_dimensions_offer_their_collectives() {
        for &kind in CollectiveKind::ALL {
            for &dim in DimKind::ALL {
                for ranks in 1..=64 {
                    check(&*for_dimension(kind, dim), kind, ranks).unwrap();
                }
            }
        }
        let name = |dim| for_dimension(CollectiveKind::AllReduce, dim).name().to_owned();
        assert_eq!(name(DimKind::Ring), "ring");
        assert_eq!(name(DimKind::FullyConnected), "direct");
        assert_eq!(name(DimKind::Switch), "halving_doubling");
        assert_eq!(for_dimension(CollectiveKind::AllToAll, DimKind::Switch).name(), "direct");
    }

    #[test]
    fn a_refusal_is_a_diagnostic() {
        let refused = check(&BCube::default(), CollectiveKind::AllReduce, 10).unwrap_err();
        assert_eq!(refused.0[0].code, Code::NoPlan);
        assert_eq!(refused.0[0].message, "`bcube` needs a power of 4 ranks, not 10");
    }
}
