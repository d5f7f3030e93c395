"""The verdict on a bundle for an agent: what to store first, and what to do (docs/bundle.md)."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import form
from .entries import Logged
from .members import Check
from .notes import open_head
from .schemas import Schemas
from .strict import Broken, Json, Refused


@dataclass
class Command:
    """What an agent is to do about one of its executions."""

    exec: str
    index: int  # of its first entry
    method: str  # none, cancel, restore, compensate or residual
    checkpoint: str = ""
    digest: str = ""
    effect: str = ""
    wid: str = ""
    line: str = ""  # the workflow of its line; empty: all of the agent
    standing: list[str] = field(default_factory=list[str])
    released: bool = False
    result: str = ""  # its outcome in the log
    outcome: int = 0  # index of that
    refused: str = ""  # why it is refused: step and rule
    doubtful: bool = False  # it is refused, and who carried the bundle may be the cause


@dataclass
class Verdict:
    """What a check found. `next` is to be stored first, also beside an error."""

    error: Broken | None
    next: dict[str, Json]
    entries: list[Logged] = field(default_factory=list[Logged])  # proven to be in the log
    head: str = ""  # of the bundle, if the entries are proven
    decision: dict[str, Json] | None = None  # {index, leaf_hash}; None: the bundle has only news
    incident: int = 0
    epoch: int = 0
    expires_at: int = 0
    deadline_at: int = 0
    whole: bool = False  # the bundle proves that it leaves nothing out
    commands: list[Command] = field(default_factory=list[Command])


def fresh(root: dict[str, Json], agent: str) -> dict[str, Json]:
    """The accepted state of an agent that has accepted nothing yet."""
    return {"root": root, "agent": agent, "head": "", "confirmed": False, "links": [], "epochs": []}


def size_of(root: dict[str, Json], head: str) -> int:
    """The size of an accepted head, 0 without one. The error is a Broken."""
    return open_head(root, head)[0] if head else 0


def ordered(accepted: dict[str, Json]) -> dict[str, Json]:
    """An accepted state with its members in the order of its one form (docs/bundle.md)."""
    root_names = ("origin", "ledger_keys", "since", "retired", "genesis", "witnesses", "head")
    root = {name: accepted["root"][name] for name in root_names if accepted["root"].get(name)}
    epochs = [{name: e[name] for name in ("incident", "epoch", "settled", "lapses") if name in ("incident", "epoch") or e.get(name)}
              for e in accepted["epochs"]]
    return {"root": root, "agent": accepted["agent"], "head": accepted["head"], "confirmed": accepted["confirmed"],
            "links": accepted["links"], "epochs": epochs}


def check(data: bytes, accepted: dict[str, Json], now: int) -> Verdict:
    """Checks a bundle as received, for what was accepted before, at a time in Unix milliseconds."""
    try:
        c = Check(Schemas.of_package(), accepted, now, form.decode(data))
    except Broken as why:
        return Verdict(why, accepted)
    error, report = None, None
    try:
        report = c.run()
    except Broken as why:
        error = why
    except (Refused, KeyError, TypeError, IndexError, ValueError):  # a form that no rule has caught
        error = Broken("form")
    v = Verdict(error, accepted if c.learned is None else c.learned)
    if getattr(c, "proven", False):
        v.entries, v.head = c.list, c.b["head"]
    if c.has_decision and hasattr(c, "d"):
        v.incident, v.epoch = c.d["incident"], c.d["epoch"]
        v.expires_at, v.deadline_at = min(c.d["exp"] * 1000, c.d["deadline_at"]), c.d["deadline_at"]
        v.decision, v.whole = c.decided.ref(), "index" in c.b
    if report is not None and c.has_decision:
        v.commands = [_command(c, m["member"], told) for m, told in _own(c, report)]
    return v


def _own(c: Check, report: dict[str, Json]) -> list[tuple[dict[str, Json], dict[str, Json]]]:
    own = [m for m in c.b["members"] if m["member"]["agent"] == c.b["agent"]]
    return list(zip(own, report["commands"]))


def _command(c: Check, member: dict[str, Json], told: dict[str, Json]) -> Command:
    name = member["exec"]
    command = Command(name, member["index"], member["method"], member.get("checkpoint", ""), told.get("digest", ""),
                      standing=told.get("standing", []), released=told["released"])
    if name in c.results:
        command.result, command.outcome = c.result(name) or "", c.results[name].index
    if name in c.refused:
        command.refused, command.doubtful, command.released = c.refused[name], name not in c.certain, False
    elif name in c.of:
        body = c.of[name].body
        command.effect, command.wid = body["effect"], body["wid"]
        spans = c.chain.agents[body["iss"]]["span"] == "agent"
        command.line = "" if spans else body["wid"]
    return command

