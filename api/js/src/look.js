// @ts-check
/** What an agent learns: hints, bundles, and the log itself. */
import { Base, event } from "./base.js";
import { Forked, LedgerError, Refused } from "./errors.js";
import { openHead } from "./ledger.js";
import { check, forkOf, ruleOf } from "./verdict.js";
import { DISTRUST_MAX, DOUBTS_MAX, Order, Pause, PAUSE_MIN, PROOFS_MAX, Unseen } from "./work.js";
import { base64 } from "./verify/bytes.js";
import { refOf } from "./verify/entry.js";
import { RuleError } from "./verify/errors.js";
import { canonical } from "./verify/json.js";
import { checkConsistency, hashLeaf, treeRoot } from "./verify/merkle.js";

export const LOOK_MS = 30_000;
const PAGE = 64; // entries of the log at a time
const SAVED_EVERY = 1024;
const PLAN_MEMBERS = ["agent", "checkpoint", "exec", "index", "leaf_hash", "method"];

/**
 * @typedef {import("./ledger.js").Logged} Logged
 * @typedef {import("./ledger.js").Hints} Hints
 * @typedef {import("./verdict.js").Verdict} Verdict
 * @typedef {import("./work.js").Ask} Ask
 * @typedef {{did: boolean, wake: number}} Did what one thing that an agent may do next returns: whether it did it, and when it wants to be
 *   asked again, in Unix milliseconds, 0: never
 */

/** @type {Did} */
export const DONE = Object.freeze({ did: true, wake: 0 });

/** Nothing was done. @param {number} [wake] @returns {Did} */
export const idleTill = (wake = 0) => ({ did: false, wake });

/** The earlier of two instants, 0 being none. @param {number} one @param {number} other */
export const earlier = (one, other) => (one && other ? Math.min(one, other) : one || other);

/** The agent of an execution. @param {string} exec */
const agentOf = (exec) => exec.split("#")[0];

/** Asks for hints and bundles, checks them, and follows the log. */
export class Looker extends Base {
  /** Asks for hints when it is time. @param {number} now @returns {Promise<Did>} */
  async look(now) {
    const due = Math.max(this.lookAt, this.looking.till);
    if (due > now) return idleTill(due);
    /** @type {Hints} */
    let hints;
    this.lookAt = now + LOOK_MS; // whoever wants it sooner meanwhile, is asked again
    try {
      hints = await this.hear();
    } catch (why) {
      this.lookAt = now;
      this.postpone(this.looking, 0, why, now);
      return DONE;
    }
    this.looking = new Pause();
    this.hintedAt = hints.size;
    if (!this.stored || (hints.news && hints.news >= this.size)) this.wantBundle(0);
    this.hinted = new Map(hints.commands.map((h) => [h.incident, h.decision]));
    for (const h of hints.commands) {
      const o = this.orders.get(h.incident);
      const stale = !o || o.decision.index !== h.decision || o.links !== this.accepted.links.length;
      if (!o || stale || (h.changed >= o.size && this.#waits(o))) this.wantBundle(h.incident);
    }
    return DONE;
  }

  /** The hints of the server. @returns {Promise<Hints>} */
  async hear() {
    return this.cfg.ledger.commands(this.cfg.agent, 0, 0);
  }

  /** Whether a member is not released yet, so that the order can change. @param {Order} o */
  #waits(o) {
    return o.commands.some((c) => {
      const works = this.about(c.exec).filter((w) => w.incident && w.decision.index === o.decision.index && w.hook !== "drain");
      return !c.result && !c.released && c.method !== "none" && works.every((w) => w.phase === "noted");
    });
  }

  /**
   * Puts off what the ledger did not answer. Two logs stop the agent.
   *
   * @param {Pause} pause @param {number} incident @param {unknown} why @param {number} now
   */
  postpone(pause, incident, why, now) {
    if (why instanceof Forked) this.forked(why);
    if (!(why instanceof LedgerError)) throw why;
    pause.failed(now, why instanceof Refused ? why.retryAfter : 0);
    this.cfg.tell(event("retry", { incident, error: why }));
  }

  // Bundles

  /** Fetches one page of one bundle, checks it, and stores what is accepted. @param {number} now @returns {Promise<Did>} */
  async ask(now) {
    let wake = 0;
    for (const [incident, q] of [...this.asks].sort(([a], [b]) => a - b)) {
      if (q.pause.till <= now) {
        await this.#fetch(incident, q, now);
        return DONE;
      }
      wake = earlier(wake, q.pause.till);
    }
    return idleTill(wake);
  }

  /** @param {number} incident @param {Ask} q @param {number} now */
  async #fetch(incident, q, now) {
    const { ledger, agent, absences } = this.cfg;
    let got;
    try {
      got = await ledger.bundle(agent, incident, { from: this.size, after: q.after, whole: q.whole && this.size > 0, absences: absences && incident > 0 }, q.doubts > 0 || q.pause.tries > 0);
    } catch (why) {
      if (!(why instanceof Refused) || why.temporary) return this.postpone(q.pause, incident, why, now);
      this.asks.delete(incident); // it is hinted at again, if there is anything
      this.cfg.tell(event("refused", { incident, error: why }));
      return;
    }
    const v = await check(got.data, this.accepted, now);
    if (!v.error && absences && v.decision && !v.whole) v.error = new RuleError("AGT-2", "ABS-1", "the bundle does not prove that nothing is left out");
    await this.keep(v.next);
    if (v.head && v.head === this.accepted.head) this.noteResults(v.entries);
    this.#page(incident, q, v, got.after, now);
  }

