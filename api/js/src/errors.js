// @ts-check
/** What can go wrong. Each error names what was given, what is wrong with it, and the remedy. */

/** The root of all errors of the package. `remedy` says what to do. */
export class LedgerError extends Error {
  /** @param {string} what @param {string} [remedy] @param {unknown} [cause] */
  constructor(what, remedy = "", cause) {
    super(remedy ? `${what} (${remedy})` : what, cause === undefined ? {} : { cause });
    this.name = new.target.name;
    this.what = what;
    this.remedy = remedy;
  }
}

/** An argument, a file or an environment variable cannot be used. */
export class InputError extends LedgerError {}

/** The state directory cannot be used: another process has it, or the disk failed. */
export class StateError extends LedgerError {}

/** The ledger gave no answer in time. What was stored is sent again, with the same bytes. */
export class Unreachable extends LedgerError {}

/** An answer does not prove what it says. Nothing of it is believed. */
export class Unproven extends LedgerError {}

/**
 * Two signed tree heads of the ledger contradict each other. `heads` has both signed notes.
 * `proven` says that the two heads alone show that. Otherwise only a proof between them failed.
 */
export class Forked extends LedgerError {
  /** @param {string} what @param {[string, string]} heads @param {boolean} proven */
  constructor(what, heads, proven) {
    super(what, "nothing more is done: show both heads to others, and remove the document fork of the state when it is settled");
    this.heads = heads;
    this.proven = proven;
  }
}

const TEMPORARY = ["rate-limited", "not-ready", "insufficient-storage"];

/**
 * The ledger refused an entry or a question. `problem` is the name of the problem type, `field` the
 * member at fault. `incident` and `waitsFor` belong to `fenced-dependency`. `retryAfter` is how long
 * the ledger asks to wait, in milliseconds.
 */
export class Refused extends LedgerError {
  /** @param {string} problem @param {Record<string, unknown>} answer */
  constructor(problem, answer) {
    super(`${problem}: ${text(answer, "detail")}`, text(answer, "remedy"));
    this.problem = problem;
    this.field = text(answer, "field");
    this.incident = number(answer, "incident");
    this.retryAfter = number(answer, "retry_after_ms") ?? 0;
    this.waitsFor = text(answer, "waits_for");
    this.temporary = TEMPORARY.includes(problem);
  }
}

/** A hook throws this if it had no effect, and certainly will have none: it is tried again. */
export class NoEffect extends Error {
  /** @param {string} [message] */
  constructor(message = "") {
    super(message);
    this.name = "NoEffect";
  }
}

/** A hook throws this if it failed for good. Its message says what is left. */
export class NotUndone extends Error {
  /** @param {string} message */
  constructor(message) {
    super(message);
    this.name = "NotUndone";
  }
}

/**
 * Work of a run was undone. The loop goes on from `checkpoint`, with `state`.
 *
 * `incidents` are the incidents, `undone` the executions with the result of each:
 * {"buyer#restock/order": "compensated"}. `checkpoint` is the name of the checkpoint that the run
 * went back to, null if it went back to none, and `state` what was given to `run.checkpoint` then.
 */
export class RolledBack extends Error {
  /** @param {number[]} incidents @param {Record<string, string>} undone @param {string | null} checkpoint @param {any} state */
  constructor(incidents, undone, checkpoint, state) {
    const names = Object.entries(undone).map(([name, result]) => `${name} ${result}`).join(", ");
    super(`rolled back by incident ${incidents.join(", ")}: ${names}`);
    this.name = "RolledBack";
    this.incidents = incidents;
    this.undone = undone;
    this.checkpoint = checkpoint;
    this.state = state;
  }
}

/**
 * The policy has nothing more for the loop to do: a person decides. `cause` is the error, `action` what
 * the policy decided. `incident` is the incident that the package opened, where the action is a
 * rollback; otherwise null.
 */
export class Escalated extends Error {
  /** @param {import("./recover.js").Action} action @param {number | null} incident @param {unknown} cause */
  constructor(action, incident, cause) {
    const { failure, strategy, reason, rule, remediation } = action;
    super(`${failure}: ${strategy}: ${reason} (${rule})${remediation && `; ${remediation}`}`, { cause });
    this.name = "Escalated";
    this.action = action;
    this.incident = incident;
  }
}

/** The agent has stopped and does nothing more. The cause says why. */
export class Stopped extends Error {
  /** @param {LedgerError} cause */
  constructor(cause) {
    super(cause.message, { cause });
    this.name = "Stopped";
    this.why = cause;
  }
}

/** What was thrown, as an Error. @param {unknown} thrown @returns {Error} */
export const asError = (thrown) => (thrown instanceof Error ? thrown : new Error(String(thrown)));

/** What an error of the system says, such as "no such file or directory". @param {unknown} thrown */
export const reason = (thrown) => asError(thrown).message.replace(/^[A-Z]+: ([^,]*),.*$/s, "$1");

/** @param {Record<string, unknown>} answer @param {string} name */
function text(answer, name) {
  const value = answer[name];
  return typeof value === "string" ? value.slice(0, 2000) : "";
}

/** @param {Record<string, unknown>} answer @param {string} name */
function number(answer, name) {
  const value = answer[name];
  return typeof value === "number" && Number.isSafeInteger(value) ? value : null;
}
