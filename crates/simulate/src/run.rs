//! The run loop: steps the engine, checks limits, reports progress.

use crate::{Control, Progress, Run};
use std::time::{Duration, Instant};
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_engine::{Engine, Job, Record, StepOutcome};
use syncline_net_analytical::{Links, Model};
use syncline_net_api::{Measurements, NetworkModel};
use syncline_net_flow::Flows;
use syncline_net_packet::Packets;
use syncline_prepare::watch::{Stop, Watch};
use syncline_prepare::{Prepared, prepare, several, size};
use syncline_scenario::{NetworkSettings, Scenario, Traced, Workload};
use syncline_timeline::Ended;
use syncline_units::Time;
use syncline_workload::TaskGraph;

/// Events between two checks of the clock.
const STRIDE: u64 = 1 << 14;
/// Wall time between two reports of progress.
const REPORT: Duration = Duration::from_millis(100);

/// Simulates `scenario`.
///
/// The limit on wall time counts from the start of the command to the last event. Deriving and writing the results
/// takes additional time.
///
/// # Errors
/// Everything that is wrong with the scenario or the files it names; a deadlock report; `LimitReached` if the limit on
/// wall time is reached, or the run is cancelled, before the first event.
pub fn run(scenario: &Scenario, mut control: Control<'_>) -> Result<Run> {
    let watch = Watch::new(&scenario.limits, control.cancel, control.spent);
    let mut run = once(scenario, &watch, &mut control)?;
    if !scenario.faults.is_empty() && run.timeline.summary.ended == Ended::Finished {
        syncline_report::compare(&mut run.timeline.summary, healthy(scenario, &watch, &mut control)?);
    }
    if let Workload::Jobs { jobs } = &scenario.workload {
        let alone = match run.timeline.summary.ended {
            Ended::Finished => each_alone(scenario, jobs, &watch, &mut control)?,
            _ => Vec::new(),
        };
        syncline_report::interference(&mut run.timeline, &alone);
    }
    Ok(run)
}

/// Simulates each of several jobs alone on the fabric and returns its step time; `None` if a limit stopped that run.
fn each_alone(
    scenario: &Scenario,
    jobs: &[syncline_scenario::JobEntry],
    watch: &Watch<'_>,
    control: &mut Control<'_>,
) -> Result<Vec<Option<f64>>> {
    let alone = |job: &syncline_scenario::JobEntry| {
        let summary = once(&several::alone(scenario, job), watch, control)?.timeline.summary;
        Ok((summary.ended == Ended::Finished).then_some(summary.step_time_s))
    };
    jobs.iter().map(alone).collect()
}

/// Simulates the same job without faults and returns its step time; `None` if a limit stopped that run.
fn healthy(scenario: &Scenario, watch: &Watch<'_>, control: &mut Control<'_>) -> Result<Option<f64>> {
    let mut scenario = scenario.clone();
    scenario.faults.clear();
    scenario.trace.ranks = Traced::Listed(Vec::new());
    let summary = once(&scenario, watch, control)?.timeline.summary;
    Ok((summary.ended == Ended::Finished).then_some(summary.step_time_s))
}

/// Runs one simulation.
fn once(scenario: &Scenario, watch: &Watch<'_>, control: &mut Control<'_>) -> Result<Run> {
    let prepared = prepare(scenario, watch)?;
    // Warn only once: further runs, without faults or of single jobs, would repeat the same warnings.
    if let Some(warn) = control.warn.take()
        && !prepared.warnings.0.is_empty()
    {
        warn(&prepared.warnings);
    }
    execute(scenario, &prepared, watch, control, |job, record, network, reason| {
        let mut diagnostics = prepared.warnings.clone();
        diagnostics.extend(reason);
        Run { timeline: syncline_report::timeline(scenario, &prepared, job, record, network), diagnostics }
    })
}

/// Runs a prepared job on the network model of its scenario. Passes the job, its record and the network to `read`, and the
/// reason if the run ended early.
///
/// # Errors
/// A deadlock report; `LimitReached` if the limit on wall time is reached, or the run is cancelled, before the first
/// event.
pub fn execute<T>(
    scenario: &Scenario,
    prepared: &Prepared,
    watch: &Watch<'_>,
    control: &mut Control<'_>,
    read: impl FnOnce(&Job<'_>, Record, &mut dyn Measurements, Diagnostics) -> T,
) -> Result<T> {
    // Compile the run loop once for each network model, not again for each `read`.
    let mut read = Some(read);
    let mut done = None;
    let mut keep = |job: &Job<'_>, record: Record, network: &mut dyn Measurements, reason: Diagnostics| {
        done = read.take().map(|read| read(job, record, network, reason));
    };
    execute_dyn(scenario, prepared, watch, control, &mut keep)?;
    Ok(done.expect("a run that succeeded was read"))
}

