//! All-reduces of f32 between processes of this machine, over each transport:
//! `cargo bench -p syncline-executor --bench transports`.
//!
//! Four processes (`--ranks=N`) connect over shared memory, Unix sockets, TCP and TLS over loopback in turn,
//! and run all-reduces of 4 B to 100 MB in place. For each size the bench prints the median and the least
//! wall time of a call, the bus bandwidth 2 (N-1)/N S/t of the median, and the CPU time of all processes for
//! each GB that a rank puts on the bus (core-seconds).
//!
//! Arguments after `--`: `shared`, `unix`, `tcp`, `tls` select transports; `--plan=ring` (default `direct`),
//! `--message=BYTES`, `--window=BYTES`, `--lanes=N`, `--ring=BYTES`, `--congestion=reno`, `--size=BYTES` for
//! only one size, `--rounds=N`, `--keep`.

use mio::net::UnixStream;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream as Unix};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use syncline_executor::Communicator;
use syncline_plan::by_name;
use syncline_protocol::lane::FlowControl;
use syncline_protocol::memory::Buffer;
use syncline_protocol::operation::{Association, Operation};
use syncline_protocol::plan_book::{PlanBook, Rule, Selection};
use syncline_protocol::settings::Settings;
use syncline_reduction::{Element, Reduction};
use syncline_transport::Connection;
use syncline_transport::certificates::Identity;
use syncline_transport::certificates::issue::issue;
use syncline_transport::shared::{Agreement, CAPACITY};
use syncline_transport::socket::{Socket, Stream};
use syncline_units::CollectiveKind;

const SIZES: [(&str, usize); 5] =
    [("4 B", 4), ("64 KB", 64 << 10), ("1 MB", 1 << 20), ("25 MB", 25 << 20), ("100 MB", 100 << 20)];
/// How long each size is measured.
const MEASURE: Duration = Duration::from_millis(1500);
/// Minimum number of measured calls of each size.
const MIN_ROUNDS: usize = 7;

fn option(name: &str) -> Option<String> {
    std::env::args().find_map(|each| Some(each.strip_prefix(&format!("--{name}="))?.to_owned()))
}

fn number(name: &str, default: usize) -> usize {
    option(name).map_or(default, |text| text.parse().expect("a number"))
}

fn main() {
    let ranks = number("ranks", 4) as u32;
    match option("rank") {
        Some(rank) => {
            member(rank.parse().expect("a rank"), ranks, &PathBuf::from(option("at").expect("a folder")))
        }
        None => lead(ranks),
    }
}

