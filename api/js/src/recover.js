// @ts-check
/** What a loop does about a failed step: the policy in force says whether to wait, to try again, or to give up. */
import { getSystemErrorName } from "node:util";
import { asError, Escalated, InputError, LedgerError, RolledBack } from "./errors.js";
import { shown } from "./records.js";

const ATTEMPTS = ["retry", "retry_altered", "fallback_model", "state_reset", "fail_reassign", "checkpoint_resume"];
const EFFECTS = ["none", "partial", "complete", "unknown"];
const MAX_TEXT = 4096; // bytes
const MAX_CODE = 64;
const MAX_WAIT_S = Math.floor(Number.MAX_SAFE_INTEGER / 1000); // that a Retry-After may say
const WRAPPERS = ["Error", "TypeError"]; // names that say nothing of the cause

/**
 * @typedef {import("./run.js").Step} Step
 *
 * What the policy decided about a failure. `strategy` is retry, or one of those that `able` names: then
 * `variant` (of retry_altered), `scope` (of state_reset) and `model` say how the attempt differs. `done`
 * says that the step had its effect after all, as the probe found: do not do it again. `failure` is class
 * and code, `rule` the place in the policy, `reason` why, `wait` the pause that has passed, in
 * milliseconds, `remediation` the policy's advice to people.
 *
 * @typedef {{strategy: string, reason: string, rule: string, failure: string, variant: string, scope: string, model: string, verify: boolean,
 *   done: boolean, severity: string, wait: number, remediation: string}} Action
 *
 * - `step`: by default the step that the error ended
 * - `able`: the strategies that the loop can carry out, by default retry. Where the policy wants another
 *   one, that is an Escalated
 * - `idempotent`: the step may be done twice under its key to the same effect as once
 * - `effects`: what the failed attempt left: none, partial, complete or unknown, by default as the error says
 * - `probe`: a function that says whether the step had its effect: true, false, or null if it does not know
 * - `model`: the model that the step used
 *
 * @typedef {{step?: Step | undefined, able?: string[], idempotent?: boolean, effects?: string,
 *   probe?: ((step: Step) => boolean | null | undefined | Promise<boolean | null | undefined>) | undefined, model?: string}} RecoverOptions
 * @typedef {import("./records.js").Record} Record
 */

/** Where the recoveries of a step are kept. @param {Record} record */
const nameOf = (record) => `${record.name}:${record.id}:${record.ordinal}`;

/** The questions about one failure of a step. Each answer is carried out before the next question. */
export class Recovery {
  #error;
  #options;
  #past;
  /** @type {{[member: string]: unknown}} */
  #history;

