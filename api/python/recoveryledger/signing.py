"""Entries of an agent: header, signature, envelope in canonical form."""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any

from .errors import InputError
from .keyfile import Key
from .verify.entries import MAX_ENVELOPE, TYPE_PREFIX, TYPE_SUFFIX, check_payload, pae
from .verify.schemas import Schemas
from .verify.strict import Refused as Malformed
from .verify.strict import canonical

MAX_TEXT = 1024  # bytes of a detail, a reason, a residual


class Signer:
    """Signs entries of an agent for a ledger."""

    def __init__(self, agent: str, origin: str, key: Key) -> None:
        self.agent, self.origin, self.key = agent, origin, key
        self._schemas = Schemas.of_package()

    def sign(self, kind: str, body: dict[str, Any], now: int) -> str:
        """The envelope of a body under a new header, at a time in Unix milliseconds."""
        header = {"v": 1, "jti": str(uuid.uuid4()), "iss": self.agent, "aud": self.origin, "iat": now // 1000}
        payload = canonical({**body, **header}).encode()
        try:
            check_payload(self._schemas, kind, payload)
        except Malformed:
            shown = ", ".join(f"{name}={value!r:.80}" for name, value in body.items())
            raise InputError(f"{kind} entry: not of the form that the log takes: {shown}", "names have 1 to 128 of A-Z a-z 0-9 . _ : / @ -") from None
        payload_type = TYPE_PREFIX + kind + TYPE_SUFFIX
        sig = base64.b64encode(self.key.sign(pae(payload_type, payload))).decode()
        envelope = canonical({"payload": base64.b64encode(payload).decode(), "payloadType": payload_type,
                              "signatures": [{"keyid": self.key.keyid, "sig": sig}]})
        if len(envelope.encode()) > MAX_ENVELOPE:
            raise InputError(f"{kind} entry: {len(envelope.encode())} bytes, the limit is {MAX_ENVELOPE}", "put less into it")
        return envelope


def read(envelope: str) -> tuple[str, dict[str, Any]]:
    """Kind and payload of an envelope that the agent has signed."""
    value = json.loads(envelope)
    kind = value["payloadType"].removeprefix(TYPE_PREFIX).removesuffix(TYPE_SUFFIX)
    return kind, json.loads(base64.b64decode(value["payload"]))


HEADER = ("v", "jti", "iss", "aud", "iat")


def body_of(envelope: str) -> tuple[str, dict[str, Any]]:
    """Kind and payload of an envelope without its header, to be signed anew."""
    kind, payload = read(envelope)
    return kind, {name: value for name, value in payload.items() if name not in HEADER}


def residual(text: str) -> str:
    """A text as it may stand in a residual: printable, and not longer than is taken."""
    text = "".join(c if c >= " " or c in "\n\t" else " " for c in text if not "\ud800" <= c <= "\udfff")
    return text.encode()[:MAX_TEXT].decode(errors="ignore") or "nothing is said of what is left"
