"""The other agent of examples.test.js: an order that rests on an execution of the agent in JavaScript.

    two_languages.py NAME KEY PARENT
"""

import sys

import recoveryledger

name, key, parent = sys.argv[1:]
agent = recoveryledger.connect(name, key=key)


@agent.compensates("order")
def cancel(undo: recoveryledger.Undo) -> None:
    print("cancelled", undo.result, flush=True)


with agent.run("both") as run:
    with run.step("order", effect="compensable", parents=[parent]) as order:
        order.result = "order-7"
print("ordered", flush=True)
sys.stdin.read()  # until the test ends
