"""The functions that undo, as the runtime calls them: in a thread of their own, with a limit."""

from __future__ import annotations

import asyncio
import inspect
import threading
from dataclasses import dataclass, field
from typing import Any, Callable, TypeVar

from .errors import InputError, NoEffect, NotUndone
from .records import Record, name_of
from .verify.strict import canonical
from .work import COMPENSATE, RESTORE, Call, Hooks, Report, StillRunning, Work


@dataclass
class Undo:
    """What a hook is to undo. All of it is proven, but `result`, `state` and `step_key`, which the agent kept."""

    exec: str  # in the log: AGENT#RUN/STEP; of a restore the newest execution that goes back
    run: str  # the workflow
    step: str  # the name of the step, empty with a restore
    id: str  # the id of the step
    incident: int
    attempt: int  # from 0; grows only when the one before had no effect
    key: str = ""  # of a compensation: the idempotency key for the service
    keys: list[str] = field(default_factory=list[str])  # with a probe: every key that may have been used
    step_key: str = ""  # of a compensation: the idempotency key that the step had
    result: Any = None  # of a compensation: what the step kept as its `result`; None if the state was lost
    undone: list[str] = field(default_factory=list[str])  # with a restore: the executions that go back
    checkpoint: str = ""  # with a restore: the name of the checkpoint
    digest: str = ""  # with a restore: of the state there
    state: Any = None  # with a restore: what was given to `run.checkpoint`
    standing: list[str] = field(default_factory=list[str])  # with a restore: executions of the run whose effects stand


DIGESTS = ("sha256:", "hmac-sha256:")
Function = Callable[[Undo], Any]
F = TypeVar("F", bound=Function)


@dataclass
class _Declared:
    function: Function
    idempotent: bool
    probe: Function | None
    limit: float


