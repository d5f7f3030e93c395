"""Public keys: Ed25519 and ECDSA P-256, in DER (docs/entry.md).

Small-order and non-canonical points are refused, since under them one signature fits many messages.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from typing import Tuple, Union

from . import signatures
from .strict import Refused, refuse_if

Point = Tuple[int, int, int, int]

# A public key: ("ed25519", 32 bytes), or ("p256", (x, y)).
PublicKey = Tuple[str, Union[bytes, Tuple[int, int]]]


def der_element(data: bytes, tag: int) -> tuple[bytes, bytes]:
    """Splits one DER element with the given tag from what follows it."""
    refuse_if(len(data) < 2 or data[0] != tag)
    length, head = data[1], 2
    if length >= 0x80:
        size = length & 0x7F
        head += size
        refuse_if(size == 0 or len(data) < head)
        length = int.from_bytes(data[2:head], "big")
        refuse_if(length < 0x80 or data[2] == 0)  # not the shortest form
    refuse_if(len(data) < head + length)
    return data[head : head + length], data[head + length :]


OID_ED25519 = bytes.fromhex("2b6570")

OID_EC = bytes.fromhex("2a8648ce3d0201")

OID_P256 = bytes.fromhex("2a8648ce3d030107")

ED_SPKI = bytes.fromhex("302a300506032b6570032100")  # SubjectPublicKeyInfo of an Ed25519 key, up to the key


# ECDSA on P-256 with SHA-256, FIPS 186-5. A point is (x, y), infinity None.
P256_P = 2**256 - 2**224 + 2**192 + 2**96 - 1


P256_B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B


# Ed25519, RFC 8032 section 5.1, without cofactor. Points are (X, Y, Z, T).
ED_P = 2**255 - 19


ED_D = -121665 * pow(121666, -1, ED_P) % ED_P

ED_IDENTITY = (0, 1, 1, 0)


def ed_add(p: Point, q: Point) -> Point:
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % ED_P, (p[1] + p[0]) * (q[1] + q[0]) % ED_P
    c, d = 2 * p[3] * q[3] * ED_D % ED_P, 2 * p[2] * q[2] % ED_P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % ED_P, g * h % ED_P, f * g % ED_P, e * h % ED_P


def ed_mul(n: int, p: Point) -> Point:
    q = ED_IDENTITY
    while n:
        if n & 1:
            q = ed_add(q, p)
        p, n = ed_add(p, p), n >> 1
    return q


def ed_encode(p: Point) -> bytes:
    z = pow(p[2], -1, ED_P)
    return (p[1] * z % ED_P | (p[0] * z % ED_P & 1) << 255).to_bytes(32, "little")


@functools.cache
def ed_decode(data: bytes) -> Point | None:
    """Decodes a point; None unless the encoding is canonical."""
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & (2**255 - 1)
    if y >= ED_P:
        return None
    x2 = (y * y - 1) * pow(ED_D * y * y + 1, -1, ED_P) % ED_P
    x = pow(x2, (ED_P + 3) // 8, ED_P)
    if (x * x - x2) % ED_P:
        x = x * pow(2, (ED_P - 1) // 4, ED_P) % ED_P
    if (x * x - x2) % ED_P or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = ED_P - x
    return x, y, 1, x * y % ED_P


@functools.cache
def parse_public_key(der: bytes) -> PublicKey:
    """Returns (algorithm, key) of a SubjectPublicKeyInfo: 32 bytes or a point."""
    refuse_if(len(der) > 2048)
    spki, rest = der_element(der, 0x30)
    algorithm, bits = der_element(spki, 0x30)
    oid, parameters = der_element(algorithm, 0x06)
    key, behind = der_element(bits, 0x03)
    refuse_if(rest or behind or not key or key[0] != 0)
    key = key[1:]
    if oid == OID_ED25519:
        refuse_if(parameters or len(key) != 32)
        point = ed_decode(key)
        refuse_if(point is None or ed_encode(ed_mul(8, point)) == ed_encode(ED_IDENTITY))
        return "ed25519", key
    if oid == OID_EC:
        curve, rest = der_element(parameters, 0x06)
        refuse_if(rest)
        refuse_if(curve != OID_P256, "unsupported-alg")
        refuse_if(len(key) != 65 or key[0] != 4)
        x, y = int.from_bytes(key[1:33], "big"), int.from_bytes(key[33:], "big")
        refuse_if(x >= P256_P or y >= P256_P or (y * y - x * x * x + 3 * x - P256_B) % P256_P)
        return "p256", (x, y)
    raise Refused("unsupported-alg")


def keyid_of(key: PublicKey) -> str:
    """The OpenSSH fingerprint of a key, SHA256:…"""

    def field(data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + data

    _, value = key
    if isinstance(value, bytes):
        wire = field(b"ssh-ed25519") + field(value)
    else:
        point = b"\x04" + value[0].to_bytes(32, "big") + value[1].to_bytes(32, "big")
        wire = field(b"ecdsa-sha2-nistp256") + field(b"nistp256") + field(point)
    return "SHA256:" + base64.b64encode(hashlib.sha256(wire).digest()).decode().rstrip("=")


def verify(key: PublicKey, message: bytes, sig: bytes) -> bool:
    """Whether a signature of a message is by a key."""
    _, value = key
    if isinstance(value, bytes):
        return signatures.ed25519_valid(value, message, sig)
    return signatures.p256_valid(value[0], value[1], message, sig)
