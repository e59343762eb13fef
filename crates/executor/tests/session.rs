//! Members that join a job over TCP, each on its own thread.

use crate::lending::Lent;
use crate::members::{self, WAIT, all_reduce, book, enter, free_port, place, settings};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};
use syncline_executor::Communicator;
use syncline_executor::pending::Pending;
use syncline_executor::session::{Session, join, join_with};
use syncline_membership::hooks::Hooks;
use syncline_membership::join_error::JoinError;
use syncline_membership::member_settings::{Interface, MemberSettings, PortRange};
use syncline_protocol::fault::{Blame, FaultKind};
use syncline_protocol::handshake::{Acceptor, Authentication, Key, Next};
use syncline_protocol::lane::FlowControl;
use syncline_protocol::memory::{Buffer, Region};
use syncline_protocol::operation::Operation;
use syncline_protocol::settings::Settings;
use syncline_transport::trust::Trust;
use syncline_units::CollectiveKind;

fn meet(world: u32, settings: Settings) -> Vec<Session> {
    let port = free_port();
    members::meet((0..world).map(|rank| place(rank, world, port)).collect(), settings)
}

/// Descriptions of all members' connections.
fn transports(members: &[Session]) -> Vec<String> {
    let all = members.iter().flat_map(|member| member.transports());
    all.filter(|words| !words.is_empty()).collect()
}

#[test]
fn members_on_one_machine_share_memory_unless_one_refuses() {
    let all = meet(3, settings());
    if cfg!(target_os = "linux") {
        assert_eq!(transports(&all), ["shared memory"; 6]);
    }
    drop(all);
    let port = free_port();
    let other = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    let places = [
        place(0, 3, port),
        MemberSettings { interfaces: vec![other.into()], ..place(1, 3, port) },
        MemberSettings { shared_memory: false, ..place(2, 3, port) },
    ];
    let members = members::meet(places.into(), settings());
    let shared = if cfg!(target_os = "linux") { "shared memory" } else { "TCP" };
    assert_eq!(transports(&members), [shared, "TCP", shared, "TCP", "TCP", "TCP"]);
}

#[test]
fn rank_0_listens_at_a_free_port_and_announces_it() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let first = thread::spawn(move || {
        let announce = &mut |addresses: &[SocketAddr]| {
            sender.send(addresses[0]).unwrap();
            Ok(())
        };
        let hooks = Hooks { announce, wanted: &mut || true, notice: &mut |_| {} };
        join_with(&place(0, 2, 0), &mut book, settings(), hooks)
    });
    let address: SocketAddr = receiver.recv_timeout(WAIT).unwrap();
    assert_ne!(address.port(), 0);
    let second = enter(place(1, 2, address.port()), settings());
    assert!(first.join().unwrap().is_ok() && second.join().unwrap().is_ok());
}

#[test]
fn joining_fails_if_rank_0_cannot_announce_or_another_rank_has_port_0() {
    let announce =
        &mut |_: &[SocketAddr]| Err(JoinError { why: "nobody listens".to_owned(), invalid: false });
    let hooks = Hooks { announce, wanted: &mut || true, notice: &mut |_| {} };
    let refused = join_with(&place(0, 2, 0), &mut book, settings(), hooks);
    assert_eq!(refused.unwrap_err().why, "nobody listens");
    let lost = join(&place(1, 2, 0), &mut book, settings()).unwrap_err();
    assert!(lost.invalid && lost.why.contains("give the port on which rank 0 listens"), "{}", lost.why);
}

/// The notices of a member that waits in vain, with the seconds after which each came. The member gives up
/// after `most`.
fn notices(place: &MemberSettings, most: Duration) -> Vec<(f64, String)> {
    let (began, mut said) = (Instant::now(), Vec::new());
    let notice = &mut |what: &str| said.push((began.elapsed().as_secs_f64(), what.to_owned()));
    let hooks = Hooks { announce: &mut |_| Ok(()), wanted: &mut || began.elapsed() < most, notice };
    join_with(place, &mut book, settings(), hooks).unwrap_err();
    said
}

