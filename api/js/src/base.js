// @ts-check
/** What an agent that obeys keeps: its state, what it accepted, its undertakings. */
import { createHash, createHmac } from "node:crypto";
import { Forked, InputError, LedgerError, StateError, Stopped } from "./errors.js";
import { openHead } from "./ledger.js";
import { residual } from "./signing.js";
import { Damaged } from "./store.js";
import { epochOf, fresh } from "./verdict.js";
import { Ask, KEYS_MAX, Pause, Work } from "./work.js";
import { decodeAccepted, encodeAccepted } from "./verify/bundle.js";
import { FormatError } from "./verify/errors.js";

/** More than every index. */
export const NEVER = 2 ** 53 - 1;

/**
 * Something that happened to an agent that obeys.
 *
 * kind is accepted (a decision), started and ended (a hook), logged (an entry), outcome (of an
 * execution, with the result as text), refused, retry, hidden (a decision that the server does not
 * show), lost (the state) or fork.
 *
 * @typedef {{kind: "accepted" | "started" | "ended" | "logged" | "outcome" | "refused" | "retry" | "hidden" | "lost" | "fork",
 *   incident: number, exec: string, text: string, error: Error | null}} Event
 * @typedef {import("./work.js").Ref} Ref
 * @typedef {import("./work.js").Member} Member
 */

/**
 * What an agent works with. `confirm`: a tree head from another source than the ledger, null: there is none.
 *
 * @typedef {{root: import("./verify/root.js").Root, agent: string, secret: Buffer, signer: import("./signing.js").Signer,
 *   ledger: import("./ledger.js").Ledger, store: import("./store.js").Store, hooks: import("./work.js").Hooks,
 *   tell: (event: Event) => void, confirm: (() => Promise<string>) | null, absences: boolean, attempts: number}} Config
 * @typedef {{origin: string, genesis: string, agent: string, made_at: number, lost: boolean, horizon: number, before: number}} Identity
 */

/** @param {Event["kind"]} kind @param {Partial<Event>} [rest] @returns {Event} */
export const event = (kind, rest = {}) => ({ kind, incident: 0, exec: "", text: "", error: null, ...rest });

/**
 * The identity of a state; with lost, of one that counts as lost.
 *
 * @param {{root: {origin: string, genesis: string}, agent: string}} of @param {number} now @param {boolean} lost @param {number} before
 * @returns {Identity}
 */
export const identityOf = ({ root, agent }, now, lost, before) =>
  ({ origin: root.origin, genesis: root.genesis, agent, made_at: now, lost, horizon: lost ? NEVER : 0, before });

/** The state of an agent that obeys. One call at a time works with it. */
export class Base {
  /** @type {Identity} */
  identity;
  /** The text of what was accepted, as stored. */
  stored = "";
  /** Size of the accepted head. */
  size = 0;
  /** Number of the newest undertaking. */
  number = 0;
  /** Those not closed. @type {Work[]} */
  works = [];
  /** @type {Work[]} */
  all = [];
  /** @type {LedgerError | null} */
  stopped = null;
  /** @type {Map<number, import("./work.js").Order>} */
  orders = new Map();
  /** @type {Map<number, Ask>} */
  asks = new Map();
  /** Decisions that were hinted at, by incident. @type {Map<number, number>} */
  hinted = new Map();
  hintedAt = 0;
  mistrust = 0;
  looking = new Pause();
  second = new Pause();
  following = new Pause();
  /** What gave an execution its result. @type {Map<string, Ref>} */
  stands = new Map();
  /** @type {Map<number, Ref[]>} */
  overrides = new Map();
  /** Of the log, as far as it was read. */
  next = 0;
  saved = 0;
  /** @type {Map<number, import("./work.js").Unseen>} */
  unseen = new Map();

  /** @param {Config} config @param {number} now */
  constructor(config, now) {
    this.cfg = config;
    this.lookAt = now;
    this.accepted = fresh(config.root, config.agent);
    this.identity = identityOf(config, now, true, 0);
  }

