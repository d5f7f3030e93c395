"""Histories: these entries and no others, proven offline (docs/history.md)."""

from __future__ import annotations

from types import TracebackType

from .chain import CHAIN_KINDS, Chain
from .entries import Logged
from .form import MAX_LEAF, MAX_PATH, SUBJECT, check_proofs_form, formed
from .notes import MAX_NOTE, open_head
from .schemas import Schemas
from .strict import Broken, Json, Refused, ascends, compact, depth_ok, found, need, read_compact, strict_base64
from .subjects import NOTHING, check_prefix, check_runs, listings, prefix_answer
from .tree import included, text

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
        if kind in (Broken, Refused):
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
        self.missing = set()

    def verify(self) -> dict[str, Json]:
        with step(1):
            self.size, digest, _ = open_head(self.root, self.h["head"])
        with step(3):
            entries = [Logged(self.schemas, e["index"], e["leaf"]) for e in self.h["entries"]]
        proof = [strict_base64(h) for h in self.h["inclusion"]]
        need(included({e.index: e.hash for e in entries}, self.size, digest, proof), "step 4")
        self.entries = {e.index: e for e in entries}
        self.rights(entries)
        self.indexed()
        answers = [self.answer(dict(q, size=q.get("size") or self.h["size"])) for q in self.asked()]
        known = {(s["type"], s["value"]) for s in self.h["subjects"]}
        need(all((q["type"], q["value"]) in known for q in self.questions), "step 13")
        return {"answers": answers, "missing": sorted(self.missing)}

    # Steps 5 to 8

    def rights(self, entries: list[Logged]) -> None:
        chain, before = Chain(), 0
        for e in entries:
            need(before <= e.at, "step 5")
            before = e.at
            need(e.body["aud"] == self.root["origin"], "step 6")
            need(e.index != 0 or text(e.hash) == self.root["genesis"], "step 7")
            if chain.policy is None and e.index or chain.policy and e.keyid not in chain.keys:
                self.missing.add(7)
                continue
            with step(7):
                signer = chain.signer(e)
            need(e.signed_by(signer), "step 8")
            if e.kind in CHAIN_KINDS:
                with step(7):
                    chain.apply(e, signer)
            e.trusted = True

    # Steps 9 to 12

    def indexed(self) -> None:
        e = found(self.entries.get(self.h["index"]), "step 9")
        need(e.kind == "index" and e.body["size"] <= e.index, "step 9")
        if not e.trusted:
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

    # Steps 13 to 15

    def asked(self) -> list[dict[str, Json]]:
        """The questions that the file is about; if there are none at all, about all that it shows."""
        if self.questions:
            known = {(s["type"], s["value"]) for s in self.h["subjects"]}
            return [q for q in self.questions if (q["type"], q["value"]) in known]
        return [{"type": s["type"], "value": s["value"], "from": 0} for s in self.h["subjects"]]

    def under(self, e: Logged, q: dict[str, Json]) -> bool:
        found = listings(e.kind, e.body, e.index)
        return any(l["type"] == q["type"] and l["value"] == q["value"] and q.get("label", l["label"]) == l["label"] for l in found)

    def answer(self, q: dict[str, Json]) -> dict[str, Json]:
        need(q["size"] <= self.h["size"], "step 13")
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
