// @ts-check
/**
 * The chain of policies and keys: who may sign what, as of the entries applied
 * (docs/protocol.md, TRU-2, TRU-4 and TRU-5).
 */
import { Refusal } from "./errors.js";
import { sameRef } from "./entry.js";
import { parseKey } from "./key.js";
import { ledgerKeys } from "./root.js";

/**
 * A key that counts or has counted. `revoked` is the index of the entry since
 * which it does not count, 0 while it does; `compromised` the index from which
 * on it is not to be believed, null if its revocation names none.
 *
 * @typedef {import("./merkle.js").Uint} Uint
 * @typedef {import("./entry.js").Registered} Registered
 * @typedef {{key: import("./key.js").PublicKey, principal: string, roles: string[], authority: boolean,
 *   enrolled: Uint, revoked: Uint, compromised: number | null}} KeyInfo
 */

/** The roles that may sign an entry, by kind. */
const ROLES = Object.freeze({
  execution: "agent", checkpoint: "agent", approval: "approver", record: "coordinator approver", attempt: "engine coordinator agent", run: "engine", index: "coordinator",
});
const TASKS = Object.freeze({ operator: "create reassign cancel release", agent: "start review complete block" });

/** @param {string} kind @param {any} body @returns {string[]} */
function rolesFor(kind, body) {
  switch (kind) {
    case "signal":
      return [body.standing === "monitor" || body.standing === "operator" ? body.standing : "agent"];
    case "outcome":
      return body.result === "unknown" ? ["agent", "coordinator", "approver"] : ["agent"];
    case "task":
      if (body.op === "create" && "about" in body) return ["engine"];
      return [Object.entries(TASKS).find(([, ops]) => ops.split(" ").includes(body.op))?.[0] ?? "coordinator"];
    case "rollout":
      if (body.op === "abort") return ["operator", "approver", "coordinator"];
      return [body.op === "waive" ? "approver" : "operator"];
    case "decision":
      if (body.act === "override") return ["operator", "approver"];
      if (body.act === "escalate") return ["coordinator", "approver", "agent", "monitor", "operator"];
      return ["coordinator", "approver", ...(body.act === "deny" && body.supersedes ? ["operator"] : [])];
  }
  return /** @type {Record<string, string>} */ (ROLES)[kind]?.split(" ") ?? [];
}

/** @param {string[]} roles */
export const plain = (roles) => roles.length === 1 && roles[0] === "agent";

/** @param {string} problem @param {string} field @param {string} detail */
const refuse = (problem, field, detail) => new Refusal(problem, field, detail);

export class Chain {
  constructor() {
    /** @type {any} the policy in force */
    this.policy = null;
    /** @type {{index: Uint, leaf_hash: string}} */
    this.inForce = { index: 0, leaf_hash: "" };
    /** @type {Map<string, KeyInfo>} */
    this.keys = new Map();
    /** @type {Map<string, {span: string, domain: string, keys: string[]}>} */
    this.agents = new Map();
    /** @type {{index: Uint, policy: any}[]} */
    this.policies = [];
    /** @type {Registered[]} what was applied */
    this.links = [];
    /** @type {{index: Uint, keys: string[]}[]} the ledger's keys, where a policy changed them */
    this.named = [];
  }

  clone() {
    const other = Object.assign(new Chain(), this);
    other.keys = new Map([...this.keys].map(([id, key]) => [id, { ...key }]));
    other.agents = new Map([...this.agents].map(([name, agent]) => [name, { ...agent, keys: [...agent.keys] }]));
    other.policies = [...this.policies];
    other.links = [...this.links];
    other.named = [...this.named];
    return other;
  }

  /**
   * The key that an entry claims to be signed with, if it counts and may sign
   * this (REG-4). Before the genesis only a policy has a signer, out of its own
   * authority.
   *
   * @param {Registered} e
   * @returns {KeyInfo}
   * @throws {Refusal} unknown-issuer or unauthorized-role
   */
  signer(e) {
    if (!this.policy) {
      for (const a of e.kind === "policy" ? e.body.authority : []) {
        const key = parseKey(a.key);
        if (a.principal === e.body.iss && key.id === e.keyid)
          return { key, principal: a.principal, roles: [], authority: true, enrolled: 0, revoked: 0, compromised: null };
      }
      throw refuse("unknown-issuer", "keyid", "the log is empty: only a genesis policy that names the key may be signed with it");
    }
    const key = this.keys.get(e.keyid);
    if (!key || key.principal !== e.body.iss) throw refuse("unknown-issuer", "keyid", `${e.keyid} is not enrolled for ${e.body.iss}`);
    if (key.revoked) throw refuse("unknown-issuer", "keyid", `${e.keyid} is not valid since index ${key.revoked}`);
    if (key.authority && (e.kind === "policy" || e.kind === "agent")) return key;
    const allowed = e.kind === "agent" && plain(e.body.roles) ? this.policy.roles.agent ?? [] : rolesFor(e.kind, e.body);
    if (allowed.some((/** @type {string} */ role) => key.roles.includes(role))) return key;
    throw refuse("unauthorized-role", "iss", `${e.body.iss} may not sign this ${e.kind}`);
  }

