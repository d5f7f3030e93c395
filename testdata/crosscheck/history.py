#!/usr/bin/env python3
"""Verifies histories as docs/history.md says, for the vectors in testdata/vectors/history.

    history.py [vectors/history [schemas]]

Shares no code with the Go implementation; entries, signatures, heads and proofs are those
of check.py and bundle.py. Ends with the number of vectors checked, and fails if one differs.
"""

import pathlib
import sys

import bundle
import check
from bundle import Broken, need
from check import Refused, strict_base64

MAX_ENTRIES = 100_000
HISTORY = {
    "head": str, "index": int, "entries": [{"index": int, "leaf": "any"}], "inclusion": ["hash"],
    "subjects": [bundle.SUBJECT], "prefix": ["sibling"], "size": int,
}


class step:
    """What is refused within is refused in a step."""

    def __init__(self, number):
        self.number = number

    def __enter__(self):
        return self

    def __exit__(self, kind, fault, _):
        if kind in (Broken, Refused):
            raise Broken(f"step {self.number}") from fault


def decode(data):
    try:
        h = check.strict_json(data) if bundle.depth_ok(data) else None
        need(isinstance(h, dict) and bundle.dump(h) == data and bundle.formed(HISTORY, h), "form")
    except Refused:
        raise Broken("form") from None
    need(0 < len(h["head"].encode()) <= bundle.MAX_NOTE and h["subjects"] and h["size"] > 0, "form")
    need(len(h["entries"]) <= MAX_ENTRIES and len(h["inclusion"]) <= bundle.MAX_PATH * (len(h["entries"]) + 1), "form")
    need(bundle.ascends([e["index"] for e in h["entries"]]), "form")
    need(all(len(bundle.dump(e["leaf"])) <= bundle.MAX_LEAF for e in h["entries"]), "form")
    bundle.check_proofs_form(h)
    return h


class History:
    def __init__(self, schemas, case, h):
        self.schemas, self.root, self.questions, self.h = schemas, case["root"], case["questions"], h
        self.missing = set()

    def verify(self):
        with step(1):
            self.size, digest, _ = bundle.open_head(self.root, self.h["head"])
        with step(3):
            entries = [bundle.Logged(self.schemas, e["index"], e["leaf"]) for e in self.h["entries"]]
        proof = [strict_base64(h) for h in self.h["inclusion"]]
        need(bundle.included({e.index: e.hash for e in entries}, self.size, digest, proof), "step 4")
        self.entries = {e.index: e for e in entries}
        self.rights(entries)
        self.indexed()
        answers = [self.answer(dict(q, size=q.get("size") or self.h["size"])) for q in self.asked()]
        known = {(s["type"], s["value"]) for s in self.h["subjects"]}
        need(all((q["type"], q["value"]) in known for q in self.questions), "step 13")
        return {"answers": answers, "missing": sorted(self.missing)}

    # Steps 5 to 8

    def rights(self, entries):
        chain, before = bundle.Chain(), 0
        for e in entries:
            need(before <= e.at, "step 5")
            before = e.at
            need(e.body["aud"] == self.root["origin"], "step 6")
            need(e.index != 0 or check.text(e.hash) == self.root["genesis"], "step 7")
            if chain.policy is None and e.index or chain.policy and e.keyid not in chain.keys:
                self.missing.add(7)
                continue
            with step(7):
                signer = chain.signer(e)
            need(e.signed_by(signer), "step 8")
            if e.kind in bundle.CHAIN_KINDS:
                with step(7):
                    chain.apply(e, signer)
            e.trusted = True

    # Steps 9 to 12

    def indexed(self):
        e = self.entries.get(self.h["index"])
        need(e and e.kind == "index" and e.body["size"] <= e.index, "step 9")
        if not e.trusted:
            self.missing.add(9)
        self.covered = e.body["size"]
        with step(10):
            answers = [bundle.prefix_answer(s) for s in self.h["subjects"]]
        with step(11):
            proof = [strict_base64(h) or check.NOTHING for h in self.h["prefix"]]
            check.check_prefix(answers, strict_base64(e.body["root"]), proof)
        with step(12):
            for s in self.h["subjects"]:
                bundle.check_runs(s, self.covered)
        need(self.h["size"] <= self.size, "step 13")

    # Steps 13 to 15

    def asked(self):
        """The questions that the file is about; if there are none at all, about all that it shows."""
        if self.questions:
            known = {(s["type"], s["value"]) for s in self.h["subjects"]}
            return [q for q in self.questions if (q["type"], q["value"]) in known]
        return [{"type": s["type"], "value": s["value"], "from": 0} for s in self.h["subjects"]]

    def under(self, e, q):
        found = check.listings(e.kind, e.body, e.index)
        return any(l["type"] == q["type"] and l["value"] == q["value"] and q.get("label", l["label"]) == l["label"] for l in found)

    def answer(self, q):
        need(q["size"] <= self.h["size"], "step 13")
        s = next(s for s in self.h["subjects"] if (s["type"], s["value"]) == (q["type"], q["value"]))
        shown = {run["label"]: run for run in s.get("lists", [])}
        listed = []
        for row in s.get("rows", []):
            if q.get("label", row["label"]) != row["label"]:
                continue
            run = shown.get(row["label"])
            need(run, "step 13")
            need(run["from"] == 0 or run["indexes"][0] <= q["from"], "step 13")
            whole = run["from"] + len(run["indexes"]) == row["count"]
            need(whole or run["indexes"][-1] + 1 >= q["size"], "step 13")
            listed += run["indexes"]
        need(len(set(listed)) == len(listed), "step 13")
        found = sorted(index for index in listed if q["from"] <= index < q["size"])
        for index in found:
            need(index in self.entries and self.under(self.entries[index], q), "step 14")
        tail = range(max(self.covered, q["from"]), q["size"])
        need(all(index in self.entries for index in tail), "step 15")
        behind = [index for index in tail if self.under(self.entries[index], q)]
        return dict(q, entries=found + behind, tail=len(behind))


def run(schemas, case):
    h = case["history"]
    data = h.encode() if isinstance(h, str) else bundle.dump(bundle.ordered(HISTORY, h))
    return History(schemas, case, decode(data)).verify()


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root / "testdata/vectors/history"
    schemas = check.Schemas(pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else root / "ledger/entry/schema")
    return bundle.run_folder(folder, lambda case: run(schemas, case))


if __name__ == "__main__":
    sys.exit(main())
