"""Key files under a passphrase, as `arl key generate` writes them: scrypt, then NaCl's secretbox.

`cryptography` has scrypt and Poly1305, and no XSalsa20: its some forty lines stand here. A file has a
few hundred bytes, and is opened once.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import struct

_COSTS = (1 << 15, 1 << 16, 1 << 17)  # those that arl reads, with r = 8 and p = 1
_SIGMA = struct.unpack("<4I", b"expand 32-byte k")
_QUARTERS = ((0, 4, 8, 12), (5, 9, 13, 1), (10, 14, 2, 6), (15, 3, 7, 11), (0, 1, 2, 3), (5, 6, 7, 4), (10, 11, 8, 9), (15, 12, 13, 14))


def open_sealed(text: bytes, passphrase: bytes) -> bytes:
    """Opens the content of a key file. The error is a ValueError: the passphrase is wrong, or the file is damaged."""
    try:
        doc = json.loads(text)
        kdf, cipher = doc["kdf"], doc["cipher"]
        params = kdf["params"]
        salt, nonce, box = (base64.b64decode(value, validate=True) for value in (kdf["salt"], cipher["nonce"], doc["ciphertext"]))
        known = kdf["name"] == "scrypt" and cipher["name"] == "nacl/secretbox" and params["N"] in _COSTS and (params["r"], params["p"]) == (8, 1)
    except (KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError, binascii.Error, RecursionError) as why:
        raise ValueError("not a sealed key") from why
    if not known or len(nonce) != 24 or len(box) < 16:
        raise ValueError("sealed in a way that this package does not read")
    key = hashlib.scrypt(passphrase, salt=salt, n=params["N"], r=8, p=1, maxmem=256 << 20, dklen=32)
    return _open_box(box, nonce, key)


def _open_box(box: bytes, nonce: bytes, key: bytes) -> bytes:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.poly1305 import Poly1305

    stream = _xsalsa20(len(box) + 16, nonce, key)
    try:
        Poly1305.verify_tag(stream[:32], box[16:], box[:16])
    except InvalidSignature as why:
        raise ValueError("wrong passphrase, or the file is damaged") from why
    return bytes(a ^ b for a, b in zip(box[16:], stream[32:], strict=True))


def _xsalsa20(size: int, nonce: bytes, key: bytes) -> bytes:
    """That many bytes of the stream of XSalsa20."""
    mixed = _rounds(_state(key, struct.unpack("<4I", nonce[:16])))
    inner = struct.pack("<8I", *(mixed[i] for i in (0, 5, 10, 15, 6, 7, 8, 9)))
    stream = b""
    tail = struct.unpack("<2I", nonce[16:])
    for block in range((size + 63) // 64):
        state = _state(inner, (*tail, block, 0))
        stream += struct.pack("<16I", *((a + b) & 0xFFFFFFFF for a, b in zip(_rounds(state), state, strict=True)))
    return stream[:size]


def _state(key: bytes, middle: tuple[int, ...]) -> list[int]:
    k = struct.unpack("<8I", key)
    return [_SIGMA[0], *k[:4], _SIGMA[1], *middle, _SIGMA[2], *k[4:], _SIGMA[3]]


def _rounds(state: list[int]) -> list[int]:
    """The twenty rounds of Salsa20, without the addition at their end."""
    x = list(state)
    for _ in range(10):
        for a, b, c, d in _QUARTERS:
            for to, one, other, turn in ((b, a, d, 7), (c, b, a, 9), (d, c, b, 13), (a, d, c, 18)):
                total = (x[one] + x[other]) & 0xFFFFFFFF
                x[to] ^= (total << turn | total >> (32 - turn)) & 0xFFFFFFFF
    return x
