//! The file of a save: a job's state at one hub after a step.
//!
//! Integers are little-endian, and so are elements. In this order:
//!
//! | bytes | what |
//! |---|---|
//! | 18 | `syncline hub save` and a line feed |
//! | 4 | the version of the format: 1 |
//! | 4 | the length of the header |
//! | | the header, as JSON: [`Header`] |
//! | | each chunk at this hub, in ascending order |
//! | 32 | SHA-256 of everything before |
//!
//! A chunk is its number (4 bytes), the steps that it includes (8), the number of contributors to the last step (2), 1 if
//! it has a value (2), the number of changed learning rates (4) and of the optimizer's vectors (4); then each learning rate, as the step from
//! which it holds (8) and the rate (8, a double); then the value; then the optimizer's vectors.

use super::keys::Catalogue;
use super::saved::{SavedChunk, SavedRate};
use super::terms::{Contract, LossPolicy, Mapping, Terms};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use syncline_protocol::memory::Buffer;

/// The first bytes of a save.
const MAGIC: &[u8; 18] = b"syncline hub save\n";

/// The version of the format.
const VERSION: u32 = 1;

/// The most bytes of a header: terms come in one message, which is shorter.
const MAX_HEADER: u32 = 64 << 20;

/// The most changed learning rates of a chunk.
const MAX_RATES: u32 = 1 << 16;

/// The length of the checksum.
const CHECKSUM: u64 = 32;

/// The length of a chunk's numbers.
const CHUNK: u64 = 24;

/// What a save says about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The job's name.
    pub job: String,
    /// The number of the save: how many vectors a worker had pushed. All hubs of the job use the same.
    pub number: u64,
    /// The index of the hub in the job.
    pub hub: u32,
    /// The number of hubs of the job.
    pub hubs: u32,
    /// What the job asks of its hubs.
    pub terms: Terms,
    /// The number of chunks in the file.
    pub chunks: u32,
    /// The least number of steps that the state of a chunk in the file includes.
    pub step: u64,
    /// The length of the file in bytes.
    pub bytes: u64,
}

/// Why a save cannot be read. Its text is a clause with the file as subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// The clause.
    pub why: String,
    /// Whether there is no such file.
    pub absent: bool,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        let why = match error.kind() {
            ErrorKind::UnexpectedEof => "ends too early: it was not written completely".to_owned(),
            _ => format!("cannot be read ({error})"),
        };
        Self { why, absent: error.kind() == ErrorKind::NotFound }
    }
}

fn invalid(why: impl Into<String>) -> ReadError {
    ReadError { why: why.into(), absent: false }
}

/// Passes bytes on, and computes their checksum.
struct Summed<S> {
    below: S,
    sum: Sha256,
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.below.write(bytes)?;
        self.sum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.below.flush()
    }
}

impl<R: Read> Summed<R> {
    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.below.read_exact(bytes)?;
        self.sum.update(&*bytes);
        Ok(())
    }

    fn number<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn buffer(&mut self, length: u64) -> io::Result<Buffer> {
        let mut buffer = Buffer::new(length as usize);
        self.fill(buffer.as_mut_slice())?;
        Ok(buffer)
    }
}

impl Header {
    /// Creates the header of a save.
    pub fn new(
        job: &str,
        number: u64,
        (hub, hubs): (u32, u32),
        terms: &Terms,
        chunks: &BTreeMap<u32, SavedChunk>,
    ) -> Self {
        let mut header = Self {
            job: job.to_owned(),
            number,
            hub,
            hubs,
            terms: terms.clone(),
            chunks: chunks.len() as u32,
            step: chunks.values().map(|chunk| chunk.step).min().unwrap_or(0),
            bytes: 0,
        };
        let of = |chunk: &SavedChunk| {
            let buffers = chunk.value.iter().map(Arc::as_ref).chain(chunk.memory.iter());
            let bytes: usize = buffers.map(|buffer| buffer.as_slice().len()).sum();
            CHUNK + 16 * chunk.rates.len() as u64 + bytes as u64
        };
        let rest = 26 + CHECKSUM + chunks.values().map(of).sum::<u64>();
        // The length is part of the header, whose length depends on its digits.
        while header.bytes != rest + header.text().len() as u64 {
            header.bytes = rest + header.text().len() as u64;
        }
        header
    }

    fn text(&self) -> String {
        serde_json::to_string(self).expect("a header is plain data")
    }

    /// Returns why a job cannot continue from this save, if it cannot: the first of its terms that is different. The
    /// number of workers, the policy and the mapping do not matter to the state.
    pub fn differs(&self, terms: &Terms) -> Option<String> {
        let same = |terms: &Terms| Terms {
            workers: 0,
            policy: LossPolicy::Fail,
            mapping: Mapping::KeyByInterface,
            ..terms.clone()
        };
        same(&self.terms).differs(&same(terms)).map(|what| what.replace("in the job", "in the save"))
    }
}

