//! Members that meet over TCP, each on a thread of its own.

use crate::lending::Lent;
use crate::members::{self, WAIT, all_reduce, book, enter, free_port, place, settings};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};
use syncline_executor::Communicator;
use syncline_executor::pending::Pending;
use syncline_executor::session::{Session, join, join_with};
use syncline_membership::hooks::Hooks;
use syncline_membership::place::{Absence, Interface, Place};
use syncline_protocol::fault::{Blame, Kind};
use syncline_protocol::handshake::{Acceptor, Authentication, Key, Next};
use syncline_protocol::lane::Pace;
use syncline_protocol::memory::{Buffer, Region};
use syncline_protocol::operation::Operation;
use syncline_protocol::settings::Settings;
use syncline_transport::trust::Trust;
use syncline_units::CollectiveKind;

fn meet(world: u32, settings: Settings) -> Vec<Session> {
    let port = free_port();
    members::meet((0..world).map(|rank| place(rank, world, port)).collect(), settings)
}

/// What a member's connections to others are.
fn transports(members: &[Session]) -> Vec<&str> {
    let all = members.iter().flat_map(|member| member.transports());
    all.map(String::as_str).filter(|words| !words.is_empty()).collect()
}

#[test]
fn members_on_one_machine_share_memory_unless_one_will_not() {
    let all = meet(3, settings());
    if cfg!(target_os = "linux") {
        assert_eq!(transports(&all), ["shared memory"; 6]);
    }
    drop(all);
    let port = free_port();
    let other = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    let places = [
        place(0, 3, port),
        Place { interfaces: vec![other.into()], ..place(1, 3, port) },
        Place { shared_memory: false, ..place(2, 3, port) },
    ];
    let members = members::meet(places.into(), settings());
    let shared = if cfg!(target_os = "linux") { "shared memory" } else { "TCP" };
    assert_eq!(transports(&members), [shared, "TCP", shared, "TCP", "TCP", "TCP"]);
}

#[test]
fn the_first_rank_takes_a_free_port_and_says_which() {
    let (tell, told) = std::sync::mpsc::channel();
    let first = thread::spawn(move || {
        let announce = &mut |addresses: &[SocketAddr]| {
            tell.send(addresses[0]).unwrap();
            Ok(())
        };
        let hooks = Hooks { announce, wanted: &mut || true, notice: &mut |_| {} };
        join_with(&place(0, 2, 0), &mut book, settings(), hooks)
    });
    let address: SocketAddr = told.recv_timeout(WAIT).unwrap();
    assert_ne!(address.port(), 0);
    let second = enter(place(1, 2, address.port()), settings());
    assert!(first.join().unwrap().is_ok() && second.join().unwrap().is_ok());
}

#[test]
fn whoever_cannot_announce_waits_for_nobody_and_others_need_a_port() {
    let announce = &mut |_: &[SocketAddr]| Err(Absence { why: "nobody listens".to_owned(), nonsense: false });
    let hooks = Hooks { announce, wanted: &mut || true, notice: &mut |_| {} };
    let refused = join_with(&place(0, 2, 0), &mut book, settings(), hooks);
    assert_eq!(refused.unwrap_err().why, "nobody listens");
    let lost = join(&place(1, 2, 0), &mut book, settings()).unwrap_err();
    assert!(lost.nonsense && lost.why.contains("only rank 0 may take any port"), "{}", lost.why);
}

/// What a member says while it waits, until it has waited for so long in all.
fn said(place: &Place, most: Duration) -> Vec<(f64, String)> {
    let (began, mut said) = (Instant::now(), Vec::new());
    let notice = &mut |what: &str| said.push((began.elapsed().as_secs_f64(), what.to_owned()));
    let hooks = Hooks { announce: &mut |_| Ok(()), wanted: &mut || began.elapsed() < most, notice };
    join_with(place, &mut book, settings(), hooks).unwrap_err();
    said
}

