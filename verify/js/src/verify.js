// @ts-check
/** The eight steps of a verification (docs/verify.md). */
import { ForkError, FormatError, IndexError, Refusal, StepError, STEPS } from "./errors.js";
import { Chain, plain } from "./chain.js";
import { decodeEnvelope, decodeLeaf, sameRef } from "./entry.js";
import { Signatures } from "./key.js";
import { checkConsistency, checkInclusion, checkInclusions, hashLeaf, parseHash } from "./merkle.js";
import { follow, Opener } from "./root.js";
import { answer, checkIndexed, contradicts, FOLLOWS, questionsOf } from "./history.js";

/**
 * @typedef {import("./merkle.js").Uint} Uint
 * @typedef {import("./root.js").SignedHead} SignedHead
 * @typedef {import("./entry.js").Registered & {head: SignedHead, signed: boolean}} Proven
 * @typedef {{step: number, name: string, count: number}} Checked
 * @typedef {{step: number, name: string, what: string, give: string}} Gap
 * @typedef {{principal: string, jti: string, index: Uint}} Equivocation
 * @typedef {{index: Uint, kind: string, iss: string, registered_at: number, signed: boolean, body: any}} ReportEntry
 * @typedef {{entries: ReportEntry[], heads: import("./merkle.js").Head[], equivocations: Equivocation[], answers: import("./history.js").Answer[], checked: Checked[],
 *   missing: Gap[], not_checked: string[], warnings: string[]}} Report
 */

/** @type {(a: Uint, b: Uint) => number} */
const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

/** @param {SignedHead} a @param {SignedHead} b @throws {ForkError} */
export function checkFork(a, b) {
  if (a.size === b.size && a.root !== b.root) throw new ForkError(a.note, b.note, `two signed roots of size ${a.size}`);
}

/** @param {string[]} path */
export const hashes = (path) => path.map((h) => /** @type {Uint8Array} */ (parseHash(h)));

/** One verification. */
class Run {
  /**
   * @param {Opener} opener
   * @param {import("./material.js").Material} material
   * @param {Signatures} signatures
   */
  constructor(opener, material, signatures) {
    this.opener = opener;
    this.m = material;
    this.signatures = signatures;
    /** @type {Map<string, SignedHead>} by its note */
    this.opened = new Map();
    /** @type {Map<Uint, SignedHead>} */
    this.bySize = new Map();
    /** @type {SignedHead | null} the head that the root carries */
    this.seen = null;
    /** @type {Map<Uint, Uint[]>} sizes of the heads that a proof shows to begin that of a size */
    this.older = new Map();
    /** @type {Set<Uint>} sizes of the heads that proofs connect with the newest */
    this.joined = new Set();
    /** @type {Uint} */
    this.newest = 0;
    /** @type {Proven[]} */
    this.proven = [];
    this.chain = new Chain();
    /** @type {Proven[]} entries, each once */
    this.listed = [];
    /** @type {Map<number, number>} */
    this.count = new Map();
    /** @type {Report} */
    this.out = { entries: [], heads: [], equivocations: [], answers: [], checked: [], missing: [], not_checked: [], warnings: [] };
  }

  /** @param {number} step @param {string} what @param {string} give */
  missing(step, what, give) {
    this.out.missing.push({ step, name: /** @type {string} */ (STEPS[step]), what, give });
  }

  verify() {
    this.heads();
    this.consistency();
    this.witnesses();
    this.entries();
    this.rights();
    this.ledgerKeys();
    this.histories();
    for (const e of this.m.evidence) this.evidence(e);
    this.report();
    return this.out;
  }

  // Step 1

  heads() {
    const { head } = this.opener.root;
    if (head) this.seen = this.accepted(head);
    const notes = [...this.m.heads, ...[...this.m.receipts, ...this.m.proofs, ...this.m.histories].map((r) => r.head)];
    if (!notes.length) throw new FormatError("material", "nothing to verify");
    for (const note of notes) if (!this.opened.has(note)) this.opened.set(note, this.opener.open(note, this.signatures));
    this.count.set(1, this.opened.size);
  }

  /** @param {string} note the head that the root carries, which is one by the root itself */
  accepted(note) {
    try {
      return this.opener.open(note, this.signatures);
    } catch (error) {
      throw error instanceof StepError ? new FormatError("root", `head: ${error.message}`) : error;
    }
  }

