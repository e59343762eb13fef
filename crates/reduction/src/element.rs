//! Element types.

use std::fmt;
use std::str::FromStr;
use syncline_units::UnitError;

/// The type of the elements of a buffer that is reduced.
///
/// [`syncline_units::DataType`] is another type: it names the formats of compute models, which include `tf32` and `fp8` but
/// not bool, and only one integer.
///
/// | name | PyTorch | bytes | format |
/// |---|---|---|---|
/// | `f32` | `torch.float32` | 4 | IEEE 754 single |
/// | `f64` | `torch.float64` | 8 | IEEE 754 double |
/// | `f16` | `torch.float16` | 2 | IEEE 754 half |
/// | `bf16` | `torch.bfloat16` | 2 | the upper half of `f32` |
/// | `i32` | `torch.int32` | 4 | two's complement |
/// | `i64` | `torch.int64` | 8 | two's complement |
/// | `i16` | `torch.int16` | 2 | two's complement |
/// | `i8` | `torch.int8` | 1 | two's complement |
/// | `u8` | `torch.uint8` | 1 | unsigned |
/// | `bool` | `torch.bool` | 1 | 0 is false, all else true |
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Element {
    /// IEEE 754 single.
    F32,
    /// IEEE 754 double.
    F64,
    /// IEEE 754 half.
    F16,
    /// The upper half of a single.
    Bf16,
    /// 32-bit integer.
    I32,
    /// 64-bit integer.
    I64,
    /// 16-bit integer.
    I16,
    /// 8-bit integer.
    I8,
    /// Unsigned 8-bit integer.
    U8,
    /// A boolean in a byte.
    Bool,
}

impl Element {
    /// All types, in the order of the documentation.
    pub const ALL: &'static [Self] = &[
        Self::F32,
        Self::F64,
        Self::F16,
        Self::Bf16,
        Self::I32,
        Self::I64,
        Self::I16,
        Self::I8,
        Self::U8,
        Self::Bool,
    ];

    /// The name that files, tables and messages use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::I16 => "i16",
            Self::I8 => "i8",
            Self::U8 => "u8",
            Self::Bool => "bool",
        }
    }

    /// Bytes of one element.
    pub const fn bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 | Self::Bool => 1,
            Self::F16 | Self::Bf16 | Self::I16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }

    /// Whether elements are floats.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64 | Self::F16 | Self::Bf16)
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Element {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        named(text, "type of elements", Self::ALL, Self::name)
    }
}

/// Returns the value in `all` with this name.
pub(crate) fn named<T: Copy>(
    text: &str,
    what: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, UnitError> {
    all.iter().copied().find(|&each| name(each) == text).ok_or_else(|| UnitError {
        found: text.to_owned(),
        at: 0,
        problem: format!("not a {what}"),
        help: format!("use one of {}", all.iter().map(|&each| name(each)).collect::<Vec<_>>().join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_elements_are_parsed() {
        for &element in Element::ALL {
            assert_eq!(element.name().parse(), Ok(element));
        }
        let error = "fp32".parse::<Element>().unwrap_err().to_string();
        assert_eq!(
            error,
            "`fp32`: not a type of elements; use one of f32, f64, f16, bf16, i32, i64, i16, i8, u8, bool"
        );
    }
}
