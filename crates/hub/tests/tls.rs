//! Members, hubs and workers that authenticate with certificates, on threads and real sockets.

use crate::lending::Lent;
use crate::members::{self, WAIT, all_reduce, are, free_port, vector};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use syncline_executor::session::Session;
use syncline_hub::join as hub_join;
use syncline_hub::optimizer::Optimizers;
use syncline_hub::register::Limits;
use syncline_hub::serve::Service;
use syncline_hub::setup::Setup;
use syncline_hub::status::ask;
use syncline_hub::worker::Worker;
use syncline_hub::worker_settings::WorkerSettings;
use syncline_membership::join_error::JoinError;
use syncline_membership::member_settings::MemberSettings;
use syncline_protocol::fault::Blame;
use syncline_protocol::handshake::Key;
use syncline_protocol::heartbeat::Patience;
use syncline_protocol::memory::Buffer;
use syncline_protocol::operation::Request;
use syncline_protocol::settings::Settings;
use syncline_transport::certificates::Identity;
use syncline_transport::certificates::issue::{Issued, Pair, issue, issue_between};
use syncline_transport::trust::Trust;

fn identity(issued: &Issued, pair: &Pair) -> Identity {
    Identity::new(issued.ca.as_bytes(), pair.certificate.as_bytes(), pair.key.as_bytes()).unwrap()
}

/// The identities of a hub and of any rank.
fn both(issued: &Issued) -> (Trust, Trust) {
    let rank = identity(issued, issued.rank.as_ref().unwrap());
    (Trust::Tls(identity(issued, &issued.hub)), Trust::Tls(rank))
}

fn fresh() -> (Trust, Trust) {
    both(&issue(None, 0, 1).unwrap())
}

fn place(rank: u32, world: u32, port: u16, trust: &Trust) -> MemberSettings {
    MemberSettings { trust: trust.clone(), shared_memory: false, ..members::place(rank, world, port) }
}

fn settings() -> Settings {
    Settings { deadline: Duration::from_secs(20), ..members::settings() }
}

fn enter(place: MemberSettings) -> thread::JoinHandle<Result<Session, JoinError>> {
    members::enter(place, settings())
}

fn meet(places: Vec<MemberSettings>) -> Vec<Session> {
    members::meet(places, settings())
}

fn sums(members: &[Session], elements: usize) {
    let mut buffers: Vec<Buffer> = (0..members.len()).map(|rank| vector(rank as f32, elements)).collect();
    let pending: Vec<_> = members
        .iter()
        .zip(&mut buffers)
        .map(|(member, buffer)| {
            let region = buffer.region();
            member.begin(&all_reduce(elements as u64), region, region, false).unwrap()
        })
        .collect();
    for pending in pending {
        pending.wait(WAIT).expect("it completes in time").unwrap();
    }
    let sum = (members.len() * (members.len() - 1) / 2) as f32;
    assert!(buffers.iter().all(|buffer| are(buffer, sum)));
}

