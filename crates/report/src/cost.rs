//! What the fabric costs, and the training iterations per second for each dollar and watt.

use syncline_diagnostics::Result;
use syncline_fabric::cost::{Bill, Item, bill};
use syncline_prepare::Prepared;
use syncline_scenario::{Fabric as Spec, PriceList};
use syncline_timeline::{Summary, Table, tables};

/// The bill of the fabric of a resolved scenario.
///
/// # Errors
/// As [`syncline_fabric::cost::bill`]; also everything that is impossible about the fabric.
pub fn cost(fabric: &Spec, prices: &PriceList) -> Result<Bill> {
    bill(&syncline_prepare::network::fabric(fabric, 0)?, prices)
}

/// The table of the bill's items.
pub fn table(bill: &Bill) -> Table {
    let items = &bill.items;
    let text = |of: fn(&Item) -> String| items.iter().map(of).collect::<Vec<String>>();
    Table::from(tables::Costs {
        component: text(|item| item.component.name().to_owned()),
        part: text(|item| item.part.clone()),
        description: text(|item| item.description.clone()),
        quantity: items.iter().map(|item| item.quantity as i64).collect(),
        unit_usd: items.iter().map(|item| item.unit_usd).collect(),
        cost_usd: items.iter().map(|item| item.usd).collect(),
        power_w: items.iter().map(|item| item.watts).collect(),
    })
}

/// Writes into the summary what the fabric costs, and the training iterations per second for each dollar and watt.
pub fn value(summary: &mut Summary, prepared: &Prepared) {
    let Some(bill) = &prepared.bill else { return };
    summary.prices = Some(bill.name.clone());
    summary.cost_usd = Some(bill.usd);
    summary.cost_per_npu_usd = Some(bill.usd_per_npu());
    summary.power_w = bill.watts;
    summary.notes.extend(bill.notes.iter().map(|note| format!("cost: {note}")));
    for job in &mut summary.jobs {
        if job.iterations > 0 {
            job.iterations_per_s_per_usd = each(job.step_time_s, Some(bill.usd));
            job.iterations_per_s_per_w = each(job.step_time_s, bill.watts);
        }
    }
    // With several jobs, each has its own steps. A run without a complete step has no rate of steps.
    if summary.jobs.is_empty() && summary.iterations > 0 {
        summary.iterations_per_s_per_usd = each(summary.step_time_s, Some(bill.usd));
        summary.iterations_per_s_per_w = each(summary.step_time_s, bill.watts);
    }
}

/// Training iterations a second for each of `amount` dollars or watts; nothing where no time passes, or nothing is paid
/// for.
fn each(step_time_s: f64, amount: Option<f64>) -> Option<f64> {
    amount.filter(|&amount| amount > 0.0 && step_time_s > 0.0).map(|amount| 1.0 / step_time_s / amount)
}
