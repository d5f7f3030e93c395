"""A ledger over HTTP. What it says of the log is proven before it is returned.

The client believes a tree head only if a pinned key signed the head, and if the head is proven
consistent with the largest one it accepted before. Two heads that contradict each other are a
Forked, and the client believes nothing more.
"""

from __future__ import annotations

import base64
import http.client
import json
import random
import socket
import ssl
import threading
import time
import urllib.parse
from dataclasses import dataclass
from typing import Any, Callable

from .errors import Forked, InputError, LedgerError, Refused, Unproven, Unreachable
from .verify.entries import Logged
from .verify.form import MAX_BUNDLE
from .verify.notes import MAX_NOTE, open_head
from .verify.schemas import Schemas
from .verify.strict import Broken, canonical, strict_base64, strict_json
from .verify.strict import Refused as Malformed
from .verify.tree import check_consistency, check_inclusion, hash_leaf

ATTEMPTS = 5
MAX_ANSWER, MAX_RECEIPT = 32 << 20, 512 << 10  # bytes
MAX_WAIT_MS = 25_000  # of a question for commands
MAX_PLAN = 1 << 20  # members
REQUEST_S = 60.0  # the time of one request
BACKOFF_S, LONGEST_S = 0.1, 30.0


@dataclass
class Head:
    """A tree head that was believed."""

    size: int
    root: bytes
    note: str


