//! Parameters that are impossible on a fabric: each is refused one past its limit, and accepted at it.

use crate::support::fabric::star;
use syncline_diagnostics::Diagnostic;
use syncline_fabric::{Dimension, Fabric};
use syncline_net_packet::{
    Congestion, Dcqcn, Framing, Marking, PacketSettings, Parameters, Sharing, Transport,
};
use syncline_units::{Bytes, DimKind, Rate, Time};

fn check(all: Parameters) -> Vec<Diagnostic> {
    PacketSettings { all, ..PacketSettings::default() }.check(&star(4)).0
}

fn good(parameters: Parameters) {
    assert_eq!(check(parameters), []);
}

/// The only thing wrong about parameters: its key below `network`, what was found, and what is allowed.
fn bad(parameters: Parameters) -> (String, String, String) {
    let mut found = check(parameters);
    assert_eq!(found.len(), 1, "{found:?}");
    let found = found.remove(0);
    let key = found.key.unwrap();
    (key.strip_prefix("network.").unwrap().to_owned(), found.found.unwrap(), found.allowed.unwrap())
}

fn key(parameters: Parameters) -> String {
    bad(parameters).0
}

fn tcp() -> Parameters {
    Parameters::default()
}

fn rdma() -> Parameters {
    Parameters { transport: Transport::Rdma, congestion: Some(Congestion::None), ..tcp() }
}

#[test]
fn a_packet_holds_its_headers_and_a_byte_and_fits_16_bits() {
    good(tcp());
    let mtu = |bytes| Parameters { mtu: Bytes(bytes), window: Some(Bytes(1 << 20)), ..tcp() };
    good(mtu(53));
    good(mtu(65_535));
    assert_eq!(bad(mtu(52)), ("mtu".to_owned(), Bytes(52).to_string(), "53 to 65535 B".to_owned()));
    assert_eq!(key(mtu(65_536)), "mtu");
    assert_eq!(key(mtu(0)), "mtu");
    let headers = |bytes| Parameters { headers: Some(Bytes(bytes)), ..tcp() };
    good(headers(1_499));
    assert_eq!(bad(headers(1_500)).2, "1501 to 65535 B");
    let framing = |bytes| Parameters { framing: Framing::Bytes(Bytes(bytes)), ..tcp() };
    good(framing(65_535));
    assert_eq!(key(framing(65_536)), "framing");
}

#[test]
fn each_port_of_a_switch_has_room_for_a_packet() {
    // Four ports; a full packet takes 1,538 bytes.
    let even = |bytes| Parameters { buffer: Some(Bytes(bytes)), ..tcp() };
    good(even(4 * 1_538));
    let (key_of, found, allowed) = bad(even(4 * 1_538 - 1));
    assert_eq!(key_of, "buffer");
    assert_eq!(found, format!("{} over 4 ports", Bytes(6_151)));
    assert_eq!(allowed, format!("at least {}", Bytes(6_152)));
    good(Parameters { buffer: None, ..tcp() });
    // A port gets a share of what is free, at most all of it.
    let dynamic = |bytes, alpha| Parameters { sharing: Sharing::Dynamic, alpha, ..even(bytes) };
    good(dynamic(3_076, 0.5));
    assert_eq!(bad(dynamic(3_075, 0.5)).2, format!("at least {}", Bytes(3_076)));
    good(dynamic(1_538, 2.0));
    assert_eq!(bad(dynamic(1_537, 2.0)).2, format!("at least {}", Bytes(1_538)));
    let alpha = |alpha| Parameters { alpha, ..tcp() };
    good(alpha(1e6));
    good(alpha(1e-9));
    for wrong in [0.0, -1.0, 1e6 + 1.0, f64::NAN] {
        assert_eq!(key(alpha(wrong)), "alpha", "{wrong}");
    }
}

#[test]
fn a_switch_that_pauses_has_room_for_what_still_arrives() {
    // From each of four links: what is sent while a pause frame of 84 bytes waits for a packet of 1,538, is sent, and
    // travels 0.5 us (6,250 bytes), what travels the other way, two packets, and one packet before it pauses.
    let each = (84 + 1_538) + 2 * 6_250 + 2 * 1_538 + 1_538;
    let buffer = |bytes, pfc| Parameters { buffer: Some(Bytes(bytes)), pfc, ..rdma() };
    good(buffer(4 * each, None));
    let (key_of, found, allowed) = bad(buffer(4 * each - 1, None));
    assert_eq!((key_of.as_str(), found), ("buffer", format!("{} for 4 links", Bytes(4 * each - 1))));
    assert_eq!(allowed, format!("at least {}, or unlimited", Bytes(4 * each)));
    // Without pauses a packet for each port is enough; with them, TCP needs as much as RDMA.
    good(buffer(4 * 1_538, Some(false)));
    assert_eq!(key(Parameters { pfc: Some(true), buffer: Some(Bytes(4 * 1_538)), ..tcp() }), "buffer");
    // A buffer without end is never full.
    assert_eq!(key(Parameters { pfc: Some(true), buffer: None, ..tcp() }), "pfc");
    good(Parameters { buffer: None, ..rdma() });
    good(Parameters { pfc: Some(false), buffer: None, ..tcp() });
}

