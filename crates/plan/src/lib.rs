//! Collectives as data: which rank sends, receives, reduces or copies which chunk, to which rank, and after what.
//!
//! The simulator times a plan; the runtime executes the same plan. This crate knows neither of them. In reading
//! order:
//!
//! - [`program`]: the primitives and the lazy form, [`Algorithm`];
//! - [`algorithm`]: the library, one algorithm per file;
//! - [`registry`]: algorithms by name, with parameters, and those that hier2021 Table I selects by kind of dimension;
//! - [`choice`]: the quickest algorithms on a given network, for collectives where the user names none;
//! - [`compose`]: collectives over the axes of a grid, as phases;
//! - [`verify`]: proves that a plan computes its collective (using `walk`, which runs programs against each other
//!   without time; `symbolic`, which stores sets of contributions in place of numbers; and `causality`, which knows
//!   what happens before what);
//! - [`dag`]: a materialised plan, which the executor runs;
//! - [`custom`]: collectives of the user, from plan files;
//! - [`cost`]: rounds and bytes, counted and in closed form, and lower bounds for any plan.
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
