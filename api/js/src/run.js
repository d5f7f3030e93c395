// @ts-check
/** A run and its steps: what an agent does in one workflow, logged before it is done. */
import { createHash } from "node:crypto";
import { InputError, LedgerError, NoEffect, Refused, RolledBack } from "./errors.js";
import { plain, stateBytes } from "./hooks.js";
import { checkName, EFFECTS, execId, FINAL, isSpent, shown, UNDONE } from "./records.js";
import { forget } from "./recover.js";
import { place } from "./waiting.js";

const KEYED = ["compensable", "irrevocable", "undeclared"];
const HOLD_MS = 2000; // the longest pause between two questions about a fence

/**
 * @typedef {import("./agent.js").Agent} Agent
 * @typedef {import("./records.js").Record} Record
 * @typedef {"none" | "reversible" | "compensable" | "irrevocable" | "undeclared"} Effect
 * @typedef {Step | string | {exec: string, dep: "hard" | "soft"}} Parent
 */

/**
 * What a step is.
 *
 * - `effect`: none, reversible (it goes back with the agent's state), compensable (a function that
 *   `agent.compensates` declares undoes it), irrevocable, or undeclared. By default none
 * - `parents`: the steps that it rests on, or executions of others as AGENT#ID. What is only for
 *   information is {exec, dep: "soft"}: it is reviewed, and not undone
 * - `id`: tells two steps of one name apart. A name and an id stand for one step of the run: when the
 *   run is begun again after a crash, a step that is confirmed is not done again
 * - `exec`: the id in the log, instead of one made of run, name and id
 *
 * @typedef {{effect?: Effect, parents?: Iterable<Parent>, id?: string, exec?: string}} StepOptions
 */

/**
 * A step of a run.
 *
 * `done` says that the step is confirmed; the function of a step that is confirmed already is not
 * called. `interrupted` says that a process which was killed had begun the step: it is done again under
 * the same key.
 */
export class Step {
  #run;
  #agent;
  #parents;
  /** @type {string | undefined} */
  #exec;
  /** @type {Record | null} */
  #record = null;
  /** @type {boolean} */
  done = false;
  /** @type {boolean} */
  interrupted = false;

  /** @param {Run} run @param {string} name @param {StepOptions} options @throws {InputError} */
  constructor(run, name, { effect = "none", parents = [], id = "", exec }) {
    this.#run = run;
    this.#agent = run.agent;
    this.name = checkName("step", name);
    this.id = id === "" ? "" : checkName("step id", id);
    if (!EFFECTS.includes(effect)) throw new InputError(`step ${name}: effect ${shown(effect)}`, `an effect is one of ${EFFECTS.join(", ")}`);
    this.effect = effect;
    if (typeof parents === "string" || typeof parents?.[Symbol.iterator] !== "function") throw new InputError(`step ${name}: parents ${shown(parents)}`, "parents is a list");
    this.#parents = [...parents];
    this.#exec = exec;
  }

  /** The run of the step. */
  get run() {
    return this.#run;
  }

  /** The step as it stands in the state. @returns {Record} @throws {InputError} before it is begun */
  get record() {
    return this.#kept;
  }

  /** @returns {Record} */
  get #kept() {
    if (!this.#record) throw new InputError(`step ${this.name}: not begun`, "await run.step first");
    return this.#record;
  }

  /** The execution in the log: AGENT#RUN/NAME. @returns {string} */
  get exec() {
    return `${this.#agent.name}#${this.#kept.exec}`;
  }

  /** The idempotency key of the step for the service that it calls: the same until the step is undone. @returns {string} */
  get key() {
    return this.#agent.keyOf(this.#kept);
  }

  /** The outcome of a rollback that left the effect of the step, such as irrevocable; empty: there is none. @returns {string} */
  get standing() {
    const { undone } = this.#kept;
    return UNDONE.includes(undone) ? "" : undone;
  }

  /** What the step keeps, a value of JSON: what its function returned. A compensation gets it. @returns {any} */
  get result() {
    return this.#kept.result;
  }

