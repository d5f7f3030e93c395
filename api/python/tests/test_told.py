"""A running loop is told that work of it was undone, and a step that is under way is drained."""

from __future__ import annotations

import asyncio
import queue
import threading
from typing import Any

from recoveryledger import InputError, NoEffect, RolledBack, Undo, Unreachable
from recoveryledger.signing import read

from .support import Live


class Told(Live):
    def setUp(self) -> None:
        super().setUp()
        self.agent = self.connect()
        self.undone: list[str] = []
        self.states: list[Any] = []

        @self.agent.compensates("charge")
        def _(undo: Undo) -> None:
            self.undone.append(undo.key)

        @self.agent.restores
        def _(undo: Undo) -> None:
            self.states.append(undo.state)

    def test_at_the_next_step(self) -> None:
        with self.agent.run("loop") as run:
            run.checkpoint("begun", {"turn": 0, "price": 0.5})
            with run.step("think", effect="reversible") as think:
                pass
            with run.step("charge", effect="compensable", parents=[think]) as charge:
                charge.result = "receipt 7"
            first = charge.key
            run.signal(think, "output.bad_arguments")
            with self.assertRaises(RolledBack) as told:
                for turn in range(1000):
                    with run.step("turn", id=str(turn)):
                        threading.Event().wait(0.01)
            self.assertEqual(told.exception.checkpoint, "begun")
            self.assertEqual(told.exception.state, {"turn": 0, "price": 0.5})
            self.assertEqual(told.exception.undone[f"{self.name}#loop/charge"], "compensated")
            self.assertEqual(told.exception.undone[f"{self.name}#loop/think"], "restored")
            with run.step("think", effect="reversible") as think:  # the loop goes on: another execution
                self.assertFalse(think.done)
                self.assertEqual(think.exec, f"{self.name}#loop/think@2")
            with run.step("charge", effect="compensable", parents=[think]) as charge:
                self.assertNotEqual(charge.key, first)
        self.assertEqual(len(self.undone), 1)
        self.assertEqual(self.states, [{"turn": 0, "price": 0.5}])

    def test_a_step_under_way_is_drained(self) -> None:
        order: list[str] = []
        self.agent.listen(lambda e: order.append(e.text) if e.kind == "ended" else None)
        accepted = threading.Event()
        self.agent.listen(lambda e: accepted.set() if e.kind == "accepted" else None)
        with self.assertRaises(RolledBack) as told, self.agent.run("drain") as run:
            run.checkpoint("begun", b"raw bytes")
            with run.step("read", effect="reversible") as read:
                pass
            with run.step("charge", effect="compensable", parents=[read]):
                run.signal(read, "output.bad_arguments")
                self.assertTrue(accepted.wait(20))
                self.assertEqual(self.undone, [])
                order.append("the step ends")
        self.assertEqual(told.exception.undone, {f"{self.name}#drain/read": "restored", f"{self.name}#drain/charge": "compensated"})
        self.assertLess(order.index("the step ends"), order.index("compensate done"))
        self.assertEqual(self.states, [b"raw bytes"])

    def test_within_a_step(self) -> None:
        accepted = threading.Event()
        self.agent.listen(lambda e: accepted.set() if e.kind == "accepted" else None)
        with self.assertRaises(RolledBack), self.agent.run("within") as run:
            with run.step("read") as read:
                pass
            with run.step("charge", effect="compensable", parents=[read]):
                run.signal(read, "output.bad_arguments")
                self.assertTrue(accepted.wait(20))
                with self.assertRaisesRegex(InputError, "called in a step"):
                    self.agent.obey(timeout=5)
                run.check()
                self.fail("the step is told")
        self.agent.obey(timeout=20)
        self.assertEqual(len(self.undone), 1)

    def test_in_another_thread(self) -> None:
        told: queue.Queue[RolledBack] = queue.Queue()
        ready = threading.Event()

        with self.agent.run("threads", on_rollback=told.put) as run:
            run.checkpoint("begun", {})
            with run.step("read", effect="reversible") as read:
                pass

            def work() -> None:
                ready.set()
                try:
                    for turn in range(1000):
                        with run.step("turn", id=str(turn)):
                            threading.Event().wait(0.01)
                except RolledBack as why:
                    told.put(why)

            thread = threading.Thread(target=work)
            thread.start()
            ready.wait()
            run.signal(read, "output.bad_arguments")
            both = [told.get(timeout=20) for _ in range(2)]  # the callback and the thread, in any order
            thread.join(20)
        self.assertEqual([sorted(why.undone.values())[-1] for why in both], ["restored", "restored"])

    def test_a_task_is_told_at_its_await(self) -> None:
        async def loop() -> str:
            try:
                async with self.agent.run("async") as run:
                    await asyncio.to_thread(run.checkpoint, "begun", {"n": 1})
                    async with run.step("charge", effect="compensable") as charge:
                        await asyncio.sleep(0)
                    await asyncio.to_thread(run.signal, charge, "output.bad_arguments")
                    await asyncio.sleep(60)  # waits for a model
            except RolledBack as told:
                return told.undone[f"{self.name}#async/charge"]
            return "not told"

        self.assertEqual(asyncio.run(asyncio.wait_for(loop(), 20)), "compensated")

    def test_another_cancellation_stays_one(self) -> None:
        async def loop(inside: asyncio.Event) -> None:
            async with self.agent.run("cancelled") as run:
                async with run.step("wait"):
                    inside.set()
                    await asyncio.sleep(60)

        async def main() -> None:
            inside = asyncio.Event()
            task = asyncio.create_task(loop(inside))
            await inside.wait()
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        self.assertEqual(self.progress(), ["cancelled/wait started", "cancelled/wait failed"])

    def test_an_end_that_was_not_sent_is_sent_before_what_follows(self) -> None:
        self.agent.close()
        first = self.connect(patience=0)
        submit = first.ledger.submit

        def away(envelope: str, *, attempts: int = 1) -> dict[str, Any]:
            if read(envelope)[1].get("progress") == "confirmed":
                raise Unreachable("away")
            return submit(envelope, attempts=attempts)

        first.ledger.submit = away
        with self.assertRaises(Unreachable), first.run("unsent") as run, run.step("price") as price:
            price.result = 7
        first.close()
        second = self.connect()
        second._flush = lambda: None  # what is sent in the background comes too late
        with second.run("unsent") as run:
            with run.step("price") as price:
                self.assertEqual((price.done, price.result), (True, 7))
            with run.step("charge", parents=[price]):
                pass
        self.assertEqual([p.removeprefix("unsent/") for p in self.progress()], [
            "price started", "price confirmed", "charge started", "charge confirmed"])

    def test_steps_that_fail(self) -> None:
        with self.agent.run("fails") as run:
            with self.assertRaises(ZeroDivisionError), run.step("charge", effect="compensable") as charge:
                raise ZeroDivisionError
            with run.step("charge", effect="compensable") as again:
                self.assertEqual(charge.key, again.key)  # whether it was charged is not known: the same key
            with self.assertRaises(InputError), run.step("charge", effect="compensable"):
                pass
            with self.assertRaises(NoEffect), run.step("mail", effect="irrevocable"):
                raise NoEffect("no connection")
        self.assertEqual([p.removeprefix("fails/") for p in self.progress()], [
            "charge started", "charge failed", "charge@2 started", "charge@2 confirmed", "mail started", "mail cancelled"])
