#!/usr/bin/env python3
"""Decides as docs/policy.md says, for the vectors in testdata/vectors/decide.

    decide.py [vectors/decide]

Fails if one decision differs. Shares no code with the Go implementation. Conditions are the subset of CEL that
the vectors use; each is turned into a Python expression.
"""

import hashlib
import hmac
import json
import pathlib
import re
import sys

CLASSES = "transient capacity request output progress verify tool access safety budget state coord crash unknown".split()
NEEDS_EVIDENCE = {"output.ungrounded", "progress.no_progress", "progress.off_task", "verify.gate_failed"}
ATTEMPTS = {"retry", "retry_altered", "fallback_model", "state_reset", "fail_reassign", "checkpoint_resume"}
SEVERITIES = ["info", "warning", "error", "critical"]
ENDS = {"escalate": 10, "abort": 20, "quarantine": 30}


def canonical(value):
    """RFC 8785 for integers and ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest(rules):
    return "sha256:" + hashlib.sha256(canonical(rules)).hexdigest()


def draw(seed, purpose, case, attempt, epoch):
    key = (seed % 2**64).to_bytes(8, "big")
    text = f"{purpose}|{case}|{attempt}|{epoch}".encode()
    return int.from_bytes(hmac.new(key, text, hashlib.sha256).digest()[:8], "big")


class Failed(Exception):
    """A condition could not be evaluated."""


class Case:
    """What a decision looks at."""

    def __init__(self, rules, history, now):
        self.rules, self.h, self.now = rules, history, now
        f = history["failure"]
        self.cls, self.code = f["class"], f["code"]
        if self.cls not in CLASSES:
            self.cls = self.code = "unknown"
        elif f"{self.cls}.{self.code}" in NEEDS_EVIDENCE and not f.get("evidence"):
            self.code = "unknown"
        self.effect = history.get("effect") or "undeclared"
        replay = f.get("replay_safety") or "unknown"
        self.past = history.get("rungs", [])
        self.own = [r for r in self.past if r.get("step") == history.get("step")]
        self.attempts = sum(
            r["strategy"] in ATTEMPTS and (r["class"], r["code"]) != ("crash", "interrupted") for r in self.past)
        self.last = self.own[-1] if self.own else None
        self.effects = self.find_effects(f.get("effects") or "unknown")
        self.idempotent = self.effects == "none" or replay == "safe" or (replay != "unsafe" and history.get("idempotent", False))

    def find_effects(self, reported):
        if self.last and self.last["result"] == "unverified" and self.effect != "none":
            return "complete"
        if reported == "unknown" and self.effect == "none":
            return "none"
        probe = self.h.get("probe") or "unknown"
        if reported in ("partial", "unknown") and probe != "unknown":
            return probe
        return reported

    def repeats(self):
        n = 1
        for r in reversed([r for r in self.own if r["strategy"] in ATTEMPTS]):
            if (r["class"], r["code"]) != (self.cls, self.code):
                break
            n += 1
        return n

    def model(self):
        used = [r["model"] for r in self.own if r.get("model")]
        return used[-1] if used else self.h.get("model", "")

    def asked(self):
        return max(self.h["failure"].get("retry_after_ms", 0), 0)

    def holds(self, condition):
        if condition is None:
            return True
        text = re.sub(r"!(?!=)", " not ", condition.replace("&&", " and ").replace("||", " or "))
        text = re.sub(r"\bclass\b", "cls", text)
        names = {
            "true": True, "false": False, "cls": self.cls, "code": self.code, "effects": self.effects, "effect": self.effect,
            "idempotent": self.idempotent, "checkpoint": self.h.get("checkpoint", False), "benign": self.h.get("benign", False),
            "safety_critical": self.h.get("safety_critical", False), "risk": self.h.get("risk", ""),
            "tags": self.h.get("tags", []), "attempts": self.attempts, "repeats": self.repeats(),
        }
        try:
            return eval(text, {"__builtins__": {}}, names)  # our own vectors
        except (IndexError, ZeroDivisionError) as e:
            raise Failed from e

    def cap(self, limit):
        limits, own = self.rules["limits"], self.h.get("budget", {})
        return min(limits[limit], own.get(limit, limits[limit]))

    def late(self, pause):
        start = self.h.get("started_at", 0)
        elapsed = max(self.now - start, 0) if start > 0 else 0
        return elapsed + pause >= self.cap("deadline_ms")


def escalate(rule, reason, rung=-1, severity="error"):
    return {"strategy": "escalate", "severity": severity, "reason": reason, "rule": {"id": rule, "rung": rung}}


def gravity(action):
    if action["strategy"] not in ENDS:
        return 0
    return ENDS[action["strategy"]] + SEVERITIES.index(action["severity"])


def decide(rules, history, now):
    c = Case(rules, history, now)
    best = before_the_ladder(c)
    raised = [g for g in (guard(c, g) for g in rules.get("guards", [])) if g]
    if best is None:
        best = climb(c)
    for g in raised:
        if gravity(g) > gravity(best):
            best = g
    return best


def before_the_ladder(c):
    if c.last and c.last["result"] == "not_observed":
        return escalate("runtime", "not_observed")
    if c.effects not in ("partial", "unknown") or c.idempotent:
        return None
    if c.h.get("probe") or (c.last and c.last["strategy"] == "reconcile"):
        return escalate("gate", "effects_unknown")
    return {"strategy": "reconcile", "reason": "effects_uncertain", "rule": {"id": "gate", "rung": -1}}


def guard(c, g):
    try:
        if not c.holds(g["when"]):
            return None
    except Failed:
        return escalate(g["id"], "condition_error")
    severity = g.get("severity", "critical" if g["then"] == "quarantine" else "error")
    strategy, reason = g["then"], "guard"
    if strategy != "escalate" and any(r["strategy"] == strategy for r in c.past):
        strategy, reason = "escalate", "after_" + strategy
    return {"strategy": strategy, "severity": severity, "reason": reason, "rule": {"id": g["id"], "rung": -1}}


def climb(c):
    for rule in c.rules["rules"]:
        try:
            if c.holds(rule["when"]):
                break
        except Failed:
            return escalate(rule["id"], "condition_error")
    mine = [r["rule"]["rung"] for r in c.own if r["rule"]["id"] == rule["id"]]
    start, held = max(mine, default=0), None
    for at, rung in enumerate(rule["ladder"]):
        if at < start:
            continue
        strategy = rung["strategy"]
        if strategy == "escalate":
            action = escalate(rule["id"], why(c, at, held), at, rung.get("severity", "error"))
            return {**action, **({"question": True} if rung.get("question") else {})}
        most, times = rung.get("max", 1), mine.count(at)
        if strategy == "fail_reassign" and "max_retries" in c.h and (c.cls, c.code) != ("crash", "interrupted"):
            most = min(c.h["max_retries"], 64)
        if times >= most:
            continue
        try:
            bar = barred(c, rung)
        except Failed:
            return escalate(rule["id"], "condition_error")
        if bar:
            held = "effects_complete" if bar == "effect" else held
            continue
        action = build(c, rung, times)
        if action is None:
            continue
        if action.get("wait_ms") and c.late(action["wait_ms"]):
            held = "deadline_exceeded"
            continue
        if rule.get("verify") and strategy in ATTEMPTS:
            action["verify"] = True
        reason = over(c, action)
        return escalate("limits", reason) if reason else {**action, "rule": {"id": rule["id"], "rung": at}}
    raise AssertionError("a ladder without end")


def barred(c, rung):
    strategy, scope = rung["strategy"], rung.get("scope")
    if not rung.get("enabled", True):
        return "disabled"
    if strategy == "fallback_model" and "safety" in [c.cls] + [r["class"] for r in c.own]:
        return "safety"
    if (strategy == "checkpoint_resume" or scope in ("progress", "verified")) and not c.h.get("checkpoint"):
        return "checkpoint"
    if strategy == "reconcile" and (c.h.get("probe") or (c.last and c.last["strategy"] == "reconcile")):
        return "done"
    if strategy in ("quarantine", "abort") and any(r["strategy"] == strategy for r in c.past):
        return "done"
    if c.effects != "none":
        if strategy == "rollback" or scope in ("start", "progress", "verified"):
            undoable = {"none", "reversible"} | ({"compensable"} if strategy == "rollback" else set())
            if c.effect not in undoable:
                return "effect"
        elif strategy in ATTEMPTS and not c.idempotent:
            return "effect"
    return "" if c.holds(rung.get("when")) else "condition"


def build(c, rung, times):
    strategy = rung["strategy"]
    action = {k: rung[k] for k in ("strategy", "variant", "scope", "severity") if k in rung}
    action["reason"] = "ladder"
    if strategy in ("quarantine", "abort"):
        action.setdefault("severity", "critical" if strategy == "quarantine" else "error")
    if strategy == "wait":
        pause = max(rung["min_ms"], c.asked())
        return None if pause > rung["max_ms"] else {**action, "wait_ms": pause}
    if strategy not in ATTEMPTS:
        return action
    model = next_model(c, rung) if strategy == "fallback_model" else c.model()
    if strategy == "fallback_model" and model is None:
        return None
    if model:
        action["model"] = model
    pause = 0
    if not (c.last and c.last["strategy"] == "wait"):
        b = rung.get("backoff")
        if b:
            pause = min(b["base_ms"] * b["factor"] ** times, b["max_ms"])
            span = pause * b.get("jitter_ppm", 0) // 1000000
            if span:
                pause -= draw(c.h.get("seed", 0), "backoff", c.h["case"], c.attempts, c.h.get("epoch", 0)) % (span + 1)
        if strategy != "fallback_model":
            if b and c.asked() > b["max_ms"]:
                return None
            pause = max(pause, c.asked())
    return {**action, **({"wait_ms": pause} if pause else {})}


def next_model(c, rung):
    models = {m["name"]: m for m in c.rules.get("models", [])}
    current = models.get(c.model())
    used = {c.h.get("model")} | {r.get("model") for r in c.own}
    prices = ("input_micro_usd_per_mtok", "output_micro_usd_per_mtok")
    poor = "budget" in [c.cls] + [r["class"] for r in c.past]
    for m in models.values():
        if m["name"] in used:
            continue
        if current and "account" in rung and m["account"] == current["account"]:
            continue
        if current and "context" in rung and m["context_tokens"] <= current["context_tokens"]:
            continue
        if poor and (current is None or any(m[p] > current[p] for p in prices)):
            continue
        return m["name"]
    return None


def over(c, action):
    if action["strategy"] not in ATTEMPTS | {"wait"}:
        return None
    if c.late(action.get("wait_ms", 0)):
        return "deadline_exceeded"
    if action["strategy"] == "wait":
        return None
    if (c.cls, c.code) != ("crash", "interrupted") and c.attempts >= c.cap("attempts"):
        return "attempts_exhausted"
    if c.h.get("spent_micro_usd", 0) >= c.cap("cost_micro_usd"):
        return "cost_exhausted"
    if c.h.get("spent_tokens", 0) >= c.cap("tokens"):
        return "tokens_exhausted"
    return None


def why(c, at, held):
    if c.last and c.last["result"] == "unverified":
        return "unverified"
    if c.last and c.last["strategy"] in ("quarantine", "abort", "rollback"):
        return "after_" + c.last["strategy"]
    return held or ("rule" if at == 0 else "ladder_exhausted")


def walk(rules, history, world):
    """Decides until the case ends; world answers for what is outside."""
    h = dict(history, rungs=list(history.get("rungs", [])))
    reported, now, all_decisions = h.get("probe"), max(h.get("started_at", 0), 1), []
    while True:
        d = decide(rules, h, now)
        all_decisions.append(d)
        if d["strategy"] == "escalate":
            return all_decisions
        c = Case(rules, h, now)
        attempt = d["strategy"] in ATTEMPTS
        past = {"step": h.get("step"), "class": c.cls, "code": c.code, "result": world["result"] if attempt else "ok"}
        h["rungs"].append(past | {k: d[k] for k in ("rule", "strategy", "variant", "scope", "model") if k in d})
        if attempt:
            h["probe"] = reported
        elif d["strategy"] == "reconcile":
            h["probe"] = world["probe"]
        now += d.get("wait_ms", 0)


def main():
    here = pathlib.Path(__file__).resolve().parents[1] / "vectors/decide"
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here
    vectors = {file.name: json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))}
    wrong = 0
    for name, v in vectors.items():
        if "history" in v:
            rules = vectors["default.json"]["policy"] if v["policy"] == "default" else v["policy"]
            got = walk(rules, v["history"], v["world"])
        else:
            got = digest(v["policy"])
        if got != v["want"]:
            wrong += 1
            print(f"{name}: {v['desc']}: got {got}, want {v['want']}")
    print(f"{len(vectors)} vectors decided, {wrong} wrong")
    return 1 if wrong or not vectors else 0


if __name__ == "__main__":
    sys.exit(main())
