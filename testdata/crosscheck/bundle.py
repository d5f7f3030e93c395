#!/usr/bin/env python3
"""Checks authorization bundles as docs/bundle.md says, for the vectors in
testdata/vectors/bundle.

    bundle.py [vectors/bundle [schemas]]

Shares no code with the Go implementation: the verifier is that of the package in api/python. Ends
with the number of vectors checked, and fails if one differs.
"""

import pathlib
import sys

import cases
from recoveryledger.verify.form import BUNDLE
from recoveryledger.verify.judge import judge_bundle
from recoveryledger.verify.schemas import Schemas
from recoveryledger.verify.strict import dump


def run(schemas, case):
    bundle = case["bundle"]
    data = bundle.encode() if isinstance(bundle, str) else dump(cases.ordered(BUNDLE, bundle))
    return judge_bundle(schemas, data, case["accepted"], case["now"])


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root / "testdata/vectors/bundle"
    schemas = Schemas(pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else root / "ledger/entry/schema")
    return cases.run_folder(folder, lambda case: run(schemas, case))


if __name__ == "__main__":
    sys.exit(main())
