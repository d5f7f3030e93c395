"""Signatures with nothing but the standard library, in the place of those of the package in api/python.

Who imports this module checks the vectors with the verifier of the package, and with this
arithmetic: the package's own is that of the library cryptography.
"""

import functools
import hashlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "api/python"))
sys.modules["recoveryledger.verify.signatures"] = sys.modules[__name__]

from recoveryledger.verify.keys import (  # noqa: E402
    ED_IDENTITY, ED_P, P256_P, der_element, ed_add, ed_decode, ed_encode,
)
from recoveryledger.verify.strict import Refused, refuse_if  # noqa: E402

ED_L = 2**252 + 27742317777372353535851937790883648493
ED_BASE = ed_decode((4 * pow(5, -1, ED_P) % ED_P).to_bytes(32, "little"))


@functools.cache
def ed_powers(point):
    """A point times 1, 2, 4, …: two thirds of a multiplication, and few points are multiplied."""
    powers = [point]
    while len(powers) < ED_L.bit_length():
        powers.append(ed_add(powers[-1], powers[-1]))
    return powers


def ed_sum(n, point, q):
    """Adds n times a point to q, for n below the order of the curve."""
    for power in ed_powers(point):
        if n & 1:
            q = ed_add(q, power)
        n >>= 1
    return q


@functools.cache
def ed25519_valid(public, message, sig):
    a = ed_decode(public)
    if a is None or len(sig) != 64:
        return False
    s = int.from_bytes(sig[32:], "little")
    if s >= ED_L:
        return False
    k = int.from_bytes(hashlib.sha512(sig[:32] + public + message).digest(), "little") % ED_L
    minus_a = (ED_P - a[0], a[1], a[2], ED_P - a[3])
    return ed_encode(ed_sum(k, minus_a, ed_sum(s, ED_BASE, ED_IDENTITY))) == sig[:32]


P256_N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


P256_G = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)


def p256_add(p, q):
    if p is None or q is None:
        return p or q
    if p[0] == q[0]:
        if (p[1] + q[1]) % P256_P == 0:
            return None
        slope = (3 * p[0] * p[0] - 3) * pow(2 * p[1], -1, P256_P)
    else:
        slope = (q[1] - p[1]) * pow(q[0] - p[0], -1, P256_P)
    x = (slope * slope - p[0] - q[0]) % P256_P
    return x, (slope * (p[0] - x) - p[1]) % P256_P


def p256_mul(n, p):
    q = None
    while n:
        if n & 1:
            q = p256_add(q, p)
        p, n = p256_add(p, p), n >> 1
    return q


def p256_valid(x, y, message, sig):
    def integer(data):
        value, rest = der_element(data, 0x02)
        refuse_if(not value or value[0] & 0x80)
        refuse_if(len(value) > 1 and value[0] == 0 and not value[1] & 0x80)
        return int.from_bytes(value, "big"), rest

    try:
        body, rest = der_element(sig, 0x30)
        r, behind = integer(body)
        s, end = integer(behind)
    except Refused:
        return False
    if rest or end or not 0 < r < P256_N or not 0 < s < P256_N:
        return False
    e, w = int.from_bytes(hashlib.sha256(message).digest(), "big"), pow(s, -1, P256_N)
    point = p256_add(p256_mul(e * w % P256_N, P256_G), p256_mul(r * w % P256_N, (x, y)))
    return point is not None and point[0] % P256_N == r
