// @ts-check
/** What an agent begins: one hook at a time, each only while its decision stands (AGT-2, AGT-4). */
import { event } from "./base.js";
import { DONE, earlier, idleTill, Looker } from "./look.js";
import { KEYS_MAX, Work } from "./work.js";

/**
 * @typedef {import("./verdict.js").Command} Command
 * @typedef {import("./work.js").Order} Order
 * @typedef {import("./work.js").Report} Report
 * @typedef {import("./look.js").Did} Did
 */

const OVER = "not started: the decision's time is over";
const UNDONE = ["restored", "compensated", "not_executed"];

/** Whether an undertaking is what a command asks for now. @param {Work} work @param {Command} c */
const does = (work, c) => work.checkpoint === c.checkpoint && work.members.some((m) => m.exec === c.exec && m.method === c.method);

/** Starts what a decision in force asks for, and answers what cannot be started. */
export class Beginner extends Looker {
  /**
   * Calls a hook, or probe about it, and takes up what it reports.
   *
   * @param {Work} _work @param {boolean} _probe @param {number} _now
   * @returns {Promise<void>}
   */
  async run(_work, _probe, _now) {
    throw new Error("not defined");
  }

  /** Notes how a hook ended, with the entries that report it. @param {Work} _work @param {Report} _report @param {number} _now */
  finish(_work, _report, _now) {
    throw new Error("not defined");
  }

  // Whether something may start now

  /** The order about an incident if the agent may start work on it now. @param {number} incident @param {number} now @returns {Order | null} */
  inForce(incident, now) {
    const o = this.orders.get(incident);
    if (!o || !this.accepted.confirmed || o.over(now) || o.links !== this.accepted.links.length) return null;
    return this.epoch(incident, now) > o.epoch || this.ended(incident, o, now) ? null : o;
  }

  /** Why the agent will start nothing more on an order; empty if it still may. @param {number} incident @param {Order} o @param {number} now */
  ended(incident, o, now) {
    const at = this.overriddenAt(incident);
    if (at > o.decision.index) return `not started: overridden at entry ${at}`;
    return o.over(now) ? OVER : "";
  }

  /** Whether an override gave a member its result. @param {number} incident @param {Command} c */
  withheld(incident, c) {
    return c.result === "withheld" && (this.overrides.get(incident) ?? []).some((at) => at.index === c.outcome);
  }

  /** Whether the entries that come before a hook may be logged now. @param {Work} work @param {number} now */
  mayPrepare(work, now) {
    const o = this.inForce(work.incident, now);
    const c = o && o.decision.index === work.decision.index ? o.command(work.member.exec) : undefined;
    return c !== undefined && !c.result && !c.refused && c.released;
  }

  /** Starts one undertaking that may start, or answers one member that may not. @param {number} now @returns {Promise<Did>} */
  async begin(now) {
    let wake = 0;
    for (const work of [...this.works]) {
      if (work.phase !== "noted") continue;
      if (await this.#prepared(work, now)) return DONE;
      if (work.mem.waitTill > now) wake = earlier(wake, work.mem.waitTill);
    }
    for (const [incident, o] of [...this.orders].sort(([a], [b]) => a - b)) {
      const why = this.ended(incident, o, now);
      if (why) {
        if (this.#withhold(incident, o, why, now)) return DONE;
        this.orders.delete(incident);
        continue;
      }
      if (!this.inForce(incident, now)) {
        if (this.accepted.confirmed && o.links !== this.accepted.links.length) this.wantBundle(incident);
        continue;
      }
      wake = earlier(wake, Math.min(o.expires_at, o.deadline_at));
      o.waiting = new Set();
      for (const c of o.commands) if (await this.#command(incident, o, c, now)) return DONE;
    }
    return idleTill(wake);
  }

  // Answers

  /** Answers the next open member that was not started. @param {number} incident @param {Order} o @param {string} why @param {number} now */
  #withhold(incident, o, why, now) {
    const c = o.commands.find((one) => !one.result && one.method !== "none" && !this.covering(incident, one));
    if (c) this.#unstarted(incident, o, c, why, now);
    return c !== undefined;
  }

  /** @param {number} incident @param {Order} o @param {Command} c @param {string} why @param {number} now */
  #unstarted(incident, o, c, why, now) {
    if (this.lost(incident, o.opened_at)) this.#answer(incident, o, c, { result: "unknown", why: "whether it was started is not known: the state was lost" }, now);
    else this.#answer(incident, o, c, { result: "withheld", why }, now);
  }

  /**
   * Notes what is to be said of a member without a hook.
   *
   * @param {number} incident @param {Order} o @param {Command} c @param {{result: string, why: string}} said @param {number} now
   * @returns {true}
   */
  #answer(incident, o, c, { result, why }, now) {
    const work = this.#new(incident, o, "", c);
    work.phase = "done";
    this.outcome(work, work.member, result, why, now);
    this.add(work);
    this.save(work.name, work.document());
    return true;
  }

