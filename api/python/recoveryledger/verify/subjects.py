"""The index of the log: where an entry is listed, and proofs of what the lists hold (docs/index.md)."""

from __future__ import annotations

import functools
import re

from .strict import Json, refuse_if, strict_base64
from .tree import hash_leaf, sha256, split, text


def listings(kind: str, body: dict[str, Json], index: int) -> list[dict[str, str]]:
    """Where the entry at an index is listed."""
    act = {"agent": "op", "decision": "act", "task": "op", "rollout": "op"}.get(kind)
    label = kind + "/" + body[act] if act else kind
    listed = []

    def under(subject: str, value: str, mark: str = "") -> None:
        listed.append({"type": subject, "value": value, "label": label + mark})

    if "wid" in body:
        under("workflow", body["wid"])
    if kind == "signal":
        under("incident", str(index))
    elif kind == "execution" and "compensates" in body:
        under("incident", str(body["compensates"]["incident"]))
    elif "incident" in body:
        under("incident", str(body["incident"]))
    if kind in TASK and "task" in body:
        under("task", body["task"])
    about = {
        "agent": lambda: body["principal"],
        "signal": lambda: body["subject"].split("#")[0],
        "outcome": lambda: body["exec"].split("#")[0],
        "task": lambda: body.get("agent", body["iss"]),
        "attempt": lambda: body.get("agent", body["iss"]),
    }.get(kind, lambda: body["iss"])()
    if about == body["iss"]:
        under("agent", about)
    else:
        under("agent", body["iss"], ">")
        under("agent", about, "<")
    if kind in ("policy", "agent", "decision", "record", "index"):
        under("log", "")
    return listed


def contradicts(subjects: list[dict[str, Json]], kind: str, body: dict[str, Json], index: int) -> bool:
    """Whether the lists of subjects leave out an entry that the index covers, or name it where it does not belong."""
    listed = {(l["type"], l["value"]): l["label"] for l in listings(kind, body, index)}
    for s in subjects:
        counts = {row["label"]: row["count"] for row in s.get("rows", [])}
        label = listed.get((s["type"], s["value"]))
        if label is not None and label not in counts:
            return True
        for run in s.get("lists", []):
            named, begins = index in run["indexes"], run["from"] == 0 or run["indexes"][0] < index
            ends = run["from"] + len(run["indexes"]) == counts[run["label"]] or run["indexes"][-1] > index
            if named != (run["label"] == label) and (named or begins and ends):
                return True
    return False


NAME = "[A-Za-z0-9._:/@-]{1,128}"
INCIDENT = ("execution", "signal", "decision", "approval", "outcome", "record")
LOG = ("policy", "agent", "decision", "record", "index")
TASK = ("execution", "task", "attempt")
WORKFLOW = ("execution", "checkpoint", "signal", "decision", "approval", "outcome", "record", "task", "attempt", "run", "rollout")
KINDS = {"workflow": WORKFLOW, "incident": INCIDENT, "task": TASK, "agent": ("policy", "agent", "index", *WORKFLOW), "log": LOG}
ACTS = {  # what such an entry may do
    "agent": ("enrol", "rotate", "revoke"),
    "decision": ("contain", "escalate", "authorize", "amend", "deny", "override", "release"),
    "task": ("create", "reassign", "cancel", "release", "start", "review", "complete", "block", "assign", "fail", "interrupt"),
    "rollout": ("start", "advance", "waive", "abort"),
}
ABOUT = ("agent", "signal", "outcome", "task", "attempt")  # kinds that may be about another principal than their issuer


@functools.cache
def labels_of(subject: str) -> frozenset[str]:
    """The labels that entries may have under a subject of a type (IDX-1)."""
    labels: set[str] = set()
    for kind in KINDS[subject]:
        marks = ("", ">", "<") if subject == "agent" and kind in ABOUT else ("",)
        labels |= {label + mark for label in ([f"{kind}/{act}" for act in ACTS[kind]] if kind in ACTS else [kind]) for mark in marks}
    return frozenset(labels)


def known(s: dict[str, Json]) -> bool:
    """Whether the protocol knows a subject."""
    value: str = s["value"]
    forms = {"workflow": NAME, "agent": NAME, "task": f"{NAME}#{NAME}", "incident": "0|[1-9][0-9]{0,15}", "log": ""}
    return s["type"] in forms and re.fullmatch(forms[s["type"]], value) is not None and (s["type"] != "incident" or int(value) < 2**53)


def number(n: int) -> bytes:
    return n.to_bytes(8, "big")


