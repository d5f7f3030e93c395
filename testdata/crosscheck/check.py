#!/usr/bin/env python3
"""Recompute the protocol vectors without any code of this repository.

    check.py [vectors [schemas]]

Reads testdata/vectors and, for the shape of payloads, the JSON Schemas; what a
schema cannot say (ledger/entry/schema.go) is written out here. Uses nothing but the
standard library, Ed25519 and ECDSA included. Ends with the number of vectors
checked, and fails if one differs.
"""

import base64
import functools
import hashlib
import json
import pathlib
import re
import sys

MAX_ENVELOPE = 48 << 10
MAX_INTEGER = 2**53 - 1
MAX_DEPTH = 16
TYPE_PREFIX, TYPE_SUFFIX = "application/vnd.agent-recovery.", "+json"


class Refused(Exception):
    """The verdict on an input; its text is the problem type."""


def refuse_if(condition, problem="malformed"):
    if condition:
        raise Refused(problem)


# --- JSON ---------------------------------------------------------------------


def strict_json(data):
    """Parses JSON: UTF-8, no member twice, integers of 53 bits, limited depth."""

    def members(pairs):
        refuse_if(len({name for name, _ in pairs}) != len(pairs))
        return dict(pairs)

    def integer(text):
        refuse_if(text == "-0" or len(text) > 17 or abs(int(text)) > MAX_INTEGER)
        return int(text)

    def no(_):
        raise Refused("malformed")

    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=members, parse_int=integer, parse_float=no, parse_constant=no)
        refuse_if(depth(value) > MAX_DEPTH)
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # fails for a lone surrogate
    except (ValueError, RecursionError):  # UnicodeError is a ValueError
        raise Refused("malformed") from None
    return value


def depth(value):
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    return 0


