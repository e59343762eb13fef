//! The XML reader: checks elements and attributes one by one. It accepts no document type, no custom entities, and at
//! most four levels. Anything that MSCCL's runtimes ignore gets a warning.

use super::program::{COLLECTIVES, Chunks, Gpu, Program, Space, Step, StepKind, ThreadBlock};
use crate::astra2::Source;
use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};
use std::collections::BTreeMap;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_plan::custom::{MscclEntry, Protocol};
use syncline_units::CollectiveKind;

/// Most GPUs.
pub const MAX_GPUS: u32 = 1 << 14;
/// Most chunks that a buffer is cut into.
pub const MAX_CHUNKS: u32 = 1 << 20;
/// Most thread blocks of a GPU.
pub const MAX_BLOCKS: u32 = 1 << 14;
/// Most steps of a program.
pub const MAX_STEPS: usize = 1 << 22;

/// Elements from the outermost inwards: name, number of required attributes, and known attributes, the required ones
/// first.
const ELEMENTS: [(&str, usize, &[&str]); 4] = [
    (
        "algo",
        3,
        &[
            "ngpus",
            "nchunksperloop",
            "coll",
            "name",
            "proto",
            "nchannels",
            "inplace",
            "outofplace",
            "minBytes",
            "maxBytes",
            "nthreadblocks",
            "redop",
        ],
    ),
    ("gpu", 1, &["id", "i_chunks", "o_chunks", "s_chunks"]),
    ("tb", 4, &["id", "send", "recv", "chan"]),
    ("step", 2, &["s", "type", "srcbuf", "srcoff", "dstbuf", "dstoff", "cnt", "depid", "deps", "hasdep"]),
];

/// A child of `gpu` other than its thread blocks, written by SCCL and TE-CCL.
const COPY: (&str, usize, &[&str]) = ("copy", 2, &["i_off", "o_off"]);
/// Most distinct attributes and elements that get a warning.
const MAX_IGNORED: usize = 20;

/// Reads a text. The diagnostics are warnings about attributes and elements that are ignored, as MSCCL's runtimes
/// ignore them.
///
/// # Errors
/// `BadSyntax` if it is not XML, `BadMsccl` if it is not a program; both with the line.
pub fn parse(source: &Source) -> Result<(Program, Diagnostics)> {
    let mut reader = quick_xml::Reader::from_str(source.text());
    let mut builder = Builder {
        source,
        line: 1,
        counted: 0,
        depth: 0,
        skipped: 0,
        program: None,
        done: false,
        steps: 0,
        ignored: BTreeMap::new(),
    };
    loop {
        let event = reader.read_event();
        // An event is returned at its end, so its line is the line of its end.
        builder.count_to(usize::try_from(reader.buffer_position()).unwrap_or(usize::MAX));
        match event {
            Err(error) => {
                return Err(builder.syntax(format!("the file is not well-formed XML: {error}")).into());
            }
            Ok(Event::Eof) => break,
            Ok(Event::Start(_)) if builder.skipped > 0 => builder.skipped += 1,
            Ok(Event::Empty(_)) if builder.skipped > 0 => {}
            Ok(Event::End(_)) if builder.skipped > 0 => builder.skipped -= 1,
            Ok(Event::Start(element)) => {
                if builder.open(&element).map_err(|error| *error)? {
                    builder.depth += 1;
                } else {
                    builder.skipped = 1;
                }
            }
            Ok(Event::Empty(element)) => {
                let known = builder.open(&element).map_err(|error| *error)?;
                builder.done |= known && builder.depth == 0;
            }
            Ok(Event::End(_)) => {
                builder.depth = builder.depth.saturating_sub(1);
                builder.done |= builder.depth == 0;
            }
            Ok(Event::DocType(_)) => return Err(builder.syntax("a document type is not allowed").into()),
            Ok(Event::GeneralRef(_)) => return Err(builder.syntax("an entity is not allowed here").into()),
            Ok(Event::CData(_) | Event::PI(_)) => {
                return Err(builder.syntax("only elements and comments are allowed").into());
            }
            Ok(Event::Text(text)) => {
                if !text.trim().is_empty() {
                    return Err(builder.syntax("text between elements is not allowed").into());
                }
            }
            Ok(Event::Comment(_) | Event::Decl(_)) => {}
        }
    }
    if builder.depth + builder.skipped > 0 {
        return Err(builder.syntax("the file ends within an element").into());
    }
    let Some(program) = builder.program.take() else {
        return Err(builder.syntax("the file is empty: an MSCCL program is an `algo` element").into());
    };
    let warnings = std::mem::take(&mut builder.ignored).into_values().map(|(first, more)| match more {
        0 => first,
        _ => first.note(format!("{more} more of this kind")),
    });
    Ok((finish(program, source)?, Diagnostics(warnings.collect())))
}

