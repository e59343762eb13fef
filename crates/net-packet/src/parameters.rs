//! Parameters of hosts, switches and transport. [`crate::check`] rejects what is impossible.

use crate::framing::Framing;
use crate::rdma::Dcqcn;
use serde::{Deserialize, Serialize};
use syncline_units::{Bytes, Time};

/// The transport that carries messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// TCP: lost segments are sent again.
    #[default]
    Tcp,
    /// RDMA over Converged Ethernet (RoCEv2), reliable connections: paced by the sender, go-back-N.
    Rdma,
}

/// Congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Congestion {
    /// NewReno (RFC 6582) with selective acknowledgements (RFC 6675).
    #[serde(rename = "newreno")]
    NewReno,
    /// CUBIC (RFC 9438).
    Cubic,
    /// DCTCP (RFC 8257); needs marks.
    Dctcp,
    /// DCQCN (Zhu et al., SIGCOMM 2015), of RDMA; needs marks.
    Dcqcn,
    /// None: RDMA sends at the link's rate.
    None,
}

impl Congestion {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::NewReno => "newreno",
            Self::Cubic => "cubic",
            Self::Dctcp => "dctcp",
            Self::Dcqcn => "dcqcn",
            Self::None => "none",
        }
    }

    /// Whether it slows down only in response to marks.
    pub fn needs_marks(self) -> bool {
        matches!(self, Self::Dctcp | Self::Dcqcn)
    }
}

/// How the ports of a switch share its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// Each port gets an equal part (dlrm2020 III-C.2).
    #[default]
    Even,
    /// Each port may use [`Parameters::alpha`] times the free buffer (Choudhury and Hahne, 1998).
    Dynamic,
}

/// Queue lengths at which packets are marked, or dropped early: random early detection (Floyd and Jacobson,
/// 1993). A step is a range of length zero.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Marking {
    /// Queue length from which some packets are marked.
    pub from: Bytes,
    /// Queue length from which all packets are marked.
    pub to: Bytes,
    /// Fraction of packets marked at a queue just shorter than `to`.
    pub probability: f64,
    /// Weight of a new packet in the average queue; with 1 the average is the current queue.
    pub weight: f64,
    /// Whether packets are dropped instead of marked.
    pub drop: bool,
}

impl Marking {
    /// Marks every packet that finds a queue of `from` or more.
    pub fn step(from: Bytes) -> Self {
        Self { from, to: from, probability: 1.0, weight: 1.0, drop: false }
    }
}

/// Everything that can be set. Defaults are the values of dlrm2020, Table III, where it gives them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    /// Largest packet of the network layer.
    pub mtu: Bytes,
    /// Headers of a packet. By default with TCP 20 + 20, and 12 for time stamps (RFC 7323); with RDMA 20 of
    /// IP, 8 of UDP, 12 of the base transport header and 4 of the invariant checksum.
    pub headers: Option<Bytes>,
    /// What links add to a packet on the wire.
    pub framing: Framing,
    /// Buffer of a switch, over all its ports; `None` is unlimited.
    pub buffer: Option<Bytes>,
    /// How the ports of a switch share its buffer.
    pub sharing: Sharing,
    /// A port may use this many times the free buffer, if sharing is dynamic.
    pub alpha: f64,
    /// Time that a switch takes to forward a packet.
    pub forwarding: Time,
    /// Queue lengths at which a switch marks data (ECN) or drops it early.
    pub mark: Option<Marking>,
    /// Whether switches pause their senders before their buffer is full (priority flow control, IEEE
    /// 802.1Qbb). By default RDMA uses it and TCP does not.
    pub pfc: Option<bool>,
    /// The transport that carries messages.
    pub transport: Transport,
    /// Congestion control; by default NewReno with TCP and DCQCN with RDMA.
    pub congestion: Option<Congestion>,
    /// Whether a connection begins with TCP's handshake (RFC 9293, 3.5), or is open from the start.
    pub handshake: bool,
    /// Initial window in segments (RFC 6928).
    pub initial_window: u32,
    /// Largest window; by default 512 KiB with TCP, the size of the receiver's buffer, and unlimited with
    /// RDMA.
    pub window: Option<Bytes>,
    /// Shortest retransmission time-out; with RDMA, all are this long.
    pub min_timeout: Time,
    /// Time-out until a first round trip has been measured (RFC 6298, 2.1).
    pub initial_timeout: Time,
    /// Packets per acknowledgement (with TCP: RFC 1122, 4.2.3.2: at most 2).
    pub segments_per_ack: u32,
    /// Longest time that an acknowledgement is held back.
    pub delayed_ack: Time,
    /// Whether a connection that was idle for a time-out starts again with the initial window (RFC 5681,
    /// 4.1).
    pub restart: bool,
    /// Most equal paths that the packets of a TCP connection take in turn (packet spraying); with 1, all packets
    /// take the same path. RDMA never sprays, because it goes back to every packet that another overtakes.
    pub spray: u32,
    /// Parameters of DCQCN.
    pub dcqcn: Dcqcn,
    /// Seed of random early detection; `None` uses the run's seed.
    pub seed: Option<u64>,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            mtu: Bytes(1500),
            headers: None,
            framing: Framing::Ethernet,
            buffer: Some(Bytes(64 << 20)),
            sharing: Sharing::Even,
            alpha: 1.0,
            forwarding: Time::ZERO,
            mark: None,
            pfc: None,
            transport: Transport::Tcp,
            congestion: None,
            handshake: false,
            initial_window: 10,
            window: None,
            min_timeout: Time(50_000_000_000),
            initial_timeout: Time(1_000_000_000_000),
            segments_per_ack: 1,
            delayed_ack: Time(40_000_000_000),
            restart: false,
            spray: 1,
            dcqcn: Dcqcn::default(),
            seed: None,
        }
    }
}

impl Parameters {
    /// Returns the headers of a packet.
    pub fn headers(&self) -> Bytes {
        self.headers.unwrap_or(match self.transport {
            Transport::Tcp => Bytes(52),
            Transport::Rdma => Bytes(44),
        })
    }

    /// Returns the payload of a full packet.
    pub fn segment(&self) -> u64 {
        self.mtu.0.saturating_sub(self.headers().0)
    }

    /// Returns the bytes of a full packet on the wire.
    pub fn wire(&self) -> u64 {
        self.framing.wire(self.mtu.0)
    }

    /// Returns the largest window.
    pub fn window(&self) -> Bytes {
        self.window.unwrap_or(match self.transport {
            Transport::Tcp => Bytes(512 << 10),
            Transport::Rdma => Bytes(u64::MAX),
        })
    }

    /// Returns the congestion control.
    pub fn congestion(&self) -> Congestion {
        self.congestion.unwrap_or(match self.transport {
            Transport::Tcp => Congestion::NewReno,
            Transport::Rdma => Congestion::Dcqcn,
        })
    }

    /// Returns the queue lengths at which packets are marked. DCQCN without `mark` uses those of its paper
    /// (section 6.2).
    pub fn marking(&self) -> Option<Marking> {
        let usual =
            Marking { from: Bytes(5_000), to: Bytes(200_000), probability: 0.01, weight: 1.0, drop: false };
        self.mark.or((self.congestion() == Congestion::Dcqcn).then_some(usual))
    }

    /// Whether switches pause their senders.
    pub fn pfc(&self) -> bool {
        self.pfc.unwrap_or(self.transport == Transport::Rdma)
    }
}
