// @ts-check
/** Rows of the table in docs/agent.md that are no crashes: refusals, revoked keys, gaps, a plan that changes. */
import assert from "node:assert/strict";
import * as fs from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Run } from "../src/index.js";
import { read, Signer } from "../src/signing.js";
import { Change } from "../src/waiting.js";
import { Pause, Work } from "../src/work.js";
import { carrierTo } from "./carrying.js";
import { live } from "./support.js";

/** Makes pauses short, but of what was refused so often that it waits for a change. @param {import("node:test").TestContext} t */
function soonAgain(t) {
  const { pause } = Work.prototype;
  t.mock.method(Work.prototype, "pause", /** @this {Work} @param {number} now @param {number} [least] */ function (now, least) {
    pause.call(this, now, least);
    if (!this.aside()) this.mem.waitTill = now + Math.min(10 * 2 ** this.mem.pauses, 1000);
  });
  const { failed } = Pause.prototype;
  t.mock.method(Pause.prototype, "failed", /** @this {Pause} @param {number} now @param {number} [least] */ function (now, least) {
    failed.call(this, now, least);
    this.till = now + Math.min(10 * 2 ** this.tries, 1000);
  });
}

/** Waits while an agent obeys. @param {import("./support.js").Live} at @param {import("../src/index.js").Agent} agent @param {() => unknown} holds */
async function until(at, agent, holds) {
  agent.follow();
  for (const till = Date.now() + 120_000; !(await holds()); await agent.changed.wait(100)) {
    assert(Date.now() < till, at.events.map((e) => JSON.stringify({ ...e, error: String(e.error) })).join("\n"));
  }
}

/** The outcomes in the log of an incident. @param {import("./support.js").Live} at @param {number} incident */
const outcomesOf = async (at, incident) => (await at.entries()).filter((e) => e.kind === "outcome" && e.body.incident === incident);

/** Their results by step, in order. @param {import("./support.js").Live} at @param {number} incident */
async function resultsOf(at, incident) {
  /** @type {Record<string, string[]>} */
  const found = {};
  for (const { body } of await outcomesOf(at, incident)) (found[body.exec.split("/")[1]] ??= []).push(body.result);
  return found;
}

/** Enrols a person; the file of the key. @param {import("./support.js").Live} at @param {string} name @param {string} role */
async function person(at, name, role) {
  await at.machine.arl("key", "generate", "--out", `${name}.key`);
  await at.machine.arl("agent", "enrol", "--principal", name, "--key", `${name}.key`, "--domain", "people", "--roles", role);
  return `${name}.key`;
}

/** A run with one charge, which is signaled. @param {import("../src/index.js").Agent} agent @param {string} name */
async function charged(agent, name) {
  const run = new Run(agent, name);
  const charge = await run.step("charge", { effect: "compensable" }, () => {});
  return run.signal(charge, "output.bad_arguments");
}

test("an outcome that is refused eight times waits, and is sent at once when a key is accepted", async (t) => {
  soonAgain(t);
  const at = await live(t);
  const { url, root } = at.machine.profile();
  /** @type {string[]} */
  const refused = [];
  let lifted = false;
  const carrier = await carrierTo(t, url, {
    refuse: (body) => {
      const [kind, said] = read(body);
      if (kind !== "outcome" || lifted) return null;
      refused.push(said["jti"]);
      return [409, { type: "urn:agent-recovery:problem:state-conflict", status: 409, title: "no", detail: "not now" }];
    },
  });
  const agent = await at.connect({ url: carrier.url, root });
  agent.compensates("charge", () => {});
  const incident = await charged(agent, "refused");
  await until(at, agent, () => refused.length >= 8);
  lifted = true;
  assert.deepEqual(await resultsOf(at, incident), {});
  await person(at, "audrey", "approver");
  assert.deepEqual(await at.outcomes(agent, 120_000), { charge: "compensated" });
  assert.deepEqual([refused.length, new Set(refused).size], [8, 1]);
});

