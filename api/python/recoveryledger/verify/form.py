"""The one form of an authorization bundle (docs/md, "Shape")."""

from __future__ import annotations

import bisect
import re
from typing import Any

from .notes import MAX_NOTE
from .strict import Broken, Json, Refused, ascends, compact, depth_ok, need, read_compact, strict_base64
from .subjects import NOTHING, known, labels_of, subject_key

MAX_BUNDLE, MAX_PATH, MAX_LEAF, MAX_ENTRIES, MAX_MEMBERS, MAX_AFTER = 8 << 20, 65, 65535, 8192, 4096, 256


SUBJECT = {
    "type": str,
    "value": str,
    "rows?": [{"label": str, "count": int, "root": "hash"}],
    "lists?": [{"label": str, "from": int, "indexes": [int], "path": ["hash"]}],
    "depth": int,
    "other?": {"key": "hash", "record": "hash"},
}


BUNDLE = {
    "agent": str, "decision?": int, "head": str, "from": int, "consistency": ["hash"],
    "entries": [{"index": int, "leaf": "any"}], "inclusion": ["hash"],
    "members": [{
        "place": int,
        "member": {"agent": str, "checkpoint?": str, "exec": str, "index": int, "leaf_hash": "hash", "method": str},
        "after?": [int],
        "by?": int,
    }],
    "membership": ["hash"],
    "steps": [{"exec": int, "rule": str, "from": int, "by?": int, "checkpoint?": int}],
    "index?": int,
    "subjects?": [SUBJECT],
    "prefix?": ["sibling"],
}


def formed(shape: Any, value: Json) -> bool:
    """Whether a value has exactly the members of a shape, in its order; what may
    be absent is not empty where it stands."""
    if shape == "any":
        return True
    if shape == "hash":
        return isinstance(value, str) and len(value) == 44 and len(strict_base64(value)) == 32
    if shape == "sibling":
        return value == "" or formed("hash", value) and strict_base64(value) != NOTHING
    if isinstance(shape, list):
        return isinstance(value, list) and all(formed(shape[0], element) for element in value)
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return False
        names = [name for name in shape if name.rstrip("?") in value]
        if [name.rstrip("?") for name in names] != list(value) or any(n[-1] != "?" and n not in value for n in shape):
            return False
        return all(formed(shape[n], value[n.rstrip("?")]) and (n[-1] != "?" or value[n[:-1]]) for n in names)
    return type(value) is shape and (shape is str or 0 <= value < 2**64)


def plain(text: str) -> bool:
    return len(text) <= 257 and re.fullmatch(r'[ !#-\[\]-~]*', text) is not None


def check_form(b: dict[str, Json]) -> None:
    ok = formed(BUNDLE, b)
    ok = ok and b["agent"] and plain(b["agent"]) and 0 < len(b["head"].encode()) <= MAX_NOTE and len(b["consistency"]) <= MAX_PATH
    need(ok, "form")
    entries, members, steps = b["entries"], b["members"], b["steps"]
    need(len(entries) <= MAX_ENTRIES and len(members) <= MAX_MEMBERS and len(steps) <= MAX_ENTRIES, "form")
    need(len(b["inclusion"]) <= MAX_PATH * (len(entries) + 1) and len(b["membership"]) <= MAX_PATH * len(members), "form")
    need("decision" in b or not members and not steps, "form")
    need("decision" not in b or members, "form")
    need(ascends([e["index"] for e in entries]) and ascends([m["place"] for m in members]) and ascends([s["exec"] for s in steps]), "form")
    need(all(len(compact(e["leaf"]).encode()) <= MAX_LEAF for e in entries), "form")
    check_subjects_form(b)
    for m in members:
        after = m.get("after", [])
        need(len(after) <= MAX_AFTER and ascends(after) and all(place < m["place"] for place in after), "form")
        need(all(plain(m["member"].get(name, "")) for name in ("agent", "exec", "checkpoint", "method")), "form")
    for s in steps:
        need(s["rule"] in ("SCO-1", "SCO-2", "SCO-3") and (s["rule"] == "SCO-2" or not ("by" in s or "checkpoint" in s)), "form")


def check_subjects_form(b: dict[str, Json]) -> None:
    need(("index" in b) == ("subjects" in b) and ("index" in b or "prefix" not in b) and ("decision" in b or "index" not in b), "form")
    check_proofs_form(b)


def check_proofs_form(b: dict[str, Json]) -> None:
    """The form of what an index says of subjects, in a bundle or a history."""
    subjects = b.get("subjects", [])
    need(len(subjects) <= 1024 and len(b.get("prefix", [])) <= 256 * (len(subjects) + 1), "form")
    need(ascends([subject_key(s) for s in subjects]), "form")
    for s in subjects:
        need(known(s) and s["depth"] <= 256 and len(s.get("rows", [])) <= len(labels_of(s["type"])), "form")
        need(not ("rows" in s and "other" in s), "form")
        need(ascends([run["label"] for run in s.get("lists", [])]), "form")
        for run in s.get("lists", []):
            need(run["indexes"] and run["from"] + len(run["indexes"]) <= count_of(s, run["label"]) and len(run["path"]) <= 2 * MAX_PATH, "form")


def count_of(subject: dict[str, Json], label: str) -> int:
    """How many entries the row of a label has, found as among rows that ascend; 0 without one."""
    rows = subject.get("rows", [])
    at = bisect.bisect_left([row["label"] for row in rows], label)
    return rows[at]["count"] if at < len(rows) and rows[at]["label"] == label else 0


def decode(data: bytes) -> dict[str, Json]:
    """Reads the bytes of a bundle: exactly what writing it again gives."""
    need(len(data) <= MAX_BUNDLE and depth_ok(data), "form")
    b: Json = read_compact(data)
    need(isinstance(b, dict), "form")
    try:
        check_form(b)
    except Refused:
        raise Broken("form") from None
    return b