def canonical(value):
    """RFC 8785 for values without fractions."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(canonical(name) + ":" + canonical(value[name]) for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


class Schemas:
    """The part of JSON Schema 2020-12 that the schemas use. A length is counted in
    bytes of UTF-8, as the protocol counts."""

    ANNOTATIONS = {"$schema", "title", "description", "examples", "$defs", "contentEncoding", "then", "else"}
    TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "null": type(None)}

    def __init__(self, folder):
        self.files = {path.name: json.loads(path.read_text()) for path in folder.glob("*.json")}

    def accepts(self, name, value):
        return self._valid(name + ".json", self.files[name + ".json"], value)

    def _valid(self, file, schema, value):
        if isinstance(schema, bool):
            return schema
        return all(self._keyword(file, schema, keyword, value) for keyword in schema if keyword not in self.ANNOTATIONS)

    def _keyword(self, file, schema, keyword, value):
        arg = schema[keyword]
        valid = lambda sub, v: self._valid(file, sub, v)
        is_object, is_list, is_text = isinstance(value, dict), isinstance(value, list), isinstance(value, str)
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if keyword == "$ref":
            target, _, pointer = arg.partition("#")
            target = target or file
            node = self.files[target]
            for token in pointer.split("/")[1:]:
                node = node[token]
            return self._valid(target, node, value)
        if keyword == "type":
            return isinstance(value, self.TYPES[arg]) and not (arg == "integer" and not is_number)
        if keyword == "const":
            return value == arg and type(value) is type(arg)
        if keyword == "enum":
            return any(value == option and type(value) is type(option) for option in arg)
        if keyword == "allOf":
            return all(valid(sub, value) for sub in arg)
        if keyword == "anyOf":
            return any(valid(sub, value) for sub in arg)
        if keyword == "if":
            return valid(schema.get("then" if valid(arg, value) else "else", True), value)
        if keyword == "required":
            return not is_object or all(name in value for name in arg)
        if keyword == "properties":
            return not is_object or all(valid(arg[name], value[name]) for name in arg if name in value)
        if keyword == "additionalProperties":
            known = schema.get("properties", {})
            return not is_object or all(valid(arg, value[name]) for name in value if name not in known)
        if keyword == "propertyNames":
            return not is_object or all(valid(arg, name) for name in value)
        if keyword == "maxProperties":
            return not is_object or len(value) <= arg
        if keyword == "items":
            return not is_list or all(valid(arg, element) for element in value)
        if keyword == "minItems":
            return not is_list or len(value) >= arg
        if keyword == "maxItems":
            return not is_list or len(value) <= arg
        if keyword == "uniqueItems":
            return not is_list or len({canonical(element) for element in value}) == len(value)
        if keyword == "minimum":
            return not is_number or value >= arg
        if keyword == "maximum":
            return not is_number or value <= arg
        if keyword == "minLength":
            return not is_text or len(value.encode()) >= arg
        if keyword == "maxLength":
            return not is_text or len(value.encode()) <= arg
        if keyword == "pattern":
            return not is_text or re.search(re.sub(r"\$$", r"\\Z", arg), value, re.ASCII) is not None
        raise SystemExit(f"keyword {keyword} of {file} is not implemented here")


def strict_base64(text):
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except ValueError:
        raise Refused("malformed") from None
    refuse_if(base64.b64encode(raw).decode() != text)
    return raw


# --- Entries ------------------------------------------------------------------


def pae(payload_type, payload):
    return b"DSSEv1 %d %s %d %s" % (len(payload_type), payload_type.encode(), len(payload), payload)


def check_payload(schemas, kind, payload):
    body = strict_json(payload)
    refuse_if(not schemas.accepts(kind, body))
    keys = [body["key"]] if kind == "agent" else [a["key"] for a in body["authority"]] if kind == "policy" else []
    for key in keys:
        parse_public_key(strict_base64(key))
    distinct(keys)
    distinct([parent["exec"] for parent in body.get("parents", [])] if kind == "execution" else [])
    distinct([signal["index"] for signal in body.get("dispositions", [])] if kind in ("decision", "record") else [])


def distinct(values):
    refuse_if(len(set(values)) != len(values))


class Entry:
    """A decoded envelope."""

    def __init__(self, schemas, data):
        refuse_if(len(data) > MAX_ENVELOPE, "too-large")
        envelope = strict_json(data)
        refuse_if(not schemas.accepts("envelope", envelope))
        self.envelope = envelope
        self.payload = strict_base64(envelope["payload"])
        self.sig = strict_base64(envelope["signatures"][0]["sig"])
        self.keyid = envelope["signatures"][0]["keyid"]
        kind = envelope["payloadType"].removeprefix(TYPE_PREFIX).removesuffix(TYPE_SUFFIX)
        check_payload(schemas, kind, self.payload)
        self.pae = pae(envelope["payloadType"], self.payload)

    def want(self, key, registered_at):
        leaf = canonical({"envelope": self.envelope, "registered_at": registered_at}).encode()
        return {
            "pae_sha256": hashlib.sha256(self.pae).hexdigest(),
            "envelope_sha256": hashlib.sha256(canonical(self.envelope).encode()).hexdigest(),
            "leaf_hash": text(hash_leaf(leaf)),
            "keyid": self.keyid,
            "signature_valid": verify(parse_public_key(strict_base64(key)), self.pae, self.sig),
        }


def seal(kind, payload, keyid, sig):
    envelope = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": TYPE_PREFIX + kind + TYPE_SUFFIX,
        "signatures": [{"keyid": keyid, "sig": sig}],
    }
    return canonical(envelope).encode()


def run_payload(schemas, v):
    payload = input_bytes(v["input"])
    largest = seal(v["kind"], payload, "SHA256:" + "A" * 43, "A" * 96)
    refuse_if(len(largest) > MAX_ENVELOPE, "too-large")
    if "key" not in v:
        check_payload(schemas, v["kind"], payload)
        return None
    entry = Entry(schemas, seal(v["kind"], payload, keyid_of(parse_public_key(strict_base64(v["key"]))), v["sig"]))
    return entry.want(v["key"], v["registered_at"])


def run_subjects(schemas, v):
    """IDX-1, from the text of docs/index.md."""
    payload = input_bytes(v["input"])
    check_payload(schemas, v["kind"], payload)
    return {"subjects": listings(v["kind"], strict_json(payload), v["index"])}


def listings(kind, body, index):
    """Where the entry at an index is listed."""
    act = {"agent": "op", "decision": "act", "task": "op"}.get(kind)
    label = kind + "/" + body[act] if act else kind
    listed = []

    def under(subject, value, mark=""):
        listed.append({"type": subject, "value": value, "label": label + mark})

    if "wid" in body:
        under("workflow", body["wid"])
    if kind == "signal":
        under("incident", str(index))
    elif kind == "execution" and "compensates" in body:
        under("incident", str(body["compensates"]["incident"]))
    elif "incident" in body:
        under("incident", str(body["incident"]))
    if kind in ("execution", "task") and "task" in body:
        under("task", body["task"])
    about = {
        "agent": lambda: body["principal"],
        "signal": lambda: body["subject"].split("#")[0],
        "outcome": lambda: body["exec"].split("#")[0],
        "task": lambda: body.get("agent", body["iss"]),
    }.get(kind, lambda: body["iss"])()
    if about == body["iss"]:
        under("agent", about)
    else:
        under("agent", body["iss"], ">")
        under("agent", about, "<")
    if kind in ("policy", "agent", "decision", "record", "index"):
        under("log", "")
    return listed


def run_envelope(schemas, v):
    entry = Entry(schemas, input_bytes(v["input"]))
    return entry.want(v["key"], v["registered_at"])


def run_leaf(schemas, v):
    data = input_bytes(v["input"])
    leaf = strict_json(data)
    refuse_if(not schemas.accepts("leaf", leaf) or canonical(leaf).encode() != data)
    entry = Entry(schemas, canonical(leaf["envelope"]).encode())
    refuse_if(leaf["registered_at"] != v["registered_at"])
    return entry.want(v["key"], leaf["registered_at"])


def input_bytes(parts):
    if isinstance(parts, str):
        return parts.encode()
    if isinstance(parts, list):
        return b"".join(map(input_bytes, parts))
    if "repeat" in parts:
        return parts["repeat"].encode() * parts["times"]
    if "base64" in parts:
        return base64.b64decode(parts["base64"])
    return base64.b64encode(input_bytes(parts["encode"]))


# --- Keys and signatures --------------------------------------------------------


def der_element(data, tag):
    """Splits one DER element with the given tag from what follows it."""
    refuse_if(len(data) < 2 or data[0] != tag)
    length, head = data[1], 2
    if length >= 0x80:
        size = length & 0x7F
        head += size
        refuse_if(size == 0 or len(data) < head)
        length = int.from_bytes(data[2:head], "big")
        refuse_if(length < 0x80 or data[2] == 0)  # not the shortest form
    refuse_if(len(data) < head + length)
    return data[head : head + length], data[head + length :]


OID_ED25519 = bytes.fromhex("2b6570")
OID_EC = bytes.fromhex("2a8648ce3d0201")
OID_P256 = bytes.fromhex("2a8648ce3d030107")


@functools.cache
def parse_public_key(der):
    """Returns (algorithm, key) of a SubjectPublicKeyInfo: 32 bytes or a point."""
    refuse_if(len(der) > 2048)
    spki, rest = der_element(der, 0x30)
    algorithm, bits = der_element(spki, 0x30)
    oid, parameters = der_element(algorithm, 0x06)
    key, behind = der_element(bits, 0x03)
    refuse_if(rest or behind or not key or key[0] != 0)
    key = key[1:]
    if oid == OID_ED25519:
        refuse_if(parameters or len(key) != 32)
        point = ed_decode(key)
        refuse_if(point is None or ed_encode(ed_mul(8, point)) == ed_encode(ED_IDENTITY))
        return "ed25519", key
    if oid == OID_EC:
        curve, rest = der_element(parameters, 0x06)
        refuse_if(rest)
        refuse_if(curve != OID_P256, "unsupported-alg")
        refuse_if(len(key) != 65 or key[0] != 4)
        x, y = int.from_bytes(key[1:33], "big"), int.from_bytes(key[33:], "big")
        refuse_if(x >= P256_P or y >= P256_P or (y * y - x * x * x + 3 * x - P256_B) % P256_P)
        return "p256", (x, y)
    raise Refused("unsupported-alg")


def keyid_of(key):
    algorithm, value = key
    field = lambda data: len(data).to_bytes(4, "big") + data
    if algorithm == "ed25519":
        wire = field(b"ssh-ed25519") + field(value)
    else:
        point = b"\x04" + value[0].to_bytes(32, "big") + value[1].to_bytes(32, "big")
        wire = field(b"ecdsa-sha2-nistp256") + field(b"nistp256") + field(point)
    return "SHA256:" + base64.b64encode(hashlib.sha256(wire).digest()).decode().rstrip("=")


def verify(key, message, sig):
    algorithm, value = key
    return ed_verify(value, message, sig) if algorithm == "ed25519" else p256_verify(value, message, sig)


# Ed25519, RFC 8032 section 5.1, without cofactor. Points are (X, Y, Z, T).
ED_P = 2**255 - 19
ED_L = 2**252 + 27742317777372353535851937790883648493
ED_D = -121665 * pow(121666, -1, ED_P) % ED_P
ED_IDENTITY = (0, 1, 1, 0)


def ed_add(p, q):
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % ED_P, (p[1] + p[0]) * (q[1] + q[0]) % ED_P
    c, d = 2 * p[3] * q[3] * ED_D % ED_P, 2 * p[2] * q[2] % ED_P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % ED_P, g * h % ED_P, f * g % ED_P, e * h % ED_P


def ed_mul(n, p):
    q = ED_IDENTITY
    while n:
        if n & 1:
            q = ed_add(q, p)
        p, n = ed_add(p, p), n >> 1
    return q


def ed_encode(p):
    z = pow(p[2], -1, ED_P)
    return (p[1] * z % ED_P | (p[0] * z % ED_P & 1) << 255).to_bytes(32, "little")


@functools.cache
def ed_decode(data):
    """Decodes a point; None unless the encoding is canonical."""
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & (2**255 - 1)
    if y >= ED_P:
        return None
    x2 = (y * y - 1) * pow(ED_D * y * y + 1, -1, ED_P) % ED_P
    x = pow(x2, (ED_P + 3) // 8, ED_P)
    if (x * x - x2) % ED_P:
        x = x * pow(2, (ED_P - 1) // 4, ED_P) % ED_P
    if (x * x - x2) % ED_P or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = ED_P - x
    return x, y, 1, x * y % ED_P


ED_BASE = ed_decode((4 * pow(5, -1, ED_P) % ED_P).to_bytes(32, "little"))


@functools.cache
def ed_verify(public, message, sig):
    a = ed_decode(public)
    if a is None or len(sig) != 64:
        return False
    s = int.from_bytes(sig[32:], "little")
    if s >= ED_L:
        return False
    k = int.from_bytes(hashlib.sha512(sig[:32] + public + message).digest(), "little") % ED_L
    minus_a = (ED_P - a[0], a[1], a[2], ED_P - a[3])
    return ed_encode(ed_add(ed_mul(s, ED_BASE), ed_mul(k, minus_a))) == sig[:32]


# ECDSA on P-256 with SHA-256, FIPS 186-5. A point is (x, y), infinity None.
P256_P = 2**256 - 2**224 + 2**192 + 2**96 - 1
P256_N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
P256_B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
P256_G = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)


def p256_add(p, q):
    if p is None or q is None:
        return p or q
    if p[0] == q[0]:
        if (p[1] + q[1]) % P256_P == 0:
            return None
        slope = (3 * p[0] * p[0] - 3) * pow(2 * p[1], -1, P256_P)
    else:
        slope = (q[1] - p[1]) * pow(q[0] - p[0], -1, P256_P)
    x = (slope * slope - p[0] - q[0]) % P256_P
    return x, (slope * (p[0] - x) - p[1]) % P256_P


def p256_mul(n, p):
    q = None
    while n:
        if n & 1:
            q = p256_add(q, p)
        p, n = p256_add(p, p), n >> 1
    return q


def p256_verify(public, message, sig):
    def integer(data):
        value, rest = der_element(data, 0x02)
        refuse_if(not value or value[0] & 0x80)
        refuse_if(len(value) > 1 and value[0] == 0 and not value[1] & 0x80)
        return int.from_bytes(value, "big"), rest

    try:
        body, rest = der_element(sig, 0x30)
        r, behind = integer(body)
        s, end = integer(behind)
    except Refused:
        return False
    if rest or end or not 0 < r < P256_N or not 0 < s < P256_N:
        return False
    e, w = int.from_bytes(hashlib.sha256(message).digest(), "big"), pow(s, -1, P256_N)
    point = p256_add(p256_mul(e * w % P256_N, P256_G), p256_mul(r * w % P256_N, public))
    return point is not None and point[0] % P256_N == r


def run_key(_, v):
    key = parse_public_key(strict_base64(v["input"]))
    return {"keyid": keyid_of(key), "algorithm": key[0]}


# --- Signed notes -----------------------------------------------------------------

NOTE_TYPES = {1: ("ed25519", 32), 4: ("ed25519-cosignature/v1", 32), 6: ("ml-dsa-44-cosignature", 1312)}


def run_note(_, v):
    fields = v["input"].split("+", 2)
    refuse_if(len(fields) != 3)
    name, keyid, encoded = fields
    refuse_if(not name or re.search(r"\s", name) or not re.fullmatch("[0-9a-f]{8}", keyid))
    key = strict_base64(encoded)
    refuse_if(not key or key[0] not in NOTE_TYPES)
    algorithm, size = NOTE_TYPES[key[0]]
    refuse_if(len(key) != 1 + size)
    refuse_if(hashlib.sha256(name.encode() + b"\n" + key).hexdigest()[:8] != keyid)
    want = {"keyid": keyid, "algorithm": algorithm}
    if note := v["want"].get("note"):
        want["note"], want["signature_valid"] = note, note_valid(note, name, keyid, key)
    return want


def note_valid(note, name, keyid, key):
    body, _, signatures = note.rpartition("\n\n")
    body += "\n"
    for line in signatures.splitlines():
        dash, signer, encoded = line.split(" ")
        sig = strict_base64(encoded)
        if dash == "\u2014" and signer == name and sig[:4].hex() == keyid:
            if key[0] == 1:
                return ed_verify(key[1:], body.encode(), sig[4:])
            time = int.from_bytes(sig[4:12], "big")
            return ed_verify(key[1:], f"cosignature/v1\ntime {time}\n{body}".encode(), sig[12:])
    return False


# --- The tree -----------------------------------------------------------------------


def sha256(*data):
    return hashlib.sha256(b"".join(data)).digest()


def hash_leaf(data):
    return sha256(b"\0", data)


def text(digest):
    return base64.b64encode(digest).decode()


def run_hash(_, v):
    refuse_if(len(strict_base64(v["input"])) != 32)


def run_tile(_, v):
    match = re.fullmatch(r"tile/(entries|0|[1-9][0-9]?)/((?:x[0-9]{3}/)*[0-9]{3})(?:\.p/([1-9][0-9]{0,2}))?", v["input"])
    refuse_if(not match)
    level, groups, width = match.groups()
    index = int(groups.replace("x", "").replace("/", ""))
    refuse_if(groups.startswith("x000") or index >= 2**64 or int(width or 1) > 255)
    entries = level == "entries"
    refuse_if(not entries and int(level) > 63)
    return {"entries": entries, "level": 0 if entries else int(level), "index": str(index), "width": int(width or 256)}


def split(n):
    return 1 << (n - 1).bit_length() - 1


def decimals(n):
    return [str(i).encode() for i in range(n)]


def mth(d):
    if len(d) < 2:
        return hash_leaf(d[0]) if d else sha256()
    k = split(len(d))
    return sha256(b"\1", mth(d[:k]), mth(d[k:]))


def path(m, d):
    if len(d) == 1:
        return []
    k = split(len(d))
    return path(m, d[:k]) + [mth(d[k:])] if m < k else path(m - k, d[k:]) + [mth(d[:k])]


def subproof(m, d, whole=True):
    if m == len(d):
        return [] if whole else [mth(d)]
    k = split(len(d))
    if m <= k:
        return subproof(m, d[:k], whole) + [mth(d[k:])]
    return subproof(m - k, d[k:], False) + [mth(d[:k])]


def check_inclusion(index, size, leaf, root, proof):
    """RFC 9162 section 2.1.3.2."""
    refuse_if(index >= size, "proof")
    fn, sn, r = index, size - 1, leaf
    for p in proof:
        refuse_if(sn == 0, "proof")
        if fn & 1 or fn == sn:
            r = sha256(b"\1", p, r)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            r = sha256(b"\1", r, p)
        fn, sn = fn >> 1, sn >> 1
    refuse_if(sn != 0 or r != root, "proof")


def check_consistency(first, second, first_root, second_root, proof):
    """RFC 9162 section 2.1.4.2, and the cases it leaves out: size 0 and equal sizes."""
    refuse_if(first > second or (first == 0 and first_root != sha256()), "proof")
    if first == second or first == 0:
        refuse_if(proof or (first == second and first_root != second_root), "proof")
        return
    refuse_if(not proof, "proof")
    if first & (first - 1) == 0:
        proof = [first_root] + proof
    fn, sn = first - 1, second - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    fr = sr = proof[0]
    for c in proof[1:]:
        refuse_if(sn == 0, "proof")
        if fn & 1 or fn == sn:
            fr, sr = sha256(b"\1", c, fr), sha256(b"\1", c, sr)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            sr = sha256(b"\1", sr, c)
        fn, sn = fn >> 1, sn >> 1
    refuse_if(sn != 0 or fr != first_root or sr != second_root, "proof")


def run_merkle(_, v):
    if v["op"] == "leaf":
        return text(hash_leaf(v["input"].encode()))
    if v["op"] == "node":
        return text(sha256(b"\1", strict_base64(v["left"]), strict_base64(v["right"])))
    size, root = v["head"]["size"], strict_base64(v["head"]["root"])
    if v["op"] == "root":
        refuse_if(mth(decimals(size)) != root)
        return None
    proof = [strict_base64(h) for h in v.get("proof", [])]
    if v["op"] == "inclusion":
        check_inclusion(v["index"], size, strict_base64(v["leaf"]), root, proof)
        refuse_if(path(v["index"], decimals(size)) != proof)
    elif v["op"] == "consistency":
        older = v["older"]["size"]
        check_consistency(older, size, strict_base64(v["older"]["root"]), root, proof)
        refuse_if((subproof(older, decimals(size)) if older else []) != proof)
    return None


# --- The index of subjects ------------------------------------------------------------


def number(n):
    return n.to_bytes(8, "big")


def record(rows):
    labels = [row["label"].encode() for row in rows]
    refuse_if(not rows or labels != sorted(set(labels)) or not all(0 < len(label) < 256 for label in labels))
    refuse_if(any(row["count"] < 1 for row in rows))
    parts = [bytes([len(row["label"])]) + row["label"].encode() + number(row["count"]) + strict_base64(row["root"]) for row in rows]
    return sha256(b"\4", *parts)


def bits(key):
    return "".join(f"{byte:08b}" for byte in key)


def leaf_of(leaf):
    return strict_base64(leaf["key"]), strict_base64(leaf["record"])


NOTHING = bytes(32)


def prefix_root(leaves, depth=0):
    """leaves: pairs of a key's bits and a leaf hash."""
    if len(leaves) < 2:
        return leaves[0][1] if leaves else NOTHING
    return sha256(b"\3", *(prefix_root([leaf for leaf in leaves if leaf[0][depth] == bit], depth + 1) for bit in "01"))