/// Starts the ranks, and prints what the first one measures.
#[expect(clippy::print_stdout, reason = "a bench prints")]
fn lead(ranks: u32) {
    let all = ["shared", "unix", "tcp", "tls"];
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let some = all.iter().any(|name| asked.iter().any(|each| each == name));
    println!(
        "{:<8} {:>8} {:>12} {:>12} {:>10} {:>14}",
        "", "size", "median ms", "least ms", "bus GB/s", "core-s per GB"
    );
    for transport in all.into_iter().filter(|name| !some || asked.iter().any(|each| each == name)) {
        let folder = std::env::temp_dir().join(format!("syncline-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let issued = issue(None, 0, 1).expect("certificates");
        let pair = issued.rank.expect("a certificate for ranks");
        for (name, text) in [("ca.pem", issued.ca), ("rank.pem", pair.certificate), ("rank.key", pair.key)] {
            std::fs::write(folder.join(name), text).expect("a file");
        }
        let own = std::env::current_exe().expect("this program");
        let mut members: Vec<_> = (0..ranks)
            .map(|rank| {
                let mut command = Command::new(&own);
                command.args(asked.iter().filter(|each| each.starts_with("--") && *each != "--bench"));
                command.args([format!("--rank={rank}"), format!("--over={transport}")]);
                command.arg(format!("--at={}", folder.display())).stdout(Stdio::piped());
                command.spawn().expect("a process")
            })
            .collect();
        let first = members[0].stdout.take().expect("stdout is piped");
        for line in BufReader::new(first).lines() {
            println!("{transport:<8} {}", line.expect("text"));
        }
        for member in &mut members {
            assert!(member.wait().expect("the process ran").success());
        }
        _ = std::fs::remove_dir_all(&folder);
    }
}

/// Begins TLS on a socket.
fn secured(socket: Socket, begins: bool, folder: &Path) -> Socket {
    let read = |name: &str| std::fs::read(folder.join(name)).expect("the file was written");
    let identity = Identity::new(&read("ca.pem"), &read("rank.pem"), &read("rank.key"))
        .expect("the key fits the certificate");
    socket.secured(&identity, begins).expect("TLS begins")
}

/// The Unix socket at which a rank listens.
fn path(folder: &Path, rank: u32) -> PathBuf {
    folder.join(rank.to_string())
}

/// Connections to all other ranks, by lane and rank.
fn connections(rank: u32, ranks: u32, lanes: u32, folder: &Path) -> Vec<Vec<Option<Connection>>> {
    let over = option("over").expect("a transport");
    let listener = UnixListener::bind(path(folder, rank)).expect("a socket");
    let mut all: Vec<Vec<Option<Connection>>> =
        (0..lanes).map(|_| (0..ranks).map(|_| None).collect()).collect();
    let ready = |socket: Unix, begins: bool| -> Connection {
        match over.as_str() {
            "unix" => {
                socket.set_nonblocking(true).expect("a socket");
                Box::new(Stream::new(UnixStream::from_std(socket)))
            }
            "shared" => {
                socket.set_nonblocking(true).expect("a socket");
                let socket = UnixStream::from_std(socket);
                let ring = number("ring", CAPACITY);
                let mut agreement = if begins {
                    Agreement::offer(socket, ring).expect("a ring")
                } else {
                    Agreement::answer(socket)
                };
                while !agreement.advance().expect("an answer") {
                    std::thread::sleep(Duration::from_millis(1));
                }
                agreement.connection()
            }
            _ => {
                let mut socket = socket;
                let stream = if begins {
                    let mut port = [0; 2];
                    socket.read_exact(&mut port).expect("a port");
                    TcpStream::connect((Ipv4Addr::LOCALHOST, u16::from_le_bytes(port))).expect("a connection")
                } else {
                    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
                    let port = listener.local_addr().expect("an address").port();
                    socket.write_all(&port.to_le_bytes()).expect("the peer reads");
                    listener.accept().expect("a connection").0
                };
                stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true)).expect("a socket");
                if let Some(congestion) = option("congestion") {
                    let named = socket2::SockRef::from(&stream).set_tcp_congestion(congestion.as_bytes());
                    named.expect("a congestion control that this system has");
                }
                let socket = Socket::from(mio::net::TcpStream::from_std(stream));
                Box::new(Stream::new(if over == "tls" { secured(socket, begins, folder) } else { socket }))
            }
        }
    };
    for (peer, lane) in (0..rank).flat_map(|peer| (0..lanes).map(move |lane| (peer, lane))) {
        let mut socket = loop {
            match Unix::connect(path(folder, peer)) {
                Ok(socket) => break socket,
                Err(_) => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        socket.write_all(&[rank as u8, lane as u8]).expect("the peer reads");
        all[lane as usize][peer as usize] = Some(ready(socket, true));
    }
    for _ in 0..(ranks - 1 - rank) * lanes {
        let (mut socket, _) = listener.accept().expect("a peer");
        let mut peer = [0; 2];
        socket.read_exact(&mut peer).expect("its rank and lane");
        all[usize::from(peer[1])][usize::from(peer[0])] = Some(ready(socket, false));
    }
    all
}

/// Seconds of CPU time that this process has used.
fn cpu_seconds() -> f64 {
    let mut all = 0.0;
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        all += text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0);
    }
    all / 1e9
}

