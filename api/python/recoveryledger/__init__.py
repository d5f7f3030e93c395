"""Agents that log their steps before they take them, and undo what a proven decision tells them to.

    agent = recoveryledger.connect("buyer", key="buyer.key")

README.md beside the package has the first page. `recoveryledger.verify` is the verifier alone: it needs
no ledger, no network and no state.
"""

from .agent import Agent, connect
from .base import Event
from .errors import Forked, InputError, LedgerError, NoEffect, NotUndone, Refused, RolledBack, StateError, Unproven, Unreachable
from .hooks import Undo
from .recover import Action, Escalated
from .run import Run, Step
from .work import Call, Hooks, Report

__all__ = [
    "Action", "Agent", "Call", "Escalated", "Event", "Forked", "Hooks", "InputError", "LedgerError", "NoEffect", "NotUndone", "Refused",
    "Report", "RolledBack", "Run", "StateError", "Step", "Undo", "Unproven", "Unreachable", "connect",
]
