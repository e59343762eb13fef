//! What turns messages into delivery times.

use serde::{Deserialize, Serialize};
use syncline_net_flow::FlowSettings;
use syncline_net_packet::PacketSettings;

/// What turns messages into delivery times.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "model", rename_all = "snake_case", deny_unknown_fields)]
pub enum NetworkSettings {
    /// Latency times hops plus bytes over rate, with busy ports.
    #[default]
    Analytical,
    /// Messages are stored and forwarded, and queue for links in FIFO order.
    Queued,
    /// Messages are fluids that share links fairly.
    Flow(FlowSettings),
    /// Packets, switches with finite buffers, TCP or RDMA.
    Packet(Box<PacketSettings>),
}

impl NetworkSettings {
    /// Name for reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Analytical => "analytical",
            Self::Queued => "queued",
            Self::Flow(_) => "flow",
            Self::Packet(_) => "packet",
        }
    }
}
