//! Random numbers from the system, for nonces, tickets and certificates.

use syncline_protocol::handshake::Nonce;

/// Returns 32 random bytes.
pub fn nonce() -> Result<Nonce, String> {
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).map_err(|error| format!("cannot get random bytes: {error}"))?;
    Ok(nonce)
}

/// Returns an unpredictable number.
pub fn random() -> Result<u64, String> {
    let nonce = nonce()?;
    Ok(u64::from_le_bytes(std::array::from_fn(|byte| nonce[byte])))
}