/// Fault: some ranks do not come, or rank 0 does not -> those who wait say for whom after 3 s, and again later
#[test]
fn whoever_waits_says_for_whom_within_seconds() {
    let port = free_port();
    let waits = Duration::from_secs(8);
    let others = [0, 2].map(|rank| thread::spawn(move || said(&place(rank, 4, port), waits)));
    let alone = said(&place(1, 2, free_port()), waits);
    assert!(alone[0].1.contains("rank 1 has not reached rank 0 at 127.0.0.1:"), "{alone:?}");
    assert!(alone[0].1.contains("refused") && alone.len() == 2 && alone[0].0 < 5.0, "{alone:?}");
    for (rank, said) in [0, 2].into_iter().zip(others.map(|other| other.join().unwrap())) {
        assert!(said[0].1.starts_with(&format!("rank {rank} waits for ranks 1, 3 (")), "{said:?}");
        assert!(said[0].0 < 5.0 && said.len() == 2, "{said:?}");
    }
}

#[test]
fn all_addresses_of_the_coordinator_are_tried() {
    let (port, other) = (free_port(), IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3)));
    let nobody = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9)), port);
    // An address that this host has not is none of those at which rank 0 listens.
    let elsewhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), port);
    let here = SocketAddr::new(other, port);
    let places = [vec![elsewhere, here], vec![nobody, here], vec![here]];
    let places =
        (0u32..).zip(places).map(|(rank, coordinator)| Place { coordinator, ..place(rank, 3, port) });
    assert_eq!(members::meet(places.collect(), settings()).len(), 3);
    let places = [0, 1].map(|rank| Place { coordinator: vec![elsewhere], ..place(rank, 2, port) });
    let absence = join(&places[0], &mut book, settings()).unwrap_err();
    assert!(absence.why.contains("cannot listen on 192.0.2.1"), "{absence}");
}

#[test]
fn members_listen_at_the_ports_that_they_are_given_and_at_the_addresses_that_they_say() {
    // Three members with two lanes each, and the coordinator.
    let first = 20_000 + (std::process::id() % 20_000) as u16;
    let told = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let any = Interface { listen: IpAddr::V4(Ipv4Addr::UNSPECIFIED), told };
    let ports = move |count: u16| Some((first, first + count - 1));
    let of = move |rank, port, count| Place {
        ports: ports(count),
        interfaces: vec![any],
        shared_memory: false,
        ..place(rank, 3, port)
    };
    let (tell, told) = std::sync::mpsc::channel();
    let zero = thread::spawn(move || {
        let announce = &mut |addresses: &[SocketAddr]| {
            tell.send(addresses[0].port()).unwrap();
            Ok(())
        };
        let hooks = Hooks { announce, wanted: &mut || true, notice: &mut |_| {} };
        join_with(&of(0, 0, 40), &mut book, settings(), hooks)
    });
    let port = told.recv_timeout(WAIT).unwrap();
    assert!((first..first + 40).contains(&port), "{port}");
    let others = [1, 2].map(|rank| enter(of(rank, port, 40), settings()));
    let all: Vec<Session> = others
        .into_iter()
        .map(|other| other.join().unwrap().unwrap())
        .chain([zero.join().unwrap().unwrap()])
        .collect();
    assert!(transports(&all).iter().all(|words| *words == "TCP"));
    drop(all);
    let taken = TcpListener::bind((Ipv4Addr::UNSPECIFIED, first)).unwrap();
    let absence = join(&of(1, port, 1), &mut book, settings()).unwrap_err();
    assert!(absence.why.contains(&format!("none of the ports {first} to {first} is free")), "{absence}");
    drop(taken);
}

#[test]
fn members_meet_and_sum() {
    for shared_memory in [true, false] {
        meet_and_sum(shared_memory);
    }
}