  set result(value) {
    this.#kept.result = plain(value);
  }

  /**
   * Logs the step as started, calls a function, and logs how it ended. `Run.step` calls it.
   *
   * @param {(step: Step) => any} does
   */
  async take(does) {
    await this.#run.entering(() => this.#begin());
    if (this.done) return;
    const record = this.#kept;
    try {
      const returned = await place.run({ agent: this.#agent, steps: [...this.#agent.within(), record.exec], obeying: false }, async () => does(this));
      if (returned !== undefined) this.result = returned;
    } catch (thrown) {
      this.#agent.failed(thrown, this);
      await this.#end(record, thrown instanceof NoEffect ? "cancelled" : "failed");
      throw thrown;
    }
    await this.#end(record, "confirmed");
    this.done = true;
  }

  // Before

  async #begin() {
    await this.#run.check();
    const record = this.#choose();
    this.#record = record;
    if (this.done) return this.#agent.sendEnd(record); // an earlier process may not have sent it, and what follows rests on it
    this.#agent.active.add(record.exec);
    try {
      if (record.progress === "dispatching") await this.#dispatch(record);
    } catch (why) {
      this.#agent.ended(record.exec);
      throw why;
    }
  }

  /** The execution that the step is: one that was begun or done before, or a new one. @returns {Record} */
  #choose() {
    const run = this.#run;
    const agent = this.#agent;
    const before = agent.records.newest(run.name, this.name, this.id);
    if (before && !isSpent(before)) {
      if (agent.active.has(before.exec) || (run.used.has(before.exec) && before.progress === "confirmed"))
        throw new InputError(`step ${this.name}: taken twice in run ${run.name}`, "tell two steps of a name apart by id:");
      run.used.add(before.exec);
      this.done = before.progress === "confirmed";
      this.interrupted = before.progress === "started";
      return before;
    }
    const generation = (before?.generation ?? 0) + 1;
    const ordinal = before ? before.ordinal + (UNDONE.includes(before.undone) ? 1 : 0) : 0;
    /** @type {Record} */
    const record = {
      exec: this.#exec ?? execId(run.name, this.name, this.id, generation), run: run.name, name: this.name, id: this.id, generation, effect: this.effect,
      parents: this.#parents.map((p) => this.#parent(p)), progress: "dispatching", ordinal, outbox: [], result: null, undone: "", ended: 0,
    };
    record.outbox = [agent.sign("execution", this.#body(record, "started"))];
    agent.records.save(record);
    run.used.add(record.exec);
    return record;
  }

  /** @param {Parent} parent @returns {{exec: string, dep: string}} */
  #parent(parent) {
    if (parent instanceof Step) return { exec: parent.exec, dep: "hard" };
    if (typeof parent === "string") return { exec: parent.includes("#") ? parent : `${this.#agent.name}#${this.#run.name}/${parent}`, dep: "hard" };
    if (typeof parent?.exec === "string" && ["hard", "soft"].includes(parent.dep)) return { exec: parent.exec, dep: parent.dep };
    const remedy = "a parent is a step, an execution as AGENT#ID, or {exec, dep} with dep hard or soft";
    throw new InputError(`step ${this.name}: parent ${shown(parent)}`, remedy);
  }

  /** @param {Record} record @param {string} progress */
  #body(record, progress) {
    const { run: wid, exec, parents, effect } = record;
    const key = KEYED.includes(effect) ? { idempotency_key: `sha256:${createHash("sha256").update(this.#agent.keyOf(record)).digest("hex")}` } : {};
    return { wid, exec, parents, effect, progress, ...key };
  }

  /** Has the log have the beginning of the step before it is done (EXE-2). @param {Record} record */
  async #dispatch(record) {
    const agent = this.#agent;
    const resigned = (/** @type {string} */ envelope) => {
      record.outbox = [envelope];
      agent.records.save(record);
    };
    try {
      await agent.send(/** @type {string} */ (record.outbox[0]), resigned, (why) => this.#held(why));
    } catch (why) {
      if (!(why instanceof Refused || why instanceof RolledBack)) throw why;
      record.progress = "refused";
      record.outbox = [];
      agent.records.save(record);
      throw why;
    }
    record.progress = "started";
    record.outbox = [];
    agent.records.save(record);
  }

