"""The examples, and two agents in two languages in one rollback."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from typing import Any

from recoveryledger import Undo

from .support import ARL, TREE, Live

sys.path.insert(0, str(TREE / "api/python/examples"))

import plain_loop  # noqa: E402
import tool_loop  # noqa: E402


class Examples(Live):
    def test_plain_loop(self) -> None:
        agent = self.connect()
        paid: dict[str, int] = {}
        rates = [125, 1250]

        @agent.compensates("charge")
        def _(undo: Undo) -> None:
            del paid[undo.step_key]

        @agent.restores
        def _(undo: Undo) -> None:
            pass

        def charge(invoice: str, rate: int, key: str) -> int:
            paid[key] = rate
            if len(paid) == 3 and rate == 125:  # the mistake is noticed
                run = agent.run("invoices")
                run.signal(f"{self.name}#invoices/rate", "output.bad_arguments")
            return rate

        self.assertEqual(plain_loop.pay(agent, ["a", "b", "c"], lambda: rates.pop(0), charge), {"a": 1250, "b": 1250, "c": 1250})
        self.assertEqual(list(paid.values()), [1250] * 3)

    def test_tool_loop(self) -> None:
        agent = self.connect()
        orders: dict[str, int] = {}

        @agent.compensates("order")
        def _(undo: Undo) -> None:
            del orders[undo.step_key]

        @agent.restores
        def _(undo: Undo) -> None:
            pass

        def call(number: int, name: str, **arguments: Any) -> dict[str, Any]:
            function = {"name": name, "arguments": json.dumps(arguments)}
            return {"role": "assistant", "content": None, "tool_calls": [{"id": f"call-{number}", "type": "function", "function": function}]}

        def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
            """A provider that reads the price wrongly, notices, and does it again when it is told."""
            again = any("were undone" in str(m["content"]) for m in messages)
            done = [m for m in messages if m["role"] == "tool"]
            if not done:
                return call(1, "price", reads="1250.00" if again else "1.25")
            if len(done) == 1:
                return call(2, "order", price=1250 if again else 1)
            if not again:
                agent.run("chat").signal(f"{self.name}#chat/price:call-1", "output.bad_arguments")
                return call(3, "wait")
            return {"role": "assistant", "content": "ordered"}

        def order(arguments: dict[str, Any], key: str) -> str:
            orders[key] = arguments["price"]
            return "ordered"

        tools = {"price": tool_loop.Tool(lambda a, _: a["reads"], "reversible"), "order": tool_loop.Tool(order, "compensable"),
                 "wait": tool_loop.Tool(lambda _, __: time.sleep(1.5))}
        end = tool_loop.converse(agent, "chat", [{"role": "user", "content": "buy"}], tools, model)
        self.assertEqual(end[-1]["content"], "ordered")
        self.assertEqual(list(orders.values()), [1250])

    def test_two_agents_in_two_languages(self) -> None:
        node = shutil.which("node")
        if node is None:
            self.skipTest("missing: node: the second agent is not run")
        other, key = self.machine.enrol()
        work = self.machine.dir / f"work-{other}"
        for folder in ("checkpoints", "orders", "cancelled"):
            (work / folder).mkdir(parents=True)
        listen = [ARL, "agent", "listen", "--key", str(key), "--agent", other]
        subprocess.run([*listen, "--init"], env=self.machine.env, check=True, capture_output=True)
        listener = subprocess.Popen([*listen, "--hooks", "restore,compensate,probe", "--exec", node, "--", str(TREE / "testdata/recipes/undo.mjs"), str(work)],
                                    env=self.machine.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: (listener.terminate(), listener.wait()))
        agent = self.connect()
        undone: list[str] = []

        @agent.compensates("quote")
        def _(undo: Undo) -> None:
            self.assertFalse((work / "orders" / "order.json").exists())  # what rests on it is undone before
            undone.append(undo.exec)

        with agent.run("both") as run:
            with run.step("quote", effect="compensable") as quote:
                pass
            (work / "orders" / "order.json").write_text("{}")
            for progress in ("started", "confirmed"):
                execution = {"wid": "both", "exec": "order", "parents": [{"exec": quote.exec, "dep": "hard"}], "effect": "compensable",
                             "progress": progress, "idempotency_key": "sha256:" + "0" * 64}
                subprocess.run([ARL, "entry", "submit", "--kind", "execution", "--principal", other, "--key", str(key), "--payload", "-"],
                               input=json.dumps(execution), text=True, env=self.machine.env, check=True, capture_output=True)
            incident = run.signal(quote, "output.bad_arguments")
            self.assertEqual(self.outcomes(agent, incident, timeout=30), {"quote": "compensated"})
        self.assertEqual(undone, [quote.exec])
        self.assertEqual(len(list((work / "cancelled").iterdir())), 1)