#[test]
fn marks_are_fractions_in_a_range() {
    let mark = |mark: Marking| Parameters { mark: Some(mark), ..tcp() };
    let usual = Marking { from: Bytes(10), to: Bytes(20), probability: 0.5, weight: 0.5, drop: false };
    good(mark(usual));
    good(mark(Marking { from: Bytes(20), ..usual }));
    let (key_of, _, allowed) = bad(mark(Marking { from: Bytes(21), ..usual }));
    assert_eq!((key_of.as_str(), allowed.as_str()), ("mark.from", "at most `to`, 20B"));
    for wrong in [0.0, -0.1, 1.001, f64::NAN] {
        assert_eq!(key(mark(Marking { probability: wrong, ..usual })), "mark.probability", "{wrong}");
        assert_eq!(key(mark(Marking { weight: wrong, ..usual })), "mark.weight", "{wrong}");
    }
    good(mark(Marking { probability: 1.0, weight: 1.0, ..usual }));
    assert_eq!(check(mark(Marking { from: Bytes(99), probability: 2.0, weight: 0.0, ..usual })).len(), 3);
}

#[test]
fn windows_hold_a_segment_and_fit_the_field_of_tcp() {
    let window = |bytes, of: Parameters| Parameters { window: Some(Bytes(bytes)), ..of };
    good(window(1_448, tcp()));
    good(window(1 << 30, tcp()));
    assert_eq!(bad(window(1_447, tcp())).2, format!("{} to 1GiB", Bytes(1_448)));
    assert_eq!(key(window((1 << 30) + 1, tcp())), "window");
    good(window(1_456, rdma()));
    good(window(1 << 40, rdma()));
    assert_eq!(bad(window(1_455, rdma())).2, format!("at least {}", Bytes(1_456)));
    assert_eq!(key(Parameters { initial_window: 0, ..tcp() }), "initial_window");
    assert_eq!(key(Parameters { segments_per_ack: 0, ..tcp() }), "segments_per_ack");
    assert_eq!(key(Parameters { spray: 0, ..tcp() }), "spray");
    good(Parameters { initial_window: 1, segments_per_ack: 1, spray: 1, ..tcp() });
}

#[test]
fn congestion_control_belongs_to_its_transport_and_has_the_marks_it_needs() {
    let mark = Some(Marking::step(Bytes(100_000)));
    let with = |of: Parameters, congestion, mark| Parameters { congestion: Some(congestion), mark, ..of };
    for (congestion, of_tcp, needs) in [
        (Congestion::NewReno, true, false),
        (Congestion::Cubic, true, false),
        (Congestion::Dctcp, true, true),
        (Congestion::Dcqcn, false, false),
        (Congestion::None, false, false),
    ] {
        for (transport, name, allowed, is_tcp) in
            [(tcp(), "TCP", "newreno, cubic, dctcp", true), (rdma(), "RDMA", "dcqcn, none", false)]
        {
            let marked = with(transport, congestion, mark);
            if of_tcp == is_tcp {
                good(marked);
                assert_eq!(
                    check(with(transport, congestion, None)).len(),
                    usize::from(needs),
                    "{congestion:?}"
                );
            } else {
                assert_eq!(
                    bad(marked),
                    ("congestion".to_owned(), congestion.name().to_owned(), allowed.to_owned())
                );
                assert_eq!(check(marked)[0].message, format!("{name} has no such congestion control"));
            }
        }
    }
    let dropping = Some(Marking { drop: true, ..Marking::step(Bytes(100_000)) });
    let found = check(with(tcp(), Congestion::Dctcp, None)).remove(0);
    assert_eq!(found.message, "DCTCP needs switches that mark packets");
    assert_eq!((found.key.as_deref(), found.found.as_deref()), (Some("network.mark"), Some("none")));
    let found = check(with(tcp(), Congestion::Dctcp, dropping)).remove(0);
    assert_eq!(found.found.as_deref(), Some("a `mark` that drops packets"));
    let found = check(with(rdma(), Congestion::Dcqcn, dropping)).remove(0);
    assert_eq!(found.message, "DCQCN needs switches that mark packets");
    good(with(tcp(), Congestion::NewReno, dropping));
    assert!(Congestion::Dctcp.needs_marks() && Congestion::Dcqcn.needs_marks());
    assert!(
        ![Congestion::NewReno, Congestion::Cubic, Congestion::None].into_iter().any(Congestion::needs_marks)
    );
}

