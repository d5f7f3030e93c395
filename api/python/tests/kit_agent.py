"""The agent that `arl conformance agent` tests: docs/conformance.md says what it gets and does."""

from __future__ import annotations

import json
import os
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

import recoveryledger
from recoveryledger import NotUndone, RolledBack, Undo

SERVICE = os.environ["KIT_EFFECTS"]


class RefusedForGood(Exception):
    """The service refuses: there was no effect, and there will be none."""


def ask(members: dict[str, Any], post: bool) -> dict[str, Any]:
    """Asks the service for an effect, or whether there was one."""
    url, body = SERVICE, json.dumps(members).encode() if post else None
    if not post:
        url += "?" + urllib.parse.urlencode(members)
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=5) as answer:
            return dict(json.load(answer))
    except urllib.error.HTTPError as why:
        if why.code == 409:
            raise RefusedForGood from why
        raise


agent = recoveryledger.connect(os.environ["KIT_AGENT"], key=os.environ["KIT_KEY"], url=os.environ["KIT_LEDGER"], root=os.environ["KIT_ROOT"],
                               state=os.path.join(os.environ["KIT_STATE"], "agent"), secret=os.environ["KIT_SECRET"],
                               new=os.environ["KIT_START"] == "first")
agent.listen(lambda e: print(e.kind, e.incident, e.exec, e.text, e.error or "", file=sys.stderr))


def compensated(undo: Undo) -> bool:
    return any(ask({"do": "compensate", "exec": undo.exec, "key": key}, post=False)["done"] for key in undo.keys)


@agent.compensates(probe=compensated)
def compensate(undo: Undo) -> None:
    try:
        ask({"do": "compensate", "exec": undo.exec, "key": undo.key}, post=True)
    except RefusedForGood:
        raise NotUndone("the charge stands: the service refuses to take it back") from None


def restored(undo: Undo) -> str | bool:
    answer = ask({"do": "restore", "checkpoint": checkpoint(undo)}, post=False)
    return str(answer["digest"]) if answer["done"] else False


@agent.restores(idempotent=False, probe=restored)
def restore(undo: Undo) -> str:
    return str(ask({"do": "restore", "checkpoint": checkpoint(undo), "standing": undo.standing}, post=True)["digest"])


def checkpoint(undo: Undo) -> str:
    return f"{agent.name}#{undo.checkpoint}"


def work(task: dict[str, Any]) -> None:
    with agent.run(task["wid"]) as run:
        step = run.step("task", effect=task["effect"], parents=task["parents"], id=task["exec"], exec=task["exec"])
        try:
            with step:
                if step.done:
                    return
                question = {"do": "run", "exec": step.exec, "key": step.key}
                if not (step.interrupted and ask(question, post=False)["done"]):
                    ask(question, post=True)
        except RefusedForGood:
            run.signal(step, "tool.error", effects="none")


def tasks() -> None:
    for line in sys.stdin:
        try:
            work(json.loads(line))
        except (recoveryledger.LedgerError, RolledBack, OSError) as why:
            print(type(why).__name__, why, file=sys.stderr)


agent.follow()
threading.Thread(target=tasks, daemon=True).start()
agent.serve()
