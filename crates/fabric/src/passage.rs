//! What may pass through a vertex on its way to another.

/// Whether paths may lead through a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Passage {
    /// Everything may pass: a switch, or an NPU that is also a router.
    #[default]
    Through,
    /// Nothing: an NPU receives its own messages and sends its own.
    No,
    /// From NPUs to other vertices and back, but neither between NPUs nor between others: a network card that
    /// several NPUs share.
    Across,
    /// Everything except from NPU to NPU: such a card that is also a router.
    Router,
}
