// @ts-check
/** Hooks that throw, hang, return nonsense, or fail: each has a clear outcome. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { InputError, NoEffect, NotUndone, RolledBack, StateError } from "../src/index.js";
import { live } from "./support.js";

/**
 * The result of a charge that a function compensates, and what is left of it.
 *
 * @param {import("node:test").TestContext} t
 * @param {import("../src/hooks.js").Undoes} undoes
 * @param {{idempotent?: boolean, probe?: import("../src/hooks.js").Undoes, limit?: number}} [options]
 * @param {(agent: import("../src/index.js").Agent) => void} [got]
 */
async function undo(t, undoes, options, got) {
  const at = await live(t);
  const agent = await at.connect();
  got?.(agent);
  agent.compensates("charge", undoes, options);
  const exec = await agent.run("hooks", async (run) => {
    const charge = await run.step("charge", { effect: "compensable" }, () => ({ receipt: 7 }));
    await run.signal(charge, "output.bad_arguments");
    const { charge: result } = await at.outcomes(agent);
    const said = (await at.entries()).filter((e) => e.kind === "outcome" && e.body.exec === charge.exec);
    assert.equal(said.length, 1);
    const { residual } = said[0]?.body;
    return residual ? `${result}: ${residual}` : String(result);
  });
  await agent.close();
  return exec;
}

test("what a hook gets", async (t) => {
  /** @type {import("../src/index.js").Undo[]} */
  const got = [];
  assert.equal(await undo(t, (one) => void got.push(one)), "compensated");
  const [one] = got;
  assert(one);
  assert.deepEqual([one.step, one.run, one.result, one.attempt, one.key.length, one.stepKey.length], ["charge", "hooks", { receipt: 7 }, 0, 64, 64]);
});

test("an async one", async (t) => {
  assert.equal(await undo(t, async () => {}), "compensated");
});

test("throws", async (t) => {
  let calls = 0;
  const result = await undo(t, () => {
    calls++;
    throw new RangeError("no such order");
  });
  assert.equal(result, "unknown: compensate threw RangeError: no such order");
  assert.equal(calls, 1); // it may have done anything: it does not run again
});

test("throws and is idempotent", async (t) => {
  /** @type {string[]} */
  const keys = [];
  assert.equal(await undo(t, ({ key }) => {
    if (keys.push(key) < 2) throw new Error("away");
  }, { idempotent: true }), "compensated");
  assert.equal(keys.length, 2);
  assert.equal(new Set(keys).size, 1); // the same key
});

test("throws and is probed", async (t) => {
  assert.equal(await undo(t, () => {
    throw "no error at all";
  }, { probe: ({ keys }) => keys.length === 1 }), "compensated");
});

test("waits for itself", async (t) => {
  /** @type {import("../src/index.js").Agent | undefined} */
  let own;
  const result = await undo(t, async () => void (await own?.obey()), {}, (agent) => (own = agent));
  assert.equal(result, "unknown: compensate threw InputError: obey: called in a hook (let the hook end first: the rollback waits for its end)");
});

test("closes the agent", async (t) => {
  /** @type {import("../src/index.js").Agent | undefined} */
  let own;
  await assert.rejects(undo(t, async () => void (await own?.close()), {}, (agent) => (own = agent)), StateError);
});

test("no effect is tried again", async (t) => {
  /** @type {string[]} */
  const keys = [];
  assert.equal(await undo(t, ({ key }) => {
    if (keys.push(key) < 2) throw new NoEffect("busy");
  }), "compensated");
  assert.equal(new Set(keys).size, 2); // another key each time
});

test("not undone", async (t) => {
  assert.equal(await undo(t, () => {
    throw new NotUndone("the parcel is on its way");
  }), "failed: the parcel is on its way");
});

test("returns nonsense", async (t) => {
  assert.match(await undo(t, () => "done"), /^unknown: compensate threw InputError: the compensation of .* returned "done"/);
});

test("hangs", async (t) => {
  assert.equal(await undo(t, () => new Promise(() => {}), { limit: 200, idempotent: true }), "unknown: the hook did not end within 200 ms, and may still act");
});

test("there is none", async (t) => {
  const at = await live(t);
  const agent = await at.connect();
  await agent.run("none", async (run) => {
    const charge = await run.step("charge", { effect: "compensable" }, () => {});
    await run.signal(charge, "output.bad_arguments");
    assert.deepEqual(await at.outcomes(agent), { charge: "withheld" });
  });
});

test("a restore of another state, and a state kept elsewhere", async (t) => {
  const digest = `sha256:${"ab".repeat(32)}`;
  for (const [restore, options, want] of /** @type {[import("../src/hooks.js").Undoes, any, string][]} */ ([
    [() => ({ balance: 8 }), {}, "failed"], [() => ({ balance: 7 }), {}, "restored"], [(one) => one.digest, { digest }, "restored"],
  ])) {
    const at = await live(t);
    const agent = await at.connect();
    agent.restores(restore);
    await agent.run("restore", async (run) => {
      await run.checkpoint("begun", { balance: 7 }, options);
      const write = await run.step("write", { effect: "reversible" }, () => {});
      await run.signal(write, "output.bad_arguments");
      assert.deepEqual(await at.outcomes(agent), { write: want });
    });
  }
});

