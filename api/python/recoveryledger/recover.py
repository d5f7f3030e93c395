"""What a loop does about a failed step: the policy in force says whether to wait, to try again, or to give up."""

from __future__ import annotations

import errno
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Iterable

from .errors import InputError, LedgerError, RolledBack

if TYPE_CHECKING:
    from .run import Step

ATTEMPTS = ("retry", "retry_altered", "fallback_model", "state_reset", "fail_reassign", "checkpoint_resume")
EFFECTS = ("none", "partial", "complete", "unknown")
MAX_TEXT, MAX_CODE = 4096, 64  # bytes
MAX_WAIT = 9007199254740991 // 1000  # seconds that a Retry-After may say
FAILED_IN = "_recoveryledger_step"  # the attribute of an exception that ended a step
MAX_WRAPPERS = 16  # that stand around a cause
WRAPPERS = ("Exception", "RuntimeError", "BaseException")  # names that say nothing of the cause
Probe = Callable[["Step"], "bool | None"]


@dataclass(frozen=True)
class Action:
    """What the policy decided about a failure.

    `strategy` is retry, or one of those that `able` names: then `variant` (of retry_altered), `scope` (of
    state_reset) and `model` say how the attempt differs. `done` says that the step had its effect after
    all, as the probe found: do not do it again. `failure` is class and code, `rule` the place in the
    policy, `reason` why, `wait_ms` the pause that has passed, `remediation` the policy's advice to people.
    """

    strategy: str
    reason: str
    rule: str
    failure: str
    variant: str = ""
    scope: str = ""
    model: str = ""
    verify: bool = False
    done: bool = False
    severity: str = ""
    wait_ms: int = 0
    remediation: str = ""


class Escalated(Exception):  # noqa: N818: it tells a loop something, and is no failure of the package
    """The policy has nothing more for the loop to do: a person decides. `__cause__` is the error.

    `action` is what the policy decided. `incident` is the incident that the package opened, where the
    action is a rollback; otherwise None.
    """

    def __init__(self, action: Action, incident: int | None = None) -> None:
        super().__init__(f"{action.failure}: {action.strategy}: {action.reason} ({action.rule})" + (f"; {action.remediation}" if action.remediation else ""))
        self.action, self.incident = action, incident


