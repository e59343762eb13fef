//! Element-wise operations.

/// An operation on numbers of one type. It must be inlined, because the loops around it are compiled per feature level.
pub(crate) trait Operation<T> {
    /// `a op b`.
    fn apply(a: T, b: T) -> T;
}

/// `a + b`; integers wrap.
pub(crate) struct Sum;
/// `a * b`; integers wrap.
pub(crate) struct Product;
/// The smaller number.
pub(crate) struct Min;
/// The larger number.
pub(crate) struct Max;
/// Bitwise "and".
pub(crate) struct And;
/// Bitwise "or".
pub(crate) struct Or;
/// Bitwise "exclusive or".
pub(crate) struct Xor;
/// "And" of booleans in bytes.
pub(crate) struct Both;
/// "Or" of booleans in bytes.
pub(crate) struct Either;
/// "Exclusive or" of booleans in bytes.
pub(crate) struct One;

macro_rules! operations {
    ($($operation:ident($type:ty) = |$a:ident, $b:ident| $result:expr;)*) => {$(
        impl Operation<$type> for $operation {
            #[inline(always)]
            fn apply($a: $type, $b: $type) -> $type {
                $result
            }
        }
    )*};
}

macro_rules! floats {
    ($($float:ty),*) => {$(operations! {
        Sum($float) = |a, b| a + b;
        Product($float) = |a, b| a * b;
        Min($float) = |a, b| extremum!($float, a, b, a < b, |);
        Max($float) = |a, b| extremum!($float, a, b, a > b, &);
    })*};
}

/// Minimum or maximum without branches. Equal numbers have equal bits, except for zeros, whose signs decide.
macro_rules! extremum {
    ($float:ty, $a:ident, $b:ident, $first:expr, $sign:tt) => {{
        let chosen = if $first { $a } else { $b };
        let chosen = if $a == $b { <$float>::from_bits($a.to_bits() $sign $b.to_bits()) } else { chosen };
        // If `b` is a NaN, it was chosen, because no comparison with it is true.
        if $a.is_nan() { $a } else { chosen }
    }};
}

macro_rules! integers {
    ($($integer:ty),*) => {$(operations! {
        Sum($integer) = |a, b| a.wrapping_add(b);
        Product($integer) = |a, b| a.wrapping_mul(b);
        Min($integer) = |a, b| a.min(b);
        Max($integer) = |a, b| a.max(b);
    })*};
}

floats!(f32, f64);
integers!(i8, u8, i16, i32, i64);
operations! {
    And(u8) = |a, b| a & b;
    Or(u8) = |a, b| a | b;
    Xor(u8) = |a, b| a ^ b;
    Both(u8) = |a, b| u8::from(a != 0) & u8::from(b != 0);
    Either(u8) = |a, b| u8::from(a | b != 0);
    One(u8) = |a, b| u8::from(a != 0) ^ u8::from(b != 0);
}