  /** Waits while a fence refuses the step. @param {Refused} why @throws {RolledBack} if the run is undone */
  async #held(why) {
    for (let pause = 50; why.incident !== null; pause = Math.min(2 * pause, HOLD_MS)) {
      await this.#run.check();
      if (!(await this.#agent.ledger.incident(why.incident)).waits_for) break;
      await this.#agent.changed.wait(pause);
    }
    await this.#run.check();
  }

  // After

  /** @param {Record} record @param {"confirmed" | "failed" | "cancelled"} progress */
  async #end(record, progress) {
    const agent = this.#agent;
    try {
      await this.#run.entering(async () => {
        record.progress = progress;
        record.outbox = [agent.sign("execution", this.#body(record, progress))];
        agent.records.save(record);
        if (progress === "confirmed") forget(this.#run, record);
        else this.#run.used.delete(record.exec);
        try {
          await agent.sendEnd(record);
        } catch (why) {
          if (progress === "confirmed" || !(why instanceof LedgerError)) throw why; // else the error of the step is told; the end is sent later
        }
      });
    } finally {
      agent.ended(record.exec);
      this.#run.mayStop();
    }
  }
}

/** A run of an agent: one workflow. `Agent.run` makes one. */
export class Run {
  /** Steps that begin or end just now. */
  #busy = 0;
  #stop = new AbortController();
  /** @type {((told: RolledBack) => unknown) | undefined} */
  #onRollback;
  /** Local ids of the steps that were taken in this process. @type {Set<string>} */
  used = new Set();

  /** @param {Agent} agent @param {string} name @param {(told: RolledBack) => unknown} [onRollback] @throws {InputError} */
  constructor(agent, name, onRollback) {
    this.agent = agent;
    this.name = checkName("run", name);
    this.#onRollback = onRollback;
  }

  /**
   * Takes a step: logs it as started, calls a function, and logs it as confirmed, or as failed if the
   * function throws. What the function returns, a value of JSON, is the step's `result`. The function
   * of a step that is confirmed already is not called.
   *
   * @param {string} name
   * @param {StepOptions | ((step: Step) => any)} options may be left out
   * @param {(step: Step) => any} [does] may be async
   * @returns {Promise<Step>}
   * @throws {RolledBack} work of the run was undone: the step is not taken
   * @throws {InputError | Refused | import("./errors.js").Unreachable} or what the function throws
   */
  async step(name, options, does) {
    const [given, called] = typeof options === "function" ? [{}, options] : [options ?? {}, does];
    if (typeof called !== "function") throw new InputError(`step ${shown(name)}: no function`, "run.step(name, options, async (step) => …)");
    const step = new Step(this, name, given);
    await step.take(called);
    return step;
  }

