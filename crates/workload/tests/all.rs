//! All tests of this crate through its public names, as one program.

mod circles;
mod collectives;
mod descriptions;
mod jobs;
mod joined;
mod loops;
mod matching;
mod memory;
mod meshes;
mod operators;
mod pipelines;
mod refusals;
mod remedies;
mod support;
mod work;

/// Every file of this folder is listed as a module above.
#[test]
fn no_file_is_left_out() {
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(module) = name.strip_suffix(".rs") else { continue };
        let listed = include_str!("all.rs").contains(&format!("mod {module};\n"));
        assert!(listed || module == "all", "tests/{name} is never run: list it in tests/all.rs");
    }
}
