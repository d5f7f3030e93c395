"""Answers the questions of "arl conformance verifier" (docs/conformance.md).

Reads a question in each line, as JSON, and writes its verdict in a line. A question {bundle, accepted,
now} without a group is answered with the verdict for the agent, as verify/js/judge.js does.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from typing import Callable

from . import evidence, form, history, signatures, verdict
from .entries import Entry, check_payload, seal
from .keys import keyid_of, parse_public_key
from .members import Check
from .schemas import Schemas
from .strict import Broken, Json, Refused, canonical, dump, refuse_if, strict_base64, strict_json
from .subjects import bits, check_prefix, check_run, leaf_of, listings, prefix_root, record
from .tree import check_consistency, check_inclusion, hash_leaf, sha256, split, text

MAX_ENVELOPE = 48 << 10


def run_payload(schemas: Schemas, v: dict[str, Json]) -> Json:
    payload = input_bytes(v["input"])
    largest = seal(v["kind"], payload, "SHA256:" + "A" * 43, "A" * 96)
    refuse_if(len(largest) > MAX_ENVELOPE, "too-large")
    if "key" not in v:
        check_payload(schemas, v["kind"], payload)
        return None
    entry = Entry(schemas, seal(v["kind"], payload, keyid_of(parse_public_key(strict_base64(v["key"]))), v["sig"]))
    return entry.want(v["key"], v["registered_at"])


def run_subjects(schemas: Schemas, v: dict[str, Json]) -> Json:
    """IDX-1, from the text of docs/index.md."""
    payload = input_bytes(v["input"])
    check_payload(schemas, v["kind"], payload)
    return {"subjects": listings(v["kind"], strict_json(payload), v["index"])}


def run_envelope(schemas: Schemas, v: dict[str, Json]) -> Json:
    entry = Entry(schemas, input_bytes(v["input"]))
    return entry.want(v["key"], v["registered_at"])


def run_leaf(schemas: Schemas, v: dict[str, Json]) -> Json:
    data = input_bytes(v["input"])
    leaf = strict_json(data)
    refuse_if(not schemas.accepts("leaf", leaf) or canonical(leaf).encode() != data)
    entry = Entry(schemas, canonical(leaf["envelope"]).encode())
    refuse_if(leaf["registered_at"] != v["registered_at"])
    return entry.want(v["key"], leaf["registered_at"])


def input_bytes(parts: Json) -> bytes:
    if isinstance(parts, str):
        return parts.encode()
    if isinstance(parts, list):
        return b"".join(map(input_bytes, parts))
    if "repeat" in parts:
        return parts["repeat"].encode() * parts["times"]
    if "base64" in parts:
        return base64.b64decode(parts["base64"])
    return base64.b64encode(input_bytes(parts["encode"]))


def run_key(_: Schemas, v: dict[str, Json]) -> Json:
    key = parse_public_key(strict_base64(v["input"]))
    return {"keyid": keyid_of(key), "algorithm": key[0]}


NOTE_TYPES = {1: ("ed25519", 32), 4: ("ed25519-cosignature/v1", 32), 6: ("ml-dsa-44-cosignature", 1312)}


def run_note(_: Schemas, v: dict[str, Json]) -> Json:
    fields = v["input"].split("+", 2)
    refuse_if(len(fields) != 3)
    name, keyid, encoded = fields
    refuse_if(not name or re.search(r"\s", name) or not re.fullmatch("[0-9a-f]{8}", keyid))
    key = strict_base64(encoded)
    refuse_if(not key or key[0] not in NOTE_TYPES)
    algorithm, size = NOTE_TYPES[key[0]]
    refuse_if(len(key) != 1 + size)
    refuse_if(hashlib.sha256(name.encode() + b"\n" + key).hexdigest()[:8] != keyid)
    want = {"keyid": keyid, "algorithm": algorithm}
    if note := v["want"].get("note"):
        want["note"], want["signature_valid"] = note, note_valid(note, name, keyid, key)
    return want


def note_valid(note: str, name: str, keyid: str, key: bytes) -> bool:
    body, _, lines = note.rpartition("\n\n")
    body += "\n"
    for line in lines.splitlines():
        dash, signer, encoded = line.split(" ")
        sig = strict_base64(encoded)
        if dash == "\u2014" and signer == name and sig[:4].hex() == keyid:
            if key[0] == 1:
                return signatures.ed25519_valid(key[1:], body.encode(), sig[4:])
            time = int.from_bytes(sig[4:12], "big")
            return signatures.ed25519_valid(key[1:], f"cosignature/v1\ntime {time}\n{body}".encode(), sig[12:])
    return False


def run_hash(_: Schemas, v: dict[str, Json]) -> Json:
    refuse_if(len(strict_base64(v["input"])) != 32)


def run_tile(_: Schemas, v: dict[str, Json]) -> Json:
    match = re.fullmatch(r"tile/(entries|0|[1-9][0-9]?)/((?:x[0-9]{3}/)*[0-9]{3})(?:\.p/([1-9][0-9]{0,2}))?", v["input"])
    if match is None:
        raise Refused("malformed")
    level, groups, width = match.groups()
    index = int(groups.replace("x", "").replace("/", ""))
    refuse_if(groups.startswith("x000") or index >= 2**64 or int(width or 1) > 255)
    entries = level == "entries"
    refuse_if(not entries and int(level) > 63)
    return {"entries": entries, "level": 0 if entries else int(level), "index": str(index), "width": int(width or 256)}


def decimals(n: int) -> list[bytes]:
    return [str(i).encode() for i in range(n)]


def mth(d: list[bytes]) -> bytes:
    if len(d) < 2:
        return hash_leaf(d[0]) if d else sha256()
    k = split(len(d))
    return sha256(b"\1", mth(d[:k]), mth(d[k:]))


def path(m: int, d: list[bytes]) -> list[bytes]:
    if len(d) == 1:
        return []
    k = split(len(d))
    return path(m, d[:k]) + [mth(d[k:])] if m < k else path(m - k, d[k:]) + [mth(d[:k])]


def subproof(m: int, d: list[bytes], whole: bool = True) -> list[bytes]:
    if m == len(d):
        return [] if whole else [mth(d)]
    k = split(len(d))
    if m <= k:
        return subproof(m, d[:k], whole) + [mth(d[k:])]
    return subproof(m - k, d[k:], False) + [mth(d[:k])]


def run_merkle(_: Schemas, v: dict[str, Json]) -> Json:
    if v["op"] == "leaf":
        return text(hash_leaf(v["input"].encode()))
    if v["op"] == "node":
        return text(sha256(b"\1", strict_base64(v["left"]), strict_base64(v["right"])))
    size, root = v["head"]["size"], strict_base64(v["head"]["root"])
    if v["op"] == "root":
        refuse_if(mth(decimals(size)) != root)
        return None
    proof = [strict_base64(h) for h in v.get("proof", [])]
    if v["op"] == "inclusion":
        check_inclusion(v["index"], size, strict_base64(v["leaf"]), root, proof)
        refuse_if(path(v["index"], decimals(size)) != proof)
    elif v["op"] == "consistency":
        older = v["older"]["size"]
        check_consistency(older, size, strict_base64(v["older"]["root"]), root, proof)
        refuse_if((subproof(older, decimals(size)) if older else []) != proof)
    return None


def run_prefix(_: Schemas, v: dict[str, Json]) -> Json:
    if v["op"] == "key":
        return text(sha256(f"arl index/1\n{v['subject']['type']}\n{v['subject']['value']}".encode()))
    if v["op"] == "record":
        return text(record(v.get("rows", [])))
    if v["op"] == "tree":
        return text(prefix_root([(bits(key), sha256(b"\2", key, rec)) for key, rec in map(leaf_of, v.get("leaves", []))]))
    proof = [strict_base64(h) for h in v.get("proof", [])]
    if v["op"] == "prefix":
        check_prefix(v.get("answers", []), strict_base64(v["root"]), proof)
    else:
        check_run(v["from"], v["indexes"], v["head"]["size"], strict_base64(v["head"]["root"]), proof)
    return None


GROUPS: dict[str, Callable[[Schemas, dict[str, Json]], Json]] = {
    "payload": run_payload,
    "envelope": run_envelope,
    "leaf": run_leaf,
    "key": run_key,
    "note": run_note,
    "tile": run_tile,
    "hash": run_hash,
    "merkle": run_merkle,
    "prefix": run_prefix,
    "subjects": run_subjects,
}


def judge_bundle(schemas: Schemas, data: bytes, accepted: dict[str, Json], now: int) -> Json:
    """The verdict on a bundle as received, for what its agent accepted, at its time in milliseconds."""
    return Check(schemas, accepted, now, form.decode(data)).run()


def judge_for_agent(data: bytes, accepted: dict[str, Json], now: int) -> dict[str, Json]:
    """The verdict on a bundle for its agent, with what is accepted from then on, as text in its one form."""
    v = verdict.check(data, accepted, now)
    answer: dict[str, Json] = {"refused": "", "confirmed": v.next["confirmed"], "next": dump(verdict.ordered(v.next)).decode()}
    if v.error is not None:
        form_alone = str(v.error) == "form"
        return {"refused": "form"} if form_alone else {**answer, "refused": str(v.error)}
    commands = [{
        "exec": c.exec, "method": c.method, "effect": c.effect, "line": c.line, "digest": c.digest, "released": c.released, "standing": c.standing,
        "result": c.result, "outcome": c.outcome, "refused": c.refused,
    } for c in v.commands]
    return {**answer, "incident": v.incident, "epoch": v.epoch, "expires_at": v.expires_at, "deadline_at": v.deadline_at, "commands": commands}


def judge_history(schemas: Schemas, data: bytes, case: dict[str, Json]) -> Json:
    """The answers of a history as received, under a root, to questions."""
    return history.History(schemas, case, history.decode(data)).verify()


def judge_evidence(data: bytes, root: dict[str, Json]) -> Json:
    """What a document of evidence, as received, shows under a root."""
    report = evidence.check(data, root)
    return {"equivocations": [vars(one) for one in report.equivocations], "missing": report.missing}


def judge(schemas: Schemas, q: dict[str, Json]) -> Json:
    """The result of what a question puts, which a Refused or a Broken refuses."""
    if q["group"] == "bundle":
        return judge_bundle(schemas, base64.b64decode(q["bundle"]), json.loads(q["accepted"]), q["now"])
    if q["group"] == "history":
        return judge_history(schemas, base64.b64decode(q["history"]), q)
    if q["group"] == "evidence":
        return judge_evidence(base64.b64decode(q["evidence"]), q["root"])
    is_text = q["group"] in ("hash", "key", "merkle", "note", "tile")
    v = dict(q, want={"note": q["note"]} if "note" in q else {})
    if "input" in q:
        v["input"] = base64.b64decode(q["input"]).decode() if is_text else {"base64": q["input"]}
    return GROUPS[q["group"]](schemas, v)


def main() -> None:
    """Answers until the questions end."""
    schemas = Schemas.of_package()
    for line in sys.stdin:
        q: dict[str, Json] = json.loads(line)
        if "group" not in q:
            print(json.dumps(judge_for_agent(base64.b64decode(q["bundle"]), json.loads(q["accepted"]), q["now"])), flush=True)
            continue
        try:
            answer: dict[str, Json] = {"refused": "", "result": judge(schemas, q)}
        except (Refused, Broken) as verdict:
            answer = {"refused": str(verdict)}
        print(json.dumps({"id": q["id"], **answer}), flush=True)


if __name__ == "__main__":
    main()