/// Writes a save.
///
/// # Errors
/// What the system says, such as a full disk.
pub fn write(to: impl Write, header: &Header, chunks: &BTreeMap<u32, SavedChunk>) -> io::Result<()> {
    let mut to = Summed { below: to, sum: Sha256::new() };
    let text = header.text();
    to.write_all(MAGIC)?;
    to.write_all(&VERSION.to_le_bytes())?;
    to.write_all(&(text.len() as u32).to_le_bytes())?;
    to.write_all(text.as_bytes())?;
    for (number, chunk) in chunks {
        to.write_all(&number.to_le_bytes())?;
        to.write_all(&chunk.step.to_le_bytes())?;
        to.write_all(&chunk.contributors.to_le_bytes())?;
        to.write_all(&u16::from(chunk.value.is_some()).to_le_bytes())?;
        to.write_all(&(chunk.rates.len() as u32).to_le_bytes())?;
        to.write_all(&(chunk.memory.len() as u32).to_le_bytes())?;
        for SavedRate { from, rate } in &chunk.rates {
            to.write_all(&from.to_le_bytes())?;
            to.write_all(&rate.to_le_bytes())?;
        }
        for buffer in chunk.value.iter().map(Arc::as_ref).chain(chunk.memory.iter()) {
            to.write_all(buffer.as_slice())?;
        }
    }
    let Summed { mut below, sum } = to;
    below.write_all(&sum.finalize())?;
    below.flush()
}

fn open<R: Read>(from: R, length: u64) -> Result<(Summed<R>, Header), ReadError> {
    let mut from = Summed { below: from, sum: Sha256::new() };
    let magic = from.number().map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => invalid("is not a save of a hub"),
        _ => error.into(),
    })?;
    if magic != *MAGIC {
        return Err(invalid("is not a save of a hub"));
    }
    let version = u32::from_le_bytes(from.number()?);
    if version != VERSION {
        return Err(invalid(format!("has format {version}, and this hub reads format {VERSION}")));
    }
    let header = u32::from_le_bytes(from.number()?);
    if header > MAX_HEADER || u64::from(header) > length {
        return Err(invalid("is damaged: its header is longer than a header can be"));
    }
    let mut text = vec![0; header as usize];
    from.fill(&mut text)?;
    let header: Header = serde_json::from_slice(&text)
        .map_err(|error| invalid(format!("is damaged: its header cannot be read ({error})")))?;
    if length != header.bytes {
        return Err(invalid(format!(
            "has {length} bytes, and a complete one has {}: it was not written or copied completely",
            header.bytes
        )));
    }
    Ok((from, header))
}

/// Reads the header of a save of `length` bytes. Does not read the state, and so does not check its checksum.
///
/// # Errors
/// The file is no save, is incomplete, or has another version.
pub fn read_header(from: impl Read, length: u64) -> Result<Header, ReadError> {
    open(from, length).map(|(_, header)| header)
}

/// Reads a save of `length` bytes, of a job with these terms.
///
/// # Errors
/// As [`read_header`]; or the file is damaged, or is of a job with other vectors or another optimizer.
pub fn read(
    from: impl Read,
    length: u64,
    contract: &Contract,
) -> Result<(Header, BTreeMap<u32, SavedChunk>), ReadError> {
    let (mut from, header) = open(from, length)?;
    if let Some(what) = header.differs(&contract.terms) {
        return Err(invalid(format!("was made by a job with different terms: {what}")));
    }
    let mut chunks = BTreeMap::new();
    for _ in 0..header.chunks {
        let (number, chunk) = read_chunk(&mut from, contract)?;
        if chunks.last_key_value().is_some_and(|(&last, _)| last >= number) {
            return Err(invalid("is damaged: its chunks are not in order"));
        }
        chunks.insert(number, chunk);
    }
    let found = std::mem::take(&mut from.sum).finalize();
    if from.number::<32>()? != found[..] {
        return Err(invalid("is damaged: its checksum does not match its contents"));
    }
    Ok((header, chunks))
}

