"""The state of an agent: small documents, each replaced whole and synced.

A document is a file NAME.doc. Its first line is `arl-agent/1 NAME SHA-256`, over the rest: a
document that was changed is noticed. After a crash a document is the old one or the new one.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
from typing import IO, Any

from .errors import StateError

MAGIC = "arl-agent/1"
MAX_DOCUMENT = (32 << 20) + 256  # bytes
MAX_DOCUMENTS = 1 << 20


class Damaged(Exception):
    """A document is not what was saved."""


def sync_dir(path: pathlib.Path) -> None:
    """Waits until the disk has the names in a directory."""
    if os.name != "posix":
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_file(path: pathlib.Path, content: bytes, mode: int = 0o600) -> None:
    """Replaces a file. After a crash it has the old content or the new one."""
    new = path.with_name(path.name + ".new")
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(file, "wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    os.replace(new, path)
    sync_dir(path.parent)


class Store:
    """The documents in a directory. One process at a time has a store."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock: IO[bytes] | None = open(path / ".lock", "ab")  # noqa: SIM115: held until close
        except OSError as why:
            raise StateError(f"state {path}: {why.strerror}", "pass state= with a directory that can be written") from why
        if not _try_lock(self._lock):
            self._lock.close()
            raise StateError(f"state {path}: another process has it", "end that process, or give each agent its own state=")

    def close(self) -> None:
        """Gives the directory free for other processes."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def names(self) -> list[str]:
        """The names of all documents, in order."""
        found = sorted(file.stem for file in self.path.glob("*.doc") if re.fullmatch("[a-z0-9-]{1,128}", file.stem))
        if len(found) > MAX_DOCUMENTS:
            raise StateError(f"state {self.path}: {len(found)} documents, the limit is {MAX_DOCUMENTS}")
        return found

    def load(self, name: str) -> Any:
        """The value in a document. The error is Damaged; FileNotFoundError if there is none."""
        return json.loads(self.load_text(name))

    def load_text(self, name: str) -> str:
        """The JSON in a document."""
        data = (self.path / f"{name}.doc").read_bytes()
        line, _, content = data.partition(b"\n")
        if len(data) > MAX_DOCUMENT or line.decode("ascii", "replace") != _first_line(name, content):
            raise Damaged(f"document {name}: its first line does not match its content")
        return content.decode()

    def save(self, name: str, value: Any) -> None:
        """Replaces a document. It is durable when save returns. The error is a StateError."""
        self.save_text(name, json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True))

    def save_text(self, name: str, text: str) -> None:
        """Replaces a document by JSON that stands as it is."""
        content = text.encode()
        try:
            write_file(self.path / f"{name}.doc", _first_line(name, content).encode() + b"\n" + content)
        except OSError as why:
            raise StateError(f"state {self.path}: document {name}: {why.strerror}", "make room, or mend the disk") from why


def _first_line(name: str, content: bytes) -> str:
    return f"{MAGIC} {name} {hashlib.sha256(content).hexdigest()}"


def _try_lock(file: IO[bytes]) -> bool:
    try:
        if os.name == "posix":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
    except OSError:
        return False
    return True