class Ledger:
    """A ledger under its pinned root (docs/verify.md). Several threads may use one."""

    def __init__(self, url: str, root: dict[str, Any], *, tls_ca: str | None = None, keep: Callable[[Head], None] | None = None) -> None:
        parts = urllib.parse.urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1 or parts.query or parts.fragment:
            raise InputError(f"url {url!r}: not the URL of a ledger", "pass a URL such as http://127.0.0.1:8087")
        self.url, self.root = url.rstrip("/"), root
        self._host, self._port, self._base, self._tls = parts.hostname, port, parts.path.rstrip("/"), None
        if parts.scheme == "https":
            self._tls = ssl.create_default_context(cafile=tls_ca)
            self._tls.minimum_version = ssl.TLSVersion.TLSv1_3
        self._schemas = Schemas.of_package()
        self._keep = keep
        self._mutex = threading.RLock()
        self._local = threading.local()
        self._connections: dict[threading.Thread, http.client.HTTPConnection] = {}
        self._fork: Forked | None = None
        self.accepted: Head | None = None

    # Requests

    def request(self, method: str, path: str, body: bytes = b"", *, limit: int = MAX_ANSWER, attempts: int = ATTEMPTS, least: int = 0,
                anew: bool = False) -> tuple[bytes, str]:
        """The body of an answer, and where the next page is. Repeats what a repetition can help.

        The answer is from no log smaller than `least`, nor than the accepted one. `anew` asks over a new
        connection, past what caches keep.
        """
        for attempt in range(1, attempts + 1):
            try:
                return self._once(method, path, body, limit, (least, anew))
            except Unreachable:
                if attempt == attempts:
                    raise
                asked = 0.0
            except Refused as refusal:
                asked = refusal.retry_after_ms / 1000
                if attempt == attempts or not refusal.temporary or asked > LONGEST_S:
                    raise
            pause = min(BACKOFF_S * 2 ** (attempt - 1), LONGEST_S)
            time.sleep(max(asked, pause / 2 + random.random() * pause))
        raise AssertionError("unreachable")

    def _connection(self) -> http.client.HTTPConnection:
        known: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if known is None:
            if self._tls is not None:
                known = http.client.HTTPSConnection(self._host, self._port, timeout=REQUEST_S, context=self._tls)
            else:
                known = http.client.HTTPConnection(self._host, self._port, timeout=REQUEST_S)
            self._local.connection = known
            with self._mutex:
                for thread in [t for t in self._connections if not t.is_alive()]:
                    self._connections.pop(thread).close()
                self._connections[threading.current_thread()] = known
        return known

    def close(self) -> None:
        """Closes the connections. The next request opens another one."""
        with self._mutex:
            for connection in self._connections.values():
                connection.close()

    def interrupt(self, thread: threading.Thread) -> None:
        """Ends the request that a thread waits for. That thread gets an Unreachable."""
        connection = self._connections.get(thread)
        if connection is not None and connection.sock is not None:
            try:
                connection.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has ended by itself

    def _once(self, method: str, path: str, body: bytes, limit: int, wants: tuple[int, bool]) -> tuple[bytes, str]:
        connection, (least, anew) = self._connection(), wants
        headers = {"Content-Type": "application/json"} if body else {}
        if anew:
            connection.close()  # the request opens it again
            headers["Cache-Control"] = "no-cache"
        least = max(least, self.accepted.size if self.accepted else 0)
        if least:
            headers["Min-Log-Size"] = str(least)
        try:
            connection.request(method, self._base + path, body or None, headers)
            answer = connection.getresponse()
            data = answer.read(limit + 1)
            if not answer.isclosed():  # too long
                connection.close()
        except (OSError, http.client.HTTPException) as why:
            connection.close()
            raise Unreachable(f"{method} {self.url}{path}: {type(why).__name__}: {why}", "see that the ledger runs at this URL") from why
        if len(data) > limit:
            raise Unproven(f"{method} {self.url}{path}: an answer of more than {limit} bytes", "check the URL, and any proxy in between")
        if answer.status in (200, 201):
            return data, _next_page(answer.getheader("Link", ""))
        size = answer.getheader("Log-Size", "")
        if answer.status in (404, 503) and size.isdigit() and int(size) < least:
            raise _stale(self.url, int(size), least)
        raise _problem(f"{method} {self.url}{path}", answer.status, data)

    def get(self, path: str, **query: object) -> Any:
        """The JSON of an answer. Only its form as JSON is checked."""
        return self._json(self.request("GET", path + _query(query))[0])

    @staticmethod
    def _json(data: bytes) -> Any:
        try:
            return strict_json(data)
        except Malformed:
            raise Unproven("an answer is not the JSON of a ledger", "check the URL, and any proxy in between") from None

    # Heads

    def believe(self, note: str) -> Head:
        """Opens a tree head, and proves it consistent with the largest accepted head."""
        with self._mutex:
            if self._fork is not None:
                raise self._fork
            head = self.open(note)
            known = self.accepted
            if known is not None and known.note == note:
                return known
            if known is not None:
                self._connect(*((known, head) if known.size <= head.size else (head, known)))
            if known is None or head.size > known.size:
                self.accepted = head
                if self._keep is not None:
                    self._keep(head)
            return head

    def open(self, note: str) -> Head:
        """Opens a tree head that a pinned key signed. The error is an Unproven."""
        try:
            if len(note.encode()) > MAX_NOTE:
                raise Broken("AGT-1")
            return Head(*open_head(self.root, note))
        except (Broken, Malformed, UnicodeError):
            raise Unproven("a tree head is not signed by the pinned key of the ledger", "check the URL and the pinned root") from None

    def _connect(self, older: Head, newer: Head) -> None:
        if older.size == newer.size and older.root == newer.root:
            return
        proven = older.size == newer.size
        try:
            path = [] if proven else self.consistency(older.size, newer.size)
            check_consistency(older.size, newer.size, older.root, newer.root, path)
        except Malformed:
            self._forked(older, newer, proven)
        except Refused as refusal:
            if refusal.problem != "not-found":
                raise
            raise _stale(self.url, older.size, newer.size) from refusal

    def _forked(self, older: Head, newer: Head, proven: bool) -> None:
        what = f"the ledger shows two logs: the one of size {newer.size} does not continue the one of size {older.size}"
        self._fork = Forked(what, (older.note, newer.note), proven)
        raise self._fork

    def consistency(self, old: int, new: int) -> list[bytes]:
        """The hashes that are to prove that the log of one size begins the log of another."""
        if old == 0 or old == new:
            return []
        answer = self._json(self.request("GET", f"/v1/consistency/{old}/{new}", least=new)[0])
        try:
            return [strict_base64(h) for h in answer["path"]]
        except (Malformed, KeyError, TypeError, AttributeError):
            raise Unproven("a consistency proof has not the form of one", "check the URL, and any proxy in between") from None

    # Entries

    def submit(self, envelope: str, *, attempts: int = ATTEMPTS) -> dict[str, Any]:
        """Registers a signed envelope in canonical form, and verifies the receipt.

        Returns {index, leaf_hash, registered_at}. The same bytes again are the same entry.
        """
        data, _ = self.request("POST", "/v1/entries", envelope.encode(), limit=MAX_RECEIPT, attempts=attempts)
        return self._receipt(self._json(data), json.loads(envelope))

    def _receipt(self, receipt: Any, envelope: Any) -> dict[str, Any]:
        try:
            leaf = strict_base64(receipt["leaf"])
            index, note = receipt["index"], receipt["head"]
            proof = [strict_base64(h) for h in receipt["proof"]]
            inner = strict_json(leaf)
            shown, at = inner["envelope"], inner["registered_at"]
        except (Malformed, KeyError, TypeError, AttributeError):
            raise Unproven("a receipt has not the form of one", "check the URL, and any proxy in between") from None
        if shown != envelope or type(at) is not int or type(index) is not int or canonical(inner).encode() != leaf:
            raise Unproven("a receipt is of another entry than the one submitted", "report it: the ledger lies, or another server is at the URL")
        self._included(index, hash_leaf(leaf), self.believe(note), proof)
        return {"index": index, "leaf_hash": base64.b64encode(hash_leaf(leaf)).decode(), "registered_at": at}

    @staticmethod
    def _included(index: int, leaf: bytes, head: Head, proof: list[bytes]) -> None:
        try:
            check_inclusion(index, head.size, leaf, head.root, proof)
        except Malformed:
            raise Unproven(f"entry {index} is not proven to be in the log", "report it: the ledger lies, or another server is at the URL") from None

    def entries(self, start: int, limit: int) -> list[Logged]:
        """The entries of the log from an index on, without a gap, each proven to be in the log."""
        page = self.get("/v1/entries", **{"from": start, "limit": limit})
        try:
            head = self.believe(page["head"])
            found: list[Logged] = []
            for place, item in enumerate(page["entries"]):
                leaf = {"envelope": item["envelope"], "registered_at": item["registered_at"]}
                e = Logged(self._schemas, item["index"], json.loads(canonical(leaf)))
                if e.index != start + place:
                    raise Unproven(f"entry {e.index} stands in the place of {start + place}", "report it: the server leaves entries out")
                self._included(e.index, e.hash, head, [strict_base64(h) for h in item["proof"]])
                found.append(e)
        except (Malformed, KeyError, TypeError, AttributeError):
            raise Unproven("a page of entries has not the form of one", "check the URL, and any proxy in between") from None
        return found

    # What an agent asks

    def commands(self, agent: str, start: int, wait_ms: int) -> dict[str, Any]:
        """Hints at what there is to do: {size, news, commands}. The server's word alone."""
        query: dict[str, object] = {"from": start, "wait": max(0, min(wait_ms, MAX_WAIT_MS))} if wait_ms else {}
        path = f"/v1/agents/{urllib.parse.quote(agent, safe='')}/commands" + _query(query)
        answer = self._json(self.request("GET", path, attempts=1, least=start)[0])
        try:
            hints = [{name: int(c[name]) for name in ("incident", "decision", "changed")} for c in answer["commands"]]
            return {"size": int(answer["size"]), "news": int(answer.get("news", 0)), "commands": hints}
        except (KeyError, TypeError, ValueError, AttributeError):
            raise Unproven("commands have not the form of ones", "check the URL, and any proxy in between") from None

    def decide(self, question: dict[str, Any]) -> dict[str, Any]:
        """What the policy in force has a loop do about one failure, as docs/recovery-reference.md describes. Not proven."""
        answer = self._json(self.request("POST", "/v1/decide", json.dumps(question, ensure_ascii=False).encode())[0])
        try:
            decision = answer["decision"]
            action, rule, failure, _ = decision["action"], decision["rule"], decision["failure"], decision["rung"]
            texts = [action["strategy"], action["reason"], rule["id"], failure["class"], failure["code"]]
            if not all(isinstance(t, str) for t in texts) or type(rule["rung"]) is not int or type(action.get("wait_ms", 0)) is not int:
                raise TypeError
        except (KeyError, TypeError, AttributeError):
            raise Unproven("a decision has not the form of one", "check the URL, and any proxy in between") from None
        return decision

    def bundle(self, agent: str, incident: int, *, anew: bool = False, **query: object) -> tuple[bytes, int]:
        """A page of a bundle as received, not believed; and where the next page begins, 0: nowhere.

        `anew` asks over a new connection, past what caches keep.
        """
        name = urllib.parse.quote(agent, safe="")
        asked = {n: v for n, v in query.items() if v}
        if incident:
            path = f"/v1/incidents/{incident}/bundle" + _query({"agent": agent, **asked})
        else:
            path = f"/v1/agents/{name}/news" + _query(asked)
        data, link = self.request("GET", path, limit=MAX_BUNDLE, anew=anew)
        after = urllib.parse.parse_qs(urllib.parse.urlsplit(link).query).get("after", ["0"])[0]
        before = query.get("after") or 0
        if link and not (after.isdigit() and int(after) > int(str(before))):
            raise Unproven("the pages of a bundle do not go on", "check the URL, and any proxy in between")
        return data.rstrip(b"\n"), int(after)

    def incident(self, number: int) -> dict[str, Any]:
        """What the server says about an incident, not proven: state, waits_for."""
        answer = self.get(f"/v1/incidents/{number}")
        if not isinstance(answer, dict) or not isinstance(answer.get("state"), str):  # pyright: ignore[reportUnknownMemberType]
            raise Unproven("an incident has not the form of one", "check the URL, and any proxy in between")
        return answer  # pyright: ignore[reportUnknownVariableType]

    def plan(self, incident: int) -> list[dict[str, Any]]:
        """All members of the plan in force, not proven, ascending by place."""
        members: list[dict[str, Any]] = []
        path = f"/v1/incidents/{incident}/plan?limit=1000"
        while path:
            page = self._json(self.request("GET", path)[0])
            try:
                found, path = list(page["members"]), str(page.get("next", ""))
            except (KeyError, TypeError, AttributeError):
                raise Unproven("a plan has not the form of one", "check the URL, and any proxy in between") from None
            members += found
            if path and (not found or len(members) > MAX_PLAN or not path.startswith("/v1/incidents/")):
                raise Unproven("the pages of a plan do not go on", "check the URL, and any proxy in between")
        return members