  // Step 2

  consistency() {
    for (const head of this.opened.values()) {
      const same = this.bySize.get(head.size);
      if (same) checkFork(same, head);
      else this.bySize.set(head.size, head);
    }
    const same = this.seen && this.bySize.get(this.seen.size);
    if (this.seen && same) checkFork(this.seen, same);
    for (const { old, new: newer, path } of [...this.m.consistency, ...this.forks()]) {
      const [a, b] = [this.end(old), this.end(newer)];
      if (!a || !b) {
        this.missing(2, `that the proof from size ${old} to size ${newer} is about this log`, `a tree head of size ${a ? newer : old}`);
        continue;
      }
      if (!checkConsistency(a, b, hashes(path))) throw new StepError(2, `heads of size ${old} and ${newer}`, "the proof does not verify");
      this.older.set(newer, [...(this.older.get(newer) ?? []), old]);
    }
    const sizes = [...this.bySize.keys()].sort(compare);
    this.newest = /** @type {Uint} */ (sizes.at(-1));
    this.joined = this.begins(this.newest);
    const count = [...this.opened.values()].filter((head) => this.joined.has(head.size)).length;
    if (count > 1) this.count.set(2, count);
    for (const size of sizes) {
      const head = /** @type {SignedHead} */ (this.bySize.get(size));
      this.out.heads.push({ size, root: head.root });
      if (!this.joined.has(size)) this.missing(2, `that the log of size ${size} is the beginning of that of size ${this.newest}`, `the consistency proof from size ${size} to size ${this.newest}`);
    }
  }

  /** @param {Uint} size */
  end(size) {
    return this.bySize.get(size) ?? (this.seen?.size === size ? this.seen : undefined);
  }

  /** Proofs of evidence that is no fork. */
  forks() {
    const found = [];
    for (const e of this.m.evidence) {
      if (e.evidence !== "fork") continue;
      const [a, b] = [e.older, e.newer].map((note = "") => this.opened.get(note));
      const one = !a || !b || a.size === b.size;
      if (one) this.missing(2, "that it is a fork", "the other head");
      if (one || e.root === undefined) continue;
      const path = e.path ?? [];
      if (!checkConsistency({ size: a.size, root: e.root }, b, hashes(path))) throw new StepError(2, "evidence", "the proof does not verify");
      if (a.root !== e.root) throw new ForkError(a.note, b.note, `the tree of size ${b.size} began otherwise than signed at size ${a.size}`);
      found.push({ old: a.size, new: b.size, path });
    }
    return found;
  }

  /** @param {Uint} size @returns {Set<Uint>} sizes whose heads are known to begin the log of a size */
  begins(size) {
    const reached = new Set([size, /** @type {Uint} */ (0)]);
    for (const at of reached) for (const older of this.older.get(at) ?? []) reached.add(older);
    return reached;
  }

  // Step 1: witnesses

  witnesses() {
    const { quorum } = this.opener;
    if (!quorum) return;
    /** @type {Set<Uint>} */
    const seen = new Set();
    for (const [note, head] of this.opened) {
      if (quorum.since(note, Infinity, this.signatures) === null) continue;
      for (const size of this.begins(head.size)) seen.add(size);
    }
    for (const size of [...this.bySize.keys()].sort(compare)) {
      if (!seen.has(size)) this.missing(1, `that quorum ${quorum.name}, which the root names, has cosigned the tree head of size ${size}`, "that head with their cosignatures, or a larger one that has them, and the consistency proof between the two");
    }
  }

  // Steps 3 and 4

