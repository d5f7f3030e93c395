// @ts-check
/**
 * The runtime that obeys proven decisions: protocol.md, section 7, AGT-1 to AGT-5.
 *
 * The runtime is a state machine without a timer, a clock or randomness of its own. `step` does at
 * most the next thing. Entries are signed and stored before they are sent, so that the same bytes are
 * sent until the log has them.
 */
import { event } from "./base.js";
import { Beginner } from "./begin.js";
import { asError, Forked, LedgerError, Refused, Stopped } from "./errors.js";
import { DONE, earlier, idleTill, LOOK_MS } from "./look.js";
import { bodyOf, read } from "./signing.js";
import { CRASH_FACTOR, KEYS_LOST, KEYS_MAX, PROBES_MAX, StillRunning } from "./work.js";

/**
 * @typedef {import("./work.js").Work} Work
 * @typedef {import("./work.js").Report} Report
 * @typedef {import("./look.js").Did} Did
 * @typedef {{kind: string, body: Record<string, any>}} Entry
 */

/** An entry of the agent in words. @param {Entry} entry */
const describe = ({ kind, body }) => (kind === "outcome" ? `outcome ${body["result"]} of ${body["exec"]}` : `${body["exec"] ?? kind} ${body["progress"] ?? ""}`.trim());

/** An agent that obeys. */
export class Obeyer extends Beginner {
  #looked = false;

  /**
   * Does at most the next thing.
   *
   * @param {number} now Unix milliseconds
   * @returns {Promise<number>} when it wants to be called again; now, if it did something
   * @throws {Stopped} the state failed, or the ledger has forked
   */
  async step(now) {
    if (this.stopped) throw new Stopped(this.stopped);
    this.works = this.works.filter((work) => work.phase !== "closed");
    /** @type {(() => Promise<Did>)[]} */
    const todo = [
      () => this.look(now), () => this.log(now), () => this.reconcile(now), () => this.ask(now), () => this.confirmHead(now), () => this.begin(now),
      () => this.followLog(now), () => this.unannounced(now),
    ];
    if (this.#looked) todo.push(.../** @type {[() => Promise<Did>]} */ (todo.splice(0, 1))); // the rest has its turn, however often something is new
    let soon = now + LOOK_MS;
    for (const [at, attempt] of todo.entries()) {
      const { did, wake } = await attempt();
      if (did) {
        this.#looked = at === (this.#looked ? todo.length - 1 : 0);
        return now;
      }
      if (wake > now) soon = Math.min(soon, wake);
    }
    return soon;
  }

  /** Whether the log has the entries of every undertaking, and nothing is to be asked. */
  idle() {
    return !this.asks.size && this.works.every((work) => work.phase === "closed");
  }

  // What is to be logged

  /** Submits the first entry of an outbox that has waited long enough. @param {number} now @returns {Promise<Did>} */
  async log(now) {
    let wake = 0;
    for (const work of this.works) {
      if (work.mem.sent >= work.outbox.length || work.phase === "closed") continue;
      if (work.aside() && this.#learned(work) > work.mem.known) work.mem.waitTill = work.mem.pauses = work.mem.refusals = 0;
      if (work.mem.waitTill > now) {
        wake = earlier(wake, work.mem.waitTill);
        continue;
      }
      if (work.phase === "noted" && !this.mayPrepare(work, now)) continue;
      await this.#submit(work, now);
      return DONE;
    }
    return idleTill(wake);
  }

  /** What an undertaking sends next. @param {Work} work */
  #item(work) {
    return /** @type {import("./work.js").Item} */ (work.outbox[work.mem.sent]);
  }

  /** @param {Work} work @param {number} now */
  async #submit(work, now) {
    const { envelope } = this.#item(work);
    const [kind, body] = read(envelope);
    let ref;
    try {
      ref = await this.cfg.ledger.submit(envelope, { attempts: 1 });
    } catch (why) {
      this.#unsent(work, { kind, body }, why, now);
      return;
    }
    this.cfg.tell(event("logged", { incident: work.incident, exec: work.member.exec, text: describe({ kind, body }) }));
    if (kind === "outcome") {
      const { incident, exec, result } = body;
      this.stands.set(`${incident} ${exec}`, { index: ref.index, leaf_hash: ref.leaf_hash });
      this.cfg.tell(event("outcome", { incident, exec, text: result }));
    }
    this.#sent(work);
  }

