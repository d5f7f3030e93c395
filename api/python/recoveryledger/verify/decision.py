"""What a bundle proves of its decision (docs/md: AGT-1, AGT-2, ABS-1 to ABS-4)."""

from __future__ import annotations

from typing import Callable

from .chain import CHAIN_KINDS, Chain
from .entries import Logged
from .notes import follow, open_head, quorum_time
from .schemas import Schemas
from .strict import Broken, Forks, Json, found, Refused, ascends, compact, need, strict_base64
from .subjects import NOTHING, check_prefix, check_runs, listings, prefix_answer
from .tree import check_consistency, hash_leaf, included, text, tree_head

SKEW_MS = 300_000


class Decision:
    """One check of one bundle, as far as its decision. A rule that does not hold is a Broken."""

    decided: Logged
    d: dict[str, Json]  # of the decision
    chain: Chain
    then: Chain  # as of the decision
    by_index: dict[int, Logged]
    links: dict[int, Logged]
    list: list[Logged]
    signals: dict[int, Logged]
    epochs: dict[int, dict[str, int]]
    index: Logged | None
    lists: dict[tuple[str, str], dict[str, Json]]

    def __init__(self, schemas: Schemas, accepted: dict[str, Json], now: int, bundle: dict[str, Json]) -> None:
        self.schemas, self.accepted, self.now, self.b = schemas, accepted, now, bundle
        self.root: dict[str, Json] = accepted["root"]
        self.confirmed: bool = accepted["confirmed"]
        self.used: set[int] = set()
        self.proven = False  # the entries are in the log of the head
        self.learned: dict[str, Json] | None = None  # what is accepted, once chain and signatures hold
        self.has_decision = "decision" in bundle
        self.decision_index: int = bundle.get("decision", 0)

    # AGT-1

    def head(self) -> None:
        self.size, self.digest, self.note = open_head(self.root, self.b["head"])
        path = [strict_base64(h) for h in self.b["consistency"]]
        if not self.accepted["head"]:
            need(self.b["from"] == 0 and not path, "AGT-1")
        else:
            size, digest, _ = open_head(self.root, self.accepted["head"])
            heads = (self.accepted["head"], self.note)
            if self.size == size and self.digest != digest:
                raise Forks(heads, proven=True)
            need(self.size >= size and self.b["from"] == size, "AGT-1")
            try:
                check_consistency(size, self.size, digest, self.digest, path)
            except Refused:
                raise Forks(heads, proven=False) from None
        self.witnessed = False
        policy: Json = None
        for link in self.accepted["links"]:
            e = Logged(self.schemas, link["index"], link["leaf"])
            policy = e.body if e.kind == "policy" else policy
        first = self.b["entries"][:1]
        if policy is None and first and text(hash_leaf(compact(first[0]["leaf"]).encode())) == self.root["genesis"]:
            try:
                policy = Logged(self.schemas, 0, first[0]["leaf"]).body
            except Refused:  # no entry is pinned
                raise Broken("AGT-1") from None
        self.waived: str | None = None
        try:
            self.witnesses(policy)
        except Broken:  # WIT-6
            policy = found(policy, "AGT-1")
            need(not self.root.get("witnesses"), "AGT-1")
            self.witnesses(policy, emergency=True)
            self.waived = policy["witnesses"]

    def witnesses(self, policy: Json, emergency: bool = False) -> None:
        text = self.root.get("witnesses") or (policy or {}).get("witnesses")
        if not text:
            return
        at = quorum_time(text, self.note, (self.now + SKEW_MS) // 1000, emergency)
        if at == 0:
            return
        need(policy and at is not None and self.now - at * 1000 <= policy["windows"]["bundle_max_age_ms"], "AGT-1")
        self.witnessed = True

    def entries(self) -> None:
        try:
            self.list = [Logged(self.schemas, e["index"], e["leaf"]) for e in self.b["entries"]]
        except Refused:
            raise Broken("AGT-1") from None
        need(all(a.at <= b.at for a, b in zip(self.list, self.list[1:])), "AGT-1")
        self.by_index = {e.index: e for e in self.list}
        proof = [strict_base64(h) for h in self.b["inclusion"]]
        need(included({e.index: e.hash for e in self.list}, self.size, self.digest, proof), "AGT-1")
        self.proven = True

    # AGT-2

    def find_decision(self) -> None:
        self.decided = found(self.by_index.get(self.decision_index), "AGT-2")
        need(self.decided.kind == "decision" and self.decided.body["act"] in ("authorize", "amend"), "AGT-2")
        self.d = self.decided.body

    def rights(self) -> None:
        self.chain = self.then = Chain()
        known = {link["index"]: Logged(self.schemas, link["index"], link["leaf"]) for link in self.accepted["links"]}
        self.links = known
        for e in known.values():
            e.trusted = True
        for index in sorted(known.keys() | self.by_index.keys()):
            if index in known and index in self.by_index:
                need(known[index].hash == self.by_index[index].hash, "AGT-2", "TRU-3")
                self.by_index[index].trusted = True
            e = self.by_index.get(index) or known[index]
            need(index != 0 or text(e.hash) == self.root["genesis"], "AGT-2", "TRU-1")
            signer = {"authority": True} if e.trusted else self.chain.signer(e)
            need(e.trusted or e.signed_by(signer), "AGT-2", "TRU-2")
            if index == self.decision_index:
                self.then = self.chain.copy()
            if e.kind in CHAIN_KINDS:
                self.used.add(index)
                self.chain.apply(e, signer)
        need(self.waived is None or self.chain.policy.get("witnesses") != self.waived, "AGT-1")
        self.witnesses(self.chain.policy)
        self.confirmed = self.confirmed or self.witnessed
        before, self.root = self.root, follow(self.root, self.chain.policies)
        if before == self.root:
            return
        try:
            open_head(self.root, self.b["head"])
        except Broken:
            raise Broken("AGT-2 TRU-5") from None

    def void(self, e: Logged) -> bool:
        compromised = self.chain.keys[e.keyid]["compromised"]
        return compromised is not None and compromised <= e.index

    def learn(self) -> None:
        """Takes up the epochs of decisions."""
        self.epochs = {e["incident"]: dict(e) for e in self.accepted["epochs"]}
        for e in self.list:
            if e.kind != "decision" or self.void(e):
                continue
            if self.has_decision and e.body["incident"] != self.d["incident"]:
                continue
            self.used.add(e.index)
            incident = e.body["incident"]
            self.epochs[incident] = self.raised(self.epochs.get(incident, {"incident": incident, "epoch": 0}), e.body)
        leaves = {index: (self.links.get(index) or self.by_index[index]).leaf for index in self.chain.links}
        self.learned = {
            "root": self.root, "agent": self.accepted["agent"], "head": self.b["head"], "confirmed": self.confirmed,
            "links": [{"index": index, "leaf": leaf} for index, leaf in leaves.items()],
            "epochs": [e for _, e in sorted(self.epochs.items())],
        }

    @staticmethod
    def raised(known: dict[str, int], d: dict[str, Json]) -> dict[str, int]:
        """The epochs of an incident behind a decision: those of a proposal end with its exp."""
        epoch, lapses = known["epoch"], known.get("lapses", 0)
        settled = known.get("settled", 0) if lapses else epoch
        if d["act"] != "escalate":
            settled = max(settled, d["epoch"])
            if settled >= epoch:
                epoch, lapses = settled, 0
        elif d["epoch"] > epoch:
            epoch, lapses = d["epoch"], d["exp"]
        new = {"incident": known["incident"], "epoch": epoch}
        if lapses:
            new |= ({"settled": settled} if settled else {}) | {"lapses": lapses}
        return new

    def highest(self, incident: int) -> int:
        e = self.epochs[incident]
        return e.get("settled", 0) if e.get("lapses") and e["lapses"] * 1000 <= self.now else e["epoch"]

    def policy_before(self, index: int) -> Json:
        return next((p for i, p in reversed(self.chain.policies) if i < index), None)

    def decision_rules(self) -> None:
        d, at = self.d, self.decided.at
        self.find_index()
        need(d["policy"] == self.then.in_force, "AGT-2", "TRU-3")
        need(not self.void(self.decided), "AGT-2", "TRU-4")
        opening, current = self.policy_before(d["incident"]), self.policy_before(self.decision_index)
        need(opening and d["incident"] < self.decision_index, "AGT-2", "INC-3")
        self.pair = (opening, current)
        self.deadline_max = self.law(min, "windows", "deadline_max_ms")
        need(d["exp"] * 1000 > self.now and d["deadline_at"] > self.now, "AGT-2")
        need(d["exp"] * 1000 <= d["deadline_at"] <= at + self.deadline_max, "AGT-2", "INC-7")
        self.rests_on()
        self.supersedes()
        need(d["impact"]["members"] == d["rollback_set"]["size"], "AGT-2", "SCO-5")
        self.approved() if d.get("approvals") else self.automatic()
        need(d["epoch"] >= self.highest(d["incident"]) if not self.void(self.decided) else True, "AGT-2")
        self.nothing_left_out()

    # ABS-1 to ABS-4

    def find_index(self) -> None:
        self.index, self.tail = None, 2**64
        if "index" not in self.b:
            return
        e = found(self.by_index.get(self.b["index"]), "AGT-2", "ABS-1")
        need(e.kind == "index" and e.body["algorithm"] == "index/1", "AGT-2", "ABS-1")
        need(self.decision_index < e.body["size"] <= e.index and not self.void(e), "AGT-2", "ABS-1")
        self.index, self.tail = e, e.body["size"]
        self.used.add(e.index)

    def nothing_left_out(self) -> None:
        if self.index is None:
            need(not self.chain.policy.get("index", {}).get("required"), "AGT-2", "ABS-1")
            return
        try:
            self.check_lists()
        except Refused:
            raise Broken("AGT-2 ABS-1") from None
        for index in range(self.tail, self.size):
            need(index in self.by_index, "AGT-2", "ABS-1")
            self.used.add(index)
        incident = ("incident", str(self.d["incident"]))
        self.answered(incident, ["decision/authorize", "decision/amend", "decision/override", "decision/escalate", "record"], "ABS-2")
        rest = [e for e in self.list if e.kind in ("decision", "approval", "signal", "index") and e.index in self.used]
        signers = {e.body["iss"] for e in rest if e.index <= self.decision_index or e is self.index}
        for name in sorted(signers):
            self.answered(("agent", name), ["agent/revoke", "agent/revoke<", "agent/rotate", "agent/rotate<"], "ABS-3")
        self.answered(("log", ""), ["policy"], "ABS-4")
        need(self.lists.keys() <= {incident, ("log", "")} | {("agent", name) for name in signers}, "AGT-2", "ABS-1")

    def check_lists(self) -> None:
        """Proves the lists by the root of the index, and keeps them by subject."""
        self.lists = {(s["type"], s["value"]): s for s in self.b["subjects"]}
        proof = [strict_base64(h) or NOTHING for h in self.b.get("prefix", [])]
        index = found(self.index, "AGT-2", "ABS-1")
        check_prefix([prefix_answer(s) for s in self.b["subjects"]], strict_base64(index.body["root"]), proof)
        for s in self.b["subjects"]:
            check_runs(s, self.tail)

    def answered(self, subject: tuple[str, str], labels: list[str], rule: str) -> None:
        """Everything under a subject with one of the labels is known."""
        need(subject in self.lists, "AGT-2", rule)
        s = self.lists[subject]
        shown = {run["label"]: run for run in s.get("lists", [])}
        for label in labels:
            want = [e.index for e in self.list if e.index >= self.tail and self.is_under(e, subject, label)]
            if any(row["label"] == label for row in s.get("rows", [])):
                run = found(shown.get(label), "AGT-2", rule)
                count = next(row["count"] for row in s["rows"] if row["label"] == label)
                need(run["from"] == 0 and len(run["indexes"]) == count, "AGT-2", rule)
                want += run["indexes"]
            for index in want:
                e = found(self.by_index.get(index) or self.links.get(index), "AGT-2", rule)
                need(self.is_under(e, subject, label), "AGT-2", rule)
                self.used.add(index)

    def is_under(self, e: Logged, subject: tuple[str, str], label: str) -> bool:
        return {"type": subject[0], "value": subject[1], "label": label} in listings(e.kind, e.body, e.index)

    def law(self, which: Callable[[list[int]], int], *path: str) -> int:
        values = list(self.pair)
        for name in path:
            values = [v[name] for v in values]
        return which(values)

    def rests_on(self) -> None:
        d = self.d
        self.signals = {e.index: e for e in self.list if e.kind == "signal" and e.index < self.tail}
        self.used |= self.signals.keys()
        need(all(index < d["pin"]["size"] for index in self.signals), "AGT-2", "SCO-3")
        hashes = [e.hash for e in self.signals.values()]
        need(d["signals"] == {"size": len(hashes), "root": text(tree_head(hashes))}, "AGT-2", "SCO-3")
        need(d["incident"] in self.signals, "AGT-2", "SCO-3")
        need(self.signals[d["incident"]].body["wid"] == d["wid"], "AGT-2")
        need(d["pin"]["size"] <= self.decision_index, "AGT-2", "SCO-5")
        dismissed = [u["index"] for u in d["dismissed"]]
        need(ascends(dismissed) and all(index in self.signals for index in dismissed), "AGT-2", "SCO-3")

    def supersedes(self) -> None:
        d = self.d
        if d["act"] == "authorize":
            need("supersedes" not in d, "AGT-2", "INC-6")
        else:
            need("supersedes" in d and d["incident"] < d["supersedes"]["index"] < self.decision_index, "AGT-2", "SCO-5")
        need(all(earlier["epoch"] < d["epoch"] for earlier in self.amended()), "AGT-2", "INC-7")

    def amended(self) -> list[dict[str, Json]]:
        """The decisions that led to this one, as far as they are shown."""
        found, d, index = [], self.d, self.decision_index
        while "supersedes" in d:
            e = self.by_index.get(d["supersedes"]["index"])
            if not e or e.ref() != d["supersedes"] or e.index >= index or e.kind != "decision":
                break
            if e.body["incident"] != d["incident"] or e.body["act"] not in ("authorize", "amend"):
                break
            if e.body.get("supersedes", {"index": -1})["index"] >= e.index:
                break
            d, index = e.body, e.index
            found.append(d)
        return found

    def approved(self) -> None:
        d, rule = self.d, ("AGT-2", "INC-5")
        first = found(self.by_index.get(d["approvals"][0]), *rule)
        need(first.kind == "approval", *rule)
        proposal = found(self.by_index.get(first.body["proposal"]["index"]), *rule)
        need(proposal.kind == "decision" and proposal.body["act"] == "escalate", *rule)
        need(proposal.ref() == first.body["proposal"] and proposal.index < self.decision_index, *rule)
        p = proposal.body
        need(all(p[name] == d[name] for name in ("incident", "pin", "signals", "rollback_set")), *rule)
        need([u["index"] for u in p["dismissed"]] == [u["index"] for u in d["dismissed"]], *rule)
        need(p["epoch"] + (d["act"] == "amend") == d["epoch"] and p["exp"] * 1000 > self.decided.at, *rule)
        voided_before = self.void(proposal) and self.chain.keys[proposal.keyid]["revoked"] < self.decided.index
        need(not voided_before, *rule)
        self.used.add(proposal.index)
        seen = set()
        for index in d["approvals"]:
            e = found(self.by_index.get(index), *rule)
            need(e.kind == "approval", *rule)
            self.used.add(index)
            a, key = e.body, found(self.then.keys.get(e.keyid), *rule)
            need(a["verdict"] == "approve" and a["incident"] == d["incident"] and a["proposal"] == proposal.ref(), *rule)
            need(proposal.index < index < self.decision_index and a["exp"] * 1000 > self.decided.at, *rule)
            need(key["revoked"] is None and "approver" in key["roles"] and key["enrolled"] < d["incident"], *rule)
            owners = [m["member"]["agent"] for m in self.b["members"]]
            need(a["iss"] not in [s.body["iss"] for s in self.signals.values()] + [p["iss"]] + owners, *rule)
            need(not {a["iss"], key["key"]} & seen, *rule)
            seen |= {a["iss"], key["key"]}
        need(len(d["approvals"]) >= self.law(max, "quorum", "approve"), *rule)

    def not_stopped(self) -> None:
        """OVR-3: what an override stopped, only approvals put in force again."""
        votes = set()
        for e in self.list:
            if e.kind != "decision" or e.index >= self.decision_index:
                continue
            if e.body["act"] != "override" or e.body["incident"] != self.d["incident"]:
                continue
            key = self.then.keys[e.keyid]
            need("operator" not in key["roles"], "AGT-2", "OVR-3")
            if not key["revoked"]:
                votes.add(e.body["iss"])
        need(len(votes) < self.law(max, "quorum", "override"), "AGT-2", "OVR-3")

    def automatic(self) -> None:
        self.not_stopped()
        impact, rule = self.d["impact"], ("AGT-2", "INC-2")
        need("coordinator" in self.then.keys[self.decided.keyid]["roles"], *rule)
        for name in ("members", "agents", "domains"):
            need(impact[name] <= self.law(min, "limits", "incident", name), *rule)
        need(impact["irrevocable"] + impact["undeclared"] == 0, *rule)
        quorum, alone, others, homes = self.law(max, "quorum", "signalers"), False, {}, {}
        for e in self.signals.values():
            s, standing = e.body, e.body["standing"]
            if e.index in [u["index"] for u in self.d["dismissed"]]:
                continue
            if standing == "executor" and s["subject"].split("#")[0] != s["iss"]:
                continue
            if standing in ("monitor", "operator") and not s.get("evidence"):
                continue
            alone = alone or standing not in ("upstream", "downstream")
            others.setdefault(s["subject"], set()).add(s["iss"])
            homes.setdefault(self.then.agents.get(s["iss"], {}).get("domain", ""), set()).add(s["iss"])
        need(alone or any(len(own) >= quorum for own in others.values()), *rule)
        if impact["domains"] > 1:
            homes = [domain for domain, own in homes.items() if len(own) >= quorum]
            need(len(homes) >= impact["domains"], *rule)
            agent = self.then.agents.get(self.b["agent"])
            need(agent is None or agent["domain"] in homes, *rule)
