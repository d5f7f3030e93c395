"""A loop asks what to do about a failure, waits, tries again, and gives up when the policy says so."""

from __future__ import annotations

import asyncio
import io
import time
from email.message import Message
from typing import Any
from urllib.error import HTTPError

from recoveryledger import Escalated, InputError, NoEffect, RolledBack, Step, Undo
from recoveryledger.recover import raw_of

from .support import Live


class Status(Exception):
    """An error as clients of model providers raise it."""

    def __init__(self, status: int, after: str = "", code: str = "") -> None:
        super().__init__(f"status {status}")
        self.status_code, self.code = status, code
        self.response = type("Response", (), {"headers": {"retry-after": after} if after else {}})()


class Recover(Live):
    def setUp(self) -> None:
        super().setUp()
        self.agent = self.connect()

    def test_retry_until_it_works(self) -> None:
        """The wait is the one that the service asked for; what worked is forgotten."""
        fails = [Status(503, "1"), Status(503)]
        actions = []
        with self.agent.run("loop") as run:
            began = time.monotonic()
            while True:
                try:
                    with run.step("search") as search:
                        if fails:
                            raise fails.pop(0)
                        search.result = 7
                    break
                except Status as error:
                    actions.append(self.agent.recover(error))
            self.assertGreaterEqual(time.monotonic() - began, 1.0)
            self.assertEqual([a.strategy for a in actions], ["retry", "retry"])
            self.assertEqual(actions[0].failure, "transient.unavailable")
            self.assertEqual(actions[0].rule, "transient.unavailable[0]")
            self.assertGreaterEqual(actions[0].wait_ms, 1000)
            self.assertEqual(run.result("search"), 7)
            self.assertEqual(self.agent.records.run("loop")["recoveries"], {})

    def test_the_ladder_ends(self) -> None:
        """Through another process, too: the actions are kept."""
        with self.agent.run("ladder") as run:
            def attempt() -> None:
                with run.step("call"):
                    raise Status(400, code="context_length_exceeded")

            with self.assertRaises(Escalated) as gave_up:  # the loop cannot alter the attempt
                try:
                    attempt()
                except Status as error:
                    self.agent.recover(error)
            self.assertEqual(gave_up.exception.action.strategy, "retry_altered")
            self.assertEqual(gave_up.exception.action.variant, "compact_context")
            self.assertIsInstance(gave_up.exception.__cause__, Status)
            able = ("retry", "retry_altered", "fallback_model")
            try:
                attempt()
            except Status as error:
                self.assertEqual(self.agent.recover(error, able=able, model="primary").variant, "compact_context")
        self.agent.close()
        self.agent = self.connect()
        with self.agent.run("ladder") as run:
            try:
                attempt()
            except Status as error:
                action = self.agent.recover(error, able=able, model="primary")
                self.assertEqual((action.strategy, action.model), ("fallback_model", "alternate"))
            with self.assertRaises(Escalated) as gave_up:
                try:
                    attempt()
                except Status as error:
                    self.agent.recover(error, able=able, model="alternate")
            self.assertEqual(gave_up.exception.action.reason, "ladder_exhausted")
            self.assertEqual(gave_up.exception.action.strategy, "escalate")

    def test_effects_in_doubt(self) -> None:
        """What may have had its effect is not tried again unless a probe, or the key, makes that safe."""
        def charge(name: str, **options: Any) -> Any:
            with self.agent.run(name) as run:
                try:
                    with run.step("charge", effect="compensable"):
                        raise TimeoutError("no answer")
                except TimeoutError as error:
                    return self.agent.recover(error, **options)

        with self.assertRaises(Escalated) as gave_up:
            charge("doubt")
        self.assertEqual(gave_up.exception.action.reason, "effects_unknown")
        seen: list[str] = []

        def probe(found: bool) -> Any:
            return lambda step: seen.append(step.key) or found

        self.assertEqual(charge("none", probe=probe(False)).strategy, "retry")
        done = charge("all", probe=probe(True))
        self.assertEqual((done.strategy, done.done), ("reconcile", True))
        self.assertEqual(len(seen), 2)
        self.assertEqual(charge("key", idempotent=True).strategy, "retry")
        self.assertEqual(charge("said", effects="none").strategy, "retry")

    def test_told_while_it_waits(self) -> None:
        @self.agent.restores
        def _(undo: Undo) -> None:
            pass

        with self.agent.run("told") as run:
            run.checkpoint("begun", {})
            with run.step("think", effect="reversible") as think:
                pass
            with self.assertRaises(RolledBack):
                try:
                    with run.step("search", parents=[think]):
                        raise Status(429, "60")
                except Status as error:
                    run.signal(think, "output.bad_arguments")
                    self.agent.recover(error)

    def test_in_a_task(self) -> None:
        async def loop() -> Any:
            async with self.agent.run("task") as run:
                try:
                    async with run.step("search"):
                        raise ConnectionResetError("gone")
                except ConnectionResetError as error:
                    return await self.agent.recover_async(error)

        action = asyncio.run(loop())
        self.assertEqual((action.strategy, action.failure), ("retry", "transient.unavailable"))

    def test_told_while_a_task_waits(self) -> None:
        """The wait of a minute ends when work of the run is undone."""
        @self.agent.restores
        def _(undo: Undo) -> None:
            pass

        async def loop() -> None:
            async with self.agent.run("told-task") as run:
                await asyncio.to_thread(run.checkpoint, "begun", {})
                async with run.step("think", effect="reversible") as think:
                    pass
                try:
                    async with run.step("search", parents=[think]):
                        raise Status(429, "60")
                except Status as error:
                    await asyncio.to_thread(run.signal, think, "output.bad_arguments")
                    await self.agent.recover_async(error)

        began = time.monotonic()
        with self.assertRaises(RolledBack):
            asyncio.run(loop())
        self.assertLess(time.monotonic() - began, 50)

    def test_what_is_no_failure_of_a_step(self) -> None:
        with self.assertRaises(InputError):
            self.agent.recover(ValueError("whose?"))
        for error in (RolledBack([1], {}, None, None), InputError("x"), KeyboardInterrupt()):
            with self.assertRaises(type(error)):
                self.agent.recover(error)
        with self.agent.run("options") as run:
            step: Step | None = None
            try:
                with run.step("one") as step:
                    raise NoEffect("not begun")
            except NoEffect as error:
                for wrong in ({"able": ["pray"]}, {"effects": "some"}):
                    with self.assertRaises(InputError):
                        self.agent.recover(error, step, **wrong)  # type: ignore[arg-type]


