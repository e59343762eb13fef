//! A strategy on reconfigurable circuits as JSON, for callers in other languages.

use crate::{Circuits, run};
use serde::Deserialize;
use std::sync::atomic::AtomicBool;
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_prepare::compute;
use syncline_scenario::Compute;
use syncline_units::Time;
use syncline_workload::operators::{OperatorGraph, Strategy, tasks};
use syncline_workload::{Task, TaskKind};

/// Steps that are simulated; the last one is the answer.
const STEPS: u32 = 3;

/// A model and its strategy, and the circuits to run it on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The model.
    pub graph: OperatorGraph,
    /// What turns work into time.
    pub compute: Compute,
    /// Number of servers.
    pub servers: u32,
    /// The division and servers of each operator.
    pub strategy: Strategy,
    /// The network.
    pub circuits: Circuits,
}

impl Request {
    /// Reads a request.
    ///
    /// # Errors
    /// Text that is no request.
    pub fn read(text: &str) -> Result<Self> {
        Ok(serde_json::from_str(text).map_err(|error| {
            Diagnostic::error(Code::BadValue, format!("not a request for circuits: {error}"))
        })?)
    }

    /// How long a step takes in the middle of training. Ends early, with the time so far, once `cancel` is set.
    ///
    /// # Errors
    /// Everything that is wrong with the request; as [`run`].
    pub fn step(&self, cancel: &AtomicBool) -> Result<Time> {
        self.graph.check(self.servers)?;
        self.strategy.check(&self.graph, self.servers)?;
        let compute = compute::model(&self.compute)?;
        let workload = tasks::workload(&self.graph, &self.strategy, self.servers, 1)?;
        let time = |task: &Task| match &task.kind {
            TaskKind::Compute(work) => Ok(compute.time(work)?),
            _ => Ok(Time::ZERO),
        };
        let of_class =
            |graph: &syncline_workload::TaskGraph| graph.tasks.iter().map(time).collect::<Result<_>>();
        let durations = workload.classes.iter().map(of_class).collect::<Result<Vec<Vec<Time>>>>()?;
        let ends = run(&workload, &durations, &self.circuits, STEPS, cancel)?;
        let before = ends.iter().rev().nth(1).copied().unwrap_or(Time::ZERO);
        Ok(Time(ends.last().map_or(0, |end| end.0 - before.0)))
    }
}
