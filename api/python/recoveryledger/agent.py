"""An agent: it logs its steps before it takes them, and undoes what a proven decision tells it to."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import pathlib
import threading
import time
from typing import Any, Callable, Iterable, TypeVar, overload

from . import trust
from .base import Config, Event, Stopped
from .errors import Forked, InputError, LedgerError, Refused, RolledBack, StateError, Unreachable
from .hooks import Function, Registry
from .keyfile import load_key
from .ledger import Head, Ledger
from .obey import Obeyer
from .records import FINAL, Record, Records
from .recover import Action, Recovery
from .run import Run, Step, in_thread
from .signing import Signer, body_of
from .store import Store, write_file
from .work import CLOSED, RESTORE, Hooks

F = TypeVar("F", bound=Function)
OVER = ("DISMISSED", "RECOVERED", "NO_EFFECTS", "PARTIAL", "FAILED")
PATIENCE_S = 60.0
KEEP_HEAD_S = 10.0


def now_ms() -> int:
    """Unix milliseconds."""
    return time.time_ns() // 1_000_000


class Follower(Obeyer):
    """The runtime with the answer of the last long poll as its hints."""

    heard: dict[str, Any] | None = None

    def hear(self) -> dict[str, Any]:
        heard, self.heard = self.heard, None
        return heard or super().hear()


class Agent:
    """An agent of a ledger. `connect` makes one. It may be used by several threads.

    `url` is the ledger, `name` the principal. `patience` is how long a step waits for a ledger that
    does not answer, in seconds.
    """

    def __init__(self, config: Config, registry: Registry, patience: float = PATIENCE_S) -> None:
        self.name, self.url, self.patience = config.agent, config.ledger.url, patience
        self._config, self._registry = config, registry
        self.ledger, self._store, self._signer = config.ledger, config.store, config.signer
        config.tell = self._event
        self.records = Records(config.store)
        self.changed = threading.Condition(threading.RLock())
        self.active: dict[str, int] = {}  # steps under way in this process, by local id
        self._affected: dict[int, set[str]] = {}  # own executions by incident
        self._settled: set[int] = set()
        self._results: dict[tuple[int, str], str] = {}
        self._signalled: set[int] = set()
        self._returned: set[tuple[int, str]] = set()  # what obey has told
        self._runs: list[Run] = []
        self._listeners: list[Callable[[Event], None]] = []
        registry.drained = self._drained
        registry.record = self.records.steps.get
        registry.state, registry.step_key, registry.digest = self.state_of, self.key, self.digest
        config.hooks = registry.hooks()
        self._core = Follower(config, now_ms())
        self._thread: threading.Thread | None = None
        self._closing = self._polling = False
        self._failure: LedgerError | None = None
        self._recall()

    # Hooks

    def compensates(self, name: str | None = None, *, idempotent: bool = False, probe: Function | None = None,
                    limit: float | None = None) -> Callable[[F], F]:
        """Declares the function that undoes a step of a name; without a name, of every other one.

        The function gets an Undo, and returns None once the step is undone. It may be async.
        `idempotent` says that the function may run twice with one `undo.key` to the same effect as once;
        `probe` is a function that says whether an earlier call had its effect: True, False, or None if
        it does not know. Without both, a call that a crash ended is answered `unknown`. `limit` is the
        time of the function in seconds, by default 600.
        """
        return self._registry.compensates(name, idempotent, probe, limit)

    @overload
    def restores(self, function: F) -> F: ...

    @overload
    def restores(self, *, idempotent: bool = True, probe: Function | None = None) -> Callable[[F], F]: ...

    def restores(self, function: Any = None, *, idempotent: bool = True, probe: Function | None = None) -> Any:
        """Declares the function that takes the agent's state back to a checkpoint.

        The function gets an Undo with the `state` of the checkpoint. It returns None, or the state as
        it is afterwards, or its digest where the state is kept elsewhere. `idempotent` says that the
        function may run twice, also when the second call names other executions. `probe` is a function
        that says whether an earlier call had its effect: True or the digest, False, or None if it does
        not know.
        """
        declare = self._registry.restores(idempotent, probe)
        return declare if function is None else declare(function)

    def use(self, hooks: Hooks) -> None:
        """Has an agent do without the two hooks: all five, as docs/agent.md describes them."""
        self._config.hooks = hooks

    def listen(self, function: Callable[[Event], None]) -> None:
        """Has a function told what happens, in the thread that obeys."""
        self._listeners.append(function)

    # Work

    def run(self, name: str, on_rollback: Callable[[RolledBack], Any] | None = None) -> Run:
        """A run of the agent, to be used with `with` or `async with`: a workflow of a name.

        The same name goes on with the same run: its confirmed steps are done. `on_rollback` is called,
        in a thread of its own, when work of the run was undone. What it raises or returns is ignored,
        one that hangs is not waited for, and the run is told all the same.
        """
        return Run(self, name, on_rollback)

    def recover(self, error: BaseException, step: Step | None = None, *, able: Iterable[str] = ("retry",), idempotent: bool = False,
                effects: str = "", probe: Callable[[Step], bool | None] | None = None, model: str = "") -> Action:
        """Asks the policy in force what to do about the error of a step, waits as long as it says, and returns what to try.

        error: what ended the step. What is no failure, such as a RolledBack, is raised again
        step: the step; by default the one that the error ended
        able: the strategies that the loop can carry out. Where the policy wants another one, that is an Escalated
        idempotent: the step may be done twice under its key to the same effect as once
        effects: what the failed attempt left: none, partial, complete or unknown, by default as the error says
        probe: a function that says whether the step had its effect: True, False, or None if it does not know
        model: the model that the step used

        The actions of a step count together until the step is confirmed, through crashes, too. The error is an
        Escalated if a person has to decide, and a RolledBack if work of the run is undone meanwhile.
        """
        asked = Recovery(error, step, able=able, idempotent=idempotent, effects=effects, probe=probe, model=model)
        while True:
            wait_ms, action = asked.ask()
            self._wait(asked.step.run, wait_ms)
            if action is not None:
                return action

    async def recover_async(self, error: BaseException, step: Step | None = None, *, able: Iterable[str] = ("retry",), idempotent: bool = False,
                            effects: str = "", probe: Callable[[Step], bool | None] | None = None, model: str = "") -> Action:
        """`recover` for a task. The probe is called in another thread."""
        asked = Recovery(error, step, able=able, idempotent=idempotent, effects=effects, probe=probe, model=model)
        while True:
            wait_ms, action = await in_thread(asked.ask)
            await asyncio.sleep(wait_ms / 1000)
            if action is not None:
                return action

    def _wait(self, run: Run, wait_ms: int) -> None:
        """Waits, or raises a RolledBack of the run."""
        till = time.monotonic() + wait_ms / 1000
        while True:
            run.check()
            rest = till - time.monotonic()
            if rest <= 0:
                return
            with self.changed:
                self.changed.wait(min(rest, 1.0))

    def obey(self, timeout: float | None = None) -> dict[str, str]:
        """Waits until nothing is left to undo, and the incidents that the agent signaled are over.

        Returns the executions of the agent that were undone and that it was not told of before, with the
        result of each. `timeout` is in seconds; after it the error is an Unreachable that says what the
        incident waits for. Once the agent is closed the error is a StateError.
        """
        if self.active and any(run.inside() for run in self._runs):
            raise InputError("obey: called in a step", "leave the step first: a rollback waits for its end")
        if self._obeys():
            raise InputError("obey: called in a hook", "let the hook end first: the rollback waits for its end")
        self.follow()
        self._poke()
        till = None if timeout is None else time.monotonic() + timeout
        pause, waiting = 0.05, set(self._signalled)
        while True:
            self._raise()
            if self._closing:
                raise StateError("the agent was closed")
            for incident in list(waiting):
                if self.ledger.incident(incident)["state"] in OVER:
                    waiting.discard(incident)
            if not waiting and self._quiet():
                return self._told_by_return()
            if till is not None and time.monotonic() > till:
                why = "; ".join(f"incident {n} waits for {self.ledger.incident(n).get('waits_for', 'the agent')}" for n in sorted(waiting))
                raise Unreachable(f"obey: not over after {timeout:g} s: {why or 'the agent has work to undo'}", "wait longer, or approve the plan")
            with self.changed:
                self.changed.wait(pause)
            pause = min(pause * 1.5, 1.0)

    def _obeys(self) -> bool:
        """Whether the caller is a hook of this agent, whose end the thread that obeys waits for."""
        return self._thread is threading.current_thread() or self._registry.inside()

    def _quiet(self) -> bool:
        with self.changed:
            return self._core.idle() and self._core.look_at > now_ms() - 1 and self._core.looking.tries == 0 and all(
                n in self._settled for n in self._affected)

    def _told_by_return(self) -> dict[str, str]:
        with self.changed:
            found: dict[str, str] = {}
            for incident, names in self._affected.items():
                new = [n for n in sorted(names) if (incident, n) not in self._returned and not self._was_told(incident, n)]
                found.update({f"{self.name}#{n}": self._results.get((incident, n), "unknown") for n in new})
                self._returned.update((incident, n) for n in new)
            for run in self._runs:
                for incident in self.pending(run.name):
                    self.mark_told(run.name, [incident])
            return found

    def _was_told(self, incident: int, local: str) -> bool:
        record = self.records.steps.get(local)
        return record is not None and local in self.records.run(record.run)["told"].get(str(incident), [])

    def close(self) -> None:
        """Ends the thread that obeys, and gives the state free. What was stored is sent next time."""
        self._closing = True
        with self.changed:
            self.changed.notify_all()
        if self._thread is not None and not self._obeys():
            self._interrupt()
            self._thread.join()
        if self.ledger.accepted is not None:
            self._store.save("head", {"head": self.ledger.accepted.note})
        self.ledger.close()
        self._store.close()

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The thread that obeys

    def follow(self) -> None:
        """Begins to obey in the background, unless it has begun."""
        with self.changed:
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name=f"obey {self.name}", daemon=True)
                self._thread.start()

    def serve(self) -> None:
        """Obeys until the agent is closed. The error is a Forked or a StateError."""
        self.follow()
        with self.changed:
            while not self._closing:
                self._raise()
                self.changed.wait(1.0)

    def _poke(self) -> None:
        self._core.look_at = 0
        self._interrupt()

    def _interrupt(self) -> None:
        """Ends a long poll. A request that writes goes on."""
        if self._thread is not None and self._polling:
            self.ledger.interrupt(self._thread)

    def _loop(self) -> None:
        failures, size = 0, 0
        try:
            while not self._closing:
                soon = self._core.step(now_ms())
                self._settle()
                if soon <= now_ms():
                    continue
                self._flush()
                try:
                    wait = min(max(soon - now_ms(), 1), 25_000)
                    self._polling = True
                    heard = self.ledger.commands(self.name, size, wait)
                    self._core.heard, self._core.look_at, size, failures = heard, 0, heard["size"], 0
                except Forked as why:
                    self._core.forked(why)
                except LedgerError:
                    failures += 1
                    with self.changed:
                        self.changed.wait(min(0.1 * 2 ** min(failures, 9), 30.0))
                finally:
                    self._polling = False
        except Stopped as why:
            self._failure = why.__cause__ if isinstance(why.__cause__, LedgerError) else StateError(str(why))
        except LedgerError as why:
            self._failure = why
        finally:
            with self.changed:
                self.changed.notify_all()

    def _raise(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _event(self, event: Event) -> None:
        if event.kind == "accepted":
            order = self._core.orders[event.incident]
            with self.changed:
                names = self._affected.setdefault(event.incident, set())
                self._settled.discard(event.incident)
                for c in order.commands:
                    local = c.exec.split("#", 1)[1]
                    names.add(local)
                    if c.result or c.method == "none":
                        self._results[event.incident, local] = c.result or "not_executed"
                self.changed.notify_all()
        if event.kind == "outcome":
            with self.changed:
                local = event.exec.split("#", 1)[1]
                self._results[event.incident, local] = event.text
                self._affected.setdefault(event.incident, set()).add(local)
                self._settled.discard(event.incident)
                self.changed.notify_all()
        for listener in self._listeners:
            listener(event)

    def _settle(self) -> None:
        """Notes which incidents have nothing left to undo here, and tells their runs."""
        told: list[tuple[Run, RolledBack]] = []
        with self.changed:
            for incident, names in self._affected.items():
                if incident not in self._settled and self._is_settled(incident):
                    self._mark_undone(incident, names)
                    self._settled.add(incident)
                    told += [(run, self.rolled_back(run.name, [incident])) for run in self._runs if incident in self.pending(run.name)]
                    self.changed.notify_all()
        for run, what in told:
            run.tell(what)

    def _is_settled(self, incident: int) -> bool:
        core = self._core
        order = core.orders.get(incident)
        if incident in core.asks or any(w.incident == incident and w.phase != CLOSED for w in core.works):
            return False
        if order is None:  # of an earlier process: what is left to do there, the server hints at
            return core.hinted_at > 0 and incident not in core.hinted
        return all(c.result or c.method == "none" or core.covering(incident, c) is not None for c in order.commands)

    def _mark_undone(self, incident: int, names: set[str]) -> None:
        for local in names:
            record, result = self.records.steps.get(local), self._results.get((incident, local), "")
            if record is not None and result and record.undone != result:
                record.undone = result
                self.records.save(record)

    def _recall(self) -> None:
        """Takes up what an earlier process undid and did not note at its steps."""
        results = {"restore": "restored", "compensate": "compensated", "cancel": "not_executed"}
        for work in self._core.all:
            if work.phase == CLOSED and work.status == "done" and work.hook in results:
                names = {m["exec"].split("#", 1)[1] for m in work.members}
                self._affected.setdefault(work.incident, set()).update(names)
                self._results.update({(work.incident, name): results[work.hook] for name in names})
        for incident, names in self._affected.items():
            self._mark_undone(incident, names)

    def _drained(self, local: str) -> str:
        """Waits until a step under way has ended; what is to be logged of one that no process is in."""
        with self.changed:
            while self.active.get(local):
                self.changed.wait()
            record = self.records.steps.get(local)
            if record is None or record.progress in FINAL or record.progress == "refused":
                return ""
            record.progress, record.outbox = "failed", []  # a process that was killed was in it
            self.records.save(record)
            return "failed"

    # What runs use

    def pending(self, run: str) -> list[int]:
        """The incidents that undo work of a run which the run was not told of."""
        with self.changed:
            told = self.records.run(run)["told"]
            mine = {r.exec for r in self.records.steps.values() if r.run == run}
            return [n for n, names in sorted(self._affected.items()) if (names & mine) - set(told.get(str(n), []))]

    def holds(self, holder: int, incidents: list[int]) -> bool:
        """Whether a task or thread is in a step that incidents undo."""
        with self.changed:
            names = set[str]().union(*(self._affected[n] for n in incidents))
            return any(self.active.get(name) == holder for name in names)

    def await_settled(self, incidents: list[int]) -> None:
        """Waits until nothing of incidents is left to undo here."""
        with self.changed:
            while not all(n in self._settled for n in incidents):
                self._raise()
                if self._closing:
                    raise StateError("the agent was closed")
                self.changed.wait(0.5)

    def rolled_back(self, run: str, incidents: list[int]) -> RolledBack:
        """What is to be told of settled incidents to a run."""
        with self.changed:
            mine = {r.exec for r in self.records.steps.values() if r.run == run}
            undone = {f"{self.name}#{n}": self._results.get((i, n), "unknown") for i in incidents for n in sorted(self._affected[i] & mine)}
            backs = [w for w in self._core.all if w.hook == RESTORE and w.incident in incidents and w.status == "done" and w.members[0]["wid"] == run]
            if not backs:
                return RolledBack(incidents, undone, None, None)
            name = backs[-1].checkpoint.split("#", 1)[1].removeprefix(run + "/")
            return RolledBack(incidents, undone, name, self.state_of(run, backs[-1].checkpoint)[1])

    def mark_told(self, run: str, incidents: list[int]) -> None:
        """Notes that a run was told of incidents."""
        with self.changed:
            kept = self.records.run(run)
            kept["told"].update({str(n): sorted(self._affected[n]) for n in incidents})
            self.records.save_run(run)

    def state_of(self, run: str, checkpoint: str) -> tuple[str, Any]:
        """Digest and state of a checkpoint that the agent kept; an empty digest if it kept none."""
        local = checkpoint.split("#", 1)[1]
        kept = self.records.run(run)["checkpoints"].get(local)
        if not kept or not kept.get("file"):
            return "", None
        try:
            data = (self._store.path / "checkpoints" / kept["file"]).read_bytes()
        except OSError:
            return "", None
        return self.digest(data), data if kept["raw"] else json.loads(data)

    def digest(self, data: bytes) -> str:
        """The keyed digest of a state: who guesses the state cannot test the guess by the log."""
        return "hmac-sha256:" + hmac.new(self._config.secret, b"state|" + data, hashlib.sha256).hexdigest()

    def keep_state(self, data: bytes) -> str:
        """Stores the state of a checkpoint; the name of its file."""
        folder = self._store.path / "checkpoints"
        folder.mkdir(exist_ok=True, mode=0o700)
        name = hashlib.sha256(data).hexdigest()
        if not (folder / name).exists():
            write_file(folder / name, data)
        return name

    def key(self, record: Record) -> str:
        """The idempotency key of a step: the same until the step was undone."""
        text = f"step|{self._config.root['origin']}|{exec_of(record)}|{record.ordinal}"
        return hmac.new(self._config.secret, text.encode(), hashlib.sha256).hexdigest()

    def sign(self, kind: str, body: dict[str, Any]) -> str:
        """The signed envelope of an entry."""
        return self._signer.sign(kind, body, now_ms())

    def signalled(self, incident: int) -> None:
        """Has `obey` wait for an incident."""
        self._signalled.add(incident)
        self._poke()

    def join(self, run: Run) -> None:
        """Takes up a run, and begins to obey."""
        with self.changed:
            self._raise()
            self._runs.append(run)
        self.follow()

    def leave(self, run: Run) -> None:
        """Ends a run."""
        with self.changed:
            self._runs.remove(run)

    def send(self, envelope: str, resigned: Callable[[str], None], held: Callable[[Refused], None] | None = None) -> dict[str, Any]:
        """Sends an envelope until the log has it. `resigned` stores another one, if the first became too old.

        `held` waits while a fence refuses it. The error is a Refused, or an Unreachable.
        """
        till, pause, fenced = time.monotonic() + self.patience, 0.1, 0
        while True:
            self._raise()
            try:
                return self.ledger.submit(envelope, attempts=1)
            except Refused as why:
                if why.problem == "stale":  # it was not registered before: that would have been told first
                    kind, body = body_of(envelope)
                    envelope = self.sign(kind, body)
                    resigned(envelope)
                    continue
                if why.problem == "fenced-dependency" and held is not None and fenced < 3:
                    fenced += 1
                    held(why)
                    till = time.monotonic() + self.patience
                    continue
                if not why.temporary or time.monotonic() > till:
                    raise
                time.sleep(max(pause, min(why.retry_after_ms / 1000, 30.0)))
            except Unreachable:
                if time.monotonic() > till:
                    raise
                time.sleep(pause)
            pause = min(2 * pause, 5.0)

    def send_end(self, record: Record) -> None:
        """Sends what the log may not have of a step that has ended."""

        def resigned(envelope: str) -> None:
            record.outbox[0] = envelope
            self.records.save(record)

        while record.outbox:
            try:
                record.ended = self.send(record.outbox[0], resigned)["index"]
            except Refused as why:
                if why.problem not in ("state-conflict", "fenced-dependency"):
                    raise
            record.outbox = record.outbox[1:]
            self.records.save(record)

    def _flush(self) -> None:
        """Sends the ends of steps that an earlier process, or an earlier answer, left unsent."""
        with self.changed:
            unsent = [r for r in self.records.steps.values() if r.outbox and r.progress in FINAL and not self.active.get(r.exec)]
        for record in unsent:
            try:
                self.send_end(record)
            except LedgerError:
                return  # the next time


def exec_of(record: Record) -> str:
    """What names a step whatever its generation."""
    return f"{record.run}/{record.name}:{record.id}"


def connect(name: str, *, key: str | os.PathLike[str], url: str | None = None, root: str | os.PathLike[str] | dict[str, Any] | None = None,
            state: str | os.PathLike[str] | None = None, secret: str | os.PathLike[str] | None = None, confirm: str | None = None,
            absences: bool = False, new: bool | None = None, patience: float = PATIENCE_S, limit: float = 600.0) -> Agent:
    """Connects an agent to its ledger.

    name: the principal, as `arl agent enrol --principal` names it
    key: the file of its private key, as `arl key generate` writes it
    url, root: the ledger, and the file of its pinned root, as `arl root show --out` writes it;
        by default those of the profile in ARL_HOME
    state: the directory of its state, by default KEY.state. It lies outside of all that is restored,
        and is not restored from a backup
    secret: the file of the secret that makes idempotency keys, by default KEY.secret. It outlives the state
    confirm: a second source of a tree head for the first contact: a file, or the URL of a mirror. By
        default the tree head that the pinned root carries
    absences: obey only bundles that prove that nothing is left out
    new: whether the agent never ran. By default an agent without state and secret never ran; without
        a state, but with a secret, its state is lost: what was open counts as started
    patience: how long a step waits for a ledger that does not answer, in seconds
    limit: the time of a hook, in seconds

    The error is an InputError or a StateError.
    """
    found = trust.find(url, root)
    loaded, base = load_key(key), os.fspath(key)
    secret_file, path = pathlib.Path(secret or base + ".secret"), pathlib.Path(state or base + ".state")
    store = Store(path)
    try:
        return _open(name, found, loaded, store, secret_file, new=new, confirm=confirm, absences=absences, patience=patience, limit=limit)
    except BaseException:
        store.close()
        raise


def _open(name: str, found: trust.Found, key: Any, store: Store, secret_file: pathlib.Path, *, new: bool | None, confirm: str | None,
          absences: bool, patience: float, limit: float) -> Agent:
    names = store.names()
    never = not names and not secret_file.exists() if new is None else new
    if new and "agent" in names:
        raise StateError(f"state {store.path}: an agent ran with it", "leave new= out")
    secret = trust.secret(secret_file, make=never or not names and not secret_file.exists())
    ledger = Ledger(found.url, found.root, tls_ca=found.tls_ca, keep=_Keeper(store))
    head = found.root.get("head")
    if "head" in names:
        head = store.load("head")["head"]
    if head:
        ledger.accepted = ledger.open(head)
    source = trust.second(confirm, found) if confirm else (lambda: str(found.root["head"])) if found.root.get("head") else None
    registry = Registry(limit)
    config = Config(found.root, name, secret, Signer(name, found.root["origin"], key), ledger, store, Hooks(), lambda _: None, source, absences)
    if "agent" not in names:
        identity = {"origin": found.root["origin"], "genesis": found.root["genesis"], "agent": name, "made_at": now_ms(),
                    "lost": not never, "horizon": 0 if never else 1 << 62, "before": 0}
        store.save("agent", identity)
    return Agent(config, registry, patience)


class _Keeper:
    """Stores the accepted head now and then: an older one proves a fork no less."""

    def __init__(self, store: Store) -> None:
        self._store, self._at = store, 0.0

    def __call__(self, head: Head) -> None:
        if time.monotonic() - self._at > KEEP_HEAD_S:
            self._at = time.monotonic()
            self._store.save("head", {"head": head.note})


