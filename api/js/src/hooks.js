// @ts-check
/** The functions that undo, as the runtime calls them: with a limit. */
import { InputError, NoEffect, NotUndone } from "./errors.js";
import { localOf, nameOf, shown } from "./records.js";
import { place } from "./waiting.js";
import { StillRunning } from "./work.js";
import { canonical } from "./verify/json.js";

/**
 * What a hook is to undo. All of it is proven, but `result`, `state` and `stepKey`, which the agent
 * kept.
 *
 * - `exec`: in the log, AGENT#RUN/STEP; of a restore the newest execution that goes back
 * - `run`: the workflow
 * - `step`, `id`: name and id of the step, empty with a restore
 * - `incident`: its number
 * - `attempt`: from 0; grows only when the one before had no effect
 * - `key`: of a compensation, the idempotency key for the service
 * - `keys`: with a probe, every key that may have been used
 * - `stepKey`: of a compensation, the idempotency key that the step had
 * - `result`: of a compensation, what the step kept; null if the state was lost
 * - `undone`: with a restore, the executions that go back
 * - `checkpoint`, `digest`, `state`: with a restore, its name, its digest, and what was given to `run.checkpoint`
 * - `standing`: with a restore, executions of the run whose effects stand
 *
 * @typedef {{exec: string, run: string, step: string, id: string, incident: number, attempt: number, key: string, keys: string[],
 *   stepKey: string, result: any, undone: string[], checkpoint: string, digest: string, state: any, standing: string[]}} Undo
 * @typedef {(undo: Undo) => any} Undoes a function that may be async
 * @typedef {{undoes: Undoes, idempotent: boolean, probe: Undoes | undefined, limit: number}} Declared limit in milliseconds
 * @typedef {import("./work.js").Call} Call
 * @typedef {import("./work.js").Report} Report
 * @typedef {import("./work.js").Work} Work
 */

/**
 * What the registry asks the agent. `drained` waits for a step under way.
 *
 * @typedef {{drained: (local: string) => Promise<string>, record: (local: string) => import("./records.js").Record | undefined,
 *   stateOf: (run: string, checkpoint: string) => {digest: string, state: any}, keyOf: (record: import("./records.js").Record) => string,
 *   digest: (data: Uint8Array) => string}} Source
 */

const isDigest = (/** @type {unknown} */ value) => typeof value === "string" && /^(hmac-)?sha256:/.test(value);

/** The functions of an agent, and the hooks that they are to the runtime. */
export class Registry {
  #limit;
  /** @type {Map<string, Declared>} */
  #compensations = new Map();
  /** @type {Declared | null} */
  #restore = null;
  /** @type {Source} */
  #source;
  #agent;

  /** @param {object} agent @param {Source} source @param {number} limit milliseconds */
  constructor(agent, source, limit) {
    this.#agent = agent;
    this.#source = source;
    this.#limit = limit;
  }