class Raw(Live):
    def test_of_errors(self) -> None:
        """Statuses, codes and names stand where the classifier looks for them."""
        headers = Message()
        headers["Retry-After"] = "7"
        wrapped = RuntimeError("retries spent")
        wrapped.__cause__ = Status(429)
        looped = RuntimeError("raised from itself")
        looped.__cause__ = looped
        grpc = type("RpcError", (Exception,), {"code": lambda self: type("Code", (), {"name": "UNAVAILABLE"})()})
        evil = type("Evil", (Exception,), {"__str__": lambda self: 1 / 0, "code": property(lambda self: 1 / 0)})
        for error, want in (
            (HTTPError("http://x", 503, "Service Unavailable", headers, io.BytesIO()), {"http_status": 503, "retry_after_ms": 7000}),
            (Status(429, code="insufficient_quota"), {"http_status": 429, "provider_code": "insufficient_quota"}),
            (wrapped, {"http_status": 429, "provider_code": "Status"}),
            (looped, {"provider_code": "RuntimeError", "text": "raised from itself"}),
            (grpc(), {"grpc_code": "UNAVAILABLE"}),
            (evil(), {"text": "", "provider_code": "Evil"}),
            (OSError(28, "No space left on device"), {"provider_code": "ENOSPC"}),
            (ConnectionRefusedError(111, "refused"), {"provider_code": "ConnectionRefusedError"}),
            (ValueError("ü" * 3000), {"provider_code": "ValueError", "text": "ü" * 2048}),
        ):
            raw = raw_of(error)
            self.assertEqual({name: raw.get(name) for name in want}, want)