test("an entry that is too old is signed anew, under a new id", async (t) => {
  const { sign } = Signer.prototype;
  /** @type {string[]} */
  const signed = [];
  t.mock.method(Signer.prototype, "sign", /** @this {Signer} @param {string} kind @param {any} body @param {number} now */ function (kind, body, now) {
    const envelope = sign.call(this, kind, body, now - (kind === "outcome" && !signed.length ? 3_600_000 : 0));
    if (kind === "outcome") signed.push(read(envelope)[1]["jti"]);
    return envelope;
  });
  const at = await live(t);
  const agent = await at.connect();
  agent.compensates("charge", () => {});
  const incident = await charged(agent, "late");
  assert.deepEqual(await at.outcomes(agent, 120_000), { charge: "compensated" });
  assert.equal(signed.length, 2);
  assert.deepEqual((await outcomesOf(at, incident)).map((e) => e.body.jti), signed.slice(1));
});

test("what a revoked key has signed is signed again by the next one", async (t) => {
  const at = await live(t);
  let calls = 0;
  const agent = await at.connect();
  agent.compensates("charge", async () => {
    calls++;
    await at.machine.arl("agent", "revoke", "--principal", at.name, "--reason", "stolen", "--yes");
  });
  const incident = await charged(agent, "revoked");
  await until(at, agent, () => at.events.some((e) => /** @type {any} */ (e.error)?.problem === "unknown-issuer"));
  await agent.close();
  assert.deepEqual(await resultsOf(at, incident), {});
  const second = join(at.machine.dir, "second.key");
  await at.machine.arl("key", "generate", "--out", second);
  await at.machine.arl("agent", "enrol", "--principal", at.name, "--key", second, "--domain", "shop");
  const again = await at.connect({ key: second, state: `${at.key}.state`, secret: `${at.key}.secret` });
  again.compensates("charge", () => void calls++);
  await at.outcomes(again, 120_000);
  assert.deepEqual(await resultsOf(at, incident), { charge: ["compensated"] });
  assert.equal(calls, 1);
});

test("what an earlier incident may have compensated is not compensated twice", async (t) => {
  soonAgain(t);
  const at = await live(t);
  /** @type {Record<string, string[]>} */
  const calls = {};
  let known = false;
  const agent = await at.connect();
  const undoes = (/** @type {import("../src/index.js").Undo} */ undo) => {
    (calls[undo.step] ??= []).push(undo.key);
    if (undo.step !== "done") throw new Error("away");
  };
  agent.compensates("done", undoes);
  agent.compensates("bare", undoes);
  agent.compensates("probed", undoes, {
    probe: (undo) => {
      assert.deepEqual(undo.keys, calls[undo.step]);
      return known || null;
    },
  });
  const run = new Run(agent, "earlier");
  const first = await run.step("read", {}, () => {});
  for (const name of ["done", "bare", "probed"]) {
    const step = await new Run(agent, name).step(name, { effect: "compensable", parents: [first] }, () => {});
    await new Run(agent, name).signal(step, "output.bad_arguments");
    await at.outcomes(agent, 120_000);
  }
  known = true;
  const incident = await run.signal(first, "output.bad_arguments");
  await at.outcomes(agent, 120_000);
  const { done, bare, probed } = await resultsOf(at, incident);
  assert.deepEqual({ done, bare, probed }, { done: undefined, bare: ["unknown"], probed: ["compensated"] });
  assert.deepEqual(Object.values(calls).map((keys) => keys.length), [1, 1, 1]);
});

/**
 * The results of a charge whose hook ends only after something else has given it a result.
 *
 * @param {import("./support.js").Live} at @param {(incident: number) => Promise<unknown>} close
 */
async function lateResults(at, close) {
  const agent = await at.connect();
  const [begun, over] = [new Change(), new Change()];
  const started = begun.wait();
  agent.compensates("charge", async () => {
    const ended = over.wait();
    begun.notify();
    await ended;
  });
  const incident = await charged(agent, "late");
  agent.follow();
  await started;
  await close(incident);
  const before = (await outcomesOf(at, incident)).length;
  over.notify();
  await until(at, agent, async () => (await outcomesOf(at, incident)).length > before);
  const outcomes = await outcomesOf(at, incident);
  const replaced = (await at.entries()).find((e) => e.index === outcomes.at(-1)?.body.supersedes?.index);
  assert(["override", "unknown"].includes(replaced?.body.act ?? replaced?.body.result));
  return outcomes.map((e) => e.body.result);
}

