//! Reductions: the elements that each supports, and neutral elements.

use crate::element::{Element, named};
use std::fmt;
use std::str::FromStr;
use syncline_units::UnitError;

/// An operation that combines two elements into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reduction {
    /// `a + b`; for bool, "or".
    Sum,
    /// `a * b`; for bool, "and".
    Product,
    /// The smaller element; for bool, "and".
    Min,
    /// The larger element; for bool, "or".
    Max,
    /// Bitwise "and".
    BitAnd,
    /// Bitwise "or".
    BitOr,
    /// Bitwise "exclusive or".
    BitXor,
}

impl Reduction {
    /// All reductions, in the order of the documentation.
    pub const ALL: &'static [Self] =
        &[Self::Sum, Self::Product, Self::Min, Self::Max, Self::BitAnd, Self::BitOr, Self::BitXor];

    /// The name that files, tables and messages use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Product => "product",
            Self::Min => "min",
            Self::Max => "max",
            Self::BitAnd => "bit_and",
            Self::BitOr => "bit_or",
            Self::BitXor => "bit_xor",
        }
    }

    /// Whether the reduction is bitwise.
    pub const fn is_bitwise(self) -> bool {
        matches!(self, Self::BitAnd | Self::BitOr | Self::BitXor)
    }

    /// The neutral element, in the first bytes; unspecified if the reduction is not [`offered`] for `element`.
    pub(crate) fn neutral(self, element: Element) -> [u8; 8] {
        use Element as E;
        let pick = |sum: &[u8], product: &[u8], min: &[u8], max: &[u8]| {
            let mut neutral = [0; 8];
            let bytes = match self {
                Self::Sum | Self::BitOr | Self::BitXor => sum,
                Self::Product => product,
                Self::Min => min,
                Self::Max => max,
                Self::BitAnd => &[0xff; 8],
            };
            neutral[..bytes.len()].copy_from_slice(bytes);
            neutral
        };
        macro_rules! float {
            ($float:ty) => {
                pick(
                    &<$float>::to_ne_bytes(-<$float>::from(0i8)),
                    &<$float>::to_ne_bytes(<$float>::from(1i8)),
                    &<$float>::to_ne_bytes(<$float>::INFINITY),
                    &<$float>::to_ne_bytes(<$float>::NEG_INFINITY),
                )
            };
        }
        macro_rules! integer {
            ($int:ty) => {
                pick(
                    &<$int>::to_ne_bytes(0),
                    &<$int>::to_ne_bytes(1),
                    &<$int>::to_ne_bytes(<$int>::MAX),
                    &<$int>::to_ne_bytes(<$int>::MIN),
                )
            };
        }
        match element {
            E::F32 => float!(f32),
            E::F64 => float!(f64),
            E::F16 => float!(half::f16),
            E::Bf16 => float!(half::bf16),
            E::I32 => integer!(i32),
            E::I64 => integer!(i64),
            E::I16 => integer!(i16),
            E::I8 => integer!(i8),
            E::U8 => integer!(u8),
            E::Bool if matches!(self, Self::BitAnd) => [1; 8],
            E::Bool => pick(&[0], &[1], &[1], &[0]),
        }
    }
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Reduction {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        named(text, "reduction", Self::ALL, Self::name)
    }
}

