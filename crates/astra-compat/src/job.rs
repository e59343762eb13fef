//! What is simulated: five inputs and a few options, the same as on ASTRA-sim 2's command line.

use crate::Pattern;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_formats::astra2::{Custom, Groups, Memory, NetworkFile, System};
use syncline_formats::chakra::load::rank_file;
use syncline_formats::chakra::{Loading, Traces};

/// One of ASTRA-sim 2's analytical networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Backend {
    /// `AstraSim_Analytical_Congestion_Unaware`.
    #[default]
    Unaware,
    /// `AstraSim_Analytical_Congestion_Aware`: one dimension only.
    Aware,
}

/// The input files, as named on ASTRA-sim 2's command line (`CmdLineParser.cc`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inputs {
    /// `--workload-configuration`: prefix of `prefix.<rank>.et`.
    pub workload: PathBuf,
    /// `--system-configuration`.
    pub system: PathBuf,
    /// `--network-configuration`.
    pub network: PathBuf,
    /// `--remote-memory-configuration`; `None` means no remote memory.
    pub memory: Option<PathBuf>,
    /// `--comm-group-configuration`; as in ASTRA-sim, a path that contains `empty` means no groups.
    pub groups: Option<PathBuf>,
}

/// Options of a run.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The network.
    pub backend: Backend,
    /// `--num-queues-per-dim`.
    pub queues_per_dim: u32,
    /// `--injection-scale`: multiplies `endpoint-delay` if the system file has it, and truncates to whole
    /// nanoseconds.
    pub injection_scale: f64,
    /// `--rendezvous-protocol`.
    pub rendezvous: bool,
    /// Stop after this many events.
    pub max_events: Option<u64>,
    /// Stop before the first event after this time.
    pub max_time_ns: Option<u64>,
    /// Stop soon after this becomes true.
    pub cancel: Option<&'a AtomicBool>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            backend: Backend::Unaware,
            queues_per_dim: 1,
            injection_scale: 1.0,
            rendezvous: false,
            max_events: None,
            max_time_ns: None,
            cancel: None,
        }
    }
}

/// The inputs, after reading.
#[derive(Clone, Debug)]
pub struct Job {
    /// The network.
    pub network: NetworkFile,
    /// The system layer.
    pub system: System,
    /// The remote memory.
    pub memory: Memory,
    /// The communicator groups.
    pub groups: Groups,
    /// The task graphs of all ranks.
    pub traces: Traces,
    /// Collective algorithms given as execution traces.
    pub custom: Vec<CustomAlgorithm>,
    /// Warnings from reading the inputs.
    pub warnings: Diagnostics,
}

impl Job {
    /// Reads all inputs. The configuration files are read before the traces, and all errors in them are
    /// reported together.
    pub fn load(inputs: &Inputs) -> Result<Self> {
        let mut problems = Diagnostics::new();
        let network = keep(&mut problems, NetworkFile::read(&inputs.network)).map(|(network, warnings)| {
            problems.extend(warnings);
            network
        });
        let system = keep(&mut problems, System::read(&inputs.system));
        let memory = match &inputs.memory {
            Some(path) => keep(&mut problems, Memory::read(path)),
            None => Some((Memory::none(), Diagnostics::new())),
        };
        let groups = match inputs.groups.as_deref() {
            Some(path) if Groups::ignored(path) => {
                problems.extend(ignored_groups(path));
                Some(Groups::default())
            }
            Some(path) => keep(&mut problems, Groups::read(path)),
            None => Some(Groups::default()),
        };
        let (Some(network), Some(system), Some(memory), Some(groups)) = (network, system, memory, groups)
        else {
            return Err(problems);
        };
        let (system, warnings) = system;
        problems.extend(warnings);
        let (memory, warnings) = memory;
        problems.extend(warnings);
        let loading = Loading { replay: system.replay_only };
        let traces = Traces::load(&inputs.workload, network.npus(), loading)?;
        let beyond = rank_file(&inputs.workload, network.npus());
        if beyond.is_file() {
            problems.push(
                Diagnostic::warning(
                    Code::RankMismatch,
                    "the trace has files for more ranks than the network has NPUs",
                )
                .at(beyond.display().to_string(), 0)
                .found(format!("{} NPUs", network.npus()))
                .note("as in ASTRA-sim, files beyond the last NPU are not read"),
            );
        }
        let custom = custom_algorithms(&system, network.npus())?;
        Ok(Self { network, system, memory, groups, traces, custom, warnings: problems })
    }

    /// Returns the custom algorithm for a collective with this pattern whose node has this id.
    pub(crate) fn custom_for(&self, pattern: Pattern, node: u64) -> Option<u32> {
        let custom = &self.system.custom;
        let of_pattern = match pattern {
            Pattern::AllReduce => &custom.all_reduce,
            Pattern::AllGather => &custom.all_gather,
            Pattern::ReduceScatter => &custom.reduce_scatter,
            Pattern::AllToAll => &custom.all_to_all,
        };
        let prefix = custom.per_node.get(&node).or(of_pattern.as_ref())?;
        self.custom.iter().position(|known| known.prefix == *prefix).map(|index| index as u32)
    }
}

/// A collective algorithm given as an execution trace for each position of a group.
#[derive(Clone, Debug)]
pub struct CustomAlgorithm {
    /// The prefix of its files, as in the system file.
    pub prefix: String,
    /// The traces, by position.
    pub traces: Traces,
}

/// Reads the algorithms that the system file names, each for as many positions as there are files.
fn custom_algorithms(system: &System, npus: u32) -> Result<Vec<CustomAlgorithm>> {
    let Custom { all_reduce, all_gather, reduce_scatter, all_to_all, per_node } = &system.custom;
    let of_patterns = [all_reduce, all_gather, reduce_scatter, all_to_all].into_iter().flatten();
    let prefixes: BTreeSet<&String> = of_patterns.chain(per_node.values()).collect();
    let mut problems = Diagnostics::new();
    let mut algorithms = Vec::new();
    for prefix in prefixes {
        let path = Path::new(prefix);
        let files = (0..npus).take_while(|&position| rank_file(path, position).is_file()).count() as u32;
        // If there is no file at all, the reader reports that, with similar names.
        match Traces::load(path, files.max(1), Loading::default()) {
            Ok(traces) => algorithms.push(CustomAlgorithm { prefix: prefix.clone(), traces }),
            Err(errors) => problems.extend(Diagnostics(
                errors
                    .0
                    .into_iter()
                    .map(|error| {
                        error.note(
                            "prefixes of custom algorithms count from the working directory, as in ASTRA-sim",
                        )
                    })
                    .collect(),
            )),
        }
    }
    problems.into_result()?;
    Ok(algorithms)
}

/// Returns the value, or adds its errors to the others.
fn keep<T>(problems: &mut Diagnostics, read: Result<T>) -> Option<T> {
    read.map_err(|errors| problems.extend(errors)).ok()
}

/// Warns that a groups file exists but is ignored because of its name.
fn ignored_groups(path: &Path) -> Diagnostics {
    if !path.is_file() {
        return Diagnostics::new();
    }
    Diagnostic::warning(
        Code::AstraIgnored,
        "the communicator-group file is ignored, as in ASTRA-sim, because its path contains \"empty\"",
    )
    .at(path.display().to_string(), 0)
    .help("rename the file to use its groups")
    .into()
}
