"""Evidence against a ledger or an agent: documents in any spelling, and verdicts that name the step."""

from __future__ import annotations

import json
import os
import unittest
from typing import Any

from recoveryledger.verify import evidence
from recoveryledger.verify.strict import Broken

from .support import TREE

VECTORS = os.path.join(TREE, "testdata", "vectors", "evidence")


def vector(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The document and the root of a vector."""
    with open(os.path.join(VECTORS, name + ".json"), encoding="utf-8") as file:
        v = json.load(file)
    return json.loads(v["evidence"]), v["root"]


class Evidence(unittest.TestCase):
    def refused(self, document: object, root: dict[str, Any]) -> str:
        data = document if isinstance(document, bytes) else json.dumps(document).encode()
        with self.assertRaises(Broken) as caught:
            evidence.check(data, root)
        return str(caught.exception)

    def test_spelling(self) -> None:
        """White space, the order of members and null say nothing."""
        document, root = vector("index-hides")
        turned = {"newer": None, **dict(reversed(document.items()))}
        text = json.dumps(turned, indent=1, ensure_ascii=False).encode()
        with self.assertRaises(evidence.Convicted) as caught:
            evidence.check(b"\n" + text + b" ", root)
        self.assertEqual(str(caught.exception), "index")
        self.assertEqual(self.refused(text + text, root), "form")
        self.assertEqual(self.refused(text.replace(b'"size"', b'"s\\u0069ze"'), root), "form")  # a history has one form

    def test_report(self) -> None:
        """The report names who signed two objects under one id, and what the maker says."""
        document, root = vector("equivocation")
        report = evidence.check(json.dumps({**document, "detail": "seen"}).encode(), root)
        self.assertEqual((report.kind, report.detail, report.missing), ("equivocation", "seen", []))
        self.assertEqual([vars(one) for one in report.equivocations], [{"principal": "agent", "jti": "00000000-0000-7000-8000-000000000010", "index": 15}])

    def test_accepted_before(self) -> None:
        """A head that the root carries convicts, too; one that is none by the root is refused. One head alone convicts nobody."""
        document, root = vector("fork-one-head")
        self.assertEqual(evidence.check(json.dumps(document).encode(), root).missing, [2])
        other, _ = vector("fork-one-size")
        heads = [other["older"], other["newer"]]
        heads.remove(document["newer"])
        with self.assertRaises(evidence.Convicted):
            evidence.check(json.dumps(document).encode(), {**root, "head": heads[0]})
        self.assertEqual(self.refused(document, {**root, "head": heads[0].replace("\n15\n", "\n14\n")}), "step 1")

    def test_limits(self) -> None:
        """What is too large, too deep or of another type is no evidence."""
        document, root = vector("entry")
        receipt = document["receipts"][0]
        for name, value in (("leaf", "A" * 4 * 22000), ("leaf", ""), ("leaf", "AB=="), ("index", -1), ("index", 2**64), ("index", True),
                            ("proof", ["A" * 43 + "="] * 66), ("proof", "none"), ("head", "x" * ((128 << 10) + 1)), ("head", ""), ("more", 1)):
            changed = {**document, "receipts": [{**receipt, name: value}]}
            self.assertEqual(self.refused(changed, root), "form", (name, value if len(str(value)) < 9 else ""))
        for data in (b"", b"[]", b"{}", b"null", b"\xff", b'{"evidence":"fork","newer":"\\ud800"}', b'{"evidence":' + b"[" * 100_000):
            self.assertEqual(self.refused(data, root), "form", data[:40])


if __name__ == "__main__":
    unittest.main()