  /**
   * Logs a point that the run can go back to.
   *
   * @param {string} name
   * @param {unknown} [state] a Uint8Array, or a value of JSON, which the agent keeps
   * @param {{digest?: string, expiresAt?: number}} [options] digest: of a state that is kept elsewhere, as
   *   sha256:… or hmac-sha256:…, instead of state; expiresAt: until when the state is kept, in Unix
   *   milliseconds, by default for ever
   */
  async checkpoint(name, state = null, { digest, expiresAt = 0 } = {}) {
    await this.check();
    const { agent } = this;
    const local = `${this.name}/${checkName("checkpoint", name)}`;
    const { checkpoints } = agent.records.run(this.name);
    const known = checkpoints[local];
    if (known?.logged) return; // by an earlier process, or in an earlier life of the loop
    const point = known ?? (await this.#newPoint(local, state, digest, expiresAt));
    checkpoints[local] = point;
    agent.records.saveRun(this.name);
    const resigned = (/** @type {string} */ envelope) => {
      point.envelope = envelope;
      agent.records.saveRun(this.name);
    };
    try {
      await agent.send(point.envelope, resigned);
    } catch (why) {
      if (!(why instanceof Refused)) throw why;
      delete checkpoints[local];
      agent.records.saveRun(this.name);
      throw why;
    }
    point.logged = true;
    point.envelope = "";
    agent.records.saveRun(this.name);
  }

  /**
   * @param {string} local @param {unknown} state @param {string | undefined} digest @param {number} expiresAt
   * @returns {Promise<import("./records.js").Point>}
   */
  async #newPoint(local, state, digest, expiresAt) {
    const { agent, name } = this;
    const raw = state instanceof Uint8Array;
    const data = digest === undefined ? stateBytes(state) : null;
    const file = data ? agent.keepState(data) : "";
    for (const record of this.#final()) await agent.sendEnd(record);
    const after = this.#final().sort((a, b) => b.ended - a.ended)[0];
    const body = { wid: name, checkpoint: local, after: after ? `${agent.name}#${after.exec}` : null, digest: data ? agent.digest(data) : digest };
    return { file, raw, envelope: agent.sign("checkpoint", expiresAt ? { ...body, expires_at: expiresAt } : body), logged: false };
  }

  #final() {
    return this.agent.records.of(this.name).filter((r) => FINAL.includes(r.progress) && !r.undone);
  }

  /**
   * Reports a failure.
   *
   * @param {Step | string} subject a step, or an execution as AGENT#ID
   * @param {string} code class and code of the failure taxonomy, as output.bad_arguments
   * @param {{effects?: "none" | "partial" | "complete" | "unknown", standing?: "executor" | "upstream" | "downstream" | "monitor" | "operator",
   *   detail?: string, evidence?: Iterable<{digest: string, uri?: string}>, since?: Step | string}} [options]
   *   effects: what the failed attempt left, by default unknown; standing: executor for own steps, the
   *   default for them, upstream, downstream, the default for others, monitor or operator; detail: a
   *   text for people, at most 1,024 bytes, without secrets; since: the first execution in doubt,
   *   where several are
   * @returns {Promise<number>} the number of the incident that the signal opens or joins
   */
  async signal(subject, code, { effects = "unknown", standing, detail, evidence = [], since } = {}) {
    const [, kind, word] = /^([^.]*)\.(.+)$/s.exec(String(code)) ?? [];
    if (!word) throw new InputError(`signal: code ${shown(code)}`, "a code has a class and a code, as output.bad_arguments");
    if (!(subject instanceof Step) && typeof subject !== "string") throw new InputError(`signal: subject ${shown(subject)}`, "a subject is a step, or an execution as AGENT#ID");
    const nameOf = (/** @type {Step | string} */ of) => (of instanceof Step ? of.exec : of);
    const name = nameOf(subject);
    const own = name.startsWith(`${this.agent.name}#`);
    const proofs = [...evidence];
    const body = {
      wid: this.name, subject: name, class: kind, code: word, standing: standing ?? (own ? "executor" : "downstream"), effects, replay_safety: "unknown",
      observed_at: Date.now(), ...(detail ? { detail } : {}), ...(proofs.length ? { evidence: proofs } : {}), ...(since === undefined ? {} : { since: nameOf(since) }),
    };
    return this.#sendSignal(`${name} ${code}`, body);
  }

  /** @param {string} what @param {import("./signing.js").Body} body */
  async #sendSignal(what, body) {
    const { agent } = this;
    for (const record of this.#final()) await agent.sendEnd(record);
    const { signals } = agent.records.run(this.name);
    const signal = signals[what] ?? { envelope: agent.sign("signal", body), index: null };
    signals[what] = signal;
    agent.records.saveRun(this.name);
    const resigned = (/** @type {string} */ envelope) => {
      signal.envelope = envelope;
      agent.records.saveRun(this.name);
    };
    if (signal.index === null) {
      try {
        signal.index = (await agent.send(signal.envelope, resigned)).index;
      } catch (why) {
        if (!(why instanceof Refused)) throw why;
        delete signals[what];
        agent.records.saveRun(this.name);
        throw why;
      }
      agent.records.saveRun(this.name);
    }
    agent.signalled(signal.index);
    return signal.index;
  }

