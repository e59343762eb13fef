//! Writes files in the dialect of ASTRA-sim 2's generators: uncompressed, metadata version `0.0.4`, packed
//! dependencies, attributes of the kinds that its own scripts write.

use super::schema::{Attribute, CollectiveType, IoInfo, Metadata, Node, NodeKind, Value};
use super::wire::{self, Key};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Writes a trace node by node.
pub struct Writer<W: Write> {
    output: W,
    message: Vec<u8>,
    frame: Vec<u8>,
}

impl Metadata {
    /// The metadata that ASTRA-sim 2's generators write.
    pub fn astra() -> Self {
        Self { version: "0.0.4".to_owned(), attrs: Vec::new() }
    }
}

impl Node {
    /// A node of this kind without dependencies. Its only attribute is `is_cpu_op`, which says that it runs on the
    /// accelerator.
    pub fn new(id: u64, name: impl Into<String>, kind: NodeKind) -> Self {
        Self {
            id,
            name: name.into(),
            kind,
            ctrl_deps: Vec::new(),
            data_deps: Vec::new(),
            start_time_micros: 0,
            duration_micros: 0,
            inputs: None,
            outputs: None,
            attrs: vec![Attribute::new("is_cpu_op", Value::Bool(false))],
        }
    }
    /// A computation that takes this many microseconds.
    pub fn compute(id: u64, name: impl Into<String>, micros: u64) -> Self {
        Self { duration_micros: micros, ..Self::new(id, name, NodeKind::Comp) }
    }
    /// A computation for the roofline model.
    pub fn roofline(id: u64, name: impl Into<String>, num_ops: i64, tensor_size: u64) -> Self {
        Self::new(id, name, NodeKind::Comp)
            .with("num_ops", Value::Int64(num_ops))
            .with("tensor_size", Value::Uint64(tensor_size))
    }
    /// A collective of this many bytes, as ASTRA-sim counts them: for an all-gather, the shard of one rank.
    pub fn collective(id: u64, name: impl Into<String>, kind: CollectiveType, bytes: i64) -> Self {
        Self::new(id, name, NodeKind::CommColl)
            .with("comm_type", Value::Int64(i64::from(kind.number())))
            .with("comm_size", Value::Int64(bytes))
    }
    /// A message from `src` to `dst`, as issued by the sender.
    pub fn send(id: u64, name: impl Into<String>, src: i32, dst: i32, bytes: i64, tag: i32) -> Self {
        Self::point_to_point(id, name, NodeKind::CommSend, [src, dst], bytes, tag)
    }
    /// A message from `src` to `dst`, as expected by the receiver.
    pub fn receive(id: u64, name: impl Into<String>, src: i32, dst: i32, bytes: i64, tag: i32) -> Self {
        Self::point_to_point(id, name, NodeKind::CommRecv, [src, dst], bytes, tag)
    }
    fn point_to_point(
        id: u64,
        name: impl Into<String>,
        kind: NodeKind,
        [src, dst]: [i32; 2],
        bytes: i64,
        tag: i32,
    ) -> Self {
        Self::new(id, name, kind)
            .with("comm_src", Value::Int32(src))
            .with("comm_dst", Value::Int32(dst))
            .with("comm_size", Value::Int64(bytes))
            .with("comm_tag", Value::Int32(tag))
    }
    /// A load from or store to remote memory.
    pub fn memory(id: u64, name: impl Into<String>, kind: NodeKind, bytes: u64) -> Self {
        Self::new(id, name, kind).with("tensor_size", Value::Uint64(bytes))
    }
    /// Adds an attribute, or replaces the one with this name.
    #[must_use]
    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.attrs.retain(|attr| attr.name != name);
        self.attrs.push(Attribute::new(name, value));
        self
    }
    /// Makes the node wait for others.
    #[must_use]
    pub fn after(mut self, ids: &[u64]) -> Self {
        self.data_deps.extend_from_slice(ids);
        self
    }
    /// Makes a collective run in the process group with this name.
    #[must_use]
    pub fn in_group(self, name: &str) -> Self {
        self.with("pg_name", Value::String(name.to_owned()))
    }
    /// Makes a collective run in these dimensions only.
    #[must_use]
    pub fn in_dims(self, dims: &[bool]) -> Self {
        self.with("involved_dim", Value::BoolList(dims.to_vec()))
    }
    /// Makes the node run on the host.
    #[must_use]
    pub fn on_cpu(self) -> Self {
        self.with("is_cpu_op", Value::Bool(true))
    }
}