type Parsed<T> = std::result::Result<T, Box<Diagnostic>>;

struct Builder<'a> {
    source: &'a Source,
    line: u32,
    /// Number of bytes whose line ends have been counted.
    counted: usize,
    depth: usize,
    program: Option<Draft>,
    /// Number of open elements from an ignored one inwards.
    skipped: usize,
    /// Whether the outermost element has ended.
    done: bool,
    steps: usize,
    /// By element and name: the first warning about an ignored attribute or element, and the number of further ones.
    ignored: BTreeMap<(usize, String), (Diagnostic, u64)>,
}

/// A program whose ids are not in order yet.
struct Draft {
    program: Program,
    line: u32,
    gpus: Vec<DraftGpu>,
    count: u32,
}

/// A GPU with its thread blocks in the order of the file.
struct DraftGpu {
    id: u32,
    line: u32,
    gpu: Gpu,
    /// Id and line of each thread block.
    blocks: Vec<(u32, u32)>,
}

impl Builder<'_> {
    fn count_to(&mut self, position: usize) {
        let passed = self.source.text().as_bytes().get(self.counted..position).unwrap_or_default();
        self.line = self.line.saturating_add(passed.iter().filter(|&&byte| byte == b'\n').count() as u32);
        self.counted = position.max(self.counted);
    }

    fn syntax(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(Code::BadSyntax, message).in_place(self.source.place(self.line.into(), 0, 0))
    }

    fn wrong(&self, key: &str, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(Code::BadMsccl, message)
            .in_place(self.source.place(self.line.into(), 0, 0))
            .key(key)
    }

    /// Notes an ignored attribute or element at `depth`.
    fn ignore(&mut self, what: &str, name: &str, known: &[&str]) {
        let name = short(name);
        if self.ignored.len() >= MAX_IGNORED {
            return;
        }
        if let Some((_, more)) = self.ignored.get_mut(&(self.depth, name.clone())) {
            *more += 1;
            return;
        }
        let warning = Diagnostic::warning(
            Code::MscclIgnored,
            format!("the {what} {name} has no effect: MSCCL's runtimes ignore it"),
        )
        .in_place(self.source.place(self.line.into(), 0, 0))
        .key(&name)
        .one_of(&name, known.iter().copied());
        self.ignored.insert((self.depth, name), (warning, 0));
    }

    /// Handles the start of an element. Returns `false` if it is ignored with all its content.
    fn open(&mut self, element: &BytesStart<'_>) -> Parsed<bool> {
        let name = element.name();
        let name: &str = name.as_ref();
        let expected = ELEMENTS.get(self.depth);
        if self.depth > 0 && !self.done && !ELEMENTS.iter().any(|(known, ..)| *known == name) {
            if self.depth == 2 && name == COPY.0 {
                self.copy(element)?;
            } else {
                let inside = expected.map(|(expected, ..)| *expected);
                self.ignore("element", name, inside.as_slice());
            }
            return Ok(false);
        }
        let Some(&(_, required, known)) = expected.filter(|(expected, ..)| *expected == name && !self.done)
        else {
            let error = self.wrong(&short(name), "an element is not allowed here");
            return Err(Box::new(match expected.filter(|_| !self.done) {
                Some((expected, ..)) => error.one_of(&short(name), [*expected]),
                None if self.done => error.allowed("one `algo` element"),
                None => error.allowed("nothing within a `step`"),
            }));
        };
        let fields = self.fields(element, known)?;
        let fields = Fields { builder: self, known, values: fields };
        for name in &known[..required] {
            if fields.text(name).is_none() {
                return Err(Box::new(self.wrong(name, "an attribute is missing")));
            }
        }
        match self.depth {
            0 => {
                let draft = fields.program()?;
                self.program = Some(draft);
            }
            1 => {
                let (id, scratch) =
                    (fields.number("id", MAX_GPUS)?, fields.optional("s_chunks", MAX_CHUNKS)?);
                // Read only to check them.
                for name in ["i_chunks", "o_chunks"] {
                    fields.optional(name, MAX_CHUNKS)?;
                }
                let gpu = Gpu { scratch: scratch.unwrap_or(0), copies: Vec::new(), blocks: Vec::new() };
                let line = self.line;
                if let Some(draft) = &mut self.program {
                    if draft.gpus.len() as u32 >= draft.count {
                        let found = draft.count;
                        let error = self.wrong("gpu", "there are more GPUs than `ngpus` says");
                        return Err(Box::new(error.allowed(format!("{found} GPUs"))));
                    }
                    draft.gpus.push(DraftGpu { id, line, gpu, blocks: Vec::new() });
                }
            }
            2 => {
                let id = fields.number("id", MAX_BLOCKS)?;
                let block = ThreadBlock {
                    send: fields.peer("send")?,
                    recv: fields.peer("recv")?,
                    channel: fields.number("chan", MAX_BLOCKS)?,
                    steps: Vec::new(),
                };
                let line = self.line;
                if let Some(draft) = self.program.as_mut().and_then(|draft| draft.gpus.last_mut()) {
                    draft.gpu.blocks.push(block);
                    draft.blocks.push((id, line));
                }
            }
            _ => {
                let (number, step) = (fields.number("s", u32::MAX)?, fields.step()?);
                self.steps += 1;
                if self.steps > MAX_STEPS {
                    return Err(Box::new(
                        self.wrong("step", format!("there are more than {MAX_STEPS} steps")),
                    ));
                }
                let gpu = self.program.as_mut().and_then(|draft| draft.gpus.last_mut());
                if let Some(block) = gpu.and_then(|draft| draft.gpu.blocks.last_mut()) {
                    let next = block.steps.len();
                    if number as usize != next {
                        let error = self.wrong("s", "steps are not numbered in order");
                        return Err(Box::new(error.found(number.to_string()).allowed(next.to_string())));
                    }
                    block.steps.push(step);
                }
            }
        }
        Ok(true)
    }

    /// Handles a `copy` of a GPU: a chunk of its input that is in its output before any step.
    fn copy(&mut self, element: &BytesStart<'_>) -> Parsed<()> {
        let (_, required, known) = COPY;
        let values = self.fields(element, known)?;
        let fields = Fields { builder: self, known, values };
        for name in &known[..required] {
            if fields.text(name).is_none() {
                return Err(Box::new(self.wrong(name, "an attribute is missing")));
            }
        }
        let (from, to) = (fields.number("i_off", MAX_CHUNKS)?, fields.number("o_off", MAX_CHUNKS)?);
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err(Box::new(self.wrong("copy", format!("there are more than {MAX_STEPS} steps"))));
        }
        let line = self.line;
        if let Some(draft) = self.program.as_mut().and_then(|draft| draft.gpus.last_mut()) {
            draft.gpu.copies.push(Step {
                kind: StepKind::Copy,
                source: Chunks { buffer: Space::Input, offset: from },
                target: Chunks { buffer: Space::Output, offset: to },
                count: 1,
                after: None,
                awaited: true,
                line,
            });
        }
        Ok(())
    }

    /// The attributes of an element, in the order of `known`.
    fn fields(&mut self, element: &BytesStart<'_>, known: &[&str]) -> Parsed<Vec<Option<String>>> {
        let mut values = vec![None; known.len()];
        for attribute in element.attributes() {
            let attribute = attribute
                .map_err(|error| Box::new(self.syntax(format!("an attribute is malformed: {error}"))))?;
            let name: &str = attribute.key.as_ref();
            let Some(index) = known.iter().position(|known| *known == name) else {
                self.ignore("attribute", name, known);
                continue;
            };
            let value = attribute.normalized_value(XmlVersion::Implicit1_0).map_err(|error| {
                Box::new(self.syntax(format!("the value of `{name}` is malformed: {error}")))
            })?;
            values[index] = Some(value.into_owned());
        }
        Ok(values)
    }
}

