//! A table of measured times, by layer and pass.
//!
//! Its times replace the operations of a workload's layers *before* these are divided among ranks, so that a measured
//! time is divided in the same way as a given time. Times that the workload gives stay unchanged.

use std::collections::BTreeMap;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_units::Time;
use syncline_workload::layer::Layer;
use syncline_workload::{Part, Work};

/// Measured times of one layer; `None` for a pass that was not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Measured {
    /// Forward pass.
    pub forward: Option<Time>,
    /// Gradient with respect to the input.
    pub input_grad: Option<Time>,
    /// Gradient with respect to the parameters.
    pub weight_grad: Option<Time>,
    /// Parameter update.
    pub update: Option<Time>,
}

/// Measured times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Name of the table and of what was measured, for labels.
    pub name: String,
    /// Times by layer name.
    pub layers: BTreeMap<String, Measured>,
}

impl Table {
    /// Replaces operations with the table's times.
    ///
    /// # Errors
    /// Every layer and pass that has operations but no time in the table.
    pub fn apply(&self, layers: &mut [Layer]) -> Result<()> {
        let mut errors = Diagnostics::new();
        for layer in layers {
            let passes: [(Part, &mut Work); 4] = [
                (Part::Forward, &mut layer.forward),
                (Part::InputGrad, &mut layer.input_grad),
                (Part::WeightGrad, &mut layer.weight_grad),
                (Part::Update, &mut layer.update),
            ];
            if passes.iter().all(|(_, work)| !matches!(work, Work::Ops { .. })) {
                continue;
            }
            let Some(measured) = self.layers.get(&layer.name) else {
                errors.push(
                    Diagnostic::error(
                        Code::BadWorkload,
                        "the table has no times for a layer of the workload",
                    )
                    .key("compute.layers")
                    .one_of(&layer.name, self.layers.keys().map(String::as_str))
                    .help("measure the layer and add its passes, or give its times in the workload"),
                );
                continue;
            };
            for (part, work) in passes.into_iter().filter(|(_, work)| matches!(work, Work::Ops { .. })) {
                let time = match part {
                    Part::Forward => measured.forward,
                    Part::InputGrad => measured.input_grad,
                    Part::WeightGrad => measured.weight_grad,
                    Part::Update | Part::Other => measured.update,
                };
                match time {
                    Some(time) => *work = Work::Time(time),
                    None => errors.push(
                        Diagnostic::error(
                            Code::BadWorkload,
                            format!(
                                "the table has no time for the {} of layer `{}`",
                                part.name(),
                                layer.name
                            ),
                        )
                        .key("compute.layers")
                        .help("add it; if the pass takes no time, write 0s"),
                    ),
                }
            }
        }
        errors.into_result().map(|_| ())
    }

    /// The error for operations of a job without layers, which a table cannot time.
    pub(crate) fn refuse(&self) -> Diagnostic {
        Diagnostic::error(
            Code::BadWorkload,
            "the workload gives operations, but a table of times only times the layers of a model",
        )
        .key("compute")
        .found(self.label())
        .allowed("a compute model such as `roofline`, or a workload of layers")
    }

    /// The model in words.
    pub fn label(&self) -> String {
        format!("measured ({})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syncline_units::{Bytes, Flops};

    fn ops() -> Work {
        Work::Ops { flop: Flops(1), memory: Bytes(1), products: Box::default(), data_type: None }
    }
    fn table() -> Table {
        let measured = Measured { forward: Some(Time(5)), weight_grad: Some(Time(7)), ..Measured::default() };
        Table { name: "t.yaml".to_owned(), layers: BTreeMap::from([("conv1".to_owned(), measured)]) }
    }
    fn layer(name: &str, input_grad: Work) -> Layer {
        Layer { name: name.to_owned(), forward: ops(), input_grad, weight_grad: ops(), ..Layer::default() }
    }

    #[test]
    fn operations_become_times_and_times_stay() {
        let mut layers = [layer("conv1", Work::Time(Time(3)))];
        table().apply(&mut layers).unwrap();
        let [layer] = layers;
        assert_eq!(layer.forward, Work::Time(Time(5)));
        assert_eq!(layer.input_grad, Work::Time(Time(3)));
        assert_eq!(layer.weight_grad, Work::Time(Time(7)));
        assert_eq!(layer.update, Work::None);
    }

    #[test]
    fn a_layer_that_needs_no_table_need_not_be_in_it() {
        let given = Layer { name: "pool".to_owned(), forward: Work::Time(Time(1)), ..Layer::default() };
        assert!(table().apply(&mut [given]).is_ok());
    }

    #[test]
    fn all_missing_times_are_reported_with_the_nearest_name() {
        let errors = table().apply(&mut [layer("conv_1", Work::None), layer("conv1", ops())]).unwrap_err();
        let text = errors.to_string();
        assert!(text.contains("did you mean `conv1`?"), "{text}");
        assert!(text.contains("the input grad of layer `conv1`"), "{text}");
    }
}
