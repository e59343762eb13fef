//! The codes. A code is stable: once released, its number keeps its meaning.
//!
//! The first two digits say which part of the program reports the problem: 01 scenario and units, 02 fabric, 03
//! workload, 04 plan, 05 engine, 06 Chakra, 07 ASTRA-sim, 08 results, 09 environment, 10 searches, 11 testbed, 12
//! runtime.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Exit status of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExitStatus {
    /// Success.
    Done = 0,
    /// The command ran and its answer is no: infeasible, `check` found errors, a tolerance was exceeded.
    AnswerNo = 1,
    /// Wrong usage or configuration.
    Config = 2,
    /// Unreadable or corrupt input.
    Input = 3,
    /// The simulated job deadlocks.
    Deadlock = 4,
    /// A limit was reached; partial results are valid.
    Limit = 5,
    /// A peer or host failed.
    Peer = 6,
    /// A bug in this project.
    Bug = 70,
    /// Interrupted by the user.
    Interrupted = 130,
}

macro_rules! codes {
    ($($variant:ident = $id:literal, $exit:ident, $title:literal, $explanation:literal;)+) => {
        /// What kind of problem a diagnostic reports.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $(#[doc = $title] $variant),+ }

        impl Code {
            /// Every code, in numerical order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// The code as printed, such as `SL0101`.
            pub const fn id(self) -> &'static str {
                match self { $(Self::$variant => concat!("SL", $id)),+ }
            }
            /// The name of the variant, such as `UnknownKey`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant)),+ }
            }
            /// A short title.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title),+ }
            }
            /// What the code means and what to do, in a few sentences.
            pub const fn explanation(self) -> &'static str {
                match self { $(Self::$variant => $explanation),+ }
            }
            /// Exit status of a process that reports this code; `Done` for codes that are only ever warnings.
            pub const fn exit(self) -> ExitStatus {
                match self { $(Self::$variant => ExitStatus::$exit),+ }
            }
        }
    };
}

