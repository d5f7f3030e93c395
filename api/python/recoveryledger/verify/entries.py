"""Entries: envelope, payload and leaf (docs/entry.md), each in the one form that is accepted."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from .keys import PublicKey, parse_public_key, verify
from .schemas import Schemas
from .strict import Json, Refused, canonical, compact, found, need, refuse_if, strict_base64, strict_json
from .tree import hash_leaf, text

MAX_ENVELOPE = 48 << 10
TYPE_PREFIX, TYPE_SUFFIX = "application/vnd.agent-recovery.", "+json"


def pae(payload_type: str, payload: bytes) -> bytes:
    return b"DSSEv1 %d %s %d %s" % (len(payload_type), payload_type.encode(), len(payload), payload)


def check_payload(schemas: Schemas, kind: str, payload: bytes) -> None:
    body = strict_json(payload)
    refuse_if(not schemas.accepts(kind, body))
    keys = [body["key"]] if kind == "agent" else [a["key"] for a in body["authority"]] if kind == "policy" else []
    for key in keys:
        parse_public_key(strict_base64(key))
    distinct(keys)
    distinct([parent["exec"] for parent in body.get("parents", [])] if kind == "execution" else [])
    distinct([signal["index"] for signal in body.get("dispositions", [])] if kind in ("decision", "record") else [])
    distinct([case["case"] for case in [body, *body.get("also", [])]] if kind == "attempt" else [])


def distinct(values: list[Json]) -> None:
    refuse_if(len(set(values)) != len(values))


class Entry:
    """A decoded envelope."""

    def __init__(self, schemas: Schemas, data: bytes) -> None:
        refuse_if(len(data) > MAX_ENVELOPE, "too-large")
        envelope = strict_json(data)
        refuse_if(not schemas.accepts("envelope", envelope))
        self.envelope = envelope
        self.payload = strict_base64(envelope["payload"])
        self.sig = strict_base64(envelope["signatures"][0]["sig"])
        self.keyid = envelope["signatures"][0]["keyid"]
        kind = envelope["payloadType"].removeprefix(TYPE_PREFIX).removesuffix(TYPE_SUFFIX)
        check_payload(schemas, kind, self.payload)
        self.pae = pae(envelope["payloadType"], self.payload)

    def want(self, key: str, registered_at: int) -> dict[str, Json]:
        leaf = canonical({"envelope": self.envelope, "registered_at": registered_at}).encode()
        return {
            "pae_sha256": hashlib.sha256(self.pae).hexdigest(),
            "envelope_sha256": hashlib.sha256(canonical(self.envelope).encode()).hexdigest(),
            "leaf_hash": text(hash_leaf(leaf)),
            "keyid": self.keyid,
            "signature_valid": verify(parse_public_key(strict_base64(key)), self.pae, self.sig),
        }


def seal(kind: str, payload: bytes, keyid: str, sig: str) -> bytes:
    envelope = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": TYPE_PREFIX + kind + TYPE_SUFFIX,
        "signatures": [{"keyid": keyid, "sig": sig}],
    }
    return canonical(envelope).encode()


SIGNATURES: dict[tuple[PublicKey, bytes, bytes], bool] = {}  # what was verified before

LEAVES: dict[bytes, Entry] = {}  # what was decoded before: bundles have most of their entries in common
MAX_KNOWN = 4096


def decoded(schemas: Schemas, leaf: Json) -> tuple[bytes, Entry]:
    """Returns the canonical bytes of a leaf and the entry in it."""
    data = compact(leaf).encode()
    if data not in LEAVES:
        if not schemas.accepts("leaf", leaf) or canonical(leaf).encode() != data:
            raise Refused("malformed")
        if len(LEAVES) >= MAX_KNOWN:
            LEAVES.clear()
        LEAVES[data] = Entry(schemas, canonical(leaf["envelope"]).encode())
    return data, LEAVES[data]


class Logged:
    """An entry as it stands in the log."""

    def __init__(self, schemas: Schemas, index: int, leaf: Json) -> None:
        self.index = index
        data, entry = decoded(schemas, leaf)
        self.kind = leaf["envelope"]["payloadType"].removeprefix(TYPE_PREFIX).removesuffix(TYPE_SUFFIX)
        self.leaf = leaf
        self.body: dict[str, Json] = json.loads(entry.payload)
        self.pae, self.sig, self.keyid = entry.pae, entry.sig, entry.keyid
        self.hash = hash_leaf(data)
        self.at: int = leaf["registered_at"]
        self.trusted = False

    def ref(self) -> dict[str, Json]:
        return {"index": self.index, "leaf_hash": text(self.hash)}

    def signed_by(self, key: dict[str, Any]) -> bool:
        job = (key["key"], self.pae, self.sig)
        if job not in SIGNATURES:
            if len(SIGNATURES) >= MAX_KNOWN:
                SIGNATURES.clear()
            SIGNATURES[job] = verify(*job)
        return SIGNATURES[job]


class Execution:
    """What the bundle shows of an execution."""

    def __init__(self, first: Logged) -> None:
        self.first = first
        self.body: dict[str, Json] = first.body
        self.started: Logged | None = None
        self.final: Logged | None = None

    @property
    def name(self) -> str:
        return self.body["iss"] + "#" + self.body["exec"]

    def begun(self, rule: str) -> int:
        """Index of the first entry past planned."""
        started = found(self.started, "AGT-3", rule)
        need(not (started.body["progress"] == "confirmed" and self.body["effect"] != "none"), "AGT-3", rule)
        return started.index

    def outcome(self) -> str | None:
        return self.final.body["progress"] if self.final else None