  entries() {
    const receipts = [...this.m.receipts];
    const used = new Set();
    for (const proof of this.m.proofs) {
      if (!this.m.leaves.length) {
        this.missing(4, `that the .tlog-proof of entry ${proof.index} proves anything`, "the file of its leaf");
        continue;
      }
      const leaf = this.m.leaves.find((one) => this.includes(proof, hashLeaf(one)));
      if (!leaf) throw new StepError(4, `entry ${proof.index}`, "no leaf that is given is the one of the .tlog-proof");
      used.add(leaf);
      receipts.push({ ...proof, leaf });
    }
    for (const [i, leaf] of this.m.leaves.entries()) if (!used.has(leaf)) this.missing(4, `that leaf ${i + 1} of those given is in the log`, "its .tlog-proof");
    for (const r of receipts) {
      const what = `entry ${r.index}`;
      let entry;
      try {
        entry = decoded(r.index, r.leaf, r.leaf);
      } catch (error) {
        throw error instanceof Refusal ? new StepError(3, what, error.message) : error;
      }
      if (!this.includes(r, entry.hash)) throw new StepError(4, what, "not at this index in the tree of its head");
      this.proven.push({ ...entry, head: this.headOf(r), signed: false });
    }
    for (const h of this.m.histories) this.historyEntries(h);
    this.count.set(3, this.proven.length).set(4, this.proven.length);
  }

  /** @param {import("./history.js").History} h */
  historyEntries(h) {
    const head = /** @type {SignedHead} */ (this.opened.get(h.head));
    const entries = h.entries.map((e) => {
      try {
        return decoded(e.index, e.leaf, e);
      } catch (error) {
        throw error instanceof Refusal ? new StepError(3, `entry ${e.index}`, error.message) : error;
      }
    });
    for (const entry of entries) this.proven.push({ ...entry, head, signed: false });
    if (!checkInclusions(entries, head, hashes(h.inclusion))) throw new StepError(4, "entries of a history", "not in the tree of its head");
  }

  // Steps 9 to 15

  histories() {
    const { histories, questions } = this.m;
    const open = new Set(questions);
    for (const h of histories) this.history(h, questions, open);
    const [left] = open;
    if (left) throw new StepError(13, `${left.type}:${left.value}`, "no history is given that is about it");
    if (!histories.length) return;
    this.out.not_checked.push(FOLLOWS);
    if (!questions.length) this.out.not_checked.push("that the history is about what you want to know: nobody asked");
  }

  /**
   * @param {import("./history.js").History} h
   * @param {import("./history.js").Question[]} questions
   * @param {Set<import("./history.js").Question>} open those that no history has answered
   */
  history(h, questions, open) {
    const given = new Set(h.entries.map((e) => e.index));
    const byIndex = new Map(this.listed.map((e) => [e.index, e]));
    const entryAt = (/** @type {Uint} */ index) => (given.has(index) ? byIndex.get(index) : undefined);
    const fail = (/** @type {string} */ why) => new StepError(9, `entry ${h.index}`, why);
    const tally = (/** @type {number} */ step, /** @type {number} */ n) => void this.count.set(step, (this.count.get(step) ?? 0) + n);
    const e = entryAt(h.index);
    if (!e) throw fail("the index entry is left out");
    if (e.kind !== "index") throw fail(`of kind ${e.kind}, want index`);
    if (e.body.size > h.index) throw fail("it covers more entries than stand before it");
    if (e.signed) tally(9, 1);
    else this.missing(9, `that the index entry at ${h.index} is by a coordinator`, "the policies and agent entries that let its signer in");
    const lists = checkIndexed(h, e.body);
    tally(10, h.subjects.length);
    tally(11, h.subjects.length);
    tally(12, lists);
    if (h.size > /** @type {SignedHead} */ (this.opened.get(h.head)).size) throw new StepError(13, "history", "it claims something about more entries than its head has");
    this.contradiction(h, e.body.size);
    const asked = [...open].filter((q) => h.subjects.some((s) => s.type === q.type && s.value === q.value));
    for (const q of asked) open.delete(q);
    let tail = 0;
    for (const q of questions.length ? asked : h.subjects.flatMap((s) => questionsOf(s, h.size))) {
      const { from = 0, size } = q;
      const until = size || h.size;
      if (until > h.size) throw new StepError(13, `${q.type}:${q.value}`, `asked about the first ${until} entries, and the history ends at ${h.size}`);
      const a = answer(h, e.body.size, { ...q, from, size: until }, entryAt);
      this.out.answers.push(a);
      tally(13, 1);
      tally(14, a.entries.length - a.tail);
      tail = Math.max(tail, Number(until) - Math.min(Number(until), Math.max(e.body.size, Number(from))));
    }
    tally(15, tail);
  }