class Registry:
    """The functions of an agent, and the hooks that they are to the runtime."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._here = threading.local()
        self._compensations: dict[str, _Declared] = {}
        self._restore: _Declared | None = None
        self.drained: Callable[[str], str] = lambda _: ""
        self.record: Callable[[str], Record | None] = lambda _: None
        self.state: Callable[[str, str], tuple[str, Any]] = lambda _, __: ("", None)
        self.step_key: Callable[[Record], str] = lambda _: ""
        self.digest: Callable[[bytes], str] = lambda _: ""

    def compensates(self, name: str | None, idempotent: bool, probe: Function | None, limit: float | None) -> Callable[[F], F]:
        """Declares a compensation."""
        if limit is not None and not limit > 0:
            raise InputError(f"compensates {name!r}: limit {limit!r}", "a limit is a number of seconds above 0")

        def declare(function: F) -> F:
            if not callable(function):
                raise InputError(f"compensates {name!r}: {function!r} is no function", "use it as a decorator")
            if (name or "") in self._compensations:
                raise InputError(f"compensates {name!r}: declared twice", "one function undoes one step")
            self._compensations[name or ""] = _Declared(function, idempotent, probe, limit or self._limit)
            return function

        return declare

    def restores(self, idempotent: bool, probe: Function | None) -> Callable[[F], F]:
        """Declares the restore."""

        def declare(function: F) -> F:
            if not callable(function) or self._restore is not None:
                raise InputError("restores: declared twice, or no function", "one function takes the state back")
            self._restore = _Declared(function, idempotent, probe, self._limit)
            return function

        return declare

    def hooks(self) -> Hooks:
        """What the runtime calls. It looks functions up when it needs them."""
        return Hooks(drain=self._drains, restore=self._restores, compensate=self._compensates, probe=self._probes,
                     repeatable=self._repeatable, probeable=self._probeable, able=self._able)

    def _find(self, members: list[dict[str, Any]]) -> _Declared | None:
        local = members[0]["exec"].split("#", 1)[1]
        record = self.record(local)
        name = record.name if record else name_of(members[0]["wid"], local)[0]
        return self._compensations.get(name) or self._compensations.get("")

    def _able(self, work: Work) -> bool:
        return self._restore is not None if work.hook == RESTORE else self._find(work.members) is not None

    def _declared(self, work: Work) -> _Declared | None:
        return self._find(work.members) if work.hook == COMPENSATE else self._restore if work.hook == RESTORE else None

    def _repeatable(self, work: Work) -> bool:
        found = self._declared(work)
        return found.idempotent if found else work.hook not in (COMPENSATE, RESTORE)  # to wait for a step is the same twice

    def _probeable(self, work: Work) -> bool:
        found = self._declared(work)
        return found is not None and found.probe is not None

    def _undo(self, call: Call) -> Undo:
        member = call.members[0]
        local = member["exec"].split("#", 1)[1]
        record = self.record(local)
        name, step_id = (record.name, record.id) if record else name_of(member["wid"], local)
        undo = Undo(member["exec"], member["wid"], name, step_id, call.incident, call.attempt, call.key, call.keys)
        if record is not None:
            undo.result, undo.step_key = record.result, self.step_key(record)
        return undo

    def _drains(self, call: Call) -> Report:
        return Report("done", progress=self.drained(call.members[0]["exec"].split("#", 1)[1]))

    def _compensates(self, call: Call) -> Report:
        found = self._find(call.members)
        if found is None:
            raise InputError(f"nothing compensates {call.members[0]['exec']}", "declare it with @agent.compensates")
        try:
            returned = self._limited(found.function, self._undo(call), found.limit)
        except NoEffect as why:
            return Report("no_effect", residual=str(why))
        except NotUndone as why:
            return Report("failed", residual=str(why) or "the hook says nothing of what is left")
        if returned is not None:
            raise InputError(f"the compensation of {call.members[0]['exec']} returned {returned!r:.100}", "it returns None, or raises")
        return Report("done")

    def _probes(self, call: Call) -> Report:
        if call.of == RESTORE:
            return self._probes_restore(call)
        found = self._find(call.members)
        if found is None or found.probe is None:
            return Report("unknown")
        had = self._limited(found.probe, self._undo(call), found.limit)
        if had is not None and type(had) is not bool:
            raise InputError(f"the probe of {call.members[0]['exec']} returned {had!r:.100}", "it returns True, False, or None if it does not know")
        return Report("unknown" if had is None else "done" if had else "no_effect")

    def _back(self, call: Call) -> tuple[Undo, str]:
        """What a restore gets, and the digest of the state that the agent kept, empty without one."""
        undo = self._undo(call)
        undo.step = undo.id = undo.step_key = ""
        undo.result, undo.undone, undo.standing, undo.digest = None, [m["exec"] for m in call.members], call.standing, call.digest
        undo.checkpoint = call.checkpoint.split("#", 1)[1].removeprefix(undo.run + "/")
        kept, undo.state = self.state(undo.run, call.checkpoint)
        return undo, kept

    def _probes_restore(self, call: Call) -> Report:
        undo, kept = self._back(call)
        if self._restore is None or self._restore.probe is None:
            return Report("unknown")
        had = self._limited(self._restore.probe, undo, self._restore.limit)
        if isinstance(had, str) and had.startswith(DIGESTS):
            return Report("done", digest=had)
        if had is True and kept:
            return Report("done", digest=kept)
        if had is not None and had is not False:
            raise InputError(f"the probe of a restore returned {had!r:.100}", "it returns a digest, False, or None if it does not know")
        return Report("unknown" if had is None else "no_effect")

    def _restores(self, call: Call) -> Report:
        assert self._restore is not None
        undo, kept = self._back(call)
        if kept and kept != call.digest:
            return Report("failed", residual="the state that the agent kept is not that of the checkpoint")
        try:
            returned = self._limited(self._restore.function, undo, self._restore.limit)
        except NoEffect as why:
            return Report("no_effect", residual=str(why))
        except NotUndone as why:
            return Report("failed", residual=str(why) or "the hook says nothing of what is left")
        if returned is None and kept:
            return Report("done", digest=kept)
        if isinstance(returned, str) and returned.startswith(DIGESTS):
            return Report("done", digest=returned)
        if returned is None:
            raise InputError(f"the restore of {call.checkpoint} returned None", "it returns the digest, where the agent keeps no state")
        return Report("done", digest=self.digest(state_bytes(returned)))

    def inside(self) -> bool:
        """Whether the caller is a function of this agent, at work."""
        return getattr(self._here, "works", False)

    def _limited(self, function: Function, undo: Undo, limit: float) -> Any:
        """Calls a function in a thread of its own. The error is StillRunning after the limit."""
        done: list[Any] = []
        failed: list[BaseException] = []

        def call() -> None:
            self._here.works = True
            try:
                returned = function(undo)
                done.append(asyncio.run(_awaited(returned)) if inspect.isawaitable(returned) else returned)
            except BaseException as why:  # noqa: BLE001: it is raised again where it was called
                failed.append(why)

        thread = threading.Thread(target=call, name=f"undo {undo.exec}", daemon=True)
        thread.start()
        thread.join(limit)
        if thread.is_alive():
            raise StillRunning(f"the hook did not end within {limit:g} s, and may still act")
        if failed:
            if isinstance(failed[0], Exception):
                raise failed[0]
            raise RuntimeError(f"the hook raised {type(failed[0]).__name__}") from failed[0]
        return done[0]


def state_bytes(state: Any) -> bytes:
    """A state as bytes: bytes as they are, everything else as canonical JSON. The error is an InputError."""
    if isinstance(state, bytes):
        return state
    try:
        return canonical(_plain(state)).encode()
    except (TypeError, ValueError, RecursionError) as why:
        raise InputError(f"state {type(state).__name__}: {why}", "pass bytes, or values of JSON") from why


def _plain(value: Any) -> Any:
    """A value of JSON. Floats are allowed in a state, which is no entry."""
    if isinstance(value, dict):
        return {str(name): _plain(v) for name, v in value.items()}  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]  # pyright: ignore[reportUnknownVariableType]
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise TypeError(f"a {type(value).__name__} is no value of JSON")


async def _awaited(returned: Any) -> Any:
    return await returned