/// The attributes of an element.
struct Fields<'a> {
    builder: &'a Builder<'a>,
    known: &'a [&'a str],
    values: Vec<Option<String>>,
}

impl Fields<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        let index = self.known.iter().position(|known| *known == name)?;
        self.values.get(index)?.as_deref()
    }

    fn wrong(&self, name: &str, message: &str, allowed: impl Into<String>) -> Box<Diagnostic> {
        let found = short(self.text(name).unwrap_or_default());
        Box::new(self.builder.wrong(name, message).found(found).allowed(allowed))
    }

    /// A whole number from 0 to `most`; `None` if absent.
    fn optional(&self, name: &str, most: u32) -> Parsed<Option<u32>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match text.trim().parse::<u32>() {
            Ok(number) if number <= most => Ok(Some(number)),
            _ => Err(self.wrong(name, "a whole number is expected", format!("0 to {most}"))),
        }
    }

    fn number(&self, name: &str, most: u32) -> Parsed<u32> {
        let number = self.optional(name, most)?;
        number.ok_or_else(|| Box::new(self.builder.wrong(name, "an attribute is missing")))
    }

    /// A number of bytes; 0 if absent.
    fn bytes(&self, name: &str) -> Parsed<u64> {
        let Some(text) = self.text(name) else { return Ok(0) };
        let number = text.trim().parse::<i64>().ok().and_then(|number| u64::try_from(number).ok());
        number.ok_or_else(|| self.wrong(name, "a whole number is expected", "0 to 2^63 - 1"))
    }

    /// The number of a GPU, or -1 for none.
    fn peer(&self, name: &str) -> Parsed<Option<u32>> {
        if self.text(name).is_some_and(|text| text.trim() == "-1") {
            return Ok(None);
        }
        self.number(name, MAX_GPUS).map(Some)
    }

    fn flag(&self, name: &str) -> Parsed<Option<bool>> {
        match self.text(name).map(str::trim) {
            None => Ok(None),
            Some("0") => Ok(Some(false)),
            Some("1") => Ok(Some(true)),
            Some(_) => Err(self.wrong(name, "0 or 1 is expected", "0, 1")),
        }
    }

    fn program(&self) -> Parsed<Draft> {
        let count = self.number("ngpus", MAX_GPUS)?;
        let chunks = self.number("nchunksperloop", MAX_CHUNKS)?;
        let coll = self.text("coll").unwrap_or_default();
        let Some((kind, _)) = COLLECTIVES.iter().find(|(_, names)| names.contains(&coll)) else {
            let names = COLLECTIVES.iter().filter_map(|(_, names)| names.first().copied());
            let error = self.builder.wrong("coll", "unsupported collective").one_of(&short(coll), names);
            return Err(Box::new(error));
        };
        let in_place = self.flag("inplace")?.unwrap_or(false);
        let out_of_place = self.flag("outofplace")?.unwrap_or(!in_place);
        let word = self.text("proto").unwrap_or(Protocol::default().name());
        let Some(&protocol) = Protocol::ALL.iter().find(|protocol| protocol.name() == word) else {
            let names = Protocol::ALL.map(Protocol::name);
            return Err(Box::new(
                self.builder.wrong("proto", "unknown protocol").one_of(&short(word), names),
            ));
        };
        let (min_bytes, max_bytes) = (self.bytes("minBytes")?, self.bytes("maxBytes")?);
        if max_bytes > 0 && max_bytes < min_bytes {
            let allowed = format!("{min_bytes} (`minBytes`) or more, or 0 for no limit");
            return Err(self.wrong("maxBytes", "the program can never be chosen", allowed));
        }
        self.optional("nchannels", MAX_BLOCKS)?;
        if count == 0 || chunks == 0 {
            let name = if count == 0 { "ngpus" } else { "nchunksperloop" };
            return Err(self.wrong(name, "must be at least 1", "1 or more"));
        }
        if kind.has_blocks() && !chunks.is_multiple_of(count) {
            let allowed = format!("a multiple of the {count} GPUs");
            return Err(self.wrong(
                "nchunksperloop",
                "every GPU's share must be a whole number of chunks",
                allowed,
            ));
        }
        if *kind == CollectiveKind::AllToAll && in_place {
            return Err(self.wrong("inplace", "an all-to-all cannot be in place", "0"));
        }
        let name = self.text("name").map(str::trim).filter(|name| !name.is_empty()).unwrap_or("msccl");
        let program = Program {
            name: name.to_owned(),
            entry: MscclEntry { protocol, min_bytes, max_bytes, in_place, out_of_place },
            kind: *kind,
            in_place,
            chunks,
            gpus: Vec::new(),
        };
        Ok(Draft { program, line: self.builder.line, gpus: Vec::new(), count })
    }

    fn step(&self) -> Parsed<Step> {
        let word = self.text("type").unwrap_or_default();
        let Some(&kind) = StepKind::ALL.iter().find(|kind| kind.name() == word) else {
            let names = StepKind::ALL.iter().map(|kind| kind.name());
            return Err(Box::new(
                self.builder.wrong("type", "unknown type of step").one_of(&short(word), names),
            ));
        };
        let unused = Chunks { buffer: Space::Input, offset: 0 };
        let source = if kind.has_source() { self.chunks("srcbuf", "srcoff")? } else { unused };
        let target = if kind.has_target() { self.chunks("dstbuf", "dstoff")? } else { unused };
        let count = if kind == StepKind::Nop { 0 } else { self.number("cnt", MAX_CHUNKS)? };
        let after = match self.text("depid").map(str::trim) {
            None | Some("-1") => None,
            Some(_) => Some((self.number("depid", MAX_BLOCKS)?, self.number("deps", u32::MAX)?)),
        };
        // Without the flag, other steps may wait for the step.
        let awaited = self.flag("hasdep")?.unwrap_or(true);
        Ok(Step { kind, source, target, count, after, awaited, line: self.builder.line })
    }

    fn chunks(&self, buffer: &str, offset: &str) -> Parsed<Chunks> {
        let word = self.text(buffer).unwrap_or_default();
        let Some(&space) = Space::ALL.iter().find(|space| space.name() == word) else {
            let names = Space::ALL.iter().map(|space| space.name());
            return Err(Box::new(self.builder.wrong(buffer, "unknown buffer").one_of(&short(word), names)));
        };
        Ok(Chunks { buffer: space, offset: self.number(offset, MAX_CHUNKS)? })
    }
}

