//! Several jobs on one fabric: the results of each, and what they cost each other.

use crate::links::PS;
use syncline_engine::Record;
use syncline_engine::record::RankRecord;
use syncline_prepare::{Member, Prepared};
use syncline_timeline::{Ended, JobSummary, Table, Timeline, tables};

/// The summary of each of several jobs.
pub(crate) fn jobs(prepared: &Prepared, record: &Record) -> Vec<JobSummary> {
    let summary = |job: &Member| {
        let share = &job.share;
        let ranks = &record.ranks[share.first_rank as usize..(share.first_rank + share.ranks) as usize];
        let mean = |of: fn(&RankRecord) -> u64| {
            let sum: u128 = ranks.iter().map(|rank| u128::from(of(rank))).sum();
            sum as f64 / PS / ranks.len().max(1) as f64
        };
        // In a run that was cut off, ranks have no finish time of their own.
        let last = match record.ended {
            Ended::Finished => ranks.iter().map(|rank| rank.finish).max().unwrap_or_default(),
            _ => record.finish,
        };
        let finish = last.max(job.start);
        let spent = finish.saturating_sub(job.start).as_s();
        let iterations = steps_of(job, record);
        let exposed = mean(|rank| rank.exposed_communication.0);
        JobSummary {
            name: share.name.clone(),
            ranks: u64::from(share.ranks),
            iterations: u64::from(iterations),
            start_s: job.start.as_s(),
            finish_s: finish.as_s(),
            step_time_s: spent / f64::from(iterations.max(1)),
            compute_s: mean(|rank| rank.compute.0),
            exposed_communication_s: exposed,
            exposed_fraction: if spent > 0.0 { exposed / spent } else { 0.0 },
            communication_s: mean(|rank| rank.communication.0),
            sent_bytes: ranks.iter().map(|rank| rank.sent).sum(),
            alone_step_time_s: None,
            slowdown: None,
            iterations_per_s_per_usd: None,
            iterations_per_s_per_w: None,
        }
    };
    prepared.jobs.iter().map(summary).collect()
}

/// The name of the job that a rank belongs to; empty if the scenario has only one job.
pub(crate) fn job_of(prepared: &Prepared, rank: u32) -> String {
    let has = |job: &&Member| rank.wrapping_sub(job.share.first_rank) < job.share.ranks;
    prepared.jobs.iter().find(has).map(|job| job.share.name.clone()).unwrap_or_default()
}

/// Training iterations that a job completed. In a run that was cut off, the number that all jobs completed.
pub(crate) fn steps_of(job: &Member, record: &Record) -> u32 {
    if record.ended == Ended::Finished { job.share.iterations } else { record.iterations_done }
}

/// Records how several jobs slow each other down. `alone` holds each job's step time without the others, if known.
pub fn interference(timeline: &mut Timeline, alone: &[Option<f64>]) {
    let jobs = &mut timeline.summary.jobs;
    for (job, &alone) in jobs.iter_mut().zip(alone) {
        job.alone_step_time_s = alone;
        job.slowdown = alone.filter(|&alone| alone > 0.0).map(|alone| job.step_time_s / alone);
    }
    let jobs = &timeline.summary.jobs;
    let float = |of: fn(&JobSummary) -> f64| jobs.iter().map(of).collect::<Vec<f64>>();
    let int = |of: fn(&JobSummary) -> u64| jobs.iter().map(|job| of(job) as i64).collect::<Vec<i64>>();
    let known = |of: fn(&JobSummary) -> Option<f64>| jobs.iter().map(of).collect::<Vec<Option<f64>>>();
    let table = Table::from(tables::Jobs {
        job: jobs.iter().map(|job| job.name.clone()).collect(),
        ranks: int(|job| job.ranks),
        iterations: int(|job| job.iterations),
        start_s: float(|job| job.start_s),
        finish_s: float(|job| job.finish_s),
        step_time_s: float(|job| job.step_time_s),
        compute_s: float(|job| job.compute_s),
        exposed_communication_s: float(|job| job.exposed_communication_s),
        communication_s: float(|job| job.communication_s),
        sent_bytes: int(|job| job.sent_bytes),
        alone_step_time_s: known(|job| job.alone_step_time_s),
        slowdown: known(|job| job.slowdown),
        iterations_per_s_per_usd: known(|job| job.iterations_per_s_per_usd),
    });
    timeline.tables.push(table);
}
