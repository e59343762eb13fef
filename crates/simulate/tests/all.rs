//! The tests of this crate as one program, which builds in a fraction of the time of thirty. `tests/memory.rs` counts what the
//! allocator gives out, so it runs by itself.

mod accounts;
mod astra_text;
mod bounds;
mod chakra;
mod closed_forms;
mod compute;
mod convert;
mod critical_path;
mod defaults;
mod diagnosis;
mod end_of_run;
mod faults;
mod flow;
mod jitter;
mod limits;
mod many;
mod micro_batches;
mod moments;
mod named;
mod packet;
mod pipeline;
mod placement;
mod properties;
mod quotient;
mod quotient_graphs;
mod ready_tasks;
mod recommendation;
mod routing;
mod savings;
mod scheduling;
mod several_jobs;
mod support;

/// Every file of this folder is a module above, or a program of its own.
#[test]
fn no_file_is_left_out() {
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
