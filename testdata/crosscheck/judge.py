#!/usr/bin/env python3
"""Answers the questions of "arl conformance verifier" with check.py, bundle.py and history.py.

Reads a question in each line, as JSON, and writes its verdict in a line. What docs/conformance.md
says of questions and answers is all that this program knows.
"""

import base64
import json
import pathlib
import sys

import bundle
import check
import history

SCHEMAS = check.Schemas(pathlib.Path(__file__).resolve().parents[2] / "ledger/entry/schema")


def judge(q):
    if q["group"] == "bundle":
        data = base64.b64decode(q["bundle"])
        return bundle.Check(SCHEMAS, json.loads(q["accepted"]), q["now"], bundle.decode(data)).run()
    if q["group"] == "history":
        return history.run(SCHEMAS, dict(q, history=base64.b64decode(q["history"]).decode()))
    text = q["group"] in ("hash", "key", "merkle", "note", "tile")
    v = dict(q, want={"note": q["note"]} if "note" in q else {})
    if "input" in q:
        v["input"] = base64.b64decode(q["input"]).decode() if text else {"base64": q["input"]}
    return check.GROUPS[q["group"]](SCHEMAS, v)


for line in sys.stdin:
    q = json.loads(line)
    try:
        answer = {"refused": "", "result": judge(q)}
    except (check.Refused, bundle.Broken) as verdict:
        answer = {"refused": str(verdict)}
    print(json.dumps({"id": q["id"], **answer}), flush=True)
