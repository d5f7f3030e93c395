#!/usr/bin/env python3
"""Recompute the protocol vectors without any code in Go.

    check.py [vectors [schemas]]

Reads testdata/vectors and, for the shape of payloads, the JSON Schemas. The verifier is that of
the package in api/python, with signatures of arithmetic.py: the program uses nothing but the
standard library. Ends with the number of vectors checked, and fails if one differs.
"""

import json
import pathlib
import sys

import arithmetic  # noqa: F401: before the package
from recoveryledger.verify.judge import GROUPS
from recoveryledger.verify.schemas import Schemas
from recoveryledger.verify.strict import Refused


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    vectors = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root / "testdata/vectors"
    schemas = Schemas(pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else root / "ledger/entry/schema")
    checked = wrong = refused = 0
    for file in sorted(vectors.rglob("*.json")):
        if file.relative_to(vectors).parts[0] in ("bundle", "decide", "evidence", "history", "policy", "scope"):
            continue  # bundle.py, decide.py, history.py, scope.py; the kit asks about evidence; policy files, YAML with CEL, are for Go alone
        v = json.loads(file.read_text(encoding="utf-8"))
        run = GROUPS[file.relative_to(vectors).parts[0]]
        try:
            problem, got = "", run(schemas, v)
        except Refused as verdict:
            problem, got = str(verdict), None
        checked += 1
        refused += problem != ""
        if problem != v["wantErr"] or got != v.get("want"):
            wrong += 1
            print(f"{file}: {v['desc']}: got {problem!r} {got}, want {v['wantErr']!r} {v.get('want')}")
    print(f"{checked} vectors checked, {refused} of them refused, {wrong} wrong")
    return 1 if wrong or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
