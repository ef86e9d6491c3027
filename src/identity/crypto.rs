//! ES256 for `jsonwebtoken`, with the `ring` that TLS brings: a second crypto library in the binary would serve nothing else.

use jsonwebtoken::{
    Algorithm, DecodingKey, EncodingKey,
    crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils},
    errors::{ErrorKind, Result},
    signature::{Error as SignatureError, Signer, Verifier},
};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, UnparsedPublicKey},
};

static PROVIDER: CryptoProvider = CryptoProvider { signer_factory: signer, verifier_factory: verifier, key_utils: KeyUtils::new_unimplemented() };

/// Chooses the one TLS provider and the one token signer of this process. Calling it again changes nothing.
pub fn install_crypto() {
    // Both return the provider that is already there when called twice; it is the same one.
    let _already = rustls::crypto::ring::default_provider().install_default();
    let _already = PROVIDER.install_default();
}

struct Es256Signer(EcdsaKeyPair, SystemRandom);

impl Signer<Vec<u8>> for Es256Signer {
    fn try_sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, SignatureError> {
        self.0.sign(&self.1, message).map(|s| s.as_ref().to_vec()).map_err(|_| SignatureError::new())
    }
}

impl JwtSigner for Es256Signer {
    fn algorithm(&self) -> Algorithm {
        Algorithm::ES256
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is that of jsonwebtoken's provider")]
fn signer(algorithm: &Algorithm, key: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    if *algorithm != Algorithm::ES256 {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    let random = SystemRandom::new();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_bytes(), &random).map_err(|_| ErrorKind::InvalidEcdsaKey)?;
    Ok(Box::new(Es256Signer(pair, random)))
}

struct Es256Verifier(Vec<u8>);

impl Verifier<Vec<u8>> for Es256Verifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), SignatureError> {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.0).verify(message, signature).map_err(|_| SignatureError::new())
    }
}

impl JwtVerifier for Es256Verifier {
    fn algorithm(&self) -> Algorithm {
        Algorithm::ES256
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is that of jsonwebtoken's provider")]
fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    if *algorithm != Algorithm::ES256 {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    Ok(Box::new(Es256Verifier(key.try_get_as_bytes()?.to_vec())))
}
