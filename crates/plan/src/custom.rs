//! Collectives of the user: a plan file, which is proved when it is loaded and then runs like any algorithm of the
//! library.
//!
//! A [`PlanFile`] is plain data, in JSON. All-gather on two ranks:
//!
//! ```json
//! { "name": "swap", "kind": "all_gather", "ranks": 2, "blocks": 2,
//!   "seats": [
//!     { "streams": [ { "ops": [
//!       { "op": "send", "to": 1, "block": 0 },
//!       { "op": "receive", "from": 1, "block": 1 } ] } ] },
//!     { "streams": [ { "ops": [
//!       { "op": "send", "to": 0, "block": 1 },
//!       { "op": "receive", "from": 0, "block": 0 } ] } ] } ] }
//! ```
//!
//! A file can express everything in [`crate::program`]: several streams with dependencies between them, channels that
//! differ from stream numbers, helpers, scratch, results out of place. So MSCCL programs can be expressed too: a
//! thread block is a stream with a channel, a receive is followed by a wait, `depid`/`deps` is an [`OpEntry::After`],
//! `rrs` receives into scratch.

mod file;

pub use file::{
    BlocksEntry, MAX_BYTES, MAX_OPS, MscclEntry, OpEntry, PlanFile, Protocol, SeatEntry, StreamEntry,
};

use crate::program::{Algorithm, Buffer, Op, Refusal, Seat};
use crate::symbolic::MAX_WORDS;
use crate::verify::verify_within;
use file::{too_long, usual_result};
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};
use syncline_units::CollectiveKind;

/// Words of storage that the proof of any plan may use.
const FREE_WORDS: u64 = 1 << 21;
/// Words of storage that a proof may use in addition, for each instruction.
const WORDS_PER_OP: u64 = 64;

/// An algorithm given as a table: one collective, for one number of ranks.
#[derive(Clone, Debug)]
pub struct Custom {
    name: String,
    kind: CollectiveKind,
    ranks: u32,
    seats: u32,
    streams: u32,
    split: bool,
    result: Buffer,
    /// By seat and then stream.
    programs: Vec<StreamProgram>,
}

/// The program of a seat in one stream.
#[derive(Clone, Debug)]
struct StreamProgram {
    channel: u32,
    ops: Vec<Op>,
}

impl Custom {
    /// Loads a plan file as an algorithm and proves it.
    ///
    /// # Errors
    /// [`Code::BadValue`] if the file contradicts itself; [`Code::WrongPlan`] if the plan does not compute its
    /// collective, with the rank, the block, and what is missing or duplicated.
    pub fn new(file: &PlanFile) -> Result<Self, Diagnostics> {
        let custom = Self::unproved(file)?;
        verify_within(&custom, custom.kind, custom.ranks, custom.most_words())?;
        Ok(custom)
    }

    /// Words of storage that the proof may use: some megabytes, and more for longer plans. Otherwise a short file
    /// that cuts buffers very finely would need a great deal of memory.
    fn most_words(&self) -> u64 {
        let (ranks, seats) = (u64::from(self.ranks), u64::from(self.seats));
        let ops: u64 = self.programs.iter().map(|program| program.ops.len() as u64).sum();
        let blocks_of_ranks = seats.saturating_mul(ranks).saturating_mul(ranks.div_ceil(64) + 1);
        FREE_WORDS.max(ops.saturating_mul(WORDS_PER_OP)).max(blocks_of_ranks.saturating_mul(4)).min(MAX_WORDS)
    }

    /// Loads a plan file as an algorithm without proving it.
    pub(crate) fn unproved(file: &PlanFile) -> Result<Self, Diagnostics> {
        let bad = |key: &str, message: &str| Diagnostic::error(Code::BadValue, message).key(key);
        let mut found = Diagnostics::new();
        if file.name.trim().is_empty() {
            found.push(bad("name", "a plan needs a name"));
        }
        if file.ranks == 0 {
            found.push(bad("ranks", "a collective needs at least 1 rank"));
        }
        if file.blocks == 0 {
            found.push(bad("blocks", "a buffer has at least 1 block"));
        }
        let seats = u64::from(file.ranks) + u64::from(file.helpers);
        if file.seats.len() as u64 != seats {
            found.push(
                bad("seats", "there must be one entry for each rank and each helper")
                    .found(file.seats.len().to_string())
                    .allowed(seats.to_string()),
            );
        }
        let streams = file.seats.iter().map(|seat| seat.streams.len()).max().unwrap_or(0).max(1);
        let slots = streams.saturating_mul(file.seats.len());
        let ops: usize =
            file.seats.iter().flat_map(|seat| &seat.streams).map(|stream| stream.ops.len()).sum();
        if slots.saturating_add(ops) > MAX_OPS {
            found.extend(too_long());
        }
        found.into_result()?;
        let mut programs = Vec::with_capacity(slots);
        for seat in &file.seats {
            for stream in 0..streams {
                let entry = seat.streams.get(stream);
                let channel = entry.and_then(|entry| entry.channel).unwrap_or(stream as u32);
                let ops = entry.map_or(&[][..], |entry| &entry.ops);
                let ops = ops.iter().map(|op| op.op(file.blocks)).collect();
                programs.push(StreamProgram { channel, ops });
            }
        }
        Ok(Self {
            name: file.name.clone(),
            kind: file.kind,
            ranks: file.ranks,
            seats: seats as u32,
            streams: streams as u32,
            split: file.split,
            result: file.result.unwrap_or(usual_result(file.kind)),
            programs,
        })
    }

