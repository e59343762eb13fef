//! Chakra execution traces (`.et`): what ASTRA-sim 2 takes as its workload, one file per rank.
//!
//! A file is a sequence of protobuf messages, each behind its length as a varint: one `GlobalMetadata`, then `Node`s
//! until the end. There is no magic number; a gzipped file is recognised by gzip's.
//!
//! - [`schema`]: the messages as plain data: [`Node`], [`Attribute`], [`Value`], [`Metadata`];
//! - [`wire`]: protobuf's wire format, as much of it as the schema needs, in and out;
//! - [`decode`]: messages from bytes, without copying them;
//! - [`reader`]: one file, node by node: [`Reader`];
//! - [`graph`]: the compact form for simulation: [`Graph`], ids densified, successors in CSR form;
//! - `build`: how it is built;
//! - [`check`]: ids, dependencies, circles;
//! - [`process_groups`]: process groups that PyTorch wrote into a trace;
//! - [`load`]: all ranks of a prefix, identical files kept once: [`Traces`];
//! - [`writer`]: files in the dialect of ASTRA-sim's generators: [`Writer`].
//!
//! Source of the schema: mlcommons Chakra `et_def.proto` 1.0.0, identical in ASTRA-sim 2's fork.

mod build;
pub mod check;
pub mod decode;
pub mod graph;
pub mod load;
pub mod process_groups;
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
