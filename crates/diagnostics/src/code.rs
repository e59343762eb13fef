//! The codes. A code is stable: once released, its number keeps its meaning.
//!
//! Numbers are grouped by the room that reports them: 01 scenario and units, 02 fabric, 03 workload, 04 plan,
//! 05 engine, 06 Chakra, 07 ASTRA-sim, 08 results, 09 environment, 10 searches, 11 testbed.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a process exits with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExitStatus {
    /// Done.
    Done = 0,
    /// Done, and the answer is no: infeasible, `check` found errors, a tolerance was exceeded.
    AnswerNo = 1,
    /// Usage or configuration.
    Config = 2,
    /// Unreadable or corrupt input.
    Input = 3,
    /// The simulated job deadlocks.
    Deadlock = 4,
    /// A limit was reached; partial results are valid.
    Limit = 5,
    /// A peer or host failed.
    Peer = 6,
    /// A bug of this project.
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
            /// A short title.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title),+ }
            }
            /// What it means and what to do, in a few sentences.
            pub const fn explanation(self) -> &'static str {
                match self { $(Self::$variant => $explanation),+ }
            }
            /// What the process exits with; `Done` for what is only ever a warning.
            pub const fn exit(self) -> ExitStatus {
                match self { $(Self::$variant => ExitStatus::$exit),+ }
            }
        }
    };
}

