// @ts-check
/** The check of a bundle: AGT-1, AGT-2 and AGT-3, in this order (docs/bundle.md). */
import { checkAccepted, epochAt, raiseEpoch } from "./bundle.js";
import { Chain } from "./chain.js";
import { ForkError, Refusal, RuleError, StepError } from "./errors.js";
import { decodeLeaf, refOf, sameRef } from "./entry.js";
import { answer, checkIndexed, FOLLOWS } from "./history.js";
import { canonical } from "./json.js";
import { Signatures } from "./key.js";
import { checkConsistency, checkInclusions, hashLeaf, treeRoot } from "./merkle.js";
import { base64, utf8 } from "./bytes.js";
import { follow, Opener } from "./root.js";
import { checkFork, hashes } from "./verify.js";
import { parseQuorum } from "./witness.js";

/**
 * @typedef {import("./merkle.js").Uint} Uint
 * @typedef {import("./entry.js").Registered} Registered
 * @typedef {import("./bundle.js").Member} Member
 * @typedef {import("./bundle.js").PlanMember} PlanMember
 * @typedef {import("./bundle.js").Accepted} Accepted
 * @typedef {{first: Registered, started: Registered | null, final: Registered | null, name: string}} Execution
 * @typedef {import("./bundle.js").Step & {state: string, broken: RuleError | null, direct: boolean}} Chained
 * @typedef {Member & {effect: string, wid: string, line: string, released: boolean, waits: string[], digest?: string, chain: import("./bundle.js").Step[],
 *   standing: string[], result?: string, outcome?: Uint, refused?: RuleError, proven?: boolean}} Command proven: whoever carried the bundle; line: the workflow of its line, "" for all of the agent
 * @typedef {{head: string, entries: Registered[], decided?: Registered, whole: boolean}} Evidence what the head of the bundle proves, "" and nothing
 *   where it proves nothing; the decision; whether the bundle brings the proof that nothing is left out
 * @typedef {{next: Accepted, evidence: Evidence, confirmed: boolean, error?: RuleError, incident?: number, decision?: {index: Uint, leaf_hash: string}, act?: string,
 *   epoch?: number, expires_at?: number, deadline_at?: number, commands: Command[], checked: string[], not_checked: string[], warnings: string[]}} Verdict
 */

const SKEW_MS = 300_000;

/**
 * @param {any} holds
 * @param {string} step
 * @param {string} rule "" for the step itself
 * @param {string} why
 * @returns {asserts holds}
 */
function need(holds, step, rule, why) {
  if (!holds) throw new RuleError(step, rule || step, why);
}

/**
 * As {@link need}, where another bundle may have what this one lacks.
 *
 * @param {any} there
 * @param {string} step
 * @param {string} rule
 * @param {string} what
 * @returns {asserts there}
 */
function shown(there, step, rule, what) {
  if (!there) throw new RuleError(step, rule || step, `${what} is missing in the bundle`, true);
}

/** What no bundle can show. */
const NOT_CHECKED = Object.freeze([
  "further members of the agent",
  "a newer usable checkpoint",
  "an earlier entry of an execution, or a final one",
  "an earlier undo by another incident",
  "further compensations that come first",
  "that the rollback set is what the rules give, and its pin a state of the log",
  "limits over rolling windows",
  "the cause, edges over which others signaled, and which other domains the plan touches",
  "that a member that an override withheld was open then, and that the approvers who signed an override were enough",
  "that an approver who is an agent too owns no member that is not shown",
  "registered_at: it is the ledger's word",
]);

/** One check of a bundle. */
class Check {
  /**
   * @param {import("./bundle.js").Bundle} bundle
   * @param {Accepted} accepted
   * @param {number} now
   * @param {Signatures} signatures
   * @param {Given} given
   */
  constructor(bundle, accepted, now, signatures, given) {
    this.b = bundle;
    this.accepted = accepted;
    this.now = now;
    this.signatures = signatures;
    this.given = given;
    this.root = accepted.root;
    this.confirmed = accepted.confirmed;
    /** Whether the entries stand in the tree of the head. */
    this.proven = false;
    /** @type {Registered[]} */
    this.list = [];
    /** @type {Map<Uint, Registered>} */
    this.byIndex = new Map();
    /** @type {Set<Uint>} entries that a rule needed */
    this.used = new Set();
    /** @type {string[]} */
    this.checked = [];
    /** @type {string[]} */
    this.warnings = [];
    /** Where the entries begin that are given whatever they are: an index does not cover them. */
    this.tail = Infinity;
    /** Whether nothing is left out (ABS-1 to ABS-4). */
    this.whole = false;
    this.chain = new Chain();
    /** The chain as of the decision. */
    this.then = this.chain;
    /** @type {Map<Uint, import("./bundle.js").Epoch>} */
    this.epochs = new Map();
    /** @type {Accepted} */
    this.next = accepted;
    /** @type {any} the decision's payload */
    this.d = null;
    /** @type {any[]} the two policies of INC-3 */
    this.pair = [];
    /** @type {Map<Uint, Registered>} */
    this.signals = new Map();
    /** @type {Map<string, Execution>} */
    this.executions = new Map();
    /** @type {Map<string, Registered>} outcome, or override, by member */
    this.results = new Map();
    /** @type {Map<Uint, Chained>} */
    this.steps = new Map();
    /** @type {Map<string, RuleError>} */
    this.refused = new Map();
    /** @type {Set<string>} members that the rollback set and entries of the log refuse, whoever carried the bundle */
    this.certain = new Set();
    /** @type {Map<string, Registered>} checkpoint of a member with restore */
    this.points = new Map();
    /** @type {Map<string, Execution>} */
    this.of = new Map();
    this.deadlineMax = 0;
    /** @type {{text: string, error: RuleError} | null} the witness policy whose emergency group has stood in */
    this.waived = null;
    this.witnessed = false;
    /** @type {Set<string>} compensations of others that one of the agent's waits for */
    this.asked = new Set();
  }

  /** @returns {Verdict} */
  run() {
    /** @type {Command[]} */
    let commands = [];
    try {
      commands = this.all();
    } catch (error) {
      if (!(error instanceof RuleError)) throw error;
      return this.verdict([], error);
    }
    return this.verdict(commands);
  }

