//! Members of a job on threads of one process, for tests.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;
use syncline_executor::session::{Session, join};
use syncline_membership::join_error::JoinError;
use syncline_membership::member_settings::{MESH, MemberSettings};
use syncline_plan::by_name;
use syncline_protocol::handshake::Key;
use syncline_protocol::lane::FlowControl;
use syncline_protocol::memory::Buffer;
use syncline_protocol::operation::{Association, Operation};
use syncline_protocol::plan_book::{PlanBook, Rule, Selection};
use syncline_protocol::settings::Settings;
use syncline_reduction::{Element, Reduction};
use syncline_transport::trust::Trust;
use syncline_units::CollectiveKind;

/// How long tests wait for something that should take almost no time.
pub(crate) const WAIT: Duration = Duration::from_secs(60);

pub(crate) fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

pub(crate) fn place(rank: u32, world: u32, port: u16) -> MemberSettings {
    let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
    MemberSettings {
        rank,
        world,
        job: "test".to_owned(),
        trust: Trust::Key(Key::new([3; 32])),
        coordinator: vec![SocketAddr::new(host, port)],
        coordinator_rank: 0,
        interfaces: vec![host.into()],
        ports: None,
        wait: Duration::from_secs(10),
        shared_memory: true,
        pin: true,
        mesh: MESH,
        elastic: false,
        congestion: None,
    }
}

pub(crate) fn settings() -> Settings {
    let flow = FlowControl { lanes: 2, ..Settings::default().flow };
    Settings { flow, deadline: Duration::from_secs(6), ..Settings::default() }
}

/// The book of an epoch, from a member's place and the ranks that take part.
pub(crate) fn book(seat: u32, ranks: &[u32]) -> syncline_diagnostics::Result<PlanBook> {
    let rule = |kind, name| Rule::new(kind, by_name(name).unwrap(), 32 << 10);
    let rules = vec![
        rule(CollectiveKind::AllReduce, "ring"),
        rule(CollectiveKind::Broadcast, "direct"),
        rule(CollectiveKind::Reduce, "direct"),
    ];
    let world = ranks.len() as u32;
    PlanBook::new(seat, world, Selection::of((0..world).collect(), rules))
}

pub(crate) fn enter(
    place: MemberSettings,
    settings: Settings,
) -> thread::JoinHandle<Result<Session, JoinError>> {
    thread::spawn(move || join(&place, &mut book, settings))
}

/// Joins members at the same time.
pub(crate) fn meet(places: Vec<MemberSettings>, settings: Settings) -> Vec<Session> {
    let members: Vec<_> = places.into_iter().map(|place| enter(place, settings)).collect();
    members.into_iter().map(|member| member.join().unwrap().unwrap()).collect()
}

pub(crate) fn all_reduce(elements: u64) -> Operation {
    Operation {
        kind: CollectiveKind::AllReduce,
        elements,
        element: Element::F32,
        reduction: Reduction::Sum,
        root: 0,
        association: Association::Arrival,
    }
}

pub(crate) fn vector(value: f32, elements: usize) -> Buffer {
    let mut buffer = Buffer::new(4 * elements);
    buffer.as_mut_slice().chunks_exact_mut(4).for_each(|place| place.copy_from_slice(&value.to_ne_bytes()));
    buffer
}

/// Whether all elements have this value.
pub(crate) fn are(buffer: &Buffer, value: f32) -> bool {
    buffer.as_slice().chunks_exact(4).all(|bytes| bytes == value.to_ne_bytes())
}
