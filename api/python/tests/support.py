"""A real ledger for the tests: `arl serve` on loopback, in a directory of its own."""

from __future__ import annotations

import atexit
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest
from typing import Any

import recoveryledger
from recoveryledger.errors import Unreachable
from recoveryledger.ledger import Ledger

TREE = pathlib.Path(__file__).resolve().parents[3]
ARL = os.path.abspath(os.environ.get("ARL") or shutil.which("arl") or TREE / "bin" / "arl")


class Machine:
    """A machine with `arl`, an ARL_HOME and a ledger that runs until the tests end."""

    def __init__(self) -> None:
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="arl-python-"))
        self.env = {**os.environ, "ARL_HOME": str(self.dir / "home")}
        self.log = open(self.dir / "serve.log", "wb")
        self.server = subprocess.Popen([ARL, "serve", "--data", str(self.dir / "data"), "--listen", "127.0.0.1:0"], env=self.env,
                                       stdout=self.log, stderr=self.log)
        atexit.register(self.close)
        self.url = self._ready()
        self.count = 0

    def _ready(self) -> str:
        till = time.monotonic() + 30
        while time.monotonic() < till:
            for profile in self.dir.glob("home/profiles/*.json"):
                value = json.loads(profile.read_text())
                ledger = Ledger(value["url"], value["root"])
                try:
                    ledger.request("GET", "/readyz", attempts=1)
                    return str(value["url"])
                except recoveryledger.LedgerError:
                    pass
                finally:
                    ledger.close()
            if self.server.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError((self.dir / "serve.log").read_text())

    def close(self) -> None:
        self.server.terminate()
        self.server.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def arl(self, *words: str) -> str:
        done = subprocess.run([ARL, *words], env=self.env, cwd=self.dir, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(f"arl {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def enrol(self, domain: str = "shop") -> tuple[str, pathlib.Path]:
        """Makes another agent; its name, and the file of its key."""
        self.count += 1
        name = f"agent{self.count}"
        key = self.dir / f"{name}.key"
        self.arl("key", "generate", "--out", str(key))
        self.arl("agent", "enrol", "--principal", name, "--key", str(key), "--domain", domain)
        return name, key

    def entries(self, **query: object) -> list[dict[str, Any]]:
        """Entries of the log as arl prints them."""
        words = [word for name, value in query.items() for word in (f"--{name}", str(value))]
        lines = self.arl("entry", "list", *words, "--output", "json")
        return [json.loads(line) for line in lines.splitlines() if line.strip()]


_machine: list[Machine] = []


def machine() -> Machine:
    """The machine of this process."""
    if not _machine:
        _machine.append(Machine())
    return _machine[0]


class Live(unittest.TestCase):
    """A test with an agent of its own at a real ledger."""

    def setUp(self) -> None:
        self.machine = machine()
        os.environ["ARL_HOME"] = str(self.machine.dir / "home")
        self.name, self.key = self.machine.enrol()
        self.events: list[recoveryledger.Event] = []

    def connect(self, **options: Any) -> recoveryledger.Agent:
        agent = recoveryledger.connect(self.name, key=self.key, **options)
        agent.listen(self.events.append)
        self.addCleanup(agent.close)
        return agent

    def outcomes(self, agent: recoveryledger.Agent, incident: int, *, timeout: float = 20) -> dict[str, str]:
        try:
            undone = agent.obey(timeout=timeout)
        except Unreachable as why:
            raise AssertionError("\n".join(map(str, [why, *self.events]))) from why
        return {name.split("/", 1)[1]: result for name, result in undone.items()}

    def progress(self) -> list[str]:
        """What the agent has logged of its executions, in order."""
        ledger = self.connect_reader()
        found: list[str] = []
        start = 0
        while page := ledger.entries(start, 500):
            start += len(page)
            found += [f"{e.body['exec']} {e.body['progress']}" for e in page if e.kind == "execution" and e.body["iss"] == self.name]
        return found

    def connect_reader(self) -> Ledger:
        profile = next(self.machine.dir.glob("home/profiles/*.json"))
        value = json.loads(profile.read_text())
        ledger = Ledger(value["url"], value["root"])
        self.addCleanup(ledger.close)
        return ledger