  /**
   * Takes up the state.
   *
   * @param {number} now
   * @throws {StateError | InputError | Forked}
   */
  async load(now) {
    const { store } = this.cfg;
    const names = store.names();
    if (names.includes("fork")) this.#readFork();
    /** @type {string[]} */
    const damage = [];
    if (!names.some((name) => name === "agent" || name === "accepted" || name.startsWith("work-")))
      throw new StateError(`state ${store.path}: it was not made`, "pass new: true for an agent that never ran");
    this.#loadIdentity(now, damage);
    if (names.includes("accepted")) await this.#loadAccepted(damage);
    const broken = this.#loadWorks(names, damage);
    try {
      this.next = names.includes("followed") ? Number(store.load("followed")) || 0 : 0;
    } catch {
      this.next = 0;
    }
    if (!this.stored && (this.works.length || broken.length) && !names.includes("accepted"))
      damage.push("document accepted: missing, although undertakings rest on it");
    if (damage.length) this.repair(now, damage, broken);
  }

  /** @returns {never} */
  #readFork() {
    let heads;
    try {
      heads = this.cfg.store.load("fork").heads;
    } catch {
      heads = null;
    }
    const good = Array.isArray(heads) && heads.length === 2;
    const what = "the ledger has shown two logs";
    throw (this.stopped = good ? new Forked(what, [String(heads[0]), String(heads[1])], true) : new Forked(`${what}, and the evidence of it is damaged`, ["", ""], false));
  }

  /** @param {number} now @param {string[]} damage */
  #loadIdentity(now, damage) {
    const { store } = this.cfg;
    const mine = identityOf(this.cfg, now, true, 0);
    /** @type {any} */
    let found;
    try {
      found = store.load("agent");
      if (typeof found?.agent !== "string" || !Number.isSafeInteger(found.made_at)) throw new Damaged("document agent: not an identity");
    } catch (why) {
      if (!(why instanceof Damaged)) throw why;
      damage.push(why.message);
      return;
    }
    if (["origin", "genesis", "agent"].some((name) => found[name] !== /** @type {any} */ (mine)[name]))
      throw new InputError(`state ${store.path}: of ${found.agent} at ${found.origin}`, "give each agent, at each ledger, a state of its own");
    this.identity = { ...mine, ...found, horizon: Math.min(Number(found.horizon) || 0, NEVER) };
  }

  /** @param {string[]} damage */
  async #loadAccepted(damage) {
    const { root: mine, agent, store } = this.cfg;
    try {
      const text = store.loadText("accepted");
      const value = decodeAccepted(text);
      const { root } = value;
      if (value.agent !== agent || root.origin !== mine.origin || root.genesis !== mine.genesis) throw new Damaged("document accepted: of another agent or ledger");
      if ((root.since ?? 0) < (mine.since ?? 0)) value.root = mine;
      this.size = value.head ? (await openHead(value.root, value.head)).size : 0;
      this.accepted = value;
      this.stored = text;
    } catch (why) {
      if (!(why instanceof Damaged || why instanceof FormatError || why instanceof LedgerError)) throw why;
      damage.push(`document accepted: ${why.message}`);
    }
  }

  /** @param {string[]} names @param {string[]} damage @returns {string[]} names of those that cannot be read */
  #loadWorks(names, damage) {
    /** @type {string[]} */
    const broken = [];
    /** @type {Work[]} */
    const loaded = [];
    for (const name of names.filter((one) => one.startsWith("work-"))) {
      try {
        const work = Work.read(name, this.cfg.store.load(name));
        if (work) loaded.push(work);
      } catch (why) {
        if (!(why instanceof Damaged)) throw why;
        broken.push(name);
        damage.push(why.message);
      }
    }
    const numbers = new Set(loaded.map((work) => work.number));
    const { before } = this.identity;
    this.number = Math.max(before, ...numbers);
    for (let n = before + 1; n <= this.number; n++) {
      if (numbers.has(n)) continue;
      damage.push(`undertaking ${n} is missing, although later undertakings exist`);
      break;
    }
    loaded.sort((a, b) => a.decision.index - b.decision.index || a.number - b.number);
    for (const work of loaded) this.add(work);
    return broken;
  }

  /** Makes the state count as lost, and then replaces what is damaged. @param {number} now @param {string[]} damage @param {string[]} broken */
  repair(now, damage, broken) {
    for (const text of damage) this.cfg.tell(event("lost", { text }));
    this.identity = identityOf(this.cfg, now, true, this.number);
    this.save("agent", this.identity);
    for (const name of broken) this.save(name, {});
    if (!this.stored) this.next = 0;
  }

  /** Replaces a document. A failure stops the agent: what the state holds is not known then. @param {string} name @param {any} value */
  save(name, value) {
    this.#stopping(() => this.cfg.store.save(name, value));
  }

  /** @param {() => void} save */
  #stopping(save) {
    try {
      save();
    } catch (why) {
      if (why instanceof StateError) this.stop(why);
      throw why;
    }
  }

  /** Stores an undertaking without what the log has of its outbox. @param {Work} work */
  saveWork(work) {
    if (work.phase !== "noted") {
      work.outbox = work.outbox.slice(work.mem.sent);
      work.mem.sent = 0;
    }
    this.save(work.name, work.document());
  }

  /** Stops the agent. @param {LedgerError} why @returns {never} */
  stop(why) {
    this.stopped = why;
    throw new Stopped(why);
  }

  /** Stores two heads that contradict each other, and stops the agent. @param {Forked} why @returns {never} */
  forked(why) {
    this.cfg.tell(event("fork", { error: why }));
    this.save("fork", { heads: why.heads, detail: why.what });
    this.stop(why);
  }

  /** Stores an accepted state, before anything that rests on it. @param {import("./verdict.js").Accepted} accepted */
  async keep(accepted) {
    if (!accepted.head) return;
    const text = encodeAccepted(accepted);
    if (text === this.stored) return;
    const { size } = await openHead(accepted.root, accepted.head);
    this.#stopping(() => this.cfg.store.saveText("accepted", text));
    this.accepted = accepted;
    this.stored = text;
    this.size = size;
    this.settle();
  }

  /** Fixes, once a head is confirmed, what a lost state counts as open. */
  settle() {
    if (!this.accepted.confirmed || this.identity.horizon !== NEVER) return;
    this.identity.horizon = this.size;
    this.save("agent", this.identity);
  }

  /** Whether work on an incident may have been started under an earlier state. @param {number} incident @param {number} openedAt */
  lost(incident, openedAt) {
    return this.identity.lost && (incident < this.identity.horizon || openedAt < this.identity.made_at);
  }

  // Undertakings

  /** Takes up an undertaking. @param {Work} work */
  add(work) {
    this.all.push(work);
    if (work.phase !== "closed") this.works.push(work);
    this.number = Math.max(this.number, work.number);
  }

  /** All undertakings about an execution, as they came. @param {string} exec */
  about(exec) {
    return this.all.filter((work) => work.about(exec));
  }

  /** All restores of an incident, as they came. @param {number} incident */
  restoresOf(incident) {
    return this.all.filter((work) => work.hook === "restore" && work.incident === incident);
  }

  /** Asks for the bundle of an incident; 0 asks for news. @param {number} incident */
  wantBundle(incident) {
    if (!this.asks.has(incident)) this.asks.set(incident, new Ask());
  }

  /** The idempotency key of an attempt to compensate (EXE-4). @param {string} exec @param {number} attempt */
  keyOf(exec, attempt) {
    return createHmac("sha256", this.cfg.secret).update(`${this.cfg.root.origin}|${exec}|${attempt}`).digest("hex");
  }

  /**
   * The call for the hook of an undertaking, or for probe about it.
   *
   * @param {Work} work @param {boolean} probe
   * @returns {import("./work.js").Call}
   */
  call(work, probe) {
    const { exec } = work.member;
    const compensates = work.hook === "compensate";
    const tries = !compensates || !probe ? [] : work.lost ? Array.from({ length: KEYS_MAX }, (_, attempt) => attempt) : [work.attempt];
    const hook = /** @type {import("./work.js").Hook} */ (work.hook);
    return {
      hook: probe ? "probe" : hook, of: probe ? hook : "", incident: work.incident, decision: work.decision, members: work.members,
      checkpoint: work.checkpoint, digest: work.digest, standing: work.standing, attempt: work.attempt,
      key: compensates ? this.keyOf(exec, work.attempt) : "", keys: tries.map((attempt) => this.keyOf(exec, attempt)),
      comp_exec: work.comp_exec ? `${this.cfg.agent}#${work.comp_exec}` : "", expires_at: work.expires_at,
    };
  }

  // Entries to log

  /**
   * Adds an entry to the outbox of an undertaking.
   *
   * @param {Work} work @param {string} kind @param {Record<string, any>} body @param {boolean} optional @param {number} now
   */
  entry(work, kind, body, optional, now) {
    work.outbox.push({ envelope: this.cfg.signer.sign(kind, body, now), optional });
  }

  /** Adds progress of the execution that compensates. @param {Work} work @param {string} progress @param {boolean} optional @param {number} now */
  compensation(work, progress, optional, now) {
    const { exec, wid } = work.member;
    const digest = createHash("sha256").update(this.keyOf(exec, work.attempt)).digest("hex");
    this.entry(work, "execution", {
      wid, exec: work.comp_exec, parents: [], effect: "irrevocable", progress, idempotency_key: `sha256:${digest}`,
      compensates: { incident: work.incident, decision: work.decision, exec },
    }, optional, now);
  }

  /** Adds what became of a member. @param {Work} work @param {Member} member @param {string} result @param {string} why @param {number} now */
  outcome(work, member, result, why, now) {
    /** @type {Record<string, any>} */
    const body = { wid: work.wid, incident: work.incident, decision: work.decision, exec: member.exec, result, observed_at: now };
    if (result === "restored") body["post_digest"] = work.digest;
    else if (result === "compensated") body["comp_exec"] = `${this.cfg.agent}#${work.comp_exec}`;
    else if (result !== "not_executed") body["residual"] = residual(why);
    this.supersede(body, 0);
    this.entry(work, "outcome", body, member.method === "none", now);
  }

  /** Has an outcome take the place of what may stand, but for what was refused already. @param {Record<string, any>} body @param {number} refused */
  supersede(body, refused) {
    delete body["supersedes"];
    const known = this.standing(body);
    if (refused < known.length) body["supersedes"] = known[refused];
  }

  /**
   * What may have given a member its result, as far as is known, the likeliest first.
   *
   * @param {Record<string, any>} body
   * @returns {Ref[]}
   */
  standing(body) {
    const { incident, exec, decision } = body;
    const at = this.stands.get(`${incident} ${exec}`);
    if (at) return [at];
    const known = this.overrides.get(incident) ?? [];
    const later = known.filter((ref) => ref.index >= decision.index);
    const shown = this.orders.get(incident);
    const command = shown?.decision.index === decision.index ? shown?.command(exec) : undefined;
    if (command && !command.result) return later;
    return [...later, ...known.filter((ref) => !later.includes(ref))];
  }

  /** Takes up an override. @param {number} incident @param {Ref} ref */
  override(incident, ref) {
    const known = this.overrides.get(incident) ?? [];
    if (known.every((other) => other.index !== ref.index)) known.push(ref);
    this.overrides.set(incident, known.sort((a, b) => a.index - b.index));
  }

  /** Index of the newest override of an incident; 0: none is known. @param {number} incident */
  overriddenAt(incident) {
    return this.overrides.get(incident)?.at(-1)?.index ?? 0;
  }

  /** @param {number} incident @param {number} now */
  epoch(incident, now) {
    return epochOf(this.accepted, incident, now);
  }
}
