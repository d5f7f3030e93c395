"""What an agent learns: hints, bundles, and the log itself."""

from __future__ import annotations

from typing import Any

from .base import Base, Event
from .errors import Forked, LedgerError, Refused
from .verify.entries import Logged
from .verify.notes import open_head
from .verify.strict import Broken, Forks, canonical
from .verify.strict import Refused as Malformed
from .verify.tree import check_consistency, hash_leaf, text, tree_head
from .verify.verdict import Verdict, check
from .work import DISTRUST_MAX, DOUBTS_MAX, NOTED, PAUSE_MIN, PROOFS_MAX, Ask, Order, Pause, Unseen

LOOK_MS = 30_000
PAGE = 64  # entries of the log at a time
SAVED_EVERY = 1024

# What one thing that an agent may do next returns: whether it did it, and when it wants to be asked again.
Did = tuple[bool, int]


def earlier(one: int, other: int) -> int:
    """The earlier of two instants, 0 being none."""
    return min(one, other) if one and other else one or other


class Looker(Base):
    """Asks for hints and bundles, checks them, and follows the log."""

    def look(self, now: int) -> Did:
        """Asks for hints when it is time."""
        due = max(self.look_at, self.looking.till)
        if due > now:
            return False, due
        try:
            hints = self.hear()
        except LedgerError as why:
            self.postpone(self.looking, 0, why, now)
            return True, 0
        self.look_at, self.looking = now + LOOK_MS, Pause()
        self.hinted_at = hints["size"]
        if not self.stored or hints["news"] and hints["news"] >= self.size:
            self.want_bundle(0)
        self.hinted = {h["incident"]: h["decision"] for h in hints["commands"]}
        for h in hints["commands"]:
            o = self.orders.get(h["incident"])
            stale = o is None or o.decision["index"] != h["decision"] or o.links != len(self.accepted["links"])
            if o is None or stale or h["changed"] >= o.size and self._waits(o):
                self.want_bundle(h["incident"])
        return True, 0

    def hear(self) -> dict[str, Any]:
        """The hints of the server."""
        return self.cfg.ledger.commands(self.cfg.agent, 0, 0)

    def _waits(self, o: Order) -> bool:
        """Whether a member is not released yet, so that the order can change."""
        for c in o.commands:
            works = [w for w in self.about(c.exec) if w.incident and w.decision == o.decision and w.hook != "drain"]
            if not c.result and not c.released and c.method != "none" and all(w.phase == NOTED for w in works):
                return True
        return False

    def postpone(self, pause: Pause, incident: int, why: LedgerError, now: int) -> None:
        """Puts off what the ledger did not answer. Two logs stop the agent."""
        if isinstance(why, Forked):
            self.forked(why)
        pause.failed(now, why.retry_after_ms if isinstance(why, Refused) else 0)
        self.cfg.tell(Event("retry", incident, error=why))

    # Bundles

    def ask(self, now: int) -> Did:
        """Fetches one page of one bundle, checks it, and stores what is accepted."""
        wake = 0
        for incident in sorted(self.asks):
            q = self.asks[incident]
            if q.pause.till <= now:
                self._fetch(incident, q, now)
                return True, 0
            wake = earlier(wake, q.pause.till)
        return False, wake

    def _fetch(self, incident: int, q: Ask, now: int) -> None:
        query: dict[str, Any] = {"from": self.size, "after": q.after, "whole": q.whole and self.size > 0, "absences": self.cfg.absences and incident > 0,
                 "anew": q.doubts > 0 or q.pause.tries > 0}
        try:
            data, after = self.cfg.ledger.bundle(self.cfg.agent, incident, **query)
        except Refused as why:
            if why.temporary:
                self.postpone(q.pause, incident, why, now)
                return
            del self.asks[incident]  # it is hinted at again, if there is anything
            self.cfg.tell(Event("refused", incident, error=why))
            return
        except LedgerError as why:
            self.postpone(q.pause, incident, why, now)
            return
        v = check(data, self.accepted, now)
        error = v.error
        if error is None and self.cfg.absences and v.decision is not None and not v.whole:
            error = Broken("AGT-2 ABS-1")
        self.keep(v.next)
        if v.head and v.head == self.accepted["head"]:
            self.note_results(v.entries)
        self._page(incident, q, v, (error, after), now)

    def _page(self, incident: int, q: Ask, v: Verdict, got: tuple[Broken | None, int], now: int) -> None:
        error, after = got
        if error is not None:
            if v.head and v.head == self.accepted["head"] and after > q.after and v.expires_at and now >= v.expires_at:
                q.after, q.order, q.pause.till = after, None, now + PAUSE_MIN
                return
            self._distrust(incident, q, error, now)
            return
        self.mistrust = 0
        if v.decision is None or v.incident != incident:
            q.after = after
            if not after:
                del self.asks[incident]
                if not self.overridden_at(incident):
                    self.orders.pop(incident, None)
            return
        if q.after and (q.order is None or q.order.decision != v.decision):
            q.after, q.order, q.pause.till = 0, None, now + PAUSE_MIN
            return
        q.after = after
        self._take(q, v, now)

    def _distrust(self, incident: int, q: Ask, why: Broken, now: int) -> None:
        """A bundle does not verify: it is asked for again, unless it shows two logs."""
        q.after, q.order = 0, None
        if isinstance(why, Forks):
            self.mistrust += 1
            if why.proven or self.mistrust >= PROOFS_MAX:
                self.forked(Forked("a bundle shows another log than the accepted one", why.heads, why.proven))
        if "TRU-2" in str(why) or "TRU-3" in str(why):
            q.whole = True
        q.pause.failed(now)
        if q.pause.tries >= DISTRUST_MAX:
            del self.asks[incident]
        self.cfg.tell(Event("refused", incident, error=why))

    def note_results(self, entries: list[Logged]) -> None:
        """Takes up the entries that gave the agent's members their results."""
        for e in entries:
            if e.kind == "outcome" and e.body["exec"].split("#")[0] == self.cfg.agent:
                of = (e.body["incident"], e.body["exec"])
                if of not in self.stands or self.stands[of]["index"] < e.index:
                    self.stands[of] = e.ref()
            if e.kind == "decision" and e.body["act"] == "override":
                self.override(e.body["incident"], e.ref())

    def _take(self, q: Ask, v: Verdict, now: int) -> None:
        """Takes up a page of a bundle that verified."""
        incident, o = v.incident, q.order
        assert v.decision is not None
        if o is None or o.decision != v.decision:
            o = q.order = Order(v.decision, v.epoch, v.expires_at, v.deadline_at)
        o.epoch, o.expires_at, o.deadline_at = v.epoch, v.expires_at, v.deadline_at
        o.size, o.links, o.complete = self.size, len(self.accepted["links"]), q.after == 0
        self._evidence(o, v)
        for c in v.commands:
            o.commands = [old for old in o.commands if old.exec != c.exec] + [c]
        doubtful = q.after == 0 and self._kept(o, incident) or any(c.doubtful for c in v.commands)
        if doubtful and q.doubts < DOUBTS_MAX:  # who carried it may have altered it, or left something out
            q.doubts += 1
            q.after, q.order = 0, None
            q.pause.failed(now)
            self.cfg.tell(Event("refused", incident, text="the bundle does not prove a member"))
            return
        if q.after:
            return
        del self.asks[incident]
        o.commands.sort(key=lambda c: -c.index)
        self.orders[incident] = o
        self.cfg.tell(Event("accepted", incident))

    def _kept(self, o: Order, incident: int) -> bool:
        """Takes over what an order before showed of the same decision; whether there was anything."""
        before, lacked = self.orders.get(incident), False
        if before is None or before.decision != o.decision:
            return False
        for c in before.commands:
            if o.command(c.exec) is None:
                o.commands.append(c)
                o.firsts[c.exec] = before.firsts.get(c.exec, "")
                lacked = True
        return lacked

    def _evidence(self, o: Order, v: Verdict) -> None:
        """Keeps what the commands do not say: when the incident was opened, where outcomes stand."""
        by_index = {c.index: c.exec for c in v.commands}
        for c in v.commands:
            if not c.result:
                self.stands.pop((v.incident, c.exec), None)
        for e in v.entries:
            if e.index in by_index:
                o.firsts[by_index[e.index]] = canonical(e.leaf["envelope"])
            for c in v.commands:
                if c.result and c.outcome == e.index:
                    self.stands[v.incident, c.exec] = e.ref()
            if e.index == v.incident:
                o.opened_at, o.wid = e.at, e.body["wid"]

    def confirm_head(self, now: int) -> Did:
        """Has the second source confirm the head of a first contact."""
        if self.accepted["confirmed"] or not self.stored or self.cfg.confirm is None:
            return False, 0
        if self.second.till > now:
            return False, self.second.till
        try:
            note = self.cfg.confirm()
            self._connected(note)
        except LedgerError as why:
            self.postpone(self.second, 0, why, now)
            return True, 0
        self.keep({**self.accepted, "confirmed": True})
        return True, 0

    def _connected(self, note: str) -> None:
        """Proves that a signed head and the accepted head are of one log. The error is a LedgerError."""
        root = self.accepted["root"]
        try:
            heads = sorted([open_head(root, note), open_head(root, self.accepted["head"])], key=lambda head: head[0])
        except (Broken, Malformed):
            raise LedgerError("the second source shows no tree head of the pinned ledger", "pass another confirm=") from None
        (old, old_root, older), (new, new_root, newer) = heads
        if old == new and old_root != new_root:
            raise Forked("the second source shows another log than the ledger", (older, newer), proven=True)
        path = self.cfg.ledger.consistency(old, new)
        try:
            check_consistency(old, new, old_root, new_root, path)
        except Malformed:
            self.mistrust += 1
            what = f"the log of size {new} is not proven to continue that of size {old}"
            if self.mistrust >= PROOFS_MAX:
                raise Forked(what, (older, newer), proven=False) from None
            raise LedgerError(what, "it is asked again") from None

    # The log itself

    def follow_log(self, now: int) -> Did:
        """Reads a page of the log."""
        if not self.stored:
            return False, 0
        if self.following.till > now:
            return False, self.following.till
        self.next = self.next or self.size
        if self.next >= max(self.size, self.hinted_at):
            return False, 0
        try:
            page = self.cfg.ledger.entries(self.next, PAGE)
            head = self.cfg.ledger.accepted
            if head is not None and head.note != self.accepted["head"]:
                self._connected(head.note)
        except LedgerError as why:
            self.postpone(self.following, 0, why, now)
            return True, 0
        if not page:
            self.following.failed(now)
            return True, 0
        self.following = Pause()
        for e in page:
            self._read(e)
        self.next += len(page)
        if self.next - min(self.saved, self.next) >= SAVED_EVERY:
            self.saved = self.next
            self.save("followed", self.next)
        return True, 0

    def _read(self, e: Logged) -> None:
        if e.kind in ("policy", "agent") and e.index >= self.size:
            self.want_bundle(0)
        if e.kind == "outcome" and e.body["exec"].split("#")[0] == self.cfg.agent:
            self.stands[e.body["incident"], e.body["exec"]] = e.ref()
        if e.kind != "decision":
            return
        incident = e.body["incident"]
        if e.body["act"] == "override":
            self.override(incident, e.ref())
            if e.index >= self.size:
                self.want_bundle(0)
        elif e.body["act"] in ("authorize", "amend"):
            o = self.orders.get(incident)
            if o is None or o.decision["index"] < e.index:
                self.unseen[incident] = Unseen(e.index, e.body["rollback_set"])

    def unannounced(self, now: int) -> Did:
        """Looks after a decision in the log of which the server said nothing."""
        wake = 0
        for incident in sorted(self.unseen):
            u = self.unseen[incident]
            o = self.orders.get(incident)
            if o is not None and o.decision["index"] >= u.index:
                del self.unseen[incident]
                continue
            if self.hinted_at <= u.index:
                continue
            if u.pause.till > now:
                wake = earlier(wake, u.pause.till)
                continue
            if self.hinted.get(incident, 0) >= u.index and u.pause.tries == 0:
                u.pause.failed(now)  # it is asked for, and comes
                continue
            self._compare(incident, u, now)
            return True, 0
        return False, wake

    def _compare(self, incident: int, u: Unseen, now: int) -> None:
        """Computes the root of the plan that the server shows, and looks for members of the agent."""
        try:
            plan = self.cfg.ledger.plan(incident)
        except LedgerError as why:
            self.postpone(u.pause, incident, why, now)
            return
        names = ("agent", "checkpoint", "exec", "index", "leaf_hash", "method")
        members = [{n: m[n] for n in names if n in m} for m in plan]
        leaves = [hash_leaf(canonical(m).encode()) for m in members]
        same = {"size": len(leaves), "root": text(tree_head(leaves))} == {n: u.rollback_set[n] for n in ("size", "root")}
        own = [m for m in members if m.get("agent") == self.cfg.agent and m.get("method") != "none"]
        own = [m for m in own if (incident, m.get("exec")) not in self.stands]
        if same and not own:
            del self.unseen[incident]
            return
        what = f"the decision at entry {u.index} has open members of {self.cfg.agent}, and the server gives no command"
        if not same:
            what = f"the plan that the server shows is not that of the decision at entry {u.index}"
        else:
            self.want_bundle(incident)
        u.pause.failed(now)
        if u.pause.tries > 2 and not u.told:
            u.told = True
            self.cfg.tell(Event("hidden", incident, text=what))
