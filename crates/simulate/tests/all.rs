//! The tests of this crate as one program, which builds in a fraction of the time of thirty. `tests/memory.rs` counts
//! the bytes that the allocator hands out, so it is a program of its own.

mod astra_text;
mod chakra;
mod compute;
mod convert;
mod defaults;
mod diagnosis;
mod flow;
mod named;
mod packet;
mod recommendation;
mod routing;
mod savings;
mod support;

/// Checks that every file in this folder is a module above, or a program of its own.
#[test]
fn every_file_is_listed() {
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(module) = name.strip_suffix(".rs") else { continue };
        let listed = include_str!("all.rs").contains(&format!("mod {module};\n"));
        assert!(
            listed || ["all", "memory"].contains(&module),
            "tests/{name} is never run: list it in tests/all.rs"
        );
    }
}
