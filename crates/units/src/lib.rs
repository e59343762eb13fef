//! Quantities and vocabulary that every other crate uses.
//!
//! Quantities are exact integers with a unit in their type, so that a result never depends on the
//! order of a floating-point sum, and a byte is never added to a bit:
//!
//! - [`quantity`]: [`Time`] (picoseconds), [`Bytes`], [`Rate`] (bits per second), [`Flops`],
//!   [`FlopRate`], [`Frequency`];
//! - [`parse`]: the one grammar for `"100Gb/s"`, `"25GB/s"`, `"0.5us"`, `"64MiB"`;
//! - [`ids`]: newtypes for ranks, NPUs, links and tiers;
//! - [`words`]: collective kinds, data types, dimension kinds and shapes such as `Ring(4)_FC(2)`;
//! - [`turn`]: translations of a dimension's coordinates;
//! - [`cut`]: the rule for cutting bytes that do not divide evenly into blocks;
//! - [`divisors`]: common divisors and multiples.

pub mod cut;
pub mod divisors;
pub mod ids;
pub mod parse;
pub mod quantity;
pub mod turn;
pub mod words;

pub use cut::{Extent, cut};
pub use divisors::{gcd, lcm};
pub use ids::{LinkId, NpuId, RankId, TierId, rank_list};
pub use parse::UnitError;
pub use quantity::{Bytes, FlopRate, Flops, Frequency, Rate, Time};
pub use turn::{Turn, Turned};
pub use words::{CollectiveKind, DataType, DimKind, Shape, ShapeDim};
