// @ts-check
/**
 * What a check answers instead of a verdict. Every error names the thing that
 * it is about, and the step or rule that does not hold.
 */

/** Bytes that are not in the one form they should have. */
export class FormatError extends Error {
  /**
   * @param {string} what such as "receipt", or the name of a file
   * @param {string} detail
   */
  constructor(what, detail) {
    super(`verify: ${what}: ${detail}`);
    this.name = "FormatError";
    this.what = what;
    this.detail = detail;
  }
}

/** An entry, or a key in it, that the rules of registration refuse. */
export class Refusal extends Error {
  /**
   * @param {string} problem problem type of docs/protocol.md, section 4
   * @param {string} field member at fault, "" for the whole
   * @param {string} detail
   */
  constructor(problem, field, detail) {
    super(`${problem}: ${field ? field + ": " : ""}${detail}`);
    this.name = "Refusal";
    this.problem = problem;
    this.field = field;
  }
}

/** Steps of a verification, in their order (docs/verify.md). */
export const STEPS = Object.freeze([
  "", "head", "consistency", "leaf", "inclusion", "order", "audience", "signer", "signature",
  "index", "record", "prefix", "list", "reach", "content", "tail",
]);

/** The first step of a verification that does not hold. */
export class StepError extends Error {
  /**
   * @param {number} step 1 to 15, see {@link STEPS}
   * @param {string} what such as "entry 17"
   * @param {string} detail
   */
  constructor(step, what, detail) {
    super(`verify: step ${step}, ${STEPS[step]}: ${what}: ${detail}`);
    this.name = "StepError";
    this.step = step;
    this.what = what;
  }
}

/** An index entry is contradicted by an entry that it covers: evidence. */
export class IndexError extends StepError {}

/** Two signed heads that cannot both be of one log: evidence. */
export class ForkError extends Error {
  /**
   * @param {string} first signed note
   * @param {string} second signed note
   * @param {string} detail
   * @param {boolean} [proven] the two notes alone show that; otherwise only a proof between them failed
   */
  constructor(first, second, detail, proven = true) {
    super(`verify: the ledger has two histories: ${detail}`);
    this.name = "ForkError";
    this.first = first;
    this.second = second;
    this.proven = proven;
  }
}

/** The first rule that a bundle, or a member in it, breaks (docs/bundle.md). */
export class RuleError extends Error {
  /**
   * @param {string} step AGT-1, AGT-2 or AGT-3
   * @param {string} rule the rule, or the step where it has no other name
   * @param {string} detail
   * @param {boolean} [missing] only evidence is missing: another bundle may have it
   */
  constructor(step, rule, detail, missing = false) {
    super(`verify: ${step}${rule === step ? "" : " " + rule}: ${detail}`);
    this.name = "RuleError";
    this.step = step;
    this.rule = rule;
    this.missing = missing;
  }
}