fn meet_and_sum(shared_memory: bool) {
    let port = free_port();
    let places = (0..4).map(|rank| Place { shared_memory, ..place(rank, 4, port) });
    let members = members::meet(places.collect(), settings());
    let mut buffers: Vec<Buffer> = (0..4).map(|_| Buffer::new(4 * 100_000)).collect();
    for round in 1..=20 {
        let mut pending = Vec::new();
        for (rank, (member, buffer)) in members.iter().zip(&mut buffers).enumerate() {
            for bytes in buffer.as_mut_slice().chunks_exact_mut(4) {
                bytes.copy_from_slice(&((rank as f32 + 1.0) * round as f32).to_ne_bytes());
            }
            let region = buffer.region();
            pending.push(member.begin(&all_reduce(100_000), region, region, false).unwrap());
        }
        assert!(pending.into_iter().all(|pending| pending.wait(WAIT) == Some(Ok(()))));
        let expected = (10.0 * round as f32).to_ne_bytes();
        assert!(buffers.iter_mut().all(|b| b.as_mut_slice().chunks_exact(4).all(|bytes| bytes == expected)));
    }
    // Members end in any order, and nobody waits for long.
    let began = Instant::now();
    drop(members);
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn all_are_told_the_same_of_one_who_does_not_begin() {
    let members = meet(4, settings());
    let mut buffers: Vec<Buffer> = (0..4).map(|_| Buffer::new(4000)).collect();
    let mut pending = Vec::new();
    for (member, buffer) in members.iter().zip(&mut buffers).take(3) {
        let region = buffer.region();
        pending.push(member.begin(&all_reduce(1000), region, region, true).unwrap());
    }
    for pending in pending {
        let fault = pending.wait(WAIT).unwrap().unwrap_err();
        assert_eq!((fault.blame, fault.trouble.kind), (Blame::Rank(3), Kind::Deadline), "{fault}");
        assert!(fault.to_string().contains("has not begun operation 1"), "{fault}");
    }
}

#[test]
fn all_are_told_both_shapes_where_they_differ() {
    let members = meet(3, settings());
    let mut buffers: Vec<Buffer> = (0..3).map(|_| Buffer::new(4004)).collect();
    let mut pending = Vec::new();
    for (rank, (member, buffer)) in members.iter().zip(&mut buffers).enumerate() {
        let elements = if rank == 1 { 1001 } else { 1000 };
        let region = buffer.region().part(0..4 * elements);
        pending.push(member.begin(&all_reduce(elements as u64), region, region, false).unwrap());
    }
    let texts: Vec<String> = (pending.into_iter())
        .map(|pending| {
            let fault = pending.wait(WAIT).unwrap().unwrap_err();
            assert_eq!(fault.trouble.kind, Kind::Differs, "{fault}");
            format!("{} {}", fault.blame, fault.trouble)
        })
        .collect();
    assert!(texts[0].contains("1000 f32") && texts[0].contains("1001 f32"), "{}", texts[0]);
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
}

/// Fault: ranks do not come -> those who did are told which are missing
#[test]
fn who_is_missing_is_named() {
    let port = free_port();
    let short = |rank| Place { wait: Duration::from_millis(500), ..place(rank, 4, port) };
    let members = [enter(short(0), settings()), enter(short(2), settings())];
    for member in members {
        let absence = member.join().unwrap().unwrap_err();
        assert!(
            absence.why.contains("rank 1 did not come within") && absence.why.contains("missing, too: 3"),
            "{absence}"
        );
    }
}

/// Fault: strangers, second comers, ranks of another world size, key or job join -> each is told why it is refused, and the others meet
#[test]
fn strangers_and_second_comers_are_refused_and_the_others_meet() {
    let port = free_port();
    let first = enter(place(0, 3, port), settings());
    let second = enter(place(1, 3, port), settings());
    thread::sleep(Duration::from_millis(300));
    let refused = |place: Place, settings: Settings| {
        let place = Place { wait: Duration::from_secs(2), ..place };
        enter(place, settings).join().unwrap().unwrap_err().why
    };
    let why = refused(place(1, 3, port), settings());
    assert!(why.contains("rank 1 is here already"), "{why}");
    let why = refused(place(2, 4, port), settings());
    assert!(why.contains("4 ranks there meet 3 ranks here"), "{why}");
    let why = refused(Place { trust: Trust::Key(Key::new([4; 32])), ..place(2, 3, port) }, settings());
    assert!(why.contains("key"), "{why}");
    let why = refused(Place { trust: Trust::Everybody, ..place(2, 3, port) }, settings());
    assert!(why.contains("`none` there and `key` here"), "{why}");
    let why = refused(Place { job: "other".to_owned(), ..place(2, 3, port) }, settings());
    assert!(why.contains("another name"), "{why}");
    let why = refused(place(2, 3, port), Settings::default());
    assert!(why.contains("1 lanes there meet 2 lanes here"), "{why}");
    // Garbage, and a connection that says nothing.
    let silent = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    for _ in 0..100 {
        use std::io::Write;
        let mut garbage = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        _ = garbage.write_all(&[0xff; 100]);
    }
    let third = enter(place(2, 3, port), settings());
    let members: Vec<Session> =
        [first, second, third].into_iter().map(|member| member.join().unwrap().unwrap()).collect();
    drop((members, silent));
}

/// A message as it goes over the line, behind its length.
fn framed(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

/// Fault: a rank runs another version -> it and whoever it meets are told both versions, at once
#[test]
fn a_rank_of_another_version_is_told_so_by_either_side() {
    use std::io::{Read, Write};
    // A newer one comes to this version.
    let port = free_port();
    let first = enter(place(0, 2, port), settings());
    thread::sleep(Duration::from_millis(300));
    let mut newer = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    let hello = r#"{"name":"syncline","protocol":99,"role":{"is":"fellow","rank":1},"proof":"none"}"#;
    newer.write_all(&framed(hello)).unwrap();
    let mut answer = Vec::new();
    newer.set_read_timeout(Some(WAIT)).unwrap();
    newer.read_to_end(&mut answer).unwrap();
    let text = String::from_utf8(answer[4..].to_vec()).unwrap();
    assert!(text.contains("refused") && text.contains("protocol 99 meets protocol"), "{text}");
    let second = enter(place(1, 2, port), settings());
    drop([first, second].map(|member| member.join().unwrap().unwrap()));
    // This version comes to a newer one.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let second = enter(place(1, 2, port), settings());
    let (mut stream, _) = listener.accept().unwrap();
    let began = Instant::now();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut hello = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut hello).unwrap();
    assert!(String::from_utf8(hello).unwrap().starts_with(r#"{"name":"syncline","protocol":"#));
    let refusal = r#"{"is":"refused","why":"protocol 1 meets protocol 99","since":"then"}"#;
    stream.write_all(&framed(refusal)).unwrap();
    let absence = second.join().unwrap().unwrap_err();
    assert!(absence.why.contains("refused: protocol 1 meets protocol 99"), "{absence}");
    assert!(began.elapsed() < Duration::from_secs(5), "it is not tried again");
}

/// Fault: the coordinator goes silent before the first epoch, while its connections stay -> who waits there says so within 2 s
#[test]
fn a_coordinator_that_is_silent_before_it_begins_is_found() {
    use std::io::{Read, Write};
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let second = enter(place(1, 2, listener.local_addr().unwrap().port()), settings());
    let (mut stream, _) = listener.accept().unwrap();
    let mut acceptor = Acceptor::new(Authentication::Key(Key::new([3; 32])), Some("test"), [9; 32]);
    loop {
        let mut bytes = vec![0; acceptor.wants()];
        let read = stream.read(&mut bytes).unwrap();
        match acceptor.received(&bytes[..read], |_| Ok(())).unwrap() {
            Next::Wait => {}
            Next::Send(answer) => stream.write_all(&answer).unwrap(),
            Next::Done(answer) => {
                stream.write_all(&answer).unwrap();
                break;
            }
        }
    }
    let began = Instant::now();
    let absence = second.join().unwrap().unwrap_err();
    assert!(absence.why.contains("lost the coordinator: it gave no sign of life"), "{absence}");
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

#[test]
fn members_wait_for_each_other_for_longer_than_any_silence() {
    let port = free_port();
    let mut members = vec![enter(place(0, 3, port), settings()), enter(place(2, 3, port), settings())];
    thread::sleep(Duration::from_secs(3));
    members.push(enter(place(1, 3, port), settings()));
    assert!(members.into_iter().all(|member| member.join().unwrap().is_ok()));
}

#[test]
fn the_coordinator_address_that_is_taken_is_named() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let place = place(0, 2, taken.local_addr().unwrap().port());
    let why = enter(place, settings()).join().unwrap().unwrap_err().why;
    assert!(why.contains("cannot listen on 127.0.0.1"), "{why}");
}

#[test]
fn a_rank_that_leaves_while_others_wait_for_it_is_at_fault_everywhere() {
    let mut members = meet(3, settings());
    let mut buffers: Vec<Buffer> = (0..2).map(|_| Buffer::new(4000)).collect();
    let mut pending = Vec::new();
    for (member, buffer) in members.iter().zip(&mut buffers) {
        let region = buffer.region();
        pending.push(member.begin(&all_reduce(1000), region, region, false).unwrap());
    }
    drop(members.pop());
    for pending in pending {
        let fault = pending.wait(WAIT).unwrap().unwrap_err();
        assert_eq!((fault.blame, fault.trouble.kind), (Blame::Rank(2), Kind::Left), "{fault}");
    }
}

/// Begins an operation on a whole buffer, in place.
fn begin(member: &Communicator, operation: &Operation, buffer: &mut Buffer) -> Pending {
    let region = buffer.region();
    let gets = operation.kind != CollectiveKind::Reduce || member.book().member() == operation.root;
    member.begin(operation, region, if gets { region } else { Region::EMPTY }, false).unwrap()
}

#[test]
fn whoever_has_given_all_it_owed_may_leave() {
    let mut buffers: Vec<Buffer> = (0..3).map(|_| Buffer::new(400_000)).collect();
    let mut members = meet(3, settings());
    let reduce = Operation { kind: CollectiveKind::Reduce, ..all_reduce(100_000) };
    let first = begin(&members[0], &reduce, &mut buffers[0]);
    assert_eq!(begin(&members[2], &reduce, &mut buffers[2]).wait(WAIT), Some(Ok(())));
    drop(members.pop());
    thread::sleep(Duration::from_millis(800));
    assert_eq!(first.outcome(), None);
    assert_eq!(begin(&members[1], &reduce, &mut buffers[1]).wait(WAIT), Some(Ok(())));
    assert_eq!(first.wait(WAIT), Some(Ok(())));
}

#[test]
fn the_first_rank_may_leave_before_the_others_have_begun() {
    let mut buffers: Vec<Buffer> = (0..3).map(|_| Buffer::new(400_000)).collect();
    let mut members = meet(3, settings());
    let broadcast = Operation { kind: CollectiveKind::Broadcast, ..all_reduce(100_000) };
    buffers[0].as_mut_slice().fill(7);
    assert_eq!(begin(&members[0], &broadcast, &mut buffers[0]).wait(WAIT), Some(Ok(())));
    drop(members.remove(0));
    thread::sleep(Duration::from_millis(500));
    for (member, buffer) in members.iter().zip(&mut buffers[1..]) {
        assert_eq!(begin(member, &broadcast, buffer).wait(WAIT), Some(Ok(())));
        assert!(buffer.as_mut_slice().iter().all(|&byte| byte == 7));
    }
}

/// Fault: rank 0 ends, and with it the coordinator; then another is lost -> the rest name it at once
#[test]
fn a_rank_that_is_lost_after_the_coordinator_has_left_is_named_at_once() {
    let mut buffers: Vec<Buffer> = (0..2).map(|_| Buffer::new(400_000)).collect();
    let mut members = meet(3, settings());
    let reduce = Operation { kind: CollectiveKind::Reduce, root: 1, ..all_reduce(100_000) };
    assert_eq!(begin(&members[0], &reduce, &mut buffers[0]).wait(WAIT), Some(Ok(())));
    drop(members.remove(0));
    let pending = begin(&members[0], &reduce, &mut buffers[1]);
    thread::sleep(Duration::from_millis(300));
    let began = Instant::now();
    drop(members.pop());
    let fault = pending.wait(WAIT).unwrap().unwrap_err();
    assert_eq!((fault.blame, fault.trouble.kind), (Blame::Rank(2), Kind::Left), "{fault}");
    assert!(began.elapsed() < Duration::from_millis(1500), "after {:?}", began.elapsed());
}

#[test]
fn whoever_is_through_with_a_job_waits_for_the_next_one_of_its_name() {
    let port = free_port();
    let mut first = members::meet((0..3).map(|rank| place(rank, 3, port)).collect(), settings());
    drop(first.remove(1));
    let again = enter(place(1, 3, port), settings());
    thread::sleep(Duration::from_millis(300));
    assert!(!again.is_finished());
    drop(first);
    let others = [0, 2].map(|rank| enter(place(rank, 3, port), settings()));
    for member in others.into_iter().chain([again]) {
        member.join().unwrap().unwrap();
    }
}

#[test]
fn what_is_wanted_now_is_read_behind_what_is_early() {
    let settings = Settings { pace: Pace { lanes: 1, ahead: 1 << 16, ..settings().pace }, ..settings() };
    let mut small: Vec<Buffer> = (0..2).map(|_| Buffer::new(8)).collect();
    let mut large: Vec<Buffer> = (0..2).map(|_| Buffer::new(16 << 20)).collect();
    let members = meet(2, settings);
    let broadcast = Operation { kind: CollectiveKind::Broadcast, ..all_reduce(4 << 20) };
    let mut pending = vec![
        begin(&members[0], &all_reduce(2), &mut small[0]),
        begin(&members[0], &broadcast, &mut large[0]),
    ];
    thread::sleep(Duration::from_millis(500));
    assert_eq!(begin(&members[1], &all_reduce(2), &mut small[1]).wait(WAIT), Some(Ok(())));
    pending.push(begin(&members[1], &broadcast, &mut large[1]));
    assert!(pending.into_iter().all(|pending| pending.wait(WAIT) == Some(Ok(()))));
}

/// Fault: strangers connect and say nothing -> they keep nobody out
#[test]
fn many_strangers_who_say_nothing_keep_nobody_out() {
    let port = free_port();
    let first = enter(place(0, 2, port), settings());
    thread::sleep(Duration::from_millis(200));
    let silent: Vec<TcpStream> =
        (0..200).map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap()).collect();
    let second = enter(place(1, 2, port), settings());
    assert!([first, second].into_iter().all(|member| member.join().unwrap().is_ok()));
    drop(silent);
}

/// Fault: more strangers connect and say nothing than there is room for -> whoever talks, however slowly, is heard to its end
#[test]
fn whoever_is_silent_for_longest_makes_room() {
    use std::io::{Read, Write};
    let port = free_port();
    let first = enter(place(0, 2, port), settings());
    thread::sleep(Duration::from_millis(200));
    let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    let hello = framed(r#"{"name":"syncline","protocol":99}"#);
    let mut talker = connect();
    let mut silent: Vec<TcpStream> = (0..50).map(|_| connect()).collect();
    thread::sleep(Duration::from_millis(300));
    talker.write_all(&hello[..7]).unwrap();
    thread::sleep(Duration::from_millis(300));
    silent.extend((0..50).map(|_| connect()));
    thread::sleep(Duration::from_millis(300));
    talker.write_all(&hello[7..]).unwrap();
    let mut answer = Vec::new();
    talker.set_read_timeout(Some(WAIT)).unwrap();
    talker.read_to_end(&mut answer).unwrap();
    assert!(String::from_utf8_lossy(&answer).contains("protocol 99 meets protocol"), "{answer:?}");
    let second = enter(place(1, 2, port), settings());
    assert!([first, second].into_iter().all(|member| member.join().unwrap().is_ok()));
    drop(silent);
}

#[test]
fn what_makes_no_sense_is_told_before_anybody_is_called() {
    let alone = |place: Place| join(&place, &mut book, settings()).unwrap_err();
    let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let absence = alone(Place { interfaces: vec![any.into()], ..place(0, 2, free_port()) });
    assert!(absence.nonsense && absence.why.contains("name those that they reach it at"), "{absence}");
    let congestion = Some("no-such-thing".to_owned());
    let absence = alone(Place { congestion, ..place(0, 2, free_port()) });
    assert!(absence.nonsense && absence.why.contains("`no-such-thing`"), "{absence}");
}

#[test]
fn joining_ends_when_it_is_not_wanted_any_more() {
    for (rank, world) in [(0, 2), (1, 2)] {
        let mut asked = 0;
        let mut wanted = || {
            asked += 1;
            asked < 10
        };
        let began = Instant::now();
        let hooks = Hooks { announce: &mut |_| Ok(()), wanted: &mut wanted, notice: &mut |_| {} };
        let absence = join_with(&place(rank, world, free_port()), &mut book, settings(), hooks);
        let why = absence.unwrap_err().why;
        assert!(why.contains("told to give up"), "{why}");
        assert!(began.elapsed() < Duration::from_secs(3));
    }
}