  /** @param {number} incident @param {Ask} q @param {Verdict} v @param {number} after @param {number} now */
  #page(incident, q, v, after, now) {
    if (v.error) {
      if (v.head && v.head === this.accepted.head && after > q.after && v.expires_at && now >= v.expires_at) this.#again(q, after, now);
      else this.#distrust(incident, q, v.error, now);
      return;
    }
    this.mistrust = 0;
    if (!v.decision || v.incident !== incident) {
      q.after = after;
      if (after) return;
      this.asks.delete(incident);
      if (!this.overriddenAt(incident)) this.orders.delete(incident);
      return;
    }
    if (q.after && q.order?.decision.index !== v.decision.index) return this.#again(q, 0, now);
    q.after = after;
    this.#take(q, v, v.decision, now);
  }

  /** Asks from a place on again, after the shortest pause. @param {Ask} q @param {number} after @param {number} now */
  #again(q, after, now) {
    q.after = after;
    q.order = null;
    q.pause.till = now + PAUSE_MIN;
  }

  /**
   * A bundle does not verify: it is asked for again, unless it shows two logs.
   *
   * @param {number} incident @param {Ask} q @param {NonNullable<Verdict["error"]>} why @param {number} now
   */
  #distrust(incident, q, why, now) {
    q.after = 0;
    q.order = null;
    const fork = forkOf(why);
    if (fork) {
      this.mistrust++;
      if (fork.proven || this.mistrust >= PROOFS_MAX)
        this.forked(new Forked("a bundle shows another log than the accepted one", [fork.first, fork.second], fork.proven));
    }
    if (/TRU-[23]/.test(ruleOf(why))) q.whole = true;
    q.pause.failed(now);
    if (q.pause.tries >= DISTRUST_MAX) this.asks.delete(incident);
    this.cfg.tell(event("refused", { incident, error: why }));
  }

  /** Takes up the entries that gave the agent's members their results. @param {Logged[]} entries */
  noteResults(entries) {
    for (const e of entries) {
      if (e.kind === "outcome" && agentOf(e.body.exec) === this.cfg.agent) {
        const of = `${e.body.incident} ${e.body.exec}`;
        const known = this.stands.get(of);
        if (!known || known.index < e.index) this.stands.set(of, refTo(e));
      }
      if (e.kind === "decision" && e.body.act === "override") this.override(e.body.incident, refTo(e));
    }
  }

  /** Takes up a page of a bundle that verified. @param {Ask} q @param {Verdict} v @param {import("./work.js").Ref} decision @param {number} now */
  #take(q, v, decision, now) {
    const { incident } = v;
    let o = q.order;
    if (o?.decision.index !== decision.index) o = q.order = new Order(decision, v.epoch, v.expires_at, v.deadline_at);
    Object.assign(o, { epoch: v.epoch, expires_at: v.expires_at, deadline_at: v.deadline_at, size: this.size, links: this.accepted.links.length, complete: !q.after });
    this.#evidence(o, v);
    for (const c of v.commands) o.commands = [...o.commands.filter((old) => old.exec !== c.exec), c];
    const doubtful = (!q.after && this.#kept(o, incident)) || v.commands.some((c) => c.doubtful);
    if (doubtful && q.doubts < DOUBTS_MAX) { // who carried it may have altered it, or left something out
      q.doubts++;
      q.after = 0;
      q.order = null;
      q.pause.failed(now);
      this.cfg.tell(event("refused", { incident, text: "the bundle does not prove a member" }));
      return;
    }
    if (q.after) return;
    this.asks.delete(incident);
    o.commands.sort((a, b) => b.index - a.index);
    this.orders.set(incident, o);
    this.cfg.tell(event("accepted", { incident }));
  }

  /** Takes over what an order before showed of the same decision; whether there was anything. @param {Order} o @param {number} incident */
  #kept(o, incident) {
    const before = this.orders.get(incident);
    if (!before || before.decision.index !== o.decision.index) return false;
    const left = before.commands.filter((c) => !o.command(c.exec));
    for (const c of left) {
      o.commands.push(c);
      o.firsts.set(c.exec, before.firsts.get(c.exec) ?? "");
    }
    return left.length > 0;
  }

  /** Keeps what the commands do not say: when the incident was opened, where outcomes stand. @param {Order} o @param {Verdict} v */
  #evidence(o, v) {
    const byIndex = new Map(v.commands.map((c) => [c.index, c.exec]));
    for (const c of v.commands) if (!c.result) this.stands.delete(`${v.incident} ${c.exec}`);
    for (const e of v.entries) {
      const exec = byIndex.get(e.index);
      if (exec !== undefined) o.firsts.set(exec, e.canonical);
      for (const c of v.commands) if (c.result && c.outcome === e.index) this.stands.set(`${v.incident} ${c.exec}`, refTo(e));
      if (e.index === v.incident) {
        o.opened_at = e.at;
        o.wid = e.body.wid;
      }
    }
  }

  /** Has the second source confirm the head of a first contact. @param {number} now @returns {Promise<Did>} */
  async confirmHead(now) {
    if (this.accepted.confirmed || !this.stored || !this.cfg.confirm) return idleTill();
    if (this.second.till > now) return idleTill(this.second.till);
    try {
      await this.#connected(await this.cfg.confirm());
    } catch (why) {
      this.postpone(this.second, 0, why, now);
      return DONE;
    }
    await this.keep({ ...this.accepted, confirmed: true });
    return DONE;
  }

  /** Proves that a signed head and the accepted head are of one log. @param {string} note @throws {LedgerError} */
  async #connected(note) {
    const { root, head } = this.accepted;
    let heads;
    try {
      heads = [await openHead(root, note), await openHead(root, head)];
    } catch (why) {
      throw new LedgerError("the second source shows no tree head of the pinned ledger", "pass another confirm:", why);
    }
    const [older, newer] = /** @type {[import("./ledger.js").Head, import("./ledger.js").Head]} */ (heads.sort((a, b) => a.size - b.size));
    if (older.size === newer.size && older.root !== newer.root)
      throw new Forked("the second source shows another log than the ledger", [older.note, newer.note], true);
    if (checkConsistency(older, newer, await this.cfg.ledger.consistency(older.size, newer.size))) return;
    this.mistrust++;
    const what = `the log of size ${newer.size} is not proven to continue that of size ${older.size}`;
    throw this.mistrust >= PROOFS_MAX ? new Forked(what, [older.note, newer.note], false) : new LedgerError(what, "it is asked again");
  }

  // The log itself

  /** Reads a page of the log. @param {number} now @returns {Promise<Did>} */
  async followLog(now) {
    if (!this.stored) return idleTill();
    if (this.following.till > now) return idleTill(this.following.till);
    this.next ||= this.size;
    if (this.next >= Math.max(this.size, this.hintedAt)) return idleTill();
    let page;
    try {
      const { ledger } = this.cfg;
      page = await ledger.entries(this.next, PAGE);
      if (ledger.accepted && ledger.accepted.note !== this.accepted.head) await this.#connected(ledger.accepted.note);
    } catch (why) {
      this.postpone(this.following, 0, why, now);
      return DONE;
    }
    if (!page.length) {
      this.following.failed(now);
      return DONE;
    }
    this.following = new Pause();
    for (const e of page) this.#read(e);
    this.next += page.length;
    if (this.next - Math.min(this.saved, this.next) >= SAVED_EVERY) {
      this.saved = this.next;
      this.save("followed", this.next);
    }
    return DONE;
  }

  /** @param {Logged} e */
  #read(e) {
    if (["policy", "agent"].includes(e.kind) && e.index >= this.size) this.wantBundle(0);
    if (e.kind === "outcome" && agentOf(e.body.exec) === this.cfg.agent) this.stands.set(`${e.body.incident} ${e.body.exec}`, refTo(e));
    if (e.kind !== "decision") return;
    const { incident, act } = e.body;
    if (act === "override") {
      this.override(incident, refTo(e));
      if (e.index >= this.size) this.wantBundle(0);
    } else if (["authorize", "amend"].includes(act)) {
      const o = this.orders.get(incident);
      if (!o || o.decision.index < e.index) this.unseen.set(incident, new Unseen(e.index, e.body.rollback_set));
    }
  }

  /** Looks after a decision in the log of which the server said nothing. @param {number} now @returns {Promise<Did>} */
  async unannounced(now) {
    let wake = 0;
    for (const [incident, u] of [...this.unseen].sort(([a], [b]) => a - b)) {
      const o = this.orders.get(incident);
      if (o && o.decision.index >= u.index) {
        this.unseen.delete(incident);
        continue;
      }
      if (this.hintedAt <= u.index) continue;
      if (u.pause.till > now) {
        wake = earlier(wake, u.pause.till);
        continue;
      }
      if ((this.hinted.get(incident) ?? 0) >= u.index && u.pause.tries === 0) {
        u.pause.failed(now); // it is asked for, and comes
        continue;
      }
      await this.#compare(incident, u, now);
      return DONE;
    }
    return idleTill(wake);
  }

  /** Computes the root of the plan that the server shows, and looks for members of the agent. @param {number} incident @param {Unseen} u @param {number} now */
  async #compare(incident, u, now) {
    let plan;
    try {
      plan = await this.cfg.ledger.plan(incident);
    } catch (why) {
      return this.postpone(u.pause, incident, why, now);
    }
    const members = plan.map((m) => Object.fromEntries(PLAN_MEMBERS.filter((name) => name in m).map((name) => [name, m[name]])));
    const leaves = members.map((m) => hashLeaf(Buffer.from(canonical(m))));
    const same = leaves.length === u.rollbackSet.size && base64(treeRoot(leaves)) === u.rollbackSet.root;
    const own = members.some((m) => m["agent"] === this.cfg.agent && m["method"] !== "none" && !this.stands.has(`${incident} ${m["exec"]}`));
    if (same && !own) {
      this.unseen.delete(incident);
      return;
    }
    const text = same
      ? `the decision at entry ${u.index} has open members of ${this.cfg.agent}, and the server gives no command`
      : `the plan that the server shows is not that of the decision at entry ${u.index}`;
    if (same) this.wantBundle(incident);
    u.pause.failed(now);
    if (u.pause.tries <= 2 || u.told) return;
    u.told = true;
    this.cfg.tell(event("hidden", { incident, text }));
  }
}

/** @param {Logged} e @returns {import("./work.js").Ref} */
const refTo = (e) => /** @type {import("./work.js").Ref} */ (refOf(e));
