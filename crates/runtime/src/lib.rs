//! What runs for real: the data path of collectives between processes.
//!
//! - [`sum`]: contributions into one, element by element, as fast as memory gives them.

pub mod sum;
