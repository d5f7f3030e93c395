"""Vectors that stand as a case, or as a patch of the case of another one (testdata/vectors/README.md)."""

import copy
import json

import arithmetic  # noqa: F401: before the package
from recoveryledger.verify.strict import Broken, canonical


def patched(value, operations):
    """JSON Patch (RFC 6902): add, remove, replace."""
    for operation in operations:
        *parents, last = operation["path"].split("/")[1:]
        node = value
        for token in parents:
            node = node[int(token) if isinstance(node, list) else token]
        if isinstance(node, list):
            last = int(last)
        if operation["op"] == "remove":
            del node[last]
        elif operation["op"] == "add" and isinstance(node, list):
            node.insert(last, copy.deepcopy(operation["value"]))
        else:
            node[last] = copy.deepcopy(operation["value"])
    return value


def case_of(vectors, v):
    if "case" in v:
        return json.loads(json.dumps(v["case"]))
    return patched(case_of(vectors, vectors[v["like"]]), v.get("patch", []))


def ordered(shape, value):
    """A value with its members in the order of a shape, as the bundle was written."""
    if isinstance(shape, list) and isinstance(value, list):
        return [ordered(shape[0], element) for element in value]
    if isinstance(shape, dict) and isinstance(value, dict):
        known = {name.rstrip("?"): shape[name] for name in shape}
        return {name: ordered(known[name], value[name]) for name in known if name in value} | {n: value[n] for n in value if n not in known}
    if shape == "any":
        return json.loads(canonical(value))
    return value


def run_folder(folder, judge):
    """Judges the vectors of a folder, and returns the exit code. judge takes a case."""
    vectors = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))}
    wrong = refused = 0
    for name, v in vectors.items():
        try:
            problem, got = "", judge(case_of(vectors, v))
        except Broken as verdict:
            problem, got = str(verdict), None
        refused += problem != ""
        if problem != v["wantErr"] or got != v.get("want"):
            wrong += 1
            print(f"{name}: {v['desc']}: got {problem!r} {got}, want {v['wantErr']!r} {v.get('want')}")
    print(f"{len(vectors)} vectors checked, {refused} of them refused, {wrong} wrong")
    return 1 if wrong or not vectors else 0
