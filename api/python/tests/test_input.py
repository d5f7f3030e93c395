"""Bad input, a damaged state and a ledger that lies: typed errors, which name what, and the remedy."""

from __future__ import annotations

import base64
import http.server
import json
import os
import pathlib
import subprocess
import tempfile
import threading
import unittest
import unittest.mock
from typing import Any, Callable

import recoveryledger
from recoveryledger import Forked, InputError, LedgerError, Refused, StateError, Undo, Unproven, Unreachable
from recoveryledger.keyfile import load_key
from recoveryledger.ledger import Ledger
from recoveryledger.store import Damaged, Store
from recoveryledger.trust import find
from recoveryledger.verify import judge
from recoveryledger.verify.schemas import Schemas
from recoveryledger.verify.strict import Broken
from recoveryledger.verify.strict import Refused as Malformed

from .support import ARL, TREE, Live


class Files(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)

    def refused(self, kind: type[LedgerError], what: str, function: Callable[[], Any]) -> None:
        with self.assertRaisesRegex(kind, what) as caught:
            function()
        self.assertTrue(caught.exception.remedy, what)

    def test_keys(self) -> None:
        file = self.dir / "a.key"
        self.refused(InputError, "No such file", lambda: load_key(file))
        file.write_text("nonsense")
        file.chmod(0o644)
        self.refused(InputError, "others may read it", lambda: load_key(file))
        file.chmod(0o600)
        self.refused(InputError, "no private key in PEM", lambda: load_key(file))

    def test_encrypted_keys(self) -> None:
        file, env = self.dir / "a.key", {**os.environ, "ARL_PASSPHRASE": "pässword 1"}
        for kind in ("ed25519", "ecdsa-p256"):
            file.unlink(missing_ok=True)
            subprocess.run([ARL, "key", "generate", "--out", file, "--algorithm", kind], env=env, check=True, capture_output=True)
            shown = subprocess.run([ARL, "key", "show", file], env=env, check=True, capture_output=True, text=True).stdout
            with unittest.mock.patch.dict(os.environ, {"ARL_PASSPHRASE": "pässword 1"}):
                self.assertIn(load_key(file).keyid, shown)
        with unittest.mock.patch.dict(os.environ, {"ARL_PASSPHRASE": ""}):
            self.refused(InputError, "it is encrypted", lambda: load_key(file))
        begin, end = (f"-----{edge} ENCRYPTED SIGSTORE PRIVATE KEY-----\n" for edge in ("BEGIN", "END"))
        with unittest.mock.patch.dict(os.environ, {"ARL_PASSPHRASE": "x"}):
            self.refused(InputError, "wrong passphrase, or the file is damaged", lambda: load_key(file))
            for body, what in (("", "not a sealed key"), ("e30=", "not a sealed key"), ("####", "base64|non-alphabet|Only base64"), ("W10=", "not a sealed key")):
                file.write_text(begin + body + "\n" + end)
                self.refused(InputError, what, lambda: load_key(file))
            doc = {"kdf": {"name": "scrypt", "params": {"N": 1 << 30, "r": 8, "p": 1}, "salt": ""}, "cipher": {"name": "nacl/secretbox", "nonce": ""}, "ciphertext": ""}
            file.write_text(begin + base64.b64encode(json.dumps(doc).encode()).decode() + "\n" + end)
            self.refused(InputError, "in a way that this package does not read", lambda: load_key(file))

    def test_roots_and_urls(self) -> None:
        os.environ["ARL_HOME"] = str(self.dir)
        self.refused(InputError, "no profile of a ledger", lambda: find(None, None))
        root = self.dir / "root.json"
        for text in ("", "[]", "{}", '{"origin":"a","ledger_keys":[],"genesis":""}', '{"origin":"a","origin":"b"}'):
            root.write_text(text)
            self.refused(InputError, "root .*: not ", lambda: find("http://127.0.0.1:1", root))
        self.refused(InputError, "No such file", lambda: find("http://127.0.0.1:1", self.dir / "none"))
        for url in ("", "127.0.0.1:8087", "ftp://a", "http://", "http://a:port", "http://a?b"):
            self.refused(InputError, "not the URL of a ledger", lambda url=url: Ledger(url, {}))

    def test_a_store_is_locked_and_notices_damage(self) -> None:
        store = Store(self.dir / "state")
        self.addCleanup(store.close)
        self.refused(StateError, "another process has it", lambda: Store(self.dir / "state"))
        store.save("a", {"n": 1})
        path = self.dir / "state" / "a.doc"
        good = path.read_bytes()
        for i in range(len(good)):
            for changed in (good[:i], good[:i] + bytes([good[i] ^ 1]) + good[i + 1:]):
                path.write_bytes(changed)
                with self.assertRaises(Damaged):
                    store.load("a")
        self.refused(StateError, "Not a directory", lambda: Store(path / "state"))


