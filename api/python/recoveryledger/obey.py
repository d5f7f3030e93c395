"""The runtime that obeys proven decisions: protocol.md, section 7, AGT-1 to AGT-5.

The runtime is a state machine without a thread, a clock or randomness of its own. `step` does at
most the next thing. Entries are signed and stored before they are sent, so that the same bytes are
sent until the log has them.
"""

from __future__ import annotations

from typing import Any

from .base import Event, Stopped
from .begin import Beginner
from .errors import Forked, LedgerError, Refused
from .look import LOOK_MS, Did, earlier
from .signing import body_of, read
from .work import (
    CLOSED, COMPENSATE, CRASH_FACTOR, DONE, DRAIN, KEYS_LOST, KEYS_MAX, NOTED, PROBES_MAX, RESTORE, STARTED, Memory, Report,
    StillRunning, Work,
)


class Obeyer(Beginner):
    """An agent that obeys."""

    looked = False

    def step(self, now: int) -> int:
        """Does at most the next thing at a time in Unix milliseconds; when it wants to be called again.

        The error is Stopped: the state failed, or the ledger has forked.
        """
        if self.stopped is not None:
            raise Stopped from self.stopped
        self.works = [work for work in self.works if work.phase != CLOSED]
        todo = [self.look, self.log, self.reconcile, self.ask, self.confirm_head, self.begin, self.follow_log, self.unannounced]
        if self.looked:  # the rest has its turn, however often something is new
            todo = todo[1:] + todo[:1]
        soon = now + LOOK_MS
        for place, attempt in enumerate(todo):
            did, wake = attempt(now)
            if did:
                self.looked = place == 0 and not self.looked or place == len(todo) - 1 and self.looked
                return now
            if wake > now:
                soon = min(soon, wake)
        return soon

    def idle(self) -> bool:
        """Whether the log has the entries of every undertaking, and nothing is to be asked."""
        return not self.asks and all(work.phase == CLOSED for work in self.works)

    # What is to be logged

    def log(self, now: int) -> Did:
        """Submits the first entry of an outbox that has waited long enough."""
        wake = 0
        for work in self.works:
            if work.mem.sent >= len(work.outbox) or work.phase == CLOSED:
                continue
            if work.aside() and self._learned(work) > work.mem.known:
                work.mem.wait_till = work.mem.pauses = work.mem.refusals = 0
            if work.mem.wait_till > now:
                wake = earlier(wake, work.mem.wait_till)
                continue
            if work.phase == NOTED and not self.may_prepare(work, now):
                continue
            self._submit(work, now)
            return True, 0
        return False, wake

    def _submit(self, work: Work, now: int) -> None:
        envelope = work.outbox[work.mem.sent]["envelope"]
        kind, body = read(envelope)
        try:
            ref = self.cfg.ledger.submit(envelope, attempts=1)
        except LedgerError as why:
            self._unsent(work, (kind, body), why, now)
            return
        self.cfg.tell(Event("logged", work.incident, work.members[0]["exec"], describe(kind, body)))
        if kind == "outcome":
            self.stands[body["incident"], body["exec"]] = {"index": ref["index"], "leaf_hash": ref["leaf_hash"]}
            self.cfg.tell(Event("outcome", body["incident"], body["exec"], body["result"]))
        self._sent(work)

    def _sent(self, work: Work) -> None:
        """Passes over an entry that the log has, or can do without."""
        work.mem.sent += 1
        work.mem.pauses = work.mem.refusals = work.mem.named = 0
        if work.mem.sent < len(work.outbox) or work.phase != DONE:
            return
        work.phase, work.outbox, work.mem.sent = CLOSED, [], 0
        self.look_at = 0  # what comes after it may be released now
        self.save(work.name, work.document())

    def _unsent(self, work: Work, entry: tuple[str, dict[str, Any]], why: LedgerError, now: int) -> None:
        """Handles an entry that the ledger did not take, or may not have taken."""
        if isinstance(why, Forked):
            self.forked(why)
        what, name = describe(*entry), work.members[0]["exec"]
        if not isinstance(why, Refused) or why.temporary:
            work.pause(now, why.retry_after_ms if isinstance(why, Refused) else 0)
            self.cfg.tell(Event("retry", work.incident, name, what, why))
            return
        if why.problem == "stale":  # it was not registered before: that would have been told first
            self._again(work, now)
            return
        self.cfg.tell(Event("refused", work.incident, name, what, why))
        if why.problem == "unknown-issuer":  # its key counts no more: the agent gets another one
            work.pause(now, why.retry_after_ms)
            self._again(work, now)
        elif work.outbox[work.mem.sent]["optional"]:
            self._sent(work)
        elif work.phase == NOTED and why.problem == "state-conflict" and why.field == "progress":
            self._older(work, now)
        else:
            work.mem.refusals += 1
            work.mem.known = max(work.mem.known, self._learned(work))
            work.pause(now, why.retry_after_ms)
            self.want_bundle(work.incident)
            if entry[0] == "outcome":
                self._outcome_refused(work, entry[1], why, now)

    def _older(self, work: Work, now: int) -> None:
        """The log has a compensation that this state was only about to announce: it is an older copy."""
        self.repair(now, [f"{work.name}: the log is ahead of it, the state is an older copy"], [])
        work.lost, work.phase, work.outbox, work.mem = True, STARTED, [], Memory()
        self.save(work.name, work.document())
        self.settle()

    def _learned(self, work: Work) -> int:
        """Index of the newest thing that was accepted and that a refusal may have rested on."""
        newest = [self.overridden_at(work.incident)]
        if work.incident in self.orders:
            newest.append(self.orders[work.incident].decision["index"])
        newest += [link["index"] for link in self.accepted["links"][-1:]]
        newest += [self.stands[work.incident, m["exec"]]["index"] for m in work.members if (work.incident, m["exec"]) in self.stands]
        return max(newest)

    def _outcome_refused(self, work: Work, body: dict[str, Any], why: Refused, now: int) -> None:
        """Says the same again in the place of what stands, or the least that is sure."""
        if why.field == "supersedes":
            self._other_place(work, body, now)
        elif why.field in ("comp_exec", "post_digest", "result"):
            if body["result"] not in ("unknown", "failed"):
                self._again(work, now, f"the agent reports {body['result']}, which the ledger does not take: {why.what}")
            elif why.field == "result":  # the log has one already that is no less sure
                self._sent(work)

    def _other_place(self, work: Work, body: dict[str, Any], now: int) -> None:
        """Says the same again in the place of the next that may stand, at last of nothing."""
        known = self.standing(body)
        if "supersedes" in body:
            work.mem.named = known.index(body["supersedes"]) + 1 if body["supersedes"] in known else 0
        elif work.mem.named > 0 or not known:
            work.mem.named = 0
            self.next = min(self.next, work.incident) or self.next
            if known:
                self._again(work, now)
            return
        if not work.aside():
            work.mem.wait_till = now
        self._again(work, now)

    def _again(self, work: Work, now: int, unknown: str = "") -> None:
        """Makes the next entry of an outbox under a new header, and stores it."""
        item = work.outbox[work.mem.sent]
        kind, body = body_of(item["envelope"])
        if kind == "outcome":
            if unknown:
                body = {name: value for name, value in body.items() if name not in ("comp_exec", "post_digest")}
                body.update(result="unknown", residual=unknown[:1000])
            self.supersede(body, work.mem.named)
        item["envelope"] = self.cfg.signer.sign(kind, body, now)
        self.save_work(work)

    # What was started

    def reconcile(self, now: int) -> Did:
        """Finds out what became of something that was started and has not ended."""
        wake = 0
        for work in list(self.works):
            if work.phase != STARTED:
                continue
            if work.mem.wait_till > now:
                wake = earlier(wake, work.mem.wait_till)
                continue
            if self.probeable(work) and work.mem.probes < PROBES_MAX:
                self.run(work, True, now)
            elif not self.probeable(work) and self.repeatable(work):
                over = min(work.expires_at, work.deadline_at)
                overridden = self.overridden_at(work.incident) > work.decision["index"]
                if now < over and self.in_force(work.incident, now) is None and not overridden:
                    wake = earlier(wake, over)
                    continue  # until the decision is seen again
                self._rerun(work, now)
            else:
                self.finish(work, Report("unknown"), now)
            return True, 0
        return False, wake

    def _rerun(self, work: Work, now: int) -> None:
        """Runs a repeatable hook again, if the decision still stands."""
        o = self.in_force(work.incident, now)
        if o is None or now >= work.deadline_at or work.mem.probes >= 2 * PROBES_MAX:
            self.finish(work, Report("unknown"), now)
            return
        for m in work.members:
            c = o.command(m["exec"])
            moved = work.hook == RESTORE and c is not None and c.checkpoint != work.checkpoint
            if c is None or c.refused or c.result or c.method != m["method"] or moved:
                self.finish(work, Report("unknown"), now)
                return
        if o.decision != work.decision:  # amended meanwhile: it runs by what stands now
            work.decision, work.epoch, work.expires_at, work.deadline_at = o.decision, o.epoch, o.expires_at, o.deadline_at
            self.save_work(work)
        work.mem.probes += 1
        self.run(work, False, now)

    def run(self, work: Work, probe: bool, now: int) -> None:
        """Calls a hook, or Probe about it, and takes up what it reports."""
        hook = "probe" if probe else work.hook
        function = self.cfg.hooks.of(hook)
        assert function is not None
        if probe:
            work.mem.probes += 1
        name = work.members[0]["exec"]
        try:
            report = function(self.call(work, probe))
        except StillRunning as why:  # it may still act: nothing else may
            self.cfg.tell(Event("ended", work.incident, name, f"{hook} unknown", why))
            self.finish(work, Report("unknown", residual=str(why)), now)
            return
        except Exception as why:  # noqa: BLE001: whatever a hook raises, it may have done anything
            self.cfg.tell(Event("retry", work.incident, name, hook, why))
            work.error = f"{hook} raised {type(why).__name__}: {why}"
            work.pause(now)
            return
        self.cfg.tell(Event("ended", work.incident, name, f"{hook} {report.status}"))
        if report.status == "no_effect" and not probe:
            work.vain += 1
        if report.status == "unknown":
            if probe and self.repeatable(work):
                self._rerun(work, now)
                return
            if not probe and self.probeable(work):
                work.pause(now)
                return
        self.finish(work, report, now)

    def finish(self, work: Work, r: Report, now: int) -> None:
        """Notes how a hook ended, with the entries that report it."""
        work.phase, work.status, work.outbox, work.mem = DONE, r.status, [], Memory()
        if work.hook == COMPENSATE:
            self._compensated(work, r, now)
        elif work.hook == DRAIN and r.status == "done":
            work.progress = r.progress
            if r.progress and work.first:
                kind, body = body_of(work.first)
                body.pop("crit", None)
                self.entry(work, kind, {**body, "progress": r.progress}, True, now)  # refused if it is logged already
            work.phase = DONE if work.outbox else CLOSED
        elif r.status == "unknown":
            self._say(work, "unknown", r.residual or work.error or f"{work.hook} was started and did not end: its effect is unknown", now)
        elif r.status == "failed":
            self._say(work, "failed", r.residual, now)
        elif r.status == "no_effect":
            self._try_again(work, r, now)
        elif work.hook == RESTORE and r.digest != work.digest:
            self._say(work, "failed", f"the state afterwards has digest {r.digest}, the checkpoint {work.digest}", now)
        else:
            self._say(work, "restored" if work.hook == RESTORE else "not_executed", "", now)
        self.save(work.name, work.document())

    def _say(self, work: Work, result: str, why: str, now: int) -> None:
        for member in work.members:
            self.outcome(work, member, result, why, now)

    def _try_again(self, work: Work, r: Report, now: int) -> None:
        """Has what had no effect begin again, as often as that is wanted."""
        work.lost = False
        if self._spent(work):
            self._say(work, "failed", r.residual or "no attempt had an effect", now)
            return
        work.attempt += 1
        work.phase, work.mem.pauses = NOTED, work.attempt - 1
        work.pause(now)

    def _spent(self, work: Work) -> bool:
        """Whether something that had no effect is not tried again."""
        begun = work.attempt % KEYS_LOST + 1
        return work.vain >= self.cfg.attempts or begun >= min(CRASH_FACTOR * self.cfg.attempts, KEYS_LOST)

    def _compensated(self, work: Work, r: Report, now: int) -> None:
        """Notes how a compensation ended: its execution and the outcome."""
        if work.lost and r.status == "done":  # the log may lack what came before
            self.compensation(work, "planned", True, now)
            self.compensation(work, "started", True, now)
        if r.status == "done":
            self.compensation(work, "confirmed", True, now)
            self._say(work, "compensated", "", now)
        elif r.status == "unknown":
            self._say(work, "unknown", r.residual or work.error or "compensate was started and did not end: its effect is unknown", now)
        elif r.status == "failed":
            self.compensation(work, "failed", True, now)
            self._say(work, "failed", r.residual, now)
        else:
            self._attempt_again(work, r, now)

    def _attempt_again(self, work: Work, r: Report, now: int) -> None:
        """Prepares another attempt under the next key: the one before had no effect (EXE-4)."""
        if not work.lost:
            self.compensation(work, "failed", True, now)
        if work.lost and work.attempt + 1 < KEYS_MAX:  # Probe was asked about every attempt that there may have been
            work.lost = False
            work.attempt = max(work.attempt, KEYS_LOST - 1)
            work.vain = self.cfg.attempts - 1
        elif work.lost or self._spent(work):
            self._say(work, "failed", r.residual or "no attempt had an effect", now)
            return
        work.attempt += 1
        work.phase, work.mem.pauses = NOTED, 0
        work.pause(now)
        work.comp_exec = ""
        self.prepare(work, now)


def describe(kind: str, body: dict[str, Any]) -> str:
    """An entry of the agent in words."""
    if kind == "outcome":
        return f"outcome {body['result']} of {body['exec']}"
    return f"{body.get('exec', kind)} {body.get('progress', '')}".strip()


