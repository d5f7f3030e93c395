"""Signatures, as the Go standard library judges them: Ed25519 without cofactor, and strict DER."""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519


def ed25519_valid(public: bytes, message: bytes, sig: bytes) -> bool:
    """Whether an Ed25519 signature (RFC 8032) of a message is by a public key of 32 bytes."""
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(public).verify(sig, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def p256_valid(x: int, y: int, message: bytes, sig: bytes) -> bool:
    """Whether an ECDSA signature with SHA-256, in DER, is by the point (x, y) of P-256."""
    try:
        key = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
        key.verify(sig, message, ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, ValueError):
        return False
    return True
