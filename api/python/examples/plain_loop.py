"""A plain loop that pays invoices, and goes on where it was after a crash or a rollback."""

from __future__ import annotations

from typing import Any, Callable

from recoveryledger import Agent, RolledBack


def pay(agent: Agent, invoices: list[str], rate: Callable[[], int], charge: Callable[[str, int, str], Any]) -> dict[str, Any]:
    """Pays invoices at a rate; `charge` gets an invoice, an amount and an idempotency key. Returns what was paid."""
    while True:
        try:
            with agent.run("invoices") as run:
                run.checkpoint("begun", {})
                with run.step("rate", effect="reversible") as read:
                    if not read.done:
                        read.result = rate()
                for invoice in invoices:
                    with run.step("charge", effect="compensable", parents=[read], id=invoice) as step:
                        if not step.done:
                            step.result = charge(invoice, read.result, step.key)
                if agent.obey():  # a mistake that was noticed at the end
                    continue
                return {invoice: run.result("charge", invoice) for invoice in invoices}
        except RolledBack:
            continue  # the next round takes what was undone again
