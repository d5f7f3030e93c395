"""An agent that calls tools as a model says, in the form of OpenAI's chat completions.

Each call of a tool is a step. The steps of a conversation rest on each other: what the model had read
before it called a tool, the call rests on. When a rollback undoes calls, the conversation goes back to
the checkpoint before the first of them, and the model is told.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Callable

from recoveryledger import Agent, RolledBack, Run, Step

Message = dict[str, Any]


@dataclass
class Tool:
    """A tool: its function, which gets the arguments and an idempotency key, and its effect."""

    function: Callable[[dict[str, Any], str], Any]
    effect: str = "none"


def converse(agent: Agent, name: str, messages: list[Message], tools: dict[str, Tool], model: Callable[[list[Message]], Message]) -> list[Message]:
    """Has a model call tools until it answers without a call. Returns the conversation."""
    while True:
        try:
            with agent.run(name) as run:
                return turns(run, messages, tools, model)
        except RolledBack as told:
            messages = [*(told.state or messages[:1]), {"role": "user", "content": f"These calls were undone: {sorted(told.undone)}. Do them again otherwise."}]


def turns(run: Run, messages: list[Message], tools: dict[str, Tool], model: Callable[[list[Message]], Message]) -> list[Message]:
    """The turns of one run."""
    before: list[Step] = []
    while True:
        answer = model(messages)
        messages = [*messages, answer]
        if not answer.get("tool_calls"):
            return messages
        run.checkpoint(f"turn-{len(messages)}", messages[:-1])
        for call in answer["tool_calls"]:
            function, tool = call["function"], tools[call["function"]["name"]]
            with run.step(function["name"], effect=tool.effect, parents=before[-1:], id=call["id"]) as step:
                if not step.done:
                    step.result = tool.function(json.loads(function["arguments"]), step.key)
            before.append(step)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(step.result)})
