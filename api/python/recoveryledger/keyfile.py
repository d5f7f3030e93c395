"""The agent's private key, as `arl key generate` writes it: PEM, PKCS #8, as it is or under a passphrase."""

from __future__ import annotations

import base64
import os
import pathlib
import stat
from typing import TYPE_CHECKING

from .errors import InputError
from .sealed import open_sealed
from .verify.keys import keyid_of, parse_public_key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519


_SEALED = b"-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----"
_SEALED_END = b"-----END ENCRYPTED SIGSTORE PRIVATE KEY-----"


class Key:
    """A private key: Ed25519, or ECDSA P-256. `keyid` is its OpenSSH fingerprint, SHA256:…"""

    def __init__(self, key: ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey) -> None:
        from cryptography.hazmat.primitives import serialization  # here, so that the verifier needs none

        self._key = key
        der = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.public = base64.b64encode(der).decode()
        self.keyid = keyid_of(parse_public_key(der))

    def sign(self, message: bytes) -> bytes:
        """Signs a message."""
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec

        if isinstance(self._key, ec.EllipticCurvePrivateKey):
            return self._key.sign(message, ec.ECDSA(hashes.SHA256()))
        return self._key.sign(message)


def load_key(path: str | os.PathLike[str]) -> Key:
    """Reads a key file. The environment variable ARL_PASSPHRASE has the passphrase of an encrypted one, as
    for arl. The error is an InputError."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    file = pathlib.Path(path)
    remedy = "arl key generate --out FILE writes a key file"
    try:
        mode, content = file.stat().st_mode, file.read_bytes()
    except OSError as why:
        raise InputError(f"key file {file}: {why.strerror}", remedy) from why
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InputError(f"key file {file}: others may read it", f"chmod 600 {file}")
    der = _opened(file, content) if _SEALED in content else None
    try:
        if der is None:
            key = serialization.load_pem_private_key(content, password=None)
        else:
            key = serialization.load_der_private_key(der, password=None)
    except (ValueError, TypeError) as why:
        raise InputError(f"key file {file}: no private key in PEM", remedy) from why
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return Key(key)
    if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1):
        return Key(key)
    raise InputError(f"key file {file}: neither Ed25519 nor ECDSA P-256", remedy)


def _opened(file: pathlib.Path, content: bytes) -> bytes:
    """The private key of an encrypted file, in DER."""
    passphrase = os.environb.get(b"ARL_PASSPHRASE", b"") if os.supports_bytes_environ else os.environ.get("ARL_PASSPHRASE", "").encode()
    if not passphrase:
        raise InputError(f"key file {file}: it is encrypted", "set ARL_PASSPHRASE to its passphrase")
    body = content.partition(_SEALED)[2].partition(_SEALED_END)[0]
    try:
        return open_sealed(base64.b64decode(b"".join(body.split()), validate=True), passphrase)
    except ValueError as why:
        raise InputError(f"key file {file}: {why}", "check ARL_PASSPHRASE, and restore the file if it is damaged") from why
