//! The words of the grammar.

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// Every word, in the order in which the documentation lists them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// The word in the file.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
            /// The meaning of a word in the file.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($text => Some(Self::$variant),)+ _ => None }
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

words! {
    /// Which ranks share what, and the order in which layers are executed.
    Policy {
        /// Every NPU has a copy; weight gradients are reduced over all.
        Data = "DATA",
        /// All NPUs share one copy.
        Model = "MODEL",
        /// Only the first layer's weight-gradient collective.
        Micro = "MICRO",
        /// Copies are shared along dimension 0.
        HybridDataModel = "HYBRID_DATA_MODEL",
        /// Copies are shared along all dimensions but 0.
        HybridModelData = "HYBRID_MODEL_DATA",
        /// Each layer has its own policy.
        HybridCustomized = "HYBRID_CUSTOMIZED",
        /// A recommendation model: embeddings are divided, MLPs are copied.
        HybridDlrm = "HYBRID_DLRM",
        /// As `HYBRID_DLRM`, with an input exchange that is not awaited.
        HybridDlrmEnhanced = "HYBRID_DLRM_ENHANCED",
        /// Copies are shared by groups of a given size.
        HybridTransformer = "HYBRID_TRANSFORMER",
        /// As `HYBRID_TRANSFORMER`, with activations recomputed in the backward pass.
        HybridTransformerFwdInBckwd = "HYBRID_TRANSFORMER_FWD_IN_BCKWD",
        /// Forward passes only.
        DistributedInference = "DISTRIBUTED_INFERENCE",
    }
}

words! {
    /// The collective after a pass. The word `NONE` means that there is none.
    Collective {
        /// The full vector of every NPU is reduced.
        AllReduce = "ALLREDUCE",
        /// Every NPU has a block for every other NPU.
        AllToAll = "ALLTOALL",
        /// Every NPU's shard is sent to all.
        AllGather = "ALLGATHER",
        /// Every NPU ends with a block of the reduction.
        ReduceScatter = "REDUCESCATTER",
        /// An all-reduce in some dimensions and an all-to-all in others.
        AllReduceAllToAll = "ALLREDUCEALLTOALL",
    }
}
