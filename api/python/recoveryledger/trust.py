"""What a machine knows of a ledger: its URL, its pinned root, and the secret of an agent."""

from __future__ import annotations

import json
import os
import pathlib
import secrets
from dataclasses import dataclass
from typing import Any, Callable

from .errors import InputError, StateError
from .ledger import Ledger
from .store import write_file
from .verify.notes import check_root
from .verify.strict import Broken
from .verify.strict import Refused as Malformed
from .verify.strict import strict_json

SECRET_BYTES = 32


@dataclass
class Found:
    """A ledger that is pinned."""

    url: str
    root: dict[str, Any]
    tls_ca: str | None = None


def home() -> pathlib.Path:
    """ARL_HOME, by default `arl` in the user's configuration directory."""
    named = os.environ.get("ARL_HOME")
    if named:
        return pathlib.Path(named)
    config = os.environ.get("APPDATA") if os.name == "nt" else os.environ.get("XDG_CONFIG_HOME")
    return pathlib.Path(config or pathlib.Path.home() / ".config") / "arl"


def find(url: str | None, root: str | os.PathLike[str] | dict[str, Any] | None) -> Found:
    """The ledger of a URL and a pinned root; what is not given comes from the profile in ARL_HOME."""
    if url is not None and root is not None:
        return Found(url, root if isinstance(root, dict) else _read_root(pathlib.Path(root)))
    folder = home() / "profiles"
    names = sorted(file.stem for file in folder.glob("*.json"))
    chosen = folder / "chosen"
    name = chosen.read_text().strip() if chosen.exists() else names[0] if len(names) == 1 else ""
    if name not in names:
        which = f"profiles {', '.join(names)}, and none is chosen" if names else "no profile of a ledger"
        raise InputError(f"{folder}: {which}", "start arl serve with this ARL_HOME, or pass url= and root=")
    try:
        profile = json.loads((folder / f"{name}.json").read_text())
        pinned, at, ca = profile["root"], profile["url"], profile.get("tls_ca") or None
    except (OSError, ValueError, KeyError, TypeError) as why:
        raise InputError(f"profile {folder / name}.json: {why}", "pass url= and root=") from why
    if root is not None:
        pinned = root if isinstance(root, dict) else _read_root(pathlib.Path(root))
    return Found(url or at, _checked(pinned, f"profile {name}"), ca)


def _read_root(path: pathlib.Path) -> dict[str, Any]:
    try:
        value = strict_json(path.read_bytes())
    except OSError as why:
        raise InputError(f"root {path}: {why.strerror}", "arl root show --out FILE writes the pinned root") from why
    except Malformed:
        raise InputError(f"root {path}: not JSON", "arl root show --out FILE writes the pinned root") from None
    return _checked(value, f"root {path}")


def _checked(root: Any, what: str) -> dict[str, Any]:
    try:
        return check_root(root)
    except (Broken, Malformed, KeyError, TypeError, ValueError, AttributeError):
        raise InputError(f"{what}: not a pinned root", "arl root show --out FILE writes the pinned root") from None


def secret(path: pathlib.Path, *, make: bool) -> bytes:
    """The secret in a file, which is made if it is to be made and is not there."""
    if make and not path.exists():
        write_file(path, secrets.token_hex(SECRET_BYTES).encode() + b"\n")
    try:
        text = path.read_text().strip()
    except OSError as why:
        raise StateError(f"secret {path}: {why.strerror}", "restore it from a backup: another secret makes other idempotency keys") from why
    try:
        value = bytes.fromhex(text)
    except ValueError:
        value = b""
    if len(value) < SECRET_BYTES:
        raise InputError(f"secret {path}: not {SECRET_BYTES} bytes or more in hexadecimal", "restore the file")
    return value


def second(source: str, found: Found) -> Callable[[], str]:
    """A tree head from another source than the ledger: a file, or the URL of a mirror."""
    if "://" not in source:
        try:
            note = pathlib.Path(source).read_text()
        except OSError as why:
            raise InputError(f"confirm {source}: {why.strerror}", "pass a file with a signed tree head, or the URL of a mirror") from why
        return lambda: note
    base = source.rstrip("/").removesuffix("/checkpoint")
    if base == found.url.rstrip("/"):
        raise InputError(f"confirm {source}: the ledger itself is no second source", "pass a mirror, or a file from another party")
    mirror = Ledger(base, found.root)
    return lambda: mirror.request("GET", "/checkpoint")[0].decode()
