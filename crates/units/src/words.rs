//! Terms of the field that more than one crate needs.

use crate::parse::UnitError;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

macro_rules! named {
    ($(#[$doc:meta])* $name:ident, $what:literal { $($(#[$vdoc:meta])* $variant:ident = $text:literal $(| $alias:literal)*),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// Every value, in the order in which the documentation lists them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// The name used in files and tables.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
        impl FromStr for $name {
            type Err = UnitError;
            fn from_str(text: &str) -> Result<Self, UnitError> {
                match text {
                    $($text $(| $alias)* => Ok(Self::$variant),)+
                    _ => Err(UnitError {
                        found: text.to_owned(),
                        at: 0,
                        problem: concat!("not a ", $what).to_owned(),
                        help: format!("use one of {}", [$($text),+].join(", ")),
                    }),
                }
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

named! {
    /// The result that a collective guarantees (astra2020 Fig. 4). Sizes in this project always mean: the full vector
    /// for all-reduce, reduce, broadcast; the full input vector of one rank for reduce-scatter and all-to-all; the full
    /// gathered vector for all-gather.
    CollectiveKind, "collective" {
        /// Every rank ends with the reduction of all ranks' vectors.
        AllReduce = "all_reduce",
        /// Rank `i` ends with block `i` of the reduction.
        ReduceScatter = "reduce_scatter",
        /// Rank `i` starts with block `i`; every rank ends with all blocks.
        AllGather = "all_gather",
        /// Rank `i` ends with block `i` of every rank's vector.
        AllToAll = "all_to_all",
        /// The first rank's vector reaches every rank.
        Broadcast = "broadcast",
        /// The first rank ends with the reduction.
        Reduce = "reduce",
    }
}

impl CollectiveKind {
    /// Whether elements of different ranks are combined.
    pub const fn reduces(self) -> bool {
        match self {
            Self::AllReduce | Self::ReduceScatter | Self::Reduce => true,
            Self::AllGather | Self::AllToAll | Self::Broadcast => false,
        }
    }

    /// Whether one rank sends or gets the whole vector, so that ranks play different roles.
    pub const fn has_root(self) -> bool {
        match self {
            Self::Broadcast | Self::Reduce => true,
            Self::AllReduce | Self::ReduceScatter | Self::AllGather | Self::AllToAll => false,
        }
    }

    /// Whether each rank contributes or gets blocks of its own, so that the vector has a block for each rank.
    pub const fn has_blocks(self) -> bool {
        match self {
            Self::ReduceScatter | Self::AllGather | Self::AllToAll => true,
            Self::AllReduce | Self::Broadcast | Self::Reduce => false,
        }
    }
}

named! {
    /// Element type of tensors.
    DataType, "data type" {
        /// 8-bit integer.
        Int8 = "int8",
        /// 8-bit float.
        Float8 = "fp8",
        /// 16-bit brain float.
        BFloat16 = "bf16",
        /// 16-bit IEEE float.
        Float16 = "fp16",
        /// TensorFloat-32: stored in 4 bytes.
        TensorFloat32 = "tf32",
        /// 32-bit IEEE float.
        Float32 = "fp32",
        /// 64-bit IEEE float.
        Float64 = "fp64",
    }
}

impl DataType {
    /// Bytes of one element.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Int8 | Self::Float8 => 1,
            Self::BFloat16 | Self::Float16 => 2,
            Self::TensorFloat32 | Self::Float32 => 4,
            Self::Float64 => 8,
        }
    }
}

named! {
    /// How the NPUs of one dimension are connected (hier2021 Fig. 6, astra2020 Fig. 3).
    DimKind, "dimension kind" {
        /// Each NPU has links to its two neighbours.
        Ring = "ring" | "Ring",
        /// Each NPU has a link to every other.
        FullyConnected = "fully_connected" | "FC" | "FullyConnected",
        /// Each NPU has a link to a switch (or one to each of several switches).
        Switch = "switch" | "Switch",
    }
}

impl DimKind {
    /// The name used in shapes such as `Ring(4)_FC(2)_Switch(8)`.
    pub const fn short(self) -> &'static str {
        match self {
            Self::Ring => "Ring",
            Self::FullyConnected => "FC",
            Self::Switch => "Switch",
        }
    }
}

/// One dimension of a [`Shape`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShapeDim {
    /// How its NPUs are connected.
    pub kind: DimKind,
    /// Number of NPUs.
    pub size: u32,
}

/// A multi-dimensional network's shape, lowest dimension first: `Ring(4)_FC(2)_Switch(8)` (hier2021 III-A).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Shape(pub Vec<ShapeDim>);

impl Shape {
    /// Product of the dimension sizes; `None` if it does not fit 32 bits.
    pub fn npus(&self) -> Option<u32> {
        self.0.iter().try_fold(1u32, |product, dim| product.checked_mul(dim.size))
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, dim) in self.0.iter().enumerate() {
            let joint = if index == 0 { "" } else { "_" };
            write!(f, "{joint}{}({})", dim.kind.short(), dim.size)?;
        }
        Ok(())
    }
}

impl FromStr for Shape {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = |at: usize, found: &str, problem: String| UnitError {
            found: found.to_owned(),
            at,
            problem,
            help: "write it like \"Ring(4)_FC(2)_Switch(8)\"".to_owned(),
        };
        let mut at = text.chars().take_while(|letter| letter.is_whitespace()).count();
        let mut dims = Vec::new();
        for part in text.trim().split('_') {
            let (kind, size) = part
                .strip_suffix(')')
                .and_then(|part| part.split_once('('))
                .ok_or_else(|| error(at, part, format!("`{part}` is not a dimension")))?;
            let inside = at + kind.chars().count() + 1;
            let bad_kind = |_| error(at, kind, format!("`{kind}` is not one of Ring, FC, Switch"));
            let bad_size = |_| error(inside, size, format!("`{size}` is not a number of NPUs"));
            let dim =
                ShapeDim { kind: kind.parse().map_err(bad_kind)?, size: size.parse().map_err(bad_size)? };
            if dim.size == 0 {
                return Err(error(inside, size, "a dimension needs at least 1 NPU".to_owned()));
            }
            dims.push(dim);
            at += part.chars().count() + 1;
        }
        let shape = Self(dims);
        shape.npus().ok_or_else(|| error(0, text, "more NPUs than a 32-bit number can count".to_owned()))?;
        Ok(shape)
    }
}

impl Serialize for Shape {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_string())
    }
}
impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_read_and_print() {
        let shape: Shape = "Ring(4)_FC(2)_Switch(8)".parse().unwrap();
        assert_eq!(shape.npus(), Some(64));
        assert_eq!(shape.to_string(), "Ring(4)_FC(2)_Switch(8)");
        for bad in ["", "Ring", "Ring(0)", "Ring(x)", "Mesh(4)", "Ring(65536)_Ring(65536)", "Ring(4)__FC(2)"]
        {
            assert!(bad.parse::<Shape>().is_err(), "{bad}");
        }
        for (bad, found, at) in [
            ("Ring(4)_Swtch(8)", "Swtch", 8),
            (" Ring(4)_FC(x)", "x", 12),
            ("Ring(4)_FC(0)", "0", 11),
            ("Ring(4)_FC", "FC", 8),
        ] {
            let error = bad.parse::<Shape>().unwrap_err();
            assert_eq!((error.found.as_str(), error.at), (found, at));
        }
    }

    #[test]
    fn names_of_collectives_round_trip() {
        for &kind in CollectiveKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert!("allreduce".parse::<CollectiveKind>().unwrap_err().to_string().contains("all_reduce"));
    }
}
