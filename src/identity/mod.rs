//! Who a run is: the token that names it, the keys that sign it, and how a tool server verifies it.
//!
//! *Invariant*: a tool server can verify and never mint: it holds public keys alone. A token lives in memory only.

mod crypto;
mod keys;
mod token;
mod verify;

pub use crypto::install_crypto;
pub use keys::{KeyError, KeyRing, SigningKey};
pub use token::*;
pub use verify::{JwksSource, Refused, Verifier};

#[cfg(test)]
mod tests;
