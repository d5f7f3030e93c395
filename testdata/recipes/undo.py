"""Undo what `arl agent listen` asks for: one call on standard input, one report
on standard output.

    arl agent listen --key worker.key --idempotent drain,restore,cancel \
        --exec python3 -- undo.py WORK

WORK holds the agent's state (state.json), its checkpoints (checkpoints/ID.json),
what it was paid back (refunds/KEY.json), and after a restore what stands beside the
checkpoint (standing.json): executions that the agent loads before it works on.
"""

import hashlib
import json
import os
import pathlib
import sys

work = pathlib.Path(sys.argv[1])


def digest(path):
    return "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()


def write(path, content):
    """Replace a file, whole and on disk, or leave it as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    with open(new, "wb") as f:
        f.write(content)
        f.flush()
        os.fsync(f.fileno())
    os.replace(new, path)
    directory = os.open(path.parent, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


def checkpoint(call):
    return work / "checkpoints" / (call["checkpoint"].split("#", 1)[1] + ".json")


def standing(call):
    return json.dumps(call["standing"]).encode()


def refund(key):
    return work / "refunds" / (key + ".json")


def drain(call):
    # Nothing of this agent is ever in flight: a step ends before the next begins.
    return {"status": "done"}


def restore(call):
    saved = checkpoint(call)
    if not saved.exists():
        return {"status": "failed", "residual": "the checkpoint is gone"}
    # First what stands: where the state is back, nobody asks for it again.
    write(work / "standing.json", standing(call))
    write(work / "state.json", saved.read_bytes())
    return {"status": "done", "digest": digest(work / "state.json")}


def compensate(call):
    # A real one passes the key on, as the idempotency key of the request.
    for member in call["members"]:
        write(refund(call["key"]), json.dumps({"refund": member["exec"]}).encode())
    return {"status": "done"}


def cancel(call):
    return {"status": "done"}


def probe(call):
    """Say what became of a call that was started and did not end."""
    if call["of"] == "compensate":
        made = any(refund(key).exists() for key in call["keys"])
        return {"status": "done" if made else "no_effect"}
    if call["of"] == "restore":
        state, loads = work / "state.json", work / "standing.json"
        back = state.exists() and digest(state) == call["digest"]
        if back and loads.exists() and loads.read_bytes() == standing(call):
            return {"status": "done", "digest": call["digest"]}
    return {"status": "no_effect"}


hooks = {"drain": drain, "restore": restore, "compensate": compensate, "cancel": cancel, "probe": probe}
request = json.load(sys.stdin)
if request["v"] != 1:
    sys.exit("a version of calls that this script does not know")
json.dump(hooks[request["hook"]](request), sys.stdout)