impl<W: Write> Writer<W> {
    /// Writes the metadata.
    pub fn new(output: W, metadata: &Metadata) -> io::Result<Self> {
        let mut writer = Self { output, message: Vec::new(), frame: Vec::new() };
        put_text(&mut writer.message, 1, &metadata.version);
        for attr in &metadata.attrs {
            put_message(&mut writer.message, 2, |out| put_attribute(out, attr));
        }
        writer.flush_message()?;
        Ok(writer)
    }
    /// Writes one node.
    pub fn write(&mut self, node: &Node) -> io::Result<()> {
        let out = &mut self.message;
        put_number(out, 1, node.id);
        put_text(out, 2, &node.name);
        put_number(out, 3, node.kind.number().into());
        put_packed(out, 4, &node.ctrl_deps);
        put_packed(out, 5, &node.data_deps);
        put_number(out, 6, node.start_time_micros);
        put_number(out, 7, node.duration_micros);
        for (field, info) in [(8, &node.inputs), (9, &node.outputs)] {
            if let Some(info) = info {
                put_message(out, field, |out| put_io_info(out, info));
            }
        }
        for attr in &node.attrs {
            put_message(out, 10, |out| put_attribute(out, attr));
        }
        self.flush_message()
    }
    /// Flushes and returns the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.output.flush()?;
        Ok(self.output)
    }
    fn flush_message(&mut self) -> io::Result<()> {
        self.frame.clear();
        wire::put_varint(&mut self.frame, self.message.len() as u64);
        self.output.write_all(&self.frame)?;
        self.output.write_all(&self.message)?;
        self.message.clear();
        Ok(())
    }
}

/// Writes a rank's trace to a file.
pub fn write_file(path: &Path, metadata: &Metadata, nodes: &[Node]) -> io::Result<()> {
    let mut writer = Writer::new(BufWriter::new(File::create(path)?), metadata)?;
    for node in nodes {
        writer.write(node)?;
    }
    writer.finish()?;
    Ok(())
}

/// Appends a number. 0 is omitted, as proto3 requires of canonical writers.
fn put_number(out: &mut Vec<u8>, field: u32, value: u64) {
    if value != 0 {
        wire::put_key(out, field, Key::Varint);
        wire::put_varint(out, value);
    }
}

fn put_text(out: &mut Vec<u8>, field: u32, text: &str) {
    if !text.is_empty() {
        wire::put_key(out, field, Key::Bytes);
        wire::put_bytes(out, text.as_bytes());
    }
}

fn put_packed(out: &mut Vec<u8>, field: u32, values: &[u64]) {
    if !values.is_empty() {
        put_message(out, field, |out| values.iter().for_each(|&value| wire::put_varint(out, value)));
    }
}

fn put_message(out: &mut Vec<u8>, field: u32, write: impl FnOnce(&mut Vec<u8>)) {
    let mut message = Vec::new();
    write(&mut message);
    wire::put_key(out, field, Key::Bytes);
    wire::put_bytes(out, &message);
}

fn put_io_info(out: &mut Vec<u8>, info: &IoInfo) {
    put_text(out, 1, &info.values);
    put_text(out, 2, &info.shapes);
    put_text(out, 3, &info.types);
}

fn put_attribute(out: &mut Vec<u8>, attr: &Attribute) {
    put_text(out, 1, &attr.name);
    put_text(out, 2, &attr.doc);
    if let Some(value) = &attr.value {
        value.write(out);
    }
}
