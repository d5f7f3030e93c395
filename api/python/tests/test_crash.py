"""SIGKILL at the points of an agent's life: each effect happens once, and the rollback ends.

Without ARL_CHAOS the points behind each effect are tried, and a sample of the others, always the
same one; with it, every point.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

from .support import Machine, machine

CRASHING = pathlib.Path(__file__).with_name("crashing.py")
PACKAGE = CRASHING.parents[1]
SAMPLE = 3
EFFECTS = ("charge", "mail", "refund", "recall", "restore")


class Crash(unittest.TestCase):
    enrolling = threading.Lock()

    def live(self, world: pathlib.Path, name: str, key: pathlib.Path, point: int | str) -> subprocess.CompletedProcess[str]:
        """One life of the agent."""
        env = {**machine().env, "PYTHONPATH": str(PACKAGE)}
        return subprocess.run([sys.executable, str(CRASHING), name, str(key), str(world), str(point)], env=env, capture_output=True, text=True,
                              timeout=300, check=False)

    def play(self, where: Machine, point: int | str) -> int:
        """Kills an agent at a point, starts it again, and looks at the world and the log; the number of its points."""
        with self.enrolling:
            name, key = where.enrol()
        world = where.dir / f"world{name}"
        world.mkdir()
        first = done = self.live(world, name, key, point)
        if point:
            self.assertIn(first.returncode, (-signal.SIGKILL,) if point in EFFECTS else (-signal.SIGKILL, 0), first.stderr)
            done = self.live(world, name, key, 0)
        what = f"killed at point {point}: {done.stdout}{done.stderr}"
        self.assertEqual(done.returncode, 0, what)
        told = json.loads(done.stdout or first.stdout)
        undone = {n.split("/")[1]: result for n, result in told["undone"].items() if "wait" not in n}
        self.assertEqual({n: undone.get(n) for n in ("price", "charge", "mail")}, {"price": "restored", "charge": "compensated", "mail": "compensated"}, what)
        files = sorted(path.name.split("-")[0] for path in world.iterdir())
        self.assertEqual(files, ["charge", "mail", "recall", "refund", "state.json"], what)  # one key each
        self.assertEqual([path.read_text() for path in world.glob("recall-*")], ["x"], what)  # not idempotent: once
        self.assertEqual(json.loads((world / "state.json").read_text()), {"price": None})
        return int(told["points"])

    def killed(self, where: Machine, named: str) -> tuple[str, pathlib.Path, pathlib.Path]:
        """The first life of an agent that is killed at a point with a name: its name, key and world."""
        with self.enrolling:
            name, key = where.enrol()
        world = where.dir / f"world{name}"
        world.mkdir()
        first = self.live(world, name, key, named)
        self.assertEqual(first.returncode, -signal.SIGKILL, first.stderr)
        return name, key, world

    def undone(self, life: subprocess.CompletedProcess[str]) -> dict[str, str]:
        """What a life says of the outcome of each step."""
        self.assertEqual(life.returncode, 0, life.stderr)
        return {n.split("/")[1]: result.split(":")[0] for n, result in json.loads(life.stdout)["undone"].items() if "wait" not in n}

    def test_in_a_hook(self) -> None:
        """A compensation that cannot be found out, and is not idempotent, is not run again: its outcome is unknown."""
        name, key, world = self.killed(machine(), "hook")
        undone = self.undone(self.live(world, name, key, "hook"))
        self.assertEqual((undone["wire"], undone["charge"], undone["mail"]), ("unknown", "compensated", "compensated"))
        self.assertEqual([path.read_text() for path in world.glob("back-*")], ["x"])

    def test_an_older_copy(self) -> None:
        """A state from a backup: the log has a compensation that this state would announce, so it counts as lost."""
        name, key, world = self.killed(machine(), "copy")
        shutil.rmtree(f"{key}.state")
        pathlib.Path(f"{key}.copy").rename(f"{key}.state")
        undone = self.undone(self.live(world, name, key, 0))
        self.assertEqual(undone["mail"], "compensated", undone)  # the probe has found it
        self.assertEqual([path.read_text() for path in world.glob("recall-*")], ["x"])

    def test_every_point(self) -> None:
        where = machine()
        points = self.play(where, 0)
        self.assertGreater(points, 60)
        every = os.environ.get("ARL_CHAOS")
        chosen = range(int(os.environ.get("CRASH_FROM", "1")), points + 1) if every else range(3, points, max(1, points // SAMPLE))
        with ThreadPoolExecutor(2) as pool:
            for _ in pool.map(lambda point: self.play(where, point), [*EFFECTS, *chosen]):
                pass
