"""What an agent begins: one hook at a time, each only while its decision stands (AGT-2, AGT-4)."""

from __future__ import annotations

from .base import Event
from .look import Did, Looker, earlier
from .verify.verdict import Command
from .work import (
    CANCEL, CLOSED, COMPENSATE, DONE, DRAIN, KEYS_MAX, NOTED, RESTORE, STARTED, Memory, Order, Report, Work,
)

OVER = "not started: the decision's time is over"
UNDONE = ("restored", "compensated", "not_executed")


class Beginner(Looker):
    """Starts what a decision in force asks for, and answers what cannot be started."""

    def run(self, work: Work, probe: bool, now: int) -> None:
        """Calls a hook, or Probe about it, and takes up what it reports."""
        raise NotImplementedError

    def finish(self, work: Work, r: Report, now: int) -> None:
        """Notes how a hook ended, with the entries that report it."""
        raise NotImplementedError

    # Whether something may start now

    def in_force(self, incident: int, now: int) -> Order | None:
        """The order about an incident if the agent may start work on it now."""
        o = self.orders.get(incident)
        if o is None or not self.accepted["confirmed"] or o.over(now) or o.links != len(self.accepted["links"]):
            return None
        return None if self.epoch(incident, now) > o.epoch or self.ended(incident, o, now) else o

    def ended(self, incident: int, o: Order, now: int) -> str:
        """Why the agent will start nothing more on an order; empty if it still may."""
        at = self.overridden_at(incident)
        if at > o.decision["index"]:
            return f"not started: overridden at entry {at}"
        return OVER if o.over(now) else ""

    def withheld(self, incident: int, c: Command) -> bool:
        """Whether an override gave a member its result."""
        return c.result == "withheld" and any(at["index"] == c.outcome for at in self.overrides.get(incident, []))

    def may_prepare(self, work: Work, now: int) -> bool:
        """Whether the entries that come before a hook may be logged now."""
        o = self.in_force(work.incident, now)
        c = o.command(work.members[0]["exec"]) if o and o.decision == work.decision else None
        return c is not None and not c.result and not c.refused and c.released

    def begin(self, now: int) -> Did:
        """Starts one undertaking that may start, or answers one member that may not."""
        wake = 0
        for work in list(self.works):
            if work.phase != NOTED:
                continue
            if self._prepared(work, now):
                return True, 0
            if work.mem.wait_till > now:
                wake = earlier(wake, work.mem.wait_till)
        for incident in sorted(self.orders):
            o = self.orders[incident]
            why = self.ended(incident, o, now)
            if why:
                if self._withhold(incident, o, why, now):
                    return True, 0
                del self.orders[incident]
                continue
            if self.in_force(incident, now) is None:
                if self.accepted["confirmed"] and o.links != len(self.accepted["links"]):
                    self.want_bundle(incident)
                continue
            wake = earlier(wake, min(o.expires_at, o.deadline_at))
            o.waiting = set()
            if any(self._command(incident, o, c, now) for c in o.commands):
                return True, 0
        return False, wake

    # Answers

    def _withhold(self, incident: int, o: Order, why: str, now: int) -> bool:
        """Answers the next open member that was not started."""
        for c in o.commands:
            if not c.result and c.method != "none" and self.covering(incident, c) is None:
                self._unstarted(incident, o, c, why, now)
                return True
        return False

    def _unstarted(self, incident: int, o: Order, c: Command, why: str, now: int) -> None:
        if self.lost(incident, o.opened_at):
            self._answer(incident, o, c, "unknown", "whether it was started is not known: the state was lost", now)
        else:
            self._answer(incident, o, c, "withheld", why, now)

    def _answer(self, incident: int, o: Order, c: Command, result: str, why: str, now: int) -> bool:
        """Notes what is to be said of a member without a hook."""
        work = self._new(incident, o, "", c)
        work.phase = DONE
        self.outcome(work, work.members[0], result, why, now)
        self.add(work)
        self.save(work.name, work.document())
        return True

    def _new(self, incident: int, o: Order, hook: str, *commands: Command) -> Work:
        """An undertaking about members."""
        c = commands[0]
        members = [{"exec": m.exec, "index": m.index, "wid": m.wid or o.wid, "effect": m.effect, "method": m.method} for m in commands]
        standing = list(dict.fromkeys(name for m in commands for name in m.standing))
        name = f"work-{o.decision['index']}-{c.index}-{hook or 'answer'}"
        return Work(name, hook, self.number + 1, NOTED, incident, o.wid, o.decision, o.epoch, o.expires_at, o.deadline_at, members,
                    checkpoint=c.checkpoint, digest=c.digest, standing=standing, first=o.firsts.get(c.exec, "") if hook == DRAIN else "")

    def covering(self, incident: int, c: Command) -> Work | None:
        """The undertaking that has seen to a member, or is about it."""
        for work in reversed(self.about(c.exec)):
            if work.incident != incident or work.hook == DRAIN and (work.phase != CLOSED or work.status == "done"):
                continue
            if work.hook != DRAIN and not does(work, c):
                continue  # reopened: the line is to go further back
            return work
        return None

    def find(self, incident: int, name: str, hook: str) -> Work | None:
        """The newest undertaking of a hook about a member."""
        return next((w for w in reversed(self.about(name)) if w.incident == incident and w.hook == hook), None)

    # What is prepared already

    def _prepared(self, work: Work, now: int) -> bool:
        """Starts an undertaking that was noted, or withdraws it."""
        o = self.orders.get(work.incident)
        ended = OVER if o is None and now >= min(work.expires_at, work.deadline_at) else ""
        if o is not None:
            ended = self.ended(work.incident, o, now)
        at = self.overridden_at(work.incident)
        if at > work.decision["index"] and not ended:
            ended = f"not started: overridden at entry {at}"
        if ended:
            return self._withdraw(work, "withheld", ended, now)
        o = self.in_force(work.incident, now)
        if o is None:
            return False
        c = o.command(work.members[0]["exec"])
        if c is not None and self.withheld(work.incident, c):
            return self._withdraw(work, "withheld", f"not started: overridden at entry {c.outcome}", now)
        if c is None or c.result:
            return self._withdraw(work, "", "", now)
        if c.refused:
            return self._withdraw(work, "refused", c.refused, now)
        if work.hook != DRAIN and not does(work, c):
            return self._withdraw(work, "", "", now)
        if o.decision != work.decision:
            return self._renew(work, o, now)
        if work.mem.wait_till > now or work.mem.sent < len(work.outbox) or not c.released and work.hook != DRAIN:
            return False
        self._start(work, now)
        return True

    def _withdraw(self, work: Work, result: str, why: str, now: int) -> bool:
        """Ends an undertaking that was not started."""
        work.outbox, work.mem.sent = [], 0
        if work.hook == COMPENSATE:
            self.compensation(work, "cancelled", True, now)
        if work.status == "no_effect" and result == "withheld":
            why += " again; the attempt before had no effect"
        for member in work.members if result else []:
            self.outcome(work, member, result, why, now)
        work.phase = DONE if work.outbox else CLOSED
        self.save(work.name, work.document())
        return True

    def _renew(self, work: Work, o: Order, now: int) -> bool:
        """Puts an undertaking that was not started under the decision that replaced its own."""
        work.decision, work.epoch, work.expires_at, work.deadline_at = o.decision, o.epoch, o.expires_at, o.deadline_at
        work.outbox, work.mem.sent, work.mem.refusals = [], 0, 0
        if work.hook == COMPENSATE:
            self.prepare(work, now)
        self.save(work.name, work.document())
        return True

    def prepare(self, work: Work, now: int) -> None:
        """Fills the outbox with what the log must have before a compensation acts (EXE-2)."""
        if work.comp_exec:  # of an earlier attempt or decision
            self.compensation(work, "cancelled", True, now)
        work.comp_exec = f"undo-{work.decision['index']}-{work.members[0]['index']}-{work.attempt}"
        self.compensation(work, "planned", False, now)
        self.compensation(work, "started", False, now)

    # What a command asks for

    def _command(self, incident: int, o: Order, c: Command, now: int) -> bool:
        """Does the next thing about a member."""
        if self.covering(incident, c) is not None:
            return False
        if self.withheld(incident, c) and c.method != "none":
            self._unstarted(incident, o, c, f"not started: overridden at entry {c.outcome}", now)
            return True
        if c.result:
            return False
        if c.refused:
            return self._refuse(incident, o, c, now)
        drain = self.find(incident, c.exec, DRAIN)
        if c.method != "cancel" and self.cfg.hooks.drain is not None and drain is None:
            return self._add(self._new(incident, o, DRAIN, c), o, now)
        if drain is not None and drain.phase != CLOSED:
            return False
        return self._method(incident, o, c, drain is not None and drain.progress == "cancelled", now)

    def _method(self, incident: int, o: Order, c: Command, ended: bool, now: int) -> bool:
        if c.method == "cancel":
            if self.cfg.hooks.cancel is None:
                return self._answer(incident, o, c, "not_executed", "", now)
            return self._add(self._new(incident, o, CANCEL, c), o, now)
        if c.method in ("residual", "compensate") and ended:
            return self._answer(incident, o, c, "not_executed", "", now)
        if c.method == "residual":
            return self._residual(incident, o, c, now)
        if c.method == "compensate":
            work = self._new(incident, o, COMPENSATE, c)
            if self.cfg.hooks.compensate is None or not self.cfg.hooks.able(work):
                return self._answer(incident, o, c, "withheld", "not started: the agent has nothing to compensate it with", now)
            return c.released and self._add(work, o, now)
        return c.method == "restore" and self._restore(incident, o, c, now)

    def _residual(self, incident: int, o: Order, c: Command, now: int) -> bool:
        """Answers that an effect stands which cannot be undone."""
        before = self._went_back(incident, c)
        if before is not None:
            return self._not_restored(before, (incident, o, c), "was to go further", now)
        if c.effect == "reversible" and self.lost(incident, o.opened_at):
            return self._answer(incident, o, c, "unknown", "whether its line went back before is not known: the state was lost", now)
        return self._answer(incident, o, c, "irrevocable", f"the effect ({c.effect}) stands: it cannot be undone", now)

    def _refuse(self, incident: int, o: Order, c: Command, now: int) -> bool:
        """Answers a command that does not hold."""
        before = self._went_back(incident, c)
        if before is not None:
            return self._not_restored(before, (incident, o, c), f"what it is to do now is refused: {c.refused}", now)
        if c.method != "none" and self.lost(incident, o.opened_at):
            why = f"whether anything was done before is not known, the state was lost; it is refused now: {c.refused}"
            return self._answer(incident, o, c, "unknown", why, now)
        return self._answer(incident, o, c, "refused", c.refused, now)

    def _went_back(self, incident: int, c: Command) -> Work | None:
        """The newest restore that may have taken an execution back, although the command asks for none."""
        for before in reversed(self.restores(incident)):
            same_line = c.effect == "reversible" and c.line in ("", before.members[0]["wid"])
            if before.acted() and (before.about(c.exec) or same_line):
                return before
        return None

    def _not_restored(self, before: Work, of: tuple[int, Order, Command], why: str, now: int) -> bool:
        if before.phase == STARTED:
            return False
        incident, o, c = of
        text = f"the line went back to {before.checkpoint} by decision {before.decision['index']} ({before.status}), and {why}"
        return self._answer(incident, o, c, "failed", text, now)

    def _restore(self, incident: int, o: Order, c: Command, now: int) -> bool:
        """Takes a line back: all of its open members at once, after every drain and compensation."""
        if self.cfg.hooks.restore is None or not self.cfg.hooks.able(self._new(incident, o, RESTORE, c)):
            return self._answer(incident, o, c, "withheld", "not started: the agent cannot restore", now)
        if c.checkpoint in o.waiting:
            return False
        o.waiting.add(c.checkpoint)
        group: list[Command] = []
        for other in o.commands:
            drain, covered = self.find(incident, other.exec, DRAIN), self.covering(incident, other)
            if drain is not None:
                if drain.phase != CLOSED:
                    return False
                if drain.status != "done" and other.line == c.line:
                    return self._answer(incident, o, c, "withheld", f"not started: {other.exec}, of the same line, did not end", now)
            elif self.cfg.hooks.drain is not None and other.method != "cancel" and not other.refused:
                if not other.result and covered is None:
                    return False  # its turn comes
                if other.line == c.line and other.result not in UNDONE:  # what was withheld may be in flight
                    return self._add(self._new(incident, o, DRAIN, other), o, now)
            if other.method == "compensate" and not other.result and (covered is None or covered.phase != CLOSED):
                return False  # it comes first
            if other.method == "restore" and other.checkpoint == c.checkpoint and not other.result and not other.refused and covered is None:
                if not other.released:
                    return False
                group.append(other)
        return self._add(self._new(incident, o, RESTORE, *group), o, now)

    # Starting

    def _add(self, work: Work, o: Order, now: int) -> bool:
        """Records an undertaking and starts it, unless an entry has to be logged first."""
        lost = self.lost(work.incident, o.opened_at)
        if work.hook == COMPENSATE:
            for before in self.about(work.members[0]["exec"]):
                if before.hook != COMPENSATE:  # EXE-4: across decisions
                    continue
                work.attempt = max(work.attempt, before.attempt)
                if before.status == "no_effect" and before.phase != STARTED:
                    work.attempt = max(work.attempt, min(before.attempt + 1, KEYS_MAX - 1))
                lost = lost or before.lost and before.status != "done"
            lost = lost or self.lost(work.members[0]["index"], self.identity["made_at"])
            self.prepare(work, now)
        self.add(work)
        if lost:
            work.lost, work.phase, work.outbox = True, STARTED, []
            self.cfg.tell(Event("lost", work.incident, work.members[0]["exec"], "it may have been started before"))
            self.save(work.name, work.document())
        elif work.hook == COMPENSATE:
            self.save(work.name, work.document())
        else:
            self._start(work, now)
        return True

    def _start(self, work: Work, now: int) -> None:
        """AGT-4: notes on disk that the hook may run, runs it, and notes what came of it."""
        before = self._begun(work)
        known = before is not None and before.phase != STARTED
        if before is not None and known and (before.status == "done" or before.status == "failed" and not self.findable(work)):
            self.finish(work, Report(before.status, residual=f"as in incident {before.incident}: {before.status}"), now)
            return
        work.phase, work.outbox, work.mem = STARTED, [], Memory()
        self.save(work.name, work.document())
        if before is None:
            self.cfg.tell(Event("started", work.incident, work.members[0]["exec"], work.hook))
            self.run(work, False, now)

    def _begun(self, work: Work) -> Work | None:
        """Another undertaking by which a compensation may have had its effect under its key (EXE-4)."""
        for other in reversed(self.about(work.members[0]["exec"])):
            if work.hook == COMPENSATE == other.hook and other is not work and other.attempt == work.attempt and other.acted():
                return other
        return None

    def repeatable(self, work: Work) -> bool:
        """Whether the hook of an undertaking may run again with the same call."""
        hooks = self.cfg.hooks
        return hooks.of(work.hook) is not None and hooks.repeatable(work) and (not work.lost or work.hook != COMPENSATE)

    def probeable(self, work: Work) -> bool:
        """Whether Probe can be asked about an undertaking."""
        return self.cfg.hooks.probe is not None and self.cfg.hooks.probeable(work)

    def findable(self, work: Work) -> bool:
        """Whether the agent can find out what became of an undertaking."""
        return self.probeable(work) or self.repeatable(work)


def does(work: Work, c: Command) -> bool:
    """Whether an undertaking is what a command asks for now."""
    return work.checkpoint == c.checkpoint and any(m["exec"] == c.exec and m["method"] == c.method for m in work.members)
