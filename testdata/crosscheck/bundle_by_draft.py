#!/usr/bin/env python3
"""Checks authorization bundles (AGT-1 to AGT-3) by the text of the Internet-Draft.

    bundle_by_draft.py CASE...

Strangers wrote it from the rendered text alone (README.md). Sections and rules are those of the
draft; "guess" marks what the text leaves open. A CASE is a JSON file with the members bundle (a
text), accepted and now; a line of JSON answers it: the verdict, ok or the step that refuses, and
what becomes of each member of the agent.
"""
import base64
import functools
import hashlib
import json
import re
import sys

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

MAXINT = 2**53 - 1


class Bad(Exception):
    """Something does not hold; judge() knows at which step."""


def need(cond, why):
    if not cond:
        raise Bad(why)


# ------------------------------------------------------------------ JSON and base64 (4.2)

def dump(v, **options):
    """Without white space, strings as in JCS; with sort_keys=True that is JCS for ASCII names."""
    return json.dumps(v, ensure_ascii=False, separators=(",", ":"), **options)


def refuse_number(s):
    raise Bad("ENV-9: number " + s[:20])


def integer(s):
    need(s != "-0" and len(s) <= 17 and abs(int(s)) <= MAXINT, "ENV-9: number")
    return int(s)


def pairs(items):
    d = dict(items)
    need(len(d) == len(items), "ENV-9: duplicate member")
    return d


def deep(v, level=1):
    if isinstance(v, (dict, list)):
        need(level <= 16, "ENV-9: nested too deeply")
        for x in v.values() if isinstance(v, dict) else v:
            deep(x, level + 1)


def parse_payload(raw):
    """ENV-9."""
    try:
        v = json.loads(raw.decode("utf-8"), object_pairs_hook=pairs, parse_int=integer,
                       parse_float=refuse_number, parse_constant=refuse_number)
        deep(v)
        dump(v).encode("utf-8")                   # guess: an escaped lone surrogate is malformed
    except (ValueError, RecursionError) as e:
        raise Bad("ENV-9: %s" % e)
    return v


def b64(s):
    """ENV-13."""
    try:
        raw = base64.b64decode(s.encode("ascii"), validate=True)
    except (ValueError, AttributeError):
        raise Bad("ENV-13: base64")
    need(base64.b64encode(raw).decode() == s, "ENV-13: base64")
    return raw


# ------------------------------------------------------------------ Merkle trees (RFC 9162, 2.1)

def leaf_hash(data):
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left, right):
    return hashlib.sha256(b"\x01" + left + right).digest()


def split(n):
    """The largest power of two below n."""
    return 1 << (n - 1).bit_length() - 1


def joint_root(size, known, proof):
    """The root by a joint proof (6.6.1); known is {place: leaf hash}."""
    need(all(p < size for p in known), "a place beyond the tree")
    rest = list(reversed(proof))

    def walk(lo, n, places):
        if not places:
            need(rest, "the proof is too short")
            return rest.pop()
        if n == 1:
            return known[lo]
        k = split(n)
        left = walk(lo, k, [p for p in places if p < lo + k])
        return node_hash(left, walk(lo + k, n - k, [p for p in places if p >= lo + k]))

    root = walk(0, size, sorted(known))
    need(not rest, "AGT-6: a hash that the proof does not use")
    return root


def check_consistency(m, old, n, new, proof):
    """RFC 9162, 2.1.4: the tree of size n and root new continues that of size m and root old."""
    need(m <= n, "the head is smaller than the accepted one")
    rest = list(reversed(proof))

    def take():
        need(rest, "the proof is too short")
        return rest.pop()

    def walk(m, n, whole):
        """The roots of the first m and of all n leaves of a subtree."""
        if m == n:
            return (old, old) if whole else (take(),) * 2
        k = split(n)
        if m <= k:
            a, b = walk(m, k, whole)
            return a, node_hash(b, take())
        a, b = walk(m - k, n - k, False)
        left = take()
        return node_hash(left, a), node_hash(left, b)

    need(m == 0 or walk(m, n, True) == (old, new), "consistency")
    need(not rest, "AGT-6: a hash that the proof does not use")


# ------------------------------------------------------------------ keys and signatures (4.1)

ED_PREFIX = bytes.fromhex("302a300506032b6570032100")
EC_PREFIX = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200")
P = 2**255 - 19
D = -121665 * pow(121666, P - 2, P) % P


@functools.lru_cache(4096)
def ed_point(raw):
    """ENV-7: a canonical encoding of a point of the curve that is not of small order."""
    y = int.from_bytes(raw, "little")
    sign, y = y >> 255, y & (2**255 - 1)
    need(y < P, "ENV-7")
    u, v = (y * y - 1) % P, (D * y * y + 1) % P
    x = u * pow(v, 3, P) * pow(u * pow(v, 7, P), (P - 5) // 8, P) % P
    if v * x * x % P != u:
        x = x * pow(2, (P - 1) // 4, P) % P
    need(v * x * x % P == u and (x or not sign), "ENV-7")
    for _ in range(3):                            # eight times the point, up to the sign of x
        t = D * x * x * y * y % P
        x, y = (2 * x * y * pow(1 + t, P - 2, P) % P, (y * y + x * x) * pow(1 - t, P - 2, P) % P)
    need((x, y) != (0, 1), "ENV-7")
    return Ed25519PublicKey.from_public_bytes(raw)


def verifies(pub, sig, msg):
    """ENV-4, ENV-5, ENV-8 (the library refuses S >= L, has no cofactor, and takes strict DER)."""
    try:
        pub.verify(sig, msg, *([] if isinstance(pub, Ed25519PublicKey) else [ec.ECDSA(hashes.SHA256())]))
        return True
    except (InvalidSignature, ValueError):
        return False


@functools.lru_cache(4096)
def public_key(text):
    """4.1: (keyid, key) of a public-key; ENV-6."""
    raw = b64(text)
    if raw.startswith(ED_PREFIX) and len(raw) == 44:
        pub, parts = ed_point(raw[12:]), (b"ssh-ed25519", raw[12:])
    elif raw.startswith(EC_PREFIX) and len(raw) == 91 and raw[26] == 4:
        parts = (b"ecdsa-sha2-nistp256", b"nistp256", raw[26:])
        try:
            pub = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), raw[26:])
        except ValueError:
            raise Bad("not a point on P-256")
    else:
        raise Bad("ENV-6: algorithm")
    ssh = b"".join(len(p).to_bytes(4, "big") + p for p in parts)
    return "SHA256:" + base64.b64encode(hashlib.sha256(ssh).digest()).decode().rstrip("="), pub


# ------------------------------------------------------------------ CDDL (4.12)

def rx(pattern):
    c = re.compile(pattern)
    return lambda v: need(isinstance(v, str) and c.fullmatch(v), "not as " + pattern[:40])


def at_least(lo):
    return lambda v: need(type(v) is int and lo <= v <= MAXINT, "integer")


def size(lo, hi):
    return lambda v: need(isinstance(v, str) and lo <= len(v.encode("utf-8")) <= hi, "length of a text")