  all() {
    need(this.accepted.agent === "" || this.accepted.agent === this.b.agent, "AGT-3", "", `it is for ${this.b.agent}`);
    this.head();
    this.entries();
    this.checked.push("AGT-1");
    if (this.b.decision !== undefined) this.findDecision();
    this.rights();
    need(this.list.every((e) => e.body.aud === this.root.origin), "AGT-2", "", "an entry was made for another ledger");
    this.learn();
    if (this.b.decision === undefined) return [];
    this.decision();
    this.checked.push("AGT-2");
    this.scope();
    this.outcomes();
    const commands = this.members();
    this.checked.push("AGT-3");
    return commands;
  }

  // AGT-1

  /** @param {import("./root.js").Root} root @param {string} note @param {string} rule */
  open(root, note, rule = "") {
    try {
      return new Opener(root).open(note, this.signatures);
    } catch (error) {
      if (error instanceof StepError) throw new RuleError(rule ? "AGT-2" : "AGT-1", rule || "AGT-1", error.message);
      throw error;
    }
  }

  head() {
    const { b, accepted } = this;
    const head = this.open(this.root, b.head);
    this.newer = head;
    const one = "AGT-1";
    if (accepted.head === "") need(b.from === 0 && !b.consistency.length, one, "", "a consistency proof, but no head was accepted before");
    else {
      const older = this.open(this.root, accepted.head);
      need(head.size >= older.size, one, "", "smaller than the head accepted before");
      checkedFork(older, head);
      need(b.from === older.size, one, "", `from size ${b.from}, but the accepted head has size ${older.size}`);
      const consistent = this.signatures.once("consistency", () => checkConsistency(older, head, hashes(b.consistency)));
      if (!consistent) throw forks(new ForkError(older.note, head.note, "the consistency proof does not verify", false));
    }
    const policies = this.given.links.filter((e) => e.kind === "policy");
    let policy = policies.at(-1)?.body;
    const [first] = b.entries;
    if (!policy && first && base64(hashLeaf(utf8(first.leaf))) === this.root.genesis) policy = this.given.first?.body;
    this.witnesses(policy, true);
  }

  /**
   * Holds the head to the quorum of the root, or else of a policy.
   *
   * @param {any} policy
   * @param {boolean} [waivable] the policy's emergency group may stand in (WIT-6)
   */
  witnesses(policy, waivable = false) {
    const text = this.root.witnesses || policy?.witnesses;
    if (!text) return;
    let quorum;
    try {
      quorum = parseQuorum(text);
    } catch (error) {
      throw new RuleError("AGT-1", "AGT-1", String(error));
    }
    if (!quorum) return;
    try {
      this.cosigned(quorum, policy);
    } catch (error) {
      const emergency = waivable && !this.root.witnesses ? quorum.emergency() : null;
      if (!emergency || !(error instanceof RuleError)) throw error;
      try {
        this.cosigned(emergency, policy);
      } catch {
        throw error;
      }
      this.waived = { text, error };
    }
  }

  /** @param {import("./witness.js").Quorum} quorum @param {any} policy */
  cosigned(quorum, policy) {
    shown(policy, "AGT-1", "", "the policy that says how old a cosignature may be");
    const at = quorum.since(this.b.head, Math.floor((this.now + SKEW_MS) / 1000), this.signatures);
    need(at !== null, "AGT-1", "", `quorum ${quorum.name} has not cosigned the head`);
    need(this.now - Number(at) * 1000 <= policy.windows.bundle_max_age_ms, "AGT-1", "", "the cosignatures are too old");
    this.witnessed = true;
  }

  entries() {
    const one = "AGT-1";
    if (this.given.broken) throw new RuleError(one, one, this.given.broken);
    this.list = this.given.entries;
    need(this.list.every((e, i) => i === 0 || /** @type {Registered} */ (this.list[i - 1]).at <= e.at), one, "", "times run backwards");
    this.byIndex = new Map(this.list.map((e) => [e.index, e]));
    need(this.signatures.once("inclusion", () => checkInclusions(this.list, /** @type {any} */ (this.newer), hashes(this.b.inclusion))), one, "", "an entry does not stand in the tree of the head");
    this.proven = true;
    this.confirmed ||= this.witnessed;
  }

  // AGT-2

  findDecision() {
    const e = this.byIndex.get(/** @type {Uint} */ (this.b.decision));
    shown(e, "AGT-2", "", "the decision");
    need(e.kind === "decision" && ["authorize", "amend"].includes(e.body.act), "AGT-2", "", "neither authorize nor amend");
    this.decided = e;
    this.d = e.body;
  }

  /** The chain of policies and keys, and the signature of every entry. */
  rights() {
    const known = new Map(this.given.links.map((e) => [e.index, e]));
    const indexes = [...new Set([...known.keys(), ...this.byIndex.keys()])].sort((a, b) => (a < b ? -1 : 1));
    for (const index of indexes) {
      const link = known.get(index);
      const own = this.byIndex.get(index);
      const e = /** @type {Registered} */ (own ?? link);
      if (link && own) need(link.leafHash === own.leafHash, "AGT-2", "TRU-3", `entry ${index} is not the one accepted before`);
      need(index !== 0 || e.leafHash === this.root.genesis, "AGT-2", "TRU-1", "entry 0 is not the pinned genesis");
      this.link(e, link !== undefined);
    }
    if (this.waived && (this.chain.policy?.witnesses ?? "") === this.waived.text) throw this.waived.error;
    this.witnesses(this.chain.policy);
    this.confirmed ||= this.witnessed;
    const root = follow(this.root, this.chain);
    if (root !== this.root) this.open(root, this.b.head, "TRU-5");
    this.root = root;
  }

  /** @param {Registered} e @param {boolean} trusted it was accepted before */
  link(e, trusted) {
    if (e.index === this.b.decision) this.then = this.chain.clone();
    try {
      const signer = trusted ? { authority: true, key: null } : this.chain.signer(e);
      if (signer.key && !this.signatures.good(signer.key, e.pae, e.sig, e)) throw new Refusal("bad-signature", "sig", "does not verify");
      if (e.kind !== "policy" && e.kind !== "agent") return;
      this.used.add(e.index);
      this.chain.admit(e, signer);
      this.chain.apply(e);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      throw new RuleError("AGT-2", "TRU-2", `entry ${e.index}: ${error.message}`, error.problem === "unknown-issuer");
    }
  }