  /**
   * An entry given, in the history or beside it, shows that the index is false.
   *
   * @param {import("./history.js").History} h
   * @param {Uint} covered
   */
  contradiction(h, covered) {
    if (!this.joined.has(/** @type {SignedHead} */ (this.opened.get(h.head)).size)) return;
    const found = this.proven.find((p) => p.index < covered && this.joined.has(p.head.size) && contradicts(h, p));
    if (found) throw new IndexError(14, `entry ${found.index}`, "its list contradicts it: the index is false");
  }

  /** @param {import("./material.js").Receipt} r */
  headOf(r) {
    return /** @type {SignedHead} */ (this.opened.get(r.head));
  }

  /** @param {import("./material.js").Receipt} r @param {Uint8Array} leaf */
  includes(r, leaf) {
    return checkInclusion(r.index, leaf, this.headOf(r), hashes(r.proof));
  }

  // Steps 5 to 8. What is false is false under any head. What counts stands under
  // heads that are proven to be of one log: so it is judged twice where some are
  // not.

  rights() {
    this.proven.sort((a, b) => compare(a.index, b.index));
    let judged = new Judging(this, this.proven);
    const joined = this.proven.filter((p) => this.joined.has(p.head.size));
    if (joined.length < this.proven.length) judged = new Judging(this, joined);
    this.chain = judged.chain;
    this.out.missing.push(...judged.missing);
    for (const [step, count] of judged.count) this.count.set(step, count);
    const there = new Set(judged.entries.map((e) => e.index));
    const apart = this.proven.filter((p) => !there.has(p.index) && there.add(p.index));
    if (apart.length) this.missing(7, `signer and signature of ${apart.length} entries under tree heads that nothing connects with the newest`, "the consistency proofs that are missing");
    this.listed = [...judged.entries, ...apart].sort((a, b) => compare(a.index, b.index));
  }

  /** Heads, again, where the policies given name the keys that sign them (TRU-5). */
  ledgerKeys() {
    const root = follow(this.opener.root, this.chain);
    if (root === this.opener.root) return;
    const opener = new Opener(root);
    for (const note of this.opened.keys()) opener.open(note, this.signatures);
  }

  /** @param {import("./material.js").Evidence} e */
  evidence(e) {
    const index = e.receipts?.[0]?.index;
    if (e.evidence === "entry") this.out.not_checked.push(`that entry ${index} should not be in the log: that follows from the whole log (arl log audit)`);
    if (e.evidence === "index") this.falseIndex(e);
    if (e.evidence !== "equivocation") return;
    const fail = (/** @type {number} */ step, /** @type {string} */ why) => new StepError(step, `the envelope beside entry ${index}`, why);
    let object;
    try {
      object = decodeEnvelope(e.envelope ?? "");
    } catch (error) {
      throw error instanceof Refusal ? fail(3, error.message) : error;
    }
    const one = /** @type {Proven} */ (this.listed.find((p) => p.index === index));
    const { iss, jti } = object.body;
    if (iss !== one.body.iss || jti !== one.body.jti) throw fail(3, "two ids are no equivocation");
    if (object.pae === one.pae) throw fail(3, "it says what the entry says, byte for byte");
    const known = this.chain.keys.get(object.keyid);
    if (!known || !one.signed) {
      this.missing(7, `who signed the envelope beside entry ${index}`, `the receipt of the agent entry that enrols the key ${object.keyid} for ${iss}`);
      return;
    }
    if (known.principal !== iss) throw fail(7, `its key is enrolled for ${known.principal}, not for ${iss}`);
    if (!this.signatures.good(known.key, object.pae, object.sig, e)) throw fail(8, "does not verify");
    this.out.equivocations.push({ principal: iss, jti, index: one.index });
  }

  /** @param {import("./material.js").Evidence} e */
  falseIndex(e) {
    if (e.history) {
      if (this.out.missing.some((gap) => gap.step === 2)) return;
      throw new StepError(14, "evidence of a false index", "no entry given contradicts its history");
    }
    const index = e.receipts?.[0]?.index;
    const { kind, body } = /** @type {Proven} */ (this.listed.find((p) => p.index === index));
    const fail = (/** @type {string} */ why) => new StepError(9, `entry ${index}`, why);
    if (kind !== "index") throw fail(`of kind ${kind}, want index`);
    if (body.root === e.root && body.subjects === (e.subjects ?? 0)) throw fail("it says what the evidence says");
    this.out.not_checked.push(`that the first ${body.size} entries give another root than entry ${index} says: that follows from these entries (arl log audit)`);
  }

