"""What an agent that obeys keeps: its state, what it accepted, its undertakings."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass
from typing import Any, Callable

from .errors import Forked, InputError, LedgerError, StateError
from .ledger import Ledger
from .signing import Signer, residual
from .store import Damaged, Store
from .verify.strict import Broken, dump
from .verify.verdict import fresh, ordered, size_of
from .work import CLOSED, COMPENSATE, KEYS_MAX, RESTORE, Ask, Call, Hooks, Order, Pause, Unseen, Work

NEVER = 1 << 62


@dataclass
class Event:
    """Something that happened to an agent that obeys.

    kind is accepted (a decision), started and ended (a hook), logged (an entry), outcome (of an
    execution, with the result as text), refused, retry, hidden (a decision that the server does not
    show), lost (the state) or fork.
    """

    kind: str
    incident: int = 0
    exec: str = ""
    text: str = ""
    error: Exception | None = None


@dataclass
class Config:
    """What an agent works with."""

    root: dict[str, Any]
    agent: str
    secret: bytes
    signer: Signer
    ledger: Ledger
    store: Store
    hooks: Hooks
    tell: Callable[[Event], None]
    confirm: Callable[[], str] | None  # a tree head from another source than the ledger; None: there is none
    absences: bool = False
    attempts: int = 3


class Stopped(Exception):
    """The agent has stopped and does nothing more. The cause says why."""


class Base:
    """The state of an agent that obeys. One thread at a time works with it."""

    def __init__(self, config: Config, now: int) -> None:
        self.cfg, self.look_at = config, now
        self.identity: dict[str, Any] = {}
        self.accepted = fresh(config.root, config.agent)
        self.stored, self.size, self.number = "", 0, 0
        self.works: list[Work] = []  # not closed
        self.all: list[Work] = []
        self.stopped: LedgerError | None = None
        self.orders: dict[int, Order] = {}
        self.asks: dict[int, Ask] = {}
        self.hinted: dict[int, int] = {}
        self.hinted_at = self.mistrust = 0
        self.looking, self.second, self.following = Pause(), Pause(), Pause()
        self.stands: dict[tuple[int, str], dict[str, Any]] = {}
        self.overrides: dict[int, list[dict[str, Any]]] = {}
        self.next, self.saved = 0, 0  # of the log, as far as it was read
        self.unseen: dict[int, Unseen] = {}
        self._load(now)

    # The state

    def _load(self, now: int) -> None:
        names = self.cfg.store.names()
        if "fork" in names:
            self._read_fork()
        fresh_identity = self.fresh_identity(now)
        damage: list[str] = []
        if not any(name in names for name in ("agent", "accepted")) and not any(n.startswith("work-") for n in names):
            raise StateError(f"state {self.cfg.store.path}: it was not made", "pass new=True for an agent that never ran")
        self._load_identity(names, fresh_identity, damage)
        self._load_accepted(names, damage)
        broken = self._load_works(names, damage)
        if "followed" in names:
            try:
                self.next = int(self.cfg.store.load("followed"))
            except (Damaged, ValueError, TypeError):
                self.next = 0
        if not self.stored and (self.works or broken) and "accepted" not in names:
            damage.append("document accepted: missing, although undertakings rest on it")
        if damage:
            self.repair(now, damage, broken)

    def _read_fork(self) -> None:
        try:
            heads = self.cfg.store.load("fork")["heads"]
            self.stopped = Forked("the ledger has shown two logs", (heads[0], heads[1]), True)
        except (Damaged, ValueError, KeyError, TypeError, IndexError):
            self.stopped = Forked("the ledger has shown two logs, and the evidence of it is damaged", ("", ""), False)
        raise self.stopped

    def fresh_identity(self, now: int, lost: bool = True) -> dict[str, Any]:
        """The identity of a state; with lost, of one that counts as lost."""
        root = self.cfg.root
        return {"origin": root["origin"], "genesis": root["genesis"], "agent": self.cfg.agent, "made_at": now,
                "lost": lost, "horizon": NEVER if lost else 0, "before": self.number}

    def _load_identity(self, names: list[str], mine: dict[str, Any], damage: list[str]) -> None:
        try:
            self.identity = self.cfg.store.load("agent")
            if any(self.identity[n] != mine[n] for n in ("origin", "genesis", "agent")):
                raise InputError(f"state {self.cfg.store.path}: of {self.identity['agent']} at {self.identity['origin']}",
                                 "give each agent, at each ledger, a state of its own")
        except (Damaged, FileNotFoundError, ValueError, KeyError, TypeError) as why:
            if isinstance(why, InputError):
                raise
            damage.append(f"document agent: {why}")
            self.identity = mine

    def _load_accepted(self, names: list[str], damage: list[str]) -> None:
        if "accepted" not in names:
            return
        try:
            text = self.cfg.store.load_text("accepted")
            value = json.loads(text)
            root, mine = value["root"], self.cfg.root
            if value["agent"] != self.cfg.agent or root["origin"] != mine["origin"] or root["genesis"] != mine["genesis"]:
                raise Damaged("of another agent or ledger")
            if root.get("since", 0) < mine.get("since", 0):
                root = mine
            value["root"] = root
            self.size = size_of(root, value["head"])
            self.accepted, self.stored = value, text
        except (Damaged, Broken, ValueError, KeyError, TypeError) as why:
            damage.append(f"document accepted: {why}")

    def _load_works(self, names: list[str], damage: list[str]) -> list[str]:
        broken: list[str] = []
        loaded: list[Work] = []
        for name in names:
            if not name.startswith("work-"):
                continue
            try:
                work = Work.read(name, self.cfg.store.load(name))
            except (Damaged, ValueError) as why:
                broken.append(name)
                damage.append(str(why))
                continue
            if work is not None:
                loaded.append(work)
        numbers = {work.number for work in loaded}
        before = self.identity.get("before", 0)
        self.number = max(numbers | {before})
        missing = [n for n in range(before + 1, self.number) if n not in numbers]
        if missing:
            damage.append(f"undertaking {missing[0]} is missing, although later undertakings exist")
        for work in sorted(loaded, key=lambda w: (w.decision["index"], w.number)):
            self.add(work)
        return broken

    def repair(self, now: int, damage: list[str], broken: list[str]) -> None:
        """Makes the state count as lost, and then replaces what is damaged."""
        for text in damage:
            self.cfg.tell(Event("lost", text=text))
        self.identity = self.fresh_identity(now)
        self.save("agent", self.identity)
        for name in broken:
            self.save(name, {})
        if not self.stored:
            self.next = 0

    def save(self, name: str, value: Any) -> None:
        """Replaces a document. A failure stops the agent: what the state holds is not known then."""
        try:
            self.cfg.store.save(name, value)
        except StateError as why:
            self.stop(why)

    def save_work(self, work: Work) -> None:
        """Stores an undertaking without what the log has of its outbox."""
        if work.phase != "noted":
            work.outbox, work.mem.sent = work.outbox[work.mem.sent:], 0
        self.save(work.name, work.document())

    def stop(self, why: LedgerError) -> None:
        """Stops the agent."""
        self.stopped = why
        raise Stopped from why

    def forked(self, why: Forked) -> None:
        """Stores two heads that contradict each other, and stops the agent."""
        self.cfg.tell(Event("fork", error=why))
        self.save("fork", {"heads": list(why.heads), "detail": why.what})
        self.stop(why)

    def keep(self, accepted: dict[str, Any]) -> None:
        """Stores an accepted state, before anything that rests on it."""
        if not accepted["head"]:
            return
        text = dump(ordered(accepted)).decode()
        if text == self.stored:
            return
        try:
            self.cfg.store.save_text("accepted", text)
        except StateError as why:
            self.stop(why)
        self.accepted, self.stored = accepted, text
        self.size = size_of(accepted["root"], accepted["head"])
        self.settle()

    def settle(self) -> None:
        """Fixes, once a head is confirmed, what a lost state counts as open."""
        if self.accepted["confirmed"] and self.identity["horizon"] == NEVER:
            self.identity["horizon"] = self.size
            self.save("agent", self.identity)

    def lost(self, incident: int, opened_at: int) -> bool:
        """Whether work on an incident may have been started under an earlier state."""
        return self.identity["lost"] and (incident < self.identity["horizon"] or opened_at < self.identity["made_at"])

    # Undertakings

    def add(self, work: Work) -> None:
        """Takes up an undertaking."""
        self.all.append(work)
        if work.phase != CLOSED:
            self.works.append(work)
        self.number = max(self.number, work.number)

    def about(self, name: str) -> list[Work]:
        """All undertakings about an execution, as they came."""
        return [work for work in self.all if work.about(name)]

    def restores(self, incident: int) -> list[Work]:
        """All restores of an incident, as they came."""
        return [work for work in self.all if work.hook == RESTORE and work.incident == incident]

    def want_bundle(self, incident: int) -> None:
        """Asks for the bundle of an incident; 0 asks for news."""
        self.asks.setdefault(incident, Ask())

    def key(self, name: str, attempt: int) -> str:
        """The idempotency key of an attempt to compensate (EXE-4)."""
        text = f"{self.cfg.root['origin']}|{name}|{attempt}".encode()
        return hmac.new(self.cfg.secret, text, hashlib.sha256).hexdigest()

    def call(self, work: Work, probe: bool = False) -> Call:
        """The call for the hook of an undertaking, or for Probe about it."""
        first = work.members[0]["exec"]
        key, keys = "", list[str]()
        if work.hook == COMPENSATE:
            key = self.key(first, work.attempt)
            tries = range(KEYS_MAX) if work.lost else range(work.attempt, work.attempt + 1)
            keys = [self.key(first, attempt) for attempt in tries] if probe else []
        comp = f"{self.cfg.agent}#{work.comp_exec}" if work.comp_exec else ""
        return Call("probe" if probe else work.hook, work.hook if probe else "", work.incident, work.decision, work.members,
                    work.checkpoint, work.digest, work.standing, work.attempt, key, keys, comp, work.expires_at)

    # Entries to log

    def entry(self, work: Work, kind: str, body: dict[str, Any], optional: bool, now: int) -> None:
        """Adds an entry to the outbox of an undertaking."""
        work.outbox.append({"envelope": self.cfg.signer.sign(kind, body, now), "optional": optional})

    def compensation(self, work: Work, progress: str, optional: bool, now: int) -> None:
        """Adds progress of the execution that compensates."""
        member = work.members[0]
        digest = hashlib.sha256(self.key(member["exec"], work.attempt).encode()).hexdigest()
        self.entry(work, "execution", {
            "wid": member["wid"], "exec": work.comp_exec, "parents": [], "effect": "irrevocable", "progress": progress,
            "idempotency_key": "sha256:" + digest,
            "compensates": {"incident": work.incident, "decision": work.decision, "exec": member["exec"]},
        }, optional, now)

    def outcome(self, work: Work, member: dict[str, Any], result: str, why: str, now: int) -> None:
        """Adds what became of a member."""
        body: dict[str, Any] = {"wid": work.wid, "incident": work.incident, "decision": work.decision, "exec": member["exec"],
                                "result": result, "observed_at": now}
        if result == "restored":
            body["post_digest"] = work.digest
        elif result == "compensated":
            body["comp_exec"] = f"{self.cfg.agent}#{work.comp_exec}"
        elif result != "not_executed":
            body["residual"] = residual(why)
        self.supersede(body, 0)
        self.entry(work, "outcome", body, member["method"] == "none", now)

    def supersede(self, body: dict[str, Any], refused: int) -> None:
        """Has an outcome take the place of what may stand, but for what was refused already."""
        body.pop("supersedes", None)
        known = self.standing(body)
        if refused < len(known):
            body["supersedes"] = known[refused]

    def standing(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """What may have given a member its result, as far as is known, the likeliest first."""
        at = self.stands.get((body["incident"], body["exec"]))
        if at is not None:
            return [at]
        known = self.overrides.get(body["incident"], [])
        later = [ref for ref in known if ref["index"] >= body["decision"]["index"]]
        shown = self.orders.get(body["incident"])
        command = shown.command(body["exec"]) if shown and shown.decision == body["decision"] else None
        if command is not None and not command.result:
            return later
        return later + [ref for ref in known if ref not in later]

    def override(self, incident: int, ref: dict[str, Any]) -> None:
        """Takes up an override."""
        known = self.overrides.setdefault(incident, [])
        if all(other["index"] != ref["index"] for other in known):
            known.append(ref)
            known.sort(key=lambda other: other["index"])

    def overridden_at(self, incident: int) -> int:
        """Index of the newest override of an incident; 0: none is known."""
        known = self.overrides.get(incident)
        return known[-1]["index"] if known else 0

    def epoch(self, incident: int, now: int) -> int:
        """The highest epoch of an incident that was accepted and counts now; -1 without one."""
        for e in self.accepted["epochs"]:
            if e["incident"] == incident:
                lapsed = e.get("lapses") and e["lapses"] * 1000 <= now
                return e.get("settled", 0) if lapsed else e["epoch"]
        return -1