  /** @param {Registered} e whether its key was revoked as compromised since before it */
  isVoid(e) {
    const since = this.chain.keys.get(e.keyid)?.compromised ?? null;
    return since !== null && since <= e.index;
  }

  /** Takes up head, chain, and the epochs of decisions: from here on the next state is another. */
  learn() {
    this.epochs = new Map(this.accepted.epochs.map((e) => [e.incident, e]));
    for (const e of this.list) {
      if (e.kind !== "decision" || this.isVoid(e) || (this.d && e.body.incident !== this.d.incident)) continue;
      this.used.add(e.index);
      const { incident } = e.body;
      this.epochs.set(incident, raiseEpoch(this.epochs.get(incident) ?? { incident, epoch: 0 }, e.body));
    }
    this.next = {
      root: this.root,
      agent: this.accepted.agent,
      head: this.b.head,
      confirmed: this.confirmed,
      links: this.chain.links.map((e) => ({ index: e.index, leaf: e.leaf })),
      epochs: [...this.epochs].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, e]) => e),
    };
  }

  /** @param {Uint} index @returns {any} the policy in force before it */
  policyBefore(index) {
    return this.chain.policies.filter((p) => p.index < index).at(-1)?.policy;
  }

  /** @param {(...values: number[]) => number} which @param {string[]} path */
  law(which, ...path) {
    return which(...this.pair.map((policy) => path.reduce((v, name) => v[name], policy)));
  }

  decision() {
    const { d, now } = this;
    const decided = /** @type {Registered} */ (this.decided);
    const two = "AGT-2";
    this.findIndex();
    need(sameRef(d.policy, this.then.inForce), two, "TRU-3", "it does not cite the policy in force");
    need(!this.isVoid(decided), two, "TRU-4", "its key was compromised");
    const opening = this.policyBefore(d.incident);
    const current = this.policyBefore(decided.index);
    need(opening && current && d.incident < decided.index, two, "INC-3", "no policy was in force when the incident opened");
    this.pair = [opening, current];
    this.deadlineMax = this.law(Math.min, "windows", "deadline_max_ms");
    need(d.exp * 1000 > now && d.deadline_at > now, two, "", "its time is over");
    need(d.exp * 1000 <= d.deadline_at && d.deadline_at <= decided.at + this.deadlineMax, two, "INC-7", "exp or deadline_at is too late");
    const newest = this.list.at(-1)?.at ?? 0;
    if (newest > now + SKEW_MS) this.warnings.push(`the clock is ${newest - now} ms behind the newest entry`);
    this.restsOn(decided);
    this.supersedes(decided);
    need(d.impact.members === d.rollback_set.size, two, "SCO-5", "impact is not of the rollback set");
    if (d.approvals?.length) this.approved(decided);
    else this.automatic(decided);
    need(d.epoch >= epochAt(this.epochs.get(d.incident), now), two, "", "a later decision of the incident is known");
    this.complete();
  }

  /** The index entry, which the chain has judged already. */
  findIndex() {
    const { index, decision } = this.b;
    if (index === undefined) return;
    const e = this.byIndex.get(index);
    shown(e, "AGT-2", "ABS-1", "the index entry");
    const hold = (/** @type {boolean} */ holds, /** @type {string} */ why) => need(holds, "AGT-2", "ABS-1", `entry ${index}: ${why}`);
    hold(e.kind === "index", `of kind ${e.kind}, want index`);
    hold(e.body.size <= index, "it covers more entries than stand before it");
    hold(e.body.size > /** @type {Uint} */ (decision), "it does not cover the decision");
    hold(!this.isVoid(e), "its key was compromised");
    this.tail = e.body.size;
    this.used.add(index);
  }

  /** Nothing stands behind what the bundle cites, up to its head: if the newest policy wants that, or the bundle brings the proof. */
  complete() {
    const { b, tail } = this;
    const one = "ABS-1";
    if (b.index === undefined) {
      shown(!this.chain.policy?.index?.required, "AGT-2", one, "the proof that nothing is left out, which the policy wants,");
      return;
    }
    const { body } = /** @type {Registered} */ (this.byIndex.get(b.index));
    const proofs = { subjects: b.subjects ?? [], prefix: b.prefix ?? [] };
    const wrong = this.signatures.once("index", () => {
      try {
        checkIndexed(proofs, body);
        return "";
      } catch (error) {
        if (error instanceof StepError) return error.message;
        throw error;
      }
    });
    need(!wrong, "AGT-2", one, wrong);
    const { size } = /** @type {import("./root.js").SignedHead} */ (this.newer);
    for (let index = tail; index < size; index++) {
      shown(this.byIndex.has(index), "AGT-2", one, `entry ${index}, which the index does not cover,`);
      this.used.add(index);
    }
    const asked = this.noneLeftOut(proofs);
    for (const { type, value } of proofs.subjects) need(asked.has(`${type}:${value}`), "AGT-2", one, `nothing rests on ${type}:${value}`);
    this.whole = true;
  }

  /**
   * Asks for all that could take back what the bundle shows: every answer is in the
   * bundle, or was accepted before.
   *
   * @param {import("./history.js").Indexed} proofs
   * @returns {Set<string>} the subjects asked about
   */
  noneLeftOut(proofs) {
    const links = new Map(this.given.links.map((e) => [e.index, e]));
    const { size } = /** @type {import("./root.js").SignedHead} */ (this.newer);
    const asked = new Set();
    const ask = (/** @type {string} */ rule, /** @type {string} */ type, /** @type {string} */ value, /** @type {string} */ labels) => {
      asked.add(`${type}:${value}`);
      try {
        for (const label of labels.split(" ")) {
          const { entries } = answer(proofs, this.tail, { type, value, label, from: 0, size }, (index) => this.byIndex.get(index) ?? links.get(index));
          for (const index of entries) this.used.add(index);
        }
      } catch (error) {
        throw error instanceof StepError ? new RuleError("AGT-2", rule, error.message, true) : error;
      }
    };
    ask("ABS-2", "incident", String(this.d.incident), "decision/authorize decision/amend decision/override decision/escalate record");
    for (const name of this.signers()) ask("ABS-3", "agent", name, "agent/revoke agent/revoke< agent/rotate agent/rotate<");
    ask("ABS-4", "log", "", "policy");
    return asked;
  }

  /** @returns {Set<string>} those whose signatures the verdict rests on */
  signers() {
    const { decision, index } = this.b;
    const rests = (/** @type {Registered} */ e) => e.index <= /** @type {Uint} */ (decision) || e.index === index;
    const kinds = ["decision", "approval", "signal", "index"];
    return new Set(this.list.filter((e) => kinds.includes(e.kind) && this.used.has(e.index) && rests(e)).map((e) => e.body.iss));
  }

  /** @param {Registered} decided */
  restsOn(decided) {
    const { d } = this;
    this.signals = new Map(this.list.filter((e) => e.kind === "signal" && e.index < this.tail).map((e) => [e.index, e]));
    for (const index of this.signals.keys()) this.used.add(index);
    const leaves = [...this.signals.values()].map((e) => e.hash);
    const three = "SCO-3";
    need([...this.signals.keys()].every((index) => index < d.pin.size), "AGT-2", three, "a signal that came after the pin");
    need(d.signals.size === leaves.length && d.signals.root === base64(treeRoot(leaves)), "AGT-2", three, "the signals are not those of the decision");
    const opening = this.signals.get(d.incident);
    need(opening, "AGT-2", three, "the incident's opening signal is not among them");
    need(opening.body.wid === d.wid, "AGT-2", "", "of another workflow than its incident");
    need(d.pin.size <= decided.index, "AGT-2", "SCO-5", "the pin lies behind the decision");
    const dismissed = this.dismissed(d);
    need(dismissed.every((index, i) => (i === 0 || index > dismissed[i - 1]) && this.signals.has(index)), "AGT-2", three, "dismissed is no ascending list of its signals");
  }

  /** @param {any} d @returns {any[]} */
  dismissed(d) {
    return d.dismissed.map((/** @type {any} */ x) => x.index);
  }

  /** @param {Registered} decided */
  supersedes(decided) {
    const { d } = this;
    const by = d.supersedes;
    if (d.act === "authorize") need(!by, "AGT-2", "INC-6", "an authorize that supersedes a decision");
    else need(by && d.incident < by.index && by.index < decided.index, "AGT-2", "SCO-5", "an amend that supersedes no earlier decision");
    need(this.amended().every((one) => one.epoch < d.epoch), "AGT-2", "INC-7", "its epoch is not above that of what it amends");
  }

  /** @returns {any[]} the decisions that led to this one, as far as they are shown */
  amended() {
    const found = [];
    for (let d = this.d, index = this.decided?.index ?? 0; d.supersedes; ) {
      const e = this.byIndex.get(d.supersedes.index);
      if (!e || !sameRef(refOf(e), d.supersedes) || e.index >= index || e.kind !== "decision") break;
      if (e.body.incident !== this.d.incident || !["authorize", "amend"].includes(e.body.act)) break;
      if (e.body.supersedes?.index >= e.index) break;
      d = e.body;
      index = e.index;
      found.push(d);
    }
    return found;
  }

  /** @param {Registered} decided */
  approved(decided) {
    const { d } = this;
    const five = "INC-5";
    const hold = (/** @type {any} */ holds, /** @type {string} */ why) => need(holds, "AGT-2", five, why);
    const first = this.byIndex.get(d.approvals[0]);
    shown(first?.kind === "approval" ? first : null, "AGT-2", five, `approval ${d.approvals[0]}`);
    const proposal = this.byIndex.get(/** @type {Registered} */ (first).body.proposal.index);
    shown(proposal, "AGT-2", five, "the proposal");
    const p = proposal.body;
    hold(proposal.kind === "decision" && p.act === "escalate" && sameRef(refOf(proposal), /** @type {Registered} */ (first).body.proposal) && proposal.index < decided.index, "no proposal");
    hold(p.incident === d.incident && ["pin", "signals", "rollback_set"].every((name) => canonical(p[name]) === canonical(d[name])), "the proposal was another one");
    hold(this.dismissed(p).join() === this.dismissed(d).join(), "the proposal dismissed others");
    hold(p.epoch + (d.act === "amend" ? 1 : 0) === d.epoch && p.exp * 1000 > decided.at, "of another epoch than the proposal, or that has expired");
    const revoked = this.chain.keys.get(proposal.keyid)?.revoked ?? 0;
    hold(!this.isVoid(proposal) || revoked > decided.index, "the proposal's key was compromised");
    if (this.isVoid(proposal)) this.warnings.push(`the proposal's key was revoked at ${revoked} as compromised`);
    this.used.add(proposal.index);
    const seen = new Set();
    const barred = new Set([...[...this.signals.values()].map((e) => e.body.iss), p.iss, ...this.b.members.map((m) => m.member.agent)]);
    for (const index of d.approvals) {
      const e = this.byIndex.get(index);
      shown(e?.kind === "approval" ? e : null, "AGT-2", five, `approval ${index}`);
      const a = /** @type {Registered} */ (e).body;
      const key = this.then.keys.get(/** @type {Registered} */ (e).keyid);
      this.used.add(index);
      hold(a.verdict === "approve" && a.incident === d.incident && sameRef(a.proposal, refOf(proposal)), `approval ${index} is of something else`);
      hold(proposal.index < index && index < decided.index && a.exp * 1000 > decided.at, `approval ${index} came too early or too late`);
      hold(key && !key.revoked && key.roles.includes("approver") && key.enrolled < d.incident, `approval ${index} is by no approver of then`);
      hold(!barred.has(a.iss), `approval ${index} is by a party to the incident`);
      hold(!seen.has(a.iss) && !seen.has(key?.key.id), `approval ${index} is by one who has approved`);
      seen.add(a.iss).add(key?.key.id);
      if (this.isVoid(/** @type {Registered} */ (e))) this.warnings.push(`the key of approval ${index} was revoked as compromised`);
    }
    hold(d.approvals.length >= this.law(Math.max, "quorum", "approve"), "too few approvals");
  }

  /**
   * OVR-3: what an override stopped, only approvals put in force again.
   *
   * @param {Registered} decided
   */
  notStopped(decided) {
    const votes = new Set();
    for (const e of this.list) {
      if (e.kind !== "decision" || e.body.act !== "override" || e.body.incident !== this.d.incident || e.index >= decided.index) continue;
      const key = this.then.keys.get(e.keyid);
      need(!key?.roles.includes("operator"), "AGT-2", "OVR-3", `the override at entry ${e.index} stopped the incident`);
      if (!key?.revoked) votes.add(e.body.iss);
    }
    need(votes.size < this.law(Math.max, "quorum", "override"), "AGT-2", "OVR-3", "approvers stopped the incident");
  }

  /** @param {Registered} decided */
  automatic(decided) {
    this.notStopped(decided);
    const { impact } = this.d;
    const hold = (/** @type {any} */ holds, /** @type {string} */ why) => need(holds, "AGT-2", "INC-2", why);
    hold(this.then.keys.get(decided.keyid)?.roles.includes("coordinator"), "without approvals only a coordinator decides");
    for (const name of ["members", "agents", "domains"]) hold(impact[name] <= this.law(Math.min, "limits", "incident", name), `more ${name} than the limit`);
    hold(impact.irrevocable + impact.undeclared === 0, "with effects that cannot be undone");
    const quorum = this.law(Math.max, "quorum", "signalers");
    /** @type {Map<string, Set<string>>} */
    const others = new Map();
    /** @type {Map<string, Set<string>>} */
    const homes = new Map();
    const put = (/** @type {Map<string, Set<string>>} */ map, /** @type {string} */ key, /** @type {string} */ who) => map.set(key, (map.get(key) ?? new Set()).add(who));
    let alone = false;
    const dismissed = this.dismissed(this.d);
    for (const e of this.signals.values()) {
      const { standing, subject, iss, evidence } = e.body;
      if (dismissed.includes(e.index) || (standing === "executor" && subject.split("#")[0] !== iss)) continue;
      if (["monitor", "operator"].includes(standing) && !evidence?.length) continue;
      alone ||= !["upstream", "downstream"].includes(standing);
      put(others, subject, iss);
      put(homes, this.then.agents.get(iss)?.domain ?? "", iss);
    }
    hold(alone || [...others.values()].some((who) => who.size >= quorum), "no signal that is believed");
    if (impact.domains <= 1) return;
    const enough = [...homes].filter(([, who]) => who.size >= quorum).map(([domain]) => domain);
    const home = this.then.agents.get(this.b.agent);
    hold(enough.length >= impact.domains && (!home || enough.includes(home.domain)), "a domain without its own quorum of signalers");
  }

  // AGT-3

  scope() {
    const { members, agent, membership } = this.b;
    const three = "AGT-3";
    const included = () => {
      const places = members.map(({ place, member }) => ({ index: place, hash: hashLeaf(utf8(memberLeaf(member))) }));
      return checkInclusions(places, this.d.rollback_set, hashes(membership));
    };
    need(members.every((m, i) => i === 0 || /** @type {PlanMember} */ (members[i - 1]).member.index > m.member.index), three, "SCO-5", "members do not descend");
    need(new Set(members.map((m) => m.member.exec)).size === members.length, three, "SCO-5", "a member twice");
    need(this.signatures.once("membership", included), three, "SCO-5", "a member is not of the rollback set");
    need(members.some((m) => m.member.agent === agent), three, "", "no member of the agent");
  }

  outcomes() {
    for (const e of this.list) if (e.kind === "execution") this.progress(e);
    const six = "INC-6";
    const methods = new Map(this.b.members.map((m) => [m.member.exec, m.member.method]));
    const decided = /** @type {Registered} */ (this.decided);
    for (const e of this.list) {
      if (e.kind !== "outcome") continue;
      const o = e.body;
      if (e.index >= this.tail && (o.incident !== this.d.incident || !methods.has(o.exec))) continue;
      const hold = (/** @type {any} */ holds, /** @type {string} */ why) => need(holds, "AGT-3", six, `outcome ${e.index}: ${why}`);
      hold(o.incident === this.d.incident && methods.has(o.exec) && !this.results.has(o.exec), "of no member, or a second one");
      hold(o.iss === o.exec.split("#")[0] || o.result === "unknown", "by another than the agent");
      const by = o.decision;
      hold(by.index <= decided.index && by.index < e.index, "of a later decision");
      hold(by.index === decided.index ? sameRef(by, refOf(decided)) : this.d.act === "amend", "of another decision");
      const fits = /** @type {Record<string, string>} */ ({ restored: "restore", compensated: "compensate", irrevocable: "residual" })[o.result];
      hold(!fits || fits === methods.get(o.exec), "does not fit the method");
      this.results.set(o.exec, e);
      this.used.add(e.index);
    }
    this.overridden();
  }

  /** @param {Registered} e */
  progress(e) {
    const { body } = e;
    const name = `${body.iss}#${body.exec}`;
    const x = this.executions.get(name) ?? { first: e, started: null, final: null, name };
    this.executions.set(name, x);
    const same = body.wid === x.first.body.wid && body.effect === x.first.body.effect && canonical(body.parents) === canonical(x.first.body.parents);
    need(same, "AGT-3", "EXE-1", `${name} changes between its entries`);
    if (body.progress !== "planned") x.started ??= e;
    if (["confirmed", "failed", "cancelled"].includes(body.progress)) x.final ??= e;
  }

  /** What an override withheld before an amend, and what was opened since. */
  overridden() {
    const decided = /** @type {Registered} */ (this.decided);
    const ours = this.list.filter((e) => e.kind === "decision" && e.body.incident === this.d.incident);
    const last = ours.filter((e) => e.body.act === "override" && e.index < decided.index).at(-1)?.index;
    for (const { member, by } of this.b.members) {
      const hold = (/** @type {any} */ holds, /** @type {string} */ why) => need(holds, "AGT-3", "INC-6", `${member.exec}: ${why}`);
      const asked = last !== undefined && member.agent === this.b.agent && member.method !== "none" && !this.results.has(member.exec);
      hold(asked === (by !== undefined), "by stands where an override is shown, for a member without outcome");
      if (!asked) continue;
      const e = ours.find((one) => one.index === by);
      hold(e && member.index < e.index && e.index <= decided.index, "by names no decision of the incident after its first entry");
      if (e?.body.act === "override") this.results.set(member.exec, e);
      else hold(["authorize", "amend"].includes(e?.body.act) && /** @type {Registered} */ (e).index > last, "by names no decision that opened it");
      this.used.add(/** @type {Uint} */ (by));
    }
  }

  members() {
    this.steps = new Map(this.b.steps.map((s) => [s.exec, { ...s, state: "new", broken: null, direct: false }]));
    for (const s of this.steps.values()) this.judgeStep(s);
    const own = this.b.members.map((m) => m.member).filter((m) => m.agent === this.b.agent);
    for (const m of own) {
      need(m.exec.split("#")[0] === this.b.agent, "AGT-3", "", `${m.exec} is not of the agent`);
      try {
        this.judge(m);
      } catch (error) {
        if (!(error instanceof RuleError)) throw error;
        this.refused.set(m.exec, error);
        if (error.missing) this.certain.delete(m.exec);
      }
    }
    for (const m of own) this.judgeOnce(m, own);
    if (!this.d.approvals?.length) {
      for (const m of own.filter((one) => !this.refused.has(one.exec))) {
        const direct = this.steps.get(m.index)?.direct;
        need(m.method !== "residual" && (m.method !== "compensate" || direct), "AGT-3", "INC-2", `${m.exec} needs approvals`);
      }
    }
    const commands = this.commands(own);
    if (!this.refused.size) this.placed();
    return commands;
  }

  /** @param {Uint} index @param {string} rule @returns {Execution} */
  execution(index, rule) {
    const e = this.byIndex.get(index);
    shown(e, "AGT-3", rule, `entry ${index}`);
    const x = e.kind === "execution" ? this.executions.get(`${e.body.iss}#${e.body.exec}`) : undefined;
    need(x && x.first === e && !e.body.compensates, "AGT-3", rule, `entry ${index} is no first entry of an execution`);
    this.use(x);
    return x;
  }

  /** @param {Execution} x */
  use(x) {
    for (const e of [x.first, x.started, x.final]) if (e) this.used.add(e.index);
  }

  /** @param {any} a @param {any} b payloads of two entries */
  sameLine(a, b) {
    return a.iss === b.iss && this.lineOf(a) === this.lineOf(b);
  }

  /** @param {any} body @returns {string} */
  lineOf(body) {
    return this.chain.agents.get(body.iss)?.span === "agent" ? "" : body.wid;
  }

  /** @param {Execution} x @param {string} rule @returns {Uint} index of the first entry past planned */
  begun(x, rule) {
    shown(x.started, "AGT-3", rule, `the entry by which ${x.name} began`);
    need(x.started.body.progress !== "confirmed" || x.first.body.effect === "none", "AGT-3", rule, `when ${x.name} began is not shown`);
    return x.started.index;
  }

  /** @param {Member} m */
  judge(m) {
    this.certain.add(m.exec); // until something beside the rollback set and its own entries counts
    const x = this.execution(m.index, "");
    const hold = (/** @type {any} */ holds, /** @type {string} */ rule, /** @type {string} */ why) => need(holds, "AGT-3", rule, `${m.exec}: ${why}`);
    hold(x.first.leafHash === m.leaf_hash && x.name === m.exec, "", "not its first entry");
    this.of.set(m.exec, x);
    const { effect } = x.first.body;
    const final = x.final?.body.progress;
    if (m.method === "none" && effect !== "none") shown(x.final, "AGT-3", "SCO-4", `the final entry of ${m.exec}`);
    const suits = /** @type {Record<string, boolean>} */ ({
      none: effect === "none" || final === "failed" || final === "cancelled",
      cancel: !["started", "confirmed"].includes((x.started ?? x.first).body.progress),
      restore: effect === "reversible",
      compensate: effect === "compensable",
      residual: ["reversible", "irrevocable", "undeclared"].includes(effect),
    });
    hold(Object.hasOwn(suits, m.method) && suits[m.method], "SCO-4", `${m.method} does not suit its effect and progress`);
    hold((m.method === "restore") === (m.checkpoint !== undefined), "SCO-4", "a checkpoint goes with restore");
    this.certain.delete(m.exec);
    if (m.method === "restore") this.restore(m, x);
    const step = this.steps.get(m.index);
    shown(step, "AGT-3", "", `the chain of ${m.exec}`);
    if (step.broken) throw step.broken;
  }

  /** @param {Member} m @param {Execution} x */
  restore(m, x) {
    const two = "SCO-2";
    const point = this.list.find((e) => e.kind === "checkpoint" && e.index < this.tail && `${e.body.iss}#${e.body.checkpoint}` === m.checkpoint);
    shown(point, "AGT-3", two, `checkpoint ${m.checkpoint}`);
    this.used.add(point.index);
    const hold = (/** @type {any} */ holds, /** @type {string} */ why) => need(holds, "AGT-3", two, `${m.checkpoint}: ${why}`);
    hold(this.sameLine(point.body, x.first.body), "of another line");
    const expires = point.body.expires_at ?? 0;
    hold(this.results.has(m.exec) || !(expires > 0 && expires <= this.now), "expired");
    hold(point.index < this.begun(x, two), "newer than what it undoes");
    hold(!this.restored(m.exec) || this.results.get(m.exec)?.body.post_digest === point.body.digest, "the outcome is of another state");
    this.points.set(m.exec, point);
  }

  /** @param {string} name */
  result(name) {
    const e = this.results.get(name);
    return e && (e.body.result ?? "withheld");
  }

  /** @param {string} name */
  restored(name) {
    return this.result(name) === "restored";
  }

  /** @param {Member} m @param {Member[]} own whether its whole line goes back to one checkpoint */
  judgeOnce(m, own) {
    const point = this.points.get(m.exec);
    const x = this.of.get(m.exec);
    if (m.method !== "restore" || this.refused.has(m.exec) || this.restored(m.exec) || !point || !x) return;
    for (const other of own) {
      const y = this.of.get(other.exec);
      if (!y || this.restored(other.exec) || !this.sameLine(y.first.body, x.first.body)) continue;
      const step = this.steps.get(other.index);
      const begun = y.started && (y.started.body.progress !== "confirmed" || y.first.body.effect === "none") ? y.started.index : null;
      const ok = (begun === null || begun > point.index) && !(other.method === "restore" && other.checkpoint !== m.checkpoint) && !(step?.rule === "SCO-2" && (step.checkpoint ?? 0) !== point.index);
      if (!ok) this.refused.set(m.exec, new RuleError("AGT-3", "SCO-2", `${m.exec}: its line does not go back to one checkpoint`));
    }
  }

  // The chains from the seeds to the members

  /** @param {Chained} s */
  judgeStep(s) {
    if (s.state !== "new") return;
    s.state = "begun";
    try {
      this.step(s);
    } catch (error) {
      if (!(error instanceof RuleError)) throw error;
      s.broken = error;
    }
    s.state = "done";
  }

  /** @param {Uint} index @param {string} rule @returns {Execution} */
  reached(index, rule) {
    const s = this.steps.get(index);
    shown(s, "AGT-3", rule, `the step to ${index}`);
    this.judgeStep(s);
    need(s.state === "done", "AGT-3", rule, `the chain of ${index} goes in a circle`);
    if (s.broken) throw s.broken;
    return this.execution(index, rule);
  }

  /** @param {Chained} s */
  step(s) {
    const x = this.execution(s.exec, s.rule);
    if (s.rule === "SCO-3") {
      s.direct = true;
      this.seed(s.from, x);
      return;
    }
    const origin = this.reached(s.from, s.rule);
    if (s.rule === "SCO-2") {
      this.line(s, origin, x);
      return;
    }
    s.direct = this.steps.get(s.from)?.direct ?? false;
    const edge = x.first.body.parents.some((/** @type {any} */ p) => p.exec === origin.name && p.dep === "hard");
    need(edge && origin.first.index < x.first.index, "AGT-3", "SCO-1", `${x.name} does not name ${origin.name} as hard parent`);
  }

  /** @param {Uint} index @param {Execution} x */
  seed(index, x) {
    const three = "SCO-3";
    const hold = (/** @type {any} */ holds, /** @type {string} */ why) => need(holds, "AGT-3", three, `${x.name}: ${why}`);
    const e = this.signals.get(index);
    hold(e, `${index} is no signal of the decision`);
    const signal = /** @type {Registered} */ (e);
    const believed = [this.d, ...this.amended().filter((d) => index < d.pin.size)];
    hold(believed.some((d) => !this.dismissed(d).includes(index)), "its signal was dismissed");
    const s = signal.body;
    if (s.subject === x.name || s.subject === x.first.body.task) return;
    hold(s.since, "its signal is about another execution");
    const [first, last] = [this.executions.get(s.since), this.executions.get(s.subject)];
    shown(first && last, "AGT-3", three, "the range of since");
    const [from, to] = /** @type {[Execution, Execution]} */ ([first, last]);
    this.use(from);
    this.use(to);
    const third = ["monitor", "operator"].includes(s.standing) && s.evidence?.length;
    hold(third || (s.standing === "executor" && s.iss === to.first.body.iss), "since is not for this signaler to say");
    hold([from, x].every((y) => y.first.body.iss === to.first.body.iss && y.first.body.wid === to.first.body.wid), "since reaches over another agent or workflow");
    hold(from.first.index <= x.first.index && x.first.index <= to.first.index, "outside of since");
    hold(signal.at - from.first.at <= this.policyBefore(signal.index).windows.since_max_ms, "since reaches back too far");
  }

  /** @param {Execution} x whether it takes its line back */
  takesBack(x) {
    return x.first.body.effect === "reversible" && x.final?.body.progress !== "cancelled";
  }

  /** @param {Chained} s @param {Execution} origin @param {Execution} x */
  line(s, origin, x) {
    const two = "SCO-2";
    const hold = (/** @type {any} */ holds, /** @type {string} */ why) => need(holds, "AGT-3", two, `${x.name}: ${why}`);
    hold(this.sameLine(origin.first.body, x.first.body), `not on the line of ${origin.name}`);
    const by = s.by === undefined ? origin : this.reached(s.by, two);
    hold(s.by === undefined || !this.takesBack(origin), "by, where from takes the line back");
    hold(this.takesBack(by) && this.sameLine(by.first.body, x.first.body), "nothing takes its line back");
    this.begun(by, two);
    const before = this.begun(origin, two);
    if (s.checkpoint === undefined) {
      const usable = /** @type {Registered} */ (this.decided).at + this.deadlineMax;
      for (const e of this.list) {
        const there = e.kind === "checkpoint" && e.index < before && e.index < this.tail && this.sameLine(e.body, origin.first.body) && !this.wentBack(e);
        const expires = e.body.expires_at ?? 0;
        hold(!there || (expires > 0 && expires <= usable), `its line has checkpoint ${e.index} to go back to`);
      }
      return;
    }
    const point = this.byIndex.get(s.checkpoint);
    shown(point, "AGT-3", two, `checkpoint ${s.checkpoint}`);
    hold(point.kind === "checkpoint", `${s.checkpoint} is no checkpoint`);
    this.used.add(point.index);
    hold(this.sameLine(point.body, x.first.body) && point.index < before, "the checkpoint is of another line, or too new");
    const begun = this.begun(x, two);
    hold(x.final?.body.progress !== "cancelled", "cancelled");
    if (begun > point.index || point.body.after === null || !x.final) return;
    const covered = this.executions.get(point.body.after);
    shown(covered?.final, "AGT-3", two, `the end of ${point.body.after}`);
    const until = /** @type {Execution} */ (covered);
    this.use(until);
    hold(x.final.index > /** @type {Registered} */ (until.final).index, "the checkpoint covers it");
  }

  /** @param {Registered} e a checkpoint to which an earlier decision took the line */
  wentBack(e) {
    const ref = `${e.body.iss}#${e.body.checkpoint}`;
    return this.d.act === "amend" && (this.b.steps.some((s) => s.checkpoint === e.index) || this.b.members.some((m) => m.member.checkpoint === ref));
  }

  // Commands

  /** @param {Member[]} own */
  commands(own) {
    const byPlace = new Map(this.b.members.map((m) => [m.place, m.member]));
    const commands = [];
    for (const { member, after = [] } of this.b.members) {
      const mine = member.agent === this.b.agent;
      need(!after.length || (mine && member.method === "compensate"), "AGT-3", "INC-7", `${member.exec} waits, and is no compensation of the agent`);
      const waits = [];
      for (const place of after) {
        const other = byPlace.get(place);
        need(other?.method === "compensate", "AGT-3", "INC-7", `place ${place} is not shown, or no compensation`);
        this.asked.add(other.exec);
        if (!this.results.has(other.exec)) waits.push(other.exec);
      }
      if (mine) commands.push(this.command(member, waits, own));
    }
    return commands;
  }

  /** @param {Member} member @param {string[]} waits @param {Member[]} own @returns {Command} */
  command(member, waits, own) {
    const x = this.of.get(member.exec);
    const outcome = this.results.get(member.exec);
    /** @type {Command} */
    const c = { ...member, effect: x?.first.body.effect ?? "", wid: x?.first.body.wid ?? "", line: x ? this.lineOf(x.first.body) : "", released: false, waits: [], chain: this.led(member.index), standing: [] };
    if (outcome) Object.assign(c, { result: this.result(member.exec), outcome: outcome.index });
    const refused = this.refused.get(member.exec);
    if (refused || !x) return { ...c, ...(refused ? { refused, proven: this.certain.has(member.exec) } : {}) };
    const mates = own.filter((o) => {
      const y = this.of.get(o.exec);
      return o !== member && y && this.sameLine(y.first.body, x.first.body);
    });
    c.waits = waits;
    if (member.method === "restore") {
      c.digest = this.points.get(member.exec)?.body.digest;
      c.waits = [...waits, ...mates.filter((o) => o.method === "compensate" && !this.results.has(o.exec)).map((o) => o.exec)];
      const stands = (/** @type {Member} */ o) => ["residual", "compensate"].includes(o.method) && !["compensated", "not_executed"].includes(this.result(o.exec));
      if (!c.waits.length) c.standing = mates.filter(stands).map((o) => o.exec).reverse();
    }
    c.released = !c.waits.length;
    return c;
  }

  /** @param {Uint} index @returns {import("./bundle.js").Step[]} the chain from the seed to a member */
  led(index) {
    const chain = [];
    const seen = new Set();
    for (let s = this.steps.get(index); s && !seen.has(s); s = s.rule === "SCO-3" ? undefined : this.steps.get(s.from)) {
      const { exec, rule, from, by, checkpoint } = s;
      seen.add(s);
      chain.push({ exec, rule, from, ...(by === undefined ? {} : { by }), ...(checkpoint === undefined ? {} : { checkpoint }) });
    }
    return chain.reverse();
  }

  /** Every member, step and entry is needed. */
  placed() {
    const three = "AGT-3";
    for (const { member } of this.b.members) need(member.agent === this.b.agent || this.asked.has(member.exec), three, "", `${member.exec} is not needed`);
    const led = new Set();
    const todo = this.b.members.filter((m) => m.member.agent === this.b.agent).map((m) => m.member.index);
    for (let index = todo.pop(); index !== undefined; index = todo.pop()) {
      const s = this.steps.get(index);
      if (!s || led.has(index)) continue;
      led.add(index);
      if (s.by !== undefined) todo.push(s.by);
      if (s.rule !== "SCO-3") todo.push(s.from);
    }
    for (const index of this.steps.keys()) need(led.has(index), three, "", `the step to ${index} is not needed`);
    for (const index of this.byIndex.keys()) need(this.used.has(index), three, "", `entry ${index} is not needed`);
  }

  /** @param {Command[]} commands @param {RuleError} [error] @returns {Verdict} */
  verdict(commands, error) {
    const { d, decided, next, checked, warnings } = this;
    const evidence = { head: this.proven ? this.b.head : "", entries: this.proven ? this.list : [], ...(decided ? { decided } : {}), whole: this.b.index !== undefined };
    /** @type {Verdict} */
    const out = { next, evidence, confirmed: next.confirmed, commands, checked, not_checked: [this.whole ? FOLLOWS : "a later policy, revocation or decision", ...NOT_CHECKED], warnings };
    if (error) out.error = error;
    else if (decided) {
      Object.assign(out, {
        incident: d.incident, decision: refOf(decided), act: d.act, epoch: d.epoch, expires_at: Math.min(d.exp * 1000, d.deadline_at), deadline_at: d.deadline_at,
      });
    }
    return out;
  }
}