type Read<'a> = &'a mut dyn FnMut(&Job<'_>, Record, &mut dyn Measurements, Diagnostics);

fn execute_dyn(
    scenario: &Scenario,
    prepared: &Prepared,
    watch: &Watch<'_>,
    control: &mut Control<'_>,
    read: Read<'_>,
) -> Result<()> {
    let job = prepared.job(scenario);
    watch.check("preparing the run")?;
    let links = |model| Links::new(&prepared.fabric, prepared.symmetry.clone(), model);
    let run = Ready { scenario, prepared, job: &job, watch };
    match &scenario.network {
        NetworkSettings::Analytical => run.on(links(Model::Analytical), control, read),
        NetworkSettings::Queued => run.on(links(Model::Queued), control, read),
        NetworkSettings::Flow(settings) => {
            run.on(Flows::new(&prepared.fabric, prepared.symmetry.clone(), settings), control, read)
        }
        NetworkSettings::Packet(settings) => {
            run.on(Packets::new(&prepared.fabric, &settings.seeded(scenario.seed)), control, read)
        }
    }
}

/// A job that is ready to run.
struct Ready<'a> {
    scenario: &'a Scenario,
    prepared: &'a Prepared,
    job: &'a Job<'a>,
    watch: &'a Watch<'a>,
}

impl Ready<'_> {
    /// Runs the job on an idle network until it ends or reaches a limit.
    fn on(&self, network: impl NetworkModel, control: &mut Control<'_>, read: Read<'_>) -> Result<()> {
        let mut engine = Engine::new(self.job, network);
        self.watch.check("setting up the ranks")?;
        let (ended, reason) = drive(&mut engine, self.prepared, self.scenario, self.watch, control)?;
        let (record, mut network) = engine.finish(ended)?;
        read(self.job, record, &mut network, reason);
        Ok(())
    }
}

/// Steps the engine until the job ends or reaches a limit. Returns how it ended, and the reason if it ended early.
fn drive(
    engine: &mut Engine<'_, impl NetworkModel>,
    prepared: &Prepared,
    scenario: &Scenario,
    watch: &Watch<'_>,
    control: &mut Control<'_>,
) -> Result<(Ended, Diagnostics)> {
    let limits = &scenario.limits;
    let until = limits.sim_time.unwrap_or(Time::MAX);
    let tasks = prepared.workload.sum(|graph| graph.tasks.len() as u128 * u128::from(graph.iterations));
    let steps = |graph: &TaskGraph| u128::from(graph.iterations / graph.micro_batches.max(1));
    let most = prepared.workload.classes.iter().map(steps).max().unwrap_or(0);
    // Count messages as well as tasks: a single collective may take minutes, and would otherwise show no progress.
    let work = tasks + size::sent(&prepared.workload, &prepared.plans) * most;
    let mut reported = Instant::now();
    let limit = |what: &str, value: String| {
        let note =
            Diagnostic::warning(Code::LimitReached, format!("stopped at the limit on {what} ({value})"))
                .help(
                    "results cover only the time before the limit; raise the limit to simulate the whole run",
                );
        Ok((Ended::LimitReached, note.into()))
    };
    loop {
        let left = limits.events.map_or(STRIDE, |limit| limit.saturating_sub(engine.events()).min(STRIDE));
        if left == 0 {
            return limit("events", engine.events().to_string());
        }
        match engine.step(left, until)? {
            StepOutcome::Finished => return Ok((Ended::Finished, Diagnostics::new())),
            StepOutcome::TimeLimit => return limit("simulated time", until.to_string()),
            StepOutcome::More => {}
        }
        let now = Instant::now();
        match watch.stop(now) {
            None => {}
            Some(Stop::Wall(wall)) => return limit("wall time", wall.to_string()),
            Some(Stop::Cancelled) => {
                let note = Diagnostic::warning(
                    Code::LimitReached,
                    "interrupted; results cover only the time before that",
                );
                return Ok((Ended::Interrupted, note.into()));
            }
        }
        if let Some(progress) = control.progress.as_mut()
            && now - reported >= REPORT
        {
            reported = now;
            progress(Progress {
                simulated_s: engine.now().as_s(),
                events: engine.events(),
                messages: engine.messages(),
                done: ((engine.tasks_done() + engine.messages()) as f64 / work.max(1) as f64).min(1.0),
            });
        }
    }
}
