"""Rows of the table in docs/agent.md that are no crashes: refusals, revoked keys, gaps, a plan that changes."""

from __future__ import annotations

import json
import os
import re
import threading
import time
import unittest.mock
from typing import Any, Callable

from recoveryledger import Agent, Undo
from recoveryledger.signing import Signer, read
from recoveryledger.work import PAUSE_MAX, REFUSALS_MAX

from .support import Live
from .test_carrier import Carrier


def soon(tries: int, longest: int = PAUSE_MAX) -> int:
    """A pause that is short, but for what was refused so often that it waits for a change."""
    return min(20 << tries, 1000) if longest == PAUSE_MAX else longest


soon_again = unittest.mock.patch("recoveryledger.work.pause_after", soon)


class Outlasts(Live):
    def setUp(self) -> None:
        super().setUp()
        self.reader = self.connect_reader()

    def through(self, carrier: Carrier, **options: Any) -> Agent:
        """An agent whose requests a carrier passes on."""
        threading.Thread(target=carrier.serve_forever, daemon=True).start()
        self.addCleanup(carrier.server_close)
        self.addCleanup(carrier.shutdown)
        profile = json.loads(next(self.machine.dir.glob("home/profiles/*.json")).read_text())
        return self.connect(url=carrier.url, root=profile["root"], **options)

    def until(self, agent: Agent, holds: Callable[[], bool]) -> None:
        """Waits while the agent obeys."""
        agent.follow()
        till = time.monotonic() + 120
        while not holds():
            self.assertLess(time.monotonic(), till, "\n".join(map(str, self.events)))
            with agent.changed:
                agent.changed.wait(0.1)

    def results(self, incident: int) -> dict[str, list[str]]:
        """The results in the log of each execution of an incident, in order."""
        found: dict[str, list[str]] = {}
        for e in self.reader.entries(incident, 1000):
            if e.kind == "outcome" and e.body["incident"] == incident:
                found.setdefault(e.body["exec"].split("/")[1], []).append(e.body["result"])
        return found

    def person(self, role: str) -> str:
        """Enrols a person; the file of the key."""
        self.machine.count += 1
        name = f"person{self.machine.count}"
        self.machine.arl("key", "generate", "--out", f"{name}.key")
        self.machine.arl("agent", "enrol", "--principal", name, "--key", f"{name}.key", "--domain", "people", "--roles", role)
        return f"{name}.key"

    @soon_again
    def test_refused_eight_times(self) -> None:
        """An outcome that is refused so often waits, and is sent again at once when a key is accepted."""
        refused: list[str] = []
        lifted = threading.Event()

        class Refuses(Carrier):
            def refuse(self, body: bytes) -> tuple[int, bytes] | None:
                kind, said = read(body.decode())
                if kind != "outcome" or lifted.is_set():
                    return None
                refused.append(said["jti"])
                return 409, json.dumps({"type": "urn:agent-recovery:problem:state-conflict", "status": 409, "title": "no", "detail": "not now"}).encode()

        agent = self.through(Refuses(self.machine.url, 0))
        agent.compensates("charge")(lambda _: None)
        with agent.run("refused") as run:
            with run.step("charge", effect="compensable") as charge:
                pass
            incident = run.signal(charge, "output.bad_arguments")
            self.until(agent, lambda: len(refused) >= REFUSALS_MAX)
            lifted.set()
            self.assertEqual(self.results(incident), {})
            self.person("approver")
            self.assertEqual(self.outcomes(agent, incident, timeout=120), {"charge": "compensated"})
        self.assertEqual((len(refused), len(set(refused))), (REFUSALS_MAX, 1))

    def test_an_entry_too_old(self) -> None:
        """An entry that the ledger finds too old is signed anew, under a new id."""
        sign, old = Signer.sign, list[str]()

        def late(signer: Signer, kind: str, body: dict[str, Any], now: int) -> str:
            envelope = sign(signer, kind, body, now - (3_600_000 if kind == "outcome" and not old else 0))
            if kind == "outcome":
                old.append(read(envelope)[1]["jti"])
            return envelope

        agent = self.connect()
        agent.compensates("charge")(lambda _: None)
        with unittest.mock.patch.object(Signer, "sign", late), agent.run("late") as run:
            with run.step("charge", effect="compensable") as charge:
                pass
            incident = run.signal(charge, "output.bad_arguments")
            self.assertEqual(self.outcomes(agent, incident, timeout=120), {"charge": "compensated"})
        logged = [e.body["jti"] for e in self.reader.entries(incident, 1000) if e.kind == "outcome" and e.body["incident"] == incident]
        self.assertEqual(logged, old[1:])
        self.assertEqual(len(old), 2)

    def test_a_revoked_key(self) -> None:
        """What a revoked key has signed is signed again by the next one; the hook does not run again."""
        calls: list[str] = []
        agent = self.connect()

        def compensate(undo: Undo) -> None:
            calls.append(undo.key)
            self.machine.arl("agent", "revoke", "--principal", self.name, "--reason", "stolen", "--yes")

        agent.compensates("charge")(compensate)
        run = agent.run("revoked")
        with run.step("charge", effect="compensable") as charge:
            pass
        incident = run.signal(charge, "output.bad_arguments")
        self.until(agent, lambda: any(getattr(e.error, "problem", "") == "unknown-issuer" for e in self.events))
        agent.close()
        self.assertEqual(self.results(incident), {})
        other = self.machine.dir / f"{self.name}.second.key"
        self.machine.arl("key", "generate", "--out", str(other))
        self.machine.arl("agent", "enrol", "--principal", self.name, "--key", str(other), "--domain", "shop")
        state, secret, self.key = f"{self.key}.state", f"{self.key}.secret", other
        again = self.connect(state=state, secret=secret)
        again.compensates("charge")(compensate)
        again.obey(timeout=120)
        self.assertEqual(self.results(incident), {"charge": ["compensated"]})
        self.assertEqual(len(calls), 1)

    @soon_again
    def test_an_earlier_incident(self) -> None:
        """What an earlier incident has compensated, or may have, is not compensated twice."""
        calls: dict[str, list[str]] = {}
        known: list[str] = []
        agent = self.connect()

        def compensate(undo: Undo) -> None:
            calls.setdefault(undo.step, []).append(undo.key)
            if undo.step != "done":
                raise ConnectionError

        def probe(undo: Undo) -> bool | None:
            self.assertEqual(undo.keys, calls[undo.step])
            return bool(known) or None

        agent.compensates("done")(compensate)
        agent.compensates("bare")(compensate)
        agent.compensates("probed", probe=probe)(compensate)
        with agent.run("earlier") as run:
            with run.step("read") as first:
                pass
            for name in ("done", "bare", "probed"):
                with run.step(name, effect="compensable", parents=[first]) as step:
                    pass
                self.outcomes(agent, run.signal(step, "output.bad_arguments"), timeout=120)
            known.append("yes")
            incident = run.signal(first, "output.bad_arguments")
            self.outcomes(agent, incident, timeout=120)
        results = self.results(incident)
        self.assertEqual({name: results.get(name) for name in calls}, {"done": None, "bare": ["unknown"], "probed": ["compensated"]})
        self.assertEqual([len(keys) for keys in calls.values()], [1, 1, 1])

    def late(self, close: Callable[[int], None]) -> list[str]:
        """The results of a charge whose hook ends only after something else has given it a result."""
        agent = self.connect()
        begun, over = threading.Event(), threading.Event()
        agent.compensates("charge")(lambda _: begun.set() or over.wait() and None)
        self.addCleanup(over.set)
        run = agent.run("late")
        with run.step("charge", effect="compensable") as charge:
            pass
        incident = run.signal(charge, "output.bad_arguments")
        agent.follow()
        self.assertTrue(begun.wait(60))
        close(incident)
        before = len(self.results(incident).get("charge", []))
        over.set()
        self.until(agent, lambda: len(self.results(incident).get("charge", [])) > before)
        entry = [e for e in self.reader.entries(incident, 1000) if e.kind in ("outcome", "decision") and e.body["incident"] == incident]
        refs = {json.dumps(e.ref(), sort_keys=True): e.body.get("result", e.body.get("act")) for e in entry}
        self.assertIn(refs[json.dumps(entry[-1].body["supersedes"], sort_keys=True)], ("override", "unknown"))
        return self.results(incident)["charge"]

    def test_overridden_while_it_runs(self) -> None:
        """An override withholds a member whose hook runs; when the hook ends, the true outcome takes its place."""
        operator = self.person("operator")

        def override(incident: int) -> None:
            self.machine.arl("incident", "override", str(incident), "--reason", "stop", "--key", operator, "--yes")

        self.assertEqual(self.late(override), ["compensated"])

    def the_coordinator_gave_up(self) -> None:
        """The coordinator closes a member as unknown; when the hook ends, the true outcome takes its place."""
        policy, file = self.machine.arl("policy", "show"), self.machine.dir / "policy.yaml"

        def apply(text: str) -> None:
            file.write_text(text)
            self.machine.arl("policy", "apply", str(file), "--reason", "test", "--yes")

        apply(re.sub(r"(member|deadline_max)_ms: \d+", r"\1_ms: 30000", policy))
        self.addCleanup(apply, policy)

        def wait(incident: int) -> None:
            till = time.monotonic() + 420
            while not self.results(incident):
                self.assertLess(time.monotonic(), till)
                threading.Event().wait(2)

        self.assertEqual(self.late(wait), ["unknown", "compensated"])

    if os.environ.get("ARL_CHAOS"):  # it takes five minutes, since clocks may differ by as much
        test_the_coordinator_gave_up = the_coordinator_gave_up

    @soon_again
    def test_members_are_not_shown_again(self) -> None:
        """A member that was proven once stays, though later bundles of the decision leave it out."""
        seen: list[int] = []

        class Leaves(Carrier):
            def page(self, path: str) -> str:
                if b'"compensated"' not in outcomes:
                    return path
                seen.append(1)
                return path + "&limit=1" if len(seen) <= 3 else path

            def follows(self, target: str) -> bool:
                return "limit=1" not in target

            def refuse(self, body: bytes) -> tuple[int, bytes] | None:
                kind, said = read(body.decode())
                if kind == "outcome":
                    outcomes.append(b'"compensated"' if said["result"] == "compensated" else b"")
                return None

        outcomes: list[bytes] = []
        agent = self.through(Leaves(self.machine.url, 0))
        agent.compensates()(lambda _: None)
        with agent.run("gaps") as run:
            with run.step("charge", effect="compensable") as charge:
                pass
            with run.step("mail", effect="compensable", parents=[charge]):
                pass
            incident = run.signal(charge, "output.bad_arguments")
            self.assertEqual(self.outcomes(agent, incident, timeout=120), {"charge": "compensated", "mail": "compensated"})
        self.assertGreater(len(seen), 3)
        self.assertGreaterEqual([e.text for e in self.events].count("the bundle does not prove a member"), 3)

    @soon_again
    def test_no_checkpoint_is_old_enough(self) -> None:
        """A line went back, and before that is logged it is to go back farther than any checkpoint: that has failed."""
        approver, reached, states = self.person("approver"), threading.Event(), list[Any]()

        class Holds(Carrier):
            def refuse(self, body: bytes) -> tuple[int, bytes] | None:
                if reached.is_set() or read(body.decode())[1].get("result") != "restored":
                    return None
                return 503, json.dumps({"type": "urn:agent-recovery:problem:not-ready", "status": 503, "title": "no", "detail": "wait"}).encode()

        source = self.connect().run("source")
        with source.step("read") as first:
            pass
        self.name, self.key = self.machine.enrol()
        agent = self.through(Holds(self.machine.url, 0))
        agent.restores(lambda undo: states.append(undo.state))
        run = agent.run("line")
        with run.step("early", effect="reversible") as early:
            pass
        run.checkpoint("between", {"early": True})
        with run.step("draft", effect="reversible", parents=[first.exec]):
            pass
        incident = source.signal(first, "output.bad_arguments")
        self.until(agent, lambda: bool(states))
        run.signal(early, "output.bad_arguments")
        self.until(agent, lambda: agent.ledger.incident(incident).get("asks_people", False))
        self.machine.arl("incident", "approve", str(incident), "--reason", "go on", "--key", approver, "--yes")
        self.until(agent, lambda: len(self.results(incident)) == 2)
        reached.set()
        agent.obey(timeout=120)
        self.assertEqual(self.results(incident), {"draft": ["failed"], "early": ["failed"]})
        self.assertEqual(states, [{"early": True}])