def check_prefix(answers, root, proof):
    """Puts what is known at its place in the tree, a string of bits, and hashes from the deepest on."""
    keys = [strict_base64(a["key"]) for a in answers]
    refuse_if(keys != sorted(set(keys)), "proof")
    ends, inner = {}, set()
    for key, a in zip(map(bits, keys), answers):
        refuse_if(not 0 <= a["depth"] <= 256, "proof")
        place, got = key[: a["depth"]], (NOTHING, 0)
        if "leaf" in a:
            leaf = leaf_of(a["leaf"])
            refuse_if(not bits(leaf[0]).startswith(place), "proof")
            got = (sha256(b"\2", *leaf), 1)
        refuse_if(ends.setdefault(place, got) != got, "proof")
        inner.update(place[:i] for i in range(len(place)))
    refuse_if(inner & ends.keys(), "proof")
    beside = sorted({above + bit for above in inner for bit in "01"} - inner - ends.keys()) if answers else [""]
    refuse_if(len(beside) != len(proof), "proof")
    known = dict(ends)  # place: hash, and how many leaves there are at least
    known.update({place: (h, 0 if h == NOTHING else 1) for place, h in zip(beside, proof)})
    certain = set(ends) | {place for place, h in zip(beside, proof) if h == NOTHING}  # no more leaves than that
    for above in sorted(inner, key=len, reverse=True):
        (left, l), (right, r) = known[above + "0"], known[above + "1"]
        refuse_if(l + r < 2 and {above + "0", above + "1"} <= certain, "proof")
        known[above] = (sha256(b"\3", left, right), 2)
    refuse_if(known[""][0] != root, "proof")


