//! All tests of this crate as one program, which builds in a fraction of the time of eight programs.

mod checks;
mod fabrics;
mod forwarding;
mod framing;
mod network;
mod properties;
mod rdma;
mod recorded;
mod reference;
mod spray;
mod star;
mod support;

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