  /** @param {unknown} thrown @param {Step | undefined} step @param {RecoverOptions} options @throws what is no failure of a step */
  constructor(thrown, step, options) {
    if (thrown instanceof RolledBack || thrown instanceof Escalated || thrown instanceof LedgerError) throw thrown;
    if (!step) throw new InputError("recover: no step ended with this error", "pass the step as {step}", thrown);
    const { able = ["retry"], idempotent = false, effects = "", model = "" } = options;
    const odd = able.filter((name) => !ATTEMPTS.includes(name));
    if (odd.length) throw new InputError(`recover: able ${shown(odd)}`, `able has some of ${ATTEMPTS.join(", ")}`, thrown);
    if (effects && !EFFECTS.includes(effects)) throw new InputError(`recover: effects ${shown(effects)}`, `effects are one of ${EFFECTS.join(", ")}`, thrown);
    const record = step.record;
    this.step = step;
    this.#error = thrown;
    this.#options = { ...options, able };
    const kept = step.run.agent.records.run(record.run);
    kept.recoveries ??= {};
    this.#past = kept.recoveries[nameOf(record)] ??= { started_at: Date.now(), rungs: [] };
    this.#history = {
      case: record.run, step: record.name + (record.id && `:${record.id}`), effect: record.effect, failure: effects ? { effects } : {}, idempotent,
      rungs: this.#past.rungs, started_at: this.#past.started_at, ...(model ? { model } : {}),
    };
  }

  /**
   * Asks once.
   *
   * @returns {Promise<{wait: number, action: Action | null}>} how long to wait, and then what to do; null: ask again
   * @throws {Escalated} a person has to decide
   */
  async ask() {
    const { step } = this;
    const elapsed_ms = Math.max(Date.now() - this.#past.started_at, 0);
    const decision = await step.run.agent.ledger.decide({ history: this.#history, error: rawOf(this.#error), elapsed_ms });
    const action = actionOf(decision, false);
    if (action.strategy === "wait") {
      this.#did(decision, "ok");
      return { wait: action.wait, action: null };
    }
    if (action.strategy === "reconcile") {
      const found = await this.#options.probe?.(step);
      this.#history["probe"] = found === true ? "complete" : found === false ? "none" : "unknown";
      this.#did(decision, "ok");
      return { wait: action.wait, action: found === true ? actionOf(decision, true) : null };
    }
    if (ATTEMPTS.includes(action.strategy) && this.#options.able.includes(action.strategy)) {
      this.#did(decision, "failed"); // so it counts if there is a next question
      return { wait: action.wait, action };
    }
    const incident = action.strategy === "rollback" ? await step.run.signal(step, action.failure) : null;
    throw new Escalated(action, incident, this.#error);
  }

  /** Notes an action, so that it counts after a crash, too. @param {any} decision @param {string} result */
  #did(decision, result) {
    const { run } = this.step;
    this.#past.rungs.push({ ...decision.rung, result });
    run.agent.records.saveRun(run.name);
  }
}

/** Forgets the failures of a step that is confirmed. @param {import("./run.js").Run} run @param {Record} record */
export function forget(run, record) {
  const { recoveries } = run.agent.records.run(run.name);
  if (!recoveries?.[nameOf(record)]) return;
  delete recoveries[nameOf(record)];
  run.agent.records.saveRun(run.name);
}

/** @param {any} decision @param {boolean} done @returns {Action} */
function actionOf({ action, rule, failure, remediation = "" }, done) {
  const { strategy, reason, variant = "", scope = "", model = "", verify = false, severity = "", wait_ms: wait = 0 } = action;
  return {
    strategy, reason, rule: rule.rung < 0 ? rule.id : `${rule.id}[${rule.rung}]`, failure: `${failure.class}.${failure.code}`, variant, scope, model, verify,
    done, severity, wait, remediation,
  };
}

/**
 * What the classifier looks at: the status, the code or the name of an error, and its text.
 *
 * @param {unknown} thrown
 * @returns {{text: string, provider_code?: string, http_status?: number, grpc_code?: string, retry_after_ms?: number}}
 */
export function rawOf(thrown) {
  let error = asError(thrown);
  for (let depth = 0; depth < 16 && WRAPPERS.includes(nameOfError(error)) && error.cause instanceof Error; depth++) error = error.cause;
  const response = of(error, "response");
  const status = [error, response].flatMap((from) => [of(from, "status"), of(from, "statusCode"), of(from, "code")])
    .find((n) => Number.isInteger(n) && n >= 400 && n < 600);
  const code = of(error, "code");
  const grpc = typeof code === "number" && typeof of(error, "details") === "string" ? GRPC[code] : undefined;
  const errno = of(error, "errno");
  const name = typeof code === "string" && code ? code : typeof errno === "number" && errno < 0 ? systemName(errno) : nameOfError(error);
  const after = retryAfter(of(response, "headers") ?? of(error, "headers"));
  return {
    ...(status === undefined ? {} : { http_status: status }), ...(grpc ? { grpc_code: grpc } : {}), ...(name ? { provider_code: cut(name, MAX_CODE) } : {}),
    ...(after === null ? {} : { retry_after_ms: after }), text: cut(String(of(error, "message") ?? ""), MAX_TEXT),
  };
}

/** Names of the status codes of gRPC, by number. */
const GRPC = ["OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"];

/** A member of something that others made, which may throw. @param {any} from @param {string} name @returns {any} */
function of(from, name) {
  try {
    return from?.[name];
  } catch {
    return undefined;
  }
}

/** The name of an error, or of its class, where that says more. @param {Error} error */
function nameOfError(error) {
  const name = of(error, "name");
  const made = of(of(error, "constructor"), "name");
  return String(typeof name === "string" && name !== "Error" ? name : typeof made === "string" ? made : "Error");
}

/** @param {number} errno */
function systemName(errno) {
  try {
    return getSystemErrorName(errno);
  } catch {
    return "";
  }
}

/** @param {any} headers */
function retryAfter(headers) {
  let text;
  try {
    text = typeof headers?.get === "function" ? headers.get("retry-after") : headers?.["retry-after"];
  } catch {
    text = null;
  }
  const seconds = /^\s*\d{1,13}\s*$/.test(String(text)) ? Number(text) : -1;
  return seconds >= 0 && seconds <= MAX_WAIT_S ? seconds * 1000 : null;
}

/** @param {string} text @param {number} most bytes */
function cut(text, most) {
  const bytes = Buffer.from(text);
  return bytes.length <= most ? bytes.toString() : new TextDecoder().decode(bytes.subarray(0, most)).replace(/\ufffd+$/, "");
}
