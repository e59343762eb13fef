//! Checks and builds the scenario's compute model.

use syncline_compute::{
    ComputeModel, Curve, Measured as Kernels, Power, Roofline, Systolic, Table, Throughput, Timing, systolic,
    table,
};
use syncline_diagnostics::Diagnostic;
use syncline_scenario::{Compute, Dataflow, Efficiency, Measured};

/// Builds the compute model and checks its parameters.
///
/// # Errors
/// The first parameter that no accelerator can have.
pub fn model(compute: &Compute) -> Result<ComputeModel, Diagnostic> {
    let (timing, power) = match compute {
        Compute::Given { compute_power } => (Timing::Given, compute_power),
        Compute::Roofline { accelerator, peak, peaks, memory, efficiency, compute_power } => {
            let roofline =
                Roofline::new(accelerator.clone(), *peak, peaks.clone(), *memory, curve(efficiency)?)?;
            (Timing::Roofline(roofline), compute_power)
        }
        Compute::Systolic { rows, columns, clock, memory, dataflow, vector, delay, compute_power } => {
            let array = Systolic {
                rows: *rows,
                columns: *columns,
                clock: *clock,
                memory: *memory,
                dataflow: match dataflow {
                    Dataflow::WeightStationary => systolic::Dataflow::WeightStationary,
                    Dataflow::OutputStationary => systolic::Dataflow::OutputStationary,
                    Dataflow::InputStationary => systolic::Dataflow::InputStationary,
                },
                vector: *vector,
                delay: *delay,
            };
            (Timing::Systolic(array.check()?), compute_power)
        }
        Compute::Throughput { rate, memory, compute_power } => {
            (Timing::Throughput(Throughput::new(*rate, *memory)?), compute_power)
        }
        Compute::Table { name, layers, compute_power } => {
            let layers = layers.iter().map(|(layer, times)| (layer.clone(), measured(*times))).collect();
            (Timing::Table(Table { name: name.clone(), layers }), compute_power)
        }
        Compute::Measured { accelerator, data_type, peak, models, memory_ratio, compute_power } => {
            let kernels = Kernels::new(models, accelerator, *data_type, *peak)?;
            let kernels = kernels.with_memory(accelerator.clone(), *memory_ratio)?;
            (Timing::Measured(Box::new(kernels)), compute_power)
        }
    };
    Ok(ComputeModel { timing, power: Power::new(*power)? })
}

fn curve(efficiency: &Efficiency) -> Result<Curve, Diagnostic> {
    match efficiency {
        Efficiency::Constant(efficiency) => Curve::constant(*efficiency),
        Efficiency::Curve(points) => {
            Curve::new(&points.iter().map(|point| (point.flop, point.efficiency)).collect::<Vec<_>>())
        }
    }
}

const fn measured(times: Measured) -> table::Measured {
    let Measured { forward, input_grad, weight_grad, update } = times;
    table::Measured { forward, input_grad, weight_grad, update }
}