#[test]
fn collectives_of_many_bytes_run_over_tls() {
    let (_, trust) = fresh();
    let port = free_port();
    let members = meet((0..3).map(|rank| place(rank, 3, port, &trust)).collect());
    let words = |member: &Session| member.transports().iter().all(|words| words.is_empty() || words == "TLS");
    assert!(members.iter().all(words));
    for elements in [1, 3_000_000, 1000, 2_000_000] {
        sums(&members, elements);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn members_with_certificates_share_memory_on_one_machine() {
    let (_, trust) = fresh();
    let port = free_port();
    let near = |rank| MemberSettings { shared_memory: true, ..place(rank, 2, port, &trust) };
    let members = meet((0..2).map(near).collect());
    assert!(members.iter().all(|member| member.transports().iter().any(|words| words == "shared memory")));
    sums(&members, 500_000);
}

#[test]
fn members_without_a_certificate_of_the_ca_are_refused_with_the_reason() {
    let ((hub, trust), (_, stranger)) = (fresh(), fresh());
    let port = free_port();
    let first = enter(place(0, 3, port, &trust));
    let refused = |trust: &Trust| {
        let began = Instant::now();
        let why = enter(place(1, 3, port, trust)).join().unwrap().unwrap_err().why;
        assert!(began.elapsed() < Duration::from_secs(4), "{why}");
        why
    };
    let why = refused(&stranger);
    assert!(why.contains("a certificate issued by a different CA"), "{why}");
    let why = refused(&hub);
    assert!(
        why.contains("is for `hub.syncline`, and this connection needs one for `rank.syncline`"),
        "{why}"
    );
    for plain in [Trust::Everybody, Trust::Key(Key::new([3; 32]))] {
        let why = refused(&plain);
        assert!(why.contains("speaks TLS: use certificates everywhere"), "{why}");
    }
    let rest: Vec<_> = (1..3).map(|rank| enter(place(rank, 3, port, &trust))).collect();
    let mut members = vec![first.join().unwrap().unwrap()];
    members.extend(rest.into_iter().map(|member| member.join().unwrap().unwrap()));
    sums(&members, 100);
    drop(members);
    // A member with a certificate does not join a coordinator without one.
    let port = free_port();
    let mut short = place(0, 2, port, &Trust::Everybody);
    short.wait = Duration::from_secs(2);
    let first = enter(short);
    let why = enter(place(1, 2, port, &trust)).join().unwrap().unwrap_err().why;
    assert!(why.contains("does not speak TLS: use certificates everywhere"), "{why}");
    assert!(first.join().unwrap().is_err());
}

#[test]
fn a_certificate_of_a_rank_or_job_is_refused_for_others() {
    let issued = issue(Some("test"), 2, 1).unwrap();
    let trusts: Vec<Trust> = issued.ranks.iter().map(|pair| Trust::Tls(identity(&issued, pair))).collect();
    let port = free_port();
    let first = enter(place(0, 2, port, &trusts[0]));
    let why = enter(place(1, 2, port, &trusts[0])).join().unwrap().unwrap_err().why;
    assert!(why.contains("the certificate is for rank 0, and this is rank 1"), "{why}");
    let other = MemberSettings { job: "other".to_owned(), ..place(1, 2, port, &trusts[1]) };
    let why = enter(other).join().unwrap().unwrap_err().why;
    assert!(why.contains("the certificate is for job `test`, and this is job `other`"), "{why}");
    let second = enter(place(1, 2, port, &trusts[1]));
    sums(&[first.join().unwrap().unwrap(), second.join().unwrap().unwrap()], 1000);
    // The CA is the same, but the certificate is for another job. Rank 0 finds that when it connects to its own
    // coordinator.
    let first = MemberSettings { job: "other".to_owned(), ..place(0, 2, free_port(), &trusts[0]) };
    let why = enter(first).join().unwrap().unwrap_err().why;
    assert!(why.contains("the certificate is for job `test`, and this is job `other`"), "{why}");
}

fn patience() -> Patience {
    Patience { interval: Duration::from_millis(100), silence: Duration::from_millis(1000) }
}

fn serve(cores: u32, interfaces: usize, trust: &Trust) -> Service {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let setup = Setup {
        interfaces: vec![address; interfaces],
        cores,
        pin: false,
        trust: trust.clone(),
        patience: patience(),
        limits: Limits { jobs: 3, memory: 1 << 30, ahead: 16 << 20 },
        optimizers: Optimizers::default(),
        congestion: None,
        saves: None,
    };
    Service::open(setup).unwrap()
}

fn work(hub: SocketAddr, rank: u32, workers: u32, elements: u64, trust: &Trust) -> Result<Worker, JoinError> {
    let place = WorkerSettings {
        rank,
        job: "job".to_owned(),
        hubs: vec![hub],
        alternate_addresses: Default::default(),
        trust: trust.clone(),
        wait: Duration::from_secs(10),
        congestion: None,
        patience: patience(),
        deadline: Duration::from_secs(20),
    };
    let terms = format!(
        "{{\"workers\": {workers}, \"chunk\": 4096, \"reduction\": \"sum\", \
         \"keys\": [{{\"name\": \"k0\", \"element\": \"f32\", \"elements\": {elements}}}]}}"
    );
    let terms = serde_json::from_str(&terms).unwrap();
    hub_join::join(&place, terms, &Optimizers::default(), &mut || Ok(()))
}

#[test]
fn hubs_exchange_many_bytes_and_report_their_status_over_tls() {
    const ELEMENTS: usize = 1_500_000;
    let (serves, trust) = fresh();
    let hub = serve(3, 2, &serves);
    let address = hub.interfaces()[0];
    thread::scope(|scope| {
        for rank in 0..3 {
            let trust = &trust;
            scope.spawn(move || {
                let worker = work(address, rank, 3, ELEMENTS as u64, trust).unwrap();
                for step in 1..4 {
                    let mut buffer = vector(step as f32, ELEMENTS);
                    let region = buffer.region();
                    let exchange = worker.begin(0, Request::PushPull, region, region, false).unwrap();
                    exchange.pending.wait(WAIT).expect("it completes in time").unwrap();
                    assert!(are(&buffer, 3.0 * step as f32));
                }
            });
        }
    });
    for trust in [&trust, &serves] {
        let status = ask(address, trust, Duration::from_secs(5), &mut || Ok(())).unwrap();
        assert_eq!(status.cores, 3);
    }
    let why = |trust: &Trust| ask(address, trust, Duration::from_secs(3), &mut || Ok(())).unwrap_err();
    assert!(why(&fresh().1).contains("shows a certificate issued by a different CA"));
    assert!(why(&Trust::Everybody).contains("speaks TLS"));
    // A hub with a rank's certificate is not accepted.
    let false_hub = serve(1, 1, &trust);
    let asked = ask(false_hub.interfaces()[0], &trust, Duration::from_secs(3), &mut || Ok(()));
    let why = asked.unwrap_err();
    assert!(
        why.contains(
            "shows a certificate for `rank.syncline`, and this connection needs one for `hub.syncline`"
        ),
        "{why}"
    );
    let open = serve(1, 1, &Trust::Everybody);
    let asked = ask(open.interfaces()[0], &trust, Duration::from_secs(3), &mut || Ok(()));
    assert!(asked.unwrap_err().contains("does not speak TLS"));
}

#[test]
fn hubs_of_racks_authenticate_with_certificates() {
    let (serves, trust) = fresh();
    let hubs: Vec<Service> = (0..2).map(|_| serve(2, 1, &serves)).collect();
    let addresses: Vec<Vec<SocketAddr>> = hubs.iter().map(|hub| hub.interfaces().to_vec()).collect();
    thread::scope(|scope| {
        for rank in 0..4 {
            let (trust, addresses) = (&trust, &addresses);
            scope.spawn(move || {
                let place = WorkerSettings {
                    rank,
                    job: "racks".to_owned(),
                    hubs: Vec::new(),
                    alternate_addresses: Default::default(),
                    trust: trust.clone(),
                    wait: Duration::from_secs(10),
                    congestion: None,
                    patience: patience(),
                    deadline: Duration::from_secs(20),
                };
                let terms = serde_json::json!({
                    "workers": 4, "chunk": 4096, "reduction": "sum",
                    "keys": [{"name": "k0", "element": "f32", "elements": 300_000}],
                    "racks": {"of": [0, 1, 0, 1], "hubs": addresses, "between": "ring"},
                });
                let terms = serde_json::from_value(terms).unwrap();
                let worker = hub_join::join(&place, terms, &Optimizers::default(), &mut || Ok(())).unwrap();
                let mut buffer = vector(rank as f32, 300_000);
                let region = buffer.region();
                let exchange = worker.begin(0, Request::PushPull, region, region, false).unwrap();
                exchange.pending.wait(WAIT).expect("it completes in time").unwrap();
                assert!(are(&buffer, 6.0));
            });
        }
    });
}

#[test]
fn an_expired_certificate_is_refused_with_its_date() {
    let now = SystemTime::now();
    let soon = issue_between(None, 0, now - Duration::from_secs(60), now + Duration::from_secs(2)).unwrap();
    let (serves, trust) = both(&soon);
    let hub = serve(1, 1, &serves);
    let asked = |trust: &Trust| ask(hub.interfaces()[0], trust, Duration::from_secs(1), &mut || Ok(()));
    assert!(asked(&trust).is_ok());
    thread::sleep(Duration::from_millis(3100));
    let why = asked(&trust).unwrap_err();
    assert!(why.contains("shows a certificate that expired on 2"), "{why}");
}

#[test]
fn strangers_with_invalid_handshakes_do_not_keep_workers_out() {
    let (serves, trust) = fresh();
    let hub = serve(1, 1, &serves);
    let address = hub.interfaces()[0];
    let knock = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(bytes).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(8))).unwrap();
        stream
    };
    let ends = |mut stream: TcpStream, within: Duration| {
        let began = Instant::now();
        let mut rest = Vec::new();
        // A reset ends the connection, too.
        _ = stream.read_to_end(&mut rest);
        assert!(began.elapsed() < within, "after {:?}", began.elapsed());
    };
    ends(knock(&[0xff; 6000]), Duration::from_secs(2));
    ends(knock(b"GET / HTTP/1.1\r\nHost: hub\r\n\r\n"), Duration::from_secs(2));
    // TLS records of an endless hello, longer than a handshake may be.
    let mut endless = vec![22, 3, 1, 0x40, 0, 1, 0, 0xff, 0];
    endless.resize(16_389, 0);
    let mut more = endless.clone();
    more.extend(&endless);
    ends(knock(&more), Duration::from_secs(2));
    // A handshake that begins correctly and then stops does not block others.
    let slow = knock(&[22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]);
    let silent: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(address).unwrap()).collect();
    let worker = work(address, 0, 1, 1000, &trust).unwrap();
    let mut buffer = vector(2.0, 1000);
    let region = buffer.region();
    let exchange = worker.begin(0, Request::PushPull, region, region, false).unwrap();
    exchange.pending.wait(WAIT).expect("it completes in time").unwrap();
    drop(silent);
    ends(slow, Duration::from_secs(7));
    assert!(hub.status().refused > 3, "{}", hub.status().refused);
}

