"""The first page of README.md, word by word, at a fresh ledger."""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import subprocess
import sys
import unittest

from .support import Machine

PACKAGE = pathlib.Path(__file__).resolve().parents[1]
MAX_LINES, MAX_CONCEPTS = 15, 8


def blocks(page: str) -> list[tuple[str, str]]:
    """The blocks of code of a page: what stands behind the fence, and the lines."""
    return re.findall(r"^```([^\n]*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


class FirstPage(unittest.TestCase):
    def test_it_is_followed(self) -> None:
        page = (PACKAGE / "README.md").read_text().split("## The first page")[1].split("## Install")[0]
        (_, serve), (_, commands), (_, program), (_, output) = blocks(page)
        self.assertEqual(serve, "$ arl serve --data data\n")
        machine = Machine()  # arl serve --data, with a port and a directory of the test
        for line in commands.splitlines():
            words = shlex.split(line.removeprefix("$ "))
            self.assertEqual(words[0], "arl")
            machine.arl(*words[1:])
        (machine.dir / "buyer.py").write_text(program)
        installed = os.environ.get("INSTALLED")  # a Python that has the package; by default that of the checkout is taken
        env = machine.env if installed else {**machine.env, "PYTHONPATH": os.pathsep.join([str(PACKAGE), os.environ.get("PYTHONPATH", "")])}
        done = subprocess.run([installed or sys.executable, "buyer.py"], cwd=machine.dir, env=env, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.stderr, "")
        self.assertRegex(done.stdout, "^" + re.sub("[0-9a-f]{4}…", "[0-9a-f]{64}", re.escape(output)) + "$")
        self.assertIn("RECOVERED", machine.arl("incident", "list"))
        lines = [line for line in program.splitlines() if line.strip()]
        self.assertLessEqual(len(lines), MAX_LINES)
        concepts = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
        self.assertLessEqual(len(concepts), MAX_CONCEPTS)
        used = set(re.findall(r"(?:recoveryledger|agent|run)\.(\w+)", program))
        self.assertEqual(used, set(concepts))