/// Reason why buffers were not reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The reduction is not [`offered`] for the element type.
    Pair {
        /// Element type.
        element: Element,
        /// Reduction.
        reduction: Reduction,
    },
    /// Elements without fractions cannot be scaled.
    Scale {
        /// Element type.
        element: Element,
    },
    /// A length is not a multiple of the element's size.
    Ragged {
        /// Expected element type.
        element: Element,
        /// Length in bytes.
        bytes: usize,
    },
    /// A source is longer or shorter than the destination.
    Lengths {
        /// Index of the source, from 0.
        source: usize,
        /// Length of the source in bytes.
        found: usize,
        /// Length of the destination in bytes.
        expected: usize,
    },
    /// There are no sources.
    NoSources,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Pair { element, reduction } => {
                let names: Vec<&str> = reductions(element).map(Reduction::name).collect();
                write!(
                    f,
                    "`{reduction}` is not offered for {element}: bitwise reductions are for integers and bool; use one of {}",
                    names.join(", ")
                )
            }
            Self::Scale { element } => write!(
                f,
                "{element} cannot be scaled: it has no fractions; use f32, f64, f16 or bf16, or sum and divide yourself"
            ),
            Self::Ragged { element, bytes } => write!(
                f,
                "{bytes} bytes are not a whole number of {element} elements, which have {} bytes each",
                element.bytes()
            ),
            Self::Lengths { source, found, expected } => write!(
                f,
                "source {source} has {found} bytes, but the destination {expected}: all must have the same length"
            ),
            Self::NoSources => write!(f, "no sources: a reduction needs at least one"),
        }
    }
}

impl std::error::Error for Refusal {}

/// Checks that a reduction is offered for an element type: all are, except for bitwise reductions of floats.
///
/// # Errors
/// A refusal that names the reductions that are offered.
pub fn offered(element: Element, reduction: Reduction) -> Result<(), Refusal> {
    if element.is_float() && reduction.is_bitwise() {
        return Err(Refusal::Pair { element, reduction });
    }
    Ok(())
}

/// The reductions that are offered for an element type.
pub fn reductions(element: Element) -> impl Iterator<Item = Reduction> {
    Reduction::ALL.iter().copied().filter(move |&reduction| offered(element, reduction).is_ok())
}

/// Checks that buffers can be reduced.
pub(crate) fn check(
    element: Element,
    reduction: Reduction,
    dst: &[u8],
    srcs: &[&[u8]],
) -> Result<(), Refusal> {
    offered(element, reduction)?;
    whole(element, dst)?;
    let expected = dst.len();
    match srcs.iter().position(|src| src.len() != expected) {
        Some(source) => Err(Refusal::Lengths { source, found: srcs[source].len(), expected }),
        None => Ok(()),
    }
}

/// Checks that a buffer can be scaled.
pub(crate) fn check_scale(element: Element, dst: &[u8]) -> Result<(), Refusal> {
    if !element.is_float() {
        return Err(Refusal::Scale { element });
    }
    whole(element, dst)
}

fn whole(element: Element, dst: &[u8]) -> Result<(), Refusal> {
    if dst.len().is_multiple_of(element.bytes()) {
        Ok(())
    } else {
        Err(Refusal::Ragged { element, bytes: dst.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_reductions_are_parsed() {
        for &reduction in Reduction::ALL {
            assert_eq!(reduction.name().parse(), Ok(reduction));
        }
        assert!("avg".parse::<Reduction>().unwrap_err().to_string().contains("use one of sum, product"));
    }

    #[test]
    fn a_refusal_says_what_is_allowed() {
        let text = offered(Element::Bf16, Reduction::BitOr).unwrap_err().to_string();
        assert_eq!(
            text,
            "`bit_or` is not offered for bf16: bitwise reductions are for integers and bool; use one of sum, product, min, max"
        );
        assert_eq!(reductions(Element::Bool).count(), 7);
        let text = check(Element::F32, Reduction::Sum, &[0; 6], &[]).unwrap_err().to_string();
        assert_eq!(text, "6 bytes are not a whole number of f32 elements, which have 4 bytes each");
        let text = check(Element::I16, Reduction::Sum, &[0; 6], &[&[0; 6], &[0; 8]]).unwrap_err().to_string();
        assert_eq!(text, "source 1 has 8 bytes, but the destination 6: all must have the same length");
        let text = check_scale(Element::I64, &[0; 8]).unwrap_err().to_string();
        assert!(text.starts_with("i64 cannot be scaled"), "{text}");
    }
}