def record(rows: list[dict[str, Json]]) -> bytes:
    labels = [row["label"].encode() for row in rows]
    refuse_if(not rows or labels != sorted(set(labels)) or not all(0 < len(label) < 256 for label in labels))
    refuse_if(any(row["count"] < 1 for row in rows))
    parts = [bytes([len(row["label"])]) + row["label"].encode() + number(row["count"]) + strict_base64(row["root"]) for row in rows]
    return sha256(b"\4", *parts)


def bits(key: bytes) -> str:
    return "".join(f"{byte:08b}" for byte in key)


def leaf_of(leaf: dict[str, str]) -> tuple[bytes, bytes]:
    return strict_base64(leaf["key"]), strict_base64(leaf["record"])


NOTHING = bytes(32)


def prefix_root(leaves: list[tuple[str, bytes]], depth: int = 0) -> bytes:
    """leaves: pairs of a key's bits and a leaf hash."""
    if len(leaves) < 2:
        return leaves[0][1] if leaves else NOTHING
    return sha256(b"\3", *(prefix_root([leaf for leaf in leaves if leaf[0][depth] == bit], depth + 1) for bit in "01"))


def check_prefix(answers: list[dict[str, Json]], root: bytes, proof: list[bytes]) -> None:
    """Puts what is known at its place in the tree, a string of bits, and hashes from the deepest on."""
    keys = [strict_base64(a["key"]) for a in answers]
    refuse_if(keys != sorted(set(keys)), "proof")
    ends, inner = {}, set()
    for key, a in zip(map(bits, keys), answers):
        refuse_if(not 0 <= a["depth"] <= 256, "proof")
        place, got = key[: a["depth"]], (NOTHING, 0)
        if "leaf" in a:
            leaf = leaf_of(a["leaf"])
            refuse_if(not bits(leaf[0]).startswith(place), "proof")
            got = (sha256(b"\2", *leaf), 1)
        refuse_if(ends.setdefault(place, got) != got, "proof")
        inner.update(place[:i] for i in range(len(place)))
    refuse_if(inner & ends.keys(), "proof")
    beside = sorted({above + bit for above in inner for bit in "01"} - inner - ends.keys()) if answers else [""]
    refuse_if(len(beside) != len(proof), "proof")
    known = dict(ends)  # place: hash, and how many leaves there are at least
    known.update({place: (h, 0 if h == NOTHING else 1) for place, h in zip(beside, proof)})
    certain = set(ends) | {place for place, h in zip(beside, proof) if h == NOTHING}  # no more leaves than that
    for above in sorted(inner, key=len, reverse=True):
        (left, l), (right, r) = known[above + "0"], known[above + "1"]
        refuse_if(l + r < 2 and {above + "0", above + "1"} <= certain, "proof")
        known[above] = (sha256(b"\3", left, right), 2)
    refuse_if(known[""][0] != root, "proof")


def check_run(first: int, indexes: list[int], size: int, root: bytes, proof: list[bytes]) -> None:
    """Joint proof of neighbours: the largest subtrees outside of the run, from left to right."""
    refuse_if(indexes != sorted(set(indexes)) or first + len(indexes) > size, "proof")
    ranks, rest = {first + i: hash_leaf(number(index)) for i, index in enumerate(indexes)}, list(proof)

    def over(low: int, high: int) -> bytes:
        if not any(low <= rank < high for rank in ranks):
            refuse_if(not rest, "proof")
            return rest.pop(0)
        if high - low == 1:
            return ranks[low]
        middle = low + split(high - low)
        left = over(low, middle)
        return sha256(b"\1", left, over(middle, high))

    refuse_if(over(0, size) != root or rest, "proof")


def subject_key(s: dict[str, Json]) -> bytes:
    return sha256(f"arl index/1\n{s['type']}\n{s['value']}".encode())


def prefix_answer(s: dict[str, Json]) -> dict[str, Json]:
    """What a subject says of its place in the tree of the index."""
    answer = {"key": text(subject_key(s)), "depth": s["depth"]}
    if "rows" in s:
        answer["leaf"] = {"key": answer["key"], "record": text(record(s["rows"]))}
    elif "other" in s:
        refuse_if(s["other"]["key"] == answer["key"])
        answer["leaf"] = s["other"]
    return answer


def check_runs(s: dict[str, Json], covered: int) -> None:
    """Proves the lists of a subject by its rows."""
    rows = {row["label"]: row for row in s.get("rows", [])}
    for run in s.get("lists", []):
        row = rows[run["label"]]
        refuse_if(run["indexes"][-1] >= covered)
        check_run(run["from"], run["indexes"], row["count"], strict_base64(row["root"]), [strict_base64(h) for h in run["path"]])
