//! Operators, and the ways in which each may be divided.

use crate::layer::Work;
use serde::{Deserialize, Serialize};
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_units::{Bytes, Rate};

/// A model as operators, and the servers that it is trained on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorGraph {
    /// The model's name, for people.
    #[serde(default)]
    pub model: String,
    /// Samples of a training step, over all servers.
    pub samples: u64,
    /// Each operator comes behind those whose output it reads.
    pub operators: Vec<Operator>,
    /// Accelerators, rates and memory of a server.
    #[serde(default)]
    pub server: Server,
}

/// One operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operator {
    /// Unique within the model.
    pub name: String,
    /// What it computes, for people: `dense`, `embedding`, `attention`.
    #[serde(default)]
    pub kind: String,
    /// The operators whose output it reads, as positions in [`OperatorGraph::operators`].
    #[serde(default)]
    pub inputs: Vec<u32>,
    /// Its output for one sample.
    pub output: Bytes,
    /// Its parameters, and so their gradients.
    #[serde(default)]
    pub parameters: Bytes,
    /// Whether every accelerator of a server has a copy of the parameters, so that their gradients are reduced inside the
    /// server first. If not, a server has one copy, as of an embedding table.
    #[serde(default = "yes")]
    pub copied: bool,
    /// What a part reads of each input.
    #[serde(default)]
    pub reads: Reads,
    /// The ways in which it may be divided, at least one.
    pub choices: Vec<Choice>,
}

/// What a part of an operator that is divided by parameters reads of the inputs of its samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reads {
    /// All features, as a dense operator does.
    #[default]
    All,
    /// The features that it computes itself, as element-wise operators do.
    Own,
}

/// A way to divide an operator into `samples * parameters` equal parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// Number of parts that the samples of a step are cut into.
    pub samples: u32,
    /// Number of parts that the parameters, and with them the features of the output, are cut into.
    #[serde(default = "one")]
    pub parameters: u32,
    /// Forward pass of one part.
    #[serde(default)]
    pub forward: Work,
    /// Backward pass of one part: the gradients of inputs and parameters.
    #[serde(default)]
    pub backward: Work,
    /// Memory of one part for as long as the job runs: parameters, their gradients, the state of the optimizer, and what
    /// the forward pass keeps for the backward pass.
    #[serde(default)]
    pub memory: Bytes,
}

impl Choice {
    /// Number of parts.
    pub fn parts(&self) -> u32 {
        self.samples * self.parameters
    }
}

const fn one() -> u32 {
    1
}

const fn yes() -> bool {
    true
}

/// A server: some accelerators, which divide the samples of a part evenly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// Number of accelerators.
    pub accelerators: u32,
    /// Rate of an accelerator to the others of its server. Needed if there are several.
    pub rate: Option<Rate>,
    /// Memory of an accelerator. If absent, memory limits nothing.
    pub memory: Option<Bytes>,
}

impl Default for Server {
    fn default() -> Self {
        Self { accelerators: 1, rate: None, memory: None }
    }
}

impl OperatorGraph {
    /// Checks the graph for jobs on `servers` servers.
    ///
    /// # Errors
    /// Everything that is wrong, by the key where it is wrong.
    pub fn check(&self, servers: u32) -> Result<()> {
        let mut errors = Diagnostics::new();
        let bad = |key: String, message: String| Diagnostic::error(Code::BadWorkload, message).key(key);
        if self.operators.is_empty() {
            errors.push(bad("operators".to_owned(), "a model needs an operator".to_owned()));
        }
        if self.samples == 0 {
            errors.push(bad("samples".to_owned(), "a step needs a sample".to_owned()).found("0"));
        }
        match self.server.accelerators {
            0 => {
                errors.push(bad("server.accelerators".to_owned(), "a server needs an accelerator".to_owned()))
            }
            1 => {}
            _ if self.server.rate.is_none_or(|rate| rate.0 == 0) => errors.push(
                bad(
                    "server.rate".to_owned(),
                    "accelerators of a server need a rate to each other".to_owned(),
                )
                .help(
                    "give the rate of an accelerator over the links inside a server, such as `rate: 200GB/s`",
                ),
            ),
            _ => {}
        }
        let mut names = std::collections::BTreeSet::new();
        for (at, operator) in self.operators.iter().enumerate() {
            let key = |rest: &str| format!("operators.{at}.{rest}");
            if !names.insert(&operator.name) {
                errors.push(bad(key("name"), format!("two operators are named `{}`", operator.name)));
            }
            if let Some(input) = operator.inputs.iter().find(|&&input| input as usize >= at) {
                errors.push(
                    bad(
                        key("inputs"),
                        format!("`{}` reads an operator that does not come before it", operator.name),
                    )
                    .found(input.to_string())
                    .allowed(if at == 0 {
                        "none".to_owned()
                    } else {
                        format!("0 to {}", at - 1)
                    }),
                );
            }
            if operator.choices.is_empty() {
                errors.push(bad(key("choices"), format!("`{}` has no choices", operator.name)));
            }
            for (number, choice) in operator.choices.iter().enumerate() {
                let key = |rest: &str| format!("operators.{at}.choices.{number}.{rest}");
                let parts = u64::from(choice.samples) * u64::from(choice.parameters);
                if parts == 0 || parts > u64::from(servers) {
                    errors.push(
                        bad(
                            key("samples"),
                            format!("`{}` has more parts than there are servers", operator.name),
                        )
                        .found(format!("{} x {} parts", choice.samples, choice.parameters))
                        .allowed(format!("1 to {servers} parts")),
                    );
                } else if !self.samples.is_multiple_of(u64::from(choice.samples)) {
                    errors.push(
                        bad(
                            key("samples"),
                            format!("the samples of `{}` do not divide evenly", operator.name),
                        )
                        .found(format!("{} samples in {} parts", self.samples, choice.samples)),
                    );
                }
            }
        }
        errors.into_result().map(drop)
    }
}
