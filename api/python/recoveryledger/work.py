"""One undertaking: a hook for one member of a rollback, or for the members of a line.

A crash means, by the phase that the state has:

    noted    nothing was started: the undertaking begins again, if the decision still stands
    started  the hook may have run, wholly, in part or not: the agent finds out
    done     the hook has ended and its report is kept: only entries are to be logged
    closed   the log has the entries
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Callable

from .store import Damaged

NOTED, STARTED, DONE, CLOSED = "noted", "started", "done", "closed"
DRAIN, RESTORE, COMPENSATE, CANCEL, PROBE = "drain", "restore", "compensate", "cancel", "probe"

# Bounds on repetitions, as in api/client/agent/limits.go. Pauses are in milliseconds.
ATTEMPTS, CRASH_FACTOR, KEYS_LOST, KEYS_MAX, PROBES_MAX = 3, 4, 32, 64, 5
REFUSALS_MAX, DISTRUST_MAX, DOUBTS_MAX, PROOFS_MAX = 8, 8, 5, 3
PAUSE_MIN, PAUSE_MAX, ASIDE_MAX, LEAST_MAX = 500, 60_000, 600_000, 3_600_000


def pause_after(tries: int, longest: int = PAUSE_MAX) -> int:
    """How long to wait after so many failures, in milliseconds."""
    return min(PAUSE_MIN << min(tries, 16), longest)


@dataclass
class Pause:
    """A pause that grows with each failure."""

    till: int = 0  # Unix milliseconds
    tries: int = 0

    def failed(self, now: int, least: int = 0) -> None:
        """Begins a longer pause, of least milliseconds or more."""
        self.till = now + max(min(least, LEAST_MAX), pause_after(self.tries))
        self.tries += 1


@dataclass
class Memory:
    """What of an undertaking need not survive a crash."""

    sent: int = 0  # of the outbox, before the hook
    wait_till: int = 0
    pauses: int = 0
    probes: int = 0
    refusals: int = 0
    known: int = 0  # index of the newest thing known when an entry was refused
    named: int = 0  # how many of those that the outcome may supersede were refused


@dataclass
class Report:
    """How a hook ended: done, no_effect, failed or unknown."""

    status: str
    digest: str = ""
    progress: str = ""
    residual: str = ""


@dataclass
class Work:
    """An undertaking as it stands in the state. Without a hook it is an answer."""

    name: str
    hook: str
    number: int
    phase: str
    incident: int
    wid: str
    decision: dict[str, Any]
    epoch: int
    expires_at: int
    deadline_at: int
    members: list[dict[str, Any]]  # {exec, index, wid, effect, method}
    lost: bool = False  # it may have been started: an earlier state is gone
    status: str = ""
    attempt: int = 0
    vain: int = 0  # attempts that had no effect by their hook's own report
    checkpoint: str = ""
    digest: str = ""
    standing: list[str] = field(default_factory=list[str])
    comp_exec: str = ""
    first: str = ""  # with drain: envelope of the execution's first entry
    progress: str = ""
    outbox: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])  # {envelope, optional}
    error: str = ""  # what its hook raised last
    mem: Memory = field(default_factory=Memory)

    def document(self) -> dict[str, Any]:
        """What is stored."""
        value = asdict(self)
        del value["mem"]
        return value

    @staticmethod
    def read(name: str, value: Any) -> Work | None:
        """Reads a document; None if it is the stone of a lost one. The error is Damaged."""
        try:
            if value == {}:
                return None
            work = Work(**value)
            good = work.name == name and work.phase in (NOTED, STARTED, DONE, CLOSED) and work.members and work.number > 0
        except TypeError as why:
            raise Damaged(f"document {name}: {why}") from why
        if not good:
            raise Damaged(f"document {name}: not an undertaking")
        return work

    def acted(self) -> bool:
        """Whether its newest attempt has begun, and is not known to have had no effect."""
        return self.phase == STARTED or self.phase != NOTED and self.status not in ("", "no_effect")

    def aside(self) -> bool:
        """Whether an entry was refused so often that it waits for a change."""
        return self.phase != NOTED and self.mem.refusals >= REFUSALS_MAX

    def pause(self, now: int, least: int = 0) -> None:
        """Puts the undertaking off, each time for longer."""
        longest = ASIDE_MAX if self.aside() else PAUSE_MAX
        self.mem.wait_till = now + max(min(least, LEAST_MAX), pause_after(self.mem.pauses, longest))
        self.mem.pauses += 1

    def about(self, name: str) -> bool:
        """Whether an execution is among its members."""
        return any(m["exec"] == name for m in self.members)


@dataclass
class Call:
    """What a hook is asked for. All of it is proven."""

    hook: str
    of: str  # with probe: the hook that was started
    incident: int
    decision: dict[str, Any]
    members: list[dict[str, Any]]
    checkpoint: str
    digest: str
    standing: list[str]
    attempt: int
    key: str  # with compensate
    keys: list[str]  # with a probe of compensate: those of every attempt that may have been made
    comp_exec: str
    expires_at: int


@dataclass
class Hooks:
    """What an agent can do about its own work. A hook that raises may have done anything."""

    drain: Callable[[Call], Report] | None = None
    restore: Callable[[Call], Report] | None = None
    compensate: Callable[[Call], Report] | None = None
    cancel: Callable[[Call], Report] | None = None
    probe: Callable[[Call], Report] | None = None
    # Whether there is a hook for an undertaking, whether it may run again, and whether Probe can be asked about it.
    able: Callable[[Work], bool] = lambda _: True
    repeatable: Callable[[Work], bool] = lambda _: False
    probeable: Callable[[Work], bool] = lambda _: True

    def of(self, hook: str) -> Callable[[Call], Report] | None:
        """The hook of a name."""
        return {DRAIN: self.drain, RESTORE: self.restore, COMPENSATE: self.compensate, CANCEL: self.cancel, PROBE: self.probe}[hook]


class StillRunning(Exception):
    """A hook has not ended in its time, and may still act. Its text says so."""


@dataclass
class Order:
    """A decision that verified: what the agent may do about an incident."""

    decision: dict[str, Any]
    epoch: int
    expires_at: int
    deadline_at: int
    opened_at: int = 0
    wid: str = ""
    size: int = 0
    links: int = 0
    complete: bool = False
    commands: list[Any] = field(default_factory=list[Any])  # Command
    firsts: dict[str, str] = field(default_factory=dict[str, str])  # envelopes of first entries
    waiting: set[str] = field(default_factory=set[str])

    def command(self, name: str) -> Any:
        """The command about an execution, or None."""
        return next((c for c in self.commands if c.exec == name), None)

    def over(self, now: int) -> bool:
        """Whether the time of the decision has passed."""
        return now >= self.expires_at or now >= self.deadline_at


@dataclass
class Ask:
    """A question for a bundle."""

    pause: Pause = field(default_factory=Pause)
    after: int = 0
    whole: bool = False
    doubts: int = 0
    order: Order | None = None


@dataclass
class Unseen:
    """A decision in the log that no bundle has shown."""

    index: int
    rollback_set: dict[str, Any]
    pause: Pause = field(default_factory=Pause)
    told: bool = False
