"""Histories: these entries and no others, proven offline (docs/history.md)."""

from __future__ import annotations

from types import TracebackType

from .entries import Logged
from .form import MAX_LEAF, MAX_PATH, SUBJECT, check_proofs_form, count_of, formed
from .notes import ALWAYS, MAX_NOTE, follow, open_head, quorum_time
from .rights import Rights
from .schemas import Schemas
from .strict import Broken, Json, Refused, ascends, compact, depth_ok, found, need, read_compact, strict_base64
from .subjects import NOTHING, check_prefix, check_runs, contradicts, labels_of, listings, prefix_answer
from .tree import included

MAX_ENTRIES = 100_000


HISTORY = {
    "head": str, "index": int, "entries": [{"index": int, "leaf": "any"}], "inclusion": ["hash"],
    "subjects": [SUBJECT], "prefix": ["sibling"], "size": int,
}


class step:
    """What is refused within is refused in a step."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> step:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, _: TracebackType | None) -> None:
        if kind is not None and issubclass(kind, (Broken, Refused)):
            raise Broken(f"step {self.number}") from fault


def decode(data: bytes) -> dict[str, Json]:
    need(depth_ok(data), "form")
    h: Json = read_compact(data)
    try:
        need(isinstance(h, dict) and formed(HISTORY, h), "form")
    except Refused:
        raise Broken("form") from None
    need(0 < len(h["head"].encode()) <= MAX_NOTE and h["subjects"] and h["size"] > 0, "form")
    need(len(h["entries"]) <= MAX_ENTRIES and len(h["inclusion"]) <= MAX_PATH * (len(h["entries"]) + 1), "form")
    need(ascends([e["index"] for e in h["entries"]]), "form")
    need(all(len(compact(e["leaf"]).encode()) <= MAX_LEAF for e in h["entries"]), "form")
    check_proofs_form(h)
    return h


class History:
    def __init__(self, schemas: Schemas, case: dict[str, Json], h: dict[str, Json]) -> None:
        self.schemas, self.root, self.questions, self.h = schemas, case["root"], case["questions"], h
        self.missing: set[int] = set()
        self.entries: dict[int, Logged] = {}
        self.size = self.covered = 0  # of the head, and of the index

    def verify(self) -> dict[str, Json]:
        with step(1):
            size, digest, note = open_head(self.root, self.h["head"])
        if self.root.get("witnesses") and quorum_time(self.root["witnesses"], note, ALWAYS) is None:
            self.missing.add(1)
        entries = self.included(size, digest)
        rights = Rights(self.root, entries)
        if rights.lacking:
            self.missing.add(7)
        with step(1):
            open_head(follow(self.root, rights.chain.policies), note)  # TRU-5
        self.indexed(rights.signed)
        need(not self.contradicted(entries), "step 14")
        answers = self.answers()
        known = {(s["type"], s["value"]) for s in self.h["subjects"]}
        need(all((q["type"], q["value"]) in known for q in self.questions), "step 13")
        return {"answers": answers, "missing": sorted(self.missing)}

    # Steps 3 and 4

    def included(self, size: int, digest: bytes) -> list[Logged]:
        """The entries, which are in the tree of a head."""
        with step(3):
            entries = [Logged(self.schemas, e["index"], e["leaf"]) for e in self.h["entries"]]
        proof = [strict_base64(h) for h in self.h["inclusion"]]
        need(included({e.index: e.hash for e in entries}, size, digest, proof), "step 4")
        self.size, self.entries = size, {e.index: e for e in entries}
        return entries

    # Steps 9 to 12

    def indexed(self, signed: set[int]) -> None:
        """What the index entry proves. `signed` are the indexes of entries whose signer and signature hold."""
        e = found(self.entries.get(self.h["index"]), "step 9")
        need(e.kind == "index" and e.body["size"] <= e.index, "step 9")
        if e.index not in signed:
            self.missing.add(9)
        self.covered = e.body["size"]
        with step(10):
            answers = [prefix_answer(s) for s in self.h["subjects"]]
        with step(11):
            proof = [strict_base64(h) or NOTHING for h in self.h["prefix"]]
            check_prefix(answers, strict_base64(e.body["root"]), proof)
        with step(12):
            for s in self.h["subjects"]:
                check_runs(s, self.covered)
        need(self.h["size"] <= self.size, "step 13")

    def contradicted(self, entries: list[Logged]) -> bool:
        """Whether an entry of the same log, which the index covers, shows that the index is false."""
        return any(contradicts(self.h["subjects"], e.kind, e.body, e.index) for e in entries if e.index < self.covered)

    # Steps 13 to 15

    def answers(self) -> list[dict[str, Json]]:
        """The answers to the questions that the file is about; if there are none at all, to all that it shows."""
        if self.questions:
            known = {(s["type"], s["value"]) for s in self.h["subjects"]}
            asked = [q for q in self.questions if (q["type"], q["value"]) in known]
        else:
            asked = [q for s in self.h["subjects"] for q in self.shown(s)]
        return [self.answer({**q, "from": q.get("from", 0), "size": q.get("size") or self.h["size"]}) for q in asked]

    def shown(self, s: dict[str, Json]) -> list[dict[str, Json]]:
        """What the lists of a subject answer: one question about all entries that they have in common, or one a list."""
        about, size, lists = {"type": s["type"], "value": s["value"]}, self.h["size"], s.get("lists", [])
        each = []
        for run in lists:
            first, last = run["indexes"][0], run["indexes"][-1]
            whole = run["from"] + len(run["indexes"]) == count_of(s, run["label"])
            start, end = first if run["from"] else 0, size if whole or last >= size else last + 1
            if start < end:
                each.append({**about, "label": run["label"], "from": start, "size": end})
        start, end = max([0, *(q["from"] for q in each)]), min([size, *(q["size"] for q in each)])
        if len(lists) == len(s.get("rows", [])) and len(each) == len(lists) and start < end:
            return [{**about, "from": start, "size": end}]
        return each

    def under(self, e: Logged, q: dict[str, Json]) -> bool:
        found = listings(e.kind, e.body, e.index)
        return any(l["type"] == q["type"] and l["value"] == q["value"] and q.get("label", l["label"]) == l["label"] for l in found)

    def answer(self, q: dict[str, Json]) -> dict[str, Json]:
        need(q["size"] <= self.h["size"], "step 13")
        need(q.get("label", "") in ("", *labels_of(q["type"])) and q.get("from", 0) <= q["size"], "form")
        s = next(s for s in self.h["subjects"] if (s["type"], s["value"]) == (q["type"], q["value"]))
        shown = {run["label"]: run for run in s.get("lists", [])}
        listed = []
        for row in s.get("rows", []):
            if q.get("label", row["label"]) != row["label"]:
                continue
            run = found(shown.get(row["label"]), "step 13")
            need(run["from"] == 0 or run["indexes"][0] <= q["from"], "step 13")
            whole = run["from"] + len(run["indexes"]) == row["count"]
            need(whole or run["indexes"][-1] + 1 >= q["size"], "step 13")
            listed += run["indexes"]
        need(len(set(listed)) == len(listed), "step 13")
        within = sorted(index for index in listed if q["from"] <= index < q["size"])
        for index in within:
            need(index in self.entries and self.under(self.entries[index], q), "step 14")
        tail = range(max(self.covered, q["from"]), q["size"])
        need(all(index in self.entries for index in tail), "step 15")
        behind = [index for index in tail if self.under(self.entries[index], q)]
        return dict(q, entries=within + behind, tail=len(behind))