  report() {
    const { out } = this;
    for (const [step, name] of STEPS.entries()) {
      const count = this.count.get(step) ?? 0;
      if (count > 0) out.checked.push({ step, name, count });
    }
    const { listed } = this;
    out.entries = listed.map((e) => ({ index: e.index, kind: e.kind, iss: e.body.iss, registered_at: e.at, signed: e.signed, body: e.body }));
    const heads = [...this.opened.values()];
    const second = heads.filter((head) => head.unverified).length;
    if (second < heads.length && this.opener.seconds.length) out.not_checked.push(`an ML-DSA-44 signature: there is none on ${heads.length - second} tree heads`);
    if (second) out.not_checked.push(`the ML-DSA-44 signature on ${second} tree heads: no verifier for it is here`);
    if (heads.some((head) => head.extended)) out.not_checked.push("extension lines on tree heads");
    for (const e of listed) {
      const key = this.chain.keys.get(e.keyid);
      if (key && key.compromised !== null && key.compromised <= e.index) out.warnings.push(`entry ${e.index}: its key ${e.keyid} was revoked at ${key.revoked} as compromised since ${key.compromised}`);
    }
    for (const key of this.chain.policy?.ledger_keys ?? []) {
      if (!this.opener.root.ledger_keys.includes(key)) out.warnings.push(`the policy at ${this.chain.inForce.index} names a ledger key that is not pinned: ${key.slice(0, 140)}`);
    }
    this.absences(listed.length);
  }

  /** @param {number} entries */
  absences(entries) {
    const say = (/** @type {string} */ what) => void this.out.not_checked.push(what);
    const { seen, newest } = this;
    if (seen && !this.joined.has(seen.size) && !this.begins(seen.size).has(newest)) say(`that the tree head of size ${newest} is of one log with that of size ${seen.size}, which was accepted before: a consistency proof between the two shows it`);
    if (!this.opener.quorum) say("witnesses: the root names none, so that a fork shown to nobody else stays unseen");
    if (!entries) return;
    say("absences: a revocation, a policy or any other entry that was not given");
    say("the state machine: references, windows and quotas need the whole log (arl log audit)");
    say("registered_at: it is the ledger's word");
  }
}

/** Entries that were decoded in an earlier pass. @type {WeakMap<object, import("./entry.js").Registered>} */
const entriesOf = new WeakMap();

/** @param {Uint} index @param {string | Uint8Array} leaf @param {object} of what stays the same @throws {Refusal} */
function decoded(index, leaf, of) {
  let entry = entriesOf.get(of);
  if (!entry || entry.index !== index) entriesOf.set(of, (entry = decodeLeaf(index, leaf)));
  return entry;
}

/** A look at entries in the order of the log, each judged by the chain as of its index. */
class Judging {
  /** @param {Run} run @param {Proven[]} list */
  constructor(run, list) {
    this.run = run;
    this.chain = new Chain();
    /** @type {Proven[]} */
    this.entries = [];
    /** @type {Map<number, number>} */
    this.count = new Map();
    /** @type {Gap[]} */
    this.missing = [];
    this.indexes = [...new Set(list.map((p) => p.index))];
    const given = new Set(this.indexes);
    /** Policies that others name as the one before, and that are not given. @type {Uint[]} */
    this.gaps = list.flatMap((p) => {
      const at = p.kind === "policy" ? p.body.previous?.index : undefined;
      return at !== undefined && at < p.index && !given.has(at) ? [at] : [];
    });
    this.judge(list);
  }

  /** @param {string} what @param {string} give */
  gap(what, give) {
    this.missing.push({ step: 7, name: "signer", what, give });
  }

