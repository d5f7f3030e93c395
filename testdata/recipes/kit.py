"""The agent that `arl conformance agent` tests where `arl agent listen` runs a program.

    arl conformance agent --no-work -- python3 kit.py ARL node undo.mjs
    arl conformance agent --no-work -- python3 kit.py ARL python3 undo.py

ARL is the path of arl. The kit starts this script as the agent: the script prepares the
state that the program undoes things in, and becomes `arl agent listen`. The listener
starts the script again for each hook, with HOOK in front: the script has the program
undo its files, and then tells the service of the kit. Standard library only.
"""
import json, os, pathlib, subprocess, sys, urllib.error, urllib.parse, urllib.request

state = pathlib.Path(os.environ["KIT_STATE"])
work = state / "work"
service = os.environ["KIT_EFFECTS"]


def prepare():
    for folder in ["checkpoints", "orders", "cancelled"]:
        (work / folder).mkdir(parents=True, exist_ok=True)
    (work / "checkpoints" / "c0.json").write_text("{}")
    for order in ["charge", "second"]:
        (work / "orders" / (order + ".json")).write_text("{}")


def agent(arl, program):
    listen = [arl, "agent", "listen", "--home", str(state / "home"), "--url", os.environ["KIT_LEDGER"], "--root", os.environ["KIT_ROOT"],
              "--key", os.environ["KIT_KEY"], "--agent", os.environ["KIT_AGENT"], "--secret", os.environ["KIT_SECRET"],
              "--state", str(state / "agent")]
    if os.environ["KIT_START"] == "first":
        prepare()
        subprocess.run(listen + ["--init"], check=True)
    elif not work.exists():
        prepare()
    os.execv(arl, listen + ["--hooks", "restore,compensate,probe", "--exec", sys.executable, "--", __file__, "HOOK"] + program)


def asked(question, method="GET"):
    """Ask the service what was done, or have it done."""
    url, body = service + "?" + urllib.parse.urlencode(question), None
    if method == "POST":
        url, body = service, json.dumps(question).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data=body, method=method)) as answer:
        return json.load(answer)


def effects(call, do):
    """What the service is asked about a call: one question a key."""
    if do == "restore":
        return [{"do": do, "checkpoint": call["checkpoint"]}]
    keys = call.get("keys") or [call["key"]]
    return [{"do": do, "exec": call["members"][0]["exec"], "key": key} for key in keys]


def hook(call, program):
    if call["hook"] == "probe":
        for effect in effects(call, call["of"]):
            done = asked(effect)
            if done["done"]:
                return {"status": "done", **({"digest": done["digest"]} if "digest" in done else {})}
    text = subprocess.run(program + [str(work)], input=json.dumps(call), stdout=subprocess.PIPE, check=True, text=True).stdout
    report = json.loads(text)
    if call["hook"] == "probe" or report["status"] != "done":
        return report
    try:
        asked(effects(call, call["hook"])[0], "POST")
    except urllib.error.HTTPError as refused:
        return {"status": "failed", "residual": "the service refused: %d" % refused.code}
    return report


if sys.argv[1] == "HOOK":
    print(json.dumps(hook(json.load(sys.stdin), sys.argv[2:])))
else:
    agent(sys.argv[1], sys.argv[2:])
