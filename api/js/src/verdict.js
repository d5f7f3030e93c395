// @ts-check
/** The verdict on a bundle for an agent: what to store first, and what to do (docs/bundle.md). */
import { decodeBundle, epochAt } from "./verify/bundle.js";
import { checkBundle } from "./verify/check.js";
import { FormatError, ForkError, RuleError } from "./verify/errors.js";

/**
 * What an agent is to do about one of its executions. `line`: the workflow of its line, empty: all of
 * the agent; `result`: its outcome in the log, and `outcome` the index of that; `refused`: why it is
 * refused, as step and rule; `doubtful`: it is refused, and who carried the bundle may be
 * the cause.
 *
 * @typedef {{exec: string, index: number, method: string, checkpoint: string, digest: string, effect: string, wid: string, line: string,
 *   standing: string[], released: boolean, result: string, outcome: number, refused: string, doubtful: boolean}} Command
 * @typedef {import("./verify/bundle.js").Accepted} Accepted
 */

/**
 * What a check found. `next` is to be stored first, also beside an error. `head` and `entries`: of the
 * bundle, if the entries are proven to be in the log. `decision`: null if the bundle has only news.
 *
 * @typedef {{error: RuleError | FormatError | null, next: Accepted, entries: import("./ledger.js").Logged[], head: string,
 *   decision: import("./work.js").Ref | null, incident: number, epoch: number, expires_at: number, deadline_at: number, whole: boolean,
 *   commands: Command[]}} Verdict
 */

/**
 * The accepted state of an agent that has accepted nothing yet.
 *
 * @param {import("./verify/root.js").Root} root @param {string} agent
 * @returns {Accepted}
 */
export const fresh = (root, agent) => ({ root, agent, head: "", confirmed: false, links: [], epochs: [] });

/**
 * Checks a bundle as received, for what was accepted before, at a time in Unix milliseconds.
 *
 * @param {Uint8Array} data @param {Accepted} accepted @param {number} now
 * @returns {Promise<Verdict>}
 */
export async function check(data, accepted, now) {
  /** @type {Verdict} */
  const none = { error: null, next: accepted, entries: [], head: "", decision: null, incident: 0, epoch: 0, expires_at: 0, deadline_at: 0, whole: false, commands: [] };
  let v;
  try {
    v = await checkBundle(decodeBundle(data), accepted, now);
  } catch (why) {
    if (!(why instanceof FormatError)) throw why;
    return { ...none, error: why };
  }
  const { evidence, next } = v;
  const { head, decided } = evidence;
  const entries = /** @type {Verdict["entries"]} */ (evidence.entries);
  const found = { ...none, next, head, entries, error: v.error ?? null };
  if (!decided) return found;
  const { incident, epoch, exp, deadline_at } = decided.body;
  return {
    ...found, incident, epoch, deadline_at, expires_at: Math.min(exp * 1000, deadline_at), whole: evidence.whole,
    decision: { index: Number(decided.index), leaf_hash: decided.leafHash }, commands: v.error ? [] : v.commands.map(commandOf),
  };
}

/** @param {import("./verify/check.js").Command} c @returns {Command} */
function commandOf(c) {
  const refused = c.refused ? ruleOf(c.refused) : "";
  const known = refused ? { effect: "", wid: "", line: "", digest: "", standing: [] } : { effect: c.effect, wid: c.wid, line: c.line, digest: c.digest ?? "", standing: c.standing };
  return {
    exec: c.exec, index: Number(c.index), method: c.method, checkpoint: c.checkpoint ?? "", ...known, released: !refused && c.released,
    result: c.result ?? "", outcome: Number(c.outcome ?? 0), refused, doubtful: c.refused !== undefined && !c.proven,
  };
}

/** The step and the rule of an error. @param {RuleError | FormatError} error */
export const ruleOf = (error) => (error instanceof FormatError ? "form" : error.step === error.rule ? error.step : `${error.step} ${error.rule}`);

/** The fork that a refusal shows, if it shows one. @param {RuleError | FormatError} error */
export const forkOf = (error) => (error.cause instanceof ForkError ? error.cause : null);

/**
 * The highest epoch of an incident that was accepted and counts now; -1 without one.
 *
 * @param {Accepted} accepted @param {number} incident @param {number} now Unix milliseconds
 */
export function epochOf(accepted, incident, now) {
  const e = accepted.epochs.find((one) => one.incident === incident);
  return e ? epochAt(e, now) : -1;
}
