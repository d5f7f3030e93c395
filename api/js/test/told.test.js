// @ts-check
/** A running loop is told that work of it was undone, and a step that is under way is drained. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { InputError, NoEffect, RolledBack, Unreachable } from "../src/index.js";
import { read } from "../src/signing.js";
import { live } from "./support.js";

/** @param {import("node:test").TestContext} t */
async function told(t) {
  const at = await live(t);
  const agent = await at.connect();
  /** @type {string[]} */
  const undone = [];
  /** @type {any[]} */
  const states = [];
  agent.compensates("charge", (undo) => void undone.push(undo.key));
  agent.restores((undo) => void states.push(undo.state));
  const accepted = new Promise((resolve) => agent.listen((e) => e.kind === "accepted" && resolve(undefined)));
  return { at, agent, undone, states, accepted };
}

/** @param {Promise<unknown>} promise @returns {Promise<RolledBack>} */
async function rolledBack(promise) {
  const why = await promise.then(() => null, (thrown) => thrown);
  assert(why instanceof RolledBack, String(why?.stack ?? why));
  return why;
}

test("at the next step", async (t) => {
  const { at, agent, undone, states } = await told(t);
  await agent.run("loop", async (run) => {
    await run.checkpoint("begun", { turn: 0, price: 0.5 });
    const think = await run.step("think", { effect: "reversible" }, () => {});
    const charge = await run.step("charge", { effect: "compensable", parents: [think] }, () => "receipt 7");
    await run.signal(think, "output.bad_arguments");
    const why = await rolledBack((async () => {
      for (let turn = 0; turn < 1000; turn++) await run.step("turn", { id: String(turn) }, () => sleep(10));
    })());
    assert.equal(why.checkpoint, "begun");
    assert.deepEqual(why.state, { turn: 0, price: 0.5 });
    assert.equal(why.undone[`${at.name}#loop/charge`], "compensated");
    assert.equal(why.undone[`${at.name}#loop/think`], "restored");
    let called = 0;
    const again = await run.step("think", { effect: "reversible" }, () => void called++); // the loop goes on: another execution
    assert.equal(again.exec, `${at.name}#loop/think@2`);
    const other = await run.step("charge", { effect: "compensable", parents: [again] }, () => void called++);
    assert.notEqual(other.key, charge.key);
    assert.equal(called, 2);
  });
  assert.equal(undone.length, 1);
  assert.deepEqual(states, [{ turn: 0, price: 0.5 }]);
});

test("a step under way is drained", async (t) => {
  const { at, agent, undone, states, accepted } = await told(t);
  /** @type {string[]} */
  const order = [];
  agent.listen((e) => e.kind === "ended" && order.push(e.text));
  const why = await rolledBack(agent.run("drain", async (run) => {
    await run.checkpoint("begun", Buffer.from("raw bytes"));
    const read = await run.step("read", { effect: "reversible" }, () => {});
    await run.step("charge", { effect: "compensable", parents: [read] }, async () => {
      await run.signal(read, "output.bad_arguments");
      await accepted;
      assert.deepEqual(undone, []);
      order.push("the step ends");
    });
  }));
  assert.deepEqual(why.undone, { [`${at.name}#drain/read`]: "restored", [`${at.name}#drain/charge`]: "compensated" });
  assert(order.indexOf("the step ends") < order.indexOf("compensate done"));
  assert.deepEqual(states, [new Uint8Array(Buffer.from("raw bytes"))]);
});

test("within a step", async (t) => {
  const { agent, undone, accepted } = await told(t);
  await rolledBack(agent.run("within", async (run) => {
    const read = await run.step("read", () => {});
    await run.step("charge", { effect: "compensable", parents: [read] }, async () => {
      await run.signal(read, "output.bad_arguments");
      await accepted;
      await assert.rejects(agent.obey({ timeout: 5000 }), /called in a step/);
      await run.check();
      assert.fail("the step is told");
    });
  }));
  await agent.obey({ timeout: 40_000 });
  assert.equal(undone.length, 1);
});

