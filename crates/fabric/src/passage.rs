//! What may pass through a vertex on its way to another.

/// Whether paths may lead through a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Passage {
    /// Everything may pass: a switch, or an NPU that is a router too.
    #[default]
    Through,
    /// Nothing: an NPU takes what is for it and sends what is its own.
    No,
    /// From NPUs to other vertices and back, but not between two of either: a network card that several NPUs share.
    Across,
    /// All but from NPU to NPU: such a card that is a router too.
    Router,
}
