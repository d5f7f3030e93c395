#!/usr/bin/env python3
"""Computes the rollback sets of the vectors in testdata/vectors/scope, by scope/1.

    scope.py [vectors/scope]

It was written from the text of the Internet-Draft alone (README.md). Its sections are those of the
rendered text. Ends with the number of sets computed, and fails if one differs.
"""

import base64
import hashlib
import json
import pathlib
import sys

FINAL = ("confirmed", "failed", "cancelled")
UNDONE = ("restored", "compensated", "not_executed")
OPEN = ("R", "C", "E", "A")


class Execution:
    """Section 4.8: one execution, named iss#exec, with the progress entries of the log so far."""

    def __init__(self, index, payload, leaf_hash, at):
        self.agent = payload["iss"]
        self.ref = payload["iss"] + "#" + payload["exec"]
        self.wid = payload["wid"]
        self.effect = payload["effect"]
        self.hard = [p["exec"] for p in payload.get("parents", []) if p["dep"] == "hard"]
        self.parents = [p["exec"] for p in payload.get("parents", [])]
        self.compensation = "compensates" in payload
        self.index, self.leaf_hash, self.at = index, leaf_hash, at
        self.entries = [(index, payload["progress"])]

    @property
    def progress(self):
        return self.entries[-1][1]

    def past_planned(self):
        """Some entry is beyond planned, cancelled too."""
        return self.progress != "planned"

    def began(self):
        """SCO-2: index of the started entry, otherwise of the first entry after planned."""
        for wanted in (lambda p: p == "started", lambda p: p != "planned"):
            for index, progress in self.entries:
                if wanted(progress):
                    return index
        return None

    def final(self):
        """Index of the entry by which the execution ended, or None."""
        for index, progress in self.entries:
            if progress in FINAL:
                return index
        return None


class Incident:
    """Section 5: state, signals, and what the decisions so far name."""

    def __init__(self, opening):
        self.opening, self.state = opening, "R"
        self.signals = []        # indexes, ascending
        self.proposals = {}      # index of an escalate -> set
        self.named = {}          # set of the newest escalate: ref -> member
        self.fenced = set()      # by contain or escalate
        self.plan = {}           # set of the authorize or amend in force: ref -> member
        self.since_plan = {}     # ref -> index of the decision that first had it in the plan
        self.outcomes = {}       # ref -> (index, result) of the newest outcome