test("a member that an override withheld while its hook ran gets its true outcome", async (t) => {
  const at = await live(t);
  const operator = await person(at, "olga", "operator");
  const override = (/** @type {number} */ incident) => at.machine.arl("incident", "override", String(incident), "--reason", "stop", "--key", operator, "--yes");
  assert.deepEqual(await lateResults(at, override), ["compensated"]);
});

// It takes five minutes, since clocks may differ by as much.
if (process.env["ARL_CHAOS"]) test("a member that the coordinator gave up gets its true outcome", async (t) => {
  const at = await live(t);
  const file = join(at.machine.dir, "policy.yaml");
  const policy = await at.machine.arl("policy", "show");
  const apply = async (/** @type {string} */ text) => {
    fs.writeFileSync(file, text);
    await at.machine.arl("policy", "apply", file, "--reason", "test", "--yes");
  };
  await apply(policy.replace(/(member|deadline_max)_ms: \d+/g, "$1_ms: 30000"));
  t.after(() => apply(policy));
  assert.deepEqual(await lateResults(at, async (incident) => {
    for (const till = Date.now() + 420_000; !(await outcomesOf(at, incident)).length; await new Change().wait(2000)) assert(Date.now() < till);
  }), ["unknown", "compensated"]);
});

test("a member that was proven once stays, though later bundles leave it out", async (t) => {
  soonAgain(t);
  const at = await live(t);
  const { url, root } = at.machine.profile();
  let undone = 0;
  let asked = 0;
  const carrier = await carrierTo(t, url, {
    refuse: (body) => {
      undone += Number(read(body)[1]["result"] === "compensated");
      return null;
    },
    page: (path) => (undone && ++asked <= 3 ? `${path}&limit=1` : path),
    follows: (path) => !path.includes("limit=1"),
  });
  const agent = await at.connect({ url: carrier.url, root });
  agent.compensates(() => {});
  const run = new Run(agent, "gaps");
  const charge = await run.step("charge", { effect: "compensable" }, () => {});
  await run.step("mail", { effect: "compensable", parents: [charge] }, () => {});
  await run.signal(charge, "output.bad_arguments");
  assert.deepEqual(await at.outcomes(agent, 120_000), { charge: "compensated", mail: "compensated" });
  assert(asked > 3);
  assert(at.events.filter((e) => e.text === "the bundle does not prove a member").length >= 3);
});

test("a line that is to go back farther than any checkpoint, before its restore is logged, has failed", async (t) => {
  soonAgain(t);
  const at = await live(t);
  const approver = await person(at, "ann", "approver");
  const source = new Run(await at.connect(), "source");
  const first = await source.step("read", {}, () => {});
  const lining = await live(t);
  const { url, root } = at.machine.profile();
  let reached = false;
  const carrier = await carrierTo(t, url, {
    refuse: (body) => (reached || read(body)[1]["result"] !== "restored" ? null : [503, { type: "urn:agent-recovery:problem:not-ready", status: 503, title: "no", detail: "wait" }]),
  });
  const agent = await lining.connect({ url: carrier.url, root });
  /** @type {any[]} */
  const states = [];
  agent.restores((undo) => void states.push(undo.state));
  const run = new Run(agent, "line");
  const early = await run.step("early", { effect: "reversible" }, () => {});
  await run.checkpoint("between", { early: true });
  await run.step("draft", { effect: "reversible", parents: [first.exec] }, () => {});
  const incident = await source.signal(first, "output.bad_arguments");
  await until(lining, agent, () => states.length);
  await run.signal(early, "output.bad_arguments");
  await until(lining, agent, async () => /** @type {any} */ (await agent.ledger.incident(incident)).asks_people);
  await at.machine.arl("incident", "approve", String(incident), "--reason", "go on", "--key", approver, "--yes");
  await until(lining, agent, async () => Object.keys(await resultsOf(at, incident)).length === 2);
  reached = true;
  await lining.outcomes(agent, 120_000);
  assert.deepEqual(await resultsOf(at, incident), { draft: ["failed"], early: ["failed"] });
  assert.deepEqual(states, [{ early: true }]);
});
