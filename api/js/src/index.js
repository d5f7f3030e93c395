// @ts-check
/**
 * Agents that log their steps before they take them, and undo what a proven decision tells them to.
 *
 *     const agent = await connect("buyer", { key: "buyer.key" });
 *
 * README.md beside the package has the first page. `recoveryledger/verify` is the verifier alone: it
 * needs no ledger, no network and no state.
 */
export { Agent, connect } from "./agent.js";
export { Escalated, Forked, InputError, LedgerError, NoEffect, NotUndone, Refused, RolledBack, StateError, Unproven, Unreachable } from "./errors.js";
export { Run, Step } from "./run.js";

/**
 * @typedef {import("./base.js").Event} Event
 * @typedef {import("./hooks.js").Undo} Undo
 * @typedef {import("./recover.js").Action} Action
 * @typedef {import("./work.js").Call} Call
 * @typedef {import("./work.js").Hooks} Hooks
 * @typedef {import("./work.js").Report} Report
 */