    /// The collective that it computes.
    pub fn kind(&self) -> CollectiveKind {
        self.kind
    }
    /// The number of ranks that it is for.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    #[inline]
    fn program(&self, seat: &Seat) -> Option<&StreamProgram> {
        self.programs.get((seat.index * self.streams + seat.stream) as usize)
    }
}

impl Algorithm for Custom {
    fn name(&self) -> &str {
        &self.name
    }

    fn offers(&self, kind: CollectiveKind, ranks: u32) -> Result<(), Refusal> {
        if (kind, ranks) == (self.kind, self.ranks) {
            return Ok(());
        }
        Err(Refusal(format!(
            "the plan `{}` is {} on {} ranks, not {kind} on {ranks}",
            self.name, self.kind, self.ranks
        )))
    }

    fn seats(&self, _ranks: u32) -> u32 {
        self.seats
    }

    fn streams(&self, _kind: CollectiveKind, _ranks: u32) -> u32 {
        self.streams
    }

    fn split(&self) -> bool {
        self.split
    }

    fn channel(&self, seat: &Seat) -> u32 {
        self.program(seat).map_or(seat.stream, |program| program.channel)
    }

    fn result(&self, _kind: CollectiveKind) -> Buffer {
        self.result
    }

    #[inline]
    fn op(&self, seat: &Seat, pc: u32) -> Option<Op> {
        self.program(seat)?.ops.get(pc as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{DoubleBinaryTree, ParameterServer, Ring, TwoLevel};
    use crate::program::program;

    const SWAP: &str = r#"{ "name": "swap", "kind": "all_gather", "ranks": 2, "blocks": 2, "seats": [
        { "streams": [ { "ops": [
            { "op": "send", "to": 1, "block": 0 },
            { "op": "receive", "from": 1, "block": 1 } ] } ] },
        { "streams": [ { "ops": [
            { "op": "send", "to": 0, "block": 1 },
            { "op": "receive", "from": 0, "block": 0 } ] } ] } ] }"#;

    fn load(text: &str) -> Result<Custom, Diagnostics> {
        Custom::new(&PlanFile::from_json(text, "swap.json")?)
    }
    fn wrong(text: &str) -> Diagnostic {
        load(text).unwrap_err().0.remove(0)
    }

    #[test]
    fn a_correct_plan_is_an_algorithm() {
        let swap = load(SWAP).unwrap();
        assert_eq!(swap.name(), "swap");
        assert!(swap.offers(CollectiveKind::AllGather, 2).is_ok());
        let refusal = swap.offers(CollectiveKind::AllReduce, 4).unwrap_err();
        assert_eq!(refusal.0, "the plan `swap` is all_gather on 2 ranks, not all_reduce on 4");
    }

