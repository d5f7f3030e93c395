"""What an agent keeps of its own steps, checkpoints and signals. Each is stored before it is sent."""

from __future__ import annotations

import hashlib
import re
from dataclasses import asdict, dataclass, field
from typing import Any

from .errors import InputError
from .store import Damaged, Store

NAME = "[A-Za-z0-9._-]{1,100}"
FINAL = ("confirmed", "failed", "cancelled")
EFFECTS = ("none", "reversible", "compensable", "irrevocable", "undeclared")
UNDONE = ("restored", "compensated", "not_executed")


@dataclass
class Record:
    """A step as it stands in the state."""

    exec: str  # its local id in the log
    run: str
    name: str
    id: str
    generation: int
    effect: str
    parents: list[dict[str, str]]
    progress: str  # dispatching (its beginning is not in the log yet), started, confirmed, failed, cancelled or refused
    ordinal: int = 0  # how often the step was undone before: another key each time
    outbox: list[str] = field(default_factory=list[str])  # signed envelopes that the log may not have
    result: Any = None  # what the step kept
    undone: str = ""  # the outcome of a rollback
    ended: int = 0  # index of its final entry

    def document(self) -> str:
        """The name of its document."""
        return "step-" + hashlib.sha256(self.exec.encode()).hexdigest()[:40]

    def spent(self) -> bool:
        """Whether the step, if it is taken again, is another execution."""
        return self.progress in ("failed", "cancelled", "refused") or self.undone in UNDONE


class Records:
    """All records of a state."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.steps: dict[str, Record] = {}  # by local id
        self.runs: dict[str, dict[str, Any]] = {}  # by workflow: {run, told, checkpoints, signals}
        for name in store.names():
            if name.startswith("step-"):
                self._load_step(name)
            elif name.startswith("run-"):
                try:
                    value = store.load(name)
                    self.runs[value["run"]] = value
                except (Damaged, ValueError, KeyError, TypeError) as why:
                    raise InputError(f"state {store.path}: document {name}: {why}", f"remove {name}.doc: the run begins anew") from why

    def _load_step(self, name: str) -> None:
        try:
            record = Record(**self._store.load(name))
            self.steps[record.exec] = record
        except (Damaged, ValueError, TypeError) as why:
            remedy = f"remove {name}.doc, after you looked whether the step had its effect"
            raise InputError(f"state {self._store.path}: document {name}: {why}", remedy) from why

    def save(self, record: Record) -> None:
        """Stores a step."""
        self._store.save(record.document(), asdict(record))
        self.steps[record.exec] = record

    def run(self, name: str) -> dict[str, Any]:
        """What is kept of a run."""
        return self.runs.setdefault(name, {"run": name, "told": {}, "checkpoints": {}, "signals": {}})

    def save_run(self, name: str) -> None:
        """Stores what is kept of a run."""
        self._store.save("run-" + hashlib.sha256(name.encode()).hexdigest()[:40], self.run(name))

    def newest(self, run: str, name: str, step_id: str) -> Record | None:
        """The newest execution of a step of a run."""
        found = [r for r in self.steps.values() if (r.run, r.name, r.id) == (run, name, step_id)]
        return max(found, key=lambda r: r.generation, default=None)


def exec_id(run: str, name: str, step_id: str, generation: int) -> str:
    """The local id of an execution: RUN/NAME, RUN/NAME:ID, and @2 and so on when it is done again."""
    text = f"{run}/{name}" + (f":{step_id}" if step_id else "") + (f"@{generation}" if generation > 1 else "")
    if len(text) > 128:
        raise InputError(f"step {text!r}: more than 128 characters", "give shorter names to run and step")
    return text


def name_of(run: str, local: str) -> tuple[str, str]:
    """Name and id of the step that an execution is of, without a record of it."""
    rest = re.sub(r"@\d+$", "", local.removeprefix(run + "/"))
    name, _, step_id = rest.partition(":")
    return name, step_id


def check_name(what: str, name: str) -> str:
    """A name as it may stand in an id. The error is an InputError."""
    if not re.fullmatch(NAME, name):
        raise InputError(f"{what} {name!r}: not a name", "a name has 1 to 100 of A-Z a-z 0-9 . _ -")
    return name
