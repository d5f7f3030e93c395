#!/usr/bin/env python3
"""Verifies histories as docs/history.md says, for the vectors in testdata/vectors/history.

    history.py [vectors/history [schemas]]

Shares no code with the Go implementation: the verifier is that of the package in api/python. Ends
with the number of vectors checked, and fails if one differs.
"""

import pathlib
import sys

import cases
from recoveryledger.verify.history import HISTORY
from recoveryledger.verify.judge import judge_history
from recoveryledger.verify.schemas import Schemas
from recoveryledger.verify.strict import dump


def run(schemas, case):
    h = case["history"]
    data = h.encode() if isinstance(h, str) else dump(cases.ordered(HISTORY, h))
    return judge_history(schemas, data, case)


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root / "testdata/vectors/history"
    schemas = Schemas(pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else root / "ledger/entry/schema")
    return cases.run_folder(folder, lambda case: run(schemas, case))


if __name__ == "__main__":
    sys.exit(main())
