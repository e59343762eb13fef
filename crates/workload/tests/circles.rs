//! Task graphs: their dependencies, and the circles among them.

use syncline_diagnostics::Code;
use syncline_workload::{Dependency, GraphBuilder, Part, Task, TaskKind};

fn graph(names: &[&str], after: &[(u32, u32)]) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    for name in names {
        builder.task(Task { kind: TaskKind::Join, layer: None, part: Part::Other, name: (*name).to_owned() });
    }
    after.iter().for_each(|&(task, on)| builder.after(task, on));
    builder
}

/// The tasks of the circle that an error names, from the first in the alphabet.
fn circle(names: &[&str], after: &[(u32, u32)]) -> String {
    let error = graph(names, after).build(1).unwrap_err();
    assert_eq!(error.code, Code::Cycle);
    assert_eq!(error.help.as_deref(), Some("remove one of these dependencies"));
    let found = error.found.unwrap();
    let mut tasks: Vec<&str> = found.split(" -> ").map(|name| name.trim_matches('`')).collect();
    let last = tasks.pop();
    assert_eq!(last, tasks.first().copied(), "the circle is closed: {found}");
    let first = tasks.iter().enumerate().min_by_key(|&(_, name)| name).unwrap().0;
    tasks.rotate_left(first);
    tasks.concat()
}

#[test]
fn circles_are_named_in_the_order_in_which_tasks_wait() {
    // Each waits for the one before it, and the first for the last.
    assert_eq!(circle(&["a", "b", "c"], &[(1, 0), (2, 1), (0, 2)]), "abc");
    assert_eq!(circle(&["a", "b", "c"], &[(0, 1), (1, 2), (2, 0)]), "acb");
    assert_eq!(circle(&["a"], &[(0, 0)]), "a");
}

#[test]
fn tasks_before_and_after_a_circle_are_left_out() {
    // x -> y -> (b -> c -> d -> b) -> z -> w, and a task that has nothing to do with it.
    let names = ["w", "x", "b", "y", "c", "d", "z", "alone"];
    let edges = [(3, 1), (2, 3), (4, 2), (5, 4), (2, 5), (6, 5), (0, 6)];
    assert_eq!(circle(&names, &edges), "bcd");
    // The same from the other end: what waits for the circle has the lowest and the highest numbers.
    assert_eq!(circle(&["w", "b", "c", "z"], &[(0, 1), (2, 1), (1, 2), (3, 2), (3, 0)]), "bc");
}

#[test]
fn one_of_two_circles_is_named() {
    let named = circle(&["a", "b", "c", "d"], &[(1, 0), (0, 1), (3, 2), (2, 3), (2, 1)]);
    assert!(["ab", "cd"].contains(&named.as_str()), "{named}");
}

#[test]
fn tasks_without_a_name_are_named_by_number_and_part() {
    let error = graph(&["", "end"], &[(1, 0), (0, 1)]).build(1).unwrap_err();
    let found = error.found.unwrap();
    assert!(found.contains("task 0 (other)") && found.contains("`end`"), "{found}");
}

#[test]
fn waiting_for_the_previous_iteration_is_no_circle() {
    let mut builder = graph(&["a", "b"], &[(1, 0)]);
    builder.after_previous(0, 1);
    builder.after_previous(0, 0);
    let graph = builder.build(3).unwrap();
    let on = |task, lag| Dependency { task, lag };
    assert_eq!(graph.dependencies(0), [on(0, 1), on(1, 1)]);
    assert_eq!(graph.dependencies(1), [on(0, 0)]);
    assert_eq!(graph.successors(0), [on(0, 1), on(1, 0)]);
    assert_eq!(graph.successors(1), [on(0, 1)]);
    assert_eq!(
        [0, 1].map(|task| [0, 1, 2].map(|iteration| graph.waits(task, iteration))),
        [[0, 2, 2], [1, 1, 1]]
    );
}

#[test]
fn a_task_counts_each_task_that_it_waits_for_once() {
    let graph = graph(&["a", "b", "c", "d"], &[(3, 0), (3, 1), (3, 2), (3, 2), (2, 0)]).build(1).unwrap();
    assert_eq!([0, 1, 2, 3].map(|task| graph.waits(task, 0)), [0, 0, 1, 3]);
    assert_eq!([0, 1, 2, 3].map(|task| graph.successors(task).len()), [2, 1, 1, 0]);
    assert_eq!(graph.dependencies(3).iter().map(|on| on.task).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(graph.ends_step(0) && graph.is_done_in(3, 0));
}

#[test]
fn steps_of_micro_batches_end_with_the_last_one() {
    let mut builder = graph(&["each", "last"], &[(1, 0)]);
    builder.only_in_last(1);
    let graph = builder.build_steps(3, 4).unwrap();
    assert_eq!((graph.iterations, graph.micro_batches), (12, 4));
    let ends: Vec<u32> = (0..12).filter(|&iteration| graph.ends_step(iteration)).collect();
    assert_eq!(ends, [3, 7, 11]);
    assert_eq!((0..12).filter(|&iteration| graph.is_done_in(1, iteration)).collect::<Vec<_>>(), ends);
    assert_eq!([graph.times_a_step(0), graph.times_a_step(1)], [4, 1]);
    // None is as one.
    assert_eq!(builder_of_one().build_steps(3, 0).unwrap().iterations, 3);
}

fn builder_of_one() -> GraphBuilder {
    let builder = graph(&["a"], &[]);
    assert_eq!((builder.len(), builder.is_empty()), (1, false));
    assert!(GraphBuilder::new().is_empty());
    builder
}