class Recovery:
    """The questions about one failure of a step. Each answer is carried out before the next question."""

    def __init__(self, error: BaseException, step: Step | None, *, able: Iterable[str], idempotent: bool, effects: str, probe: Probe | None,
                 model: str) -> None:
        if isinstance(error, (RolledBack, Escalated, LedgerError)) or not isinstance(error, Exception):
            raise error
        found = step if step is not None else getattr(error, FAILED_IN, None)
        if found is None:
            raise InputError("recover: no step ended with this error", "pass the step as step=") from error
        self.step: Step = found
        self.error, self._able, self._probe = error, frozenset(able), probe
        if unknown := sorted(self._able.difference(ATTEMPTS)):
            raise InputError(f"recover: able {', '.join(unknown)}", f"able has some of {', '.join(ATTEMPTS)}") from error
        if effects and effects not in EFFECTS:
            raise InputError(f"recover: effects {effects!r}", f"effects are one of {', '.join(EFFECTS)}") from error
        record = self.step.record
        self._run = self.step.run
        self._kept = self._run.agent.records.run(record.run).setdefault("recoveries", {})
        self._name = f"{record.name}:{record.id}:{record.ordinal}"
        self._past: dict[str, Any] = self._kept.setdefault(self._name, {"started_at": time.time_ns() // 1_000_000, "rungs": []})
        failure = {"effects": effects} if effects else {}
        self._history: dict[str, Any] = {
            "case": record.run, "step": record.name + (f":{record.id}" if record.id else ""), "effect": record.effect, "failure": failure,
            "idempotent": idempotent, "rungs": self._past["rungs"], "started_at": self._past["started_at"]}
        if model:
            self._history["model"] = model

    def ask(self) -> tuple[int, Action | None]:
        """Asks once. Returns how long to wait, in milliseconds, and then what to do; None: ask again."""
        elapsed = max(time.time_ns() // 1_000_000 - self._past["started_at"], 0)
        decision = self._run.agent.ledger.decide({"history": self._history, "error": raw_of(self.error), "elapsed_ms": elapsed})
        action = _action(decision)
        if action.strategy == "wait":
            self._did(decision, "ok")
            return action.wait_ms, None
        if action.strategy == "reconcile":
            return action.wait_ms, self._reconciled(decision, action)
        if action.strategy in ATTEMPTS and action.strategy in self._able:
            self._did(decision, "failed")  # so it counts if there is a next question
            return action.wait_ms, action
        incident = None
        if action.strategy == "rollback":
            incident = self._run.signal(self.step, action.failure)
        raise Escalated(action, incident) from self.error

    def _reconciled(self, decision: dict[str, Any], action: Action) -> Action | None:
        found = self._probe(self.step) if self._probe is not None else None
        self._history["probe"] = "complete" if found is True else "none" if found is False else "unknown"
        self._did(decision, "ok")
        return _action(decision, done=True) if found is True else None

    def _did(self, decision: dict[str, Any], result: str) -> None:
        """Notes an action, so that it counts after a crash, too."""
        self._past["rungs"].append({**decision["rung"], "result": result})
        self._run.agent.records.save_run(self._run.name)


def forget(step: Step) -> None:
    """Forgets the failures of a step that is confirmed."""
    record = step.record
    kept = step.run.agent.records.run(record.run).get("recoveries", {})
    if kept.pop(f"{record.name}:{record.id}:{record.ordinal}", None) is not None:
        step.run.agent.records.save_run(record.run)


def note(error: BaseException | None, step: Step) -> None:
    """Notes at an exception which step it ended. Some exceptions take no attribute."""
    try:
        setattr(error, FAILED_IN, step)
    except Exception:  # noqa: BLE001: recover asks for the step then
        pass


def _action(decision: dict[str, Any], *, done: bool = False) -> Action:
    action, rule, failure = decision["action"], decision["rule"], decision["failure"]
    place = rule["id"] if rule["rung"] < 0 else f"{rule['id']}[{rule['rung']}]"
    return Action(
        action["strategy"], action["reason"], place, f"{failure['class']}.{failure['code']}", action.get("variant", ""), action.get("scope", ""),
        action.get("model", ""), action.get("verify", False), done, action.get("severity", ""), action.get("wait_ms", 0), decision.get("remediation", ""))


def raw_of(error: BaseException) -> dict[str, Any]:
    """What the classifier looks at: the status, the code or the name of an exception, and its text."""
    for _ in range(MAX_WRAPPERS):  # an exception may be its own cause
        if type(error).__name__ not in WRAPPERS or error.__cause__ is None:
            break
        error = error.__cause__
    raw: dict[str, Any] = {}
    response = _of(error, "response")
    numbers = [_of(source, name) for source in (error, response) for name in ("status_code", "status", "code")]
    status = next((n for n in numbers if type(n) is int and 400 <= n < 600), None)
    if status is not None:
        raw["http_status"] = status
    code = _of(error, "code")
    grpc = _of(_call(code), "name")
    if isinstance(grpc, str) and grpc.isupper():
        raw["grpc_code"] = _cut(grpc, MAX_CODE)
    number = _of(error, "errno")
    named = errno.errorcode.get(number, "") if isinstance(error, OSError) and type(number) is int else ""
    name = type(error).__name__
    raw["provider_code"] = _cut(code if isinstance(code, str) and code else named if named and name == "OSError" else name, MAX_CODE)
    after = _retry_after(response if response is not None else error)
    if after is not None:
        raw["retry_after_ms"] = after
    raw["text"] = _cut(_text(error), MAX_TEXT)
    return raw


def _of(source: object, name: str) -> Any:
    try:
        return getattr(source, name, None)
    except Exception:  # noqa: BLE001: a property of others may raise anything
        return None


def _call(value: Any) -> Any:
    try:
        return value() if callable(value) else None
    except Exception:  # noqa: BLE001: a method of others may raise anything
        return None


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001: so may a __str__
        return ""


def _retry_after(source: Any) -> int | None:
    headers = _of(source, "headers")
    try:
        seconds = int(str(headers.get("retry-after")).strip())
    except Exception:  # noqa: BLE001: no headers, none of that name, or a date
        return None
    return seconds * 1000 if 0 <= seconds <= MAX_WAIT else None


def _cut(text: str, most: int) -> str:
    return text.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")