const CHILD: &str = "SYNCLINE_TLS_CHILD";

/// The process that the next test kills; not a test of its own.
#[test]
fn a_rank_that_is_killed() {
    let Ok(arguments) = std::env::var(CHILD) else { return };
    let (port, folder) = arguments.split_once(' ').unwrap();
    let read = |name: &str| std::fs::read(format!("{folder}/{name}")).unwrap();
    let trust = Trust::Tls(Identity::new(&read("ca"), &read("certificate"), &read("key")).unwrap());
    let member = enter(place(1, 2, port.parse().unwrap(), &trust)).join().unwrap().unwrap();
    // It does nothing until it is killed.
    thread::sleep(WAIT);
    drop(member);
}

#[test]
fn a_killed_rank_is_at_fault_within_a_second() {
    let issued = issue(None, 0, 1).unwrap();
    let rank = issued.rank.as_ref().unwrap();
    let folder = std::env::temp_dir().join(format!("syncline-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (name, text) in [("ca", &issued.ca), ("certificate", &rank.certificate), ("key", &rank.key)] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let port = free_port();
    let first = enter(place(0, 2, port, &Trust::Tls(identity(&issued, rank))));
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tls::a_rank_that_is_killed"])
        .env(CHILD, format!("{port} {}", folder.display()))
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let member = first.join().unwrap().unwrap();
    let mut buffer = vector(1.0, 3_000_000);
    let region = buffer.region();
    let pending = member.begin(&all_reduce(3_000_000), region, region, true).unwrap();
    thread::sleep(Duration::from_millis(300));
    child.kill().unwrap();
    let began = Instant::now();
    let fault = pending.wait(WAIT).expect("it completes in time").unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(1), "after {:?}", began.elapsed());
    assert_eq!(fault.blame, Blame::Rank(1), "{fault}");
    assert!(are(&buffer, 1.0));
    child.wait().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn renewed_certificates_hold_for_new_connections_and_existing_ones_go_on() {
    let now = SystemTime::now();
    let soon = issue_between(None, 0, now - Duration::from_secs(60), now + Duration::from_secs(3)).unwrap();
    let (hub, rank) = (identity(&soon, &soon.hub), identity(&soon, soon.rank.as_ref().unwrap()));
    let old = identity(&soon, soon.rank.as_ref().unwrap());
    let service = serve(2, 1, &Trust::Tls(hub.clone()));
    let (address, trust) = (service.interfaces()[0], Trust::Tls(rank.clone()));
    let exchange = |worker: &Worker| {
        let mut buffer = vector(2.0, 100_000);
        let region = buffer.region();
        let exchange = worker.begin(0, Request::PushPull, region, region, false).unwrap();
        exchange.pending.wait(WAIT).expect("it completes in time").unwrap();
        assert!(are(&buffer, 2.0));
    };
    let worker = work(address, 0, 1, 100_000, &trust).unwrap();
    exchange(&worker);
    let later = issue(None, 0, 1).unwrap();
    hub.renew(&identity(&later, &later.hub)).unwrap();
    rank.renew(&identity(&later, later.rank.as_ref().unwrap())).unwrap();
    thread::sleep(Duration::from_millis(4100));
    // The certificates with which these connections began have expired.
    exchange(&worker);
    drop(worker);
    exchange(&work(address, 0, 1, 100_000, &trust).unwrap());
    let asked = |trust: &Trust| ask(address, trust, Duration::from_secs(1), &mut || Ok(()));
    assert!(asked(&trust).is_ok());
    let why = asked(&Trust::Tls(old)).unwrap_err();
    assert!(why.contains("certificate"), "{why}");
}
