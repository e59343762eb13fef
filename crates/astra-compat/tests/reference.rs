//! Compares with ASTRA-sim 2's own results on the same inputs, to the nanosecond: every case of the reference
//! folder.
//!
//! The folder is `$SYNCLINE_SHARED/reference/astra-sim`, or `../shared/reference/astra-sim` beside the
//! workspace. If it is missing, these tests print a line and pass.

// The test's output says what was compared, or why nothing was.
#![allow(clippy::print_stderr)]

use std::collections::BTreeMap;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use syncline_astra_compat::{Backend, Inputs, Job, Options, Outcome, run, simulate};
use syncline_diagnostics::{Code, Diagnostics};
use syncline_formats::astra2::{Groups, Memory, NetworkFile, System};
use syncline_formats::chakra::{Graph, Reader, Traces};

fn reference() -> Option<PathBuf> {
    let shared = std::env::var_os("SYNCLINE_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let folder = shared.join("reference/astra-sim");
    if folder.join("results.csv").is_file() {
        return Some(folder);
    }
    // If the shared folder exists, it must contain the results.
    assert!(!shared.is_dir(), "{} has no results of ASTRA-sim", folder.display());
    // Straight to the terminal, because the output of a passing test is not shown.
    let _ = writeln!(std::io::stderr(), "skipped: there is no {}; set SYNCLINE_SHARED", folder.display());
    None
}

type Row = BTreeMap<String, String>;

fn rows(file: &Path) -> Vec<Row> {
    let mut reader = csv::Reader::from_path(file).expect("the table opens");
    reader.deserialize().collect::<Result<_, _>>().expect("the table is well-formed")
}

fn backend(row: &Row) -> Backend {
    if row["backend"] == "aware" { Backend::Aware } else { Backend::Unaware }
}

fn number(row: &Row, key: &str) -> u64 {
    row[key].parse().unwrap_or_else(|_| panic!("{key} of {}", row["case"]))
}

/// Reads the traces of `inputs/wl`, by prefix: the graph of each rank. Most are in a compressed archive,
/// which is not unpacked to the disk.
fn traces(folder: &Path) -> BTreeMap<String, Traces> {
    let mut bytes: BTreeMap<String, BTreeMap<u32, Vec<u8>>> = BTreeMap::new();
    let mut add = |path: &str, content: Vec<u8>| {
        if let Some((prefix, rank)) = path.strip_suffix(".et").and_then(|path| path.rsplit_once('.')) {
            bytes.entry(prefix.to_owned()).or_default().insert(rank.parse().expect("a rank"), content);
        }
    };
    for entry in std::fs::read_dir(folder.join("inputs/wl")).expect("a folder") {
        let entry = entry.expect("an entry");
        let parent = entry.file_name().into_string().expect("a name");
        for file in std::fs::read_dir(entry.path()).expect("a folder") {
            let file = file.expect("an entry");
            let name = file.file_name().into_string().expect("a name");
            add(&format!("inputs/wl/{parent}/{name}"), std::fs::read(file.path()).expect("a file"));
        }
    }
    let mut archive = Vec::new();
    let file = std::fs::File::open(folder.join("inputs/wl_16plus.tar.gz")).expect("the archive");
    flate2::read::GzDecoder::new(file).read_to_end(&mut archive).expect("the archive unpacks");
    let mut rest = archive.as_slice();
    while rest.len() >= 512 && rest[0] != 0 {
        let (header, body) = rest.split_at(512);
        let text = |range: std::ops::Range<usize>| {
            let field = &header[range];
            let end = field.iter().position(|&byte| byte == 0 || byte == b' ').unwrap_or(field.len());
            std::str::from_utf8(&field[..end]).expect("text").to_owned()
        };
        let size = usize::from_str_radix(&text(124..136), 8).expect("a size");
        let name = text(0..100);
        if header[156] == b'0' {
            add(&format!("inputs/{}", name.trim_start_matches("./")), body[..size].to_vec());
        }
        rest = &body[size.next_multiple_of(512)..];
    }
    bytes
        .into_iter()
        .map(|(prefix, files)| {
            let mut graphs: Vec<Graph> = Vec::new();
            let mut known: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
            let of_rank = files
                .into_values()
                .map(|content| {
                    *known.entry(content).or_insert_with_key(|content| {
                        let mut reader = Reader::new(content.as_slice(), prefix.clone()).expect("a trace");
                        graphs.push(Graph::read(&mut reader, false).expect("a graph"));
                        (graphs.len() - 1) as u32
                    })
                })
                .collect();
            let traces = Traces::from_graphs(prefix.clone(), graphs, of_rank).expect("indices fit");
            (prefix, traces)
        })
        .collect()
}

/// Runs `each` on all rows on two threads, largest first.
fn on_all<'a, T: Send>(rows: &'a [Row], each: impl Fn(&'a Row) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(2, |count| count.get().min(8));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = each(row);
                    results.lock().expect("no panic").push(result);
                }
            });
        }
    });
    results.into_inner().expect("no panic")
}