fn read_chunk(from: &mut Summed<impl Read>, contract: &Contract) -> Result<(u32, SavedChunk), ReadError> {
    let damaged = |what: String| invalid(format!("is damaged: {what}"));
    let number = u32::from_le_bytes(from.number()?);
    let catalogue: &Catalogue = &contract.catalogue;
    if number >= catalogue.chunks() {
        return Err(damaged(format!("it has chunk {number}, and the job has {} chunks", catalogue.chunks())));
    }
    let step = u64::from_le_bytes(from.number()?);
    let contributors = u16::from_le_bytes(from.number()?);
    let valued = u16::from_le_bytes(from.number()?) != 0;
    let rates = u32::from_le_bytes(from.number()?);
    let vectors = u32::from_le_bytes(from.number()?) as usize;
    let known = contract.optimizer(number).map_or(0, |optimizer| optimizer.vectors());
    if vectors != 0 && vectors != known {
        let name = contract.name(number);
        return Err(damaged(format!(
            "`{name}` has {vectors} optimizer vectors, and its optimizer has {known}"
        )));
    }
    if rates > MAX_RATES {
        return Err(damaged(format!("`{}` has {rates} learning rates", contract.name(number))));
    }
    let mut changes = Vec::new();
    for _ in 0..rates {
        let (from_step, rate) = (u64::from_le_bytes(from.number()?), f64::from_le_bytes(from.number()?));
        changes.push(SavedRate { from: from_step, rate });
    }
    let bytes = catalogue.bytes(number);
    let value = valued.then(|| from.buffer(bytes)).transpose()?.map(Arc::new);
    let memory = (0..vectors).map(|_| from.buffer(bytes)).collect::<io::Result<_>>()?;
    Ok((number, SavedChunk { step, contributors, value, memory: Arc::new(memory), rates: changes }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::Optimizers;

    fn contract(rest: &str) -> Contract {
        let text = format!(
            "{{\"workers\": 2, \"chunk\": 64, {rest} \
             \"keys\": [{{\"name\": \"w\", \"element\": \"f32\", \"elements\": 24}}]}}"
        );
        serde_json::from_str::<Terms>(&text).unwrap().contract(&Optimizers::default()).unwrap()
    }

    const ADAM: &str = "\"optimizer\": {\"name\": \"adam\"},";

    fn buffer(value: u8) -> Buffer {
        let mut buffer = Buffer::new(48);
        buffer.as_mut_slice().fill(value);
        buffer
    }

    fn state() -> BTreeMap<u32, SavedChunk> {
        let chunk = |value| SavedChunk {
            step: 7,
            contributors: 2,
            value: Some(Arc::new(buffer(value))),
            memory: Arc::new(vec![buffer(value + 1), buffer(value + 2)]),
            rates: vec![SavedRate { from: 3, rate: 0.25 }],
        };
        BTreeMap::from([(0, chunk(10)), (1, chunk(20))])
    }

    fn file() -> Vec<u8> {
        let (contract, state) = (contract(ADAM), state());
        let header = Header::new("job", 7, (0, 1), &contract.terms, &state);
        let mut file = Vec::new();
        write(&mut file, &header, &state).unwrap();
        assert_eq!(file.len() as u64, header.bytes);
        file
    }

    #[test]
    fn a_save_is_read_as_it_was_written() {
        let file = file();
        let (header, chunks) = read(&file[..], file.len() as u64, &contract(ADAM)).unwrap();
        assert_eq!((header.job.as_str(), header.number, header.step), ("job", 7, 7));
        assert_eq!(read_header(&file[..], file.len() as u64).unwrap(), header);
        for (read, written) in chunks.values().zip(state().values()) {
            let value = |chunk: &SavedChunk| chunk.value.as_ref().unwrap().as_slice().to_vec();
            let memory = |chunk: &SavedChunk| chunk.memory[1].as_slice().to_vec();
            assert_eq!((value(read), memory(read)), (value(written), memory(written)));
            assert_eq!((read.step, read.contributors, &read.rates), (7, 2, &written.rates));
        }
    }

    #[test]
    fn no_file_that_was_cut_or_changed_is_read() {
        let (file, contract) = (file(), contract(ADAM));
        for length in 0..file.len() {
            let cut = &file[..length];
            assert!(read(cut, length as u64, &contract).is_err(), "{length}");
            assert!(read_header(cut, length as u64).is_err(), "{length}");
        }
        for place in 0..file.len() {
            let mut changed = file.clone();
            changed[place] ^= 1;
            assert!(read(&changed[..], changed.len() as u64, &contract).is_err(), "{place}");
        }
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let file = file();
        let why = |file: &[u8], contract: &Contract| {
            read(file, file.len() as u64, contract).unwrap_err().to_string()
        };
        let own = contract(ADAM);
        assert_eq!(why(b"PK and more than eighteen bytes", &own), "is not a save of a hub");
        assert_eq!(why(b"", &own), "is not a save of a hub");
        let mut later = file.clone();
        later[18] = 9;
        assert_eq!(why(&later, &own), "has format 9, and this hub reads format 1");
        assert!(why(&file[..file.len() - 5], &own).contains("not written or copied completely"));
        let mut changed = file.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert!(why(&changed, &own).contains("its checksum does not match"));
        let other = contract("\"optimizer\": {\"name\": \"sgd\"},");
        let text = why(&file, &other);
        assert!(text.contains("different terms: `optimizer`") && text.contains("in the save"), "{text}");
        // What does not matter to the state may change.
        let more = contract("\"policy\": \"wait\", \"optimizer\": {\"name\": \"adam\"},");
        assert!(read(&file[..], file.len() as u64, &more).is_ok());
    }
}
