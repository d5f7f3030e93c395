"""Signers and signatures of entries in the order of the log (docs/verify.md, steps 5 to 8)."""

from __future__ import annotations

import bisect

from .chain import CHAIN_KINDS, Chain
from .entries import Logged
from .strict import Broken, Json, need
from .tree import text


class Rights:
    """Entries, each judged by the policies and agent entries before it.

    Not every entry of a log needs to be there. What a missing entry might allow is not refused: `lacking` says
    that some signer could not be checked. A rule that does not hold is a Broken, whose text is the step, or
    "fork" for two leaves at one index.
    """

    def __init__(self, root: dict[str, Json], entries: list[Logged]) -> None:
        """Judges entries that ascend by index under a pinned root. One index may stand there more than once."""
        self.root, self.chain = root, Chain()
        self.entries: dict[int, Logged] = {}
        self.signed: set[int] = set()  # indexes of entries whose signer and signature hold
        self.lacking = False
        self._indexes = sorted({e.index for e in entries})
        named = [e.body["previous"]["index"] for e in entries if e.kind == "policy" and e.body.get("previous", e.ref())["index"] < e.index]
        self._gaps = set(named) - set(self._indexes)  # policies that others name as the one before
        before: Logged | None = None
        for e in entries:
            if before is not None:
                need(before.index != e.index or before.hash == e.hash, "fork")
                need(before.at <= e.at, "step 5")
            if before is None or before.index != e.index:
                need(e.body["aud"] == root["origin"], "step 6")
                self.entries[e.index] = e
                if self._judge(e):
                    self.signed.add(e.index)
                else:
                    self.lacking = True
            before = e

    def _judge(self, e: Logged) -> bool:
        """Steps 7 and 8. Returns False if only a missing entry could say whether the signer counts."""
        need(e.index != 0 or text(e.hash) == self.root["genesis"], "step 7")
        chain, link = self.chain, e.kind in CHAIN_KINDS
        if chain.policy is None and e.index:
            return False
        if link and chain.in_force and any(chain.in_force["index"] < at < e.index for at in self._gaps):
            return False
        try:
            signer = chain.signer(e)
            need(e.signed_by(signer), "step 8")
            if link:
                chain.apply(e, signer)
        except Broken as why:
            if why.problem and self._may_lack(e, why.problem):
                return False
            raise Broken("step 7" if why.problem else str(why)) from why
        return True

    def _may_lack(self, e: Logged, problem: str) -> bool:
        """Whether a refusal may only mean that entries of the chain are missing.

        The one entry that enrolled a key decides for ever what the key may do. A policy decides only which keys
        are its authority's, and who may enrol plain agents.
        """
        chain = self.chain
        if chain.policy is None or chain.in_force is None or e.kind == "policy" and e.body.get("previous") == chain.in_force:
            return False
        anything, policy = self._lost(0, e.index), self._lost(chain.in_force["index"], e.index)
        if problem == "unknown-subject":
            return anything
        if problem == "unauthorized-role":
            return policy and e.kind == "agent" and e.body["roles"] == ["agent"] and not chain.raised(e.body["principal"])
        if problem != "unknown-issuer":
            return False
        key = chain.keys.get(e.keyid)
        return anything if key is None else policy and key["principal"] == e.body["iss"] and not key["roles"]

    def _lost(self, after: int, before: int) -> bool:
        """Whether an entry between two indexes is not given."""
        return bisect.bisect_left(self._indexes, before) - bisect.bisect_right(self._indexes, after) < before - after - 1
