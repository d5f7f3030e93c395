// @ts-check
/** A loop asks what to do about a failure, waits, tries again, and gives up when the policy says so. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Escalated, InputError, NoEffect, RolledBack } from "../src/index.js";
import { rawOf } from "../src/recover.js";
import { live } from "./support.js";

/** An error as clients of model providers throw it. @param {number} status @param {{after?: string, code?: string}} [of] */
const statusError = (status, { after, code } = {}) => Object.assign(new Error(`status ${status}`), { status, code, headers: after ? { "retry-after": after } : {} });

/** @param {Promise<unknown>} promise @returns {Promise<any>} */
const thrownBy = (promise) => promise.then(() => assert.fail("nothing was thrown"), (thrown) => thrown);

/** @param {any} error @returns {() => never} */
const throws = (error) => () => {
  throw error;
};

test("retry until it works: the wait is the one that the service asked for", async (t) => {
  const agent = await (await live(t)).connect();
  const fails = [statusError(503, { after: "1" }), statusError(503)];
  /** @type {import("../src/index.js").Action[]} */
  const actions = [];
  await agent.run("loop", async (run) => {
    const began = performance.now();
    for (let done = false; !done; ) {
      try {
        await run.step("search", () => (fails.length ? throws(fails.shift())() : 7));
        done = true;
      } catch (error) {
        actions.push(await agent.recover(error));
      }
    }
    assert(performance.now() - began >= 1000);
    assert.deepEqual(actions.map((a) => [a.strategy, a.failure, a.rule]), Array(2).fill(["retry", "transient.unavailable", "transient.unavailable[0]"]));
    assert.equal(run.result("search"), 7);
    assert.deepEqual(agent.records.run("loop").recoveries, {});
  });
});

test("the ladder ends, through another process, too", async (t) => {
  const at = await live(t);
  const first = await at.connect();
  const able = ["retry", "retry_altered", "fallback_model"];
  /** @param {import("../src/index.js").Run} run */
  const attempt = (run) => thrownBy(run.step("call", throws(statusError(400, { code: "context_length_exceeded" }))));
  await first.run("ladder", async (run) => {
    const error = await attempt(run);
    const gaveUp = await thrownBy(first.recover(error)); // the loop cannot alter the attempt
    assert(gaveUp instanceof Escalated && gaveUp.cause === error);
    assert.deepEqual([gaveUp.action.strategy, gaveUp.action.variant, gaveUp.incident], ["retry_altered", "compact_context", null]);
    assert.equal((await first.recover(error, { able, model: "primary" })).variant, "compact_context");
  });
  await first.close();
  const agent = await at.connect();
  await agent.run("ladder", async (run) => {
    const action = await agent.recover(await attempt(run), { able, model: "primary" });
    assert.deepEqual([action.strategy, action.model], ["fallback_model", "alternate"]);
    const gaveUp = await thrownBy(agent.recover(await attempt(run), { able, model: "alternate" }));
    assert.deepEqual([gaveUp.action.strategy, gaveUp.action.reason], ["escalate", "ladder_exhausted"]);
  });
});

test("what may have had its effect is not tried again unless a probe, or the key, makes that safe", async (t) => {
  const agent = await (await live(t)).connect();
  /** @param {string} name @param {import("../src/recover.js").RecoverOptions} [options] @returns {Promise<any>} */
  const charge = (name, options) => agent.run(name, async (run) => {
    const timeout = Object.assign(new Error("no answer"), { name: "TimeoutError" });
    return agent.recover(await thrownBy(run.step("charge", { effect: "compensable" }, throws(timeout))), options);
  });
  assert.equal((await thrownBy(charge("doubt"))).action.reason, "effects_unknown");
  assert.equal((await charge("none", { probe: async () => false })).strategy, "retry");
  const done = await charge("all", { probe: (step) => step.key !== "" });
  assert.deepEqual([done.strategy, done.done], ["reconcile", true]);
  assert.equal((await charge("key", { idempotent: true })).strategy, "retry");
  assert.equal((await charge("said", { effects: "none" })).strategy, "retry");
});

test("the run is told while it waits", async (t) => {
  const agent = await (await live(t)).connect();
  agent.restores(() => {});
  await agent.run("told", async (run) => {
    await run.checkpoint("begun", {});
    const think = await run.step("think", { effect: "reversible" }, () => {});
    const error = await thrownBy(run.step("search", { parents: [think] }, throws(statusError(429, { after: "60" }))));
    await run.signal(think, "output.bad_arguments");
    assert((await thrownBy(agent.recover(error))) instanceof RolledBack);
  });
});

test("what is no failure of a step", async (t) => {
  const agent = await (await live(t)).connect();
  for (const thrown of [new TypeError("whose?"), "a text", null]) assert((await thrownBy(agent.recover(thrown))) instanceof InputError);
  const told = new RolledBack([1], {}, null, null);
  assert.equal(await thrownBy(agent.recover(told)), told);
  await agent.run("options", async (run) => {
    const error = await thrownBy(run.step("one", throws(new NoEffect("not begun"))));
    for (const options of [{ able: ["pray"] }, { effects: "some" }]) assert((await thrownBy(agent.recover(error, options))) instanceof InputError);
  });
});

test("statuses, codes and names stand where the classifier looks for them", () => {
  const evil = Object.defineProperty(new Error("x"), "code", { get: throws(new Error("never")) });
  const fetchFailed = new TypeError("fetch failed", { cause: Object.assign(new Error("connect"), { code: "ECONNREFUSED" }) });
  const looped = new Error("its own cause");
  looped.cause = looped;
  /** @type {[unknown, object][]} */
  const cases = [
    [statusError(503, { after: "7" }), { http_status: 503, retry_after_ms: 7000 }],
    [Object.assign(new Error("no"), { response: { status: 429, headers: new Headers({ "Retry-After": "2" }) } }), { http_status: 429, retry_after_ms: 2000 }],
    [statusError(429, { code: "insufficient_quota" }), { http_status: 429, provider_code: "insufficient_quota" }],
    [Object.assign(new Error("14 UNAVAILABLE"), { code: 14, details: "" }), { grpc_code: "UNAVAILABLE" }],
    [fetchFailed, { provider_code: "ECONNREFUSED", text: "connect" }],
    [looped, { provider_code: "Error", text: "its own cause" }],
    [evil, { provider_code: "Error", text: "x" }],
    [new RangeError("ü".repeat(3000)), { provider_code: "RangeError", text: "ü".repeat(2048) }],
    ["a text", { text: "a text" }],
  ];
  for (const [thrown, want] of cases) {
    const raw = /** @type {any} */ (rawOf(thrown));
    for (const [name, value] of Object.entries(want)) assert.equal(raw[name], value, `${thrown}: ${name}`);
  }
});
