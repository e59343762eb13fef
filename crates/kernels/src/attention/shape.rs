//! Shapes of attention, and the operations that they need.

/// Direction of training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The outputs.
    Forward,
    /// The gradients of queries, keys and values; scores are computed again.
    Backward,
}

/// Attention of `heads` queries to `kv_heads` keys and values over sequences of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionShape {
    /// Sequences.
    pub batch: u64,
    /// Tokens of a sequence.
    pub sequence: u64,
    /// Query heads.
    pub heads: u64,
    /// Heads of keys and values; divides `heads`.
    pub kv_heads: u64,
    /// Elements of a head.
    pub head_dim: u64,
    /// Each token attends only to itself and earlier ones.
    pub causal: bool,
    /// Number of tokens to which each attends at most; 0 for no limit.
    pub window: u64,
    /// Direction.
    pub pass: Pass,
    /// Counts the rotary embedding and the copy of keys and values into a cache, where these were measured, too.
    pub prepare: bool,
}

impl AttentionShape {
    /// Pairs of a query and a key of one sequence and head that the mask leaves.
    pub fn pairs(self) -> f64 {
        let (sequence, window) = (self.sequence as f64, self.window as f64);
        if !self.causal {
            sequence * sequence
        } else if self.window == 0 || window >= sequence {
            sequence * (sequence + 1.0) / 2.0
        } else {
            window * sequence - window * (window - 1.0) / 2.0
        }
    }

    /// Operations of the products that the mask leaves: two products forward, five backward (Dao 2023, section 3.1).
    pub fn flop(self) -> f64 {
        let products = if self.pass == Pass::Forward { 2.0 } else { 5.0 };
        2.0 * products * (self.batch * self.heads) as f64 * self.pairs() * self.head_dim as f64
    }
}
