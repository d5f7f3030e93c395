"""The chain of policies and keys (TRU-1 to TRU-5): which key may sign what, at which index."""

from __future__ import annotations

from typing import Any

from .entries import Logged
from .keys import keyid_of, parse_public_key
from .notes import ledger_keys
from .strict import Broken, Json, found, need, strict_base64
from .tree import text

CHAIN_KINDS = ("policy", "agent")


ROLES = {
    "execution": ["agent"], "checkpoint": ["agent"], "approval": ["approver"], "record": ["coordinator", "approver"],
    "attempt": ["engine", "coordinator", "agent"], "run": ["engine"], "index": ["coordinator"],
}
TASKS = {
    "create": ["operator"], "reassign": ["operator"], "cancel": ["operator"], "release": ["operator"],
    "start": ["agent"], "review": ["agent"], "complete": ["agent"], "block": ["agent"],
}


def roles_for(kind: str, body: dict[str, Json]) -> list[str]:
    if kind == "signal":
        return [body["standing"]] if body["standing"] in ("monitor", "operator") else ["agent"]
    if kind == "decision":
        if body["act"] == "deny" and "supersedes" in body:
            return ["coordinator", "approver", "operator"]
        return {"override": ["operator", "approver"], "escalate": ["coordinator", "approver", "agent", "monitor", "operator"]}.get(
            body["act"], ["coordinator", "approver"])
    if kind == "task":
        return ["engine"] if body["op"] == "create" and "about" in body else TASKS.get(body["op"], ["coordinator"])
    if kind == "rollout":
        return {"abort": ["operator", "approver", "coordinator"], "waive": ["approver"]}.get(body["op"], ["operator"])
    if kind == "outcome":
        return ["agent", "coordinator", "approver"] if body["result"] == "unknown" else ["agent"]
    return ROLES.get(kind, [])


class Chain:
    def __init__(self) -> None:
        self.policy: Json = None
        self.in_force: dict[str, Json] | None = None
        self.keys: dict[str, dict[str, Any]] = {}
        self.agents: dict[str, dict[str, Any]] = {}
        self.policies: list[tuple[int, Json]] = []
        self.links: list[int] = []

    def copy(self) -> Chain:
        other = Chain()
        other.policy, other.in_force = self.policy, self.in_force
        other.keys = {keyid: dict(key) for keyid, key in self.keys.items()}
        other.agents = {name: dict(agent) for name, agent in self.agents.items()}
        return other

    def signer(self, e: Logged) -> dict[str, Any]:
        """The key that an entry is signed with, if it counts and may sign this."""
        unknown, unfit = "unknown-issuer", "unauthorized-role"
        if self.policy is None:
            need(e.kind == "policy", "AGT-2", "TRU-2", problem=unknown)
            for a in e.body["authority"]:
                key = parse_public_key(strict_base64(a["key"]))
                if a["principal"] == e.body["iss"] and keyid_of(key) == e.keyid:
                    return {"key": key, "authority": True, "roles": []}
            raise Broken("AGT-2 TRU-2", unknown)
        key = found(self.keys.get(e.keyid), "AGT-2", "TRU-2", problem=unknown)
        need(key["principal"] == e.body["iss"] and key["revoked"] is None, "AGT-2", "TRU-2", problem=unknown)
        if key["authority"] and e.kind in CHAIN_KINDS:
            return key
        allowed = roles_for(e.kind, e.body)
        if e.kind == "agent" and e.body["roles"] == ["agent"]:
            allowed = self.policy["roles"].get("agent", [])
        need(any(role in key["roles"] for role in allowed), "AGT-2", "TRU-2", problem=unfit)
        return key

    def apply(self, e: Logged, signer: dict[str, Any]) -> None:
        """Takes up a policy or agent entry whose signer is known. The error is a Broken."""
        if e.kind == "policy":
            need(self._policy(e), "AGT-2", "TRU-2", problem="state-conflict")
        else:
            problem = self._agent(e, signer)
            need(not problem, "AGT-2", "TRU-2", problem=problem)
        self.links.append(e.index)

    def raised(self, principal: str) -> bool:
        """Whether a principal has, or had, another role than that of a plain agent."""
        return any(self.keys[k]["roles"] != ["agent"] for k in self.agents.get(principal, {"keys": []})["keys"])

    def _policy(self, e: Logged) -> bool:
        p = e.body
        if self.policy is None:
            ok = e.index == 0 and "previous" not in p
        else:
            ok = p.get("previous") == self.in_force
        ok = ok and self._ledger_keys(p)
        authority = [(parse_public_key(strict_base64(a["key"])), a["principal"]) for a in p["authority"]]
        for key, principal in authority:
            known = self.keys.get(keyid_of(key))
            ok = ok and not (known and (known["roles"] or known["principal"] != principal))
        for key in self.keys.values():
            if key["authority"]:
                key["authority"], key["revoked"] = False, e.index
        for key, principal in authority:
            known = self.keys.setdefault(keyid_of(key), {
                "key": key, "principal": principal, "roles": [], "enrolled": e.index, "compromised": None})
            known["authority"], known["revoked"] = True, None
        self.policy, self.in_force = p, {"index": e.index, "leaf_hash": text(e.hash)}
        self.policies.append((e.index, p))
        return ok

    def _ledger_keys(self, p: dict[str, Json]) -> bool:
        """TRU-5: once named they are always named, and one of them stays."""
        before, keys = self.policy.get("ledger_keys", []) if self.policy else [], p.get("ledger_keys", [])
        if not keys:
            return not before
        try:
            found = ledger_keys(keys, p["aud"])
        except Broken:
            return False
        return not before or any(key in before for key in found)

    def _agent(self, e: Logged, signer: dict[str, Any]) -> str:
        """Takes an agent entry up; returns the problem type if it is refused, else an empty text."""
        a, keyid = e.body, keyid_of(parse_public_key(strict_base64(e.body["key"])))
        known = self.agents.get(a["principal"])
        raised = self.raised(a["principal"]) or a["principal"] in [x["principal"] for x in self.policy["authority"]]
        if raised and not signer["authority"]:
            return "unauthorized-role"
        if known and known["span"] != a["span"]:
            return "state-conflict"
        key = self.keys.get(keyid)
        if a["op"] == "revoke":
            since = a.get("compromised_since", {}).get("index")
            if not key:
                return "unknown-subject"
            if not key["roles"] or key["principal"] != a["principal"] or key["revoked"] is not None or since is not None and since > e.index:
                return "state-conflict"
            key["revoked"], key["compromised"] = e.index, since
            return ""
        counts = [k for k in known["keys"] if self.keys[k]["revoked"] is None] if known else []
        if key:
            return "state-conflict"
        if a["op"] == "rotate" and not counts:
            return "unknown-subject"
        if a["op"] == "rotate":
            for k in counts:
                self.keys[k]["revoked"] = e.index
        known = self.agents.setdefault(a["principal"], {"span": a["span"], "keys": []})
        known["keys"].append(keyid)
        known["domain"] = a["domain"]
        self.keys[keyid] = {"key": parse_public_key(strict_base64(a["key"])), "principal": a["principal"], "roles": a["roles"],
                            "enrolled": e.index, "revoked": None, "compromised": None, "authority": False}
        return ""