struct Rank {
    communicator: Communicator,
    rank: u32,
    ranks: u32,
    keep: bool,
}

impl Rank {
    fn all_reduce(&self, buffer: &mut Buffer) -> Duration {
        // SAFETY: the operation has succeeded when this returns, and nothing else uses the buffer.
        #[allow(unsafe_code)]
        let region = unsafe { buffer.lend() };
        let operation = Operation {
            kind: CollectiveKind::AllReduce,
            elements: region.len() as u64 / 4,
            element: Element::F32,
            reduction: Reduction::Sum,
            root: 0,
            association: Association::Arrival,
        };
        let began = Instant::now();
        let pending =
            self.communicator.begin(&operation, region, region, self.keep).expect("the operation is valid");
        pending
            .wait(Duration::from_secs(120))
            .expect("the operation ends in time")
            .expect("the operation succeeds");
        began.elapsed()
    }

    /// The sum of a number over all ranks.
    fn sum(&self, number: f32) -> f32 {
        let mut buffer = Buffer::new(4);
        buffer.as_mut_slice().copy_from_slice(&number.to_ne_bytes());
        self.all_reduce(&mut buffer);
        f32::from_ne_bytes(buffer.as_mut_slice().try_into().expect("four bytes"))
    }
}

fn member(rank: u32, ranks: u32, folder: &Path) {
    let lanes = number("lanes", 1) as u32;
    let plan = option("plan").unwrap_or_else(|| "direct".to_owned());
    let message = number("message", 64 << 10) as u64;
    let rule = Rule::new(CollectiveKind::AllReduce, by_name(&plan).expect("a plan"), message);
    let book = PlanBook::new(rank, ranks, Selection::of((0..ranks).collect(), vec![rule])).expect("a book");
    let flow = FlowControl { lanes, window: number("window", 512 << 10), ..Settings::default().flow };
    let settings = Settings { flow, ..Settings::default() };
    let connections = connections(rank, ranks, lanes, folder);
    let communicator = Communicator::new(Arc::new(book), settings, 0, connections).expect("threads");
    let member = Rank { communicator, rank, ranks, keep: std::env::args().any(|each| each == "--keep") };
    let one = option("size").map(|_| [("", number("size", 0))]);
    for &(name, bytes) in one.as_ref().map_or(&SIZES[..], |one| &one[..]) {
        measure(&member, name, bytes);
    }
}

#[expect(clippy::print_stdout, reason = "a bench prints")]
fn measure(member: &Rank, name: &str, bytes: usize) {
    let mut buffer = Buffer::new(bytes);
    // The buffer is all zeros, so that repeated sums do not overflow.
    let first = member.all_reduce(&mut buffer).as_secs_f32() + member.all_reduce(&mut buffer).as_secs_f32();
    let mean = member.sum(first / 2.0) / member.ranks as f32;
    let rounds = number("rounds", ((MEASURE.as_secs_f32() / mean) as usize).clamp(MIN_ROUNDS, 5000));
    let rounds = (member.sum(rounds as f32) / member.ranks as f32) as usize;
    let cpu = cpu_seconds();
    let mut times: Vec<f64> = (0..rounds).map(|_| member.all_reduce(&mut buffer).as_secs_f64()).collect();
    let cpu = f64::from(member.sum((cpu_seconds() - cpu) as f32));
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    let n = f64::from(member.ranks);
    let bus = 2.0 * (n - 1.0) / n * bytes as f64;
    if member.rank == 0 {
        let (median_ms, least_ms) = (median * 1e3, times[0] * 1e3);
        let per_gb = cpu / (rounds as f64 * n * bus / 1e9);
        println!("{name:>8} {median_ms:>12.3} {least_ms:>12.3} {:>10.2} {per_gb:>14.2}", bus / median / 1e9);
    }
}