class Fold:
    """Section 3.1: the state as a function of the log's prefix."""

    def __init__(self):
        self.n = 0
        self.policies, self.spans = [], {}
        self.executions, self.children = {}, {}
        self.checkpoints = []    # (index, payload)
        self.signals = {}        # index -> (payload, registered_at)
        self.incidents = {}
        self.restore_points = {}  # ref of a checkpoint -> index

    # -- entries ---------------------------------------------------------

    def add(self, entry):
        """Take the next entry; the ledger has admitted it, so nothing is checked."""
        index, payload, kind = self.n, entry["payload"], entry["kind"]
        if kind == "policy":
            self.policies.append(payload)
        elif kind == "agent" and payload["op"] != "revoke":
            self.spans[payload["principal"]] = payload["span"]
        elif kind == "execution":
            self.add_execution(index, payload, entry)
        elif kind == "checkpoint":
            self.checkpoints.append((index, payload))
            self.restore_points.setdefault(payload["iss"] + "#" + payload["checkpoint"], index)
        elif kind == "signal":
            self.add_signal(index, payload, entry["registered_at"])
        elif kind == "decision":
            self.add_decision(index, payload, entry["registered_at"])
        elif kind == "outcome":
            incident = self.incidents.get(payload["incident"])
            if incident:
                incident.outcomes[payload["exec"]] = (index, payload["result"])
        elif kind == "record":
            incident = self.incidents.get(payload["incident"])
            if incident:
                incident.state = "T"
        self.n += 1

    def add_execution(self, index, payload, entry):
        """EXE-1: a later entry advances progress, and changes nothing else."""
        ref = payload["iss"] + "#" + payload["exec"]
        if ref in self.executions:
            self.executions[ref].entries.append((index, payload["progress"]))
            return
        x = Execution(index, payload, entry["leaf_hash"], entry["registered_at"])
        self.executions[ref] = x
        for parent in x.hard:
            self.children.setdefault(parent, []).append(ref)

    def add_signal(self, index, payload, at):
        """Section 5.1: a signal joins the lowest open incident that has its subject as a
        subject or member, otherwise it opens one."""
        self.signals[index] = (payload, at)
        subject = payload["subject"]
        for opening in sorted(self.incidents):
            incident = self.incidents[opening]
            if incident.state in OPEN and (
                    subject in incident.named or subject in incident.plan or subject in incident.fenced
                    or any(self.signals[s][0]["subject"] == subject for s in incident.signals)):
                incident.signals.append(index)
                return
        self.incidents[index] = Incident(index)
        self.incidents[index].signals.append(index)

    def add_decision(self, index, payload, at):
        """Table 1, and the sets that decisions name."""
        incident, act = self.incidents.get(payload["incident"]), payload["act"]
        if incident is None:
            return
        if act == "deny":
            if incident.state in ("R", "C", "E"):
                incident.state = "D"
            return
        if act not in ("contain", "escalate", "authorize", "amend"):
            return
        members = self.decided(incident, payload, at)
        if act == "contain":
            incident.state, incident.fenced = "C", self.fence(incident, payload, members, at)
        elif act == "escalate":
            incident.proposals[index] = incident.named = members
            if "not_fenced" not in payload:
                incident.fenced = self.fence(incident, payload, members, at)
            if incident.state != "A":
                incident.state = "E"
        else:
            incident.state, incident.plan, incident.named, incident.fenced = "A", members, {}, set()
            for ref in members:
                incident.since_plan.setdefault(ref, index)

    def decided(self, incident, payload, at):
        """SCO-5: the set of a decision.  An approved proposal is carried out as it was
        approved, with its own pin; an amend is joined with the plan in force."""
        if payload["act"] in ("authorize", "amend") and payload.get("approvals"):
            for proposal in sorted(incident.proposals, reverse=True):
                if proposal >= payload["pin"]["size"]:
                    return incident.proposals[proposal]
        dismissed = [d["index"] for d in payload.get("dismissed", [])]
        also = self.meeting(incident, payload["pin"]["size"], at) if incident.state == "A" else []
        members = self.closure(incident.opening, dismissed, payload["pin"]["size"], at, also)
        joined = {m["exec"]: m for m in members}
        if incident.state == "A":
            for ref, member in incident.plan.items():
                joined.setdefault(ref, member)
        return joined

    def meeting(self, incident, pin, at):
        """SCO-3: the oldest open incidents, neither in force nor merged, whose sets meet the plan."""
        met = []
        for opening, other in sorted(self.incidents.items()):
            if (other is not incident and other.state in ("R", "C", "E") and opening < pin
                    and incident.plan.keys() & {m["exec"] for m in self.closure(opening, [], pin, at)}):
                met.append(opening)
        return met[:64]

    def early(self, signal):
        """INC-2: whether the edge to the subject was logged before the subject's final entry."""
        subject = self.executions[signal["subject"]]
        uses = [x.index for x in self.executions.values()
                if x.agent == signal["iss"] and subject.ref in x.parents]
        return signal["standing"] == "upstream" or (
            bool(uses) and (subject.final() is None or min(uses) < subject.final()))

    def fence(self, incident, payload, members, at):
        """INC-4f: what a contain or a proposal fences of its set."""
        dismissed = {d["index"] for d in payload.get("dismissed", [])}
        about = {}
        for index in incident.signals:
            if index < payload["pin"]["size"] and index not in dismissed:
                about.setdefault(self.signals[index][0]["subject"], []).append(index)
        neighbors = ("upstream", "downstream")

        def weak(subject):
            signals = [self.signals[i][0] for i in about[subject]]
            early = {s["iss"] for s in signals if self.early(s)}
            return (all(s["standing"] in neighbors for s in signals)
                    and len(early) < self.policies[-1]["quorum"]["signalers"])

        fenced, edges = set(), set()
        strong = [i for subject, signals in about.items() if not weak(subject) for i in signals]
        if strong:
            others = dismissed | {i for i in incident.signals if i not in strong}
            fenced = {m["exec"] for m in self.closure(incident.opening, others, payload["pin"]["size"], at)}
        if strong and all(subject in fenced for subject in about):
            return set(members)
        for subject in filter(weak, about):
            edges.add(subject)
            for i in about[subject]:
                signal = self.signals[i][0]
                if signal["standing"] == "downstream":
                    edges |= {x.ref for x in self.executions.values()
                              if x.agent == signal["iss"] and subject in x.parents}
        return fenced | (edges & set(members))

    # -- what other incidents have undone ----------------------------------

    def undone(self, but):
        """ref -> [(index of the outcome, result, restore point)] of members that an incident
        other than but has undone.  A member of method none without an outcome is undone by the
        decision, or by its final entry if it was in flight."""
        result = {}
        for opening, incident in self.incidents.items():
            if opening == but:
                continue
            for ref, member in incident.plan.items():
                final = self.executions[ref].final()
                if member["method"] == "none" and final is not None and ref not in incident.outcomes:
                    undo = max(incident.since_plan[ref], final)
                    result.setdefault(ref, []).append((undo, "none", None))
            for ref, (index, word) in incident.outcomes.items():
                if word in UNDONE:
                    checkpoint = incident.plan.get(ref, {}).get("checkpoint")
                    point = self.restore_points.get(checkpoint)
                    result.setdefault(ref, []).append((index, word, point))
        return result

    # -- lines and checkpoints -----------------------------------------------

    def line_of(self, agent, wid):
        """Section 2: the line of an agent in a workflow, or of the agent if its span is agent."""
        return (agent, None if self.spans.get(agent) == "agent" else wid)

    def line(self, key, undone):
        """The executions of a line: no compensation, and none that was undone."""
        return [x for x in self.executions.values()
                if self.line_of(x.agent, x.wid) == key
                and not x.compensation and x.ref not in undone]

    def voided(self, key, all_undone):
        """SCO-2: the ranges (exclusive) of the log in which checkpoints of a line are void."""
        ranges = []
        for ref, undos in all_undone.items():
            x = self.executions.get(ref)
            if x is None or self.line_of(x.agent, x.wid) != key:
                continue
            for index, word, point in undos:
                ranges.append((x.index, index))
                if word == "restored" and point is not None:
                    ranges.append((point, index))
        return ranges

    def usable(self, key, now):
        """SCO-2: the usable checkpoints of a line, the newest first."""
        limit = now + self.policies[-1]["windows"]["deadline_max_ms"]
        void = self.voided(key, self.undone(None))
        result = []
        for index, payload in reversed(self.checkpoints):
            if self.line_of(payload["iss"], payload["wid"]) != key:
                continue
            expires = payload.get("expires_at", 0)
            if expires != 0 and expires <= limit:
                continue
            if any(low < index < high for low, high in void):
                continue
            result.append((index, payload))
        return result

    # -- the rules -------------------------------------------------------------

    def no_effect(self, x):
        """Failed, with effects none in the newest signal of its executor."""
        if x.progress != "failed":
            return False
        own = [self.signals[i][0] for i in sorted(self.signals)
               if self.signals[i][0]["subject"] == x.ref
               and self.signals[i][0]["standing"] == "executor"]
        return bool(own) and own[-1]["effects"] == "none"

    def takes_line_back(self, x):
        """SCO-2, first sentence."""
        return (x.effect == "reversible" and x.past_planned()
                and x.progress != "cancelled" and not self.no_effect(x))

    def since_range(self, signal, at):
        """SCO-3: the executions from since to the subject, where since counts."""
        if "since" not in signal:
            return []
        standing = signal["standing"]
        if standing != "executor" and not (
                standing in ("monitor", "operator") and signal.get("evidence")):
            return []
        subject = self.executions.get(signal["subject"])
        first = self.executions.get(signal["since"])
        if subject is None or first is None:
            return []
        if (first.agent, first.wid) != (subject.agent, subject.wid):
            return []
        if at - first.at > self.policies[-1]["windows"]["since_max_ms"]:
            return []
        return [x.ref for x in self.executions.values()
                if (x.agent, x.wid) == (subject.agent, subject.wid) and not x.compensation
                and first.index <= x.index <= subject.index]

    def seeds(self, opening, dismissed, pin):
        """SCO-3: the subjects, with since ranges, of the incident's signals before the pin
        that the decision does not dismiss."""
        result = []
        for index in self.incidents[opening].signals:
            if index >= pin or index in dismissed:
                continue
            signal, at = self.signals[index]
            for ref in [signal["subject"]] + self.since_range(signal, at):
                if ref in self.executions and ref not in result:
                    result.append(ref)
        return result

    def restore_point(self, members, checkpoints):
        """SCO-2: the newest usable checkpoint below the beginning of every member of the
        line that is past planned."""
        limit = min(x.began() for x in members if x.past_planned())
        for index, payload in checkpoints:
            if index < limit:
                return index, payload
        return None

    def goes_with(self, line, point):
        """SCO-2: the executions of a line that are in R when it goes back to point."""
        if point is None:
            return list(line)
        after = point[1].get("after")
        covered = -1
        if after is not None and after in self.executions:
            covered = self.executions[after].final()
            covered = -1 if covered is None else covered
        return [x for x in line if x.past_planned() and x.progress != "cancelled"
                and not (x.final() is not None and x.final() <= covered)]

    def closure(self, opening, dismissed, pin, now, also=()):
        """SCO-0, Section 6.4.3: the members of the least set that contains the seeds and is
        closed under SCO-1 and SCO-2."""
        undone = self.undone(opening)
        in_set, work = set(), []
        lines, checkpoints, points = {}, {}, {}

        def put(ref):
            if ref not in in_set:
                in_set.add(ref)
                work.append(ref)

        for one in (opening, *also):
            for ref in self.seeds(one, dismissed, pin):
                put(ref)
        while work:
            x = self.executions[work.pop()]
            for ref in self.children.get(x.ref, []):            # SCO-1
                put(ref)
            if x.ref in undone or x.compensation:
                continue
            key = self.line_of(x.agent, x.wid)
            if key not in points and not self.takes_line_back(x):
                continue
            if key not in lines:                                 # SCO-2
                lines[key] = self.line(key, undone)
                checkpoints[key] = self.usable(key, now)
            members = [y for y in lines[key] if y.ref in in_set]
            points[key] = self.restore_point(members, checkpoints[key])
            for y in self.goes_with(lines[key], points[key]):
                put(y.ref)
        chosen = [self.executions[ref] for ref in in_set if ref not in undone]
        chosen.sort(key=lambda x: -x.index)
        return [self.member(x, points) for x in chosen]

    def method(self, x, point):
        """SCO-4, Table 2, without the drain."""
        if x.progress == "planned":
            return "cancel"
        if x.progress == "cancelled" or x.effect == "none" or self.no_effect(x):
            return "none"
        if x.effect == "compensable":
            return "compensate"
        if x.effect == "reversible" and point is not None:
            return "restore"
        return "residual"

    def member(self, x, points):
        """Section 6.4.3, step 6: the form in which a member is committed to."""
        point = points.get(self.line_of(x.agent, x.wid))
        result = {"agent": x.agent, "exec": x.ref, "index": x.index,
                  "leaf_hash": x.leaf_hash, "method": self.method(x, point)}
        if result["method"] == "restore":
            result["checkpoint"] = point[1]["iss"] + "#" + point[1]["checkpoint"]
        return dict(sorted(result.items()))


