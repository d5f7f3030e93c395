// @ts-check
/** The examples, and two agents in two languages in one rollback. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { pay } from "../examples/plain_loop.js";
import { converse } from "../examples/tool_loop.js";
import { Run } from "../src/index.js";
import { live, TREE } from "./support.js";

test("plain loop", async (t) => {
  const at = await live(t);
  const agent = await at.connect();
  /** @type {Map<string, number>} */
  const paid = new Map();
  const rates = [125, 1250];
  agent.compensates("charge", (undo) => void paid.delete(undo.stepKey));
  agent.restores(() => {});
  const charge = async (/** @type {string} */ _, /** @type {number} */ amount, /** @type {string} */ key) => {
    paid.set(key, amount);
    if (paid.size === 3 && amount === 125) await at.signal(agent, "invoices", "rate");
    return amount;
  };
  assert.deepEqual(await pay(agent, ["a", "b", "c"], () => rates.shift() ?? 0, charge), { a: 1250, b: 1250, c: 1250 });
  assert.deepEqual([...paid.values()], [1250, 1250, 1250]);
});

test("tool loop", async (t) => {
  const at = await live(t);
  const agent = await at.connect();
  /** @type {Map<string, number>} */
  const orders = new Map();
  agent.compensates("order", (undo) => void orders.delete(undo.stepKey));
  agent.restores(() => {});
  const call = (/** @type {number} */ number, /** @type {string} */ name, /** @type {object} */ args) => {
    const tool_calls = [{ id: `call-${number}`, type: "function", function: { name, arguments: JSON.stringify(args) } }];
    return { role: "assistant", content: null, tool_calls };
  };
  /**
   * A provider that reads the price wrongly, notices, and does it again when it is told.
   *
   * @param {import("../examples/tool_loop.js").Message[]} messages
   */
  const model = async (messages) => {
    const again = messages.some((m) => String(m["content"]).includes("were undone"));
    const done = messages.filter((m) => m["role"] === "tool").length;
    if (done === 0) return call(1, "price", { reads: again ? "1250.00" : "1.25" });
    if (done === 1) return call(2, "order", { price: again ? 1250 : 1 });
    if (again) return { role: "assistant", content: "ordered" };
    await new Run(agent, "chat").signal(`${at.name}#chat/price:call-1`, "output.bad_arguments");
    return new Promise(() => {}); // it thinks for ever: the loop is told at its await
  };
  /** @type {Record<string, import("../examples/tool_loop.js").Tool>} */
  const tools = {
    price: { call: (args) => args.reads, effect: "reversible" },
    order: {
      call: (args, key) => {
        orders.set(key, args.price);
        return "ordered";
      },
      effect: "compensable",
    },
  };
  const end = await converse(agent, "chat", [{ role: "user", content: "buy" }], tools, model);
  assert.equal(end.at(-1)?.["content"], "ordered");
  assert.deepEqual([...orders.values()], [1250]);
});

/** A python3 that has what the package in Python needs. */
function python() {
  const names = [process.env["PYTHON"], "python3", "/usr/bin/python3", "/usr/local/bin/python3"];
  return names.find((name) => name && spawnSync(name, ["-c", "import sys, cryptography; assert sys.version_info >= (3, 10)"]).status === 0);
}

test("two agents in two languages in one rollback", async (t) => {
  const interpreter = python();
  if (!interpreter && process.env["CI"]) assert.fail("missing: python3 with cryptography: install the package python3-cryptography");
  if (!interpreter) return t.skip("missing: python3 with cryptography: the agent in Python is not run");
  const at = await live(t);
  const agent = await at.connect();
  const other = await at.machine.enrol();
  /** @type {string[]} */
  const order = [];
  agent.compensates("quote", () => void order.push("quote"));
  await agent.run("both", async (run) => {
    const quote = await run.step("quote", { effect: "compensable" }, () => {});
    const program = join(TREE, "api", "js", "test", "two_languages.py");
    const env = { ...at.machine.env, PYTHONPATH: join(TREE, "api", "python"), PYTHONPYCACHEPREFIX: join(TREE, "bin", "test", "python") };
    const child = spawn(interpreter, [program, other.name, other.key, quote.exec], { env, stdio: ["pipe", "pipe", "inherit"] });
    t.after(() => child.stdin.end());
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    assert.equal((await lines.next()).value, "ordered");
    const cancelled = lines.next().then(({ value }) => order.push(String(value)));
    await run.signal(quote, "output.bad_arguments");
    assert.deepEqual(await at.outcomes(agent), { quote: "compensated" });
    await cancelled;
  });
  assert.deepEqual(order, ["cancelled order-7", "quote"]); // what rests on it is undone before
});
