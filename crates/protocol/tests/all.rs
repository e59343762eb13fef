//! All integration tests of this crate as one program, so that it is linked only once.

mod interpreter;
mod lanes;
mod lending;
mod transfers;

use proptest::test_runner::Config;

/// The configuration of a property with so many cases. Miri runs few: it takes hundreds of times as long for each.
fn config(cases: u32) -> Config {
    Config { cases: if cfg!(miri) { cases.div_ceil(200) } else { cases }, ..Config::default() }
}
