"""Hooks that raise, hang, return nonsense, or fail: each has a clear outcome."""

from __future__ import annotations

import queue
import threading
from typing import Any, Callable

import recoveryledger
from recoveryledger import Call, InputError, NoEffect, NotUndone, Report, RolledBack, Undo

from .support import Live


class Hooks(Live):
    def undo(self, function: Any, **options: Any) -> str:
        """The result of a charge that a function compensates, and what is left of it."""
        agent = self.agent = self.connect()
        agent.compensates("charge", **options)(function)
        with agent.run("hooks") as run:
            with run.step("charge", effect="compensable") as charge:
                charge.result = {"receipt": 7}
            incident = run.signal(charge, "output.bad_arguments")
            return self.outcomes(agent, incident)["charge"] + self.residual(charge.exec)

    def residual(self, name: str) -> str:
        ledger = self.connect_reader()
        page = ledger.entries(0, 1000)
        found = [e.body for e in page if e.kind == "outcome" and e.body["exec"] == name]
        self.assertEqual(len(found), 1)
        return f": {found[0]['residual']}" if "residual" in found[0] else ""

    def test_what_it_gets(self) -> None:
        got: list[Undo] = []
        self.assertEqual(self.undo(got.append), "compensated")
        [undo] = got
        self.assertEqual((undo.step, undo.run, undo.result, undo.attempt), ("charge", "hooks", {"receipt": 7}, 0))
        self.assertEqual((len(undo.key), len(undo.step_key)), (64, 64))

    def test_async(self) -> None:
        async def compensate(_: Undo) -> None:
            pass

        self.assertEqual(self.undo(compensate), "compensated")

    def test_raises(self) -> None:
        calls: list[str] = []

        def compensate(undo: Undo) -> None:
            calls.append(undo.key)
            raise ZeroDivisionError("no such order")

        self.assertEqual(self.undo(compensate), "unknown: compensate raised ZeroDivisionError: no such order")
        self.assertEqual(len(calls), 1)  # it may have done anything: it does not run again

    def test_raises_and_is_idempotent(self) -> None:
        calls: list[str] = []

        def compensate(undo: Undo) -> None:
            calls.append(undo.key)
            if len(calls) < 2:
                raise ConnectionError

        self.assertEqual(self.undo(compensate, idempotent=True), "compensated")
        self.assertEqual(len(set(calls)), 1)  # the same key

    def test_raises_and_is_probed(self) -> None:
        def compensate(_: Undo) -> None:
            raise ConnectionError

        self.assertEqual(self.undo(compensate, probe=lambda undo: len(undo.keys) == 1), "compensated")

    def test_no_effect_is_tried_again(self) -> None:
        calls: list[str] = []

        def compensate(undo: Undo) -> None:
            calls.append(undo.key)
            if len(calls) < 2:
                raise NoEffect("busy")

        self.assertEqual(self.undo(compensate), "compensated")
        self.assertEqual(len(set(calls)), 2)  # another key each time

    def test_not_undone(self) -> None:
        def compensate(_: Undo) -> None:
            raise NotUndone("the parcel is on its way")

        self.assertEqual(self.undo(compensate), "failed: the parcel is on its way")

    def test_returns_nonsense(self) -> None:
        self.assertIn("unknown: compensate raised InputError: the compensation of", self.undo(lambda _: "done"))

    def test_hangs(self) -> None:
        free = threading.Event()
        self.addCleanup(free.set)
        self.assertEqual(self.undo(lambda _: free.wait() and None, limit=0.2, idempotent=True),
                         "unknown: the hook did not end within 0.2 s, and may still act")

    def test_waits_for_itself(self) -> None:
        self.assertEqual(self.undo(lambda _: self.agent.obey()), "unknown: compensate raised InputError: obey: called in a hook "
                         "(let the hook end first: the rollback waits for its end)")

    def test_one_of_the_five_waits_for_itself(self) -> None:
        agent = self.connect()

        def compensate(_: Call) -> Report:
            agent.obey()
            return Report("done")

        agent.use(recoveryledger.Hooks(compensate=compensate))
        with agent.run("itself") as run:
            with run.step("charge", effect="compensable") as charge:
                pass
            incident = run.signal(charge, "output.bad_arguments")
            self.assertEqual(self.outcomes(agent, incident), {"charge": "unknown"})
            self.assertIn("obey: called in a hook", self.residual(charge.exec))

    def test_closes(self) -> None:
        closed = threading.Event()

        def compensate(_: Undo) -> None:
            self.agent.close()
            closed.set()

        with self.assertRaisesRegex(recoveryledger.StateError, "the agent was closed"):
            self.undo(compensate)
        self.assertTrue(closed.wait(20))

    def test_exits(self) -> None:
        self.assertIn("unknown: compensate raised RuntimeError: the hook raised SystemExit", self.undo(lambda _: exit(1)))

    def test_there_is_none(self) -> None:
        agent = self.connect()
        with agent.run("none") as run:
            with run.step("charge", effect="compensable") as charge:
                pass
            incident = run.signal(charge, "output.bad_arguments")
            self.assertEqual(self.outcomes(agent, incident), {"charge": "withheld"})

    def back(self, function: Any, *, limit: float = 600, **options: Any) -> str:
        """The result of a write that a function takes back, and what is left of it."""
        self.name, self.key = self.machine.enrol()
        agent = self.connect(limit=limit)
        agent.restores(**options)(function)
        with agent.run("back") as run:
            run.checkpoint("begun", {"balance": 7})
            with run.step("write", effect="reversible") as write:
                pass
            incident = run.signal(write, "output.bad_arguments")
            return self.outcomes(agent, incident)["write"] + self.residual(write.exec)

    def test_restores(self) -> None:
        def failing(why: BaseException, times: int) -> Any:
            calls: list[Undo] = []

            def restore(undo: Undo) -> None:
                self.assertEqual(undo.state, {"balance": 7})
                calls.append(undo)
                if len(calls) <= times:
                    raise why

            return restore

        free = threading.Event()
        self.addCleanup(free.set)
        for function, options, want in (
            (failing(ZeroDivisionError("disk"), 1), {}, "restored"),  # it may run twice
            (failing(ZeroDivisionError("disk"), 9), {"idempotent": False}, "unknown: restore raised ZeroDivisionError: disk"),
            (failing(ZeroDivisionError("disk"), 9), {"probe": lambda _: True}, "restored"),
            (failing(NoEffect("busy"), 1), {}, "restored"),
            (failing(NotUndone("a file is gone"), 9), {}, "failed: a file is gone"),
            (lambda _: free.wait() and None, {"limit": 0.3}, "unknown: the hook did not end within 0.3 s, and may still act"),
            (lambda _: object(), {"idempotent": False}, "unknown: restore raised InputError: state object: a object is no value of JSON"),
            (lambda _: True, {}, "failed: the state afterwards has digest"),
        ):
            with self.subTest(want=want, options=options):
                self.assertEqual(self.back(function, **options)[: len(want)], want)

    def test_probes(self) -> None:
        def compensate(_: Undo) -> None:
            raise ConnectionError("reset")

        def once(first: Callable[[], Any]) -> Any:
            left = [lambda: None, first]  # it is asked again, and does not know
            return lambda _: left.pop()()

        free = threading.Event()
        self.addCleanup(free.set)
        for probe, want in (
            (once(lambda: {}["order"]), "unknown: probe raised KeyError: 'order'"),
            (lambda _: free.wait(), "unknown: the hook did not end within 0.3 s, and may still act"),
            (once(lambda: "yes"), "unknown: probe raised InputError: the probe of "),
            (lambda _: None, "unknown: compensate raised ConnectionError: reset"),
            (lambda _: False, "failed: no attempt had an effect"),
        ):
            self.name, self.key = self.machine.enrol()
            with self.subTest(want=want):
                got = self.undo(compensate, probe=probe, limit=0.3)
                self.assertEqual(got[: len(want)], want)

    def test_on_rollback(self) -> None:
        """A callback that raises, hangs or returns nonsense holds up neither its run nor another one."""
        free = threading.Event()
        self.addCleanup(free.set)
        called: queue.Queue[str] = queue.Queue()

        def raises(_: RolledBack) -> None:
            called.put("raises")
            raise ZeroDivisionError

        def hangs(_: RolledBack) -> None:
            called.put("hangs")
            free.wait()

        async def fails_later(_: RolledBack) -> None:
            called.put("fails_later")
            raise ZeroDivisionError

        def nonsense(_: RolledBack) -> Any:
            called.put("nonsense")
            return object()

        agent = self.connect()
        agent.compensates("charge")(lambda _: None)
        for callback in (raises, hangs, fails_later, nonsense):
            with self.assertRaises(RolledBack) as told, agent.run(callback.__name__, on_rollback=callback) as run:
                with run.step("charge", effect="compensable") as charge:
                    pass
                run.signal(charge, "output.bad_arguments")
                for _ in range(2000):
                    run.check()
                    threading.Event().wait(0.01)
            self.assertEqual(list(told.exception.undone.values()), ["compensated"])
            self.assertEqual(called.get(timeout=20), callback.__name__)  # it may come after the run is told
        self.assertTrue(called.empty())

    def test_a_restore_of_another_state(self) -> None:
        agent = self.connect()
        agent.restores(lambda _: {"balance": 8})
        with agent.run("restore") as run:
            run.checkpoint("begun", {"balance": 7})
            with run.step("write", effect="reversible") as write:
                pass
            incident = run.signal(write, "output.bad_arguments")
            self.assertEqual(self.outcomes(agent, incident), {"write": "failed"})

    def test_a_state_kept_elsewhere(self) -> None:
        agent = self.connect()
        digest = "sha256:" + "ab" * 32
        agent.restores(lambda undo: undo.digest)
        with agent.run("elsewhere") as run:
            run.checkpoint("begun", digest=digest)
            with run.step("write", effect="reversible") as write:
                pass
            incident = run.signal(write, "output.bad_arguments")
            self.assertEqual(self.outcomes(agent, incident), {"write": "restored"})

    def test_all_five(self) -> None:
        calls: list[str] = []

        def drain(call: Call) -> Report:
            calls.append(f"{call.hook} {call.members[0]['effect']}")
            return Report("done")

        def compensate(call: Call) -> Report:
            calls.append(f"{call.hook} {len(call.key)}")
            return Report("done")

        agent = self.connect()
        agent.use(recoveryledger.Hooks(drain=drain, compensate=compensate))
        with agent.run("five") as run:
            with run.step("charge", effect="compensable") as charge:
                pass
            incident = run.signal(charge, "output.bad_arguments")
            self.assertEqual(self.outcomes(agent, incident), {"charge": "compensated"})
        self.assertEqual(calls, ["drain compensable", "compensate 64"])

    def test_declared_badly(self) -> None:
        agent = self.connect()
        agent.compensates("a")(print)
        agent.restores(print)
        for bad in (lambda: agent.compensates("a")(print), lambda: agent.restores(print), lambda: agent.compensates("b", limit=0)(print)):
            with self.assertRaises(InputError):
                bad()
