//! Random numbers of the system, for nonces, tickets and certificates.

use syncline_protocol::handshake::Nonce;

/// Thirty-two random bytes.
pub fn nonce() -> Result<Nonce, String> {
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).map_err(|error| format!("gets no random bytes: {error}"))?;
    Ok(nonce)
}

/// A number that nobody can guess.
pub fn random() -> Result<u64, String> {
    let nonce = nonce()?;
    Ok(u64::from_le_bytes(std::array::from_fn(|byte| nonce[byte])))
}
