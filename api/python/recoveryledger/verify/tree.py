"""Hashes and proofs of RFC 6962, one leaf at a time or many together."""

from __future__ import annotations

import base64
import hashlib

from .strict import Broken, need, refuse_if


def sha256(*data: bytes) -> bytes:
    return hashlib.sha256(b"".join(data)).digest()


def hash_leaf(data: bytes) -> bytes:
    return sha256(b"\0", data)


def text(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


def split(n: int) -> int:
    return 1 << (n - 1).bit_length() - 1


def check_inclusion(index: int, size: int, leaf: bytes, root: bytes, proof: list[bytes]) -> None:
    """RFC 9162 section 2.1.3.2."""
    refuse_if(index >= size, "proof")
    fn, sn, r = index, size - 1, leaf
    for p in proof:
        refuse_if(sn == 0, "proof")
        if fn & 1 or fn == sn:
            r = sha256(b"\1", p, r)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            r = sha256(b"\1", r, p)
        fn, sn = fn >> 1, sn >> 1
    refuse_if(sn != 0 or r != root, "proof")


def check_consistency(first: int, second: int, first_root: bytes, second_root: bytes, proof: list[bytes]) -> None:
    """RFC 9162 section 2.1.4.2, and the cases it leaves out: size 0 and equal sizes."""
    refuse_if(first > second or (first == 0 and first_root != sha256()), "proof")
    if first == second or first == 0:
        refuse_if(proof or (first == second and first_root != second_root), "proof")
        return
    refuse_if(not proof, "proof")
    if first & (first - 1) == 0:
        proof = [first_root] + proof
    fn, sn = first - 1, second - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    fr = sr = proof[0]
    for c in proof[1:]:
        refuse_if(sn == 0, "proof")
        if fn & 1 or fn == sn:
            fr, sr = sha256(b"\1", c, fr), sha256(b"\1", c, sr)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            sr = sha256(b"\1", sr, c)
        fn, sn = fn >> 1, sn >> 1
    refuse_if(sn != 0 or fr != first_root or sr != second_root, "proof")


def joint_root(leaves: dict[int, bytes], size: int, proof: list[bytes]) -> bytes:
    """The root over a tree of which some leaves {index: hash} are known, and the
    largest subtrees without any of them come from the proof, left to right."""
    rest = list(proof)

    def root(first: int, n: int, some: list[int]) -> bytes:
        if not some:
            need(rest, "proof")
            return rest.pop(0)
        if n == 1:
            return leaves[first]
        k = split(n)
        return sha256(b"\1", root(first, k, [i for i in some if i < first + k]), root(first + k, n - k, [i for i in some if i >= first + k]))

    need(all(i < size for i in leaves), "proof")
    got = root(0, size, sorted(leaves))
    need(not rest, "proof")
    return got


def included(leaves: dict[int, bytes], size: int, root: bytes, proof: list[bytes]) -> bool:
    try:
        return joint_root(leaves, size, proof) == root
    except Broken:
        return False


def tree_head(hashes: list[bytes]) -> bytes:
    """MTH over leaf hashes."""
    if len(hashes) < 2:
        return hashes[0] if hashes else sha256()
    k = split(len(hashes))
    return sha256(b"\1", tree_head(hashes[:k]), tree_head(hashes[k:]))