def check_run(first, indexes, size, root, proof):
    """Joint proof of neighbours: the largest subtrees outside of the run, from left to right."""
    refuse_if(indexes != sorted(set(indexes)) or first + len(indexes) > size, "proof")
    ranks, rest = {first + i: hash_leaf(number(index)) for i, index in enumerate(indexes)}, list(proof)

    def over(low, high):
        if not any(low <= rank < high for rank in ranks):
            refuse_if(not rest, "proof")
            return rest.pop(0)
        if high - low == 1:
            return ranks[low]
        middle = low + split(high - low)
        left = over(low, middle)
        return sha256(b"\1", left, over(middle, high))

    refuse_if(over(0, size) != root or rest, "proof")


def run_prefix(_, v):
    if v["op"] == "key":
        return text(sha256(f"arl index/1\n{v['subject']['type']}\n{v['subject']['value']}".encode()))
    if v["op"] == "record":
        return text(record(v.get("rows", [])))
    if v["op"] == "tree":
        return text(prefix_root([(bits(key), sha256(b"\2", key, rec)) for key, rec in map(leaf_of, v.get("leaves", []))]))
    proof = [strict_base64(h) for h in v.get("proof", [])]
    if v["op"] == "prefix":
        check_prefix(v.get("answers", []), strict_base64(v["root"]), proof)
    else:
        check_run(v["from"], v["indexes"], v["head"]["size"], strict_base64(v["head"]["root"]), proof)
    return None


