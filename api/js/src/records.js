// @ts-check
/** What an agent keeps of its own steps, checkpoints and signals. Each is stored before it is sent. */
import { createHash } from "node:crypto";
import { InputError } from "./errors.js";
import { Damaged } from "./store.js";

/** Effects of a step. */
export const EFFECTS = ["none", "reversible", "compensable", "irrevocable", "undeclared"];
/** Progress after which nothing comes. */
export const FINAL = ["confirmed", "failed", "cancelled"];
/** Outcomes after which a step, if it is taken again, is another execution under another key. */
export const UNDONE = ["restored", "compensated", "not_executed"];

/**
 * A step as it stands in the state. `exec`: its local id in the log; `progress`: dispatching (its
 * beginning is not in the log yet), started, confirmed, failed, cancelled or refused; `ordinal`: how
 * often the step was undone before, another key each time; `outbox`: signed envelopes that the log may
 * not have; `result`: what the step keeps; `undone`: the outcome of a rollback; `ended`: index of its
 * final entry.
 *
 * @typedef {{exec: string, run: string, name: string, id: string, generation: number, effect: string, parents: {exec: string, dep: string}[],
 *   progress: string, ordinal: number, outbox: string[], result: any, undone: string, ended: number}} Record
 * @typedef {{file: string, raw: boolean, envelope: string, logged: boolean}} Point a checkpoint
 * @typedef {{run: string, told: {[incident: string]: string[]}, checkpoints: {[local: string]: Point},
 *   signals: {[what: string]: {envelope: string, index: number | null}},
 *   recoveries?: {[step: string]: {started_at: number, rungs: object[]}}}} Kept what is kept of a run
 */

/** Whether the step, if it is taken again, is another execution. @param {Record} r */
export const isSpent = (r) => ["failed", "cancelled", "refused"].includes(r.progress) || UNDONE.includes(r.undone);

/** @param {string} kind @param {string} text */
const documentOf = (kind, text) => `${kind}-${createHash("sha256").update(text).digest("hex").slice(0, 40)}`;

/** @param {any} value @returns {value is Record} */
const isRecord = (value) => ["exec", "run", "name", "id", "effect", "progress", "undone"].every((n) => typeof value?.[n] === "string") &&
  ["generation", "ordinal", "ended"].every((n) => Number.isSafeInteger(value[n])) && [value.parents, value.outbox].every(Array.isArray);

/** @param {any} value @returns {value is Kept} */
const isKept = (value) => typeof value?.run === "string" && ["told", "checkpoints", "signals"].every((n) => value[n] !== null && typeof value[n] === "object");

/** All records of a state. */
export class Records {
  #store;
  /** By local id. @type {Map<string, Record>} */
  steps = new Map();
  /** By workflow. @type {Map<string, Kept>} */
  runs = new Map();

  /** @param {import("./store.js").Store} store @throws {InputError} */
  constructor(store) {
    this.#store = store;
    for (const name of store.names()) {
      if (name.startsWith("step-")) {
        const record = this.#load(name, isRecord, "after you looked whether the step had its effect");
        this.steps.set(record.exec, record);
      } else if (name.startsWith("run-")) {
        const kept = this.#load(name, isKept, "the run begins anew");
        this.runs.set(kept.run, kept);
      }
    }
  }

  /**
   * @template T
   * @param {string} name @param {(value: any) => value is T} good @param {string} then
   * @returns {T}
   */
  #load(name, good, then) {
    try {
      const value = this.#store.load(name);
      if (!good(value)) throw new Damaged(`document ${name}: not of its form`);
      return value;
    } catch (why) {
      if (!(why instanceof Damaged)) throw why;
      throw new InputError(`state ${this.#store.path}: ${why.message}`, `remove ${name}.doc: ${then}`, why);
    }
  }

  /** Stores a step. @param {Record} record */
  save(record) {
    this.#store.save(documentOf("step", record.exec), record);
    this.steps.set(record.exec, record);
  }

  /** What is kept of a run. @param {string} name @returns {Kept} */
  run(name) {
    let kept = this.runs.get(name);
    if (!kept) this.runs.set(name, (kept = { run: name, told: {}, checkpoints: {}, signals: {} }));
    return kept;
  }

  /** Stores what is kept of a run. @param {string} name */
  saveRun(name) {
    this.#store.save(documentOf("run", name), this.run(name));
  }

  /** The steps of a run. @param {string} run */
  of(run) {
    return [...this.steps.values()].filter((r) => r.run === run);
  }

  /**
   * The newest execution of a step of a run.
   *
   * @param {string} run @param {string} name @param {string} id
   * @returns {Record | undefined}
   */
  newest(run, name, id) {
    return this.of(run).filter((r) => r.name === name && r.id === id).sort((a, b) => b.generation - a.generation)[0];
  }
}

/**
 * The local id of an execution: RUN/NAME, RUN/NAME:ID, and behind an at sign how often it is done.
 *
 * @param {string} run @param {string} name @param {string} id @param {number} generation
 * @returns {string}
 * @throws {InputError}
 */
export function execId(run, name, id, generation) {
  const text = `${run}/${name}${id && `:${id}`}${generation > 1 ? `@${generation}` : ""}`;
  if (text.length > 128) throw new InputError(`step ${JSON.stringify(text)}: more than 128 characters`, "give shorter names to run and step");
  return text;
}

/**
 * Name and id of the step that an execution is of, without a record of it.
 *
 * @param {string} run @param {string} local
 * @returns {{name: string, id: string}}
 */
export function nameOf(run, local) {
  const rest = (local.startsWith(`${run}/`) ? local.slice(run.length + 1) : local).replace(/@\d+$/, "");
  const [name = "", ...id] = rest.split(":");
  return { name, id: id.join(":") };
}

/** The id of an execution without its agent. @param {string} exec */
export const localOf = (exec) => exec.slice(exec.indexOf("#") + 1);

/** A name as it may stand in an id. @param {string} what @param {unknown} name @returns {string} @throws {InputError} */
export function checkName(what, name) {
  if (typeof name === "string" && /^[A-Za-z0-9._-]{1,100}$/.test(name)) return name;
  throw new InputError(`${what} ${shown(name)}: not a name`, "a name has 1 to 100 of A-Z a-z 0-9 . _ -");
}

/** A value in few characters, for a message. @param {unknown} value */
export function shown(value) {
  let text;
  try {
    text = JSON.stringify(value);
  } catch {
    text = undefined;
  }
  return (text ?? String(value)).slice(0, 100);
}