/// Fault: some ranks, or rank 0, do not come -> waiting ranks say after 3 s which ranks they wait for, and again later
#[test]
fn waiting_ranks_say_within_seconds_for_which_ranks_they_wait() {
    let port = free_port();
    let waits = Duration::from_secs(8);
    let others = [0, 2].map(|rank| thread::spawn(move || notices(&place(rank, 4, port), waits)));
    let alone = notices(&place(1, 2, free_port()), waits);
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
    // Rank 0 skips an address that this host does not have.
    let elsewhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), port);
    let here = SocketAddr::new(other, port);
    let places = [vec![elsewhere, here], vec![nobody, here], vec![here]];
    let places = (0u32..)
        .zip(places)
        .map(|(rank, coordinator)| MemberSettings { coordinator, ..place(rank, 3, port) });
    assert_eq!(members::meet(places.collect(), settings()).len(), 3);
    let places = [0, 1].map(|rank| MemberSettings { coordinator: vec![elsewhere], ..place(rank, 2, port) });
    let error = join(&places[0], &mut book, settings()).unwrap_err();
    assert!(error.why.contains("cannot listen on 192.0.2.1"), "{error}");
}

#[test]
fn members_listen_at_the_ports_and_addresses_that_they_are_given() {
    // Three members with two lanes each, and the coordinator.
    let first = 20_000 + (std::process::id() % 20_000) as u16;
    let advertised = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let any = Interface { listen: IpAddr::V4(Ipv4Addr::UNSPECIFIED), advertised };
    let ports = move |count: u16| Some(PortRange { first, last: first + count - 1 });
    let of = move |rank, port, count| MemberSettings {
        ports: ports(count),
        interfaces: vec![any],
        shared_memory: false,
        ..place(rank, 3, port)
    };
    let (sender, receiver) = std::sync::mpsc::channel();
    let zero = thread::spawn(move || {
        let announce = &mut |addresses: &[SocketAddr]| {
            sender.send(addresses[0].port()).unwrap();
            Ok(())
        };
        let hooks = Hooks { announce, wanted: &mut || true, notice: &mut |_| {} };
        join_with(&of(0, 0, 40), &mut book, settings(), hooks)
    });
    let port = receiver.recv_timeout(WAIT).unwrap();
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
    let error = join(&of(1, port, 1), &mut book, settings()).unwrap_err();
    assert!(error.why.contains(&format!("none of the ports {first} to {first} is free")), "{error}");
    drop(taken);
}

#[test]
fn members_join_and_sum() {
    for shared_memory in [true, false] {
        join_and_sum(shared_memory);
    }
}

fn join_and_sum(shared_memory: bool) {
    let port = free_port();
    let places = (0..4).map(|rank| MemberSettings { shared_memory, ..place(rank, 4, port) });
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
    // Members may leave in any order, and none waits long for another.
    let began = Instant::now();
    drop(members);
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn all_ranks_get_the_same_error_if_one_does_not_begin() {
    let members = meet(4, settings());
    let mut buffers: Vec<Buffer> = (0..4).map(|_| Buffer::new(4000)).collect();
    let mut pending = Vec::new();
    for (member, buffer) in members.iter().zip(&mut buffers).take(3) {
        let region = buffer.region();
        pending.push(member.begin(&all_reduce(1000), region, region, true).unwrap());
    }
    for pending in pending {
        let fault = pending.wait(WAIT).unwrap().unwrap_err();
        assert_eq!((fault.blame, fault.trouble.kind), (Blame::Rank(3), FaultKind::Deadline), "{fault}");
        assert!(fault.to_string().contains("has not begun operation 1"), "{fault}");
    }
}

#[test]
fn all_ranks_get_both_operations_in_the_error_if_they_differ() {
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
            assert_eq!(fault.trouble.kind, FaultKind::Differs, "{fault}");
            format!("{} {}", fault.blame, fault.trouble)
        })
        .collect();
    assert!(texts[0].contains("1000 f32") && texts[0].contains("1001 f32"), "{}", texts[0]);
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
}

