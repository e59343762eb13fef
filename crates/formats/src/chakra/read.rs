//! Reads a [`Graph`] from a file.

use super::build::{Builder, Raw};
use super::check;
use super::decode::{AttrView, NodeField, walk_node};
use super::graph::Graph;
use super::reader::Reader;
use super::wire::WireError;
use std::io::Read;
use syncline_diagnostics::{Code, Diagnostics, Result};

impl Graph {
    /// Reads a whole trace. With `replay`, attributes that only a simulation needs may be absent.
    pub fn read<R: Read>(reader: &mut Reader<R>, replay: bool) -> Result<Self> {
        let mut builder = Builder::default();
        let mut problems = Diagnostics::new();
        let file = reader.file().to_owned();
        while let Some((bytes, at)) = reader.next_message()? {
            let mut raw = Raw::default();
            let mut attrs = Vec::new();
            // Without this check, each byte of a file of zeros would become a node.
            let empty = bytes.is_empty().then_some(WireError { at, problem: "a node has no fields" });
            let walked = empty.map_or(Ok(()), Err).and_then(|()| {
                walk_node(bytes, at, |field| {
                    match field {
                        NodeField::Id(id) => raw.id = id,
                        NodeField::Name(name) => raw.name = String::from_utf8_lossy(name).into_owned(),
                        NodeField::Kind(kind) => raw.kind = kind,
                        NodeField::CtrlDep(id) | NodeField::DataDep(id) => raw.deps.push(id),
                        NodeField::Duration(micros) => raw.duration_micros = micros,
                        NodeField::Attr(bytes, at) => attrs.push(AttrView::new(bytes, at)?),
                        NodeField::Inputs(bytes, at) => raw.inputs = Some((bytes, at)),
                        NodeField::Start(_) | NodeField::Outputs(..) => {}
                    }
                    Ok(())
                })
            });
            let built = match walked {
                Ok(()) => builder.push(&mut raw, &attrs, replay),
                Err(error) => Err(Box::new(reader.broken(error))),
            };
            match built {
                Ok(()) => {}
                Err(problem) if problem.code == Code::BadChakra && problem.place.is_some() => {
                    problems.push(*problem);
                    return Err(problems);
                }
                Err(mut problem) => {
                    problem.place =
                        Some(syncline_diagnostics::Place { file: file.clone(), ..Default::default() });
                    problems.push(*problem);
                    if problems.0.len() >= check::MAX_PROBLEMS {
                        return Err(problems);
                    }
                }
            }
        }
        if problems.has_errors() {
            return Err(problems);
        }
        builder.finish(&file)
    }
}
