//! Collectives as data: which rank sends, receives, reduces or copies which chunk to whom, after what.
//!
//! The simulator times a plan; the runtime executes the same plan. This crate knows neither. In reading order:
//!
//! - [`program`]: the primitives and the lazy form, [`Algorithm`];
//! - [`algorithm`]: the library, one algorithm a file;
//! - [`registry`]: algorithms by name, with parameters, and those of hier2021 Table I by kind of dimension;
//! - [`choice`]: the quickest algorithms on a given network, for what the user does not name;
//! - [`compose`]: collectives over the axes of a grid, as phases;
//! - [`verify`]: proves that a plan computes its collective (on `walk`, which runs programs against each other without
//!   time, `symbolic`, which holds sets of contributions in place of numbers, and `causality`, which knows what happens
//!   before what);
//! - [`dag`]: a plan materialised, as the executor runs it;
//! - [`custom`]: a user's own collective from a plan file;
//! - [`cost`]: rounds and bytes, counted and in closed form, and the least that any plan needs.
//!
//! ```
//! use syncline_plan::{by_name, verify::verify};
//! use syncline_units::CollectiveKind;
//!
//! let algorithm = by_name("two_level(group=4)").unwrap();
//! verify(&*algorithm, CollectiveKind::AllReduce, 10).unwrap();
//! ```

pub mod algorithm;
mod causality;
pub mod choice;
pub mod compose;
pub mod cost;
pub mod custom;
pub mod dag;
pub mod program;
pub mod registry;
mod symbolic;
pub mod verify;
mod walk;

pub use compose::{Composition, Grid, Phase};
pub use custom::{Custom, PlanFile};
pub use dag::Plan;
pub use program::{Algorithm, Blocks, Buffer, Op, Refusal, Seat};
pub use registry::by_name;
