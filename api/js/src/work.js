// @ts-check
/**
 * One undertaking: a hook for one member of a rollback, or for the members of a line.
 *
 * A crash means, by the phase that the state has:
 *
 *     noted    nothing was started: the undertaking begins again, if the decision still stands
 *     started  the hook may have run, wholly, in part or not: the agent finds out
 *     done     the hook has ended and its report is kept: only entries are to be logged
 *     closed   the log has the entries
 */
import { Damaged } from "./store.js";

/**
 * @typedef {"drain" | "restore" | "compensate" | "cancel" | "probe"} Hook
 * @typedef {"noted" | "started" | "done" | "closed"} Phase
 * @typedef {"done" | "no_effect" | "failed" | "unknown"} Status
 * @typedef {{index: number, leaf_hash: string}} Ref an entry
 * @typedef {{exec: string, index: number, wid: string, effect: string, method: string}} Member
 * @typedef {{envelope: string, optional: boolean}} Item of an outbox
 * @typedef {{status: Status, digest?: string, progress?: string, residual?: string}} Report how a hook ended
 */

/**
 * What a hook is asked for, in the members of docs/agent.md. All of it is proven. `of`: with probe, the
 * hook that was started; `key`: with compensate; `keys`: with a probe of compensate, those of every
 * attempt that may have been made.
 *
 * @typedef {{hook: Hook, of: Hook | "", incident: number, decision: Ref, members: Member[], checkpoint: string, digest: string,
 *   standing: string[], attempt: number, key: string, keys: string[], comp_exec: string, expires_at: number}} Call
 */

/**
 * What an agent can do about its own work. A hook that throws may have done anything. `able` says
 * whether there is a hook for an undertaking, `repeatable` whether it may run again, `probeable` whether
 * probe can be asked about it.
 *
 * @typedef {(call: Call) => Report | Promise<Report>} Does
 * @typedef {{drain?: Does, restore?: Does, compensate?: Does, cancel?: Does, probe?: Does,
 *   able?: (work: Work) => boolean, repeatable?: (work: Work) => boolean, probeable?: (work: Work) => boolean}} Hooks
 */

// Bounds on repetitions, as in api/client/agent/limits.go. Pauses are in milliseconds.
export const ATTEMPTS = 3;
export const CRASH_FACTOR = 4;
export const KEYS_LOST = 32;
export const KEYS_MAX = 64;
export const PROBES_MAX = 5;
const REFUSALS_MAX = 8;
export const DISTRUST_MAX = 8;
export const DOUBTS_MAX = 5;
export const PROOFS_MAX = 3;
export const PAUSE_MIN = 500;
const PAUSE_MAX = 60_000;
const ASIDE_MAX = 600_000;
const LEAST_MAX = 3_600_000;

/** How long to wait after so many failures, in milliseconds. @param {number} tries @param {number} longest */
const pauseAfter = (tries, longest) => Math.min(PAUSE_MIN * 2 ** Math.min(tries, 16), longest);

/** A pause that grows with each failure. */
export class Pause {
  /** Unix milliseconds. */
  till = 0;
  tries = 0;

  /** Begins a longer pause, of least milliseconds or more. @param {number} now @param {number} [least] */
  failed(now, least = 0) {
    this.till = now + Math.max(Math.min(least, LEAST_MAX), pauseAfter(this.tries, PAUSE_MAX));
    this.tries++;
  }
}

/** What of an undertaking need not survive a crash. */
class Memory {
  /** Of the outbox, before the hook. */
  sent = 0;
  waitTill = 0;
  pauses = 0;
  probes = 0;
  refusals = 0;
  /** Index of the newest thing known when an entry was refused. */
  known = 0;
  /** How many of those that the outcome may supersede were refused. */
  named = 0;
}

/**
 * @typedef {{name: string, hook: Hook | "", number: number, phase: Phase, incident: number, wid: string, decision: Ref, epoch: number,
 *   expires_at: number, deadline_at: number, members: Member[]}} Begun what an undertaking has from its begin on
 * @typedef {{lost?: boolean, status?: Status | "", attempt?: number, vain?: number, checkpoint?: string, digest?: string, standing?: string[],
 *   comp_exec?: string, first?: string, progress?: string, outbox?: Item[], error?: string}} Since
 */

const PHASES = ["noted", "started", "done", "closed"];

/** An undertaking as it stands in the state. Without a hook it is an answer. */
export class Work {
  /** It may have been started: an earlier state is gone. */
  lost = false;
  /** @type {Status | ""} */
  status = "";
  attempt = 0;
  /** Attempts that had no effect by their hook's own report. */
  vain = 0;
  checkpoint = "";
  digest = "";
  /** @type {string[]} */
  standing = [];
  comp_exec = "";
  /** With drain: envelope of the execution's first entry. */
  first = "";
  progress = "";
  /** @type {Item[]} */
  outbox = [];
  /** What its hook threw last. */
  error = "";
  mem = new Memory();