  /** Passes over an entry that the log has, or can do without. @param {Work} work */
  #sent(work) {
    work.mem.sent++;
    work.mem.pauses = work.mem.refusals = work.mem.named = 0;
    if (work.mem.sent < work.outbox.length || work.phase !== "done") return;
    Object.assign(work, { phase: "closed", outbox: [] });
    work.mem.sent = 0;
    this.lookAt = 0; // what comes after it may be released now
    this.save(work.name, work.document());
  }

  /** Handles an entry that the ledger did not take, or may not have taken. @param {Work} work @param {Entry} entry @param {unknown} why @param {number} now */
  #unsent(work, entry, why, now) {
    if (why instanceof Forked) this.forked(why);
    if (!(why instanceof LedgerError)) throw why;
    const what = { incident: work.incident, exec: work.member.exec, text: describe(entry), error: why };
    if (!(why instanceof Refused) || why.temporary) {
      work.pause(now, why instanceof Refused ? why.retryAfter : 0);
      this.cfg.tell(event("retry", what));
      return;
    }
    if (why.problem === "stale") return this.#again(work, now); // it was not registered before: that would have been told first
    this.cfg.tell(event("refused", what));
    if (why.problem === "unknown-issuer") { // its key counts no more: the agent gets another one
      work.pause(now, why.retryAfter);
      this.#again(work, now);
    } else if (this.#item(work).optional) this.#sent(work);
    else if (work.phase === "noted" && why.problem === "state-conflict" && why.field === "progress") this.#older(work, now);
    else {
      work.mem.refusals++;
      work.mem.known = Math.max(work.mem.known, this.#learned(work));
      work.pause(now, why.retryAfter);
      this.wantBundle(work.incident);
      if (entry.kind === "outcome") this.#outcomeRefused(work, entry.body, why, now);
    }
  }

  /** The log has a compensation that this state was only about to announce: it is an older copy. @param {Work} work @param {number} now */
  #older(work, now) {
    this.repair(now, [`${work.name}: the log is ahead of it, the state is an older copy`], []);
    Object.assign(work, { lost: true, phase: "started", outbox: [] });
    work.forget();
    this.save(work.name, work.document());
    this.settle();
  }

  /** Index of the newest thing that was accepted and that a refusal may have rested on. @param {Work} work */
  #learned(work) {
    const stands = work.members.map((m) => this.stands.get(`${work.incident} ${m.exec}`)?.index ?? 0);
    const link = Number(this.accepted.links.at(-1)?.index ?? 0);
    return Math.max(this.overriddenAt(work.incident), this.orders.get(work.incident)?.decision.index ?? 0, link, ...stands);
  }

  /** Says the same again in the place of what stands, or the least that is sure. @param {Work} work @param {Record<string, any>} body @param {Refused} why @param {number} now */
  #outcomeRefused(work, body, why, now) {
    const { result } = body;
    if (why.field === "supersedes") this.#otherPlace(work, body, now);
    else if (["comp_exec", "post_digest", "result"].includes(why.field)) {
      if (!["unknown", "failed"].includes(result)) this.#again(work, now, `the agent reports ${result}, which the ledger does not take: ${why.what}`);
      else if (why.field === "result") this.#sent(work); // the log has one already that is no less sure
    }
  }

  /** Says the same again in the place of the next that may stand, at last of nothing. @param {Work} work @param {Record<string, any>} body @param {number} now */
  #otherPlace(work, body, now) {
    const known = this.standing(body);
    if ("supersedes" in body) work.mem.named = known.findIndex((ref) => ref.index === body["supersedes"].index) + 1;
    else if (work.mem.named > 0 || !known.length) {
      work.mem.named = 0;
      this.next = Math.min(this.next, work.incident) || this.next;
      if (known.length) this.#again(work, now);
      return;
    }
    if (!work.aside()) work.mem.waitTill = now;
    this.#again(work, now);
  }

  /** Makes the next entry of an outbox under a new header, and stores it. @param {Work} work @param {number} now @param {string} [unknown] */
  #again(work, now, unknown = "") {
    const item = this.#item(work);
    const [kind, body] = bodyOf(item.envelope);
    if (kind === "outcome") {
      if (unknown) {
        delete body["comp_exec"];
        delete body["post_digest"];
        Object.assign(body, { result: "unknown", residual: unknown.slice(0, 1000) });
      }
      this.supersede(body, work.mem.named);
    }
    item.envelope = this.cfg.signer.sign(kind, body, now);
    this.saveWork(work);
  }

  // What was started

  /** Finds out what became of something that was started and has not ended. @param {number} now @returns {Promise<Did>} */
  async reconcile(now) {
    let wake = 0;
    for (const work of [...this.works]) {
      if (work.phase !== "started") continue;
      if (work.mem.waitTill > now) {
        wake = earlier(wake, work.mem.waitTill);
        continue;
      }
      if (this.probeable(work) && work.mem.probes < PROBES_MAX) await this.run(work, true, now);
      else if (!this.probeable(work) && this.repeatable(work)) {
        const over = Math.min(work.expires_at, work.deadline_at);
        const overridden = this.overriddenAt(work.incident) > work.decision.index;
        if (now < over && !this.inForce(work.incident, now) && !overridden) {
          wake = earlier(wake, over);
          continue; // until the decision is seen again
        }
        await this.#rerun(work, now);
      } else this.finish(work, { status: "unknown" }, now);
      return DONE;
    }
    return idleTill(wake);
  }

  /** Runs a repeatable hook again, if the decision still stands. @param {Work} work @param {number} now */
  async #rerun(work, now) {
    const o = this.inForce(work.incident, now);
    const asked = o && work.members.every((m) => {
      const c = o.command(m.exec);
      const moved = work.hook === "restore" && c?.checkpoint !== work.checkpoint;
      return c && !c.refused && !c.result && c.method === m.method && !moved;
    });
    if (!o || !asked || now >= work.deadline_at || work.mem.probes >= 2 * PROBES_MAX) {
      this.finish(work, { status: "unknown" }, now);
      return;
    }
    if (o.decision.index !== work.decision.index) { // amended meanwhile: it runs by what stands now
      const { decision, epoch, expires_at, deadline_at } = o;
      Object.assign(work, { decision, epoch, expires_at, deadline_at });
      this.saveWork(work);
    }
    work.mem.probes++;
    await this.run(work, false, now);
  }

  /**
   * Calls a hook, or probe about it, and takes up what it reports.
   *
   * @override
   * @param {Work} work @param {boolean} probe @param {number} now
   */
  async run(work, probe, now) {
    const hook = probe ? "probe" : /** @type {import("./work.js").Hook} */ (work.hook);
    const what = { incident: work.incident, exec: work.member.exec };
    if (probe) work.mem.probes++;
    let report;
    try {
      report = await this.cfg.hooks[hook]?.(this.call(work, probe));
      if (!report || !["done", "no_effect", "failed", "unknown"].includes(report.status)) throw new TypeError(`${hook} returned no report`);
    } catch (thrown) {
      const why = asError(thrown);
      if (why instanceof StillRunning) { // it may still act: nothing else may
        this.cfg.tell(event("ended", { ...what, text: `${hook} unknown`, error: why }));
        this.finish(work, { status: "unknown", residual: why.message }, now);
        return;
      }
      this.cfg.tell(event("retry", { ...what, text: hook, error: why }));
      work.error = `${hook} threw ${why.name}: ${why.message}`; // whatever it threw, it may have done anything
      work.pause(now);
      return;
    }
    this.cfg.tell(event("ended", { ...what, text: `${hook} ${report.status}` }));
    if (report.status === "no_effect" && !probe) work.vain++;
    if (report.status === "unknown" && probe && this.repeatable(work)) return this.#rerun(work, now);
    if (report.status === "unknown" && !probe && this.probeable(work)) return work.pause(now);
    this.finish(work, report, now);
  }

  /**
   * Notes how a hook ended, with the entries that report it.
   *
   * @override
   * @param {Work} work @param {Report} r @param {number} now
   */
  finish(work, r, now) {
    Object.assign(work, { phase: "done", status: r.status, outbox: [] });
    work.forget();
    const { residual = "", digest = "", progress = "" } = r;
    if (work.hook === "compensate") this.#compensated(work, r, now);
    else if (work.hook === "drain" && r.status === "done") this.#drained(work, progress, now);
    else if (r.status === "unknown") this.#say(work, "unknown", residual || work.error || `${work.hook} was started and did not end: its effect is unknown`, now);
    else if (r.status === "failed") this.#say(work, "failed", residual, now);
    else if (r.status === "no_effect") this.#tryAgain(work, residual, now);
    else if (work.hook === "restore" && digest !== work.digest) this.#say(work, "failed", `the state afterwards has digest ${digest}, the checkpoint ${work.digest}`, now);
    else this.#say(work, work.hook === "restore" ? "restored" : "not_executed", "", now);
    this.save(work.name, work.document());
  }

  /** @param {Work} work @param {string} progress @param {number} now */
  #drained(work, progress, now) {
    work.progress = progress;
    if (progress && work.first) {
      const [kind, { crit: _, ...body }] = bodyOf(work.first);
      this.entry(work, kind, { ...body, progress }, true, now); // refused if it is logged already
    }
    work.phase = work.outbox.length ? "done" : "closed";
  }

  /** @param {Work} work @param {string} result @param {string} why @param {number} now */
  #say(work, result, why, now) {
    for (const member of work.members) this.outcome(work, member, result, why, now);
  }

  /** Has what had no effect begin again, as often as that is wanted. @param {Work} work @param {string} residual @param {number} now */
  #tryAgain(work, residual, now) {
    work.lost = false;
    if (this.#spent(work)) return this.#say(work, "failed", residual || "no attempt had an effect", now);
    work.attempt++;
    work.phase = "noted";
    work.mem.pauses = work.attempt - 1;
    work.pause(now);
  }

  /** Whether something that had no effect is not tried again. @param {Work} work */
  #spent(work) {
    const { attempts } = this.cfg;
    return work.vain >= attempts || (work.attempt % KEYS_LOST) + 1 >= Math.min(CRASH_FACTOR * attempts, KEYS_LOST);
  }

  /** Notes how a compensation ended: its execution and the outcome. @param {Work} work @param {Report} r @param {number} now */
  #compensated(work, r, now) {
    const { status, residual = "" } = r;
    if (work.lost && status === "done") { // the log may lack what came before
      this.compensation(work, "planned", true, now);
      this.compensation(work, "started", true, now);
    }
    if (status === "done") {
      this.compensation(work, "confirmed", true, now);
      this.#say(work, "compensated", "", now);
    } else if (status === "unknown") this.#say(work, "unknown", residual || work.error || "compensate was started and did not end: its effect is unknown", now);
    else if (status === "failed") {
      this.compensation(work, "failed", true, now);
      this.#say(work, "failed", residual, now);
    } else this.#attemptAgain(work, residual, now);
  }

  /** Prepares another attempt under the next key: the one before had no effect (EXE-4). @param {Work} work @param {string} residual @param {number} now */
  #attemptAgain(work, residual, now) {
    if (!work.lost) this.compensation(work, "failed", true, now);
    if (work.lost && work.attempt + 1 < KEYS_MAX) { // probe was asked about every attempt that there may have been
      work.lost = false;
      work.attempt = Math.max(work.attempt, KEYS_LOST - 1);
      work.vain = this.cfg.attempts - 1;
    } else if (work.lost || this.#spent(work)) return this.#say(work, "failed", residual || "no attempt had an effect", now);
    work.attempt++;
    work.phase = "noted";
    work.mem.pauses = 0;
    work.pause(now);
    work.comp_exec = "";
    this.prepare(work, now);
  }
}