codes! {
    UnknownKey = "0101", Config, "unknown key",
        "The file has a key that is not known at this place. It is refused because a misspelt key would otherwise silently mean the default.";
    BadValue = "0102", Config, "value not allowed",
        "The value has the wrong type, is out of range, or is not one of the allowed words.";
    MissingKey = "0103", Config, "missing key",
        "A key that has no default is absent.";
    BadUnit = "0104", Config, "unit missing or unknown",
        "Quantities are strings with a unit, such as \"100Gb/s\" (bits), \"25GB/s\" (bytes), \"0.5us\", \"64MiB\". A bare number is refused because its unit would be a guess.";
    Unreadable = "0105", Input, "file cannot be read",
        "The file is missing, is not readable, or is not of the expected kind.";
    BadSyntax = "0106", Input, "file is malformed",
        "The file is not well-formed YAML, JSON, CSV or XML, or it exceeds a size or depth limit.";
    BadFabric = "0201", Config, "impossible fabric",
        "The fabric's sizes, rates or links contradict each other or cannot exist.";
    NoRoute = "0202", Config, "no route",
        "Two NPUs that must exchange messages are not connected by the fabric's links.";
    BadPlacement = "0203", Config, "impossible placement",
        "Every rank needs its own NPU, and that NPU must exist in the fabric.";
    NoPrice = "0204", Config, "no price",
        "The fabric contains something that the price list has no price for: a component, a tier of links, or a switch of that number of ports.";
    BadWorkload = "0301", Config, "impossible workload",
        "The workload's layers, sizes or parallelisation contradict each other.";
    BadGroup = "0302", Config, "impossible process group",
        "A group names a rank that does not exist, or does not fit the job.";
    Unmatched = "0303", Config, "unmatched communication",
        "A send has no receive of equal size (or the reverse), or members of a group disagree on their collectives. The job would wait forever; this is found before it is simulated.";
    Cycle = "0304", Config, "cyclic dependencies",
        "Tasks depend on each other in a circle, so none of them can ever start.";
    RankMismatch = "0305", Config, "rank count differs from the fabric",
        "The number of ranks of the job differs from the number of NPUs of the fabric, or from the number of ranks that the files describe.";
    Untraceable = "0306", Config, "operator cannot be traced",
        "A PyTorch module runs an operator whose result depends on the values of its inputs, whose result PyTorch cannot predict, or whose cost is not known. The message names the operator, the submodule, and the line of the module's own code.";
    BadModule = "0307", Config, "module cannot be built or run",
        "The factory of a PyTorch module does not exist, does not take these arguments, fails, or does not return a module; or the module does not take these inputs, or cannot run on tensors without values.";
    DoesNotFit = "0308", AnswerNo, "job does not fit into memory",
        "A rank's parameters, gradients, optimizer states and activations need more memory than its NPU has. The message has the numbers, and the smallest changes that make the job fit.";
    NoPlan = "0401", Config, "no such plan",
        "The algorithm does not offer this collective for this number of ranks.";
    WrongPlan = "0402", Config, "plan does not compute its collective",
        "Symbolic execution of the plan shows that some rank does not end with the result of the collective, or that the plan waits for a message that is never sent.";
    BadMsccl = "0403", Input, "MSCCL program is malformed",
        "An MSCCL XML file has an element in the wrong place, an unknown type of step, a number out of range, or a step that refers to something that does not exist.";
    NotMsccl = "0404", Config, "plan is not an MSCCL program",
        "The plan uses something that MSCCL programs cannot express, such as seats that are not ranks, or more chunks than MSCCL allows.";
    MscclIgnored = "0405", Done, "MSCCL attribute without effect",
        "An MSCCL XML file has an attribute or element that MSCCL's runtimes ignore. This program ignores it too. Often its name is misspelt.";
    Deadlock = "0501", Deadlock, "simulated deadlock",
        "No event is left, and some ranks have not finished: each of them waits for something that never comes. The report says which rank waits for what.";
    LimitReached = "0502", Limit, "limit reached",
        "The run stopped at a limit on events, simulated time or wall time. What was finished is kept and valid.";
    Impossible = "0503", Bug, "physically impossible result",
        "A check of the result failed: a link carried more than its capacity, the bytes sent and received differ, or a time is below its lower bound. This is a bug; please report it.";
    Overflow = "0504", Config, "simulated time overflows",
        "Simulated time exceeds 213 days, the range of 64-bit picoseconds. Rates are too low or sizes too large.";
    ManyRanks = "0505", Done, "many ranks are simulated individually",
        "Ranks that do the same work are simulated once. In this run many ranks differ, so it takes long and needs much memory. The message names the cause. Without that cause, or on a smaller fabric, the run is short.";
    TooLarge = "0506", Config, "run needs too much memory",
        "The run needs more memory than `limits.memory` allows, as estimated from its ranks, links, chunks and messages. It is refused before it begins.";
    BadChakra = "0601", Input, "not a valid Chakra execution trace",
        "The .et file is empty or truncated, is not a Chakra trace, or contains a node that cannot be read.";
    ChakraGraph = "0602", Input, "Chakra graph is inconsistent",
        "A node depends on one that does not exist, two nodes share an id, or the dependencies form a circle.";
    ChakraNode = "0603", Config, "Chakra node is not supported",
        "The node has a type or an attribute that this program does not model.";
    BadAstraFile = "0701", Config, "ASTRA-sim file is invalid",
        "An ASTRA-sim network, system, memory or communicator-group file lacks a key, or has a value of the wrong type or an impossible value.";
    AstraUnsupported = "0702", Config, "ASTRA-sim feature is not supported",
        "The input asks for a feature of ASTRA-sim that this program does not have. The feature is named in the message rather than ignored.";
    AstraDefault = "0703", Done, "ASTRA-sim default used",
        "A key is absent, so the run uses ASTRA-sim's default for it.";
    AstraStuck = "0704", Deadlock, "ranks never finish",
        "The simulated ranks wait for each other forever. In this case ASTRA-sim itself exits with status 0 and prints nothing.";
    AstraIgnored = "0705", Done, "ASTRA-sim key without effect",
        "Neither ASTRA-sim nor this program uses the key: it belongs to another version or to a feature that is off, or its name is misspelt.";
    BadAstraText = "0706", Input, "ASTRA-sim 1 workload is malformed",
        "A text workload of ASTRA-sim 1 has an unknown word, a number out of range, or a different number of layers than its header says.";
    CannotWrite = "0801", Input, "results cannot be written",
        "The output folder, a file or standard output cannot be written. No folder was left half-written.";
    BadResults = "0802", Input, "results cannot be read",
        "The folder is not a results folder of this project, or was written by a newer version.";
    Internal = "0901", Bug, "internal error",
        "Something that should be impossible happened. This is a bug; please report it with the input.";
    MissingPackage = "0902", Config, "a package is not installed",
        "The command needs an optional Python package that is not installed here or cannot be imported.";
    Infeasible = "1001", AnswerNo, "constraints cannot be met",
        "No candidate meets the constraints: the bounds together require more than a budget allows, or they contradict each other. The notes name the constraint.";
    NoTestbed = "1101", Config, "machine cannot have a testbed",
        "Network namespaces, links or queues cannot be created on this machine: root privileges, a program or a kernel feature is missing. The notes quote the kernel's message.";
    BadTestbed = "1102", Config, "fabric cannot be emulated",
        "The hosts and bridges of one machine cannot emulate this fabric: bridges support a single path, and hosts forward packets only in a fabric without switches.";
    WhichTestbed = "1103", Config, "testbed missing or already up",
        "No testbed or host has this name, or a testbed of this name is already up.";
    HostFailed = "1104", Peer, "a process on a host failed",
        "A command on a host of the testbed exited with a status other than 0, was killed by a signal, or timed out.";
    NoMeeting = "1201", Peer, "ranks of a job did not connect",
        "Not all ranks joined in time, a rank was refused, or two ranks could not connect. The message names the ranks and says why.";
    PeerFailed = "1202", Peer, "a peer or a link failed",
        "A collective failed because of a rank, or because of the link between two ranks. The message names it, and says what happened and which operations were under way.";
    PlansKept = "1203", Peer, "new plans were not adopted",
        "The ranks of a job or group keep their plans, because a rank cannot run the new ones, did not confirm them in time, or left. The message names the rank.";
    BadDistances = "1301", Config, "distances between hosts cannot be used",
        "A file of measurements between hosts holds impossible values, names a host twice, is of other hosts, or lacks what a command needs.";
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}
impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let id = String::deserialize(deserializer)?;
        Self::ALL
            .iter()
            .copied()
            .find(|code| code.id() == id)
            .ok_or_else(|| serde::de::Error::custom(format!("unknown code {id}")))
    }
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn ids_are_unique_and_ordered() {
        assert!(Code::ALL.windows(2).all(|pair| pair[0].id() < pair[1].id()));
    }
}