/// Fault: some ranks do not come in time -> the errors of the others name them
#[test]
fn missing_ranks_are_named() {
    let port = free_port();
    let short = |rank| MemberSettings { wait: Duration::from_millis(500), ..place(rank, 4, port) };
    let members = [enter(short(0), settings()), enter(short(2), settings())];
    for member in members {
        let error = member.join().unwrap().unwrap_err();
        assert!(
            error.why.contains("rank 1 did not join within") && error.why.contains("also missing: 3"),
            "{error}"
        );
    }
}

/// Fault: strangers, duplicate ranks, and ranks with another world size, key or job try to join -> each is refused with the reason, and the others join
#[test]
fn strangers_and_duplicate_ranks_are_refused_and_the_others_join() {
    let port = free_port();
    let first = enter(place(0, 3, port), settings());
    let second = enter(place(1, 3, port), settings());
    thread::sleep(Duration::from_millis(300));
    let refused = |place: MemberSettings, settings: Settings| {
        let place = MemberSettings { wait: Duration::from_secs(2), ..place };
        enter(place, settings).join().unwrap().unwrap_err().why
    };
    let why = refused(place(1, 3, port), settings());
    assert!(why.contains("rank 1 has already joined"), "{why}");
    let why = refused(place(2, 4, port), settings());
    assert!(why.contains("this job has 3 ranks, not 4"), "{why}");
    let why =
        refused(MemberSettings { trust: Trust::Key(Key::new([4; 32])), ..place(2, 3, port) }, settings());
    assert!(why.contains("key"), "{why}");
    let why = refused(MemberSettings { trust: Trust::Everybody, ..place(2, 3, port) }, settings());
    assert!(why.contains("with `none`, the accepting side with `key`"), "{why}");
    let why = refused(MemberSettings { job: "other".to_owned(), ..place(2, 3, port) }, settings());
    assert!(why.contains("a different name"), "{why}");
    let why = refused(place(2, 3, port), Settings::default());
    assert!(why.contains("this job has 2 lanes, not 1"), "{why}");
    // Garbage, and a connection that sends nothing.
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

/// A message as it is sent: its length, then its text.
fn framed(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

/// Fault: a rank runs another version -> both sides get an error with both versions, at once
#[test]
fn ranks_of_different_versions_refuse_each_other_and_name_both() {
    use std::io::{Read, Write};
    // A newer rank connects to a rank of this version.
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
    assert!(text.contains("refused") && text.contains("speaks protocol version 99"), "{text}");
    let second = enter(place(1, 2, port), settings());
    drop([first, second].map(|member| member.join().unwrap().unwrap()));
    // A rank of this version connects to a newer rank.
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
    let refusal = r#"{"is":"refused","why":"it speaks another protocol","since":"then"}"#;
    stream.write_all(&framed(refusal)).unwrap();
    let error = second.join().unwrap().unwrap_err();
    assert!(error.why.contains("refused: it speaks another protocol"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(5), "the rank tried again");
}

/// Fault: the coordinator goes silent before the first epoch, while its connections stay -> the ranks that wait for it say so within 2 s
#[test]
fn a_coordinator_that_goes_silent_before_the_first_epoch_is_found() {
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
    let error = second.join().unwrap().unwrap_err();
    assert!(error.why.contains("lost the coordinator: it sent nothing"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

#[test]
fn members_wait_for_a_late_rank_longer_than_the_silence_limit() {
    let port = free_port();
    let mut members = vec![enter(place(0, 3, port), settings()), enter(place(2, 3, port), settings())];
    thread::sleep(Duration::from_secs(3));
    members.push(enter(place(1, 3, port), settings()));
    assert!(members.into_iter().all(|member| member.join().unwrap().is_ok()));
}

#[test]
fn a_coordinator_address_that_is_in_use_is_named() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let place = place(0, 2, taken.local_addr().unwrap().port());
    let why = enter(place, settings()).join().unwrap().unwrap_err().why;
    assert!(why.contains("cannot listen on 127.0.0.1"), "{why}");
}

#[test]
fn all_ranks_blame_a_rank_that_leaves_while_they_wait_for_it() {
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
        assert_eq!((fault.blame, fault.trouble.kind), (Blame::Rank(2), FaultKind::Left), "{fault}");
    }
}

/// Begins an operation on a whole buffer, in place.
fn begin(member: &Communicator, operation: &Operation, buffer: &mut Buffer) -> Pending {
    let region = buffer.region();
    let gets = operation.kind != CollectiveKind::Reduce || member.book().member() == operation.root;
    member.begin(operation, region, if gets { region } else { Region::EMPTY }, false).unwrap()
}

#[test]
fn a_rank_may_leave_once_it_has_sent_all_that_others_need() {
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
fn rank_0_may_leave_before_the_others_have_begun() {
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

/// Fault: rank 0 leaves, and the coordinator with it; then another rank is lost -> the others name it at once
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
    assert_eq!((fault.blame, fault.trouble.kind), (Blame::Rank(2), FaultKind::Left), "{fault}");
    assert!(began.elapsed() < Duration::from_millis(1500), "after {:?}", began.elapsed());
}

#[test]
fn a_rank_that_left_and_joins_again_waits_for_the_next_job_of_that_name() {
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
fn messages_of_the_current_operation_are_read_behind_early_ones() {
    let settings =
        Settings { flow: FlowControl { lanes: 1, ahead: 1 << 16, ..settings().flow }, ..settings() };
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

/// Fault: strangers connect and send nothing -> ranks still join
#[test]
fn many_silent_strangers_keep_no_rank_out() {
    let port = free_port();
    let first = enter(place(0, 2, port), settings());
    thread::sleep(Duration::from_millis(200));
    let silent: Vec<TcpStream> =
        (0..200).map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap()).collect();
    let second = enter(place(1, 2, port), settings());
    assert!([first, second].into_iter().all(|member| member.join().unwrap().is_ok()));
    drop(silent);
}

/// Fault: more silent strangers connect than there is room for -> a connection that sends, however slowly, is served to its end
#[test]
fn the_connection_that_is_silent_longest_is_dropped_first() {
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
    assert!(String::from_utf8_lossy(&answer).contains("speaks protocol version 99"), "{answer:?}");
    let second = enter(place(1, 2, port), settings());
    assert!([first, second].into_iter().all(|member| member.join().unwrap().is_ok()));
    drop(silent);
}

#[test]
fn invalid_places_are_refused_before_any_connection() {
    let alone = |place: MemberSettings| join(&place, &mut book, settings()).unwrap_err();
    let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let error = alone(MemberSettings { interfaces: vec![any.into()], ..place(0, 2, free_port()) });
    assert!(
        error.invalid && error.why.contains("give the addresses at which others reach this host"),
        "{error}"
    );
    let congestion = Some("no-such-thing".to_owned());
    let error = alone(MemberSettings { congestion, ..place(0, 2, free_port()) });
    assert!(error.invalid && error.why.contains("`no-such-thing`"), "{error}");
}

#[test]
fn joining_stops_when_its_caller_asks() {
    for (rank, world) in [(0, 2), (1, 2)] {
        let mut asked = 0;
        let mut wanted = || {
            asked += 1;
            asked < 10
        };
        let began = Instant::now();
        let hooks = Hooks { announce: &mut |_| Ok(()), wanted: &mut wanted, notice: &mut |_| {} };
        let error = join_with(&place(rank, world, free_port()), &mut book, settings(), hooks);
        let why = error.unwrap_err().why;
        assert!(why.contains("was cancelled while joining"), "{why}");
        assert!(began.elapsed() < Duration::from_secs(3));
    }
}
