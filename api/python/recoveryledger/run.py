"""A run and its steps: what an agent does in one workflow, logged before it is done."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, TypeVar, Union

from .errors import InputError, LedgerError, NoEffect, Refused, RolledBack
from .hooks import state_bytes
from .records import EFFECTS, FINAL, UNDONE, Record, check_name, exec_id
from .recover import forget, note

if TYPE_CHECKING:
    from .agent import Agent

T = TypeVar("T")
Parent = Union["Step", str, Mapping[str, str]]
KEYED = ("compensable", "irrevocable", "undeclared")
HOLD_S = 2.0  # the longest pause between two questions about a fence
CALLBACK_S = 1.0  # that a callback is waited for


class Step:
    """A step of a run. Use it with `with` or `async with`: it is logged as started before, and as
    confirmed or failed after.

    `key` is its idempotency key for the service that it calls: the same until the step is undone.
    `done` says that the step is confirmed already: skip what it does. `interrupted` says that a
    process which was killed had begun the step: do it again under the same key. `result` is what the
    step keeps, a value of JSON: a compensation gets it. `standing` is the outcome of a rollback that
    left the effect of the step, such as irrevocable.
    """

    def __init__(self, run: Run, name: str, effect: str, parents: Iterable[Parent], step_id: str, exec_name: str | None) -> None:
        self._run, self._agent = run, run.agent
        self.name, self.effect, self.id = check_name("step", name), effect, check_name("step id", step_id) if step_id else ""
        if effect not in EFFECTS:
            raise InputError(f"step {name}: effect {effect!r}", f"an effect is one of {', '.join(EFFECTS)}")
        self._parents, self._exec_name = list(parents), exec_name
        self._record: Record | None = None
        self._holder = 0
        self.done = self.interrupted = False

    @property
    def run(self) -> Run:
        """The run of the step."""
        return self._run

    @property
    def record(self) -> Record:
        """The step as it stands in the state."""
        if self._record is None:
            raise InputError(f"step {self.name}: not begun", "use it with `with`")
        return self._record

    @property
    def exec(self) -> str:
        """The execution in the log: AGENT#RUN/NAME."""
        return f"{self._agent.name}#{self.record.exec}"

    @property
    def key(self) -> str:
        """The idempotency key of the step."""
        return self._agent.key(self.record)

    @property
    def standing(self) -> str:
        """The outcome of a rollback that left the effect of the step; empty: there is none."""
        return self.record.undone if self.record.undone not in UNDONE else ""

    @property
    def result(self) -> Any:
        """What the step keeps."""
        return self.record.result

    @result.setter
    def result(self, value: Any) -> None:
        state_bytes(value)  # of JSON
        self.record.result = value

    def __enter__(self) -> Step:
        self._begin(owner())
        return self

    def __exit__(self, kind: type[BaseException] | None, why: BaseException | None, _: TracebackType | None) -> None:
        self._end(kind, why)

    async def __aenter__(self) -> Step:
        try:
            holder = owner()
            await in_thread(lambda: self._begin(holder))
        except asyncio.CancelledError:
            if self._record is not None and not self.done and self._agent.active.get(self._record.exec):
                self._end(NoEffect, None)  # nobody came to do it
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, why: BaseException | None, _: TracebackType | None) -> None:
        await in_thread(lambda: self._end(kind, why))

    # Before

    def _begin(self, holder: int) -> None:
        self._holder = holder
        with self._run.entering():
            self._run.check(holder=holder)
            record = self._choose()
            self._record = record
            if self.done:  # an earlier process may not have sent its end, and what follows rests on it
                self._agent.send_end(record)
                return
            with self._agent.changed:
                self._agent.active[record.exec] = holder
            try:
                if record.progress == "dispatching":
                    self._dispatch(record)
            except BaseException:
                self._inactive(record)
                raise

    def _choose(self) -> Record:
        """The execution that the step is: one that was begun or done before, or a new one."""
        agent, run = self._agent, self._run
        before = agent.records.newest(run.name, self.name, self.id)
        if before is not None and not before.spent():
            if agent.active.get(before.exec) or (run.used(before.exec) and before.progress == "confirmed"):
                raise InputError(f"step {self.name}: taken twice in run {run.name}", "tell two steps of a name apart by id=")
            run.use(before.exec)
            self.done = before.progress == "confirmed"
            self.interrupted = before.progress == "started"
            return before
        generation = before.generation + 1 if before else 1
        ordinal = (before.ordinal + (before.undone in UNDONE)) if before else 0
        local = self._exec_name or exec_id(run.name, self.name, self.id, generation)
        parents = [self._parent(p) for p in self._parents]
        record = Record(local, run.name, self.name, self.id, generation, self.effect, parents, "dispatching", ordinal)
        record.outbox = [agent.sign("execution", self._body(record, "started"))]
        agent.records.save(record)
        run.use(local)
        return record

    def _parent(self, parent: Parent) -> dict[str, str]:
        if isinstance(parent, Step):
            return {"exec": parent.exec, "dep": "hard"}
        if isinstance(parent, str):
            return {"exec": parent if "#" in parent else f"{self._agent.name}#{self._run.name}/{parent}", "dep": "hard"}
        if isinstance(parent, Mapping) and set(parent) == {"exec", "dep"}:  # pyright: ignore[reportUnnecessaryIsInstance]
            return dict(parent)
        raise InputError(f"step {self.name}: parent {parent!r:.100}", "a parent is a step, an execution as AGENT#ID, or {exec, dep} with dep hard or soft")

    def _body(self, record: Record, progress: str) -> dict[str, Any]:
        body: dict[str, Any] = {"wid": record.run, "exec": record.exec, "parents": record.parents, "effect": record.effect, "progress": progress}
        if record.effect in KEYED:
            body["idempotency_key"] = "sha256:" + hashlib.sha256(self._agent.key(record).encode()).hexdigest()
        return body

    def _dispatch(self, record: Record) -> None:
        """Has the log have the beginning of the step before it is done (EXE-2)."""
        agent = self._agent

        def resigned(envelope: str) -> None:
            record.outbox = [envelope]
            agent.records.save(record)

        try:
            agent.send(record.outbox[0], resigned, self._held)
        except (Refused, RolledBack):
            record.progress, record.outbox = "refused", []
            agent.records.save(record)
            raise
        with agent.changed:
            record.progress, record.outbox = "started", []
            agent.records.save(record)

    def _held(self, why: Refused) -> None:
        """Waits while a fence refuses the step. The error is a RolledBack if the run is undone."""
        pause = 0.05
        while why.incident is not None:
            self._run.check(holder=self._holder)
            if not self._agent.ledger.incident(why.incident).get("waits_for"):
                break
            with self._agent.changed:
                self._agent.changed.wait(pause)
            pause = min(2 * pause, HOLD_S)
        self._run.check(holder=self._holder)

    # After

    def _end(self, kind: type[BaseException] | None, why: BaseException | None) -> None:
        record = self.record
        if self.done:
            return
        try:
            with self._run.entering():
                progress = "confirmed" if kind is None else "cancelled" if issubclass(kind, NoEffect) else "failed"
                agent = self._agent
                with agent.changed:
                    record.progress, record.outbox = progress, [agent.sign("execution", self._body(record, progress))]
                    agent.records.save(record)
                if progress == "confirmed":
                    forget(self)
                else:
                    self._run.unuse(record.exec)
                    note(why, self)
                try:
                    agent.send_end(record)
                except LedgerError:
                    if why is None:
                        raise  # else the error of the step is told; the end is sent later
        finally:
            self._inactive(record)

    def _inactive(self, record: Record) -> None:
        with self._agent.changed:
            self._agent.active.pop(record.exec, None)
            self._agent.changed.notify_all()