#[test]
fn every_single_collective_is_exact() {
    let Some(folder) = reference() else { return };
    let traces = traces(&folder);
    let mut rows = rows(&folder.join("results.csv"));
    rows.sort_by_key(|row| std::cmp::Reverse(number(row, "npus")));
    let wrong: Vec<Option<String>> = on_all(&rows, |row| {
        let network = NetworkFile::read(&folder.join(&row["net_file"]));
        if row["status"] != "ok" {
            // ASTRA-sim refused the network file.
            return Some(row["case"].clone()).filter(|_| network.is_ok());
        }
        let (system, warnings) = System::read(&folder.join(&row["sys_file"])).expect("a system file");
        let job = Job {
            network: network.expect("a network file").0,
            system,
            memory: Memory::none(),
            groups: Groups::default(),
            traces: traces[&row["wl_prefix"]].clone(),
            custom: Vec::new(),
            warnings,
        };
        let options = Options { backend: backend(row), ..Options::default() };
        let outcome = match simulate(&job, &options) {
            Ok(outcome) => outcome,
            Err(errors) => return Some(format!("{} {}: {errors}", row["case"], row["backend"])),
        };
        let first = outcome.ranks.iter().map(|rank| rank.cycles).min();
        let exposed = outcome.ranks.iter().map(|rank| rank.exposed).max();
        let comm = outcome.ranks.iter().filter_map(|rank| rank.comm).max();
        let got = (outcome.cycles(), first, exposed, comm);
        let want = (
            Some(number(row, "cycles_ns")),
            Some(number(row, "min_cycles_ns")),
            Some(number(row, "exposed_comm_ns") as i64),
            Some(number(row, "comm_ns")),
        );
        (got != want).then(|| format!("{} {}: got {got:?}, want {want:?}", row["case"], row["backend"]))
    });
    let compared = wrong.len();
    let wrong: Vec<String> = wrong.into_iter().flatten().collect();
    eprintln!("{} of {compared} cases of results.csv are exact", compared - wrong.len());
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
}

fn special(folder: &Path, row: &Row) -> Result<Outcome, Diagnostics> {
    let case = folder.join("inputs/special").join(&row["case"]);
    let mut options = Options { backend: backend(row), ..Options::default() };
    let mut groups = None;
    for argument in row["extra_args"].split_whitespace() {
        match argument.split_once('=').expect("an argument") {
            ("--comm-group-configuration", path) => groups = Some(folder.join(path)),
            ("--num-queues-per-dim", count) => options.queues_per_dim = count.parse().expect("a number"),
            ("--injection-scale", scale) => options.injection_scale = scale.parse().expect("a number"),
            ("--rendezvous-protocol", on) => options.rendezvous = on == "true",
            (other, _) => panic!("unknown argument {other}"),
        }
    }
    let inputs = Inputs {
        workload: case.join("w"),
        system: case.join("system.json"),
        network: case.join("network.yml"),
        memory: Some(case.join("memory.json")),
        groups,
    };
    run(&inputs, &options)
}

/// Cases that are rejected, and the code of the error.
const REFUSED: [(&str, Code); 10] = [
    ("dbt_ring6", Code::BadAstraFile),
    ("endpoint_0", Code::BadAstraFile),
    ("invalid_node", Code::ChakraNode),
    ("involved_dim_000", Code::ChakraNode),
    ("mem_none", Code::ChakraNode),
    ("no_collopt", Code::BadAstraFile),
    ("no_impl_for_coll", Code::BadAstraFile),
    ("no_splits", Code::BadAstraFile),
    ("ring2_ar", Code::AstraUnsupported),
    ("ring8_ag_3bytes_s4", Code::ChakraNode),
];

#[test]
fn every_special_case_is_exact_or_refused() {
    let Some(folder) = reference() else { return };
    let rows = rows(&folder.join("special.csv"));
    let mut wrong = Vec::new();
    let (mut exact, mut refused) = (0, 0);
    for row in &rows {
        let case = format!("{} {}", row["case"], row["backend"]);
        let finishes = row["rc"] == "0" && !row["cycles_per_rank"].contains("None");
        match special(&folder, row) {
            Err(errors) => {
                let code = REFUSED.iter().find(|(name, _)| *name == row["case"]).map(|&(_, code)| code);
                let found = errors.0.iter().find(|d| d.severity == syncline_diagnostics::Severity::Error);
                if finishes || code.is_none() || found.map(|error| error.code) != code {
                    wrong.push(format!("{case} is refused: {errors}"));
                }
                refused += 1;
            }
            // ASTRA-sim aborts at a metadata node, so there is nothing to compare with.
            Ok(outcome) if row["case"] == "metadata_node" => {
                if outcome.cycles() != Some(64440) {
                    wrong.push(format!("{case}: {:?} cycles", outcome.cycles()));
                }
            }
            Ok(_) if !finishes => wrong.push(format!("{case} is not refused")),
            Ok(outcome) => {
                let mut by_rank = outcome.ranks.clone();
                by_rank.sort_by_key(|rank| rank.rank);
                let column = |value: &dyn Fn(&syncline_astra_compat::RankResult) -> Option<u64>| {
                    let texts: Vec<String> = by_rank
                        .iter()
                        .map(|rank| value(rank).map_or_else(|| "None".to_owned(), |value| value.to_string()))
                        .collect();
                    texts.join(" ")
                };
                let got = [
                    ("cycles_per_rank", column(&|rank| Some(rank.cycles))),
                    ("exposed_per_rank", column(&|rank| Some(rank.exposed as u64))),
                    ("comm_per_rank", column(&|rank| rank.comm.filter(|_| rank.prints_times()))),
                    ("gpu_per_rank", column(&|rank| rank.gpu.filter(|_| rank.prints_times()))),
                ];
                let differing: Vec<String> = got
                    .iter()
                    .filter(|(key, got)| row[*key] != *got)
                    .map(|(key, got)| format!("{case} {key}: got {got}, want {}", row[*key]))
                    .collect();
                exact += usize::from(differing.is_empty());
                wrong.extend(differing);
            }
        }
    }
    eprintln!("{exact} cases of special.csv are exact, {refused} are refused, of {}", rows.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