# --- Run ------------------------------------------------------------------------------

GROUPS = {
    "payload": run_payload,
    "envelope": run_envelope,
    "leaf": run_leaf,
    "key": run_key,
    "note": run_note,
    "tile": run_tile,
    "hash": run_hash,
    "merkle": run_merkle,
    "prefix": run_prefix,
    "subjects": run_subjects,
}


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    vectors = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root / "testdata/vectors"
    schemas = Schemas(pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else root / "ledger/entry/schema")
    checked = wrong = refused = 0
    for file in sorted(vectors.rglob("*.json")):
        if file.relative_to(vectors).parts[0] in ("bundle", "decide", "history", "policy"):
            continue  # bundle.py, decide.py and history.py; that policy files are YAML with CEL is for Go alone
        v = json.loads(file.read_text(encoding="utf-8"))
        run = GROUPS[file.relative_to(vectors).parts[0]]
        try:
            problem, got = "", run(schemas, v)
        except Refused as verdict:
            problem, got = str(verdict), None
        checked += 1
        refused += problem != ""
        if problem != v["wantErr"] or got != v.get("want"):
            wrong += 1
            print(f"{file}: {v['desc']}: got {problem!r} {got}, want {v['wantErr']!r} {v.get('want')}")
    print(f"{checked} vectors checked, {refused} of them refused, {wrong} wrong")
    return 1 if wrong or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
