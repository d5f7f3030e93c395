// @ts-check
/** An agent: it logs its steps before it takes them, and undoes what a proven decision tells it to. */
import { createHash, createHmac } from "node:crypto";
import * as fs from "node:fs";
import { join } from "node:path";
import { event as eventOf, identityOf } from "./base.js";
import { asError, Forked, InputError, LedgerError, Refused, RolledBack, StateError, Stopped, Unreachable } from "./errors.js";
import { Registry } from "./hooks.js";
import { loadKey } from "./keyfile.js";
import { Ledger, openHead } from "./ledger.js";
import { Obeyer } from "./obey.js";
import { FINAL, localOf, Records } from "./records.js";
import { Recovery } from "./recover.js";
import { Run } from "./run.js";
import { bodyOf, Signer } from "./signing.js";
import { Store, writeFile } from "./store.js";
import { find, secondSource, secretOf } from "./trust.js";
import { Change, pause as pauseFor, place } from "./waiting.js";
import { ATTEMPTS } from "./work.js";

const OVER = ["DISMISSED", "RECOVERED", "NO_EFFECTS", "PARTIAL", "FAILED"];
const RESULTS = /** @type {{[hook: string]: string}} */ ({ restore: "restored", compensate: "compensated", cancel: "not_executed" });
const PATIENCE_MS = 60_000;
const LIMIT_MS = 600_000;
const KEEP_HEAD_MS = 10_000;
const POLL_MS = 25_000;

/**
 * @typedef {import("./base.js").Event} Event
 * @typedef {import("./hooks.js").Undo} Undo
 * @typedef {import("./hooks.js").Undoes} Undoes
 * @typedef {import("./records.js").Record} Record
 * @typedef {import("./base.js").Config} Config
 */

/** The runtime with the answer of the last long poll as its hints. */
class Follower extends Obeyer {
  /** @type {import("./ledger.js").Hints | null} */
  heard = null;

  /** @override */
  async hear() {
    const { heard } = this;
    this.heard = null;
    return heard ?? super.hear();
  }
}

/** An agent of a ledger. `connect` makes one. */
export class Agent {
  #config;
  #registry;
  #core;
  #patience;
  /** The steps that errors ended. @type {WeakMap<object, import("./run.js").Step>} */
  #failedIn = new WeakMap();
  /** Own executions by incident. @type {Map<number, Set<string>>} */
  #affected = new Map();
  /** @type {Set<number>} */
  #settled = new Set();
  /** By incident and local id. @type {Map<string, string>} */
  #results = new Map();
  /** @type {Set<number>} */
  #signalled = new Set();
  /** What obey has told. @type {Set<string>} */
  #returned = new Set();
  /** @type {Run[]} */
  #runs = [];
  /** @type {((event: Event) => void)[]} */
  #listeners = [];
  /** Ends of steps that are being sent. @type {Map<Record, Promise<void>>} */
  #ending = new Map();
  /** @type {Promise<void> | null} */
  #loop = null;
  /** The long poll, while there is one. @type {AbortController | null} */
  #poll = null;
  #stepping = false;
  #closing = false;
  #holders = 0;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #alive;
  /** @type {Error | null} */
  #failure = null;

  /** Steps under way in this process, by local id. @type {Set<string>} */
  active = new Set();
  /** Notified when something of the agent changes. */
  changed = new Change();