test("two loops of one run", async (t) => {
  const { agent } = await told(t);
  /** @type {RolledBack[]} */
  const heard = [];
  await agent.run("loops", { onRollback: (why) => heard.push(why) }, async (run) => {
    await run.checkpoint("begun", {});
    const read = await run.step("read", { effect: "reversible" }, () => {});
    const loop = rolledBack((async () => {
      for (let turn = 0; turn < 1000; turn++) await run.step("turn", { id: String(turn) }, () => sleep(10));
    })());
    await run.signal(read, "output.bad_arguments");
    heard.push(await loop);
  });
  assert.deepEqual(heard.map((why) => Object.values(why.undone).includes("restored")), [true, true]);
});

test("at an await", async (t) => {
  const { at, agent } = await told(t);
  for (const [name, waits] of /** @type {[string, (run: import("../src/index.js").Run) => Promise<any>][]} */ ([
    ["wait", (run) => run.wait(new Promise(() => {}))], // waits for a model
    ["stop", (run) => sleep(600_000, undefined, { signal: run.stop })],
  ])) {
    const why = await rolledBack(agent.run(name, async (run) => {
      await run.checkpoint("begun", { n: 1 });
      const charge = await run.step("charge", { effect: "compensable" }, () => {});
      await run.signal(charge, "output.bad_arguments");
      assert.equal(await run.wait(Promise.resolve(7)), 7);
      await waits(run);
    }));
    assert.equal(why.undone[`${at.name}#${name}/charge`], "compensated");
    await agent.run(name, (run) => run.check()); // it is told once
  }
});

test("another error stays one", async (t) => {
  const { at, agent } = await told(t);
  await assert.rejects(agent.run("fails", (run) => run.step("wait", () => sleep(600_000, undefined, { signal: AbortSignal.timeout(50) }))), { name: "AbortError" });
  assert.deepEqual(await at.progress(), ["fails/wait started", "fails/wait failed"]);
});

test("an end that was not sent, is sent before what follows", async (t) => {
  const at = await live(t);
  const first = await at.connect({ patience: 0 });
  const { ledger } = first;
  const submit = ledger.submit.bind(ledger);
  ledger.submit = async (envelope, asking) => {
    if (read(envelope)[1]["progress"] === "confirmed") throw new Unreachable("away");
    return submit(envelope, asking);
  };
  await assert.rejects(first.run("unsent", (run) => run.step("price", () => 7)), Unreachable);
  await first.close();
  const agent = await at.connect();
  await agent.run("unsent", async (run) => {
    const price = await run.step("price", () => assert.fail("it is done"));
    assert.equal(price.result, 7);
    await run.step("charge", { parents: [price] }, () => {});
  });
  const progress = (await at.progress()).map((p) => p.replace("unsent/", ""));
  assert.deepEqual(progress, ["price started", "price confirmed", "charge started", "charge confirmed"]);
});

test("steps that fail", async (t) => {
  const { at, agent } = await told(t);
  await agent.run("fails", async (run) => {
    let key = "";
    await assert.rejects(run.step("charge", { effect: "compensable" }, (step) => {
      key = step.key;
      throw new RangeError("no");
    }), RangeError);
    const again = await run.step("charge", { effect: "compensable" }, () => {});
    assert.equal(again.key, key); // whether it was charged is not known: the same key
    await assert.rejects(run.step("charge", { effect: "compensable" }, () => {}), InputError);
    await assert.rejects(run.step("mail", { effect: "irrevocable" }, () => {
      throw new NoEffect("no connection");
    }), NoEffect);
  });
  const progress = (await at.progress()).map((p) => p.replace("fails/", ""));
  assert.deepEqual(progress, ["charge started", "charge failed", "charge@2 started", "charge@2 confirmed", "mail started", "mail cancelled"]);
});