/** @param {Member} member its leaf in the tree over the rollback set */
function memberLeaf(member) {
  const { index, ...rest } = member;
  return canonical(rest).replace(',"leaf_hash"', `,"index":${index},"leaf_hash"`);
}

/**
 * @param {import("./root.js").SignedHead} older
 * @param {import("./root.js").SignedHead} newer
 */
function checkedFork(older, newer) {
  try {
    checkFork(older, newer);
  } catch (error) {
    throw error instanceof ForkError ? forks(error) : error;
  }
}

/** @param {ForkError} cause */
function forks(cause) {
  return Object.assign(new RuleError("AGT-1", "AGT-1", cause.message), { cause });
}

/**
 * What was read once, before the passes of a check.
 *
 * @typedef {{links: Registered[], entries: Registered[], first: Registered | undefined, broken: string}} Given
 */

/** @param {import("./bundle.js").Bundle} bundle @param {Accepted} accepted @returns {Given} */
function read(bundle, accepted) {
  const links = checkAccepted(accepted);
  const known = new Map(links.map((e) => [e.leaf, e]));
  /** @type {Registered[]} */
  const entries = [];
  let broken = "";
  for (const { index, leaf } of bundle.entries) {
    try {
      const before = known.get(leaf);
      entries.push(before?.index === index ? before : decodeLeaf(index, leaf));
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      broken ||= `entry ${index}: ${error.message}`;
    }
  }
  return { links, entries, first: entries[0]?.index === bundle.entries[0]?.index ? entries[0] : undefined, broken };
}

/**
 * Checks a bundle against what its agent has accepted before. The caller stores
 * `next` before anything else, also where `error` says that the bundle is
 * refused; nothing is undone unless the verdict is `confirmed`.
 *
 * @param {import("./bundle.js").Bundle} bundle
 * @param {Accepted} accepted
 * @param {number} now Unix milliseconds, by the agent's own clock
 * @returns {Promise<Verdict>}
 * @throws {import("./errors.js").FormatError} if the state is not well-formed
 */
export async function checkBundle(bundle, accepted, now) {
  const given = read(bundle, accepted);
  const signatures = new Signatures();
  return signatures.settle(() => new Check(bundle, accepted, now, signatures, given).run());
}

