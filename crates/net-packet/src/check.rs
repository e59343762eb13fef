//! Checks parameters against a network, and reports what is impossible.

use crate::layout::Layout;
use crate::parameters::{Congestion, Marking, Parameters, Sharing, Transport};
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};
use syncline_units::{Bytes, Rate};

/// Longest packet, and the most that a link may add to it.
const WIRE: u64 = u16::MAX as u64;
/// Largest window that TCP can advertise (RFC 7323, 2.3).
const WINDOW: u64 = 1 << 30;

/// Checks the parameters of set `set` of a layout. Diagnostics name each parameter below `key`.
pub(crate) fn check(layout: &Layout, set: usize, parameters: &Parameters, key: &str) -> Diagnostics {
    let mut problems = Problems { found: Diagnostics::new(), key };
    let headers = parameters.headers();
    if parameters.mtu <= headers || parameters.mtu.0 > WIRE {
        problems.bad(
            "mtu",
            "a packet must hold its headers and at least one byte, and is at most 65,535 bytes long",
            parameters.mtu.to_string(),
            format!("{} to {WIRE} B", headers.0.saturating_add(1)),
        );
        return problems.found;
    }
    if parameters.framing.overhead() > WIRE {
        problems.bad(
            "framing",
            "links add too many bytes to a packet",
            parameters.framing.to_string(),
            format!("ethernet, point_to_point, or at most {}", Bytes(WIRE)),
        );
        return problems.found;
    }
    buffers(layout, set, parameters, &mut problems);
    if let Some(marking) = parameters.mark {
        marks(marking, &mut problems);
    }
    transport(parameters, &mut problems);
    problems.found
}

/// The diagnostics found so far.
struct Problems<'a> {
    found: Diagnostics,
    key: &'a str,
}

impl Problems<'_> {
    fn bad(&mut self, key: &str, message: &str, found: String, allowed: String) {
        self.found.push(self.error(key, message, found, allowed));
    }

    fn error(&self, key: &str, message: &str, found: String, allowed: String) -> Diagnostic {
        let key = format!("{}.{key}", self.key);
        Diagnostic::error(Code::BadValue, message.to_owned()).key(key).found(found).allowed(allowed)
    }
}

fn buffers(layout: &Layout, set: usize, parameters: &Parameters, problems: &mut Problems<'_>) {
    if !(parameters.alpha > 0.0 && parameters.alpha <= 1e6) {
        let found = parameters.alpha.to_string();
        problems.bad(
            "alpha",
            "a port needs a share of the free buffer",
            found,
            "above 0, at most 1000000".into(),
        );
    }
    let Some(buffer) = parameters.buffer else {
        if parameters.pfc == Some(true) {
            problems.bad(
                "pfc",
                "an unlimited buffer never fills, so no sender would ever be paused",
                "buffer: unlimited".into(),
                "a buffer, such as 64MiB".into(),
            );
        }
        return;
    };
    let switches = || layout.switches.iter().filter(|switch| switch.set as usize == set);
    let wire = parameters.wire();
    if parameters.pfc() {
        // Each ingress holds one packet before it pauses its sender, and whatever arrives until the sender
        // stops.
        let needed = |headroom: u64, ingress: u64| headroom.saturating_add(wire.saturating_mul(ingress));
        let worst = switches().max_by_key(|switch| needed(switch.headroom, switch.ingress));
        if let Some(worst) = worst.filter(|worst| needed(worst.headroom, worst.ingress) > buffer.0) {
            let allowed = Bytes(needed(worst.headroom, worst.ingress));
            problems.bad(
                "buffer",
                "a switch's buffer is too small for what still arrives after its senders are paused (headroom)",
                format!("{buffer} for {} links", worst.ingress),
                format!("at least {allowed}, or unlimited"),
            );
        }
        return;
    }
    let ports = switches().map(|switch| switch.egress).max().unwrap_or(1).max(1);
    let (part, needed) = match parameters.sharing {
        Sharing::Even => (buffer.0 / ports, wire.saturating_mul(ports)),
        // A port may take a packet when the buffer is empty.
        Sharing::Dynamic => {
            let share = parameters.alpha.min(1.0);
            ((buffer.0 as f64 * share) as u64, (wire as f64 / share).ceil() as u64)
        }
    };
    if part < wire {
        problems.bad(
            "buffer",
            "a port's share of its switch's buffer is smaller than a packet",
            format!("{buffer} over {ports} ports"),
            format!("at least {}", Bytes(needed)),
        );
    }
}