class Vectors(unittest.TestCase):
    def test_every_vector_without_a_like(self) -> None:
        """Those of an entry, a key or a proof; TestPythonConforms asks all of them."""
        schemas, checked = Schemas.of_package(), 0
        for group, function in judge.GROUPS.items():
            for file in sorted((TREE / "testdata/vectors" / group).rglob("*.json")):
                vector = json.loads(file.read_text())
                try:
                    problem, got = "", function(schemas, vector)
                except Malformed as why:
                    problem, got = str(why), None
                self.assertEqual((problem, got), (vector["wantErr"], vector.get("want")), file)
                checked += 1
        self.assertGreater(checked, 800)

    def test_garbage(self) -> None:
        for data in (b"", b"{}", b"[", b"\xff", b"{" * 200_000, b"[" * 99_999, b'{"agent":1}'):
            with self.assertRaises(Broken):
                judge.judge_bundle(Schemas.of_package(), data, {}, 0)


class Inputs(Live):
    def test_steps(self) -> None:
        agent = self.connect()
        with agent.run("inputs") as run:
            for bad in (lambda: run.step("a b"), lambda: run.step(""), lambda: run.step("a", effect="deadly"), lambda: run.step("a", id="b c"),
                        lambda: run.step("a", parents=[1]).__enter__(), lambda: run.step("a" * 90, id="b" * 90).__enter__(),  # type: ignore[list-item]
                        lambda: run.checkpoint("a", object()), lambda: run.signal("x#y", "output"), lambda: run.signal(7, "a.b"),  # type: ignore[arg-type]
                        lambda: agent.run("a/b"), lambda: run.step("a").key, lambda: run.checkpoint("c", digest="md5:1")):
                with self.assertRaises(InputError) as caught:
                    bad()
                self.assertTrue(caught.exception.remedy)
            with self.assertRaisesRegex(Refused, "unknown-subject") as refused, run.step("a", parents=["nobody#x"]):
                self.fail("the step is not begun")
            self.assertEqual(refused.exception.problem, "unknown-subject")
            with run.step("a") as step:  # the same step with other parents is another execution
                with self.assertRaises(InputError):
                    step.result = object()
        self.assertEqual(self.progress(), ["inputs/a@2 started", "inputs/a@2 confirmed"])

    def test_states(self) -> None:
        self.connect().close()
        for options, kind, what in (({"new": True}, StateError, "an agent ran with it"), ({"secret": self.key}, InputError, "hexadecimal"),
                                    ({"secret": "/nowhere/at/all"}, StateError, "No such file")):
            with self.assertRaisesRegex(kind, what):
                self.connect(**options)
        with self.assertRaisesRegex(InputError, "of agent"):
            recoveryledger.connect("somebody", key=self.key)
        with self.assertRaisesRegex(InputError, "no second source"):
            self.connect(confirm=self.machine.url)

    def test_a_lost_state(self) -> None:
        """What a lost state may have begun is not begun again: a probe is asked, or it is unknown."""
        agent = self.connect()
        with agent.run("lost") as run:
            with run.step("charge", effect="compensable") as charge:
                pass
        agent.close()
        for file in pathlib.Path(f"{self.key}.state").glob("*.doc"):
            file.unlink()
        asked: list[Undo] = []
        agent = self.connect()
        agent.compensates(probe=lambda undo: asked.append(undo) or False)(lambda undo: None)
        with agent.run("lost") as run:
            incident = run.signal(charge.exec, "output.bad_arguments")
            self.assertEqual(self.outcomes(agent, incident), {"charge": "compensated"})
        self.assertEqual((len(asked[0].keys), asked[0].step, asked[0].result), (64, "charge", None))
        self.assertIn("lost", [event.kind for event in self.events])

    def test_a_damaged_state(self) -> None:
        """A byte that changed, and an undertaking that is missing between others, make a state count as lost."""

        def change(document: pathlib.Path) -> None:
            data = document.read_bytes()
            document.write_bytes(data[:-2] + bytes([data[-2] ^ 1]) + data[-1:])

        for damage, keys in ((change, 64), (pathlib.Path.unlink, 64), (pathlib.Path.exists, 0)):
            self.name, self.key = self.machine.enrol()
            agent = self.connect()
            agent.compensates(lambda undo: None)
            steps: list[str] = []
            with agent.run("damaged") as run:
                for name in ("a", "b", "c"):
                    with run.step(name, effect="compensable") as step:
                        steps.append(step.exec)
                for exec in steps[:2]:
                    self.outcomes(agent, run.signal(exec, "output.bad_arguments"))
            agent.close()
            damage(min(pathlib.Path(f"{self.key}.state").glob("work-*.doc"), key=lambda path: int(path.stem.split("-")[2])))
            asked: list[Undo] = []
            agent = self.connect()
            agent.compensates(probe=lambda undo: asked.append(undo) or False)(lambda undo: asked.append(undo))
            with agent.run("damaged") as run:
                self.assertEqual(self.outcomes(agent, run.signal(steps[2], "output.bad_arguments")), {"c": "compensated"})
            self.assertEqual(max(len(undo.keys) for undo in asked), keys, damage)
            agent.close()


