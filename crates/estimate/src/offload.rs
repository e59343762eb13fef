//! The time of copies to host memory and back, and of an update of parameters that the host computes.
//!
//! Activations of a layer are copied out while the layers after it compute forward, and back while those after it compute
//! backward, each direction in the order of the layers and at the rate of the link (Transformer Engine's `CPU Offloading`;
//! Megatron Core's `Fine-Grained Activation Offloading`). Copies of all layers of a chunk hide behind the computing of this
//! chunk: of all layers but the first, before whose forward pass there is nothing to copy, and behind whose backward pass
//! nothing is needed any more. Where a backward pass does not follow at once, another micro-batch hides the first layer's.
//!
//! Optimizer states stay with the host: gradients are copied down, the host updates, and parameters are copied up,
//! one parameter after the other or all three at the same time (Ren et al., "ZeRO-Offload" (2021), 4; `HybridDeviceOptimizer`
//! of Megatron Core).

use crate::activations::{Treatment, layer_activations};
use crate::job::{ELEMENT, Job};
use crate::layer::{Layer, Setting};
use crate::machine::{Costs, Host};

/// Bytes of a gradient on the host, whose optimizer computes in 32 bits.
pub(crate) const HOST_GRADIENT: f64 = 4.0;

/// Activations of the layers of a chunk that are copied, and what hides the copies.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub(crate) struct Copies {
    bytes: f64,
    forward_s: f64,
    backward_s: f64,
    /// Of these, the first layer.
    first: Option<(f64, f64)>,
}

impl Copies {
    /// Adds the next layer, of which `bytes` are copied.
    pub(crate) fn add(&mut self, layer: &Layer, bytes: f64) {
        self.bytes += bytes;
        let (forward, backward) = (layer.forward.seconds(), layer.backward.seconds());
        self.forward_s += forward;
        self.backward_s += backward;
        self.first.get_or_insert((forward, backward));
    }

    /// Seconds of exposed copies out and in. `turns` has the seconds of both passes of an output layer in the
    /// chunk, after which its own backward pass follows at once.
    pub(crate) fn exposed(&self, host: Option<Host>, turns: Option<(f64, f64)>) -> (f64, f64) {
        if self.bytes <= 0.0 {
            return (0.0, 0.0);
        }
        let Some(host) = host else { return (f64::INFINITY, f64::INFINITY) };
        let (forward, backward) = match (turns, self.first) {
            (Some((forward, backward)), Some(first)) => (forward - first.0, backward - first.1),
            _ => (0.0, 0.0),
        };
        let out = self.bytes / host.to_host - (self.forward_s + forward);
        let back = self.bytes / host.to_device - (self.backward_s + backward);
        (out.max(0.0), back.max(0.0))
    }
}

/// An update of parameters, of which the host computes a part.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub(crate) struct HostUpdate {
    /// Computing on accelerator and host, seconds.
    pub(crate) update_s: f64,
    /// Exposed copies, seconds.
    pub(crate) copies_s: f64,
}

impl<C: Costs> Setting<'_, C> {
    /// Bytes of one micro-batch of a layer in host memory.
    pub(crate) fn host_bytes(&self, number: u32, treatment: Treatment) -> f64 {
        if !treatment.offloaded {
            return 0.0;
        }
        layer_activations(self.model, self.job, &self.software.memory, number, treatment).host
    }

    /// The update of `updated` parameters that takes the accelerator `device_s`, while the host updates its part of them.
    pub(crate) fn host_update(&self, updated: f64, device_s: f64) -> HostUpdate {
        let job: &Job = self.job;
        let parameters = updated * job.offload.optimizer;
        if parameters <= 0.0 {
            return HostUpdate { update_s: device_s, copies_s: 0.0 };
        }
        let Some(host) = self.cluster.host else {
            return HostUpdate { update_s: f64::INFINITY, copies_s: 0.0 };
        };
        // Parameters and both moments are read and written, gradients are read, and parameters are cast.
        let states = 2.0 * (2.0 * f64::from(job.moment_bytes) + 4.0) + HOST_GRADIENT + 4.0 + ELEMENT;
        let host_s = parameters * states / host.update;
        let (down, up) = (parameters * HOST_GRADIENT / host.to_host, parameters * ELEMENT / host.to_device);
        let update_s = host_s.max(device_s);
        let copies_s = if job.overlap.optimizer { (down.max(up) - update_s).max(0.0) } else { down + up };
        HostUpdate { update_s, copies_s }
    }
}
