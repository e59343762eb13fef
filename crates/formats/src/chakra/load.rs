//! Loads all ranks of a trace: `prefix.0.et`, `prefix.1.et`, ... Files with equal bytes are parsed and stored once,
//! because in most jobs all ranks do the same.

use super::graph::Graph;
use super::reader::{Reader, unreadable};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result, nearest};

/// Files up to this size are compared by their bytes before they are parsed; larger files are compared by their
/// graphs.
const WHOLE_FILE: u64 = 256 << 20;
/// Most errors listed for one prefix.
const MAX_PROBLEMS: usize = 20;

/// Options of loading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Loading {
    /// The trace is only replayed: attributes that only a simulation needs may be absent.
    pub replay: bool,
}

/// The task graphs of all ranks.
#[derive(Clone, Debug)]
pub struct Traces {
    prefix: String,
    graphs: Vec<Graph>,
    of_rank: Vec<u32>,
}

impl Traces {
    /// Reads `prefix.<rank>.et` for every rank below `ranks`. Opens one file at a time.
    pub fn load(prefix: &Path, ranks: u32, loading: Loading) -> Result<Self> {
        Self::load_while(prefix, ranks, loading, &mut || Ok(()))
    }

    /// As [`Self::load`]. Calls `go_on` before each file, and returns its error if it fails.
    ///
    /// # Errors
    /// As [`Self::load`], and the errors of `go_on`.
    pub fn load_while(
        prefix: &Path,
        ranks: u32,
        loading: Loading,
        go_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Self> {
        let missing: Vec<u32> = (0..ranks).filter(|&rank| !rank_file(prefix, rank).is_file()).collect();
        if !missing.is_empty() {
            return Err(missing_files(prefix, ranks, &missing).into());
        }
        let mut library = Library { graphs: Vec::new(), seen: BTreeMap::new(), buffer: Vec::new(), loading };
        let mut of_rank = Vec::with_capacity(ranks as usize);
        let mut problems = Diagnostics::new();
        for rank in 0..ranks {
            go_on()?;
            match library.read(&rank_file(prefix, rank)) {
                Ok(Some(graph)) => of_rank.push(graph),
                Ok(None) => {}
                Err(mut error) => {
                    for problem in &mut error.0 {
                        let of = format!("rank {rank}");
                        problem.key =
                            Some(problem.key.take().map_or(of.clone(), |key| format!("{of} {key}")));
                    }
                    problems.extend(error);
                    if problems.0.len() >= MAX_PROBLEMS {
                        break;
                    }
                }
            }
        }
        problems.into_result()?;
        Ok(Self { prefix: prefix.display().to_string(), graphs: library.graphs, of_rank })
    }

    /// Creates traces that were not read from files; `of_rank[r]` is the graph of rank `r`. `None` if an index is out
    /// of range.
    pub fn from_graphs(name: impl Into<String>, graphs: Vec<Graph>, of_rank: Vec<u32>) -> Option<Self> {
        let fits = of_rank.iter().all(|&graph| (graph as usize) < graphs.len());
        fits.then(|| Self { prefix: name.into(), graphs, of_rank })
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.of_rank.len() as u32
    }
    /// The distinct graphs.
    pub fn graphs(&self) -> &[Graph] {
        &self.graphs
    }
    /// Index in [`Self::graphs`] of a rank's graph.
    pub fn graph_index(&self, rank: u32) -> usize {
        self.of_rank[rank as usize] as usize
    }
    /// The graph of a rank.
    pub fn graph(&self, rank: u32) -> &Graph {
        &self.graphs[self.graph_index(rank)]
    }
    /// The first rank with this graph.
    pub fn first_rank(&self, graph: usize) -> u32 {
        self.of_rank.iter().position(|&of| of as usize == graph).unwrap_or(0) as u32
    }
    /// The file of a rank.
    pub fn file(&self, rank: u32) -> String {
        format!("{}.{rank}.et", self.prefix)
    }
}

/// The path of a rank's file.
pub fn rank_file(prefix: &Path, rank: u32) -> PathBuf {
    let mut name = prefix.as_os_str().to_owned();
    name.push(format!(".{rank}.et"));
    PathBuf::from(name)
}

/// The graphs read so far, and the files they came from.
struct Library {
    graphs: Vec<Graph>,
    /// By length and hash.
    seen: BTreeMap<(usize, u64), Vec<Seen>>,
    /// The bytes of the current file.
    buffer: Vec<u8>,
    loading: Loading,
}

/// A file that was read.
struct Seen {
    path: PathBuf,
    /// Its graph; `None` if it was refused.
    graph: Option<u32>,
}

impl Library {
    /// Reads the graph of a file; `None` if the same bytes were refused before.
    fn read(&mut self, path: &Path) -> Result<Option<u32>> {
        let name = path.display().to_string();
        let length = fs::metadata(path).map_err(|error| unreadable(&name, &error))?.len();
        if length > WHOLE_FILE {
            let graph = Graph::read(&mut Reader::open(path)?, self.loading.replay)?;
            let known = self.graphs.iter().position(|known| *known == graph);
            return Ok(Some(known.map_or_else(|| add(&mut self.graphs, graph), |index| index as u32)));
        }
        self.buffer.clear();
        File::open(path)
            .and_then(|file| file.take(WHOLE_FILE + 1).read_to_end(&mut self.buffer))
            .map_err(|error| unreadable(&name, &error))?;
        let seen = self.seen.entry((self.buffer.len(), hash(&self.buffer))).or_default();
        if let Some(same) = seen.iter().find(|seen| same_bytes(&seen.path, &self.buffer)) {
            return Ok(same.graph);
        }
        let graph = if self.buffer.starts_with(&[0x1f, 0x8b]) {
            Reader::open(path).and_then(|mut reader| Graph::read(&mut reader, self.loading.replay))
        } else {
            Reader::new(self.buffer.as_slice(), name)
                .and_then(|mut reader| Graph::read(&mut reader, self.loading.replay))
        };
        let (graph, outcome) = match graph {
            Ok(graph) => {
                let index = add(&mut self.graphs, graph);
                (Some(index), Ok(Some(index)))
            }
            Err(error) => (None, Err(error)),
        };
        seen.push(Seen { path: path.to_owned(), graph });
        outcome
    }
}

/// Stores a graph and returns its index.
fn add(graphs: &mut Vec<Graph>, graph: Graph) -> u32 {
    graphs.push(graph);
    (graphs.len() - 1) as u32
}

/// A hash that is the same on every machine: eight bytes at a time, multiplied and folded.
fn hash(bytes: &[u8]) -> u64 {
    let mix = |state: u64, word: u64| {
        let product = u128::from(state ^ word) * 0x9e37_79b9_7f4a_7c15_u128;
        (product as u64) ^ ((product >> 64) as u64)
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let state = words.iter().fold(0x243f_6a88_85a3_08d3, |state, word| mix(state, u64::from_le_bytes(*word)));
    rest.iter().fold(mix(state, bytes.len() as u64), |state, &byte| mix(state, byte.into()))
}

/// Whether the file contains exactly these bytes.
fn same_bytes(path: &Path, bytes: &[u8]) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let mut input = BufReader::with_capacity(1 << 16, file);
    let mut chunk = [0u8; 1 << 14];
    let mut left = bytes;
    loop {
        match input.read(&mut chunk) {
            Ok(0) => return left.is_empty(),
            Ok(got) => match left.strip_prefix(&chunk[..got]) {
                Some(rest) => left = rest,
                None => return false,
            },
            Err(_) => return false,
        }
    }
}

/// The error for missing files; lists similar prefixes that exist.
fn missing_files(prefix: &Path, ranks: u32, missing: &[u32]) -> Diagnostic {
    let first = rank_file(prefix, missing[0]).display().to_string();
    if missing.len() < ranks as usize {
        let shown: Vec<String> = missing.iter().take(8).map(u32::to_string).collect();
        let more = if missing.len() > 8 { format!(" and {} more", missing.len() - 8) } else { String::new() };
        return Diagnostic::error(
            Code::RankMismatch,
            format!("the network has {ranks} NPUs, but the trace has no file for some ranks"),
        )
        .at(first, 0)
        .found(format!("no file for rank {}{more}", shown.join(", ")))
        .help("write one file for each NPU, or give the network as many NPUs as there are files");
    }
    let mut problem = Diagnostic::error(Code::Unreadable, "there is no trace with this prefix")
        .at(first, 0)
        .key(prefix.display().to_string())
        .help(
            "give the path up to the rank's number: `dir/trace` for `dir/trace.0.et`, `dir/trace.1.et`, ...",
        );
    let near = prefixes_beside(prefix);
    let wanted = prefix.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    problem.nearest = nearest(&wanted, near.iter().map(String::as_str)).map(str::to_owned);
    if near.is_empty() {
        problem.note("its folder has no file that ends in `.0.et`")
    } else {
        problem.note(format!("prefixes in its folder: {}", near.join(", ")))
    }
}

/// The prefixes in the folder of `prefix`.
fn prefixes_beside(prefix: &Path) -> Vec<String> {
    let folder = prefix.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_suffix(".0.et").map(str::to_owned))
        .collect();
    names.sort_unstable();
    names.truncate(20);
    names
}