# -- commitment ---------------------------------------------------------------

def jcs(value):
    """RFC 8785, for objects of ASCII strings and small integers."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def tree_hash(leaves):
    """RFC 6962, Section 2.1."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    return hashlib.sha256(b"\1" + tree_hash(leaves[:k]) + tree_hash(leaves[k:])).digest()


def commitment(members):
    """Section 6.4.3, step 6: size and root over the members."""
    root = tree_hash([jcs(m) for m in members])
    return {"size": len(members), "root": base64.b64encode(root).decode(), "members": members}


def rollback_set(case):
    """The set that a decision about the incident at the end of the log has to name."""
    fold = Fold()
    for entry in case["log"]:
        fold.add(entry)
    if case["incident"] not in fold.incidents:
        raise ValueError("the fold has no incident %d" % case["incident"])
    members = fold.closure(case["incident"], set(case["dismissed"]), fold.n, case["now"])
    return commitment(members)


def main():
    here = pathlib.Path(__file__).resolve().parents[1] / "vectors/scope"
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here
    files = sorted(folder.glob("*.json"))
    wrong = 0
    for file in files:
        v = json.loads(file.read_text(encoding="utf-8"))
        got = rollback_set(v["case"])
        if got != v["want"]:
            wrong += 1
            print(f"{file.name}: {v['desc']}: got {got}, want {v['want']}")
    print(f"{len(files)} rollback sets computed, {wrong} wrong")
    return 1 if wrong or not files else 0


if __name__ == "__main__":
    sys.exit(main())
