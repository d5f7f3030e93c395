#!/usr/bin/env python3
"""Checks authorization bundles as docs/bundle.md says, for the vectors in
testdata/vectors/bundle.

    bundle.py [vectors/bundle [schemas]]

Shares no code with the Go implementation; JSON, entries, signatures and proofs
are those of check.py. Ends with the number of vectors checked, and fails if one
differs.
"""

import copy
import hashlib
import json
import pathlib
import re
import sys

import check
from check import Refused, hash_leaf, sha256, strict_base64

CHAIN_KINDS = ("policy", "agent")
SKEW_MS = 300_000
MAX_PATH, MAX_NOTE, MAX_LEAF, MAX_ENTRIES, MAX_MEMBERS, MAX_AFTER = 65, 128 << 10, 65535, 8192, 4096, 256
MAX_KEYS, MAX_RETIRED = 8, 64
ED_SPKI = bytes.fromhex("302a300506032b6570032100")  # SubjectPublicKeyInfo of an Ed25519 key, up to the key


class Broken(Exception):
    """A rule does not hold; its text is step and rule."""


def need(condition, *rule):
    if not condition:
        raise Broken(" ".join(dict.fromkeys(rule)))


# --- The one form ------------------------------------------------------------------

SUBJECT = {
    "type": str,
    "value": str,
    "rows?": [{"label": str, "count": int, "root": "hash"}],
    "lists?": [{"label": str, "from": int, "indexes": [int], "path": ["hash"]}],
    "depth": int,
    "other?": {"key": "hash", "record": "hash"},
}
BUNDLE = {
    "agent": str, "decision?": int, "head": str, "from": int, "consistency": ["hash"],
    "entries": [{"index": int, "leaf": "any"}], "inclusion": ["hash"],
    "members": [{
        "place": int,
        "member": {"agent": str, "checkpoint?": str, "exec": str, "index": int, "leaf_hash": "hash", "method": str},
        "after?": [int],
        "by?": int,
    }],
    "membership": ["hash"],
    "steps": [{"exec": int, "rule": str, "from": int, "by?": int, "checkpoint?": int}],
    "index?": int,
    "subjects?": [SUBJECT],
    "prefix?": ["sibling"],
}


def formed(shape, value):
    """Whether a value has exactly the members of a shape, in its order; what may
    be absent is not empty where it stands."""
    if shape == "any":
        return True
    if shape == "hash":
        return isinstance(value, str) and len(value) == 44 and len(strict_base64(value)) == 32
    if shape == "sibling":
        return value == "" or formed("hash", value) and strict_base64(value) != check.NOTHING
    if isinstance(shape, list):
        return isinstance(value, list) and all(formed(shape[0], element) for element in value)
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return False
        names = [name for name in shape if name.rstrip("?") in value]
        if [name.rstrip("?") for name in names] != list(value) or any(n[-1] != "?" and n not in value for n in shape):
            return False
        return all(formed(shape[n], value[n.rstrip("?")]) and (n[-1] != "?" or value[n[:-1]]) for n in names)
    return type(value) is shape and (shape is str or 0 <= value < 2**64)


def plain(text):
    return len(text) <= 257 and re.fullmatch(r'[ !#-\[\]-~]*', text) is not None


def ascends(numbers):
    return all(a < b for a, b in zip(numbers, numbers[1:]))


def check_form(b):
    ok = formed(BUNDLE, b)
    ok = ok and b["agent"] and plain(b["agent"]) and 0 < len(b["head"].encode()) <= MAX_NOTE and len(b["consistency"]) <= MAX_PATH
    need(ok, "form")
    entries, members, steps = b["entries"], b["members"], b["steps"]
    need(len(entries) <= MAX_ENTRIES and len(members) <= MAX_MEMBERS and len(steps) <= MAX_ENTRIES, "form")
    need(len(b["inclusion"]) <= MAX_PATH * (len(entries) + 1) and len(b["membership"]) <= MAX_PATH * len(members), "form")
    need("decision" in b or not members and not steps, "form")
    need("decision" not in b or members, "form")
    need(ascends([e["index"] for e in entries]) and ascends([m["place"] for m in members]) and ascends([s["exec"] for s in steps]), "form")
    need(all(len(dump(e["leaf"])) <= MAX_LEAF for e in entries), "form")
    check_subjects_form(b)
    for m in members:
        after = m.get("after", [])
        need(len(after) <= MAX_AFTER and ascends(after) and all(place < m["place"] for place in after), "form")
        need(all(plain(m["member"].get(name, "")) for name in ("agent", "exec", "checkpoint", "method")), "form")
    for s in steps:
        need(s["rule"] in ("SCO-1", "SCO-2", "SCO-3") and (s["rule"] == "SCO-2" or not ("by" in s or "checkpoint" in s)), "form")


def subject_key(s):
    return sha256(f"arl index/1\n{s['type']}\n{s['value']}".encode())


def check_subjects_form(b):
    need(("index" in b) == ("subjects" in b) and ("index" in b or "prefix" not in b) and ("decision" in b or "index" not in b), "form")
    check_proofs_form(b)


def check_proofs_form(b):
    """The form of what an index says of subjects, in a bundle or a history."""
    subjects = b.get("subjects", [])
    need(len(subjects) <= 1024 and len(b.get("prefix", [])) <= 256 * (len(subjects) + 1), "form")
    need(ascends([subject_key(s) for s in subjects]), "form")
    for s in subjects:
        need(s["type"] in ("workflow", "incident", "task", "agent", "log") and s["depth"] <= 256, "form")
        need(not ("rows" in s and "other" in s), "form")
        counts = {row["label"]: row["count"] for row in s.get("rows", [])}
        need(ascends([run["label"] for run in s.get("lists", [])]), "form")
        for run in s.get("lists", []):
            need(run["indexes"] and run["from"] + len(run["indexes"]) <= counts.get(run["label"], 0) and len(run["path"]) <= 2 * MAX_PATH, "form")


def prefix_answer(s):
    """What a subject says of its place in the tree of the index."""
    answer = {"key": check.text(subject_key(s)), "depth": s["depth"]}
    if "rows" in s:
        answer["leaf"] = {"key": answer["key"], "record": check.text(check.record(s["rows"]))}
    elif "other" in s:
        check.refuse_if(s["other"]["key"] == answer["key"])
        answer["leaf"] = s["other"]
    return answer


def check_runs(s, covered):
    """Proves the lists of a subject by its rows."""
    rows = {row["label"]: row for row in s.get("rows", [])}
    for run in s.get("lists", []):
        row = rows[run["label"]]
        check.refuse_if(run["indexes"][-1] >= covered)
        check.check_run(run["from"], run["indexes"], row["count"], strict_base64(row["root"]), [strict_base64(h) for h in run["path"]])


