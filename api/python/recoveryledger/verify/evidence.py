"""Evidence: documents that show by signatures that a ledger or an agent broke the protocol (docs/verify.md).

    report = check(pathlib.Path("fork.json").read_bytes(), root)

A document convicts a ledger (Convicted), proves what an agent did (`equivocations`), or lacks something
(`missing`). Whoever has the pinned root can check a document; no ledger and no network is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from . import history
from .chain import Chain
from .entries import Entry, Logged
from .form import MAX_LEAF, MAX_PATH
from .history import History, step
from .keys import verify
from .notes import ALWAYS, MAX_NOTE, check_root, follow, open_head, quorum_time
from .rights import Rights
from .schemas import Schemas
from .strict import Broken, Json, Refused, need, read_compact, read_members, strict_base64, strict_json
from .tree import check_consistency, check_inclusion

MAX_FILE = 64 << 20  # bytes

RECEIPT = {"leaf": "bytes", "index": int, "proof": ["hash"], "head": str}
DOCUMENT = {
    "evidence": str, "detail": str, "older": str, "newer": str, "root": "raw", "path": ["hash"], "problem": str, "field": str,
    "receipts": [RECEIPT], "envelope": "raw", "subjects": int, "history": "raw",
    "consistency": [{"old": int, "new": int, "path": ["hash"]}],
}


class Convicted(Broken):
    """A document proves that a ledger broke the protocol; its text is "fork" or "index"."""


@dataclass
class Equivocation:
    """Two objects that a principal signed under one id: the entry at an index of the log, and that of the document."""

    principal: str
    jti: str  # the id
    index: int


@dataclass
class Report:
    """What a document shows that convicts no ledger."""

    kind: str  # fork, entry, equivocation or index
    detail: str  # what its maker says; nothing proves that
    equivocations: list[Equivocation] = field(default_factory=list[Equivocation])
    missing: list[int] = field(default_factory=list[int])  # steps for which the document lacks something; ascending


def check(data: bytes, root: dict[str, Json]) -> Report:
    """Checks one document, as a file has it, by a pinned root.

    The error is a Convicted, or a Broken whose text is "form" for what is no evidence, or the step that
    refuses the document, such as "step 8" (docs/verify.md).
    """
    pinned = check_root({name: value for name, value in root.items() if name != "head"})
    seen: str = root.get("head") or ""
    return _Case(Schemas.of_package(), pinned, decode(data), seen).verify()


def decode(data: bytes) -> dict[str, Json]:
    """Reads one document. Its members stand in any order, and null is as absent. The error is a Broken, "form".

    `leaf` of receipts, `envelope` and `history` are read later, as the bytes that they are.
    """
    need(len(data) <= MAX_FILE, "form")
    members = read_members(data)
    try:
        e: dict[str, Json] = _loose(DOCUMENT, {name: value for name, (value, _) in members.items()})
        e["root"] = None if e["root"] is None else _loose("hash", e["root"])
    except Refused:
        raise Broken("form") from None
    need(isinstance(members.get("evidence", (None, ""))[0], str), "form")
    for name in ("envelope", "history"):
        e[name] = members[name][1].encode() if name in members else b""
    _check_limits(e)
    heads = [note for note in (e["older"], e["newer"]) if note]
    if e["evidence"] == "fork":
        need(heads and all(len(note.encode()) <= MAX_NOTE for note in heads), "form")
        need(e["root"] is None and not e["path"] or e["root"] is not None and len(heads) == 2, "form")
    elif e["evidence"] == "equivocation":
        need(e["receipts"] and e["envelope"], "form")
    elif e["evidence"] == "index" and e["history"]:
        e["history"] = history.decode(e["history"])
    elif e["evidence"] == "index":
        need(e["root"] is not None and e["receipts"], "form")
    else:
        need(e["evidence"] == "entry" and e["receipts"], "form")
    return e


def _loose(shape: Any, value: Json) -> Json:
    """A value of a shape, whose members may be absent or null. The error is a Refused."""
    if shape == "raw":
        return value
    if isinstance(shape, list):
        _fits(value is None or isinstance(value, list))
        return [_loose(shape[0], element) for element in value or []]
    if isinstance(shape, dict):
        _fits(value is None or isinstance(value, dict) and value.keys() <= shape.keys())
        return {name: _loose(of, (value or {}).get(name)) for name, of in shape.items()}
    if shape is int:
        _fits(value is None or type(value) is int and 0 <= value < 2**64)
        return value or 0
    _fits(value is None or isinstance(value, str))
    if shape is str:
        return value or ""
    data = strict_base64(value or "")
    _fits(shape == "bytes" or value is None or len(data) == 32)
    return bytes(32) if shape == "hash" and value is None else data


def _fits(condition: bool) -> None:
    if not condition:
        raise Refused("malformed")


def _check_limits(e: dict[str, Json]) -> None:
    paths = [e["path"], *(r["proof"] for r in e["receipts"]), *(p["path"] for p in e["consistency"])]
    need(all(len(path) <= MAX_PATH for path in paths), "form")
    need(all(0 < len(r["leaf"]) <= MAX_LEAF and 0 < len(r["head"].encode()) <= MAX_NOTE for r in e["receipts"]), "form")


@dataclass
class _Head:
    size: int
    digest: bytes


class _Case:
    """One check of one document. A step that does not hold is a Broken."""

    chain: Chain  # of the entries under heads that are known to be of one log
    joined: set[int]  # sizes of the heads that are known to begin the log of the newest

    def __init__(self, schemas: Schemas, root: dict[str, Json], e: dict[str, Json], seen: str) -> None:
        """`seen` is the head that the root carries, a signed note; empty without one."""
        self.schemas, self.root, self.e = schemas, root, e
        self.accepted = seen
        self.report = Report(e["evidence"], e["detail"])
        self.missing: set[int] = set()
        self.history = History(schemas, {"root": root, "questions": []}, e["history"]) if e["evidence"] == "index" and e["history"] else None
        self.older: dict[int, list[int]] = {}  # sizes of heads that a proof shows to begin that of a size
        self.proven: list[tuple[Logged, int]] = []  # each with the size of its head
        self.signed: set[int] = set()

    def verify(self) -> Report:
        self._heads()
        self._connect()
        self._witnesses()
        self._entries()
        self._rights()
        if self.history is not None:
            self._false_history(self.history)
        elif self.report.kind == "index":
            self._false_index()
        elif self.report.kind == "equivocation":
            self._equivocation()
        self.report.missing = sorted(self.missing)
        return self.report

    # Steps 1 and 2

    def _open(self, note: str) -> _Head:
        with step(1):
            size, digest, _ = open_head(self.root, note)
        return _Head(size, digest)

    def _heads(self) -> None:
        notes = [self.e["older"], self.e["newer"], *(r["head"] for r in self.e["receipts"])]
        if self.history is not None:
            notes.append(self.history.h["head"])
        self.heads = {note: self._open(note) for note in notes if note}
        self.by_size: dict[int, _Head] = {}
        for head in self.heads.values():
            self._same(self.by_size.setdefault(head.size, head), head)
        self.seen = self._open(self.accepted) if self.accepted else None
        if self.seen is not None:
            self._same(self.by_size.get(self.seen.size, self.seen), self.seen)

    @staticmethod
    def _same(a: _Head, b: _Head) -> None:
        if a.digest != b.digest:
            raise Convicted("fork")

    def _connect(self) -> None:
        if self.report.kind == "fork" and len(self.by_size) < 2:
            self.missing.add(2)  # the other head: one, alone or twice, contradicts nothing
        if self.report.kind == "fork" and self.e["root"] is not None:
            older, newer = self.heads[self.e["older"]], self.heads[self.e["newer"]]
            self._consistent(_Head(older.size, self.e["root"]), newer, self.e["path"])
            self._same(older, _Head(older.size, self.e["root"]))
        known = dict(self.by_size)
        if self.seen is not None:
            known.setdefault(self.seen.size, self.seen)
        for proof in self.e["consistency"]:
            if proof["old"] in known and proof["new"] in known:
                self._consistent(known[proof["old"]], known[proof["new"]], proof["path"])
            else:
                self.missing.add(2)
        self.joined = self._begins(max(self.by_size))
        if not self.joined >= self.by_size.keys():
            self.missing.add(2)

    def _consistent(self, older: _Head, newer: _Head, path: list[bytes]) -> None:
        with step(2):
            check_consistency(older.size, newer.size, older.digest, newer.digest, path)
        self.older.setdefault(newer.size, []).append(older.size)

    def _begins(self, size: int) -> set[int]:
        """Sizes whose heads are known to begin the log of a size."""
        reached, todo = {size, 0}, [size]
        while todo:
            new = set(self.older.get(todo.pop(), [])) - reached
            reached |= new
            todo += new
        return reached

    def _witnesses(self) -> None:
        """Step 1, as far as the root names witnesses: their quorum has cosigned each head, or one that it begins."""
        seen: set[int] = set()
        for note, head in self.heads.items():
            at = quorum_time(self.root["witnesses"], note, ALWAYS) if "witnesses" in self.root else 0
            if at == 0:
                return
            if at is not None:
                seen |= self._begins(head.size)
        if not seen >= self.by_size.keys():
            self.missing.add(1)

    # Steps 3 to 8

    def _entries(self) -> None:
        for r in self.e["receipts"]:
            head = self.heads[r["head"]]
            with step(3):
                entry = Logged(self.schemas, r["index"], read_compact(r["leaf"]))
            with step(4):
                check_inclusion(r["index"], head.size, entry.hash, head.digest, r["proof"])
            self.proven.append((entry, head.size))
        if self.history is not None:
            head = self.heads[self.history.h["head"]]
            self.proven += [(entry, head.size) for entry in self.history.included(head.size, head.digest)]
        self.proven.sort(key=lambda one: one[0].index)

    def _rights(self) -> None:
        rights = self._judged([entry for entry, _ in self.proven])
        joined = [entry for entry, size in self.proven if size in self.joined]
        if len(joined) < len(self.proven):
            rights = self._judged(joined)
        apart = {entry.index for entry, _ in self.proven} - rights.entries.keys()
        if rights.lacking or apart:
            self.missing.add(7)
        self.chain, self.signed = rights.chain, rights.signed
        root = follow(self.root, self.chain.policies)
        if root != self.root:  # TRU-5: the policies name the keys of the ledger
            self.root = root
            for note in self.heads:
                self._open(note)

    def _judged(self, entries: list[Logged]) -> Rights:
        try:
            return Rights(self.root, entries)
        except Broken as why:
            raise Convicted("fork") if str(why) == "fork" else why

    # What the document says beside its receipts and heads

    def _first(self) -> Logged:
        """The entry of the first receipt."""
        index = self.e["receipts"][0]["index"]
        return next(entry for entry, _ in self.proven if entry.index == index)

    def _equivocation(self) -> None:
        one = self._first()
        with step(3):
            other = Entry(self.schemas, self.e["envelope"])
            body: dict[str, Json] = strict_json(other.payload)
            need(all(body[name] == one.body[name] for name in ("iss", "jti")) and other.pae != one.pae, "form")
        key = self.chain.keys.get(other.keyid)
        if key is None or one.index not in self.signed:
            self.missing.add(7)
            return
        need(key["principal"] == body["iss"], "step 7")
        need(verify(key["key"], other.pae, other.sig), "step 8")
        self.report.equivocations.append(Equivocation(body["iss"], body["jti"], one.index))

    def _false_index(self) -> None:
        """The entries alone say whether the root is another one: the document proves what the index entry says."""
        said = self._first()
        need(said.kind == "index", "step 9")
        need(strict_base64(said.body["root"]) != self.e["root"] or said.body["subjects"] != self.e["subjects"], "step 9")

    def _false_history(self, h: History) -> None:
        h.indexed(self.signed)
        self.missing |= h.missing
        if h.size in self.joined and h.contradicted([entry for entry, size in self.proven if size in self.joined]):
            raise Convicted("index")
        h.answers()
        need(2 in self.missing, "step 14")  # no entry contradicts the history, unless it is of the same log