    #[test]
    fn a_wrong_plan_says_which_rank_and_block() {
        let found = wrong(&SWAP.replace(r#""to": 0, "block": 1"#, r#""to": 0, "block": 0"#));
        assert_eq!(found.code, Code::WrongPlan);
        assert_eq!(found.message, "seat 1 reads block 0 of 2 of its data, which holds nothing yet");
        assert_eq!(found.key.as_deref(), Some("seat 1, stream 0, instruction 0"));
        let found = wrong(&SWAP.replace(r#"{ "op": "send", "to": 1, "block": 0 },"#, ""));
        assert_eq!(found.message, "seat 1 receives message 1 from seat 0 on channel 0, which is never sent");
    }

    #[test]
    fn a_short_file_takes_little_memory() {
        // Two seats, three million blocks: all that they hold would take 100 MB.
        let found = wrong(&SWAP.replace("\"blocks\": 2", "\"blocks\": 3333332"));
        assert_eq!(found.code, Code::BadValue, "{found}");
        assert!(found.message.starts_with("the plan is too large to be verified"), "{found}");
        // Half as many blocks still need little memory.
        assert!(wrong(&SWAP.replace("\"blocks\": 2", "\"blocks\": 400000")).code == Code::WrongPlan);
    }

    #[test]
    fn broken_files_are_refused_with_their_place() {
        let syntax = PlanFile::from_json("{\n  \"name\": }", "a.json").unwrap_err().0.remove(0);
        assert_eq!(syntax.code, Code::BadSyntax);
        assert_eq!(syntax.place.unwrap().line, 2);
        let shape = PlanFile::from_json("{\"nme\": 1}", "a.json").unwrap_err().0.remove(0);
        assert_eq!(shape.code, Code::BadValue);
        assert!(shape.notes[0].contains("unknown field `nme`"), "{shape}");
        let count = wrong(&SWAP.replace("\"ranks\": 2", "\"ranks\": 3"));
        assert_eq!((count.code, count.key.as_deref()), (Code::BadValue, Some("seats")));
        let none = load(&SWAP.replace("\"ranks\": 2, \"blocks\": 2", "\"ranks\": 0, \"blocks\": 0"));
        assert_eq!(none.unwrap_err().0.len(), 3);
        let beyond = wrong(&SWAP.replace(r#""to": 0, "block": 1"#, r#""to": 0, "block": 7"#));
        assert_eq!(beyond.message, "seat 1 touches 1 blocks from block 7 on, but there are only 2");
        assert!(load(&SWAP.replace(r#""to": 1"#, r#""to": 1, "size": 3"#)).is_err());
    }

    #[test]
    fn library_plans_round_trip_through_a_file() {
        let library: [(&dyn Algorithm, CollectiveKind); 5] = [
            (&Ring, CollectiveKind::AllToAll),
            (&Ring, CollectiveKind::AllReduce),
            (&DoubleBinaryTree::default(), CollectiveKind::AllReduce),
            (&ParameterServer::default(), CollectiveKind::AllReduce),
            (&TwoLevel::default(), CollectiveKind::AllReduce),
        ];
        for (algorithm, kind) in library {
            let file = PlanFile::of(algorithm, kind, 11).unwrap();
            let text = serde_json::to_string(&file).unwrap();
            let read = PlanFile::from_json(&text, "plan.json").unwrap();
            assert_eq!(read, file);
            let custom = Custom::new(&read).unwrap();
            for index in 0..algorithm.seats(11) {
                for stream in 0..algorithm.streams(kind, 11) {
                    let seat = Seat { kind, ranks: 11, index, stream, reverse: false };
                    assert!(program(algorithm, seat).eq(program(&custom, seat)));
                }
            }
        }
    }

    /// As in MSCCL: out of place, one thread block sends on channel 1 what another receives, and a third reduces
    /// scratch into the output and waits for both.
    #[test]
    fn thread_blocks_must_wait_for_those_that_they_depend_on() {
        let seat = |other: u32| {
            format!(
                r#"{{ "streams": [
                {{ "channel": 1, "ops": [ {{ "op": "send", "to": {other}, "block": 0 }} ] }},
                {{ "channel": 1, "ops": [
                    {{ "op": "receive", "from": {other}, "block": 2, "buffer": "scratch" }}, {{ "op": "wait" }} ] }},
                {{ "ops": [
                    {{ "op": "copy", "from": {{ "block": 0 }}, "to": {{ "block": 0, "buffer": "output" }} }},
                    {{ "op": "after", "stream": 1, "ops": 2 }},
                    {{ "op": "copy", "from": {{ "block": 2, "buffer": "scratch" }},
                       "to": {{ "block": 0, "buffer": "output" }}, "reduce": true }} ] }} ] }}"#
            )
        };
        let text = format!(
            r#"{{ "name": "pair", "kind": "all_reduce", "ranks": 2, "blocks": 1, "result": "output",
                 "seats": [ {}, {} ] }}"#,
            seat(1),
            seat(0)
        );
        assert_eq!(load(&text).unwrap().result(CollectiveKind::AllReduce), Buffer::Output);
        let hasty = text.replace(r#"{ "op": "after", "stream": 1, "ops": 2 },"#, "");
        assert_eq!(
            wrong(&hasty).message,
            "seat 0 touches blocks while the receive at stream 1, instruction 0 into them is outstanding: \
             it must wait first"
        );
    }
}
