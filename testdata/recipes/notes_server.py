"""An MCP server that keeps notes as files in a directory: for docs/mcp.md. Standard library only."""

import json
import pathlib
import sys

NOTES = pathlib.Path(sys.argv[1])
TOOLS = {  # name: whether the tool only reads, and its arguments
    "read": (True, ["name"]),
    "write": (False, ["name", "text"]),
    "remove": (False, ["name"]),
}


def call(name, arguments):
    """Does what a tool does, and returns a text."""
    note = NOTES / pathlib.PurePath(arguments["name"]).name
    if name == "read":
        return note.read_text()
    if name == "write":
        note.write_text(arguments["text"])
        return "written"
    note.unlink()
    return "removed"


def answer(method, params):
    """The result of a request."""
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "notes", "version": "1"}}
    if method == "tools/list":
        return {"tools": [{"name": name, "annotations": {"readOnlyHint": reads},
                           "inputSchema": {"type": "object", "properties": {a: {"type": "string"} for a in arguments}, "required": arguments}}
                          for name, (reads, arguments) in TOOLS.items()]}
    if method == "tools/call":
        try:
            return {"content": [{"type": "text", "text": call(params["name"], params["arguments"])}]}
        except (OSError, KeyError) as why:
            return {"content": [{"type": "text", "text": str(why)}], "isError": True}
    return {}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = answer(request["method"], request.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