  /** @param {Proven[]} list */
  judge(list) {
    const { root } = this.run.opener;
    for (const [i, p] of list.entries()) {
      const before = list[i - 1];
      if (before?.index === p.index && before.leafHash !== p.leafHash) throw new ForkError(before.head.note, p.head.note, `two leaves at index ${p.index}`);
      if (before && before.at > p.at) throw new StepError(5, `entry ${p.index}`, "registered earlier than the entry before it");
      if (before?.index === p.index) continue; // a second receipt of the same entry
      if (p.body.aud !== root.origin) throw new StepError(6, `entry ${p.index}`, `made for ${p.body.aud}`);
      this.tally(6);
      this.entries.push({ ...p, signed: this.right(p) });
    }
    if (list.length > 1) this.count.set(5, this.entries.length);
    if (list.length && !this.chain.policy) this.gap(`signer and signature of ${this.entries.length} entries: no policy is given that says which keys are valid`, "the receipts of the genesis policy, entry 0, and of the agent entries that enrol the signers");
  }

  /** @param {number} step */
  tally(step) {
    this.count.set(step, (this.count.get(step) ?? 0) + 1);
  }

  /**
   * Steps 7 and 8 for an entry; a policy or agent entry is taken up.
   *
   * @param {Proven} p
   * @returns {boolean} false if a key or a link is missing
   */
  right(p) {
    const { chain } = this;
    const fail = (/** @type {number} */ step, /** @type {string} */ why) => new StepError(step, `entry ${p.index}`, why);
    if (p.index === 0 && p.leafHash !== this.run.opener.root.genesis) throw fail(7, "it is not the pinned genesis");
    if (!chain.policy && p.index !== 0) return false; // said once, in judge
    const links = p.kind === "policy" || p.kind === "agent";
    const between = this.gaps.find((at) => at > chain.inForce.index && at < p.index);
    if (links && between !== undefined && chain.policy) {
      this.gap(`entry ${p.index} (${p.kind}): its place in the chain, and with it what it lets in`, `the receipt of the policy at ${between}`);
      return false;
    }
    try {
      const signer = chain.signer(p);
      if (!this.run.signatures.good(signer.key, p.pae, p.sig, p.sig)) throw fail(8, `not the signature of ${p.keyid} over this entry`);
      if (links) {
        chain.admit(p, signer);
        chain.apply(p);
      }
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      if (!this.lacks(p, error)) throw fail(7, error.message);
      this.gap(`entry ${p.index} (${p.kind}), by what is given: ${error.message}`, "the receipts of the policies and agent entries before it");
      return false;
    }
    this.tally(7);
    this.tally(8);
    return true;
  }

  /** @param {Uint} after @param {Uint} before whether an entry between the two is not given */
  lost(after, before) {
    const between = this.place((at) => at >= before) - this.place((at) => at > after);
    return BigInt(between) < BigInt(before) - BigInt(after) - 1n;
  }

  /** @param {(at: Uint) => boolean} beyond @returns {number} place of the first given index that is */
  place(beyond) {
    let [low, high] = [0, this.indexes.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (beyond(/** @type {Uint} */ (this.indexes[middle]))) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /**
   * Whether a refusal may only mean that receipts of the chain are missing. What a
   * key may do follows from the one entry that enrolled it, for ever; a policy
   * decides only who its authority is and who enrols plain agents.
   *
   * @param {Proven} p
   * @param {Refusal} refusal
   */
  lacks(p, refusal) {
    const { chain } = this;
    if (!chain.policy) return false;
    const anything = this.lost(0, p.index);
    const policy = this.lost(chain.inForce.index, p.index);
    if (p.kind === "policy" && sameRef(p.body.previous, chain.inForce)) return false;
    if (refusal.problem === "unknown-subject") return anything;
    if (refusal.problem === "unauthorized-role") return p.kind === "agent" && policy && plain(p.body.roles) && !chain.raised(p.body.principal);
    if (refusal.problem !== "unknown-issuer") return false;
    const key = chain.keys.get(p.keyid);
    return key ? policy && key.principal === p.body.iss && !key.roles.length : anything;
  }
}

/**
 * Does the eight steps on all of the material.
 *
 * @param {import("./root.js").Root} root
 * @param {import("./material.js").Material} material
 * @returns {Promise<Report>}
 * @throws {StepError | ForkError | FormatError}
 */
export async function verify(root, material) {
  const opener = new Opener(root);
  const signatures = new Signatures();
  return signatures.settle(() => new Run(opener, material, signatures).verify());
}
