"""A carrier between agent and ledger alters the steps of bundles, which nobody signs: once, and for ever."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import re
import threading
import unittest.mock
import urllib.parse
from typing import Any

from recoveryledger import Agent, Undo

from .support import Live

STEP = re.compile(rb'"exec":(\d+),"rule":"SCO-3","from":\d+')


class Carrier(http.server.ThreadingHTTPServer):
    """A proxy that alters as many bundles as `left` says."""

    daemon_threads = True

    def __init__(self, url: str, left: int) -> None:
        super().__init__(("127.0.0.1", 0), Carried)
        self.host, self.left = urllib.parse.urlsplit(url).netloc, left
        self.altered, self.anew, self.connections = 0, 0, 0
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def get_request(self) -> Any:
        self.connections += 1
        return super().get_request()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of an agent that hung up."""

    def refuse(self, body: bytes) -> tuple[int, bytes] | None:
        """Status and problem that answer an entry in the ledger's place; None: the ledger answers."""

    def page(self, path: str) -> str:
        """What of a bundle is asked for."""
        return path

    def follows(self, target: str) -> bool:
        """Whether the agent is told where the next page is."""
        return True

    def alter(self, body: bytes) -> bytes:
        changed = STEP.sub(rb'"exec":\1,"rule":"SCO-1","from":\1', body)  # it leads nowhere
        if changed == body or self.left <= 0:
            return body
        self.left -= 1
        self.altered += 1
        return changed


class Carried(http.server.BaseHTTPRequestHandler):
    server: Carrier
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.carry()

    def do_POST(self) -> None:
        self.carry()

    def carry(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        refusal = self.server.refuse(body) if self.path == "/v1/entries" else None
        if refusal is not None:
            self.send_response(refusal[0])
            self.send_header("Content-Length", str(len(refusal[1])))
            self.end_headers()
            self.wfile.write(refusal[1])
            return
        path = self.server.page(self.path) if "/bundle?" in self.path else self.path
        headers = {name: value for name, value in self.headers.items() if name not in ("Host", "Connection", "Accept-Encoding")}
        with contextlib.closing(http.client.HTTPConnection(self.server.host, timeout=60)) as there:
            there.request(self.command, path, body or None, headers)
            answer = there.getresponse()
            data = answer.read()
        if "/bundle?" in self.path:
            self.server.anew += self.headers.get("Cache-Control") == "no-cache"
            data = self.server.alter(data)
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name not in ("Content-Length", "Transfer-Encoding", "Connection", "Date", "Server") and (name != "Link" or self.server.follows(path)):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


class Carriers(Live):
    def through(self, left: int) -> tuple[Agent, Carrier]:
        carrier = Carrier(self.machine.url, left)
        threading.Thread(target=carrier.serve_forever, daemon=True).start()
        self.addCleanup(carrier.server_close)
        self.addCleanup(carrier.shutdown)
        profile = json.loads(next(self.machine.dir.glob("home/profiles/*.json")).read_text())
        agent = self.connect(url=carrier.url, root=profile["root"])

        @agent.compensates("charge")
        def _(_: Undo) -> None:
            pass

        return agent, carrier

    def fails(self, agent: Agent) -> dict[str, str]:
        with agent.run("carried") as run:
            with run.step("charge", effect="compensable") as charge:
                pass
            incident = run.signal(charge, "output.bad_arguments")
        return self.outcomes(agent, incident)

    def test_altered_once(self) -> None:
        agent, carrier = self.through(1)
        self.assertEqual(self.fails(agent), {"charge": "compensated"})
        self.assertEqual(carrier.altered, 1)
        self.assertGreaterEqual(carrier.anew, 1)
        self.assertGreater(carrier.connections, 1)

    def test_altered_for_ever(self) -> None:
        with unittest.mock.patch("recoveryledger.work.pause_after", lambda _: 20):
            agent, carrier = self.through(10**6)
            self.assertEqual(self.fails(agent), {"charge": "refused"})
        self.assertGreaterEqual(carrier.altered, 6)
        self.assertGreaterEqual(carrier.anew, 5)