codes! {
    UnknownKey = "0101", Config, "unknown key",
        "The file has a key that is not known at this place. A typing error would otherwise silently fall back to a default.";
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
        "Every rank needs an NPU of its own that exists in the fabric.";
    NoPrice = "0204", Config, "no price",
        "The fabric has something for which the price list has no price: a component, a tier of links, or a switch with so many ports.";
    BadWorkload = "0301", Config, "impossible workload",
        "The workload's layers, sizes or parallelisation contradict each other.";
    BadGroup = "0302", Config, "impossible process group",
        "A group names a rank that does not exist, or does not fit the job.";
    Unmatched = "0303", Config, "unmatched communication",
        "A send has no receive of equal size (or the reverse), or members of a group disagree on their collectives. The job would wait for ever; this is found before it is simulated.";
    Cycle = "0304", Config, "cyclic dependencies",
        "Tasks depend on each other in a circle, so none of them can ever start.";
    RankMismatch = "0305", Config, "rank count differs from the fabric",
        "The job has another number of ranks than the fabric has NPUs, or than the files give.";
    Untraceable = "0306", Config, "operator cannot be traced",
        "A PyTorch module runs an operator whose result depends on values, of which PyTorch does not know what it gives, or whose cost is not known. The message says which one, in which submodule, and in which line of the module's own code.";
    BadModule = "0307", Config, "module cannot be built or run",
        "The factory of a PyTorch module does not exist, does not take these arguments, fails, or gives no module; or the module does not take these inputs, or cannot be run on tensors without values.";
    DoesNotFit = "0308", AnswerNo, "job does not fit into memory",
        "A rank's parameters, gradients, optimiser states and activations take more than its NPU's memory. The message has the numbers, and the nearest changes with which the job fits.";
    NoPlan = "0401", Config, "no such plan",
        "The algorithm does not offer this collective for this number of ranks.";
    WrongPlan = "0402", Config, "plan does not compute its collective",
        "Symbolic execution of the plan shows that some rank does not end with what the collective promises, or that the plan waits for a message that is never sent.";
    BadMsccl = "0403", Input, "MSCCL program is malformed",
        "An MSCCL XML file has an element in the wrong place, an unknown type of step, a number out of range, or a step that refers to something that does not exist.";
    NotMsccl = "0404", Config, "plan is no MSCCL program",
        "The plan uses what MSCCL programs do not have, such as seats that are not ranks or more chunks than they count.";
    MscclIgnored = "0405", Done, "MSCCL attribute without effect",
        "An MSCCL XML file has an attribute or element that MSCCL's runtimes ignore; so does this program. Often its name is misspelt.";
    Deadlock = "0501", Deadlock, "simulated deadlock",
        "No event is left, and some ranks have not finished: each of them waits for something that never comes. The report says who waits for what.";
    LimitReached = "0502", Limit, "limit reached",
        "The run stopped at a limit on events, simulated time or wall time. What was finished is kept and valid.";
    Impossible = "0503", Bug, "physically impossible result",
        "A check of the result failed: a link above its capacity, bytes sent unlike bytes received, or a time below the lower bound. This is a bug; please report it.";
    Overflow = "0504", Config, "simulated time overflows",
        "Simulated time exceeds 213 days, the range of 64-bit picoseconds. Rates are too low or sizes too large.";
    ManyRanks = "0505", Done, "many ranks are simulated one by one",
        "Ranks that do the same are simulated once; here something sets so many apart that the run takes long and much memory. The message says what. Without it, or on a smaller fabric, the run is short.";
    TooLarge = "0506", Config, "run needs too much memory",
        "By its ranks, links, chunks and messages, the run is estimated to need more memory than `limits.memory` allows. It is refused before it begins.";
    BadChakra = "0601", Input, "not a valid Chakra execution trace",
        "The .et file is empty, truncated, not a Chakra trace, or holds a node that cannot be understood.";
    ChakraGraph = "0602", Input, "Chakra graph is inconsistent",
        "A node depends on one that does not exist, two nodes share an id, or the dependencies form a circle.";
    ChakraNode = "0603", Config, "Chakra node is not supported",
        "The node's type or attributes ask for something that is not modelled.";
    BadAstraFile = "0701", Config, "ASTRA-sim file is invalid",
        "An ASTRA-sim network, system, memory or communicator-group file lacks a key, or has a wrong type or an impossible value.";
    AstraUnsupported = "0702", Config, "ASTRA-sim feature is not supported",
        "The input asks for a feature of ASTRA-sim that is refused by name rather than ignored.";
    AstraDefault = "0703", Done, "ASTRA-sim default used",
        "A key is absent; the value that ASTRA-sim would use is taken.";
    AstraStuck = "0704", Deadlock, "ranks never finish",
        "The simulated ranks wait for each other for ever. ASTRA-sim itself exits 0 in this case without a word.";
    AstraIgnored = "0705", Done, "ASTRA-sim key without effect",
        "Neither ASTRA-sim nor this program does anything with the key: it belongs to another version or to a feature that is off, or its name is misspelt.";
    BadAstraText = "0706", Input, "ASTRA-sim 1 workload is malformed",
        "A text workload of ASTRA-sim 1 has an unknown word, a number out of range, or fewer or more layers than it says.";
    CannotWrite = "0801", Input, "results cannot be written",
        "The output folder, a file or standard output cannot be written. No folder was left half-written.";
    BadResults = "0802", Input, "results cannot be read",
        "The folder is not a results folder of this project, or was written by a newer version.";
    Internal = "0901", Bug, "internal error",
        "Something that should be impossible happened. This is a bug; please report it with the input.";
    MissingPackage = "0902", Config, "a package is not installed",
        "What was asked for needs a Python package that is optional and not installed here, or that cannot be imported.";
    Infeasible = "1001", AnswerNo, "constraints cannot be met",
        "What is searched for does not exist: a budget is smaller than what bounds ask for together, or bounds contradict each other. The notes name the constraint.";
    NoTestbed = "1101", Config, "machine cannot have a testbed",
        "Network namespaces, links or queues cannot be made here: root, a program or a feature of the kernel is missing. The notes have the kernel's words.";
    BadTestbed = "1102", Config, "fabric cannot be emulated",
        "Hosts and bridges of one machine cannot be such a fabric. Bridges send everything one way, and hosts pass nothing on.";
    WhichTestbed = "1103", Config, "no such testbed, or one too many",
        "A testbed or a host of this name does not exist, or a testbed of this name is up already.";
    HostFailed = "1104", Peer, "a process on a host failed",
        "A command on a host of the testbed ended with another status than 0, was ended by a signal, or took too long.";
    NoMeeting = "1201", Peer, "members of a job did not meet",
        "Not all ranks came in time, one was refused, or two could not be joined. The message names who and why.";
    PeerFailed = "1202", Peer, "a peer or a link failed",
        "A collective ended because a rank, or the link between two ranks, is at fault. The message names it, what happened, and what was under way.";
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