  /** What the newest execution of a step keeps. @param {string} name @param {string} [id] @returns {any} @throws {InputError} if there is none */
  result(name, id = "") {
    const record = this.agent.records.newest(this.name, name, id);
    if (!record) throw new InputError(`result: no step ${name} ${id}`.trimEnd(), "take the step first");
    return record.result;
  }

  // What is told

  /**
   * Throws a RolledBack if work of the run is undone and the run was not told.
   *
   * A long step may call it to learn of that before its end. Within a step that is to be undone the
   * error comes at once, and is told again, with all results, after the step.
   */
  async check() {
    const found = this.agent.pending(this.name);
    if (!found.length) return;
    if (this.agent.holds(found)) throw this.agent.rolledBack(this.name, found);
    await this.agent.awaitSettled(found);
    throw this.#told(found);
  }

  /**
   * A signal that aborts, with a RolledBack, when work of the run was undone and no step is under way:
   * for `fetch(url, {signal: run.stop})` outside of steps.
   *
   * @returns {AbortSignal}
   */
  get stop() {
    return this.#stop.signal;
  }

  /**
   * Waits for a promise outside of steps, or for a rollback.
   *
   * @template T
   * @param {PromiseLike<T>} promise
   * @returns {Promise<T>}
   * @throws {RolledBack} work of the run was undone meanwhile
   */
  async wait(promise) {
    const { signal } = this.#stop;
    const release = this.agent.hold();
    let stopped = () => {};
    const stop = new Promise((resolve) => {
      stopped = () => resolve(undefined);
      signal.addEventListener("abort", stopped);
      if (signal.aborted) stopped();
    });
    try {
      const first = await Promise.race([Promise.resolve(promise).then((value) => ({ value })), stop]);
      if (first) return /** @type {{value: T}} */ (first).value;
      throw this.tellOf(signal.reason);
    } finally {
      signal.removeEventListener("abort", stopped);
      release();
    }
  }

  /** @param {number[]} incidents */
  #told(incidents) {
    const told = this.agent.rolledBack(this.name, incidents);
    this.agent.markTold(this.name, incidents);
    this.used = new Set([...this.used].filter((local) => !isSpent(/** @type {Record} */ (this.agent.records.steps.get(local)))));
    if (this.#stop.signal.aborted) this.#stop = new AbortController();
    return told;
  }

  /**
   * What was thrown out of the run, told as a RolledBack if `stop` is the cause.
   *
   * @param {unknown} thrown
   * @returns {unknown}
   */
  tellOf(thrown) {
    const { aborted, reason } = this.#stop.signal;
    if (!aborted || (thrown !== reason && /** @type {any} */ (thrown)?.name !== "AbortError")) return thrown;
    const found = this.agent.pending(this.name);
    return found.length ? this.#told(found) : reason;
  }

  /** Tells the callback, and whoever waits outside of steps. @param {RolledBack} told */
  tell(told) {
    try {
      Promise.resolve(this.#onRollback?.(told)).catch(() => {});
    } catch {
      // a callback changes nothing of what was undone
    }
    this.mayStop();
  }

  /** Aborts `stop` if work of the run was undone and no step is under way. */
  mayStop() {
    const found = this.agent.pending(this.name);
    if (this.#stop.signal.aborted || this.inside() || !found.length || !this.agent.isSettled(found)) return;
    this.#stop.abort(this.agent.rolledBack(this.name, found));
  }

  // Bookkeeping of steps

  /**
   * Marks that a step begins or ends, so that nothing is stopped in the middle of that.
   *
   * @param {() => Promise<void>} does
   */
  async entering(does) {
    this.#busy++;
    try {
      await does();
    } finally {
      this.#busy--;
    }
  }

  /** Whether a step of the run is under way. */
  inside() {
    return this.#busy > 0 || [...this.used].some((local) => this.agent.active.has(local));
  }
}
