//! Models as graphs of operators, each of which may run on other servers than its neighbours.
//!
//! Layers on a mesh divide a model in a regular way. Here each operator has its own division and its own servers, as in
//! FlexFlow (Jia, Zaharia, Aiken 2019), whose search spaces are called SOAP: samples, operators, attributes, parameters.
//!
//! - [`graph`]: operators, the tensors between them, and the ways in which each may be divided;
//! - [`strategy`]: which of these ways each operator takes, and on which servers;
//! - [`transfers`]: what servers send each other for two neighbours, given their divisions;
//! - [`tasks`]: the task graph of each server;
//! - [`file`](mod@file): a model and its strategy as a file.

pub mod file;
pub mod graph;
pub mod strategy;
pub mod tasks;
pub mod transfers;

pub use file::OperatorFile;
pub use graph::{Choice, Operator, OperatorGraph, Reads, Server};
pub use strategy::{Placed, Strategy};
pub use transfers::{Piece, PieceMap, Split};