def one_of(*words):
    return lambda v: need(isinstance(v, str) and v in words, "not one of " + "/".join(words))


def lst(item, least=0, most=MAXINT):
    return lambda v: [need(isinstance(v, list) and least <= len(v) <= most, "array"), *map(item, v)]


def obj(spec, closed=False, ordered=False):
    """spec: {"member" or "?optional": check}.  Unknown members are ignored, unless it is closed."""
    names = [k.lstrip("?") for k in spec]

    def f(v):
        need(isinstance(v, dict), "object")
        for k, check in spec.items():
            n = k.lstrip("?")
            need(n in v or k[0] == "?", "no member " + n)
            if n in v:
                check(v[n])
        need(not closed or set(v) <= set(names), "unknown member")
        need(not ordered or list(v) == [n for n in names if n in v], "order of members")
    return f


NAME = r"[A-Za-z0-9._:/@-]{1,128}"
name, ref = rx(NAME), rx(NAME + "#" + NAME)
word, digest = rx(r"[a-z0-9_.-]{1,64}"), rx(r"(hmac-)?sha256:[0-9a-f]{64}")
hash_ = rx(r"[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=")
uuid = rx(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
keyid = rx(r"SHA256:[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]")
count, positive, short, text = at_least(0), at_least(1), size(1, 1024), size(0, MAXINT)
RESULTS = ("restored", "compensated", "not_executed", "irrevocable", "failed", "refused", "withheld",
           "unknown")
entry_ref = obj({"index": count, "leaf_hash": hash_})
head_ref = obj({"size": count, "root": hash_})
evidence = lst(obj({"digest": digest, "?uri": short}))
dispositions = lst(obj({
    "index": count, "disposition": one_of("corroborated", "self_reported", "dismissed", "inconclusive"),
    "?domains": lst(name), "?independent": lambda v: need(isinstance(v, bool), "bool")}))
roles = lst(one_of("agent", "enroller", "coordinator", "operator", "approver", "monitor"))
reach = obj({"members": count, "agents": count, "domains": count})
cap = obj({"members": count, "agents": count, "domains": count, "fenced_ms": count})
windows = obj({k + "_ms": positive for k in (
    "decide", "answer", "member", "deadline_max", "cooldown", "since_max", "bundle_max_age", "iat")})
HEADER = {"v": lambda v: need(type(v) is int and v == 1, "version"), "jti": uuid, "iss": name,
          "aud": size(1, 128), "iat": positive, "?crit": lst(text)}
KINDS = {
    "policy": {
        "authority": lst(obj({"principal": name, "key": b64}), 1),
        "roles": obj({"?agent": roles}, closed=True), "windows": windows,
        "limits": obj({"incident": cap, "signaler": cap, "victim": cap, "window_ms": positive,
                       "?fence": obj({"incident": reach, "signaler": reach, "victim": reach})}),
        "quotas": obj({"entries_per_hour": count, "signals_per_hour": positive}),
        "quorum": obj({"approve": positive, "override": positive, "signalers": positive}),
        "max_step_ms": positive, "?witnesses": size(1, MAXINT), "?ledger_keys": lst(text),
        "?previous": entry_ref},
    "agent": {
        "principal": name, "op": one_of("enrol", "rotate", "revoke"), "key": b64, "roles": roles,
        "domain": name, "span": one_of("workflow", "agent"), "?compromised_since": obj({"index": count})},
    "execution": {
        "wid": name, "exec": name, "parents": lst(obj({"exec": ref, "dep": one_of("hard", "soft")})),
        "effect": one_of("none", "reversible", "compensable", "irrevocable", "undeclared"),
        "progress": one_of("planned", "started", "confirmed", "failed", "cancelled"),
        "?idempotency_key": digest, "?checkpoint": ref, "?comp": digest,
        "?compensates": obj({"incident": count, "decision": entry_ref, "exec": ref}),
        "?inp_hash": digest, "?out_hash": digest},
    "checkpoint": {
        "wid": name, "checkpoint": name, "after": lambda v: v is None or ref(v), "digest": digest,
        "?expires_at": count, "?loc": short},
    "signal": {
        "wid": name, "subject": ref, "class": word, "code": word,
        "standing": one_of("executor", "upstream", "downstream", "monitor", "operator"),
        "effects": one_of("none", "partial", "complete", "unknown"),
        "replay_safety": one_of("safe", "unsafe", "unknown"), "observed_at": positive, "?since": ref,
        "?last_known_good": ref, "?evidence": evidence, "?retry_after_ms": count,
        "?severity": one_of("info", "warning", "error", "critical"), "?attempt": count,
        "?supersedes": entry_ref, "?detail": short},
    "decision": {
        "wid": name, "incident": count,
        "act": one_of("contain", "escalate", "authorize", "amend", "deny", "override", "release"),
        "policy": entry_ref, "epoch": count, "exp": positive, "reason": short, "?signals": head_ref,
        "?dismissed": lst(obj({"index": count, "reason": short})), "?pin": head_ref,
        "?rollback_set": obj({"algorithm": one_of("scope/1"), "size": count, "root": hash_}),
        "?impact": obj({k: count for k in ("members", "agents", "domains", "irrevocable", "undeclared")}),
        "?not_fenced": short, "?deadline_at": count, "?approvals": lst(count), "?supersedes": entry_ref,
        "?dispositions": dispositions, "?members": lst(ref)},
    "approval": {
        "wid": name, "incident": count, "proposal": entry_ref, "verdict": one_of("approve", "refuse"),
        "exp": positive, "reason": short},
    "outcome": {
        "wid": name, "incident": count, "decision": entry_ref, "exec": ref, "result": one_of(*RESULTS),
        "observed_at": positive, "?residual": short, "?comp_exec": ref, "?post_digest": digest,
        "?evidence": evidence, "?supersedes": entry_ref},
    "record": {
        "wid": name, "incident": count, "state": one_of("RECOVERED", "NO_EFFECTS", "PARTIAL", "FAILED"),
        "decision": entry_ref, "tally": obj({"?" + r: count for r in RESULTS}, closed=True),
        "unresolved": head_ref, "dispositions": dispositions, "review": count},
}
MEMBERS = {kind: {k.lstrip("?") for k in {**HEADER, **spec}} for kind, spec in KINDS.items()}
PAYLOAD = {kind: obj({**HEADER, **spec}) for kind, spec in KINDS.items()}
PLAN = ("signals", "dismissed", "pin", "rollback_set", "impact")
REQUIRED = {                                      # 4.10, 4.11, INC-6a: by act and result
    "contain": PLAN, "escalate": PLAN, "authorize": PLAN + ("deadline_at",),
    "amend": PLAN + ("deadline_at",), "deny": ("dispositions",), "release": ("members",), "override": (),
    **{r: ("residual",) for r in RESULTS}, "compensated": ("comp_exec",), "restored": ("post_digest",),
    "not_executed": ()}
LEAF = obj({
    "envelope": obj({"payload": text, "payloadType": text, "signatures": lst(
        obj({"keyid": keyid, "sig": text}, closed=True), 1, 1)}, closed=True),
    "registered_at": count}, closed=True)


class Entry:
    def __init__(self, index, leaf):
        """A canonical leaf with a well-formed entry (ENV-1, ENV-2, ENV-9 to ENV-13; 4.4; 4.12)."""
        LEAF(leaf)
        data = dump(leaf, sort_keys=True)
        need(dump(leaf) == data, "4.4: the leaf is not canonical")
        env = leaf["envelope"]
        need(len(dump(env).encode("utf-8")) <= 49152, "ENV-10")
        self.index, self.at, self.hash = index, leaf["registered_at"], leaf_hash(data.encode("utf-8"))
        self.hash64 = base64.b64encode(self.hash).decode()
        kind = re.fullmatch(r"application/vnd\.agent-recovery\.([a-z]+)\+json", env["payloadType"])
        need(kind and kind.group(1) in KINDS, "payloadType")
        self.kind = kind.group(1)
        self.keyid, self.sig = env["signatures"][0]["keyid"], b64(env["signatures"][0]["sig"])
        raw, t = b64(env["payload"]), env["payloadType"].encode()
        self.signed = b"DSSEv1 %d %s %d %s" % (len(t), t, len(raw), raw)
        self.p = p = parse_payload(raw)
        PAYLOAD[self.kind](p)
        need(not any(c in p and c not in MEMBERS[self.kind] for c in p.get("crit", ())), "ENV-11")
        if self.kind in ("decision", "outcome"):
            case = p["act" if self.kind == "decision" else "result"]
            need(all(k in p for k in REQUIRED[case]), "4.10, 4.11: a member is missing")
        elif self.kind == "execution":
            need(p["effect"] in ("none", "reversible") or "idempotency_key" in p, "4.8: idempotency_key")
            need("compensates" not in p or not p["parents"], "4.8: a compensation with parents")
            self.ref = p["iss"] + "#" + p["exec"]
        elif self.kind == "checkpoint":
            self.ref = p["iss"] + "#" + p["checkpoint"]

    def __getitem__(self, k):
        return self.p[k]

    def get(self, k, default=None):
        return self.p.get(k, default)

    def named_by(self, r):
        return r is not None and (r["index"], r["leaf_hash"]) == (self.index, self.hash64)


# ------------------------------------------------------------------ form of a bundle (6.6.1)

maybe, ascii_ = rx(r"[ !#-\[\]-~]{0,257}"), rx(r"[ !#-\[\]-~]{1,257}")
ITEM = {"closed": True, "ordered": True}
MEMBER = obj({"agent": maybe, "?checkpoint": ascii_, "exec": maybe, "index": count, "leaf_hash": maybe,
              "method": maybe}, **ITEM)
STEP = obj({"exec": count, "rule": one_of("SCO-1", "SCO-2", "SCO-3"), "from": count, "?by": positive,
            "?checkpoint": positive}, **ITEM)
BUNDLE = obj({
    "agent": ascii_, "?decision": positive, "head": size(1, 131072), "from": count,
    "consistency": lst(hash_), "entries": lst(obj({"index": count, "leaf": lambda v: None}, **ITEM), 0, 8192),
    "inclusion": lst(hash_),
    "members": lst(obj({"place": count, "member": MEMBER, "?after": lst(count, 1, 256), "?by": positive},
                       **ITEM), 0, 4096),
    "membership": lst(hash_), "steps": lst(STEP, 0, 8192)}, **ITEM)


def ascend(xs):
    return all(x < y for x, y in zip(xs, xs[1:]))


def read_bundle(raw):
    """6.6.1, Form."""
    try:
        need(len(raw.encode("utf-8")) <= 8 * 1024 * 1024, "too large")
        b = json.loads(raw, parse_constant=refuse_number)
        need(dump(b) == raw, "white space, or strings that are not as in JCS")
    except (ValueError, AttributeError, RecursionError) as e:
        raise Bad("JSON: %s" % e)
    BUNDLE(b)
    need(all(ascend([x[key] for x in b[which]]) for which, key in (
        ("entries", "index"), ("members", "place"), ("steps", "exec"))), "a list does not ascend")
    for m in b["members"]:
        after = m.get("after", [])
        need(ascend(after + [m["place"]]), "after")
    need(all(s["rule"] == "SCO-2" or not {"by", "checkpoint"} & set(s) for s in b["steps"]), "by, checkpoint")
    if "decision" in b:
        need(b["members"], "a decision without members")
    else:
        need(not b["members"] and not b["steps"] and not b["membership"], "members without decision")
    for e in b["entries"]:
        need(len(dump(e["leaf"]).encode("utf-8")) <= 65535, "the leaf is too large")
    return b


# ------------------------------------------------------------------ heads and witnesses

LINE = re.compile("\u2014 ([^\\s+]+) ([A-Za-z0-9+/]+={0,2})")


class Head:
    def __init__(self, note):
        """A signed note of origin, size and root (4.4); extension lines mean nothing (AGT-1.1)."""
        need(re.fullmatch(r"[^\x00-\x09\x0b-\x1f]*\n\n[^\x00-\x09\x0b-\x1f]+\n", note), "no signed note")
        body, _, lines = note[:-1].rpartition("\n\n")
        self.text = (body + "\n").encode("utf-8")
        self.sigs = []                            # (name, key id, signature)
        for line in lines.split("\n"):
            m = LINE.fullmatch(line)
            need(m, "signature line")
            raw = b64(m.group(2))
            need(len(raw) > 4, "signature line")
            self.sigs.append((m.group(1), raw[:4], raw[4:]))
        parts = body.split("\n")
        need(len(parts) > 2 and all(parts) and re.fullmatch("0|[1-9][0-9]{0,15}", parts[1]), "no tree head")
        self.origin, self.size, self.root = parts[0], int(parts[1]), b64(parts[2])
        need(self.size <= MAXINT and len(self.root) == 32, "no tree head")

    def signed_by(self, vkey):
        """A list: does each signature in the name of this key hold?"""
        nm, kid, alg, raw = vkey
        return [verifies(ed_point(raw), sig, self.text) for n, k, sig in self.sigs
                if alg == 1 and (n, k) == (nm, kid)]

    def cosigned(self, vkey, now, age):
        """A cosignature that holds and is fresh, and not later than now and 300 seconds (AGT-1.3)."""
        nm, kid, _, raw = vkey
        for n, k, sig in self.sigs:
            if (n, k) == (nm, kid) and len(sig) == 72:
                t = int.from_bytes(sig[:8], "big")
                msg = b"cosignature/v1\ntime %d\n" % t + self.text
                if now - age <= t * 1000 <= now + 300_000 and verifies(ed_point(raw), sig[8:], msg):
                    return True
        return False


def parse_vkey(v):
    """A verifier key of a signed note: (name, key id, algorithm, key)."""
    parts = v.split("+", 2) if isinstance(v, str) else ()
    need(len(parts) == 3 and parts[0] and not re.search(r"\s", parts[0]), "verifier key")
    raw = b64(parts[2])
    kid = hashlib.sha256(parts[0].encode("utf-8") + b"\n" + raw).digest()[:4]
    need(len(raw) > 1 and kid.hex() == parts[1], "verifier key")
    if raw[0] in (1, 4):
        need(len(raw) == 33, "verifier key")
        ed_point(raw[1:])
    return parts[0], kid, raw[0], raw[1:]


def witnessed(policy, head, now, age):
    """Is the quorum of a witness policy (c2sp.org/tlog-policy) met, and is its emergency group (WIT-6)?"""
    keys, met, inside, groups, quorum = set(), {"none": True}, {"none": set()}, set(), None
    for line in policy.split("\n"):
        f = line.split()
        if not f or f[0].startswith("#") or f[0] == "log":       # guess: log lines play no part
            continue
        need(len(f) >= 2, "line of a witness policy")
        if f[0] == "quorum":
            need(len(f) == 2 and quorum is None and f[1] in met, "quorum")
            quorum = f[1]
            continue
        need(f[0] in ("witness", "group") and len(f) >= 3 and f[1] not in met, "line of a witness policy")
        if f[0] == "witness":
            key, inside[f[1]] = parse_vkey(f[2]), {f[1]}
            need(len(f) <= 4 and key[2] == 4 and key not in keys, "key of a witness")
            keys.add(key)
            met[f[1]] = head.cosigned(key, now, age)
        else:
            ms = f[3:]
            need(ms and len(set(ms)) == len(ms) and set(ms) <= set(met) - {"none"}, "members of a group")
            k = {"any": "1", "all": str(len(ms))}.get(f[2], f[2])
            need(re.fullmatch("[1-9][0-9]{0,5}", k) and int(k) <= len(ms), "threshold")
            groups.add(f[1])
            inside[f[1]] = {f[1]}.union(*[inside[m] for m in ms])
            met[f[1]] = sum(met[m] for m in ms) >= int(k)
    need(quorum, "no quorum")
    return met[quorum], "emergency" in groups - inside[quorum] and met["emergency"]


# ------------------------------------------------------------------ keys (4.5, 4.7, 6.2)

DECIDERS = {"coordinator", "approver"}
FINAL = ("confirmed", "failed", "cancelled")
STAGE = {"planned": 0, "started": 1, **dict.fromkeys(FINAL, 2)}


def may_sign(e):
    """REG-4: the roles that may issue an entry that is no policy or agent entry."""
    if e.kind == "signal":
        return {e["standing"]} if e["standing"] in ("monitor", "operator") else {"agent"}
    if e.kind == "decision":
        if e["act"] == "override":
            return {"operator", "approver"}
        if e["act"] == "escalate":
            return DECIDERS | {"agent", "monitor", "operator"}
        return DECIDERS | ({"operator"} if e["act"] == "deny" and "supersedes" in e.p else set())
    if e.kind == "outcome":
        return {"agent"} | (DECIDERS if e["result"] == "unknown" else set())
    return {"approval": {"approver"}, "record": DECIDERS}.get(e.kind, {"agent"})


class Keys:
    """The fold of policies and agent entries along the log (TRU-1, TRU-2)."""

    def __init__(self, genesis, origin):
        self.genesis, self.origin = genesis, origin
        self.policies, self.keys, self.revoked = [], {}, {}
        self.newest = {}                          # the newest enrolment of a principal

    def policy_below(self, index):
        return next((p for p in reversed(self.policies) if p.index < index), None)

    def authority(self, policy, e):
        """Has an authority key of the policy signed e?"""
        keys = [public_key(a["key"]) for a in policy["authority"] if a["principal"] == e["iss"]]
        return any(kid == e.keyid and verifies(pub, e.sig, e.signed) for kid, pub in keys)

    def add_policy(self, e):
        """4.5: the chain from genesis; TRU-5b: how ledger keys change."""
        prev = self.policies[-1] if self.policies else None
        if prev is None:
            need(e.index == 0 and e.hash64 == self.genesis, "TRU-1: index 0 is not the pinned genesis")
        else:
            need(prev.named_by(e.get("previous")), "TRU-2: previous of policy %d" % e.index)
        need(self.authority(prev or e, e), "TRU-2: signature of policy %d" % e.index)
        vkeys = [parse_vkey(k) for k in e.get("ledger_keys", ())]
        need(all(k[0] == self.origin for k in vkeys) and len(set(vkeys)) == len(vkeys), "TRU-5b: ledger_keys")
        older = [parse_vkey(k) for k in prev.get("ledger_keys", ())] if prev else []
        need(not older or any(k[2] == 1 and k in older for k in vkeys), "TRU-5b: no older key")
        self.policies.append(e)

    def add_agent(self, e):
        """4.7, REG-4a: who may enrol, rotate and revoke."""
        policy, who = self.policy_below(e.index), e["principal"]
        need(policy, "TRU-2: an agent entry before every policy")
        kid, pub = public_key(e["key"])
        own = [r for r in self.keys.values() if r["principal"] == who]
        need(all(r["span"] == e["span"] for r in own), "4.7: span")
        if not self.authority(policy, e):
            signer = self.counting(e["iss"], e.keyid, e.index)
            need(signer and verifies(signer["pub"], e.sig, e.signed), "TRU-2: signer of entry %d" % e.index)
            need(signer["roles"] & set(policy["roles"].get("agent", ())) and set(e["roles"]) == {"agent"}
                 and all(r["roles"] <= {"agent"} for r in own)
                 and all(a["principal"] != who for a in policy["authority"]), "4.7: may not grant")
        r = self.keys.get(kid)
        if e["op"] == "revoke":
            need(r is None or r["principal"] == who, "4.7: the key of another principal")
            since = e.get("compromised_since", {}).get("index", MAXINT)
            self.revoked.setdefault(kid, []).append((e.index, since))
            return
        need(r is None, "REG-4a: the key was enrolled before")
        if e["op"] == "rotate":
            for x in own:
                x["end"] = min(x["end"], e.index)
        self.keys[kid] = self.newest[who] = {
            "principal": who, "roles": set(e["roles"]), "pub": pub, "index": e.index, "end": MAXINT,
            "domain": e["domain"], "span": e["span"]}

    def counting(self, iss, kid, index):
        """The key of iss with this keyid that counts at an index, or None."""
        r = self.keys.get(kid)
        ok = r and r["principal"] == iss and r["index"] < index <= r["end"]
        return r if ok and not self.revoked_below(kid, index) else None

    def revoked_below(self, kid, index):
        return any(i < index for i, _ in self.revoked.get(kid, ()))

    def compromised(self, e, index=MAXINT):
        """TRU-4: does a revocation below index say that the key of e was compromised at e?"""
        return any(i < index and since <= e.index for i, since in self.revoked.get(e.keyid, ()))

    def check(self, e):
        """TRU-2: the issuer has a key that counts and the role, and the signature holds."""
        r = self.counting(e["iss"], e.keyid, e.index)
        need(r and r["roles"] & may_sign(e), "TRU-2: issuer or role of entry %d" % e.index)
        need(verifies(r["pub"], e.sig, e.signed), "TRU-2: signature of entry %d" % e.index)


# ------------------------------------------------------------------ AGT-1 and AGT-2 (6.6.2)

class Check:
    def __init__(self, case, bundle):
        """Decodes what AGT-1 judges; all entries, since leaves that are malformed fail there, too."""
        self.b, self.acc, self.now = bundle, case["accepted"], case["now"]
        self.root, self.head = self.acc["root"], Head(bundle["head"])
        self.entries = {e["index"]: Entry(e["index"], e["leaf"]) for e in bundle["entries"]}
        self.links = {x["index"]: Entry(x["index"], x["leaf"]) for x in self.acc.get("links") or ()}
        both = {**self.links, **self.entries}
        self.links_and_shown = [both[i] for i in sorted(both)]
        self.accepted_policies = [self.links[i] for i in sorted(self.links) if self.links[i].kind == "policy"]
        self.result = {}                          # of the members of A

    def order(self):
        """AGT-7; without decision (news) only what needs none."""
        checks = [("AGT-1", [self.agt1_1, self.agt1_2, self.agt1_3, self.agt1_4]),
                  ("AGT-2", [self.agt2_1, self.agt2_2] if "decision" in self.b else [self.agt2_2]),
                  ("AGT-1", [self.agt2_2_witnesses]), ("AGT-2", [self.agt2_3, self.agt2_4])]
        if "decision" in self.b:
            checks += [("AGT-2", [self.agt2_5, self.agt2_6, self.agt2_7, self.agt2_8, self.agt2_9,
                                  self.agt2_10, self.agt2_11]), ("AGT-3", [self.agt3])]
        return checks

    def witnesses(self, text_, policy):
        return witnessed(text_, self.head, self.now, policy["windows"]["bundle_max_age_ms"])

    def agt1_1(self):
        """AGT-1.1: origin, and a signature by a ledger key that counts."""
        need(self.head.origin == self.root["origin"], "another origin")
        good = {k: MAXINT for k in self.root["ledger_keys"]}     # key: the largest head it is good for
        for k in self.root.get("retired") or ():
            good.setdefault(k["key"], k["size"])
        for p in self.accepted_policies:
            if p.get("ledger_keys") and p.index > self.root.get("since", -1):
                good = {**{k: min(size_, p.index) for k, size_ in good.items()},
                        **{k: MAXINT for k in p["ledger_keys"]}}
        sigs = [s for k in good if self.head.size <= good[k] for s in self.head.signed_by(parse_vkey(k))]
        need(sigs and all(sigs), "AGT-1.1: not signed by a ledger key that counts")

    def agt1_2(self):
        """AGT-1.2: the head continues the accepted one."""
        old = Head(self.acc["head"]) if self.acc.get("head") else None
        size_ = old.size if old else 0
        need(self.b["from"] == size_, "from is not the size of the accepted head")
        check_consistency(size_, old and old.root, self.head.size, self.head.root,
                          [b64(h) for h in self.b["consistency"]])

    def agt1_3(self):
        """AGT-1.3, WIT-6, WIT-6a: the witnesses of the root, or of the policy accepted last."""
        policy = self.accepted_policies[-1] if self.accepted_policies else None
        genesis = self.entries.get(0)
        if policy is None and not self.acc.get("head") and genesis and genesis.kind == "policy":
            policy = genesis if genesis.hash64 == self.root["genesis"] else None
        if self.root.get("witnesses"):
            need(policy, "AGT-1.3: no policy says how old a cosignature may be")
            need(self.witnesses(self.root["witnesses"], policy)[0], "AGT-1.3: quorum of the root")
        elif policy and "witnesses" in policy.p:  # guess: no policy, no witnesses: AGT-2.2 refuses
            quorum, emergency = self.witnesses(policy["witnesses"], policy)
            newest = [e for e in self.links_and_shown if e.kind == "policy"][-1]
            need(quorum or emergency and newest.get("witnesses") != policy["witnesses"],
                 "AGT-1.3: quorum of the accepted policy")

    def agt1_4(self):
        """AGT-1.4: every entry is in the tree, and times do not fall."""
        known = {i: e.hash for i, e in self.entries.items()}
        proof = [b64(h) for h in self.b["inclusion"]]
        need(joint_root(self.head.size, known, proof) == self.head.root, "AGT-1.4: inclusion")
        times = [e.at for e in self.entries.values()]
        need(all(x <= y for x, y in zip(times, times[1:])), "AGT-1.4: times fall")

    def shown(self, kind, index=None):
        """The shown entry of a kind at an index, or None; without index all of the kind."""
        if index is None:
            return [e for e in self.entries.values() if e.kind == kind]
        e = self.entries.get(index)
        return e if e and e.kind == kind else None

    def agt2_1(self):
        """AGT-2.1: the decision is shown, and authorizes."""
        self.d = self.shown("decision", self.b["decision"])
        need(self.d and self.d["act"] in ("authorize", "amend"), "AGT-2.1")

    def agt2_2(self):
        """AGT-2.2: TRU-1, TRU-2."""
        need(all(self.entries.get(i, e).hash == e.hash for i, e in self.links.items()), "AGT-2.2: fork")
        self.keys = Keys(self.root["genesis"], self.root["origin"])
        for e in self.links_and_shown:
            if e.kind in ("policy", "agent"):
                (self.keys.add_policy if e.kind == "policy" else self.keys.add_agent)(e)
        need(self.keys.policies, "TRU-1: no genesis")
        for e in self.entries.values():
            if e.kind not in ("policy", "agent"):
                self.keys.check(e)

    def agt2_2_witnesses(self):
        """AGT-2.2, last sentence: AGT-1.3 for the newest policy; refused as AGT-1."""
        newest = self.keys.policies[-1]
        if not self.root.get("witnesses") and "witnesses" in newest.p:
            need(self.witnesses(newest["witnesses"], newest)[0], "AGT-1.3: quorum of the newest policy")

    def agt2_3(self):
        """AGT-2.3: TRU-5b."""
        named = [p for p in self.keys.policies if p.get("ledger_keys")]
        accepted = max([self.root.get("since", -1)] + [p.index for p in self.accepted_policies])
        if named and named[-1].index > accepted:
            need(any(s for k in named[-1]["ledger_keys"] for s in self.head.signed_by(parse_vkey(k))),
                 "AGT-2.3: no new key has signed")

    def agt2_4(self):
        """AGT-2.4: REG-3a."""
        need(all(e["aud"] == self.root["origin"] for e in self.entries.values()), "AGT-2.4: aud")

    def agt2_5(self):
        """AGT-2.5: TRU-3, TRU-4."""
        d = self.d
        self.cited, self.opening = self.keys.policy_below(d.index), self.keys.policy_below(d["incident"])
        need(self.cited and self.cited.named_by(d["policy"]), "TRU-3: the policy in force")
        need(not self.keys.compromised(d), "TRU-4: a compromised key")
        need(self.opening and d["incident"] < d.index, "AGT-2.5: opening")
        self.deadline_max = d.at + self.joined(lambda x: x["windows"]["deadline_max_ms"], min)

    def agt2_6(self):
        """AGT-2.6: INC-7b, RPL-1."""
        exp, deadline = self.d["exp"] * 1000, self.d["deadline_at"]
        need(self.now < exp <= deadline <= self.deadline_max, "AGT-2.6: times")

    def agt2_7(self):
        """AGT-2.7: the signals that the decision rests on."""
        d, self.signals = self.d, self.shown("signal")
        need(self.signals, "AGT-2.7: no signal")
        root = joint_root(len(self.signals), dict(enumerate(e.hash for e in self.signals)), [])
        need(d["signals"]["size"] == len(self.signals) and b64(d["signals"]["root"]) == root,
             "AGT-2.7: signals")
        need(self.signals[-1].index < d["pin"]["size"] <= d.index, "AGT-2.7: pin")
        opening = self.shown("signal", d["incident"])
        need(opening and opening["wid"] == d["wid"], "AGT-2.7: opening signal")
        gone = [x["index"] for x in d["dismissed"]]
        need(ascend(gone) and set(gone) <= {e.index for e in self.signals}, "AGT-2.7: dismissed")
        self.live = [e for e in self.signals if e.index not in gone]

    def agt2_8(self):
        """AGT-2.8: what the decision amends, as shown (self.plans, itself first)."""
        d, self.plans = self.d, [self.d]
        if d["act"] == "authorize":
            need("supersedes" not in d.p, "AGT-2.8: an authorize supersedes")
        else:
            need("supersedes" in d.p and d["incident"] < d["supersedes"]["index"] < d.index, "AGT-2.8: amend")
        while "supersedes" in self.plans[-1].p:
            e = self.plans[-1]
            x = self.shown("decision", e["supersedes"]["index"])
            if not (x and x.named_by(e["supersedes"]) and x.index < e.index
                    and x["act"] in ("authorize", "amend") and x["incident"] == d["incident"]
                    and x.get("supersedes", {"index": -1})["index"] < x.index):
                break
            need(x["epoch"] < d["epoch"], "AGT-2.8: epoch")
            self.plans.append(x)
        need(d["impact"]["members"] == d["rollback_set"]["size"], "AGT-2.8: impact")

    def joined(self, f, join):
        """INC-3: a number of the policy at the opening and of that in force, joined."""
        return join(f(self.cited), f(self.opening))

    def agt2_9(self):
        """AGT-2.9: INC-5, INC-5a, INC-5b: a quorum approved this very proposal."""
        d = self.d
        if not d.get("approvals"):
            return
        votes = [self.shown("approval", i) for i in d["approvals"]]
        need(all(votes), "AGT-2.9: an approval is not shown")
        p = self.proposal = self.shown("decision", votes[0]["proposal"]["index"])
        need(p and p["act"] == "escalate", "AGT-2.9: no proposal")
        involved = ({e["iss"] for e in self.signals} | {p["iss"]}
                    | {m["member"]["agent"] for m in self.b["members"]})
        for v in votes:
            need(v["incident"] == d["incident"] and v["verdict"] == "approve"
                 and p.named_by(v["proposal"]) and p.index < v.index < d.index
                 and self.keys.keys[v.keyid]["index"] < d["incident"]
                 and not self.keys.revoked_below(v.keyid, d.index)
                 and v["iss"] not in involved and v["exp"] * 1000 > d.at, "INC-5: approval %d" % v.index)
        need(len({v["iss"] for v in votes}) == len({v.keyid for v in votes}) == len(votes), "INC-5: twice")
        need(len(votes) >= self.joined(lambda x: x["quorum"]["approve"], max), "INC-5: no quorum")
        need(p["incident"] == d["incident"] and all(
            p[k][x] == d[k][x] for k in ("pin", "signals", "rollback_set") for x in ("size", "root")),
            "AGT-2.9: the proposal is another plan")
        gone, mine = ({x["index"] for x in y["dismissed"]} for y in (p, d))
        need(gone == mine, "AGT-2.9: dismissed")
        need(p["epoch"] == d["epoch"] - (d["act"] == "amend") and p["exp"] * 1000 > d.at, "AGT-2.9: proposal")
        need(not self.keys.compromised(p, d.index), "TRU-4: key of the proposal")

    def agt2_10(self):
        """AGT-2.10: INC-2, without approvals."""
        d, impact = self.d, self.d["impact"]
        if d.get("approvals"):
            return
        votes = set()
        for e in self.shown("decision"):
            if e["act"] != "override" or e["incident"] != d["incident"] or e.index >= d.index:
                continue
            need("operator" not in self.keys.keys[e.keyid]["roles"], "OVR-3: stopped by an operator")
            if not self.keys.revoked_below(e.keyid, d.index):
                votes.add(e["iss"])
        need(len(votes) < self.joined(lambda x: x["quorum"]["override"], max), "OVR-3: stopped by approvers")
        need("coordinator" in self.keys.keys[d.keyid]["roles"], "INC-2: not a coordinator")
        need(all(impact[k] <= self.joined(lambda x: x["limits"]["incident"][k], min)
                 for k in ("members", "agents", "domains")), "INC-2: limits")
        need(impact["irrevocable"] == impact["undeclared"] == 0, "INC-2: irrevocable or undeclared")
        quorum = self.joined(lambda x: x["quorum"]["signalers"], max)
        believed, neighbours = set(), {}
        for e in self.live:
            if e["standing"] in ("upstream", "downstream"):
                neighbours.setdefault(e["subject"], set()).add(e["iss"])
            elif e["subject"].split("#")[0] == e["iss"] if e["standing"] == "executor" else e.get("evidence"):
                believed.add(e["iss"])
        for who in neighbours.values():
            if len(who) >= quorum:
                believed |= who
        need(believed, "INC-2: no signal is believed")
        if impact["domains"] > 1:
            of = [self.keys.newest.get(who, {}).get("domain") for who in believed]
            full = {x for x in of if of.count(x) >= quorum}
            mine = self.keys.newest.get(self.b["agent"], {}).get("domain")
            need(len(full) >= impact["domains"] and mine in full, "INC-2: domains")

    def agt2_11(self):
        """AGT-2.11: RPL-1, epochs."""
        d = self.d
        for k in self.acc.get("epochs") or ():
            if k["incident"] == d["incident"]:
                lapsed = k.get("lapses") and self.now >= k["lapses"] * 1000
                need(d["epoch"] >= (k.get("settled", 0) if lapsed else k["epoch"]), "AGT-2.11: a known epoch")
        for e in self.shown("decision"):
            if e["incident"] == d["incident"] and e["epoch"] > d["epoch"]:
                need(e["act"] == "escalate" and self.now >= e["exp"] * 1000 or self.keys.compromised(e),
                     "AGT-2.11: a shown epoch")

    # -------------------------------------------------------------- AGT-3, the members

    def agt3(self):
        """AGT-3, and AGT-6 where no member was refused."""
        a = self.b["agent"]
        self.own = [m for m in self.b["members"] if m["member"]["agent"] == a]
        self.agt3_1()
        self.agt3_2()
        self.agt3_3()
        self.agt3_4()
        self.chains()
        self.entered, holding = [], []             # what check 5 lets pass, and what checks 5 to 8 do
        for m in self.own:
            x = m["member"]
            try:
                self.agt3_5(x)
                self.entered.append(x)
                self.agt3_6(x)
                self.agt3_7(x)
                need(x["index"] in self.held, "AGT-3.8: chain")
                holding.append(x)
            except Bad:
                self.result[x["exec"]] = "refused"
        self.agt3_9(holding)
        self.agt3_10(holding)
        self.agt3_11()
        for m in self.own:
            self.result.setdefault(m["member"]["exec"], m["member"]["method"])
        if "refused" not in self.result.values():
            self.agt6()

    def agt3_1(self):
        """AGT-3.1: SCO-5."""
        ms, rs = self.b["members"], self.d["rollback_set"]
        known = {m["place"]: leaf_hash(dump(m["member"], sort_keys=True).encode("utf-8")) for m in ms}
        root = joint_root(rs["size"], known, [b64(h) for h in self.b["membership"]])
        need(root == b64(rs["root"]), "SCO-5: membership")
        need(ascend([m["member"]["index"] for m in reversed(ms)]), "AGT-3.1: not descending")
        need(len({m["member"]["exec"] for m in ms}) == len(ms), "AGT-3.1: an execution twice")
        need(self.own and all(m["member"]["exec"].startswith(self.b["agent"] + "#") for m in self.own),
             "AGT-3.1: members of A")

    def agt3_2(self):
        """AGT-3.2: EXE-1.  Also collects executions and checkpoints, as shown."""
        self.runs, self.checkpoints = {}, {e.ref: e for e in reversed(self.shown("checkpoint"))}
        for e in self.shown("execution"):
            first = self.runs.setdefault(e.ref, [e])[0]
            need(all(e[k] == first[k] for k in ("wid", "effect", "parents")), "EXE-1: " + e.ref)
            if e is not first:                    # guess: that it advances (4.8) is part of EXE-1 here
                need(STAGE[self.runs[e.ref][-1]["progress"]] < STAGE[e["progress"]], "EXE-1: progress")
                self.runs[e.ref].append(e)

    def agt3_3(self):
        """AGT-3.3: INC-6, the outcomes."""
        members = {m["member"]["exec"]: m["member"] for m in self.b["members"]}
        self.outcomes = {}
        fits = {"restored": "restore", "compensated": "compensate", "irrevocable": "residual"}
        for e in self.shown("outcome"):
            m, r, d = members.get(e["exec"]), e["decision"], self.d
            need(m and e["incident"] == d["incident"], "INC-6: outcome of no member")
            need(e["exec"] not in self.outcomes, "INC-6: a second outcome")
            need(e["iss"] == m["agent"] or e["result"] == "unknown", "INC-6: outcome by another")
            need(r["index"] < e.index and (d.named_by(r) or d["act"] == "amend" and r["index"] < d.index),
                 "INC-6b: decision of the outcome")
            need(fits.get(e["result"], m["method"]) == m["method"], "INC-6c: result")
            self.outcomes[e["exec"]] = e

    def agt3_4(self):
        """AGT-3.4: INC-6, what an override withheld, and by what it was opened."""
        self.overrides = [e for e in self.shown("decision") if e["act"] == "override"
                          and e["incident"] == self.d["incident"] and e.index < self.d.index]
        for m in self.b["members"]:
            x = m["member"]
            if not (self.overrides and x["agent"] == self.b["agent"] and x["method"] != "none"
                    and x["exec"] not in self.outcomes):
                need("by" not in m, "AGT-3.4: by")
                continue
            e = self.shown("decision", m.get("by", -1))
            need(e and e["incident"] == self.d["incident"] and e.index > x["index"], "AGT-3.4: by")
            need(e in self.overrides or e["act"] in ("authorize", "amend") and e.index <= self.d.index
                 and all(o.index < e.index for o in self.overrides), "AGT-3.4: by")

    def first(self, index):
        """The execution entry at an index if it is the first shown of its execution, and no compensation."""
        e = self.shown("execution", index)
        return e if e and self.runs[e.ref][0] is e and "compensates" not in e.p else None

    def began(self, e):
        """AGT-3.7: the first entry past planned, as shown and, with an effect, not confirmed; or None."""
        x = next((x for x in self.runs[e.ref] if x["progress"] != "planned"), None)
        return x if x and (x["effect"] == "none" or x["progress"] != "confirmed") else None

    def final(self, ref_):
        return next((x for x in self.runs.get(ref_, ()) if x["progress"] in FINAL), None)

    def cancelled(self, e):
        """AGT-3.8: by the first final entry shown."""
        final = self.final(e.ref)
        return bool(final) and final["progress"] == "cancelled"

    def line(self, e):
        """Section 2: agent and workflow, or the agent alone if that is its span."""
        return e["iss"], e["wid"] if self.keys.newest.get(e["iss"], {}).get("span") != "agent" else None

    def agt3_5(self, x):
        """AGT-3.5: the entry at index."""
        e = self.first(x["index"])
        need(e and e.ref == x["exec"] and e.hash64 == x["leaf_hash"], "AGT-3.5: entry")

    def agt3_6(self, x):
        """AGT-3.6: SCO-4."""
        effect, method, final = self.runs[x["exec"]][0]["effect"], x["method"], self.final(x["exec"])
        progress = [e["progress"] for e in self.runs[x["exec"]]]
        need({"restore": effect == "reversible",
              "compensate": effect == "compensable",
              "residual": effect in ("reversible", "irrevocable", "undeclared"),
              "none": effect == "none" or final and final["progress"] != "confirmed",
              "cancel": "started" not in progress and "confirmed" not in progress}.get(method), "SCO-4")

    def agt3_7(self, x):
        """AGT-3.7: SCO-2, the checkpoint of a restore."""
        need(("checkpoint" in x) == (x["method"] == "restore"), "AGT-3.7: checkpoint")
        if x["method"] != "restore":
            return
        e, c, o = self.runs[x["exec"]][0], self.checkpoints.get(x["checkpoint"]), self.outcomes.get(x["exec"])
        need(c and self.line(c) == self.line(e), "AGT-3.7: checkpoint of the line")
        need(self.began(e) and c.index < self.began(e).index, "AGT-3.7: checkpoint too new")
        if o is None:
            need(not c.get("expires_at") or c["expires_at"] > self.now, "AGT-3.7: expired")
        elif o["result"] == "restored":
            need(o["post_digest"] == c["digest"], "INC-6c: digest")

    def chains(self):
        """AGT-3.8: the steps that hold (self.held), from the seeds on."""
        self.steps, self.held, waits, todo = {s["exec"]: s for s in self.b["steps"]}, set(), {}, []
        names = {m["member"].get("checkpoint") for m in self.b["members"]}
        self.named = {s.get("checkpoint") for s in self.b["steps"]} | {
            c.index for c in self.shown("checkpoint") if c.ref in names}
        for s in self.b["steps"]:
            if s["rule"] == "SCO-3":
                todo.append(s)
            else:
                for i in {s["from"], s.get("by", s["from"])}:
                    waits.setdefault(i, []).append(s)
        rules = {"SCO-1": self.sco1, "SCO-2": self.sco2, "SCO-3": self.sco3}
        while todo:
            s = todo.pop()
            e = self.first(s["exec"])
            if e and s["exec"] not in self.held and rules[s["rule"]](s, e):
                self.held.add(s["exec"])
                todo += waits.get(s["exec"], [])

    def sco3(self, s, e):
        """SCO-3: a seed, or in the range of since.  Guess: no profile has tasks."""
        x = self.shown("signal", s["from"])
        if not x or not (x in self.live or any(
                x.index < p["pin"]["size"] and x.index not in [y["index"] for y in p["dismissed"]]
                for p in self.plans[1:])):
            return False
        if x["subject"] == e.ref:
            return True
        subject, since = self.runs.get(x["subject"]), self.runs.get(x.get("since"))
        if not subject or not since or "compensates" in since[0].p:
            return False
        heard = (subject[0]["iss"] == x["iss"] if x["standing"] == "executor"
                 else x["standing"] in ("monitor", "operator") and x.get("evidence"))
        a, z, windows_ = since[0], subject[0], self.keys.policy_below(x.index)["windows"]
        return bool(heard and a.index <= e.index <= z.index and x.at - a.at <= windows_["since_max_ms"]
                    and all((y["iss"], y["wid"]) == (z["iss"], z["wid"]) for y in (a, e)))

    def sco1(self, s, e):
        """SCO-1: from is an older hard parent."""
        f = self.first(s["from"])
        return (s["from"] in self.held and f.index < e.index
                and any((p["exec"], p["dep"]) == (f.ref, "hard") for p in e["parents"]))

    def sco2(self, s, e):
        """SCO-2: the line of e goes back, by from or by `by`."""
        if not {s["from"], s.get("by", s["from"])} <= self.held:
            return False
        f, by, line = self.first(s["from"]), self.first(s.get("by", s["from"])), self.line(e)
        took = [x for x in (f, by) if x["effect"] == "reversible" and not self.cancelled(x)]
        start = self.began(f)
        if (not self.line(f) == self.line(by) == line or ("by" in s) == (f in took) or by not in took
                or not start or not self.began(by)):
            return False
        if "checkpoint" not in s:
            return not any(
                self.line(c) == line and c.index < start.index
                and (not c.get("expires_at") or c["expires_at"] > self.deadline_max)
                and not (self.d["act"] == "amend" and c.index in self.named)
                for c in self.shown("checkpoint"))
        c, mine = self.shown("checkpoint", s["checkpoint"]), self.began(e)
        if not c or self.line(c) != line or c.index >= start.index or not mine or self.cancelled(e):
            return False
        end, covered = self.final(e.ref), self.final(c["after"])
        return bool(mine.index > c.index or c["after"] is None or end is None
                    or covered and end.index > covered.index)

    def agt3_9(self, holding):
        """AGT-3.9: SCO-2, a line restores once; what is refused by checks 6 to 8 still counts."""
        lines = {}
        for x in self.entered:
            o = self.outcomes.get(x["exec"])
            if o is None or o["result"] != "restored":
                lines.setdefault(self.line(self.entries[x["index"]]), []).append(x)
        for xs in lines.values():
            steps = [self.steps[x["index"]] for x in xs if x["index"] in self.steps]
            starts = [self.began(self.entries[x["index"]]) for x in xs]
            for x in xs:
                if x["method"] == "restore" and x in holding:
                    c = self.checkpoints[x["checkpoint"]]
                    if not (all(y.get("checkpoint") == c.ref for y in xs if y["method"] == "restore")
                            and all(s.get("checkpoint") == c.index for s in steps if s["rule"] == "SCO-2")
                            and all(b.index > c.index for b in starts if b)):
                        self.result[x["exec"]] = "refused"

    def agt3_10(self, holding):
        """AGT-3.10: INC-2, without approvals."""
        for x in [] if self.d.get("approvals") else holding:
            need(x["method"] != "residual", "INC-2: residual")
            s = self.steps[x["index"]]
            while x["method"] == "compensate" and s["rule"] != "SCO-3":
                need(s["rule"] == "SCO-1", "INC-2: a compensation by SCO-2")
                s = self.steps[s["from"]]

    def agt3_11(self):
        """AGT-3.11: INC-7, after."""
        comps = {m["place"] for m in self.b["members"] if m["member"]["method"] == "compensate"}
        for m in self.b["members"]:
            need("after" not in m or m["member"]["agent"] == self.b["agent"] and m["place"] in comps
                 and set(m["after"]) <= comps, "AGT-3.11: after")

    def agt6(self):
        """AGT-6: nothing is shown that is not needed."""
        d, reach, todo = self.d, set(), [m["member"]["index"] for m in self.own]
        while todo:
            i = todo.pop()
            if i in self.steps and i not in reach:   # from of SCO-3 is a signal, and no step
                reach.add(i)
                todo += [self.steps[i]["from"], self.steps[i].get("by")]
        need(reach == set(self.steps), "AGT-6: a step")
        asked = {p for m in self.own for p in m.get("after", ())}
        need(all(m["member"]["agent"] == self.b["agent"] or m["place"] in asked
                 for m in self.b["members"]), "AGT-6: a member")
        used = {e.index for e in self.entries.values() if e.kind in ("policy", "agent", "signal", "outcome")
                or e.kind == "decision" and e["incident"] == d["incident"] and not self.keys.compromised(e)}
        used |= {p.index for p in self.plans + self.overrides} | {m["by"] for m in self.own if "by" in m}
        if d.get("approvals"):
            used |= {self.proposal.index, *d["approvals"]}
        used |= self.named
        refs = {m["member"]["exec"] for m in self.b["members"]}
        for s in self.steps.values():
            e, x = self.entries[s["exec"]], self.shown("signal", s["from"])
            refs.add(e.ref)
            if x and x["subject"] != e.ref:
                refs |= {x["subject"], x["since"]}
            if "checkpoint" in s:
                refs.add(self.entries[s["checkpoint"]]["after"])
        for r in refs:
            run = self.runs.get(r, ())
            past = next((x for x in run if x["progress"] != "planned"), None)
            used |= {x.index for x in (run and run[0], past, self.final(r)) if x}
        need(set(self.entries) <= used, "AGT-6: entries %s" % sorted(set(self.entries) - used))


def judge(case):
    """AGT-7: the checks in their order."""
    step = "form"
    try:
        b = read_bundle(case["bundle"])
        step = "AGT-3"
        need(case["accepted"].get("agent", "") in ("", b["agent"]), "the bundle of another agent")
        step = "AGT-1"
        c = Check(case, b)
        for step, checks in c.order():
            for check in checks:
                check()
    except Bad:
        return {"verdict": step, "members": {}}
    return {"verdict": "ok", "members": c.result}


def main(files):
    for f in files:
        with open(f, encoding="utf-8") as h:
            print(json.dumps(judge(json.load(h))))


if __name__ == "__main__":
    main(sys.argv[1:])