def dump(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def decode(data):
    """Reads the bytes of a bundle: exactly what writing it again gives."""
    try:
        b = check.strict_json(data) if depth_ok(data) else None
    except Refused:
        raise Broken("form") from None
    need(isinstance(b, dict) and dump(b) == data, "form")
    try:
        check_form(b)
    except Refused:
        raise Broken("form") from None
    return b


def depth_ok(data):
    return data.count(b"[") + data.count(b"{") < 100_000


# --- Trees ---------------------------------------------------------------------------


def joint_root(leaves, size, proof):
    """The root over a tree of which some leaves {index: hash} are known, and the
    largest subtrees without any of them come from the proof, left to right."""
    rest = list(proof)

    def root(first, n, some):
        if not some:
            need(rest, "proof")
            return rest.pop(0)
        if n == 1:
            return leaves[first]
        k = check.split(n)
        return sha256(b"\1", root(first, k, [i for i in some if i < first + k]), root(first + k, n - k, [i for i in some if i >= first + k]))

    need(all(i < size for i in leaves), "proof")
    got = root(0, size, sorted(leaves))
    need(not rest, "proof")
    return got


def included(leaves, size, root, proof):
    try:
        return joint_root(leaves, size, proof) == root
    except Broken:
        return False


def tree_head(hashes):
    """MTH over leaf hashes."""
    if len(hashes) < 2:
        return hashes[0] if hashes else sha256()
    k = check.split(len(hashes))
    return sha256(b"\1", tree_head(hashes[:k]), tree_head(hashes[k:]))


# --- Heads -----------------------------------------------------------------------------


def parse_vkey(text, ed):
    name, keyhash, encoded = text.split("+", 2)
    key = strict_base64(encoded)
    need(hashlib.sha256(name.encode() + b"\n" + key).hexdigest()[:8] == keyhash, "form")
    need(key[0] == ed and len(key) == 33, "form")  # ML-DSA-44 is not checked here
    return name, bytes.fromhex(keyhash), key[1:]


def note_lines(note):
    body, _, signatures = note.rpartition("\n\n")
    need(signatures.endswith("\n"), "AGT-1")
    lines = []
    for line in signatures[:-1].split("\n"):
        match = re.fullmatch("\u2014 ([^ +]+) ([A-Za-z0-9+/=]+)", line)
        need(match, "AGT-1")
        try:
            lines.append((match[1], strict_base64(match[2])))
        except Refused:
            raise Broken("AGT-1") from None
    return body + "\n", lines


def ledger_keys(keys, origin):
    """The Ed25519 keys among verifier keys of a ledger, of which there is one."""
    need(len(keys) <= MAX_KEYS and len(set(keys)) == len(keys), "form")
    found, hashes = [], set()
    for text in keys:
        name, keyhash, encoded = (text.split("+", 2) + ["", ""])[:3]
        try:
            key = strict_base64(encoded)
            need(key and name == origin and hashlib.sha256(name.encode() + b"\n" + key).hexdigest()[:8] == keyhash, "form")
            if key[0] == 1:
                check.parse_public_key(ED_SPKI + key[1:])
                found.append(text)
            else:
                need(key[0] == 6 and len(key) == 1313, "form")
        except Refused:
            raise Broken("form") from None
        need(keyhash not in hashes, "form")
        hashes.add(keyhash)
    need(found, "form")
    return found


def follow(root, chain):
    """The root as the policies of a chain leave it (TRU-5)."""
    root, named = dict(root), None
    for index, policy in chain.policies:
        keys = policy.get("ledger_keys")
        if not keys or keys == named:
            continue
        named = keys
        if index <= root.get("since", 0):
            continue
        before = ledger_keys(root["ledger_keys"], root["origin"])
        retired = root.get("retired", []) + [{"key": key, "size": index} for key in before]
        root["retired"] = [r for r in retired if r["key"] not in keys][-MAX_RETIRED:]
        root["ledger_keys"], root["since"] = keys, index
    return root


def open_head(root, note):
    """Returns (size, root, note) of a head that a key in force at its size has signed."""
    text, lines = note_lines(note)
    signed = re.fullmatch("(?s)[^\n]*\n(0|[1-9][0-9]{0,19})\n.*", text)
    keys = [(key, None) for key in ledger_keys(root["ledger_keys"], root["origin"])]
    keys += [(r["key"], r["size"]) for r in root.get("retired", [])]
    good = False
    for vkey, until in keys:
        name, keyhash, key = parse_vkey(vkey, 1)
        for signer, sig in lines:
            if signer == name and sig[:4] == keyhash:
                need(check.ed_verify(key, text.encode(), sig[4:]), "AGT-1")
                good = good or until is None or signed and int(signed[1]) <= until
    need(good, "AGT-1")
    parts = text[:-1].split("\n")
    need(len(parts) >= 3 and parts[0] == root["origin"] and re.fullmatch("0|[1-9][0-9]*", parts[1]), "AGT-1")
    size = int(parts[1])
    digest = strict_base64(parts[2])
    need(size < 2**64 and len(digest) == 32 and (size or digest == sha256()), "AGT-1")
    return size, digest, note


def quorum_time(policy, note, latest, emergency=False):
    """The time that the quorum's cosignatures are not older than, None without
    one, 0 if none is asked for. With emergency, of the group of that name."""
    text, lines = note_lines(note)
    nodes, root, groups = {}, None, set()
    for line in policy.split("\n"):
        fields = line.split()
        if not fields or fields[0].startswith("#") or fields[0] == "log":
            continue
        if fields[0] == "witness":
            name, keyhash, key = parse_vkey(fields[2], 4)
            times = [
                int.from_bytes(sig[4:12], "big")
                for signer, sig in lines
                if signer == name and sig[:4] == keyhash and len(sig) >= 12 and int.from_bytes(sig[4:12], "big") <= latest
                and check.ed_verify(key, b"cosignature/v1\ntime %d\n%s" % (int.from_bytes(sig[4:12], "big"), text.encode()), sig[12:])
            ]
            nodes[fields[1]] = max(times, default=None)
        elif fields[0] == "group":
            count = {"any": 1, "all": len(fields) - 3}.get(fields[2]) or int(fields[2])
            times = sorted((nodes[m] for m in fields[3:] if nodes[m] is not None), reverse=True)
            nodes[fields[1]] = times[count - 1] if len(times) >= count else None
            groups.add(fields[1])
        elif fields[0] == "quorum":
            root = fields[1]
    if emergency:
        return nodes["emergency"] if "emergency" in groups else None
    need(root == "none" or root in nodes, "AGT-1")  # a policy that names no quorum is none
    return 0 if root == "none" else nodes[root]


# --- The chain of policies and keys (TRU-1 to TRU-4) -------------------------------------

ROLES = {
    "execution": ["agent"], "checkpoint": ["agent"], "approval": ["approver"], "record": ["coordinator", "approver"],
    "attempt": ["engine"], "run": ["engine"], "index": ["coordinator"],
}


def roles_for(kind, body):
    if kind == "signal":
        return [body["standing"]] if body["standing"] in ("monitor", "operator") else ["agent"]
    if kind == "decision":
        return {"override": ["operator", "approver"], "escalate": ["coordinator", "approver", "agent", "monitor", "operator"]}.get(
            body["act"], ["coordinator", "approver"])
    if kind == "outcome":
        return ["agent", "coordinator", "approver"] if body["result"] == "unknown" else ["agent"]
    return ROLES.get(kind, [])


class Chain:
    def __init__(self):
        self.policy, self.in_force, self.keys, self.agents, self.policies, self.links = None, None, {}, {}, [], []

    def copy(self):
        other = Chain()
        other.policy, other.in_force = self.policy, self.in_force
        other.keys = {keyid: dict(key) for keyid, key in self.keys.items()}
        other.agents = {name: dict(agent) for name, agent in self.agents.items()}
        return other

    def signer(self, e):
        """The key that an entry is signed with, if it counts and may sign this."""
        if self.policy is None:
            need(e.kind == "policy", "AGT-2", "TRU-2")
            for a in e.body["authority"]:
                key = check.parse_public_key(strict_base64(a["key"]))
                if a["principal"] == e.body["iss"] and check.keyid_of(key) == e.keyid:
                    return {"key": key, "authority": True, "roles": []}
            raise Broken("AGT-2 TRU-2")
        key = self.keys.get(e.keyid)
        need(key and key["principal"] == e.body["iss"] and key["revoked"] is None, "AGT-2", "TRU-2")
        if key["authority"] and e.kind in CHAIN_KINDS:
            return key
        allowed = roles_for(e.kind, e.body)
        if e.kind == "agent" and e.body["roles"] == ["agent"]:
            allowed = self.policy["roles"].get("agent", [])
        need(any(role in key["roles"] for role in allowed), "AGT-2", "TRU-2")
        return key

    def apply(self, e, signer):
        ok = self._policy(e) if e.kind == "policy" else self._agent(e, signer)
        need(ok, "AGT-2", "TRU-2")
        self.links.append(e.index)

    def _policy(self, e):
        p = e.body
        if self.policy is None:
            ok = e.index == 0 and "previous" not in p
        else:
            ok = p.get("previous") == self.in_force
        ok = ok and self._ledger_keys(p)
        authority = [(check.parse_public_key(strict_base64(a["key"])), a["principal"]) for a in p["authority"]]
        for key, principal in authority:
            known = self.keys.get(check.keyid_of(key))
            ok = ok and not (known and (known["roles"] or known["principal"] != principal))
        for key in self.keys.values():
            if key["authority"]:
                key["authority"], key["revoked"] = False, e.index
        for key, principal in authority:
            known = self.keys.setdefault(check.keyid_of(key), {
                "key": key, "principal": principal, "roles": [], "enrolled": e.index, "compromised": None})
            known["authority"], known["revoked"] = True, None
        self.policy, self.in_force = p, {"index": e.index, "leaf_hash": check.text(e.hash)}
        self.policies.append((e.index, p))
        return ok

    def _ledger_keys(self, p):
        """TRU-5: once named they are always named, and one of them stays."""
        before, keys = self.policy.get("ledger_keys", []) if self.policy else [], p.get("ledger_keys", [])
        if not keys:
            return not before
        try:
            found = ledger_keys(keys, p["aud"])
        except Broken:
            return False
        return not before or any(key in before for key in found)

    def _agent(self, e, signer):
        a, keyid = e.body, check.keyid_of(check.parse_public_key(strict_base64(e.body["key"])))
        known = self.agents.get(a["principal"])
        raised = known and any(self.keys[k]["roles"] != ["agent"] for k in known["keys"])
        raised = raised or a["principal"] in [x["principal"] for x in self.policy["authority"]]
        if raised and not signer["authority"] or known and known["span"] != a["span"]:
            return False
        key = self.keys.get(keyid)
        if a["op"] == "revoke":
            if not key or not key["roles"] or key["principal"] != a["principal"] or key["revoked"] is not None:
                return False
            since = a.get("compromised_since", {}).get("index")
            if since is not None and since > e.index:
                return False
            key["revoked"], key["compromised"] = e.index, since
            return True
        counts = [k for k in known["keys"] if self.keys[k]["revoked"] is None] if known else []
        if key or a["op"] == "rotate" and not counts:
            return False
        if a["op"] == "rotate":
            for k in counts:
                self.keys[k]["revoked"] = e.index
        known = self.agents.setdefault(a["principal"], {"span": a["span"], "keys": []})
        known["keys"].append(keyid)
        known["domain"] = a["domain"]
        self.keys[keyid] = {"key": check.parse_public_key(strict_base64(a["key"])), "principal": a["principal"], "roles": a["roles"],
                            "enrolled": e.index, "revoked": None, "compromised": None, "authority": False}
        return True


# --- Entries ------------------------------------------------------------------------------

SIGNATURES = {}  # what was verified before
LEAVES = {}  # what was decoded before: vectors have most of their entries in common


def decoded(schemas, leaf):
    """Returns the canonical bytes of a leaf and the entry in it."""
    data = dump(leaf)
    if data not in LEAVES:
        if not schemas.accepts("leaf", leaf) or check.canonical(leaf).encode() != data:
            raise Refused("malformed")
        LEAVES[data] = check.Entry(schemas, check.canonical(leaf["envelope"]).encode())
    return data, LEAVES[data]


class Logged:
    """An entry as it stands in the log."""

    def __init__(self, schemas, index, leaf):
        self.index = index
        data, entry = decoded(schemas, leaf)
        self.kind = leaf["envelope"]["payloadType"].removeprefix(check.TYPE_PREFIX).removesuffix(check.TYPE_SUFFIX)
        self.body, self.pae, self.sig, self.keyid = json.loads(entry.payload), entry.pae, entry.sig, entry.keyid
        self.hash, self.at, self.trusted = hash_leaf(data), leaf["registered_at"], False

    def ref(self):
        return {"index": self.index, "leaf_hash": check.text(self.hash)}

    def signed_by(self, key):
        job = (key["key"], self.pae, self.sig)
        if job not in SIGNATURES:
            SIGNATURES[job] = check.verify(*job)
        return SIGNATURES[job]


class Execution:
    """What the bundle shows of an execution."""

    def __init__(self, first):
        self.first, self.body, self.started, self.final = first, first.body, None, None

    @property
    def name(self):
        return self.body["iss"] + "#" + self.body["exec"]

    def begun(self, rule):
        """Index of the first entry past planned."""
        need(self.started, "AGT-3", rule)
        need(not (self.started.body["progress"] == "confirmed" and self.body["effect"] != "none"), "AGT-3", rule)
        return self.started.index

    def outcome(self):
        return self.final.body["progress"] if self.final else None


# --- The check -----------------------------------------------------------------------------


class Check:
    def __init__(self, schemas, accepted, now, bundle):
        self.schemas, self.accepted, self.now, self.b = schemas, accepted, now, bundle
        self.root, self.confirmed, self.used = accepted["root"], accepted["confirmed"], set()
        self.decision_index = bundle.get("decision")

    def run(self):
        need(self.accepted["agent"] in ("", self.b["agent"]), "AGT-3")
        self.head()
        self.entries()
        self.confirmed = self.confirmed or self.witnessed
        if self.decision_index is not None:
            self.find_decision()
        self.rights()
        need(all(e.body["aud"] == self.root["origin"] for e in self.list), "AGT-2")
        self.learn()
        if self.decision_index is None:
            return self.report([])
        self.decision_rules()
        self.scope()
        self.outcomes()
        return self.report(self.members())

    # AGT-1

    def head(self):
        self.size, self.digest, self.note = open_head(self.root, self.b["head"])
        path = [strict_base64(h) for h in self.b["consistency"]]
        if not self.accepted["head"]:
            need(self.b["from"] == 0 and not path, "AGT-1")
        else:
            size, digest, _ = open_head(self.root, self.accepted["head"])
            need(self.size >= size and (self.size != size or self.digest == digest) and self.b["from"] == size, "AGT-1")
            try:
                check.check_consistency(size, self.size, digest, self.digest, path)
            except Refused:
                raise Broken("AGT-1") from None
        self.witnessed = False
        policy = None
        for link in self.accepted["links"]:
            e = Logged(self.schemas, link["index"], link["leaf"])
            policy = e.body if e.kind == "policy" else policy
        first = self.b["entries"][:1]
        if policy is None and first and check.text(hash_leaf(dump(first[0]["leaf"]))) == self.root["genesis"]:
            try:
                policy = Logged(self.schemas, 0, first[0]["leaf"]).body
            except Refused:  # no entry is pinned
                raise Broken("AGT-1") from None
        self.waived = None
        try:
            self.witnesses(policy)
        except Broken:  # WIT-6
            need(policy and not self.root.get("witnesses"), "AGT-1")
            self.witnesses(policy, emergency=True)
            self.waived = policy["witnesses"]

    def witnesses(self, policy, emergency=False):
        text = self.root.get("witnesses") or (policy or {}).get("witnesses")
        if not text:
            return
        at = quorum_time(text, self.note, (self.now + SKEW_MS) // 1000, emergency)
        if at == 0:
            return
        need(policy and at is not None and self.now - at * 1000 <= policy["windows"]["bundle_max_age_ms"], "AGT-1")
        self.witnessed = True

    def entries(self):
        try:
            self.list = [Logged(self.schemas, e["index"], e["leaf"]) for e in self.b["entries"]]
        except Refused:
            raise Broken("AGT-1") from None
        need(all(a.at <= b.at for a, b in zip(self.list, self.list[1:])), "AGT-1")
        self.by_index = {e.index: e for e in self.list}
        proof = [strict_base64(h) for h in self.b["inclusion"]]
        need(included({e.index: e.hash for e in self.list}, self.size, self.digest, proof), "AGT-1")

    # AGT-2

    def find_decision(self):
        self.decided = self.by_index.get(self.decision_index)
        need(self.decided and self.decided.kind == "decision" and self.decided.body["act"] in ("authorize", "amend"), "AGT-2")
        self.d = self.decided.body

    def rights(self):
        self.chain, self.then = Chain(), None
        known = {link["index"]: Logged(self.schemas, link["index"], link["leaf"]) for link in self.accepted["links"]}
        self.links = known
        for e in known.values():
            e.trusted = True
        for index in sorted(known.keys() | self.by_index.keys()):
            if index in known and index in self.by_index:
                need(known[index].hash == self.by_index[index].hash, "AGT-2", "TRU-3")
                self.by_index[index].trusted = True
            e = self.by_index.get(index) or known[index]
            need(index != 0 or check.text(e.hash) == self.root["genesis"], "AGT-2", "TRU-1")
            signer = {"authority": True} if e.trusted else self.chain.signer(e)
            need(e.trusted or e.signed_by(signer), "AGT-2", "TRU-2")
            if index == self.decision_index:
                self.then = self.chain.copy()
            if e.kind in CHAIN_KINDS:
                self.used.add(index)
                self.chain.apply(e, signer)
        need(self.waived is None or self.chain.policy.get("witnesses") != self.waived, "AGT-1")
        self.witnesses(self.chain.policy)
        self.confirmed = self.confirmed or self.witnessed
        before, self.root = self.root, follow(self.root, self.chain)
        if before == self.root:
            return
        try:
            open_head(self.root, self.b["head"])
        except Broken:
            raise Broken("AGT-2 TRU-5") from None

    def void(self, e):
        compromised = self.chain.keys[e.keyid]["compromised"]
        return compromised is not None and compromised <= e.index

    def learn(self):
        """Takes up the epochs of decisions."""
        self.epochs = {e["incident"]: dict(e) for e in self.accepted["epochs"]}
        for e in self.list:
            if e.kind != "decision" or self.void(e):
                continue
            if self.decision_index is not None and e.body["incident"] != self.d["incident"]:
                continue
            self.used.add(e.index)
            incident = e.body["incident"]
            self.epochs[incident] = self.raised(self.epochs.get(incident, {"incident": incident, "epoch": 0}), e.body)

    @staticmethod
    def raised(known, d):
        """The epochs of an incident behind a decision: those of a proposal end with its exp."""
        epoch, lapses = known["epoch"], known.get("lapses", 0)
        settled = known.get("settled", 0) if lapses else epoch
        if d["act"] != "escalate":
            settled = max(settled, d["epoch"])
            if settled >= epoch:
                epoch, lapses = settled, 0
        elif d["epoch"] > epoch:
            epoch, lapses = d["epoch"], d["exp"]
        new = {"incident": known["incident"], "epoch": epoch}
        if lapses:
            new |= ({"settled": settled} if settled else {}) | {"lapses": lapses}
        return new

    def highest(self, incident):
        e = self.epochs[incident]
        return e.get("settled", 0) if e.get("lapses") and e["lapses"] * 1000 <= self.now else e["epoch"]

    def policy_before(self, index):
        return next((p for i, p in reversed(self.chain.policies) if i < index), None)

    def decision_rules(self):
        d, at = self.d, self.decided.at
        self.find_index()
        need(d["policy"] == self.then.in_force, "AGT-2", "TRU-3")
        need(not self.void(self.decided), "AGT-2", "TRU-4")
        opening, current = self.policy_before(d["incident"]), self.policy_before(self.decision_index)
        need(opening and d["incident"] < self.decision_index, "AGT-2", "INC-3")
        self.pair = (opening, current)
        self.deadline_max = self.law(min, "windows", "deadline_max_ms")
        need(d["exp"] * 1000 > self.now and d["deadline_at"] > self.now, "AGT-2")
        need(d["exp"] * 1000 <= d["deadline_at"] <= at + self.deadline_max, "AGT-2", "INC-7")
        self.rests_on()
        self.supersedes()
        need(d["impact"]["members"] == d["rollback_set"]["size"], "AGT-2", "SCO-5")
        self.approved() if d.get("approvals") else self.automatic()
        need(d["epoch"] >= self.highest(d["incident"]) if not self.void(self.decided) else True, "AGT-2")
        self.nothing_left_out()

    # ABS-1 to ABS-4

    def find_index(self):
        self.index, self.tail = None, 2**64
        if "index" not in self.b:
            return
        e = self.by_index.get(self.b["index"])
        need(e and e.kind == "index" and e.body["algorithm"] == "index/1", "AGT-2", "ABS-1")
        need(self.decision_index < e.body["size"] <= e.index and not self.void(e), "AGT-2", "ABS-1")
        self.index, self.tail = e, e.body["size"]
        self.used.add(e.index)

    def nothing_left_out(self):
        if self.index is None:
            need(not self.chain.policy.get("index", {}).get("required"), "AGT-2", "ABS-1")
            return
        try:
            self.check_lists()
        except Refused:
            raise Broken("AGT-2 ABS-1") from None
        for index in range(self.tail, self.size):
            need(index in self.by_index, "AGT-2", "ABS-1")
            self.used.add(index)
        incident = ("incident", str(self.d["incident"]))
        self.answered(incident, ["decision/authorize", "decision/amend", "decision/override", "decision/escalate", "record"], "ABS-2")
        rest = [e for e in self.list if e.kind in ("decision", "approval", "signal", "index") and e.index in self.used]
        signers = {e.body["iss"] for e in rest if e.index <= self.decision_index or e is self.index}
        for name in sorted(signers):
            self.answered(("agent", name), ["agent/revoke", "agent/revoke<", "agent/rotate", "agent/rotate<"], "ABS-3")
        self.answered(("log", ""), ["policy"], "ABS-4")
        need(self.lists.keys() <= {incident, ("log", "")} | {("agent", name) for name in signers}, "AGT-2", "ABS-1")

    def check_lists(self):
        """Proves the lists by the root of the index, and keeps them by subject."""
        self.lists = {(s["type"], s["value"]): s for s in self.b["subjects"]}
        proof = [strict_base64(h) or check.NOTHING for h in self.b.get("prefix", [])]
        check.check_prefix([prefix_answer(s) for s in self.b["subjects"]], strict_base64(self.index.body["root"]), proof)
        for s in self.b["subjects"]:
            check_runs(s, self.tail)

    def answered(self, subject, labels, rule):
        """Everything under a subject with one of the labels is known."""
        need(subject in self.lists, "AGT-2", rule)
        s = self.lists[subject]
        shown = {run["label"]: run for run in s.get("lists", [])}
        for label in labels:
            want = [e.index for e in self.list if e.index >= self.tail and self.is_under(e, subject, label)]
            if any(row["label"] == label for row in s.get("rows", [])):
                run = shown.get(label)
                count = next(row["count"] for row in s["rows"] if row["label"] == label)
                need(run and run["from"] == 0 and len(run["indexes"]) == count, "AGT-2", rule)
                want += run["indexes"]
            for index in want:
                e = self.by_index.get(index) or self.links.get(index)
                need(e and self.is_under(e, subject, label), "AGT-2", rule)
                self.used.add(index)

    def is_under(self, e, subject, label):
        return {"type": subject[0], "value": subject[1], "label": label} in check.listings(e.kind, e.body, e.index)

    def law(self, which, *path):
        values = list(self.pair)
        for name in path:
            values = [v[name] for v in values]
        return which(values)

    def rests_on(self):
        d = self.d
        self.signals = {e.index: e for e in self.list if e.kind == "signal" and e.index < self.tail}
        self.used |= self.signals.keys()
        need(all(index < d["pin"]["size"] for index in self.signals), "AGT-2", "SCO-3")
        hashes = [e.hash for e in self.signals.values()]
        need(d["signals"] == {"size": len(hashes), "root": check.text(tree_head(hashes))}, "AGT-2", "SCO-3")
        need(d["incident"] in self.signals, "AGT-2", "SCO-3")
        need(self.signals[d["incident"]].body["wid"] == d["wid"], "AGT-2")
        need(d["pin"]["size"] <= self.decision_index, "AGT-2", "SCO-5")
        dismissed = [u["index"] for u in d["dismissed"]]
        need(ascends(dismissed) and all(index in self.signals for index in dismissed), "AGT-2", "SCO-3")

    def supersedes(self):
        d = self.d
        if d["act"] == "authorize":
            need("supersedes" not in d, "AGT-2", "INC-6")
        else:
            need("supersedes" in d and d["incident"] < d["supersedes"]["index"] < self.decision_index, "AGT-2", "SCO-5")
        need(all(earlier["epoch"] < d["epoch"] for earlier in self.amended()), "AGT-2", "INC-7")

    def amended(self):
        """The decisions that led to this one, as far as they are shown."""
        found, d, index = [], self.d, self.decision_index
        while "supersedes" in d:
            e = self.by_index.get(d["supersedes"]["index"])
            if not e or e.ref() != d["supersedes"] or e.index >= index or e.kind != "decision":
                break
            if e.body["incident"] != d["incident"] or e.body["act"] not in ("authorize", "amend"):
                break
            if e.body.get("supersedes", {"index": -1})["index"] >= e.index:
                break
            d, index = e.body, e.index
            found.append(d)
        return found

    def approved(self):
        d, rule = self.d, ("AGT-2", "INC-5")
        first = self.by_index.get(d["approvals"][0])
        need(first and first.kind == "approval", *rule)
        proposal = self.by_index.get(first.body["proposal"]["index"])
        need(proposal and proposal.kind == "decision" and proposal.body["act"] == "escalate", *rule)
        need(proposal.ref() == first.body["proposal"] and proposal.index < self.decision_index, *rule)
        p = proposal.body
        need(all(p[name] == d[name] for name in ("incident", "pin", "signals", "rollback_set")), *rule)
        need([u["index"] for u in p["dismissed"]] == [u["index"] for u in d["dismissed"]], *rule)
        need(p["epoch"] + (d["act"] == "amend") == d["epoch"] and p["exp"] * 1000 > self.decided.at, *rule)
        voided_before = self.void(proposal) and self.chain.keys[proposal.keyid]["revoked"] < self.decided.index
        need(not voided_before, *rule)
        self.used.add(proposal.index)
        seen = set()
        for index in d["approvals"]:
            e = self.by_index.get(index)
            need(e and e.kind == "approval", *rule)
            self.used.add(index)
            a, key = e.body, self.then.keys.get(e.keyid)
            need(a["verdict"] == "approve" and a["incident"] == d["incident"] and a["proposal"] == proposal.ref(), *rule)
            need(proposal.index < index < self.decision_index and a["exp"] * 1000 > self.decided.at, *rule)
            need(key and key["revoked"] is None and "approver" in key["roles"] and key["enrolled"] < d["incident"], *rule)
            owners = [m["member"]["agent"] for m in self.b["members"]]
            need(a["iss"] not in [s.body["iss"] for s in self.signals.values()] + [p["iss"]] + owners, *rule)
            need(not {a["iss"], key["key"]} & seen, *rule)
            seen |= {a["iss"], key["key"]}
        need(len(d["approvals"]) >= self.law(max, "quorum", "approve"), *rule)

    def automatic(self):
        impact, rule = self.d["impact"], ("AGT-2", "INC-2")
        need("coordinator" in self.then.keys[self.decided.keyid]["roles"], *rule)
        for name in ("members", "agents", "domains"):
            need(impact[name] <= self.law(min, "limits", "incident", name), *rule)
        need(impact["irrevocable"] + impact["undeclared"] == 0, *rule)
        quorum, alone, others, homes = self.law(max, "quorum", "signalers"), False, {}, {}
        for e in self.signals.values():
            s, standing = e.body, e.body["standing"]
            if e.index in [u["index"] for u in self.d["dismissed"]]:
                continue
            if standing == "executor" and s["subject"].split("#")[0] != s["iss"]:
                continue
            if standing in ("monitor", "operator") and not s.get("evidence"):
                continue
            alone = alone or standing not in ("upstream", "downstream")
            others.setdefault(s["subject"], set()).add(s["iss"])
            homes.setdefault(self.then.agents.get(s["iss"], {}).get("domain", ""), set()).add(s["iss"])
        need(alone or any(len(own) >= quorum for own in others.values()), *rule)
        if impact["domains"] > 1:
            homes = [domain for domain, own in homes.items() if len(own) >= quorum]
            need(len(homes) >= impact["domains"], *rule)
            agent = self.then.agents.get(self.b["agent"])
            need(agent is None or agent["domain"] in homes, *rule)

    # AGT-3

    def scope(self):
        members = self.b["members"]
        indexes = [m["member"]["index"] for m in members]
        need(all(a > b for a, b in zip(indexes, indexes[1:])), "AGT-3", "SCO-5")
        need(len({m["member"]["exec"] for m in members}) == len(members), "AGT-3", "SCO-5")
        leaves = {m["place"]: hash_leaf(check.canonical(m["member"]).encode()) for m in members}
        proof = [strict_base64(h) for h in self.b["membership"]]
        head = self.d["rollback_set"]
        need(included(leaves, head["size"], strict_base64(head["root"]), proof), "AGT-3", "SCO-5")
        need(any(m["member"]["agent"] == self.b["agent"] for m in members), "AGT-3")

    def outcomes(self):
        self.executions = {}
        for e in self.list:
            if e.kind != "execution":
                continue
            x = self.executions.setdefault(e.body["iss"] + "#" + e.body["exec"], Execution(e))
            need(all(e.body[name] == x.body[name] for name in ("wid", "effect", "parents")), "AGT-3", "EXE-1")
            if e.body["progress"] != "planned" and not x.started:
                x.started = e
            if e.body["progress"] in ("confirmed", "failed", "cancelled") and not x.final:
                x.final = e
        self.results, rule = {}, ("AGT-3", "INC-6")
        methods = {m["member"]["exec"]: m["member"]["method"] for m in self.b["members"]}
        for e in self.list:
            if e.kind != "outcome":
                continue
            o = e.body
            if e.index >= self.tail and (o["incident"] != self.d["incident"] or o["exec"] not in methods):
                continue
            need(o["incident"] == self.d["incident"] and o["exec"] in methods and o["exec"] not in self.results, *rule)
            need(o["iss"] == o["exec"].split("#")[0] or o["result"] == "unknown", *rule)
            by = o["decision"]
            need(by["index"] <= self.decision_index and by["index"] < e.index, *rule)
            need(by["index"] != self.decision_index or by == self.decided.ref(), *rule)
            need(by["index"] == self.decision_index or self.d["act"] == "amend", *rule)
            fit = {"restored": "restore", "compensated": "compensate", "irrevocable": "residual"}.get(o["result"])
            need(fit in (None, methods[o["exec"]]), *rule)
            self.results[o["exec"]] = e
            self.used.add(e.index)
        self.overridden(rule)

    def overridden(self, rule):
        """What an override withheld before an amend, and what was opened since."""
        ours = [e for e in self.list if e.kind == "decision" and e.body["incident"] == self.d["incident"]]
        last = max((e.index for e in ours if e.body["act"] == "override" and e.index < self.decision_index), default=None)
        for m in self.b["members"]:
            member = m["member"]
            asked = last is not None and member["agent"] == self.b["agent"] and member["method"] != "none"
            asked = asked and member["exec"] not in self.results
            need(asked == ("by" in m), *rule)
            if not asked:
                continue
            e = self.by_index.get(m["by"])
            need(e in ours and member["index"] < e.index <= self.decision_index, *rule)
            if e.body["act"] == "override":
                self.results[member["exec"]] = e
            else:
                need(e.body["act"] in ("authorize", "amend") and e.index > last, *rule)
            self.used.add(e.index)

    def members(self):
        self.judge_steps()
        own = [m for m in self.b["members"] if m["member"]["agent"] == self.b["agent"]]
        self.refused, self.points, self.of = {}, {}, {}
        for m in own:
            name = m["member"]["exec"]
            need(name.split("#")[0] == self.b["agent"], "AGT-3")
            try:
                self.judge(m["member"])
            except Broken as why:
                self.refused[name] = str(why)
        for m in own:
            self.judge_once(m["member"], own)
        if not self.d.get("approvals"):
            for m in own:
                if m["member"]["exec"] in self.refused:
                    continue
                direct = self.steps[m["member"]["index"]]["direct"]
                need(m["member"]["method"] != "residual" and (m["member"]["method"] != "compensate" or direct), "AGT-3", "INC-2")
        commands = self.commands(own)
        if not self.refused:
            self.placed()
        return commands

    def execution(self, index, rule):
        e = self.by_index.get(index)
        need(e and e.kind == "execution", "AGT-3", rule)
        x = self.executions[e.body["iss"] + "#" + e.body["exec"]]
        need(x.first is e and "compensates" not in e.body, "AGT-3", rule)
        self.use(x)
        return x

    def use(self, x):
        self.used |= {e.index for e in (x.first, x.started, x.final) if e}

    def same_line(self, a, b):
        return a["iss"] == b["iss"] and (a["wid"] == b["wid"] or self.chain.agents[a["iss"]]["span"] == "agent")

    def judge(self, m):
        x = self.execution(m["index"], "AGT-3")
        need(check.text(x.first.hash) == m["leaf_hash"] and x.name == m["exec"], "AGT-3")
        self.of[m["exec"]] = x
        effect, method = x.body["effect"], m["method"]
        suits = {"none": True, "cancel": True, "restore": effect == "reversible", "compensate": effect == "compensable",
                 "residual": effect in ("reversible", "irrevocable", "undeclared")}
        need(suits.get(method, False), "AGT-3", "SCO-4")
        if method == "none":
            need(effect == "none" or x.outcome() in ("failed", "cancelled"), "AGT-3", "SCO-4")
        if method == "cancel":
            need((x.started or x.first).body["progress"] not in ("started", "confirmed"), "AGT-3", "SCO-4")
        need((method == "restore") == ("checkpoint" in m), "AGT-3", "SCO-4")
        if method == "restore":
            self.restore(m, x)
        step = self.steps.get(m["index"])
        need(step, "AGT-3")
        if step["broken"]:
            raise Broken(step["broken"])

    def restore(self, m, x):
        rule = ("AGT-3", "SCO-2")
        point = next((e for e in self.list if e.kind == "checkpoint" and e.index < self.tail and e.body["iss"] + "#" + e.body["checkpoint"] == m["checkpoint"]), None)
        need(point, *rule)
        self.used.add(point.index)
        need(self.same_line(point.body, x.body), *rule)
        need(self.result(m["exec"]) or not 0 < point.body.get("expires_at", 0) <= self.now, *rule)
        need(point.index < x.begun("SCO-2"), *rule)
        need(not self.restored(m["exec"]) or self.results[m["exec"]].body["post_digest"] == point.body["digest"], *rule)
        self.points[m["exec"]] = point

    def result(self, name):
        return self.results[name].body.get("result", "withheld") if name in self.results else None

    def restored(self, name):
        return self.result(name) == "restored"

    def judge_once(self, m, own):
        name = m["exec"]
        if m["method"] != "restore" or name in self.refused or self.restored(name):
            return
        point = self.points[name]
        for other in (o["member"] for o in own):
            x = self.of.get(other["exec"])
            if not x or self.restored(other["exec"]) or not self.same_line(x.body, self.of[name].body):
                continue
            step = self.steps.get(other["index"])
            try:
                ok = x.begun("") > point.index
            except Broken:
                ok = True
            if other["method"] == "restore" and other.get("checkpoint") != m["checkpoint"]:
                ok = False
            if step and step["rule"] == "SCO-2" and step.get("checkpoint", 0) != point.index:
                ok = False
            if not ok:
                self.refused[name] = "AGT-3 SCO-2"

    # The chains

    def judge_steps(self):
        self.steps = {s["exec"]: dict(s, state="new", broken=None, direct=False) for s in self.b["steps"]}
        for s in self.steps.values():
            self.judge_step(s)

    def judge_step(self, s):
        if s["state"] == "new":
            s["state"] = "begun"
            try:
                self.step(s)
            except Broken as why:
                s["broken"] = str(why)
            s["state"] = "done"

    def reached(self, index, rule):
        s = self.steps.get(index)
        need(s, "AGT-3", rule)
        self.judge_step(s)
        need(s["state"] == "done", "AGT-3", rule)
        if s["broken"]:
            raise Broken(s["broken"])
        return self.execution(index, rule)

    def step(self, s):
        rule = s["rule"]
        x = self.execution(s["exec"], rule)
        if rule == "SCO-3":
            s["direct"] = True
            return self.seed(s["from"], x)
        origin = self.reached(s["from"], rule)
        if rule == "SCO-1":
            s["direct"] = self.steps[s["from"]]["direct"]
            edge = {"exec": origin.name, "dep": "hard"}
            need(edge in x.body["parents"] and origin.first.index < x.first.index, "AGT-3", rule)
            return None
        return self.line(s, origin, x)

    def seed(self, index, x):
        rule = ("AGT-3", "SCO-3")
        e = self.signals.get(index)
        need(e, *rule)
        believed = [self.d] + [a for a in self.amended() if index < a["pin"]["size"]]
        need(any(index not in [u["index"] for u in d["dismissed"]] for d in believed), *rule)
        s = e.body
        if s["subject"] in (x.name, x.body.get("task")):
            return
        need("since" in s, *rule)
        first, last = self.executions.get(s["since"]), self.executions.get(s["subject"])
        need(first and last, *rule)
        self.use(first)
        self.use(last)
        third = s["standing"] in ("monitor", "operator") and s.get("evidence")
        need(third or s["standing"] == "executor" and s["iss"] == last.body["iss"], *rule)
        need(all(y.body[name] == last.body[name] for y in (first, x) for name in ("iss", "wid")), *rule)
        need(first.first.index <= x.first.index <= last.first.index, *rule)
        need(e.at - first.first.at <= self.policy_before(e.index)["windows"]["since_max_ms"], *rule)

    def line(self, s, origin, x):
        rule = ("AGT-3", "SCO-2")
        need(self.same_line(origin.body, x.body), *rule)
        by = self.reached(s["by"], "SCO-2") if "by" in s else origin
        takes = origin.body["effect"] == "reversible" and origin.outcome() != "cancelled"
        need("by" not in s or not takes, *rule)
        need(by.body["effect"] == "reversible" and by.outcome() != "cancelled" and self.same_line(by.body, x.body), *rule)
        by.begun("SCO-2")
        if "checkpoint" not in s:
            usable = self.decided.at + self.deadline_max
            before = origin.begun("SCO-2")
            for e in self.list:
                shown = e.kind == "checkpoint" and e.index < min(before, self.tail) and self.same_line(e.body, origin.body) and not self.went_back(e)
                need(not shown or 0 < e.body.get("expires_at", 0) <= usable, *rule)
            return
        point = self.by_index.get(s["checkpoint"])
        need(point and point.kind == "checkpoint", *rule)
        self.used.add(point.index)
        need(self.same_line(point.body, x.body) and point.index < origin.begun("SCO-2"), *rule)
        begun = x.begun("SCO-2")
        need(x.outcome() != "cancelled", *rule)
        if begun > point.index or point.body["after"] is None or not x.final:
            return
        covered = self.executions.get(point.body["after"])
        need(covered and covered.final, *rule)
        self.use(covered)
        need(x.final.index > covered.final.index, *rule)

    def went_back(self, e):
        ref = e.body["iss"] + "#" + e.body["checkpoint"]
        return self.d["act"] == "amend" and (any(s.get("checkpoint") == e.index for s in self.b["steps"])
                                                    or any(m["member"].get("checkpoint") == ref for m in self.b["members"]))

    # Commands

    def commands(self, own):
        by_place = {m["place"]: m["member"] for m in self.b["members"]}
        self.asked, commands = set(), []
        for m in self.b["members"]:
            member, waits = m["member"], []
            mine = member["agent"] == self.b["agent"]
            if m.get("after"):
                need(mine and member["method"] == "compensate", "AGT-3", "INC-7")
            for place in m.get("after", []):
                other = by_place.get(place)
                need(other and other["method"] == "compensate", "AGT-3", "INC-7")
                self.asked.add(other["exec"])
                if other["exec"] not in self.results:
                    waits.append(other["exec"])
            if not mine:
                continue
            command = {"exec": member["exec"], "method": member["method"], "released": False}
            if member["exec"] in self.results:
                command["result"] = self.result(member["exec"])
            if member["exec"] in self.refused:
                command["refused"] = self.refused[member["exec"]]
                commands.append(command)
                continue
            mates = self.mates(member, own)
            if member["method"] == "restore":
                command["digest"] = self.points[member["exec"]].body["digest"]
                waits += [o["exec"] for o in mates if o["method"] == "compensate" and o["exec"] not in self.results]
            if waits:
                command["waits"] = waits
            command["released"] = not waits
            standing = [o["exec"] for o in reversed(mates) if self.stands(o)]
            if member["method"] == "restore" and not waits and standing:
                command["standing"] = standing
            commands.append(command)
        return commands

    def mates(self, member, own):
        line = self.of[member["exec"]].body
        others = [o["member"] for o in own if o["member"] is not member and o["member"]["exec"] in self.of]
        return [o for o in others if self.same_line(self.of[o["exec"]].body, line)]

    def stands(self, m):
        return m["method"] in ("residual", "compensate") and self.result(m["exec"]) not in ("compensated", "not_executed")

    def placed(self):
        for m in self.b["members"]:
            need(m["member"]["agent"] == self.b["agent"] or m["member"]["exec"] in self.asked, "AGT-3")
        led, todo = set(), [m["member"]["index"] for m in self.b["members"] if m["member"]["agent"] == self.b["agent"]]
        while todo:
            s = self.steps[todo.pop()]
            if s["exec"] not in led:
                led.add(s["exec"])
                todo += [s["by"]] if "by" in s else []
                todo += [s["from"]] if s["rule"] != "SCO-3" else []
        need(led == self.steps.keys() and self.by_index.keys() <= self.used, "AGT-3")

    def report(self, commands):
        incident = self.d["incident"] if self.decision_index is not None else 0
        expires = min(self.d["exp"] * 1000, self.d["deadline_at"]) if self.decision_index is not None else 0
        epochs = [e for _, e in sorted(self.epochs.items())]
        return {"confirmed": self.confirmed, "incident": incident, "expires_at": expires, "commands": commands,
                "links": self.chain.links, "epochs": epochs} | ({"since": self.root["since"]} if self.root.get("since") else {})


# --- Vectors ---------------------------------------------------------------------------------


def patched(value, operations):
    """JSON Patch (RFC 6902): add, remove, replace."""
    for operation in operations:
        *parents, last = operation["path"].split("/")[1:]
        node = value
        for token in parents:
            node = node[int(token) if isinstance(node, list) else token]
        if isinstance(node, list):
            last = int(last)
        if operation["op"] == "remove":
            del node[last]
        elif operation["op"] == "add" and isinstance(node, list):
            node.insert(last, copy.deepcopy(operation["value"]))
        else:
            node[last] = copy.deepcopy(operation["value"])
    return value


def case_of(vectors, v):
    if "case" in v:
        return json.loads(json.dumps(v["case"]))
    return patched(case_of(vectors, vectors[v["like"]]), v.get("patch", []))


def ordered(shape, value):
    """A value with its members in the order of a shape, as the bundle was written."""
    if isinstance(shape, list) and isinstance(value, list):
        return [ordered(shape[0], element) for element in value]
    if isinstance(shape, dict) and isinstance(value, dict):
        known = {name.rstrip("?"): shape[name] for name in shape}
        return {name: ordered(known[name], value[name]) for name in known if name in value} | {n: value[n] for n in value if n not in known}
    if shape == "any":
        return json.loads(check.canonical(value))
    return value


def run_folder(folder, judge):
    """Judges the vectors of a folder, and returns the exit code. judge takes a case."""
    vectors = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))}
    wrong = refused = 0
    for name, v in vectors.items():
        try:
            problem, got = "", judge(case_of(vectors, v))
        except Broken as verdict:
            problem, got = str(verdict), None
        refused += problem != ""
        if problem != v["wantErr"] or got != v.get("want"):
            wrong += 1
            print(f"{name}: {v['desc']}: got {problem!r} {got}, want {v['wantErr']!r} {v.get('want')}")
    print(f"{len(vectors)} vectors checked, {refused} of them refused, {wrong} wrong")
    return 1 if wrong or not vectors else 0


def run(schemas, case):
    bundle = case["bundle"]
    data = bundle.encode() if isinstance(bundle, str) else dump(ordered(BUNDLE, bundle))
    return Check(schemas, case["accepted"], case["now"], decode(data)).run()


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root / "testdata/vectors/bundle"
    schemas = check.Schemas(pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else root / "ledger/entry/schema")
    return run_folder(folder, lambda case: run(schemas, case))


if __name__ == "__main__":
    sys.exit(main())
