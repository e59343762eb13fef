//! Writes a program as XML, in the layout of msccl-tools.

use super::program::{COLLECTIVES, Chunks, Program, Space, Step};
use std::fmt::Write as _;
use syncline_units::CollectiveKind;

/// The text of a program.
pub fn text(program: &Program) -> String {
    let names = COLLECTIVES.iter().find(|(kind, _)| *kind == program.kind);
    let blocks = program.gpus.iter().flat_map(|gpu| &gpu.blocks);
    let channels = blocks.map(|block| block.channel).max().map_or(1, |last| last.saturating_add(1));
    let mut out = String::new();
    let mut line = |text: std::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{text}");
    };
    line(format_args!(
        "<algo name=\"{}\" proto=\"{}\" nchannels=\"{channels}\" nchunksperloop=\"{}\" ngpus=\"{}\" coll=\"{}\" \
         inplace=\"{}\" outofplace=\"{}\" minBytes=\"{}\" maxBytes=\"{}\">",
        escape(&program.name),
        program.entry.protocol.name(),
        program.chunks,
        program.gpus.len(),
        names.and_then(|(_, names)| names.first()).unwrap_or(&"custom"),
        u8::from(program.entry.in_place),
        u8::from(program.entry.out_of_place),
        program.entry.min_bytes,
        program.entry.max_bytes
    ));
    let share = program.chunks / (program.gpus.len() as u32).max(1);
    let whole = program.chunks;
    let (input, output) = match program.kind {
        CollectiveKind::AllGather => (share, whole),
        CollectiveKind::ReduceScatter => (whole, share),
        _ => (whole, whole),
    };
    for (id, gpu) in program.gpus.iter().enumerate() {
        let scratch = gpu.scratch;
        line(format_args!(
            "  <gpu id=\"{id}\" i_chunks=\"{input}\" o_chunks=\"{output}\" s_chunks=\"{scratch}\">"
        ));
        for (id, block) in gpu.blocks.iter().enumerate() {
            let (send, recv, channel) = (peer(block.send), peer(block.recv), block.channel);
            line(format_args!("    <tb id=\"{id}\" send=\"{send}\" recv=\"{recv}\" chan=\"{channel}\">"));
            for (number, step) in block.steps.iter().enumerate() {
                line(format_args!("      {}", step_text(number, step)));
            }
            line(format_args!("    </tb>"));
        }
        line(format_args!("  </gpu>"));
    }
    line(format_args!("</algo>"));
    out
}

fn step_text(number: usize, step: &Step) -> String {
    // Some readers check chunks that a step does not use, so these repeat the ones that it uses.
    let chunks = |chunks: Chunks| (chunks.buffer.name(), i64::from(chunks.offset));
    let ((source, source_at), (target, target_at)) = match (step.kind.has_source(), step.kind.has_target()) {
        (false, false) => ((Space::Input.name(), -1), (Space::Output.name(), -1)),
        (true, false) => (chunks(step.source), chunks(step.source)),
        (false, true) => (chunks(step.target), chunks(step.target)),
        (true, true) => (chunks(step.source), chunks(step.target)),
    };
    let (block, at) = step.after.map_or((-1, -1), |(block, at)| (i64::from(block), i64::from(at)));
    format!(
        "<step s=\"{number}\" type=\"{}\" srcbuf=\"{source}\" srcoff=\"{source_at}\" dstbuf=\"{target}\" \
         dstoff=\"{target_at}\" cnt=\"{}\" depid=\"{block}\" deps=\"{at}\" hasdep=\"{}\"/>",
        step.kind.name(),
        step.count,
        u8::from(step.awaited)
    )
}

fn peer(peer: Option<u32>) -> i64 {
    peer.map_or(-1, i64::from)
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // Not allowed in XML, or changed by XML readers.
            letter if letter.is_control() => out.push(' '),
            letter => out.push(letter),
        }
    }
    out
}
