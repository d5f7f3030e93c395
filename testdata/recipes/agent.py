"""An agent under arl run: charges three customers, once each, whoever holds the task.

    arl run --task operator#charges --key worker.key \
        --probe 'python3 agent.py WORK probe' -- python3 agent.py WORK

Each charge is a step with an effect: it is begun in the log before it is done, and
carries an idempotency key that is the same for every attempt. What is done is kept
in a checkpoint, which the next attempt goes on from. If the agent dies in the middle
of a charge, the probe says whether it took place. Standard library only.
"""
import json, os, signal, subprocess, sys

work = sys.argv[1]
os.makedirs(os.path.join(work, "charges"), exist_ok=True)


def arl(*args):
    out = subprocess.run([os.environ["ARL_PROGRAM"], "work", *args, "--output", "json"], check=True, stdout=subprocess.PIPE)
    return json.loads(out.stdout) if out.stdout else None


def charge(customer, key):
    """The service that has the effect: the same key twice is one charge."""
    die_if("AGENT_DIES_BEFORE", customer)
    try:
        with open(os.path.join(work, "charges", key), "x") as f:
            f.write(customer)
    except FileExistsError:
        pass
    die_if("AGENT_DIES_AFTER", customer)


def probe(key):
    """Ask the service whether a charge took place: one word on standard output."""
    print("complete" if os.path.exists(os.path.join(work, "charges", key)) else "none")


def die_if(variable, customer):
    if os.environ.get(variable) == customer:
        os.kill(os.getpid(), signal.SIGKILL)


def save(state):
    path = os.path.join(work, "state-%d.json" % len(state["done"]))
    with open(path + ".new", "w") as f:
        json.dump(state, f)
        f.flush()
        os.fsync(f.fileno())
    os.replace(path + ".new", path)
    arl("checkpoint", path)


if sys.argv[2:] == ["probe"]:
    probe(os.environ["ARL_IDEMPOTENCY_KEY"])
    sys.exit()

state = {"done": []}
if os.environ.get("ARL_CHECKPOINT"):
    with open(os.environ["ARL_CHECKPOINT"]) as f:
        state = json.load(f)
for number, customer in enumerate(["ann", "bob", "cid"]):
    if customer in state["done"]:
        continue
    arl("progress", "--turns", str(number + 1), "--max-turns", "3")
    step = arl("begin", "charge-" + customer, "--effect", "compensable")
    if step["progress"] != "confirmed":  # else an attempt before this one did it
        charge(customer, step["idempotency_key"])
    arl("end", "charge-" + customer)
    state["done"].append(customer)
    save(state)
    if os.environ.get("AGENT_FAILS") == customer:
        sys.stderr.write("login of ann@example.org with password=hunter2hunter2 failed\n")
        sys.stderr.flush()
        os.kill(os.getpid(), getattr(signal, os.environ.get("AGENT_SIGNAL", "SIGKILL")))
    if os.environ.get("AGENT_WAITS") == customer:
        print("waiting", flush=True)
        signal.pause()
