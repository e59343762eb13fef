//! Chakra execution traces (`.et`): the workloads of ASTRA-sim 2, one file per rank.
//!
//! A file is a sequence of protobuf messages, each preceded by its length as a varint: one `GlobalMetadata`, then
//! `Node`s until the end. There is no magic number; a gzipped file is recognised by gzip's magic number.
//!
//! - [`schema`]: the messages as plain data: [`Node`], [`Attribute`], [`Value`], [`Metadata`];
//! - [`wire`]: the part of protobuf's wire format that the schema needs, in and out;
//! - [`decode`]: messages from bytes, without copying them;
//! - [`reader`]: one file, node by node: [`Reader`];
//! - [`graph`]: the compact form for simulation: [`Graph`], with dense ids and successors in CSR form;
//! - `read`: reads graphs from files; `build`: builds them;
//! - [`check`]: checks ids, dependencies, circles;
//! - [`process_groups`]: process groups that PyTorch writes into traces;
//! - [`load`]: all ranks of a prefix, with identical files stored once: [`Traces`];
//! - [`writer`]: files in the dialect of ASTRA-sim's generators: [`Writer`].
//!
//! Source of the schema: mlcommons Chakra `et_def.proto` 1.0.0, identical in ASTRA-sim 2's fork.

mod build;
pub mod check;
pub mod decode;
pub mod graph;
pub mod load;
pub mod process_groups;
mod read;
pub mod reader;
pub mod schema;
pub mod wire;
pub mod writer;

pub use graph::{Collective, Compute, Graph, Op, PointToPoint, Work};
pub use load::{Loading, Traces};
pub use process_groups::ProcessGroup;
pub use reader::Reader;
pub use schema::{Attribute, CollectiveType, IoInfo, Metadata, Node, NodeKind, Value};
pub use writer::{Writer, write_file};
