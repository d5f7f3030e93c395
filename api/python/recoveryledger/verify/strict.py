"""JSON as the protocol takes it, and its canonical forms.

Nothing is guessed: what is not exactly one of the forms is refused (docs/entry.md, "Fails closed").
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any, TypeVar

Json = Any  # a JSON value: its form is checked by a schema, or by "formed"

T = TypeVar("T")

MAX_INTEGER = 2**53 - 1
MAX_DEPTH = 16


class Refused(Exception):
    """The verdict on an input; its text is the problem type."""


def refuse_if(condition: object, problem: str = "malformed") -> None:
    if condition:
        raise Refused(problem)


def strict_json(data: bytes) -> Json:
    """Parses JSON: UTF-8, no member twice, integers of 53 bits, limited depth."""

    def members(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        refuse_if(len({name for name, _ in pairs}) != len(pairs))
        return dict(pairs)

    def integer(text: str) -> int:
        refuse_if(text == "-0" or len(text) > 17 or abs(int(text)) > MAX_INTEGER)
        return int(text)

    def no(_: str) -> None:
        raise Refused("malformed")

    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=members, parse_int=integer, parse_float=no, parse_constant=no)
        refuse_if(depth(value) > MAX_DEPTH)
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # fails for a lone surrogate
    except (ValueError, RecursionError):  # UnicodeError is a ValueError
        raise Refused("malformed") from None
    return value


def depth(value: Json) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    return 0


# json.dumps makes an encoder at each call, which takes longer than the writing.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def canonical(value: Json) -> str:
    """RFC 8785 for values without fractions."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(canonical(name) + ":" + canonical(value[name]) for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return _ENCODER.encode(value)


class Number:
    """A number that no member of a bundle or a history may have, such as 1.5; its text as it stood."""

    def __init__(self, text: str) -> None:
        self.text = text


def _decoder(odd: list[str]) -> json.JSONDecoder:
    """Reads JSON without a member twice. The text of each number that is no integer of 64 bits goes to `odd`."""

    def members(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        refuse_if(len({name for name, _ in pairs}) != len(pairs))
        return dict(pairs)

    def integer(text: str) -> Json:
        if text != "-0" and len(text) <= 20 and -(2**63) <= int(text) < 2**64:
            return int(text)
        return number(text)

    def number(text: str) -> Json:
        odd.append(text)
        return Number(text)

    def no(_: str) -> None:
        raise Refused("malformed")

    return json.JSONDecoder(object_pairs_hook=members, parse_int=integer, parse_float=number, parse_constant=no)


def read_compact(data: bytes) -> Json:
    """Reads JSON that is what writing it again gives: no white space, the fewest escapes. The error is a Broken.

    A number that is no integer of 64 bits is a Number: it may stand within a leaf, whose rules refuse it.
    """
    odd: list[str] = []
    try:
        value = _decoder(odd).decode(data.decode("utf-8"))
        same = compact(value).encode() if odd else dump(value)
    except (ValueError, RecursionError, Refused):
        raise Broken("form") from None
    need(same == data, "form")
    return value


SPACE = re.compile(r'("(?:[^"\\]|\\.)*")|[ \t\r\n]+')


def read_members(data: bytes) -> dict[str, tuple[Json, str]]:
    """Reads a JSON object in any spelling: of each member its value, and its text without white space.

    The error is a Broken.
    """
    decoder = _decoder([])
    members: dict[str, tuple[Json, str]] = {}
    try:
        text = data.decode("utf-8")
        value = decoder.decode(text)
        compact(value).encode("utf-8")  # fails for a lone surrogate
        need(isinstance(value, dict), "form")
        text, at = SPACE.sub(lambda match: match[1] or "", text), 1
        while text[at] != "}":
            name, colon = decoder.raw_decode(text, at)
            member, end = decoder.raw_decode(text, colon + 1)
            members[name] = member, text[colon + 1 : end]
            at = end + (text[end] == ",")
    except (ValueError, RecursionError, Refused):
        raise Broken("form") from None
    return members


def compact(value: Json) -> str:
    """A value as dump writes it, each Number as its text."""
    if isinstance(value, Number):
        return value.text
    if isinstance(value, dict):
        return "{" + ",".join(_ENCODER.encode(name) + ":" + compact(v) for name, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(compact, value)) + "]"
    return _ENCODER.encode(value)


def dump(value: Json) -> bytes:
    return _ENCODER.encode(value).encode()


def depth_ok(data: bytes) -> bool:
    return data.count(b"[") + data.count(b"{") < 100_000


def strict_base64(text: str) -> bytes:
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except ValueError:
        raise Refused("malformed") from None
    refuse_if(base64.b64encode(raw).decode() != text)
    return raw


class Broken(Exception):
    """A rule does not hold; its text is step and rule.

    `problem` is the problem type of a refused entry (docs/protocol.md) where who reads it may need that; else empty.
    """

    def __init__(self, rule: str, problem: str = "") -> None:
        super().__init__(rule)
        self.problem = problem


class Missing(Broken):
    """A rule does not hold for want of evidence: who carried the bundle may have left it out."""


class Forks(Broken):
    """Two signed heads contradict each other, or the proof that connects them fails.

    `proven` says that the two heads alone show that.
    """

    def __init__(self, heads: tuple[str, str], proven: bool) -> None:
        super().__init__("AGT-1")
        self.heads, self.proven = heads, proven


def need(condition: object, *rule: str, problem: str = "") -> None:
    if not condition:
        raise Broken(" ".join(dict.fromkeys(rule)), problem)


def found(value: T | None, *rule: str, problem: str = "") -> T:
    """The value, which has to be there. The error is a Missing."""
    if value is None:
        raise Missing(" ".join(dict.fromkeys(rule)), problem)
    return value


def ascends(numbers: list[Any]) -> bool:
    return all(a < b for a, b in zip(numbers, numbers[1:]))