#[test]
fn dcqcn_lets_a_rate_rise_again() {
    let with = |dcqcn| Parameters { congestion: Some(Congestion::Dcqcn), dcqcn, ..rdma() };
    let usual = Dcqcn::default();
    good(with(Dcqcn { gain: 1.0, ..usual }));
    for gain in [0.0, -0.5, 1.01, f64::NAN] {
        assert_eq!(key(with(Dcqcn { gain, ..usual })), "dcqcn.gain", "{gain}");
    }
    let zero = Some(Rate(0));
    for (name, dcqcn) in [
        ("alpha_timer", Dcqcn { alpha_timer: Time::ZERO, ..usual }),
        ("rate_timer", Dcqcn { rate_timer: Time::ZERO, ..usual }),
        ("minimum", Dcqcn { minimum: Rate(0), ..usual }),
        ("additive", Dcqcn { additive: zero, ..usual }),
        ("hyper", Dcqcn { hyper: zero, ..usual }),
        ("bytes", Dcqcn { bytes: Bytes(0), ..usual }),
    ] {
        assert_eq!(key(with(dcqcn)), format!("dcqcn.{name}"));
        // Nobody looks at them without DCQCN.
        good(Parameters { dcqcn, ..rdma() });
        good(Parameters { dcqcn, ..tcp() });
    }
    good(with(Dcqcn { additive: Some(Rate(1)), hyper: Some(Rate(1)), bytes: Bytes(1), stages: 0, ..usual }));
}

fn two_dimensions() -> Fabric {
    let dimension = |name: &str, size| {
        Dimension::new(name.to_owned(), DimKind::Switch, size)
            .with_rate(Rate(100_000_000_000))
            .with_latency(Time::from_ns(500))
    };
    Fabric::regular(vec![dimension("up", 2), dimension("out", 3)]).unwrap()
}

#[test]
fn dimensions_have_parameters_of_their_own_by_name() {
    let wrong = Parameters { initial_window: 0, ..tcp() };
    let keys = |all, dims: &[(&str, Parameters)]| -> Vec<String> {
        let dims = dims.iter().map(|&(name, of)| (name.to_owned(), of)).collect();
        let found = PacketSettings { all, dims }.check(&two_dimensions()).0;
        found.into_iter().map(|each| each.key.unwrap()).collect()
    };
    assert_eq!(keys(tcp(), &[]), [] as [&str; 0]);
    // An error about both appears once.
    assert_eq!(keys(wrong, &[]), ["network.initial_window"]);
    assert_eq!(keys(tcp(), &[("up", wrong)]), ["network.dims.up.initial_window"]);
    assert_eq!(keys(wrong, &[("up", tcp())]), ["network.initial_window"]);
    assert_eq!(keys(wrong, &[("up", tcp()), ("out", tcp())]), [] as [&str; 0]);
    assert_eq!(
        keys(tcp(), &[("out", wrong), ("up", wrong)]),
        ["network.dims.up.initial_window", "network.dims.out.initial_window"]
    );
    let unknown = PacketSettings { all: tcp(), dims: [("uo".to_owned(), tcp())].into() };
    let found = unknown.check(&two_dimensions()).0.remove(0);
    assert_eq!((found.key.as_deref(), found.allowed.as_deref()), (Some("network.dims.uo"), Some("up, out")));
    let found = unknown.check(&star(2)).0.remove(0);
    assert!(found.help.unwrap().contains("a graph has no dimensions"));
    // Two switches of the first dimension have two ports each, and that of the second has three. Each port needs room for a
    // packet.
    let buffer = |bytes| Parameters { buffer: Some(Bytes(bytes)), ..tcp() };
    assert_eq!(keys(buffer(3 * 1_538), &[]), [] as [&str; 0]);
    assert_eq!(keys(buffer(3 * 1_538 - 1), &[]), ["network.buffer"]);
    assert_eq!(keys(tcp(), &[("up", buffer(2 * 1_538))]), [] as [&str; 0]);
    assert_eq!(keys(tcp(), &[("up", buffer(2 * 1_538 - 1))]), ["network.dims.up.buffer"]);
}

#[test]
fn settings_are_read_with_all_dimensions_and_refuse_unknown_keys() {
    let read = |text: &str| serde_json::from_str::<PacketSettings>(text);
    let settings = read(r#"{"mtu": "9000B", "dims": {"up": {"transport": "rdma"}}}"#).unwrap();
    assert_eq!((settings.all.mtu, settings.dims["up"].transport), (Bytes(9_000), Transport::Rdma));
    assert_eq!(settings.dims["up"].mtu, Bytes(1_500));
    let written = serde_json::to_string(&settings).unwrap();
    assert_eq!(read(&written).unwrap(), settings);
    assert!(!serde_json::to_string(&PacketSettings::default()).unwrap().contains("dims"));
    assert!(read(r#"{"mtv": "9000B"}"#).is_err() && read(r#"{"dims": {"up": {"mtv": "1B"}}}"#).is_err());
    // A seed for those without one.
    let mut seeded = settings;
    seeded.all.seed = Some(3);
    let seeded = seeded.seeded(7);
    assert_eq!((seeded.all.seed, seeded.dims["up"].seed), (Some(3), Some(7)));
    assert_eq!((seeded.all.mtu, seeded.dims["up"].transport), (Bytes(9_000), Transport::Rdma));
}