  /** @param {Begun & Since} members */
  constructor(members) {
    this.name = members.name;
    this.hook = members.hook;
    this.number = members.number;
    this.phase = members.phase;
    this.incident = members.incident;
    this.wid = members.wid;
    this.decision = members.decision;
    this.epoch = members.epoch;
    this.expires_at = members.expires_at;
    this.deadline_at = members.deadline_at;
    this.members = members.members;
    Object.assign(this, members);
  }

  /** @returns {Record<string, any>} what is stored */
  document() {
    const { mem: _, ...value } = this;
    return value;
  }

  /**
   * Reads a document.
   *
   * @param {string} name @param {any} value
   * @returns {Work | null} null if it is the stone of a lost one
   * @throws {Damaged}
   */
  static read(name, value) {
    if (value !== null && typeof value === "object" && !Object.keys(value).length) return null;
    const text = ["name", "hook", "phase", "wid", "status", "checkpoint", "digest", "comp_exec", "first", "progress", "error"];
    const numbers = ["number", "incident", "epoch", "expires_at", "deadline_at", "attempt", "vain"];
    const lists = ["members", "standing", "outbox"];
    const known = [...text, ...numbers, ...lists, "decision", "lost"];
    const good = value?.name === name && PHASES.includes(value.phase) && Object.keys(value).every((n) => known.includes(n)) &&
      text.every((n) => typeof value[n] === "string") && numbers.every((n) => Number.isSafeInteger(value[n])) &&
      lists.every((n) => Array.isArray(value[n])) && value.members.length > 0 && value.number > 0 && Number.isSafeInteger(value.decision?.index);
    if (!good) throw new Damaged(`document ${name}: not an undertaking`);
    return new Work(value);
  }

  /** Whether its newest attempt has begun, and is not known to have had no effect. */
  acted() {
    return this.phase === "started" || (this.phase !== "noted" && this.status !== "" && this.status !== "no_effect");
  }

  /** Whether an entry was refused so often that it waits for a change. */
  aside() {
    return this.phase !== "noted" && this.mem.refusals >= REFUSALS_MAX;
  }

  /** Puts the undertaking off, each time for longer. @param {number} now @param {number} [least] milliseconds */
  pause(now, least = 0) {
    const longest = this.aside() ? ASIDE_MAX : PAUSE_MAX;
    this.mem.waitTill = now + Math.max(Math.min(least, LEAST_MAX), pauseAfter(this.mem.pauses, longest));
    this.mem.pauses++;
  }

  /** Forgets what need not survive. */
  forget() {
    this.mem = new Memory();
  }

  /** Whether an execution is among its members. @param {string} exec */
  about(exec) {
    return this.members.some((m) => m.exec === exec);
  }

  /** @returns {Member} the first of its members, of which there is one at least */
  get member() {
    return /** @type {Member} */ (this.members[0]);
  }
}

/** A hook has not ended in its time, and may still act. Its message says so. */
export class StillRunning extends Error {}

/** A decision that verified: what the agent may do about an incident. */
export class Order {
  opened_at = 0;
  wid = "";
  size = 0;
  links = 0;
  complete = false;
  /** @type {import("./verdict.js").Command[]} */
  commands = [];
  /** Envelopes of first entries, by execution. @type {Map<string, string>} */
  firsts = new Map();
  /** Checkpoints whose restore was looked at. @type {Set<string>} */
  waiting = new Set();

  /** @param {Ref} decision @param {number} epoch @param {number} expires_at @param {number} deadline_at */
  constructor(decision, epoch, expires_at, deadline_at) {
    this.decision = decision;
    this.epoch = epoch;
    this.expires_at = expires_at;
    this.deadline_at = deadline_at;
  }

  /** The command about an execution. @param {string} exec */
  command(exec) {
    return this.commands.find((c) => c.exec === exec);
  }

  /** Whether the time of the decision has passed. @param {number} now */
  over(now) {
    return now >= this.expires_at || now >= this.deadline_at;
  }
}

/** A question for a bundle. */
export class Ask {
  pause = new Pause();
  after = 0;
  whole = false;
  doubts = 0;
  /** @type {Order | null} */
  order = null;
}

/** A decision in the log that no bundle has shown. */
export class Unseen {
  pause = new Pause();
  told = false;

  /** @param {number} index @param {{size: number, root: string}} rollbackSet */
  constructor(index, rollbackSet) {
    this.index = index;
    this.rollbackSet = rollbackSet;
  }
}
