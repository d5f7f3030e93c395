"""Signed notes: tree heads, the ledger's keys, cosignatures of witnesses (docs/verify.md, step 1)."""

from __future__ import annotations

import hashlib
import re

from . import signatures
from .keys import ED_SPKI, parse_public_key
from .strict import Broken, Json, Refused, found, need, strict_base64
from .tree import sha256

MAX_NOTE, MAX_KEYS, MAX_RETIRED = 128 << 10, 8, 64
ALWAYS = 2**63 - 1  # Unix seconds: no cosignature is later


def parse_vkey(text: str, ed: int) -> tuple[str, bytes, bytes]:
    name, keyhash, encoded = text.split("+", 2)
    key = strict_base64(encoded)
    need(hashlib.sha256(name.encode() + b"\n" + key).hexdigest()[:8] == keyhash, "form")
    need(key[0] == ed and len(key) == 33, "form")  # ML-DSA-44 is not checked here
    return name, bytes.fromhex(keyhash), key[1:]


def note_lines(note: str) -> tuple[str, list[tuple[str, bytes]]]:
    body, _, signatures = note.rpartition("\n\n")
    need(signatures.endswith("\n"), "AGT-1")
    lines = []
    for line in signatures[:-1].split("\n"):
        match = found(re.fullmatch("\u2014 ([^ +]+) ([A-Za-z0-9+/=]+)", line), "AGT-1")
        try:
            lines.append((match[1], strict_base64(match[2])))
        except Refused:
            raise Broken("AGT-1") from None
    return body + "\n", lines


def ledger_keys(keys: list[str], origin: str) -> list[str]:
    """The Ed25519 keys among verifier keys of a ledger, of which there is one."""
    need(len(keys) <= MAX_KEYS and len(set(keys)) == len(keys), "form")
    found, hashes = [], set()
    for text in keys:
        name, keyhash, encoded = (text.split("+", 2) + ["", ""])[:3]
        try:
            key = strict_base64(encoded)
            need(key and name == origin and hashlib.sha256(name.encode() + b"\n" + key).hexdigest()[:8] == keyhash, "form")
            if key[0] == 1:
                parse_public_key(ED_SPKI + key[1:])
                found.append(text)
            else:
                need(key[0] == 6 and len(key) == 1313, "form")
        except Refused:
            raise Broken("form") from None
        need(keyhash not in hashes, "form")
        hashes.add(keyhash)
    need(found, "form")
    return found


def follow(root: dict[str, Json], policies: list[tuple[int, Json]]) -> dict[str, Json]:
    """The root as the policies of a chain leave it (TRU-5)."""
    root, named = dict(root), None
    for index, policy in policies:
        keys = policy.get("ledger_keys")
        if not keys or keys == named:
            continue
        named = keys
        if index <= root.get("since", 0):
            continue
        before = ledger_keys(root["ledger_keys"], root["origin"])
        retired = root.get("retired", []) + [{"key": key, "size": index} for key in before]
        root["retired"] = [r for r in retired if r["key"] not in keys][-MAX_RETIRED:]
        root["ledger_keys"], root["since"] = keys, index
    return root


def open_head(root: dict[str, Json], note: str) -> tuple[int, bytes, str]:
    """Returns (size, root, note) of a head that a key in force at its size has signed."""
    text, lines = note_lines(note)
    signed = re.fullmatch("(?s)[^\n]*\n(0|[1-9][0-9]{0,19})\n.*", text)
    keys: list[tuple[str, int | None]] = [(key, None) for key in ledger_keys(root["ledger_keys"], root["origin"])]
    keys += [(r["key"], r["size"]) for r in root.get("retired", [])]
    good = False
    for vkey, until in keys:
        name, keyhash, key = parse_vkey(vkey, 1)
        for signer, sig in lines:
            if signer == name and sig[:4] == keyhash:
                need(signatures.ed25519_valid(key, text.encode(), sig[4:]), "AGT-1")
                good = good or until is None or signed and int(signed[1]) <= until
    need(good, "AGT-1")
    parts = text[:-1].split("\n")
    need(len(parts) >= 3 and parts[0] == root["origin"] and re.fullmatch("0|[1-9][0-9]{0,19}", parts[1]), "AGT-1")
    size = int(parts[1])
    digest = strict_base64(parts[2])
    need(size < 2**64 and len(digest) == 32 and (size or digest == sha256()), "AGT-1")
    return size, digest, note


def quorum_time(policy: str, note: str, latest: int, emergency: bool = False) -> int | None:
    """The time that the quorum's cosignatures are not older than, None without
    one, 0 if none is asked for. With emergency, of the group of that name."""
    text, lines = note_lines(note)
    nodes: dict[str, int | None] = {}
    root = ""
    groups: set[str] = set()
    for line in policy.split("\n"):
        fields = line.split()
        if not fields or fields[0].startswith("#") or fields[0] == "log":
            continue
        if fields[0] == "witness":
            name, keyhash, key = parse_vkey(fields[2], 4)
            times = [
                int.from_bytes(sig[4:12], "big")
                for signer, sig in lines
                if signer == name and sig[:4] == keyhash and len(sig) >= 12 and int.from_bytes(sig[4:12], "big") <= latest
                and signatures.ed25519_valid(key, b"cosignature/v1\ntime %d\n%s" % (int.from_bytes(sig[4:12], "big"), text.encode()), sig[12:])
            ]
            nodes[fields[1]] = max(times, default=None)
        elif fields[0] == "group":
            count = {"any": 1, "all": len(fields) - 3}.get(fields[2]) or int(fields[2])
            times = sorted((at for at in map(nodes.__getitem__, fields[3:]) if at is not None), reverse=True)
            nodes[fields[1]] = times[count - 1] if len(times) >= count else None
            groups.add(fields[1])
        elif fields[0] == "quorum":
            root = fields[1]
    if emergency:
        return nodes["emergency"] if "emergency" in groups else None
    need(root == "none" or root in nodes, "AGT-1")  # a policy that names no quorum is none
    return 0 if root == "none" else nodes[root]


def check_root(root: Json) -> dict[str, Json]:
    """A pinned root (docs/verify.md, "Material"). The error is a Broken."""
    need(isinstance(root, dict), "form")
    known = {"origin", "ledger_keys", "since", "retired", "genesis", "witnesses", "head"}
    need(root.keys() <= known and re.fullmatch("[!-*,-~]{1,128}", root["origin"]), "form")
    ledger_keys(root["ledger_keys"], root["origin"])
    need(len(strict_base64(root["genesis"])) == 32, "form")
    retired = root.get("retired", [])
    need(len(retired) <= MAX_RETIRED and len({r["key"] for r in retired}) == len(retired), "form")
    for r in retired:
        parse_vkey(r["key"], 1)
        need(r["key"] not in root["ledger_keys"] and 1 <= r["size"] <= root["since"], "form")
    if root.get("head"):
        open_head(root, root["head"])
    return {name: value for name, value in root.items() if value}