def _query(query: dict[str, Any]) -> str:
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in query.items()}
    return "?" + urllib.parse.urlencode(texts) if texts else ""


def _next_page(link: str) -> str:
    target, _, rel = link.partition(">;")
    return target.lstrip("<") if rel.strip() == 'rel="next"' else ""


def _stale(url: str, size: int, least: int) -> Refused:
    """A node is behind, or its ledger has lost entries. That is no evidence of a fork."""
    return Refused("not-ready", {
        "detail": f"{url} is stale: its log has size {size}, and a log of size {least} was signed before",
        "remedy": "ask again; if it stays so, the ledger may have lost entries: compare its tree head with the last accepted one"})


PROBLEM = "urn:agent-recovery:problem:"
AGAIN = (429, 502, 503, 504)


def _problem(what: str, status: int, data: bytes) -> LedgerError:
    try:
        answer = json.loads(data)
        name = str(answer["type"])
    except (ValueError, KeyError, TypeError):
        name, answer = "", {}
    if name.startswith(PROBLEM):
        return Refused(name.removeprefix(PROBLEM), answer)
    if status in AGAIN:
        return Unreachable(f"{what}: status {status}", "see that the ledger runs at this URL")
    return Unproven(f"{what}: status {status}, which no ledger answers here", "check the URL, and any proxy in between")