  /** Declares a compensation; of every other step if the name is empty. @param {string} name @param {unknown} undoes @param {Partial<Declared>} options */
  compensates(name, undoes, { idempotent = false, probe, limit }) {
    if (limit !== undefined && !(limit > 0)) throw new InputError(`compensates ${shown(name)}: limit ${shown(limit)}`, "a limit is a number of milliseconds above 0");
    if (typeof undoes !== "function") throw new InputError(`compensates ${shown(name)}: ${shown(undoes)} is no function`, "pass a name and a function");
    if (this.#compensations.has(name)) throw new InputError(`compensates ${shown(name)}: declared twice`, "one function undoes one step");
    this.#compensations.set(name, { undoes: /** @type {Undoes} */ (undoes), idempotent, probe, limit: limit ?? this.#limit });
  }

  /** Declares the restore. @param {unknown} undoes @param {Partial<Declared>} options */
  restores(undoes, { idempotent = true, probe }) {
    if (typeof undoes !== "function" || this.#restore) throw new InputError("restores: declared twice, or no function", "one function takes the state back");
    this.#restore = { undoes: /** @type {Undoes} */ (undoes), idempotent, probe, limit: this.#limit };
  }

  /** @returns {import("./work.js").Hooks} what the runtime calls; functions are looked up when they are needed */
  hooks() {
    return {
      drain: async (call) => ({ status: "done", progress: await this.#source.drained(localOf(first(call.members).exec)) }),
      restore: (call) => this.#restores(call),
      compensate: (call) => this.#compensates(call),
      probe: (call) => (call.of === "restore" ? this.#probesRestore(call) : this.#probes(call)),
      able: (work) => (work.hook === "restore" ? this.#restore !== null : this.#find(work.members) !== undefined),
      repeatable: (work) => this.#declared(work)?.idempotent ?? !["compensate", "restore"].includes(work.hook), // to wait for a step is the same twice
      probeable: (work) => this.#declared(work)?.probe !== undefined,
    };
  }

  /** @param {import("./work.js").Member[]} members */
  #find(members) {
    const { exec, wid } = first(members);
    const name = this.#source.record(localOf(exec))?.name ?? nameOf(wid, localOf(exec)).name;
    return this.#compensations.get(name) ?? this.#compensations.get("");
  }

  /** @param {Work} work */
  #declared(work) {
    return work.hook === "compensate" ? this.#find(work.members) : work.hook === "restore" ? this.#restore ?? undefined : undefined;
  }

  /** @param {Call} call @returns {Undo} */
  #undo(call) {
    const { exec, wid } = first(call.members);
    const record = this.#source.record(localOf(exec));
    const { name, id } = record ?? nameOf(wid, localOf(exec));
    return {
      exec, run: wid, step: name, id, incident: call.incident, attempt: call.attempt, key: call.key, keys: call.keys,
      stepKey: record ? this.#source.keyOf(record) : "", result: record?.result ?? null, undone: [], checkpoint: "", digest: "", state: null, standing: [],
    };
  }

  /** What a restore gets, and the digest of the state that the agent kept, empty without one. @param {Call} call */
  #back(call) {
    const run = first(call.members).wid;
    const { digest: kept, state } = this.#source.stateOf(run, call.checkpoint);
    const local = localOf(call.checkpoint);
    const checkpoint = local.startsWith(`${run}/`) ? local.slice(run.length + 1) : local;
    /** @type {Undo} */
    const undo = {
      ...this.#undo(call), step: "", id: "", stepKey: "", result: null, undone: call.members.map((m) => m.exec), standing: call.standing,
      digest: call.digest, checkpoint, state,
    };
    return { undo, kept };
  }

  /** @param {Call} call @returns {Promise<Report>} */
  async #compensates(call) {
    const { exec } = first(call.members);
    const found = this.#find(call.members);
    if (!found) throw new InputError(`nothing compensates ${exec}`, "declare it with agent.compensates");
    return this.#reported(async () => {
      const returned = await this.#limited(found.undoes, this.#undo(call), found.limit);
      if (returned !== undefined) throw new InputError(`the compensation of ${exec} returned ${shown(returned)}`, "it returns nothing, or throws");
      return { status: "done" };
    });
  }

  /** @param {() => Promise<Report>} undo @returns {Promise<Report>} */
  async #reported(undo) {
    try {
      return await undo();
    } catch (why) {
      if (why instanceof NoEffect) return { status: "no_effect", residual: why.message };
      if (why instanceof NotUndone) return { status: "failed", residual: why.message || "the hook says nothing of what is left" };
      throw why;
    }
  }

  /** @param {Call} call @returns {Promise<Report>} */
  async #probes(call) {
    const found = this.#find(call.members);
    if (!found?.probe) return { status: "unknown" };
    const had = await this.#limited(found.probe, this.#undo(call), found.limit);
    if (had === true) return { status: "done" };
    if (had === false) return { status: "no_effect" };
    if (had !== null && had !== undefined)
      throw new InputError(`the probe of ${first(call.members).exec} returned ${shown(had)}`, "it returns true, false, or null if it does not know");
    return { status: "unknown" };
  }

  /** @param {Call} call @returns {Promise<Report>} */
  async #probesRestore(call) {
    const { undo, kept } = this.#back(call);
    if (!this.#restore?.probe) return { status: "unknown" };
    const had = await this.#limited(this.#restore.probe, undo, this.#restore.limit);
    if (isDigest(had)) return { status: "done", digest: had };
    if (had === true && kept) return { status: "done", digest: kept };
    if (had === false) return { status: "no_effect" };
    if (had !== null && had !== undefined) throw new InputError(`the probe of a restore returned ${shown(had)}`, "it returns a digest, false, or null if it does not know");
    return { status: "unknown" };
  }

  /** @param {Call} call @returns {Promise<Report>} */
  async #restores(call) {
    const found = this.#restore;
    if (!found) throw new InputError("nothing restores", "declare it with agent.restores");
    const { undo, kept } = this.#back(call);
    if (kept && kept !== call.digest) return { status: "failed", residual: "the state that the agent kept is not that of the checkpoint" };
    return this.#reported(async () => {
      const returned = await this.#limited(found.undoes, undo, found.limit);
      if (returned === undefined && kept) return { status: "done", digest: kept };
      if (isDigest(returned)) return { status: "done", digest: returned };
      if (returned === undefined) throw new InputError(`the restore of ${call.checkpoint} returned nothing`, "it returns the digest, where the agent keeps no state");
      return { status: "done", digest: this.#source.digest(stateBytes(returned)) };
    });
  }

  /** Calls a function. @param {Undoes} undoes @param {Undo} undo @param {number} limit @returns {Promise<any>} @throws {StillRunning} after the limit */
  async #limited(undoes, undo, limit) {
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new StillRunning(`the hook did not end within ${limit} ms, and may still act`)), Math.min(limit, 2 ** 31 - 1));
    });
    try {
      return await Promise.race([place.run({ agent: this.#agent, steps: [], obeying: true }, async () => undoes(undo)), late]);
    } finally {
      clearTimeout(timer);
    }
  }
}

/** @param {import("./work.js").Member[]} members one at least */
const first = (members) => /** @type {import("./work.js").Member} */ (members[0]);

/**
 * A state as bytes: bytes as they are, everything else as canonical JSON.
 *
 * @param {unknown} state
 * @returns {Uint8Array}
 * @throws {InputError}
 */
export const stateBytes = (state) => (state instanceof Uint8Array ? state : Buffer.from(canonical(plain(state))));

/**
 * A value as JSON has it: a copy, without members that are undefined.
 *
 * @param {unknown} value
 * @returns {any}
 * @throws {InputError}
 */
export function plain(value) {
  try {
    return copy(value, 0);
  } catch (why) {
    if (!(why instanceof TypeError)) throw why;
    throw new InputError(`state: ${why.message}`, "pass a Uint8Array, or values of JSON", why);
  }
}

/** @param {any} value @param {number} depth @returns {any} */
function copy(value, depth) {
  if (depth > 1000) throw new TypeError("deeper than 1000, or in a circle");
  if (typeof value?.toJSON === "function") value = value.toJSON();
  if (value === null || ["string", "boolean"].includes(typeof value) || Number.isFinite(value)) return value;
  if (Array.isArray(value)) return value.map((v) => copy(v ?? null, depth + 1));
  const prototype = typeof value === "object" ? Object.getPrototypeOf(value) : undefined;
  if (prototype !== null && prototype !== Object.prototype) throw new TypeError(`a ${value?.constructor?.name ?? typeof value} is no value of JSON`);
  const members = Object.entries(value).filter(([, v]) => v !== undefined);
  return Object.fromEntries(members.map(([name, v]) => [name, copy(v, depth + 1)]));
}
