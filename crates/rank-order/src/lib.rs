//! Which host gets which rank, so that a collective's messages travel short distances (luo2020 chapter 5).
//!
//! - [`distances`]: how long a message takes between any two hosts;
//! - [`algorithm`]: what an all-reduce costs under an order, by algorithm (luo2020 5.2.1);
//! - [`search`]: the search for a cheap order, which is the entry;
//! - [`exchanges`]: which ranks exchange;
//! - [`bound`]: what no order can go below.
//!
//! An order lists hosts by rank: `order[rank]` is a host.

pub mod algorithm;
mod anneal;
pub mod bound;
mod dendrogram;
pub mod distances;
pub mod exchanges;
mod peers;
mod ring;
pub mod search;
mod trees;

pub use algorithm::{Algorithm, cost};
pub use bound::lower_bound;
pub use distances::{Distances, Matrix, completed};
pub use exchanges::{Exchange, exchanges};
pub use search::{Effort, Found, search};