  /**
   * An undertaking about members.
   *
   * @param {number} incident @param {Order} o @param {Work["hook"]} hook @param {Command[]} commands one at least
   */
  #new(incident, o, hook, ...commands) {
    const c = /** @type {Command} */ (commands[0]);
    const members = commands.map((m) => ({ exec: m.exec, index: m.index, wid: m.wid || o.wid, effect: m.effect, method: m.method }));
    return new Work({
      name: `work-${o.decision.index}-${c.index}-${hook || "answer"}`, hook, number: this.number + 1, phase: "noted", incident, wid: o.wid,
      decision: o.decision, epoch: o.epoch, expires_at: o.expires_at, deadline_at: o.deadline_at, members, checkpoint: c.checkpoint, digest: c.digest,
      standing: [...new Set(commands.flatMap((m) => m.standing))], first: hook === "drain" ? o.firsts.get(c.exec) ?? "" : "",
    });
  }

  /** The undertaking that has seen to a member, or is about it. @param {number} incident @param {Command} c @returns {Work | undefined} */
  covering(incident, c) {
    return this.about(c.exec).findLast((work) => {
      if (work.incident !== incident || (work.hook === "drain" && (work.phase !== "closed" || work.status === "done"))) return false;
      return work.hook === "drain" || does(work, c); // else it was reopened: the line is to go further back
    });
  }

  /** The newest undertaking of a hook about a member. @param {number} incident @param {string} exec @param {Work["hook"]} hook */
  find(incident, exec, hook) {
    return this.about(exec).findLast((w) => w.incident === incident && w.hook === hook);
  }

  // What is prepared already

  /** Starts an undertaking that was noted, or withdraws it. @param {Work} work @param {number} now @returns {Promise<boolean>} */
  async #prepared(work, now) {
    const known = this.orders.get(work.incident);
    let ended = known ? this.ended(work.incident, known, now) : now >= Math.min(work.expires_at, work.deadline_at) ? OVER : "";
    const at = this.overriddenAt(work.incident);
    if (at > work.decision.index) ended ||= `not started: overridden at entry ${at}`;
    if (ended) return this.#withdraw(work, "withheld", ended, now);
    const o = this.inForce(work.incident, now);
    if (!o) return false;
    const c = o.command(work.member.exec);
    if (c && this.withheld(work.incident, c)) return this.#withdraw(work, "withheld", `not started: overridden at entry ${c.outcome}`, now);
    if (!c || c.result) return this.#withdraw(work, "", "", now);
    if (c.refused) return this.#withdraw(work, "refused", c.refused, now);
    if (work.hook !== "drain" && !does(work, c)) return this.#withdraw(work, "", "", now);
    if (o.decision.index !== work.decision.index) return this.#renew(work, o, now);
    if (work.mem.waitTill > now || work.mem.sent < work.outbox.length || (!c.released && work.hook !== "drain")) return false;
    await this.#start(work, now);
    return true;
  }

  /** Ends an undertaking that was not started. @param {Work} work @param {string} result @param {string} why @param {number} now @returns {true} */
  #withdraw(work, result, why, now) {
    work.outbox = [];
    work.mem.sent = 0;
    if (work.hook === "compensate") this.compensation(work, "cancelled", true, now);
    const said = work.status === "no_effect" && result === "withheld" ? `${why} again; the attempt before had no effect` : why;
    for (const member of result ? work.members : []) this.outcome(work, member, result, said, now);
    work.phase = work.outbox.length ? "done" : "closed";
    this.save(work.name, work.document());
    return true;
  }

  /** Puts an undertaking that was not started under the decision that replaced its own. @param {Work} work @param {Order} o @param {number} now @returns {true} */
  #renew(work, o, now) {
    const { decision, epoch, expires_at, deadline_at } = o;
    Object.assign(work, { decision, epoch, expires_at, deadline_at, outbox: [] });
    work.mem.sent = work.mem.refusals = 0;
    if (work.hook === "compensate") this.prepare(work, now);
    this.save(work.name, work.document());
    return true;
  }

  /** Fills the outbox with what the log must have before a compensation acts (EXE-2). @param {Work} work @param {number} now */
  prepare(work, now) {
    if (work.comp_exec) this.compensation(work, "cancelled", true, now); // of an earlier attempt or decision
    work.comp_exec = `undo-${work.decision.index}-${work.member.index}-${work.attempt}`;
    this.compensation(work, "planned", false, now);
    this.compensation(work, "started", false, now);
  }

  // What a command asks for

  /** Does the next thing about a member. @param {number} incident @param {Order} o @param {Command} c @param {number} now @returns {Promise<boolean>} */
  async #command(incident, o, c, now) {
    if (this.covering(incident, c)) return false;
    if (this.withheld(incident, c) && c.method !== "none") {
      this.#unstarted(incident, o, c, `not started: overridden at entry ${c.outcome}`, now);
      return true;
    }
    if (c.result) return false;
    if (c.refused) return this.#refuse(incident, o, c, now);
    const drain = this.find(incident, c.exec, "drain");
    if (c.method !== "cancel" && this.cfg.hooks.drain && !drain) return this.#add(this.#new(incident, o, "drain", c), o, now);
    if (drain && drain.phase !== "closed") return false;
    return this.#method(incident, o, c, drain?.progress === "cancelled", now);
  }

  /** @param {number} incident @param {Order} o @param {Command} c @param {boolean} ended its drain found that it was not executed @param {number} now */
  async #method(incident, o, c, ended, now) {
    const { hooks } = this.cfg;
    const not = { result: "not_executed", why: "" };
    if (c.method === "cancel") return hooks.cancel ? this.#add(this.#new(incident, o, "cancel", c), o, now) : this.#answer(incident, o, c, not, now);
    if (["residual", "compensate"].includes(c.method) && ended) return this.#answer(incident, o, c, not, now);
    if (c.method === "residual") return this.#residual(incident, o, c, now);
    if (c.method === "compensate") {
      const work = this.#new(incident, o, "compensate", c);
      if (!hooks.compensate || hooks.able?.(work) === false)
        return this.#answer(incident, o, c, { result: "withheld", why: "not started: the agent has nothing to compensate it with" }, now);
      return c.released && this.#add(work, o, now);
    }
    return c.method === "restore" && this.#restore(incident, o, c, now);
  }

  /** Answers that an effect stands which cannot be undone. @param {number} incident @param {Order} o @param {Command} c @param {number} now */
  #residual(incident, o, c, now) {
    const before = this.#wentBack(incident, c);
    if (before) return this.#notRestored(before, { incident, o, c }, "was to go further", now);
    const unknown = c.effect === "reversible" && this.lost(incident, o.opened_at);
    return this.#answer(incident, o, c, unknown
      ? { result: "unknown", why: "whether its line went back before is not known: the state was lost" }
      : { result: "irrevocable", why: `the effect (${c.effect}) stands: it cannot be undone` }, now);
  }

  /** Answers a command that does not hold. @param {number} incident @param {Order} o @param {Command} c @param {number} now */
  #refuse(incident, o, c, now) {
    const before = this.#wentBack(incident, c);
    if (before) return this.#notRestored(before, { incident, o, c }, `what it is to do now is refused: ${c.refused}`, now);
    const unknown = c.method !== "none" && this.lost(incident, o.opened_at);
    return this.#answer(incident, o, c, unknown
      ? { result: "unknown", why: `whether anything was done before is not known, the state was lost; it is refused now: ${c.refused}` }
      : { result: "refused", why: c.refused }, now);
  }

  /** The newest restore that may have taken an execution back, although the command asks for none. @param {number} incident @param {Command} c */
  #wentBack(incident, c) {
    return this.restoresOf(incident).findLast((before) => {
      const sameLine = c.effect === "reversible" && ["", before.member.wid].includes(c.line);
      return before.acted() && (before.about(c.exec) || sameLine);
    });
  }

  /** @param {Work} before @param {{incident: number, o: Order, c: Command}} of @param {string} why @param {number} now */
  #notRestored(before, { incident, o, c }, why, now) {
    if (before.phase === "started") return false;
    const text = `the line went back to ${before.checkpoint} by decision ${before.decision.index} (${before.status}), and ${why}`;
    return this.#answer(incident, o, c, { result: "failed", why: text }, now);
  }

  /**
   * Takes a line back: all of its open members at once, after every drain and compensation.
   *
   * @param {number} incident @param {Order} o @param {Command} c @param {number} now
   * @returns {Promise<boolean>}
   */
  async #restore(incident, o, c, now) {
    const { hooks } = this.cfg;
    if (!hooks.restore || hooks.able?.(this.#new(incident, o, "restore", c)) === false)
      return this.#answer(incident, o, c, { result: "withheld", why: "not started: the agent cannot restore" }, now);
    if (o.waiting.has(c.checkpoint)) return false;
    o.waiting.add(c.checkpoint);
    /** @type {Command[]} */
    const group = [];
    for (const other of o.commands) {
      const drain = this.find(incident, other.exec, "drain");
      const covered = this.covering(incident, other);
      if (drain) {
        if (drain.phase !== "closed") return false;
        if (drain.status !== "done" && other.line === c.line)
          return this.#answer(incident, o, c, { result: "withheld", why: `not started: ${other.exec}, of the same line, did not end` }, now);
      } else if (hooks.drain && other.method !== "cancel" && !other.refused) {
        if (!other.result && !covered) return false; // its turn comes
        if (other.line === c.line && !UNDONE.includes(other.result)) // what was withheld may be in flight
          return this.#add(this.#new(incident, o, "drain", other), o, now);
      }
      if (other.method === "compensate" && !other.result && covered?.phase !== "closed") return false; // it comes first
      if (other.method === "restore" && other.checkpoint === c.checkpoint && !other.result && !other.refused && !covered) {
        if (!other.released) return false;
        group.push(other);
      }
    }
    return this.#add(this.#new(incident, o, "restore", ...group), o, now);
  }

  // Starting

  /** Records an undertaking and starts it, unless an entry has to be logged first. @param {Work} work @param {Order} o @param {number} now @returns {Promise<true>} */
  async #add(work, o, now) {
    let lost = this.lost(work.incident, o.opened_at);
    if (work.hook === "compensate") {
      for (const before of this.about(work.member.exec)) {
        if (before.hook !== "compensate") continue; // EXE-4: across decisions
        work.attempt = Math.max(work.attempt, before.attempt);
        if (before.status === "no_effect" && before.phase !== "started") work.attempt = Math.max(work.attempt, Math.min(before.attempt + 1, KEYS_MAX - 1));
        lost ||= before.lost && before.status !== "done";
      }
      lost ||= this.lost(work.member.index, this.identity.made_at);
      this.prepare(work, now);
    }
    this.add(work);
    if (lost) {
      Object.assign(work, { lost: true, phase: "started", outbox: [] });
      this.cfg.tell(event("lost", { incident: work.incident, exec: work.member.exec, text: "it may have been started before" }));
      this.save(work.name, work.document());
    } else if (work.hook === "compensate") this.save(work.name, work.document());
    else await this.#start(work, now);
    return true;
  }

  /** AGT-4: notes on disk that the hook may run, runs it, and notes what came of it. @param {Work} work @param {number} now */
  async #start(work, now) {
    const before = this.#begun(work);
    const { status } = before ?? {};
    if (before && before.phase !== "started" && (status === "done" || (status === "failed" && !this.findable(work))))
      return this.finish(work, { status, residual: `as in incident ${before.incident}: ${status}` }, now);
    work.phase = "started";
    work.outbox = [];
    work.forget();
    this.save(work.name, work.document());
    if (before) return;
    this.cfg.tell(event("started", { incident: work.incident, exec: work.member.exec, text: work.hook }));
    await this.run(work, false, now);
  }

  /** Another undertaking by which a compensation may have had its effect under its key (EXE-4). @param {Work} work */
  #begun(work) {
    if (work.hook !== "compensate") return undefined;
    return this.about(work.member.exec).findLast((other) => other.hook === "compensate" && other !== work && other.attempt === work.attempt && other.acted());
  }

  /** Whether the hook of an undertaking may run again with the same call. @param {Work} work */
  repeatable(work) {
    const { hooks } = this.cfg;
    return work.hook !== "" && hooks[work.hook] !== undefined && hooks.repeatable?.(work) === true && !(work.lost && work.hook === "compensate");
  }

  /** Whether probe can be asked about an undertaking. @param {Work} work */
  probeable(work) {
    const { hooks } = this.cfg;
    return hooks.probe !== undefined && hooks.probeable?.(work) !== false;
  }

  /** Whether the agent can find out what became of an undertaking. @param {Work} work */
  findable(work) {
    return this.probeable(work) || this.repeatable(work);
  }
}