  /** `connect` calls it. @param {Config} config @param {{patience: number, limit: number}} times in milliseconds */
  constructor(config, { patience, limit }) {
    this.#config = config;
    this.name = config.agent;
    this.url = config.ledger.url;
    this.#patience = patience;
    this.ledger = config.ledger;
    this.records = new Records(config.store);
    this.#registry = new Registry(this, {
      drained: (local) => this.#drained(local), record: (local) => this.records.steps.get(local),
      stateOf: (run, checkpoint) => this.stateOf(run, checkpoint), keyOf: (record) => this.keyOf(record), digest: (data) => this.digest(data),
    }, limit);
    config.hooks = this.#registry.hooks();
    config.tell = (event) => this.#event(event);
    this.#core = new Follower(config, Date.now());
  }

  /** Takes up the state. `connect` calls it. */
  async load() {
    await this.#core.load(Date.now());
    this.#recall();
  }

  // Hooks

  /**
   * Declares the function that undoes a step of a name; without a name, of every other one.
   *
   * The function gets an Undo, and returns nothing once the step is undone. It may be async.
   *
   * @param {string | Undoes} name the name of the step, or the function that undoes every other step
   * @param {Undoes | {idempotent?: boolean, probe?: Undoes, limit?: number}} [undoes]
   * @param {{idempotent?: boolean, probe?: Undoes, limit?: number}} [options] idempotent: the function may run twice with one
   *   `undo.key` to the same effect as once; probe: a function that says whether an earlier call had its
   *   effect, true, false, or null if it does not know. Without both, a call that a crash ended is
   *   answered `unknown`. limit: the time of the function in milliseconds, by default 600,000
   * @throws {InputError}
   */
  compensates(name, undoes, options) {
    if (typeof name === "function") this.#registry.compensates("", name, /** @type {object} */ (undoes) ?? {});
    else this.#registry.compensates(name, undoes, options ?? {});
  }

  /**
   * Declares the function that takes the agent's state back to a checkpoint.
   *
   * The function gets an Undo with the `state` of the checkpoint. It returns nothing, or the state as
   * it is afterwards, or its digest where the state is kept elsewhere. It may be async.
   *
   * @param {Undoes} undoes
   * @param {{idempotent?: boolean, probe?: Undoes}} [options] idempotent: by default true, the function may run twice, also
   *   when the second call names other executions; probe: a function that says whether an earlier call
   *   had its effect: true or the digest, false, or null if it does not know
   * @throws {InputError}
   */
  restores(undoes, options = {}) {
    this.#registry.restores(undoes, options);
  }

  /** Has an agent do without the two hooks: all five, as docs/agent.md describes them. @param {import("./work.js").Hooks} hooks */
  use(hooks) {
    this.#config.hooks = hooks;
  }

  /** Has a function told what happens. @param {(event: Event) => void} listener */
  listen(listener) {
    this.#listeners.push(listener);
  }

  // Work

  /**
   * Calls a function with a run of the agent: a workflow of a name. The same name goes on with the same
   * run: its confirmed steps are done.
   *
   * @template T
   * @param {string} name
   * @param {{onRollback?: (told: RolledBack) => unknown} | ((run: Run) => T | Promise<T>)} options may be left out. onRollback: called
   *   when work of the run was undone; the run is told all the same
   * @param {(run: Run) => T | Promise<T>} [body]
   * @returns {Promise<T>} what the function returns
   * @throws {RolledBack} work of the run was undone, and the function did not catch that
   */
  async run(name, options, body) {
    const [{ onRollback }, called] = typeof options === "function" ? [/** @type {{onRollback?: undefined}} */ ({}), options] : [options ?? {}, body];
    if (typeof called !== "function") throw new InputError(`run ${name}: no function`, "agent.run(name, async (run) => …)");
    const run = new Run(this, name, onRollback);
    this.#raise();
    this.#runs.push(run);
    this.follow();
    try {
      const returned = await called(run);
      await run.check();
      return returned;
    } catch (thrown) {
      throw run.tellOf(thrown);
    } finally {
      this.#runs = this.#runs.filter((other) => other !== run);
    }
  }

  /**
   * Asks the policy in force what to do about the error of a step, waits as long as it says, and returns
   * what to try. The actions of a step count together until the step is confirmed, through crashes, too.
   *
   * @param {unknown} thrown what ended the step. What is no failure, such as a RolledBack, is thrown again
   * @param {import("./recover.js").RecoverOptions} [options]
   * @returns {Promise<import("./recover.js").Action>}
   * @throws {import("./errors.js").Escalated} a person has to decide
   * @throws {RolledBack} work of the run is undone meanwhile
   */
  async recover(thrown, options = {}) {
    const known = typeof thrown === "object" && thrown ? this.#failedIn.get(thrown) : undefined;
    const asked = new Recovery(thrown, options.step ?? known, options);
    const { run } = asked.step;
    for (;;) {
      const { wait, action } = await asked.ask();
      const till = performance.now() + wait;
      for (let rest = wait; rest > 0; rest = till - performance.now()) {
        await run.check();
        await this.changed.wait(Math.min(rest, 1000));
      }
      await run.check();
      if (action) return action;
    }
  }

  /** Notes which step an error ended. @param {unknown} thrown @param {import("./run.js").Step} step */
  failed(thrown, step) {
    if (typeof thrown === "object" && thrown) this.#failedIn.set(thrown, step);
  }

  /**
   * Waits until nothing is left to undo, and the incidents that the agent signaled are over.
   *
   * @param {{timeout?: number}} [options] timeout in milliseconds
   * @returns {Promise<{[exec: string]: string}>} the executions of the agent that were undone and that it was not told of
   *   before, with the result of each
   * @throws {Unreachable} after the timeout; it says what the incident waits for
   * @throws {StateError} once the agent is closed
   */
  async obey({ timeout = Infinity } = {}) {
    this.#outside("obey");
    this.follow();
    this.#poke();
    const till = performance.now() + timeout;
    const waiting = new Set(this.#signalled);
    const release = this.hold();
    try {
      for (let pause = 50; ; pause = Math.min(pause * 1.5, 1000)) {
        this.#raise();
        if (this.#closing) throw new StateError("the agent was closed");
        for (const incident of waiting) if (OVER.includes((await this.ledger.incident(incident)).state)) waiting.delete(incident);
        if (!waiting.size && this.#quiet()) return this.#toldByReturn();
        if (performance.now() > till) throw await this.#late(timeout, [...waiting].sort((a, b) => a - b));
        await this.changed.wait(pause);
      }
    } finally {
      release();
    }
  }

  /** @param {number} timeout @param {number[]} waiting */
  async #late(timeout, waiting) {
    const whys = await Promise.all(waiting.map(async (n) => `incident ${n} waits for ${(await this.ledger.incident(n)).waits_for ?? "the agent"}`));
    return new Unreachable(`obey: not over after ${timeout} ms: ${whys.join("; ") || "the agent has work to undo"}`, "wait longer, or approve the plan");
  }

  #quiet() {
    const core = this.#core;
    return !this.#stepping && core.idle() && core.lookAt > Date.now() - 1 && core.looking.tries === 0 && this.isSettled([...this.#affected.keys()]);
  }

  #toldByReturn() {
    /** @type {{[exec: string]: string}} */
    const found = {};
    for (const [incident, names] of this.#affected) {
      for (const local of [...names].sort()) {
        const of = `${incident} ${local}`;
        if (!this.#returned.has(of) && !this.#wasTold(incident, local)) found[`${this.name}#${local}`] = this.#results.get(of) ?? "unknown";
        this.#returned.add(of);
      }
    }
    for (const run of this.#runs) for (const incident of this.pending(run.name)) this.markTold(run.name, [incident]);
    return found;
  }

  /** @param {number} incident @param {string} local */
  #wasTold(incident, local) {
    const record = this.records.steps.get(local);
    return record !== undefined && (this.records.run(record.run).told[String(incident)] ?? []).includes(local);
  }

  /** Ends what obeys in the background, and gives the state free. What was stored is sent next time. */
  async close() {
    if (this.#closing) return;
    this.#closing = true;
    this.changed.notify();
    this.#poll?.abort();
    const at = place.getStore();
    if (!(at?.agent === this && at.obeying)) await this.#loop;
    const { accepted } = this.ledger;
    if (accepted) this.#config.store.save("head", { head: accepted.note });
    this.ledger.close();
    this.#config.store.close();
  }

  // What obeys in the background

  /** Begins to obey in the background, unless it has begun. The process lives on only while something is undone. */
  follow() {
    this.#loop ??= place.run({ agent: this, steps: [], obeying: true }, () => this.#follow());
  }

  /** Obeys until the agent is closed. @throws {Forked | StateError} */
  async serve() {
    this.#outside("serve");
    this.follow();
    const release = this.hold();
    try {
      while (!this.#closing) {
        this.#raise();
        await this.changed.wait();
      }
    } finally {
      release();
    }
  }

  /** Has the process live on until the function that is returned is called. */
  hold() {
    if (this.#holders++ === 0) this.#alive = setInterval(() => {}, 1 << 30);
    let held = true;
    return () => {
      if (held && --this.#holders === 0) clearInterval(this.#alive);
      held = false;
    };
  }

  #poke() {
    this.#core.lookAt = 0;
    this.#poll?.abort();
  }

  async #follow() {
    let failures = 0;
    let size = 0;
    try {
      await pauseFor(0); // whoever begins to follow, goes on first
      while (!this.#closing) {
        this.#stepping = true;
        const soon = await this.#core.step(Date.now()).finally(() => (this.#stepping = false));
        this.#settle();
        await new Promise((resolve) => setImmediate(resolve));
        if (soon <= Date.now()) continue;
        await this.#flush();
        this.changed.notify();
        if (this.#core.lookAt === 0 || this.#closing) continue; // somebody wants to know meanwhile
        const poll = (this.#poll = new AbortController());
        try {
          const wait = Math.min(Math.max(soon - Date.now(), 1), POLL_MS);
          const heard = await this.ledger.commands(this.name, size, wait, { stop: poll.signal, idle: true });
          Object.assign(this.#core, { heard, lookAt: 0 });
          size = heard.size;
          failures = 0;
        } catch (why) {
          if (why instanceof Forked) this.#core.forked(why);
          if (!(why instanceof LedgerError)) throw why;
          if (poll.signal.aborted) continue;
          failures++;
          await this.changed.wait(Math.min(100 * 2 ** Math.min(failures, 9), 30_000), true);
        } finally {
          this.#poll = null;
        }
      }
    } catch (why) {
      this.#failure = why instanceof Stopped ? why.why : asError(why);
    } finally {
      this.changed.notify();
    }
  }

  #raise() {
    if (this.#failure) throw this.#failure;
  }

  /** @param {string} what @throws {InputError} in a step or a hook, for which a rollback would wait */
  #outside(what) {
    const at = place.getStore();
    if (at?.agent !== this) return;
    if (at.obeying) throw new InputError(`${what}: called in a hook`, "let the hook end first: the rollback waits for its end");
    if (at.steps.some((local) => this.active.has(local))) throw new InputError(`${what}: called in a step`, "leave the step first: a rollback waits for its end");
  }

  /** @param {Event} event */
  #event(event) {
    const { kind, incident } = event;
    const order = kind === "accepted" ? this.#core.orders.get(incident) : undefined;
    const names = this.#affected.get(incident) ?? new Set();
    for (const c of order?.commands ?? []) {
      names.add(localOf(c.exec));
      if (c.result || c.method === "none") this.#results.set(`${incident} ${localOf(c.exec)}`, c.result || "not_executed");
    }
    if (kind === "outcome") {
      names.add(localOf(event.exec));
      this.#results.set(`${incident} ${localOf(event.exec)}`, event.text);
    }
    if (order || kind === "outcome") {
      this.#affected.set(incident, names);
      this.#settled.delete(incident);
      this.changed.notify();
    }
    for (const listener of this.#listeners) listener(event);
  }

  /** Notes which incidents have nothing left to undo here, and tells their runs. */
  #settle() {
    /** @type {[Run, number][]} */
    const told = [];
    for (const [incident, names] of this.#affected) {
      if (this.#settled.has(incident) || !this.#isSettled(incident)) continue;
      this.#markUndone(incident, names);
      this.#settled.add(incident);
      for (const run of this.#runs) if (this.pending(run.name).includes(incident)) told.push([run, incident]);
      this.changed.notify();
    }
    for (const [run, incident] of told) run.tell(this.rolledBack(run.name, [incident]));
  }

  /** @param {number} incident */
  #isSettled(incident) {
    const core = this.#core;
    if (core.asks.has(incident) || core.works.some((w) => w.incident === incident && w.phase !== "closed")) return false;
    const order = core.orders.get(incident);
    if (!order) return core.hintedAt > 0 && !core.hinted.has(incident); // of an earlier process: what is left to do there, the server hints at
    return order.commands.every((c) => c.result || c.method === "none" || core.covering(incident, c));
  }

  /** @param {number} incident @param {Set<string>} names */
  #markUndone(incident, names) {
    for (const local of names) {
      const record = this.records.steps.get(local);
      const result = this.#results.get(`${incident} ${local}`);
      if (!record || !result || record.undone === result) continue;
      record.undone = result;
      this.records.save(record);
    }
  }

  /** Takes up what an earlier process undid and did not note at its steps. */
  #recall() {
    for (const work of this.#core.all) {
      const result = RESULTS[work.hook];
      if (work.phase !== "closed" || work.status !== "done" || !result) continue;
      const names = this.#affected.get(work.incident) ?? new Set();
      this.#affected.set(work.incident, names);
      for (const m of work.members) {
        names.add(localOf(m.exec));
        this.#results.set(`${work.incident} ${localOf(m.exec)}`, result);
      }
    }
    for (const [incident, names] of this.#affected) this.#markUndone(incident, names);
  }

  /** Waits until a step under way has ended; what is to be logged of one that no process is in. @param {string} local */
  async #drained(local) {
    while (this.active.has(local)) await this.changed.wait(undefined, true);
    const record = this.records.steps.get(local);
    if (!record || FINAL.includes(record.progress) || record.progress === "refused") return "";
    record.progress = "failed"; // a process that was killed was in it
    record.outbox = [];
    this.records.save(record);
    return "failed";
  }

  // What runs use

  /** The steps that the caller is in, by local id. @returns {string[]} */
  within() {
    const at = place.getStore();
    return at?.agent === this ? at.steps : [];
  }

  /** A step is not under way any more. @param {string} local */
  ended(local) {
    this.active.delete(local);
    this.changed.notify();
  }

  /** The incidents that undo work of a run which the run was not told of. @param {string} run @returns {number[]} */
  pending(run) {
    const { told } = this.records.run(run);
    const mine = new Set(this.records.of(run).map((r) => r.exec));
    const news = [...this.#affected].filter(([incident, names]) => {
      const known = told[String(incident)] ?? [];
      return [...names].some((local) => mine.has(local) && !known.includes(local));
    });
    return news.map(([incident]) => incident).sort((a, b) => a - b);
  }

  /** Whether the caller is in a step that incidents undo. @param {number[]} incidents */
  holds(incidents) {
    return this.within().some((local) => this.active.has(local) && incidents.some((n) => this.#affected.get(n)?.has(local)));
  }

  /** Whether nothing of incidents is left to undo here. @param {number[]} incidents */
  isSettled(incidents) {
    return incidents.every((n) => this.#settled.has(n));
  }

  /** Waits until nothing of incidents is left to undo here. @param {number[]} incidents */
  async awaitSettled(incidents) {
    if (place.getStore()?.agent === this && place.getStore()?.obeying) throw new InputError("a step in a hook of the same rollback", "let the hook end first");
    const release = this.hold();
    try {
      while (!this.isSettled(incidents)) {
        this.#raise();
        if (this.#closing) throw new StateError("the agent was closed");
        await this.changed.wait();
      }
    } finally {
      release();
    }
  }

  /** What is to be told of settled incidents to a run. @param {string} run @param {number[]} incidents @returns {RolledBack} */
  rolledBack(run, incidents) {
    const mine = new Set(this.records.of(run).map((r) => r.exec));
    /** @type {{[exec: string]: string}} */
    const undone = {};
    for (const n of incidents) {
      for (const local of [...(this.#affected.get(n) ?? [])].sort()) if (mine.has(local)) undone[`${this.name}#${local}`] = this.#results.get(`${n} ${local}`) ?? "unknown";
    }
    const back = this.#core.all.findLast((w) => w.hook === "restore" && incidents.includes(w.incident) && w.status === "done" && w.member.wid === run);
    if (!back) return new RolledBack(incidents, undone, null, null);
    const local = localOf(back.checkpoint);
    const name = local.startsWith(`${run}/`) ? local.slice(run.length + 1) : local;
    return new RolledBack(incidents, undone, name, this.stateOf(run, back.checkpoint).state);
  }

  /** Notes that a run was told of incidents. @param {string} run @param {number[]} incidents */
  markTold(run, incidents) {
    const { told } = this.records.run(run);
    for (const n of incidents) told[String(n)] = [...(this.#affected.get(n) ?? [])].sort();
    this.records.saveRun(run);
  }

  /**
   * Digest and state of a checkpoint that the agent kept; an empty digest if it kept none.
   *
   * @param {string} run @param {string} checkpoint AGENT#ID
   * @returns {{digest: string, state: any}}
   */
  stateOf(run, checkpoint) {
    const kept = this.records.run(run).checkpoints[localOf(checkpoint)];
    if (!kept?.file) return { digest: "", state: null };
    let data;
    try {
      data = fs.readFileSync(join(this.#config.store.path, "checkpoints", kept.file));
    } catch {
      return { digest: "", state: null };
    }
    return { digest: this.digest(data), state: kept.raw ? new Uint8Array(data) : JSON.parse(data.toString()) };
  }

  /** The keyed digest of a state: who guesses the state cannot test the guess by the log. @param {Uint8Array} data @returns {string} */
  digest(data) {
    return `hmac-sha256:${createHmac("sha256", this.#config.secret).update("state|").update(data).digest("hex")}`;
  }

  /** Stores the state of a checkpoint. @param {Uint8Array} data @returns {string} the name of its file */
  keepState(data) {
    const folder = join(this.#config.store.path, "checkpoints");
    const name = createHash("sha256").update(data).digest("hex");
    try {
      fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
      if (!fs.existsSync(join(folder, name))) writeFile(join(folder, name), data);
    } catch (why) {
      throw new StateError(`state ${this.#config.store.path}: a checkpoint: ${asError(why).message}`, "make room, or mend the disk", why);
    }
    return name;
  }

  /** The idempotency key of a step: the same until the step was undone. @param {Record} record @returns {string} */
  keyOf(record) {
    const text = `step|${this.#config.root.origin}|${record.run}/${record.name}:${record.id}|${record.ordinal}`;
    return createHmac("sha256", this.#config.secret).update(text).digest("hex");
  }

  /** The signed envelope of an entry. @param {string} kind @param {import("./signing.js").Body} body @returns {string} */
  sign(kind, body) {
    return this.#config.signer.sign(kind, body, Date.now());
  }

  /** Has `obey` wait for an incident. @param {number} incident */
  signalled(incident) {
    this.#signalled.add(incident);
    this.#poke();
  }

  /**
   * Sends an envelope until the log has it.
   *
   * @param {string} envelope
   * @param {(envelope: string) => void} resigned stores another one, if the first became too old
   * @param {(why: Refused) => Promise<void>} [held] waits while a fence refuses it
   * @returns {Promise<import("./work.js").Ref>}
   * @throws {Refused | Unreachable}
   */
  async send(envelope, resigned, held) {
    let till = performance.now() + this.#patience;
    let fenced = 0;
    for (let pause = 100; ; pause = Math.min(2 * pause, 5000)) {
      this.#raise();
      let asked = 0;
      try {
        return await this.ledger.submit(envelope, { attempts: 1 });
      } catch (why) {
        if (why instanceof Refused && why.problem === "stale") { // it was not registered before: that would have been told first
          const [kind, body] = bodyOf(envelope);
          envelope = this.sign(kind, body);
          resigned(envelope);
          continue;
        }
        if (why instanceof Refused && why.problem === "fenced-dependency" && held && fenced < 3) {
          fenced++;
          await held(why);
          till = performance.now() + this.#patience;
          continue;
        }
        const again = why instanceof Unreachable || (why instanceof Refused && why.temporary);
        if (!again || performance.now() > till) throw why;
        if (why instanceof Refused) asked = Math.min(why.retryAfter, 30_000);
      }
      await pauseFor(Math.max(pause, asked));
    }
  }

  /** Sends what the log may not have of a step that has ended. @param {Record} record @returns {Promise<void>} */
  sendEnd(record) {
    let sending = this.#ending.get(record);
    if (!sending) this.#ending.set(record, (sending = this.#sendEnd(record).finally(() => this.#ending.delete(record))));
    return sending;
  }

  /** @param {Record} record */
  async #sendEnd(record) {
    for (let envelope = record.outbox[0]; envelope !== undefined; envelope = record.outbox[0]) {
      const resigned = (/** @type {string} */ other) => {
        record.outbox[0] = other;
        this.records.save(record);
      };
      try {
        record.ended = (await this.send(envelope, resigned)).index;
      } catch (why) {
        if (!(why instanceof Refused && ["state-conflict", "fenced-dependency"].includes(why.problem))) throw why;
      }
      record.outbox = record.outbox.slice(1);
      this.records.save(record);
    }
  }

  /** Sends the ends of steps that an earlier process, or an earlier answer, left unsent. */
  async #flush() {
    const unsent = [...this.records.steps.values()].filter((r) => r.outbox.length && FINAL.includes(r.progress) && !this.active.has(r.exec));
    for (const record of unsent) {
      try {
        await this.sendEnd(record);
      } catch (why) {
        if (!(why instanceof LedgerError)) throw why;
        return; // the next time
      }
    }
  }
}

/**
 * How an agent connects. All times are in milliseconds.
 *
 * - `key`: the file of its private key, as `arl key generate` writes it
 * - `url`, `root`: the ledger, and the file of its pinned root, as `arl root show --out` writes it; by
 *   default those of the profile in ARL_HOME
 * - `state`: the directory of its state, by default KEY.state. It lies outside of all that is restored,
 *   and is not restored from a backup
 * - `secret`: the file of the secret that makes idempotency keys, by default KEY.secret. It outlives the
 *   state
 * - `confirm`: a second source of a tree head for the first contact: a file, or the URL of a mirror. By
 *   default the tree head that the pinned root carries
 * - `absences`: obey only bundles that prove that nothing is left out
 * - `new`: whether the agent never ran. By default an agent without state and secret never ran; without
 *   a state, but with a secret, its state is lost: what was open counts as started
 * - `patience`: how long a step waits for a ledger that does not answer, by default 60,000
 * - `limit`: the time of a hook, by default 600,000
 *
 * @typedef {{key: string, url?: string, root?: string | import("./verify/root.js").Root, state?: string, secret?: string, confirm?: string,
 *   absences?: boolean, new?: boolean, patience?: number, limit?: number}} ConnectOptions
 */

/**
 * Connects an agent to its ledger.
 *
 * @param {string} name the principal, as `arl agent enrol --principal` names it
 * @param {ConnectOptions} options
 * @returns {Promise<Agent>}
 * @throws {InputError | StateError}
 */
export async function connect(name, options) {
  const { key, url, root, state, patience = PATIENCE_MS, limit = LIMIT_MS } = options ?? {};
  if (typeof name !== "string" || typeof key !== "string") throw new InputError("connect: no name or no key", 'connect("buyer", {key: "buyer.key"})');
  if (!(patience >= 0) || !(limit > 0)) throw new InputError(`connect: patience ${patience}, limit ${limit}`, "both are numbers of milliseconds");
  const found = find(url, root);
  const loaded = loadKey(key);
  const store = new Store(state ?? `${key}.state`);
  try {
    const config = await configOf(name, options, found, loaded, store);
    const agent = new Agent(config, { patience, limit });
    await agent.load();
    return agent;
  } catch (why) {
    store.close();
    throw why;
  }
}

/**
 * @param {string} name @param {ConnectOptions} options @param {import("./trust.js").Found} found @param {import("./keyfile.js").Key} key @param {Store} store
 * @returns {Promise<Config>}
 */
async function configOf(name, options, { url, root, tlsCA }, key, store) {
  const secretFile = options.secret ?? `${options.key}.secret`;
  const names = store.names();
  const none = !names.length && !fs.existsSync(secretFile);
  const never = options.new ?? none;
  if (options.new && names.includes("agent")) throw new StateError(`state ${store.path}: an agent ran with it`, "leave new: out");
  const secret = secretOf(secretFile, never || none);
  let keptAt = 0;
  const ledger = new Ledger(url, root, {
    tlsCA,
    keep: (head) => { // now and then: an older one proves a fork no less
      if (performance.now() - keptAt < KEEP_HEAD_MS && keptAt) return;
      keptAt = performance.now();
      store.save("head", { head: head.note });
    },
  });
  const head = names.includes("head") ? store.load("head").head : root.head;
  if (head) ledger.accepted = await openHead(root, head);
  const pinned = root.head;
  const confirm = options.confirm ? secondSource(options.confirm, { url, root }) : pinned ? async () => pinned : null;
  /** @type {Config} */
  const config = {
    root, agent: name, secret, signer: new Signer(name, root.origin, key), ledger, store, hooks: {}, tell: () => eventOf("lost"), confirm,
    absences: options.absences ?? false, attempts: ATTEMPTS,
  };
  if (!names.includes("agent")) store.save("agent", identityOf(config, Date.now(), !never, 0));
  return config;
}