class _Entering:
    """Marks that a step begins or ends, so that a task is not cancelled in the middle of that."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __enter__(self) -> None:
        with self._run.agent.changed:
            self._run.busy += 1

    def __exit__(self, *_: object) -> None:
        with self._run.agent.changed:
            self._run.busy -= 1


class Run:
    """A run of an agent: one workflow. `Agent.run` makes one, for `with` or `async with`."""

    def __init__(self, agent: Agent, name: str, on_rollback: Callable[[RolledBack], Any] | None) -> None:
        self.agent, self.name, self._callback = agent, check_name("run", name), on_rollback
        self.busy = 0  # steps that begin or end just now
        self._used: set[str] = set()
        self._task: asyncio.Task[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._cancelled = False

    def step(self, name: str, effect: str = "none", parents: Iterable[Parent] = (), *, id: str = "", exec: str | None = None) -> Step:  # noqa: A002
        """A step, to be used with `with` or `async with`.

        effect: none, reversible (it goes back with the agent's state), compensable (a function that
        @agent.compensates declares undoes it), irrevocable, or undeclared
        parents: the steps that it rests on, or executions of others as AGENT#ID. What is only for information
        is {"exec": …, "dep": "soft"}: it is reviewed, and not undone
        id: tells two steps of one name apart. A name and an id stand for one step of the run: when
        the run is begun again after a crash, a step that is confirmed is not done again
        exec: the id in the log, instead of one made of run, name and id
        """
        return Step(self, name, effect, parents, id, exec)

    def checkpoint(self, name: str, state: Any = None, *, digest: str | None = None, expires_at: int = 0) -> None:
        """Logs a point that the run can go back to.

        state: bytes or a value of JSON, which the agent keeps
        digest: of a state that is kept elsewhere, as sha256:… or hmac-sha256:…, instead of state
        expires_at: until when the state is kept, in Unix milliseconds; 0: for ever
        """
        self.check()
        local = f"{self.name}/{check_name('checkpoint', name)}"
        kept = self.agent.records.run(self.name)
        if kept["checkpoints"].get(local, {}).get("logged"):
            return  # by an earlier process, or in an earlier life of the loop
        entry = kept["checkpoints"].get(local)
        if entry is None:
            entry = self._new_checkpoint(local, state, digest, expires_at)
            kept["checkpoints"][local] = entry
            self.agent.records.save_run(self.name)

        def resigned(envelope: str) -> None:
            entry["envelope"] = envelope
            self.agent.records.save_run(self.name)

        try:
            self.agent.send(entry["envelope"], resigned)
        except Refused:
            del kept["checkpoints"][local]
            self.agent.records.save_run(self.name)
            raise
        entry["logged"], entry["envelope"] = True, ""
        self.agent.records.save_run(self.name)

    def _new_checkpoint(self, local: str, state: Any, digest: str | None, expires_at: int) -> dict[str, Any]:
        file = ""
        if digest is None:
            data = state_bytes(state)
            file, digest = self.agent.keep_state(data), self.agent.digest(data)
        for record in self._final():
            self.agent.send_end(record)
        after = max(self._final(), key=lambda r: r.ended, default=None)
        body: dict[str, Any] = {"wid": self.name, "checkpoint": local, "after": f"{self.agent.name}#{after.exec}" if after else None, "digest": digest}
        if expires_at:
            body["expires_at"] = expires_at
        return {"file": file, "raw": isinstance(state, bytes), "envelope": self.agent.sign("checkpoint", body), "logged": False}

    def _final(self) -> list[Record]:
        steps = self.agent.records.steps.values()
        return [r for r in list(steps) if r.run == self.name and r.progress in FINAL and not r.undone]

    def signal(self, subject: Step | str, code: str, *, effects: str = "unknown", standing: str | None = None, detail: str = "",
               evidence: Iterable[dict[str, str]] = (), since: Step | str | None = None) -> int:
        """Reports a failure, and returns the number of the incident that it opens or joins.

        subject: a step, or an execution as AGENT#ID
        code: class and code of the failure taxonomy, as output.bad_arguments
        effects: what the failed attempt left: none, partial, complete or unknown
        standing: executor (own steps, the default for them), upstream, downstream (the default for others),
        monitor or operator
        detail: a text for people, at most 1,024 bytes, without secrets
        evidence: [{digest, uri}]
        since: the first execution in doubt, where several are
        """
        kind, _, word = code.partition(".")
        if not word:
            raise InputError(f"signal: code {code!r}", "a code has a class and a code, as output.bad_arguments")
        if not isinstance(subject, (Step, str)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"signal: subject {subject!r:.100}", "a subject is a step, or an execution as AGENT#ID")
        name = subject.exec if isinstance(subject, Step) else subject
        own = name.startswith(self.agent.name + "#")
        body: dict[str, Any] = {
            "wid": self.name, "subject": name, "class": kind, "code": word, "standing": standing or ("executor" if own else "downstream"),
            "effects": effects, "replay_safety": "unknown", "observed_at": time.time_ns() // 1_000_000,
        }
        if detail:
            body["detail"] = detail
        if list(evidence):
            body["evidence"] = list(evidence)
        if since is not None:
            body["since"] = since.exec if isinstance(since, Step) else since
        return self._send_signal(f"{name} {code}", body)

    def _send_signal(self, what: str, body: dict[str, Any]) -> int:
        for record in self._final():
            self.agent.send_end(record)
        kept = self.agent.records.run(self.name)
        signal: dict[str, Any] | None = kept["signals"].get(what)
        if signal is None:
            signal = kept["signals"][what] = {"envelope": self.agent.sign("signal", body), "index": None}
            self.agent.records.save_run(self.name)

        def resigned(envelope: str) -> None:
            signal["envelope"] = envelope
            self.agent.records.save_run(self.name)

        if signal["index"] is None:
            try:
                signal["index"] = self.agent.send(signal["envelope"], resigned)["index"]
            except Refused:
                del kept["signals"][what]
                self.agent.records.save_run(self.name)
                raise
            self.agent.records.save_run(self.name)
        self.agent.signalled(signal["index"])
        return int(signal["index"])

    def result(self, name: str, id: str = "") -> Any:  # noqa: A002
        """What the newest execution of a step keeps. The error is an InputError if there is none."""
        record = self.agent.records.newest(self.name, name, id)
        if record is None:
            raise InputError(f"result: no step {name} {id}".rstrip(), "take the step first")
        return record.result

    # What is told

    def check(self, *, holder: int | None = None) -> None:
        """Raises a RolledBack if work of the run is undone and the run was not told.

        A long step may call it to learn of that before its end. Within a step that is to be undone
        the error comes at once, and is told again, with all results, after the step.
        """
        found = self.agent.pending(self.name)
        if not found:
            return
        if self.agent.holds(owner() if holder is None else holder, found):
            raise self.agent.rolled_back(self.name, found)
        self.agent.await_settled(found)
        raise self._told(found)

    def _told(self, incidents: list[int]) -> RolledBack:
        told = self.agent.rolled_back(self.name, incidents)
        self.agent.mark_told(self.name, incidents)
        with self.agent.changed:
            self._used = {local for local in self._used if not self.agent.records.steps[local].spent()}
        return told

    def tell(self, told: RolledBack) -> None:
        """Tells the callback, and a task that waits outside of its steps. The thread that obeys calls it."""
        if self._callback is not None:
            thread = threading.Thread(target=self._call, args=(self._callback, told), name=f"told {self.name}", daemon=True)
            thread.start()
            thread.join(CALLBACK_S)  # one that hangs holds up nothing that is to be undone
        if self._loop is not None and self._task is not None:
            self._loop.call_soon_threadsafe(self._cancel)

    @staticmethod
    def _call(callback: Callable[[RolledBack], Any], told: RolledBack) -> None:
        """Calls a callback. What it raises or returns changes nothing of what was undone."""
        try:
            returned = callback(told)
            if inspect.iscoroutine(returned):
                asyncio.run(returned)
        except BaseException:  # noqa: BLE001: the thread is its own
            pass

    def _cancel(self) -> None:
        """Cancels the task at its await, unless it is in a step: then the next step tells it."""
        if self._task is not None and not self._cancelled and not self.inside() and self.agent.pending(self.name):
            self._cancelled = True
            self._task.cancel()

    # Bookkeeping of steps

    def entering(self) -> _Entering:
        """Marks that a step begins or ends."""
        return _Entering(self)

    def inside(self) -> bool:
        """Whether a step of the run is under way."""
        with self.agent.changed:
            return self.busy > 0 or any(self.agent.active.get(local) for local in self._used)

    def used(self, local: str) -> bool:
        """Whether a step was taken in this process."""
        return local in self._used

    def use(self, local: str) -> None:
        """Notes that a step is taken."""
        with self.agent.changed:
            self._used.add(local)

    def unuse(self, local: str) -> None:
        """Notes that a step that failed may be taken again."""
        with self.agent.changed:
            self._used.discard(local)

    def __enter__(self) -> Run:
        self.agent.join(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        try:
            if kind is None:
                self.check()
        finally:
            self.agent.leave(self)

    async def __aenter__(self) -> Run:
        self._task, self._loop = asyncio.current_task(), asyncio.get_running_loop()
        await in_thread(lambda: self.agent.join(self))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        task, self._task = self._task, None
        try:
            if kind is asyncio.CancelledError and self._cancelled:
                uncancel: Callable[[], int] | None = getattr(task, "uncancel", None)  # since Python 3.11
                if uncancel is not None:
                    uncancel()
                found = self.agent.pending(self.name)
                if found:
                    raise self._told(found) from None
            elif kind is None:
                await in_thread(self.check)
        finally:
            self.agent.leave(self)


def owner() -> int:
    """The task, or else the thread, that takes a step."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    return id(task) if task is not None else threading.get_ident()


async def in_thread(function: Callable[[], T]) -> T:
    """Calls a function in a thread. Where the task is cancelled, the function still ends before."""
    future = asyncio.ensure_future(asyncio.to_thread(function))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        while not future.done():
            await asyncio.wait([future])
        raise