fn marks(marking: Marking, problems: &mut Problems<'_>) {
    if marking.from > marking.to {
        problems.bad(
            "mark.from",
            "`mark.from` is larger than `mark.to`",
            marking.from.to_string(),
            format!("at most `to`, {}", marking.to),
        );
    }
    for (key, value) in [("probability", marking.probability), ("weight", marking.weight)] {
        if !(value > 0.0 && value <= 1.0) {
            let key = format!("mark.{key}");
            problems.bad(&key, "it must be a fraction", value.to_string(), "above 0, at most 1".into());
        }
    }
}

fn transport(parameters: &Parameters, problems: &mut Problems<'_>) {
    let (segment, congestion) = (parameters.segment(), parameters.congestion());
    let window = parameters.window();
    let least = Bytes(segment);
    if parameters.transport == Transport::Rdma && window < least {
        problems.bad(
            "window",
            "the largest window must hold a packet",
            window.to_string(),
            format!("at least {least}"),
        );
    }
    if parameters.transport == Transport::Tcp && (window < least || window.0 > WINDOW) {
        problems.bad(
            "window",
            "the largest window must hold a segment, and fit TCP's window field",
            window.to_string(),
            format!("{least} to {}", Bytes(WINDOW)),
        );
    }
    for (key, value) in
        [("initial_window", parameters.initial_window), ("segments_per_ack", parameters.segments_per_ack)]
    {
        if value == 0 {
            problems.bad(key, "at least one segment is needed", "0".into(), "1 or more".into());
        }
    }
    if parameters.spray == 0 {
        problems.bad("spray", "packets need at least one path", "0".into(), "1 or more".into());
    }
    let (name, allowed) = match parameters.transport {
        Transport::Tcp => ("TCP", [Congestion::NewReno, Congestion::Cubic, Congestion::Dctcp].as_slice()),
        Transport::Rdma => ("RDMA", [Congestion::Dcqcn, Congestion::None].as_slice()),
    };
    if !allowed.contains(&congestion) {
        let allowed: Vec<&str> = allowed.iter().map(|each| each.name()).collect();
        let message = format!("{name} has no such congestion control");
        problems.bad("congestion", &message, congestion.name().into(), allowed.join(", "));
        return;
    }
    if congestion.needs_marks() && parameters.marking().is_none_or(|marking| marking.drop) {
        let error = problems.error(
            "mark",
            &format!("{} needs switches that mark packets", congestion.name().to_uppercase()),
            if parameters.mark.is_some() { "a `mark` that drops packets" } else { "none" }.into(),
            "a queue, such as 100kB".into(),
        );
        problems.found.push(error.help("set `mark` to the queue length from which a port marks data"));
    }
    if congestion == Congestion::Dcqcn {
        dcqcn(parameters, problems);
    }
}

fn dcqcn(parameters: &Parameters, problems: &mut Problems<'_>) {
    let of = parameters.dcqcn;
    if !(of.gain > 0.0 && of.gain <= 1.0) {
        problems.bad("dcqcn.gain", "it must be a fraction", of.gain.to_string(), "above 0, at most 1".into());
    }
    for (key, value) in [("alpha_timer", of.alpha_timer), ("rate_timer", of.rate_timer)] {
        if value.is_zero() {
            let key = format!("dcqcn.{key}");
            problems.bad(&key, "a timer must run for longer than 0", value.to_string(), "above 0".into());
        }
    }
    for (key, zero) in [
        ("minimum", of.minimum.is_zero()),
        ("additive", of.additive.is_some_and(Rate::is_zero)),
        ("hyper", of.hyper.is_some_and(Rate::is_zero)),
        ("bytes", of.bytes.0 == 0),
    ] {
        if zero {
            let key = format!("dcqcn.{key}");
            problems.bad(
                &key,
                "with 0, a rate that has fallen would never rise again",
                "0".into(),
                "above 0".into(),
            );
        }
    }
}
