//! The tests of the engine on whole jobs, as one program, which builds in a fraction of the time of twenty. A job needs a
//! plan, a fabric and a network model, so these tests run it through the crates above: a dependency of tests alone.

mod accounts;
mod bounds;
mod closed_forms;
mod critical_path;
mod deadlock;
mod end_of_run;
mod faults;
mod jitter;
mod limits;
mod many;
mod meshes;
mod micro_batches;
mod moments;
mod pipeline;
mod placement;
mod properties;
mod quotient;
mod quotient_graphs;
mod ready_tasks;
mod scheduling;
mod several_jobs;
mod size;
mod support;

/// Checks that every file in this folder is a module above, or a program of its own.
#[test]
fn every_file_is_listed() {
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(module) = name.strip_suffix(".rs") else { continue };
        let listed = include_str!("all.rs").contains(&format!("mod {module};\n"));
        assert!(listed || module == "all", "tests/{name} is never run: list it in tests/all.rs");
    }
}