test("restores", async (t) => {
  /** @param {Error} why @param {number} times @returns {import("../src/hooks.js").Undoes} */
  const failing = (why, times) => {
    let calls = 0;
    return ({ state }) => {
      assert.deepEqual(state, { balance: 7 });
      if (++calls <= times) throw why;
    };
  };
  for (const [restore, options, limit, want] of /** @type {[import("../src/hooks.js").Undoes, any, number | undefined, RegExp][]} */ ([
    [failing(new RangeError("disk"), 1), {}, undefined, /^restored$/], // it may run twice
    [failing(new RangeError("disk"), 9), { idempotent: false }, undefined, /^unknown: restore threw RangeError: disk$/],
    [failing(new RangeError("disk"), 9), { probe: () => true }, undefined, /^restored$/],
    [failing(new NoEffect("busy"), 1), {}, undefined, /^restored$/],
    [failing(new NotUndone("a file is gone"), 9), {}, undefined, /^failed: a file is gone$/],
    [() => new Promise(() => {}), {}, 300, /^unknown: the hook did not end within 300 ms, and may still act$/],
    [() => () => {}, { idempotent: false }, undefined, /^unknown: restore threw InputError: state: /],
    [() => true, {}, undefined, /^failed: the state afterwards has digest /],
  ])) {
    const at = await live(t);
    const agent = await at.connect(limit ? { limit } : {});
    agent.restores(restore, options);
    await agent.run("back", async (run) => {
      await run.checkpoint("begun", { balance: 7 });
      const write = await run.step("write", { effect: "reversible" }, () => {});
      await run.signal(write, "output.bad_arguments");
      const { write: result } = await at.outcomes(agent);
      const [said] = (await at.entries()).filter((e) => e.kind === "outcome" && e.body.exec === write.exec);
      assert.match(said?.body.residual ? `${result}: ${said.body.residual}` : String(result), want);
    });
    await agent.close();
  }
});

test("probes", async (t) => {
  const away = () => {
    throw new Error("reset");
  };
  /** @param {() => any} first */
  const once = (first) => {
    const left = [() => null, first]; // it is asked again, and does not know
    return () => left.pop()?.();
  };
  for (const [probe, want] of /** @type {[any, RegExp][]} */ ([
    [once(() => away()), /^unknown: probe threw Error: reset$/],
    [() => new Promise(() => {}), /^unknown: the hook did not end within 300 ms, and may still act$/],
    [once(() => "yes"), /^unknown: probe threw InputError: the probe of .* returned "yes"/],
    [() => null, /^unknown: compensate threw Error: reset$/],
    [() => false, /^failed: no attempt had an effect$/],
  ])) assert.match(await undo(t, away, { probe, limit: 300 }), want);
});

test("a callback that throws, hangs or returns nonsense holds nothing up", async (t) => {
  const at = await live(t);
  const agent = await at.connect();
  agent.compensates("charge", () => {});
  /** @type {string[]} */
  const called = [];
  const callbacks = /** @type {Record<string, () => unknown>} */ ({
    throws: () => {
      throw new RangeError();
    },
    hangs: () => new Promise(() => {}),
    rejects: () => Promise.reject(new RangeError()),
    nonsense: () => Symbol("nonsense"),
  });
  for (const [name, callback] of Object.entries(callbacks)) {
    const onRollback = () => {
      called.push(name);
      return callback();
    };
    const why = await agent.run(name, { onRollback }, async (run) => {
      const charge = await run.step("charge", { effect: "compensable" }, () => {});
      await run.signal(charge, "output.bad_arguments");
      await run.wait(new Promise(() => {}));
    }).then(() => null, (thrown) => thrown);
    assert(why instanceof RolledBack);
  }
  assert.deepEqual(called, Object.keys(callbacks));
});

test("all five hooks", async (t) => {
  const at = await live(t);
  const agent = await at.connect();
  /** @type {string[]} */
  const calls = [];
  agent.use({
    drain: async ({ members }) => {
      calls.push(`drain ${members[0]?.effect}`);
      return { status: "done" };
    },
    compensate: ({ hook, key }) => {
      calls.push(`${hook} ${key.length}`);
      return { status: "done" };
    },
  });
  await agent.run("five", async (run) => {
    const charge = await run.step("charge", { effect: "compensable" }, () => {});
    await run.signal(charge, "output.bad_arguments");
    assert.deepEqual(await at.outcomes(agent), { charge: "compensated" });
  });
  assert.deepEqual(calls, ["drain compensable", "compensate 64"]);
});

test("declared badly", async (t) => {
  const agent = await (await live(t)).connect();
  const nothing = () => {};
  agent.compensates("a", nothing);
  agent.compensates(nothing);
  agent.restores(nothing);
  /** @type {any[]} */
  const bad = [() => agent.compensates("a", nothing), () => agent.compensates(nothing), () => agent.restores(nothing), () => agent.compensates("b", nothing, { limit: 0 }),
    () => agent.compensates("c", /** @type {any} */ ("d"))];
  for (const one of bad) assert.throws(one, InputError);
});