class Proxy(http.server.BaseHTTPRequestHandler):
    """A ledger that lies: it passes requests on, and changes answers."""

    twist: Callable[[str, bytes], bytes | None] = staticmethod(lambda _, body: body)
    behind: Callable[[str, str], int] = staticmethod(lambda path, least: 0)
    upstream: Ledger

    def do_GET(self) -> None:  # noqa: N802
        self.answer("GET", b"")

    def do_POST(self) -> None:  # noqa: N802
        self.answer("POST", self.rfile.read(int(self.headers["Content-Length"])))

    def answer(self, method: str, body: bytes) -> None:
        status = type(self).behind(self.path, self.headers.get("Min-Log-Size", ""))
        if status:
            lagging = b'{"type":"urn:agent-recovery:problem:not-found","title":"not found","status":404}'
            self.send_response(status)
            self.send_header("Content-Length", str(len(lagging)))
            if status == 503:
                self.send_header("Log-Size", "1")
            self.end_headers()
            self.wfile.write(lagging)
            return
        try:
            got, _ = type(self).upstream.request(method, self.path, body, attempts=1)
        except Refused:
            got = b"{}"
        except Unreachable:
            return
        changed = type(self).twist(self.path, got)
        if changed is None:
            self.close_connection = True
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(changed)))
        self.end_headers()
        try:
            self.wfile.write(changed)
        except BrokenPipeError:
            pass  # the agent was closed

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


class Lies(Live):
    def liar(self, twist: Callable[[str, bytes], bytes | None], behind: Callable[[str, str], int] = lambda path, least: 0) -> recoveryledger.Agent:
        profile = next(self.machine.dir.glob("home/profiles/*.json"))
        value = json.loads(profile.read_text())
        handler = type("Twisted", (Proxy,), {"twist": staticmethod(twist), "behind": staticmethod(behind), "upstream": Ledger(value["url"], value["root"])})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(handler.upstream.close)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return self.connect(url=f"http://127.0.0.1:{server.server_address[1]}", patience=1)

    def begins(self, agent: recoveryledger.Agent) -> None:
        with agent.run("lied") as run, run.step("charge", effect="compensable"):
            self.fail("the step is begun without a receipt that holds")

    def test_receipts(self) -> None:
        def of(change: Callable[[dict[str, Any]], None]) -> Callable[[str, bytes], bytes]:
            def twist(path: str, body: bytes) -> bytes:
                if path != "/v1/entries":
                    return body
                receipt = json.loads(body)
                change(receipt)
                return json.dumps(receipt).encode()
            return twist

        lies: list[Callable[[str, bytes], bytes | None]] = [
            of(lambda r: r.update(index=r["index"] + 1)), of(lambda r: r.update(proof=r["proof"][1:])), of(lambda r: r.update(leaf="e30=")),
            of(lambda r: r.update(head=r["head"].replace("\n", "\n1", 1))), of(lambda r: r.pop("head")),
            lambda path, body: b"<html>" if path == "/v1/entries" else body,
        ]
        for lie in lies:
            agent = self.liar(lie)
            with self.assertRaises(Unproven):
                self.begins(agent)
            agent.close()
        agent = self.liar(lambda path, body: None if path == "/v1/entries" else body)  # the answer is lost
        with self.assertRaises(Unreachable):
            self.begins(agent)
        agent.close()
        with self.connect().run("lied") as run, run.step("charge", effect="compensable"):
            pass
        self.assertEqual(self.progress(), ["lied/charge started", "lied/charge confirmed"])  # no second entry, though it was sent so often

    def test_another_log(self) -> None:
        """A head of another size that no proof connects is a fork, and stops the agent for good."""
        agent = self.liar(lambda path, body: json.dumps({"path": [], "old": 1, "new": 2}).encode() if "/consistency/" in path else body)
        with self.assertRaises(Forked) as fork, agent.run("fork") as run:
            for n in range(3):
                with run.step("turn", id=str(n)):
                    pass
        self.assertEqual(len(fork.exception.heads), 2)

    def test_a_node_that_lags(self) -> None:
        """A node that is behind is asked again, whatever it answers, and is no fork. Each request says the accepted size."""
        sizes: list[int] = []
        answers = [404, 503, 404]

        def behind(path: str, least: str) -> int:
            sizes.append(int(least or 0))
            return answers.pop() if "/consistency/" in path and answers else 0

        agent = self.liar(lambda path, body: body, behind)
        with agent.run("lag") as run:
            for n in range(6):
                with run.step("turn", id=str(n)):
                    pass
        agent.close()
        self.assertFalse(answers)
        self.assertGreater(max(sizes), 1)
        self.assertFalse([event for event in self.events if event.kind == "fork"])
