//! Reads one file, message by message.

use super::decode;
use super::schema::{Metadata, Node};
use super::wire::WireError;
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use syncline_diagnostics::{Code, Diagnostic, Result};

/// The largest message that is read. By default, protobuf itself refuses messages above 64 MiB.
pub const MAX_MESSAGE: u64 = 64 << 20;
/// The largest file after decompression.
pub const MAX_INFLATED: u64 = 8 << 30;
/// Most times larger than itself that a gzipped file may become, beyond the first 16 MiB.
pub const MAX_RATIO: u64 = 250;

/// Reads a trace node by node. Holds one message at a time.
pub struct Reader<R> {
    input: R,
    file: String,
    metadata: Metadata,
    /// Offset of the next byte.
    offset: u64,
    /// Number of messages begun.
    count: u64,
    buffer: Vec<u8>,
}

impl Reader<Box<dyn Read>> {
    /// Opens a file, plain or gzipped.
    pub fn open(path: &Path) -> Result<Self> {
        let file = path.display().to_string();
        let mut input =
            BufReader::with_capacity(1 << 16, File::open(path).map_err(|e| unreadable(&file, &e))?);
        let head = io::BufRead::fill_buf(&mut input).map_err(|e| unreadable(&file, &e))?;
        if head.starts_with(&[0x1f, 0x8b]) {
            let size = input.get_ref().metadata().map_or(0, |metadata| metadata.len());
            let cap = size.saturating_mul(MAX_RATIO).saturating_add(16 << 20).min(MAX_INFLATED);
            let inflated = Capped { input: BufReader::new(MultiGzDecoder::new(input)), left: cap };
            return Self::new(Box::new(inflated), file);
        }
        Self::new(Box::new(input), file)
    }
}

impl<R: Read> Reader<R> {
    /// Reads the metadata of `input`; `file` names it in errors.
    pub fn new(input: R, file: impl Into<String>) -> Result<Self> {
        let mut reader = Self {
            input,
            file: file.into(),
            metadata: Metadata::default(),
            offset: 0,
            count: 0,
            buffer: Vec::new(),
        };
        let not_chakra =
            |reader: &Self, note: String| {
                Diagnostic::error(Code::BadChakra, "the file is not a Chakra execution trace")
                .at(&reader.file, 0)
                .note(note)
                .help("an .et file starts with a length and a GlobalMetadata message; give the prefix of the \
                       per-rank files, such as `dir/trace` for `dir/trace.0.et`")
            };
        match reader.fill() {
            Ok(true) => {}
            Ok(false) => {
                return Err(Diagnostic::error(Code::BadChakra, "the file is empty")
                    .at(&reader.file, 0)
                    .help("write at least a GlobalMetadata message and one node")
                    .into());
            }
            Err(Broken::Read(diagnostic)) => return Err((*diagnostic).into()),
            Err(Broken::Message(error)) => {
                return Err(not_chakra(&reader, format!("byte {}: {}", error.at, error.problem)).into());
            }
        }
        match decode::metadata(&reader.buffer, reader.message_start()) {
            Ok(metadata) => reader.metadata = metadata,
            Err(error) => {
                return Err(not_chakra(&reader, format!("byte {}: {}", error.at, error.problem)).into());
            }
        }
        Ok(reader)
    }

    /// The file's metadata.
    pub const fn metadata(&self) -> &Metadata {
        &self.metadata
    }
    /// The file's name, for errors.
    pub fn file(&self) -> &str {
        &self.file
    }
    /// Number of nodes begun.
    pub const fn nodes_read(&self) -> u64 {
        self.count.saturating_sub(1)
    }

    /// The next node; `None` at the end.
    pub fn next_node(&mut self) -> Result<Option<Node>> {
        match self.next_message()? {
            None => Ok(None),
            Some((bytes, at)) => match decode::node(bytes, at) {
                Ok(node) => Ok(Some(node)),
                Err(error) => Err(self.broken(error).into()),
            },
        }
    }

    /// The next node's bytes and their offset; `None` at the end.
    pub fn next_message(&mut self) -> Result<Option<(&[u8], usize)>> {
        match self.fill() {
            Ok(true) => Ok(Some((&self.buffer, self.message_start()))),
            Ok(false) => Ok(None),
            Err(Broken::Read(diagnostic)) => Err((*diagnostic).into()),
            Err(Broken::Message(error)) => Err(self.broken(error).into()),
        }
    }

    /// A diagnostic about bytes of the message that was read last.
    pub fn broken(&self, error: WireError) -> Diagnostic {
        Diagnostic::error(Code::BadChakra, error.problem)
            .at(&self.file, 0)
            .key(format!("node number {} of the file, byte {}", self.nodes_read(), error.at))
            .help("the file is damaged or was written for another schema; write it again")
    }

    fn message_start(&self) -> usize {
        usize::try_from(self.offset).unwrap_or(usize::MAX).saturating_sub(self.buffer.len())
    }

    /// Reads the next message into the buffer. Returns `false` at the end of the file.
    fn fill(&mut self) -> std::result::Result<bool, Broken> {
        let start = self.offset;
        let at = usize::try_from(start).unwrap_or(usize::MAX);
        let broken = |problem| Err(Broken::Message(WireError { at, problem }));
        let mut length = 0u64;
        for index in 0.. {
            let mut byte = [0u8];
            match self.input.read(&mut byte) {
                Ok(0) if index == 0 => return Ok(false),
                Ok(0) => return broken("the file ends within the length of a message"),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Broken::Read(Box::new(unreadable(&self.file, &error)))),
            }
            self.offset += 1;
            self.count += u64::from(index == 0);
            if index == 9 && byte[0] > 1 || index > 9 {
                return broken("the length of a message is not a valid varint");
            }
            length |= u64::from(byte[0] & 0x7f) << (7 * index);
            if byte[0] < 0x80 {
                break;
            }
        }
        if length > MAX_MESSAGE {
            return broken("a message is longer than 64 MiB");
        }
        self.buffer.clear();
        // `take` grows the buffer only as bytes arrive, so a false length allocates nothing.
        match self.input.by_ref().take(length).read_to_end(&mut self.buffer) {
            Ok(got) if (got as u64) < length => broken("the file ends within a message"),
            Ok(_) => {
                self.offset += length;
                Ok(true)
            }
            Err(error) => Err(Broken::Read(Box::new(unreadable(&self.file, &error)))),
        }
    }
}

/// Why a message could not be read.
enum Broken {
    Read(Box<Diagnostic>),
    Message(WireError),
}

/// The error for a file that cannot be read.
pub(super) fn unreadable(file: &str, error: &io::Error) -> Diagnostic {
    let reason = syncline_diagnostics::reason(error);
    Diagnostic::error(Code::Unreadable, format!("the file cannot be read: {reason}")).at(file, 0)
}

/// A reader that fails beyond a number of bytes.
struct Capped<R> {
    input: R,
    left: u64,
}

impl<R: Read> Read for Capped<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.input.read(buffer)?;
        self.left = self
            .left
            .checked_sub(got as u64)
            .ok_or_else(|| io::Error::other("the gzipped file becomes too large when decompressed"))?;
        Ok(got)
    }
}
