"""What can go wrong. Each error names what was given, what is wrong with it, and the remedy."""

from __future__ import annotations

from typing import Any


class LedgerError(Exception):
    """The root of all errors of the package. `remedy` says what to do."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(f"{what} ({remedy})" if remedy else what)
        self.what, self.remedy = what, remedy


class InputError(LedgerError, ValueError):
    """An argument, a file or an environment variable cannot be used."""


class StateError(LedgerError):
    """The state directory cannot be used: another process has it, or the disk failed."""


class Unreachable(LedgerError):
    """The ledger gave no answer in time. What was stored is sent again, with the same bytes."""


class Unproven(LedgerError):
    """An answer does not prove what it says. Nothing of it is believed."""


class Forked(LedgerError):
    """Two signed tree heads of the ledger contradict each other. `heads` has both signed notes.

    `proven` says that the two heads alone show that. Otherwise only a proof between them failed.
    """

    def __init__(self, what: str, heads: tuple[str, str], proven: bool) -> None:
        super().__init__(what, "nothing more is done: show both heads to others, and remove the document fork of the state when it is settled")
        self.heads, self.proven = heads, proven


class Refused(LedgerError):
    """The ledger refused an entry or a question. `problem` is the name of the problem type.

    `field` is the member at fault. `incident` and `waits_for` belong to `fenced-dependency`.
    `retry_after_ms` is how long the ledger asks to wait, in milliseconds.
    """

    def __init__(self, problem: str, answer: dict[str, Any]) -> None:
        super().__init__(f"{problem}: {_text(answer, 'detail')}", _text(answer, "remedy"))
        self.problem, self.field = problem, _text(answer, "field")
        self.incident, self.retry_after_ms = _number(answer, "incident"), _number(answer, "retry_after_ms") or 0
        self.waits_for = _text(answer, "waits_for")
        self.temporary = problem in ("rate-limited", "not-ready", "insufficient-storage")


class NoEffect(Exception):
    """A hook raises this if it had no effect, and certainly will have none: it is tried again."""


class NotUndone(Exception):
    """A hook raises this if it failed for good. Its text says what is left."""


class RolledBack(Exception):  # noqa: N818: it tells a loop something, and is no failure of the package
    """Work of a run was undone. The loop goes on from `checkpoint`, with `state`.

    `incidents` are the incidents, `undone` the executions with the result of each:
    {"buyer#charge": "compensated"}. `checkpoint` is the name of the checkpoint that the run went
    back to, None if it went back to none, and `state` what was given to `run.checkpoint` then.
    """

    def __init__(self, incidents: list[int], undone: dict[str, str], checkpoint: str | None, state: Any) -> None:
        names = ", ".join(f"{name} {result}" for name, result in undone.items())
        super().__init__(f"rolled back by incident {', '.join(map(str, incidents))}: {names}")
        self.incidents, self.undone, self.checkpoint, self.state = incidents, undone, checkpoint, state


def _text(answer: dict[str, Any], name: str) -> str:
    value = answer.get(name)
    return value[:2000] if isinstance(value, str) else ""


def _number(answer: dict[str, Any], name: str) -> int | None:
    value = answer.get(name)
    return value if type(value) is int else None
