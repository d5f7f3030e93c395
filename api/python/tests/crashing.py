"""An agent for test_crash.py: works, fails, and is rolled back; dies at one of its points.

    crashing.py NAME KEY WORLD POINT

WORLD is a directory with what the agent has effects on. POINT is the number of the point at which
the process kills itself; 0: never; "hook": within a compensation that is neither idempotent nor
probed, as often as that compensation is called; "copy": after a compensation, with a copy of the
state from before the signal; or the name of an effect: when the effect has happened, and the agent
does not know it yet. The points lie before and after each document that is saved, and before each
request that writes and after its answer; and around each effect.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import sys
import time
from itertools import count
from typing import Any

import recoveryledger
from recoveryledger import RolledBack, Undo
from recoveryledger.ledger import Ledger
from recoveryledger.store import Store

name, key, world, named = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4]
point = int(named) if named.isdigit() else 0
passed, turns = 0, count()


def pass_point(what: str = "") -> None:
    global passed
    passed += 1
    if passed == point or what and what == named:
        os.kill(os.getpid(), signal.SIGKILL)


def around(kind: Any, method: str) -> None:
    """Puts a point before and after each call of a method."""
    function = getattr(kind, method)

    def wrapped(*args: Any, **options: Any) -> Any:
        pass_point()
        returned = function(*args, **options)
        pass_point()
        return returned

    setattr(kind, method, wrapped)


around(Store, "save_text")
around(Ledger, "submit")


def effect(what: str, key: str) -> None:
    """A service that knows its keys: the same key twice is one effect, and it counts the calls."""
    pass_point()
    with open(world / f"{what}-{key}", "a") as file:
        file.write("x")
    pass_point(what)


agent = recoveryledger.connect(name, key=key, patience=20)


@agent.compensates("charge", idempotent=True)
def refund(undo: Undo) -> None:
    effect("refund", undo.key)


@agent.compensates("mail", probe=lambda undo: any((world / f"recall-{k}").exists() for k in undo.keys))
def recall(undo: Undo) -> None:
    effect("recall", undo.key)
    if named == "copy":
        os.kill(os.getpid(), signal.SIGKILL)


@agent.compensates("wire")
def call_back(undo: Undo) -> None:
    effect("back", undo.key)
    os.kill(os.getpid(), signal.SIGKILL)


@agent.restores
def restore(undo: Undo) -> None:
    (world / "state.json").write_text(json.dumps(undo.state))
    pass_point("restore")


def work() -> None:
    with agent.run("trip") as run:
        run.checkpoint("begun", {"price": None})
        with run.step("price", effect="reversible") as price:
            if not price.done:
                pass_point()
        with run.step("charge", effect="compensable", parents=[price]) as charge:
            if not charge.done:
                effect("charge", charge.key)
                charge.result = charge.key
        with run.step("mail", effect="compensable", parents=[charge]) as mail:
            if not mail.done:
                effect("mail", mail.key)
        if named == "copy":
            shutil.copytree(key + ".state", key + ".copy")
        if named == "hook":
            with run.step("wire", effect="compensable", parents=[price]):
                pass
        run.signal(price, "output.bad_arguments")
        while True:  # until the next step tells it
            with run.step("wait", id=str(next(turns))):
                time.sleep(0.05)


try:
    if told_before := agent.records.run("trip")["told"]:  # killed when it was told already
        raise agent.rolled_back("trip", [int(n) for n in told_before])
    work()
except RolledBack as why:
    print(json.dumps({"undone": why.undone, "checkpoint": why.checkpoint, "points": passed}), flush=True)
agent.close()
