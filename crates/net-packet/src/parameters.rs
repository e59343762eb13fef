//! What can be set about hosts, switches and transport, and what of it is impossible.

use serde::{Deserialize, Serialize};
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};
use syncline_units::{Bytes, Time};

/// Congestion control of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Congestion {
    /// NewReno (RFC 6582) with selective acknowledgements (RFC 6675).
    #[default]
    #[serde(rename = "newreno")]
    NewReno,
    /// CUBIC (RFC 9438).
    Cubic,
    /// DCTCP (RFC 8257); needs marks.
    Dctcp,
}

/// Everything that can be set. The defaults are the values of dlrm2020, Table III, where it gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    /// Largest packet of the network layer.
    pub mtu: Bytes,
    /// TCP and IP headers of a segment: 20 + 20, and 12 for time stamps (RFC 7323).
    pub headers: Bytes,
    /// What the link adds to a packet.
    pub framing: Bytes,
    /// Buffer of a switch over all its ports; `None` has no end.
    pub buffer: Option<Bytes>,
    /// Time that a switch takes to forward a packet.
    pub forwarding: Time,
    /// Queue from which on a switch marks data (ECN).
    pub mark: Option<Bytes>,
    /// Congestion control.
    pub congestion: Congestion,
    /// Initial window in segments (RFC 6928).
    pub initial_window: u32,
    /// Largest window: what the receiver's buffer holds.
    pub window: Bytes,
    /// Shortest retransmission time-out.
    pub min_timeout: Time,
    /// Time-out before the first round trip was measured (RFC 6298, 2.1).
    pub initial_timeout: Time,
    /// Segments that one acknowledgement is sent for (RFC 1122, 4.2.3.2: at most 2).
    pub segments_per_ack: u32,
    /// Longest time that an acknowledgement is held back.
    pub delayed_ack: Time,
    /// Whether a connection that was idle for a time-out begins with the initial window again (RFC 5681, 4.1).
    pub restart: bool,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            mtu: Bytes(1500),
            headers: Bytes(52),
            framing: Bytes(2),
            buffer: Some(Bytes(64 << 20)),
            forwarding: Time::ZERO,
            mark: None,
            congestion: Congestion::NewReno,
            initial_window: 10,
            window: Bytes(512 << 10),
            min_timeout: Time(50_000_000_000),
            initial_timeout: Time(1_000_000_000_000),
            segments_per_ack: 1,
            delayed_ack: Time(40_000_000_000),
            restart: false,
        }
    }
}

impl Parameters {
    /// Payload of a full segment.
    pub fn segment(&self) -> u64 {
        self.mtu.0.saturating_sub(self.headers.0)
    }

    /// What is impossible, on a network whose switches have at most `ports` egress ports.
    pub fn check(&self, ports: u64) -> Diagnostics {
        let mut problems = Diagnostics::new();
        let bad = |key: &str, message: &str, found: String, allowed: String| {
            let key = format!("network.{key}");
            Diagnostic::error(Code::BadValue, message.to_owned()).key(key).found(found).allowed(allowed)
        };
        if self.mtu.0 <= self.headers.0 || self.mtu.0 > u64::from(u16::MAX) {
            problems.push(bad(
                "mtu",
                "a packet holds its headers and at least one byte, and at most 65,535",
                self.mtu.to_string(),
                format!("{} to 65535 B", self.headers.0 + 1),
            ));
            return problems;
        }
        let wire = self.mtu.0 + self.framing.0;
        if let Some(buffer) = self.buffer {
            let part = buffer.0 / ports.max(1);
            if part < wire {
                problems.push(bad(
                    "buffer",
                    "the part of a switch's buffer that each port has holds no packet",
                    format!("{buffer} over {ports} ports"),
                    format!("at least {}", Bytes(wire * ports.max(1))),
                ));
            }
        }
        if self.window.0 < self.segment() {
            problems.push(bad(
                "window",
                "the largest window holds no segment",
                self.window.to_string(),
                format!("at least {}", Bytes(self.segment())),
            ));
        }
        for (key, value) in
            [("initial_window", self.initial_window), ("segments_per_ack", self.segments_per_ack)]
        {
            if value == 0 {
                problems.push(bad(key, "at least one segment is needed", "0".into(), "1 or more".into()));
            }
        }
        if self.congestion == Congestion::Dctcp && self.mark.is_none() {
            problems.push(
                bad(
                    "mark",
                    "DCTCP needs switches that mark packets",
                    "none".into(),
                    "a queue, such as 100kB".into(),
                )
                .help("give `mark`, the queue from which on a port marks data"),
            );
        }
        problems
    }
}
