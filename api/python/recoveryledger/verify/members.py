"""What a bundle proves of the members that an agent is to undo (docs/md: AGT-3)."""

from __future__ import annotations

from .decision import Decision
from .entries import Execution, Logged
from .strict import Broken, Json, Missing, found, canonical, need, strict_base64
from .tree import hash_leaf, included, text


class Check(Decision):
    """One check of one bundle. run returns the report, or raises a Broken with step and rule."""

    executions: dict[str, Execution]
    results: dict[str, Logged]
    refused: dict[str, str]
    points: dict[str, Logged]
    of: dict[str, Execution]
    steps: dict[int, dict[str, Json]]
    asked: set[str]
    certain: set[str]  # those that the rollback set and entries of the log refuse, whoever carried the bundle

    def run(self) -> dict[str, Json]:
        need(self.accepted["agent"] in ("", self.b["agent"]), "AGT-3")
        self.head()
        self.entries()
        self.confirmed = self.confirmed or self.witnessed
        if self.has_decision:
            self.find_decision()
        self.rights()
        need(all(e.body["aud"] == self.root["origin"] for e in self.list), "AGT-2")
        self.learn()
        if not self.has_decision:
            return self.report([])
        self.decision_rules()
        self.scope()
        self.outcomes()
        return self.report(self.members())

    # AGT-3

    def scope(self) -> None:
        members = self.b["members"]
        indexes = [m["member"]["index"] for m in members]
        need(all(a > b for a, b in zip(indexes, indexes[1:])), "AGT-3", "SCO-5")
        need(len({m["member"]["exec"] for m in members}) == len(members), "AGT-3", "SCO-5")
        leaves = {m["place"]: hash_leaf(canonical(m["member"]).encode()) for m in members}
        proof = [strict_base64(h) for h in self.b["membership"]]
        head = self.d["rollback_set"]
        need(included(leaves, head["size"], strict_base64(head["root"]), proof), "AGT-3", "SCO-5")
        need(any(m["member"]["agent"] == self.b["agent"] for m in members), "AGT-3")

    def outcomes(self) -> None:
        self.executions = {}
        for e in self.list:
            if e.kind != "execution":
                continue
            x = self.executions.setdefault(e.body["iss"] + "#" + e.body["exec"], Execution(e))
            need(all(e.body[name] == x.body[name] for name in ("wid", "effect", "parents")), "AGT-3", "EXE-1")
            if e.body["progress"] != "planned" and not x.started:
                x.started = e
            if e.body["progress"] in ("confirmed", "failed", "cancelled") and not x.final:
                x.final = e
        self.results, rule = {}, ("AGT-3", "INC-6")
        methods = {m["member"]["exec"]: m["member"]["method"] for m in self.b["members"]}
        for e in self.list:
            if e.kind != "outcome":
                continue
            o = e.body
            if e.index >= self.tail and (o["incident"] != self.d["incident"] or o["exec"] not in methods):
                continue
            need(o["incident"] == self.d["incident"] and o["exec"] in methods and o["exec"] not in self.results, *rule)
            need(o["iss"] == o["exec"].split("#")[0] or o["result"] == "unknown", *rule)
            by = o["decision"]
            need(by["index"] <= self.decision_index and by["index"] < e.index, *rule)
            need(by["index"] != self.decision_index or by == self.decided.ref(), *rule)
            need(by["index"] == self.decision_index or self.d["act"] == "amend", *rule)
            fit = {"restored": "restore", "compensated": "compensate", "irrevocable": "residual"}.get(o["result"])
            need(fit in (None, methods[o["exec"]]), *rule)
            self.results[o["exec"]] = e
            self.used.add(e.index)
        self.overridden(rule)

    def overridden(self, rule: tuple[str, str]) -> None:
        """What an override withheld before an amend, and what was opened since."""
        ours = [e for e in self.list if e.kind == "decision" and e.body["incident"] == self.d["incident"]]
        last = max((e.index for e in ours if e.body["act"] == "override" and e.index < self.decision_index), default=-1)
        for m in self.b["members"]:
            member = m["member"]
            asked = last >= 0 and member["agent"] == self.b["agent"] and member["method"] != "none"
            asked = asked and member["exec"] not in self.results
            need(asked == ("by" in m), *rule)
            if not asked:
                continue
            e = found(self.by_index.get(m["by"]), *rule)
            need(e in ours and member["index"] < e.index <= self.decision_index, *rule)
            if e.body["act"] == "override":
                self.results[member["exec"]] = e
            else:
                need(e.body["act"] in ("authorize", "amend") and e.index > last, *rule)
            self.used.add(e.index)

    def members(self) -> list[dict[str, Json]]:
        self.judge_steps()
        own = [m for m in self.b["members"] if m["member"]["agent"] == self.b["agent"]]
        self.refused, self.points, self.of, self.certain = {}, {}, {}, set()
        for m in own:
            name = m["member"]["exec"]
            need(name.split("#")[0] == self.b["agent"], "AGT-3")
            try:
                self.judge(m["member"])
            except Broken as why:
                self.refused[name] = str(why)
                if isinstance(why, Missing):
                    self.certain.discard(name)
        for m in own:
            self.judge_once(m["member"], own)
        if not self.d.get("approvals"):
            for m in own:
                if m["member"]["exec"] in self.refused:
                    continue
                direct = self.steps[m["member"]["index"]]["direct"]
                need(m["member"]["method"] != "residual" and (m["member"]["method"] != "compensate" or direct), "AGT-3", "INC-2")
        commands = self.commands(own)
        if not self.refused:
            self.placed()
        return commands

    def execution(self, index: int, rule: str) -> Execution:
        e = found(self.by_index.get(index), "AGT-3", rule)
        need(e.kind == "execution", "AGT-3", rule)
        x = self.executions[e.body["iss"] + "#" + e.body["exec"]]
        need(x.first is e and "compensates" not in e.body, "AGT-3", rule)
        self.use(x)
        return x

    def use(self, x: Execution) -> None:
        self.used |= {e.index for e in (x.first, x.started, x.final) if e}

    def same_line(self, a: dict[str, Json], b: dict[str, Json]) -> bool:
        return a["iss"] == b["iss"] and (a["wid"] == b["wid"] or self.chain.agents[a["iss"]]["span"] == "agent")

    def judge(self, m: dict[str, Json]) -> None:
        self.certain.add(m["exec"])  # until something else counts
        x = self.execution(m["index"], "AGT-3")
        need(text(x.first.hash) == m["leaf_hash"] and x.name == m["exec"], "AGT-3")
        self.of[m["exec"]] = x
        effect, method = x.body["effect"], m["method"]
        suits = {"none": True, "cancel": True, "restore": effect == "reversible", "compensate": effect == "compensable",
                 "residual": effect in ("reversible", "irrevocable", "undeclared")}
        need(suits.get(method, False), "AGT-3", "SCO-4")
        if method == "none" and effect != "none":
            found(x.final, "AGT-3", "SCO-4")
        if method == "none":
            need(effect == "none" or x.outcome() in ("failed", "cancelled"), "AGT-3", "SCO-4")
        if method == "cancel":
            need((x.started or x.first).body["progress"] not in ("started", "confirmed"), "AGT-3", "SCO-4")
        need((method == "restore") == ("checkpoint" in m), "AGT-3", "SCO-4")
        self.certain.remove(m["exec"])
        if method == "restore":
            self.restore(m, x)
        step = found(self.steps.get(m["index"]), "AGT-3")
        if step["broken"]:
            raise step["broken"]

    def restore(self, m: dict[str, Json], x: Execution) -> None:
        rule = ("AGT-3", "SCO-2")
        points = [e for e in self.list if e.kind == "checkpoint" and e.index < self.tail]
        point = found(next((e for e in points if e.body["iss"] + "#" + e.body["checkpoint"] == m["checkpoint"]), None), *rule)
        self.used.add(point.index)
        need(self.same_line(point.body, x.body), *rule)
        need(self.result(m["exec"]) or not 0 < point.body.get("expires_at", 0) <= self.now, *rule)
        need(point.index < x.begun("SCO-2"), *rule)
        need(not self.restored(m["exec"]) or self.results[m["exec"]].body["post_digest"] == point.body["digest"], *rule)
        self.points[m["exec"]] = point

    def result(self, name: str) -> str | None:
        return self.results[name].body.get("result", "withheld") if name in self.results else None

    def restored(self, name: str) -> bool:
        return self.result(name) == "restored"

    def judge_once(self, m: dict[str, Json], own: list[dict[str, Json]]) -> None:
        name = m["exec"]
        if m["method"] != "restore" or name in self.refused or self.restored(name):
            return
        point = self.points[name]
        for other in (o["member"] for o in own):
            x = self.of.get(other["exec"])
            if not x or self.restored(other["exec"]) or not self.same_line(x.body, self.of[name].body):
                continue
            step = self.steps.get(other["index"])
            try:
                ok = x.begun("") > point.index
            except Broken:
                ok = True
            if other["method"] == "restore" and other.get("checkpoint") != m["checkpoint"]:
                ok = False
            if step and step["rule"] == "SCO-2" and step.get("checkpoint", 0) != point.index:
                ok = False
            if not ok:
                self.refused[name] = "AGT-3 SCO-2"

    # The chains

    def judge_steps(self) -> None:
        self.steps = {s["exec"]: dict(s, state="new", broken=None, direct=False) for s in self.b["steps"]}
        for s in self.steps.values():
            self.judge_step(s)

    def judge_step(self, s: dict[str, Json]) -> None:
        if s["state"] == "new":
            s["state"] = "begun"
            try:
                self.step(s)
            except Broken as why:
                s["broken"] = why
            s["state"] = "done"

    def reached(self, index: int, rule: str) -> Execution:
        s = found(self.steps.get(index), "AGT-3", rule)
        self.judge_step(s)
        need(s["state"] == "done", "AGT-3", rule)
        if s["broken"]:
            raise s["broken"]
        return self.execution(index, rule)

    def step(self, s: dict[str, Json]) -> None:
        rule = s["rule"]
        x = self.execution(s["exec"], rule)
        if rule == "SCO-3":
            s["direct"] = True
            return self.seed(s["from"], x)
        origin = self.reached(s["from"], rule)
        if rule == "SCO-1":
            s["direct"] = self.steps[s["from"]]["direct"]
            edge = {"exec": origin.name, "dep": "hard"}
            need(edge in x.body["parents"] and origin.first.index < x.first.index, "AGT-3", rule)
            return None
        return self.line(s, origin, x)

    def seed(self, index: int, x: Execution) -> None:
        rule = ("AGT-3", "SCO-3")
        e = found(self.signals.get(index), *rule)
        believed = [self.d] + [a for a in self.amended() if index < a["pin"]["size"]]
        need(any(index not in [u["index"] for u in d["dismissed"]] for d in believed), *rule)
        s = e.body
        if s["subject"] in (x.name, x.body.get("task")):
            return
        need("since" in s, *rule)
        first, last = found(self.executions.get(s["since"]), *rule), found(self.executions.get(s["subject"]), *rule)
        self.use(first)
        self.use(last)
        third = s["standing"] in ("monitor", "operator") and s.get("evidence")
        need(third or s["standing"] == "executor" and s["iss"] == last.body["iss"], *rule)
        need(all(y.body[name] == last.body[name] for y in (first, x) for name in ("iss", "wid")), *rule)
        need(first.first.index <= x.first.index <= last.first.index, *rule)
        need(e.at - first.first.at <= self.policy_before(e.index)["windows"]["since_max_ms"], *rule)

    def line(self, s: dict[str, Json], origin: Execution, x: Execution) -> None:
        rule = ("AGT-3", "SCO-2")
        need(self.same_line(origin.body, x.body), *rule)
        by = self.reached(s["by"], "SCO-2") if "by" in s else origin
        takes = origin.body["effect"] == "reversible" and origin.outcome() != "cancelled"
        need("by" not in s or not takes, *rule)
        need(by.body["effect"] == "reversible" and by.outcome() != "cancelled" and self.same_line(by.body, x.body), *rule)
        by.begun("SCO-2")
        if "checkpoint" not in s:
            usable = self.decided.at + self.deadline_max
            before = origin.begun("SCO-2")
            for e in self.list:
                shown = e.kind == "checkpoint" and e.index < min(before, self.tail) and self.same_line(e.body, origin.body) and not self.went_back(e)
                need(not shown or 0 < e.body.get("expires_at", 0) <= usable, *rule)
            return
        point = found(self.by_index.get(s["checkpoint"]), *rule)
        need(point.kind == "checkpoint", *rule)
        self.used.add(point.index)
        need(self.same_line(point.body, x.body) and point.index < origin.begun("SCO-2"), *rule)
        begun = x.begun("SCO-2")
        need(x.outcome() != "cancelled", *rule)
        if begun > point.index or point.body["after"] is None or not x.final:
            return
        covered = found(self.executions.get(point.body["after"]), *rule)
        final = found(covered.final, *rule)
        self.use(covered)
        need(x.final.index > final.index, *rule)

    def went_back(self, e: Logged) -> bool:
        ref = e.body["iss"] + "#" + e.body["checkpoint"]
        return self.d["act"] == "amend" and (any(s.get("checkpoint") == e.index for s in self.b["steps"])
                                                    or any(m["member"].get("checkpoint") == ref for m in self.b["members"]))

    # Commands

    def commands(self, own: list[dict[str, Json]]) -> list[dict[str, Json]]:
        by_place = {m["place"]: m["member"] for m in self.b["members"]}
        self.asked, commands = set(), []
        for m in self.b["members"]:
            member, waits = m["member"], []
            mine = member["agent"] == self.b["agent"]
            if m.get("after"):
                need(mine and member["method"] == "compensate", "AGT-3", "INC-7")
            for place in m.get("after", []):
                other = found(by_place.get(place), "AGT-3", "INC-7")
                need(other["method"] == "compensate", "AGT-3", "INC-7")
                self.asked.add(other["exec"])
                if other["exec"] not in self.results:
                    waits.append(other["exec"])
            if not mine:
                continue
            command = {"exec": member["exec"], "method": member["method"], "released": False}
            if member["exec"] in self.results:
                command["result"] = self.result(member["exec"])
            if member["exec"] in self.refused:
                command["refused"] = self.refused[member["exec"]]
                commands.append(command)
                continue
            mates = self.mates(member, own)
            if member["method"] == "restore":
                command["digest"] = self.points[member["exec"]].body["digest"]
                waits += [o["exec"] for o in mates if o["method"] == "compensate" and o["exec"] not in self.results]
            if waits:
                command["waits"] = waits
            command["released"] = not waits
            standing = [o["exec"] for o in reversed(mates) if self.stands(o)]
            if member["method"] == "restore" and not waits and standing:
                command["standing"] = standing
            commands.append(command)
        return commands

    def mates(self, member: dict[str, Json], own: list[dict[str, Json]]) -> list[dict[str, Json]]:
        line = self.of[member["exec"]].body
        others = [o["member"] for o in own if o["member"] is not member and o["member"]["exec"] in self.of]
        return [o for o in others if self.same_line(self.of[o["exec"]].body, line)]

    def stands(self, m: dict[str, Json]) -> bool:
        return m["method"] in ("residual", "compensate") and self.result(m["exec"]) not in ("compensated", "not_executed")

    def placed(self) -> None:
        for m in self.b["members"]:
            need(m["member"]["agent"] == self.b["agent"] or m["member"]["exec"] in self.asked, "AGT-3")
        led, todo = set(), [m["member"]["index"] for m in self.b["members"] if m["member"]["agent"] == self.b["agent"]]
        while todo:
            s = self.steps[todo.pop()]
            if s["exec"] not in led:
                led.add(s["exec"])
                todo += [s["by"]] if "by" in s else []
                todo += [s["from"]] if s["rule"] != "SCO-3" else []
        need(led == self.steps.keys() and self.by_index.keys() <= self.used, "AGT-3")

    def report(self, commands: list[dict[str, Json]]) -> dict[str, Json]:
        incident = self.d["incident"] if self.has_decision else 0
        expires = min(self.d["exp"] * 1000, self.d["deadline_at"]) if self.has_decision else 0
        epochs = [e for _, e in sorted(self.epochs.items())]
        return {"confirmed": self.confirmed, "incident": incident, "expires_at": expires, "commands": commands,
                "links": self.chain.links, "epochs": epochs} | ({"since": self.root["since"]} if self.root.get("since") else {})