  /**
   * Whether a policy or agent entry, whose signer is known, may stand at its
   * index.
   *
   * @param {Registered} e
   * @param {{authority: boolean}} signer
   * @throws {Refusal}
   */
  admit(e, signer) {
    if (e.kind === "policy") this.#admitPolicy(e);
    else this.#admitAgent(e, signer);
  }

  /** @param {Registered} e */
  #admitPolicy(e) {
    const p = e.body;
    if (!this.policy && e.index !== 0) throw refuse("state-conflict", "", "the genesis policy stands at index 0");
    if (!this.policy && p.previous) throw refuse("state-conflict", "previous", "the genesis policy replaces none");
    if (this.policy && !sameRef(p.previous, this.inForce)) throw refuse("policy-superseded", "previous", `not the policy in force, at index ${this.inForce.index}`);
    for (const a of p.authority) {
      const known = this.keys.get(parseKey(a.key).id);
      if (known && (known.roles.length || known.principal !== a.principal)) throw refuse("state-conflict", "authority", "a key was let in for something else");
    }
    /** @type {string[]} */
    const before = this.policy?.ledger_keys ?? [];
    const keys = p.ledger_keys ?? [];
    if (!keys.length) {
      if (before.length) throw refuse("state-conflict", "ledger_keys", "absent, but the policy in force names the ledger's keys");
      return;
    }
    let found;
    try {
      found = ledgerKeys(keys, p.aud);
    } catch (error) {
      throw refuse("malformed", "ledger_keys", String(error));
    }
    if (before.length && !found.some((key) => before.includes(key.text))) throw refuse("state-conflict", "ledger_keys", "no Ed25519 key of those in force");
  }

  /** @param {string} principal whether it has, or had, a role beyond plain agent */
  raised(principal) {
    return this.agents.get(principal)?.keys.some((id) => !plain(this.keys.get(id)?.roles ?? [])) ?? false;
  }

  /** @param {Registered} e @param {{authority: boolean}} signer */
  #admitAgent(e, signer) {
    const a = e.body;
    const known = this.agents.get(a.principal);
    const raised = this.raised(a.principal) || this.policy.authority.some((/** @type {any} */ x) => x.principal === a.principal);
    if (!signer.authority && raised) throw refuse("unauthorized-role", "principal", `${a.principal} is more than a plain agent`);
    if (known && known.span !== a.span) throw refuse("state-conflict", "span", "it never changes");
    const key = this.keys.get(parseKey(a.key).id);
    if (a.op !== "revoke") {
      if (key) throw refuse("state-conflict", "key", "a key is enrolled once");
      if (a.op === "rotate" && !this.valid(a.principal).length) throw refuse("unknown-subject", "principal", "it has no key to replace");
      return;
    }
    if (!key) throw refuse("unknown-subject", "key", "not enrolled");
    const since = a.compromised_since?.index;
    if (!key.roles.length || key.principal !== a.principal || key.revoked || since > e.index) throw refuse("state-conflict", "key", "cannot be revoked so");
  }

  /** @param {string} principal @returns {KeyInfo[]} its keys that are not revoked */
  valid(principal) {
    const keys = (this.agents.get(principal)?.keys ?? []).map((id) => /** @type {KeyInfo} */ (this.keys.get(id)));
    return keys.filter((key) => !key.revoked);
  }

  /** @param {Registered} e a policy or agent entry that was admitted */
  apply(e) {
    if (e.kind === "policy") this.#applyPolicy(e);
    else this.#applyAgent(e);
    this.links.push(e);
  }

  /** @param {Registered} e */
  #applyPolicy(e) {
    for (const key of this.keys.values()) if (key.authority) Object.assign(key, { authority: false, revoked: e.index });
    for (const a of e.body.authority) {
      const key = parseKey(a.key);
      const known = this.keys.get(key.id) ?? { key, principal: a.principal, roles: [], authority: true, enrolled: e.index, revoked: 0, compromised: null };
      this.keys.set(key.id, Object.assign(known, { authority: true, revoked: 0 }));
    }
    const keys = e.body.ledger_keys ?? [];
    if (keys.join("\n") !== (this.policy?.ledger_keys ?? []).join("\n")) this.named.push({ index: e.index, keys });
    this.policy = e.body;
    this.inForce = { index: e.index, leaf_hash: e.leafHash };
    this.policies.push({ index: e.index, policy: e.body });
  }

  /** @param {Registered} e */
  #applyAgent(e) {
    const a = e.body;
    const key = parseKey(a.key);
    if (a.op === "revoke") {
      const known = this.keys.get(key.id);
      if (known) Object.assign(known, { revoked: e.index, compromised: a.compromised_since?.index ?? known.compromised });
      return;
    }
    if (a.op === "rotate") for (const old of this.valid(a.principal)) old.revoked = e.index;
    /** @type {{span: string, domain: string, keys: string[]}} */
    const known = this.agents.get(a.principal) ?? { span: a.span, domain: "", keys: [] };
    known.domain = a.domain;
    known.keys.push(key.id);
    this.agents.set(a.principal, known);
    this.keys.set(key.id, { key, principal: a.principal, roles: a.roles, authority: false, enrolled: e.index, revoked: 0, compromised: null });
  }
}
