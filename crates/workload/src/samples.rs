//! Layers and divisions that tests of several modules use.

use crate::division::{Division, Group};
use crate::layer::{Layer, Work};
use crate::role::RoleId;

use crate::types::Types;
use syncline_units::{DataType, Time};

/// A layer with 100 parameters, 10 inputs and 20 outputs, each pass of which takes 8 ns.
pub(crate) fn layer(name: &str) -> Layer {
    let work = Work::Time(Time(8_000));
    Layer {
        name: name.to_owned(),
        forward: work.clone(),
        input_grad: work.clone(),
        weight_grad: work,
        parameters: 100,
        inputs: 10,
        outputs: 20,
        ..Layer::default()
    }
}

/// A division over `degree` ranks and `copies` copies, with all elements of `element` bytes.
pub(crate) fn by(degree: u32, copies: u32, element: u64) -> Division {
    let of_size = DataType::ALL.iter().find(|each| each.bytes() == element);
    let types = Types::uniform(*of_size.expect("a type has so many bytes"));
    let group = |role, size| Group { role: RoleId(role), size };
    Division::plain(group(0, degree), group(1, copies), types)
}
