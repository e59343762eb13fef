//! Decodes messages. The walkers return fields that borrow from the buffer; [`node`] and [`metadata`] build owned
//! messages from them.

use super::schema::{Attribute, IoInfo, Metadata, Node, NodeKind, Value};
use super::wire::{Cursor, Payload, WireError};

/// One field of a `Node`, borrowed from the buffer.
#[derive(Clone, Copy, Debug)]
pub enum NodeField<'a> {
    /// `id`.
    Id(u64),
    /// `name`; bytes, because foreign names need not be UTF-8.
    Name(&'a [u8]),
    /// `type`, unchecked.
    Kind(i64),
    /// One of `ctrl_deps`.
    CtrlDep(u64),
    /// One of `data_deps`.
    DataDep(u64),
    /// `start_time_micros`.
    Start(u64),
    /// `duration_micros`.
    Duration(u64),
    /// `inputs` and its offset.
    Inputs(&'a [u8], usize),
    /// `outputs` and its offset.
    Outputs(&'a [u8], usize),
    /// One of `attr` and its offset.
    Attr(&'a [u8], usize),
}

/// Calls `each` for the fields of the `Node` in `bytes`. Fields that are not in the schema are skipped.
pub fn walk_node<'a>(
    bytes: &'a [u8],
    at: usize,
    mut each: impl FnMut(NodeField<'a>) -> Result<(), WireError>,
) -> Result<(), WireError> {
    let mut fields = Cursor::new(bytes, at);
    while let Some((number, payload, at)) = fields.field()? {
        match number {
            1 => each(NodeField::Id(payload.varint(at)?))?,
            2 => each(NodeField::Name(payload.bytes(at)?))?,
            3 => each(NodeField::Kind(i64::from(payload.varint(at)? as i32)))?,
            4 => repeated(payload, at, |id| each(NodeField::CtrlDep(id)))?,
            5 => repeated(payload, at, |id| each(NodeField::DataDep(id)))?,
            6 => each(NodeField::Start(payload.varint(at)?))?,
            7 => each(NodeField::Duration(payload.varint(at)?))?,
            8 => each(NodeField::Inputs(payload.bytes(at)?, at))?,
            9 => each(NodeField::Outputs(payload.bytes(at)?, at))?,
            10 => each(NodeField::Attr(payload.bytes(at)?, at))?,
            _ => {}
        }
    }
    Ok(())
}

/// Calls a function for the numbers of a repeated varint field, packed or not.
fn repeated(
    payload: Payload<'_>,
    at: usize,
    mut each: impl FnMut(u64) -> Result<(), WireError>,
) -> Result<(), WireError> {
    if let Payload::Bytes(bytes) = payload {
        let mut packed = Cursor::new(bytes, at);
        while !packed.is_empty() {
            each(packed.varint()?)?;
        }
        Ok(())
    } else {
        each(payload.varint(at)?)
    }
}

/// The name of an attribute and its value, still encoded: field number, payload, offset.
#[derive(Clone, Copy, Debug)]
pub struct AttrView<'a> {
    /// `name`.
    pub name: &'a [u8],
    /// The field that holds the value; if there are several, the last one, as protobuf's `oneof` requires.
    value: Option<(u32, Payload<'a>, usize)>,
}

impl<'a> AttrView<'a> {
    /// Finds the name and value of the `AttributeProto` in `bytes`.
    pub fn new(bytes: &'a [u8], at: usize) -> Result<Self, WireError> {
        let mut view = Self { name: &[], value: None };
        let mut fields = Cursor::new(bytes, at);
        while let Some((number, payload, at)) = fields.field()? {
            match number {
                1 => view.name = payload.bytes(at)?,
                3..=32 => view.value = Some((number, payload, at)),
                _ => {}
            }
        }
        Ok(view)
    }
    /// Decodes the value.
    pub fn value(&self) -> Result<Option<Value>, WireError> {
        match self.value {
            Some((number, payload, at)) => Value::read(number, payload, at),
            None => Ok(None),
        }
    }
}

fn attribute(bytes: &[u8], at: usize) -> Result<Attribute, WireError> {
    let mut attribute = Attribute { name: String::new(), doc: String::new(), value: None };
    let mut fields = Cursor::new(bytes, at);
    while let Some((number, payload, at)) = fields.field()? {
        match number {
            1 => attribute.name = payload.text(at)?.to_owned(),
            2 => attribute.doc = payload.text(at)?.to_owned(),
            _ => {
                if let Some(value) = Value::read(number, payload, at)? {
                    attribute.value = Some(value);
                }
            }
        }
    }
    Ok(attribute)
}

pub(super) fn io_info(bytes: &[u8], at: usize) -> Result<IoInfo, WireError> {
    let mut info = IoInfo::default();
    let mut fields = Cursor::new(bytes, at);
    while let Some((number, payload, at)) = fields.field()? {
        match number {
            1 => info.values = payload.text(at)?.to_owned(),
            2 => info.shapes = payload.text(at)?.to_owned(),
            3 => info.types = payload.text(at)?.to_owned(),
            _ => {}
        }
    }
    Ok(info)
}

/// Decodes the `GlobalMetadata` in `bytes`, which start at offset `at` of the file.
pub fn metadata(bytes: &[u8], at: usize) -> Result<Metadata, WireError> {
    let mut metadata = Metadata::default();
    let mut fields = Cursor::new(bytes, at);
    while let Some((number, payload, at)) = fields.field()? {
        match number {
            1 => metadata.version = payload.text(at)?.to_owned(),
            2 => metadata.attrs.push(attribute(payload.bytes(at)?, at)?),
            _ => {}
        }
    }
    Ok(metadata)
}

/// Decodes the `Node` in `bytes`, which start at offset `at` of the file.
pub fn node(bytes: &[u8], at: usize) -> Result<Node, WireError> {
    let mut node = Node {
        id: 0,
        name: String::new(),
        kind: NodeKind::Invalid,
        ctrl_deps: Vec::new(),
        data_deps: Vec::new(),
        start_time_micros: 0,
        duration_micros: 0,
        inputs: None,
        outputs: None,
        attrs: Vec::new(),
    };
    walk_node(bytes, at, |field| {
        match field {
            NodeField::Id(id) => node.id = id,
            NodeField::Name(name) => node.name = String::from_utf8_lossy(name).into_owned(),
            NodeField::Kind(number) => node.kind = kind(number, at)?,
            NodeField::CtrlDep(id) => node.ctrl_deps.push(id),
            NodeField::DataDep(id) => node.data_deps.push(id),
            NodeField::Start(micros) => node.start_time_micros = micros,
            NodeField::Duration(micros) => node.duration_micros = micros,
            NodeField::Inputs(bytes, at) => node.inputs = Some(io_info(bytes, at)?),
            NodeField::Outputs(bytes, at) => node.outputs = Some(io_info(bytes, at)?),
            NodeField::Attr(bytes, at) => node.attrs.push(attribute(bytes, at)?),
        }
        Ok(())
    })?;
    Ok(node)
}

/// The node type with this number.
pub fn kind(number: i64, at: usize) -> Result<NodeKind, WireError> {
    NodeKind::from_number(number).ok_or(WireError { at, problem: "a node has an unknown type" })
}