/// Sorts GPUs and thread blocks by their ids, which must be 0, 1, 2, ...
fn finish(mut draft: Draft, source: &Source) -> Result<Program> {
    let wrong = |line: u32, key: &str, message: String| {
        Diagnostic::error(Code::BadMsccl, message).in_place(source.place(line.into(), 0, 0)).key(key)
    };
    if draft.gpus.len() as u32 != draft.count {
        let error = wrong(draft.line, "ngpus", "there are fewer GPUs than `ngpus` says".to_owned());
        return Err(error.found(draft.gpus.len().to_string()).allowed(draft.count.to_string()).into());
    }
    draft.gpus.sort_by_key(|gpu| gpu.id);
    for (index, DraftGpu { id, line, mut gpu, blocks: ids }) in (0..).zip(draft.gpus) {
        if id != index {
            let message =
                format!("GPUs are numbered from 0 without gaps, each once, but there is no GPU {index}");
            return Err(wrong(line, "id", message).found(id.to_string()).into());
        }
        let mut blocks: Vec<((u32, u32), ThreadBlock)> =
            ids.into_iter().zip(std::mem::take(&mut gpu.blocks)).collect();
        blocks.sort_by_key(|((id, _), _)| *id);
        for (index, ((id, line), block)) in (0..).zip(blocks) {
            if id != index {
                let message = format!(
                    "thread blocks are numbered from 0 without gaps, each once, but there is no block {index}"
                );
                return Err(wrong(line, "id", message).found(id.to_string()).into());
            }
            gpu.blocks.push(block);
        }
        draft.program.gpus.push(gpu);
    }
    Ok(draft.program)
}

/// The beginning of a text, which may be any text.
fn short(text: &str) -> String {
    text.chars().take(60).collect()
}
