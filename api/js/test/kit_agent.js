// @ts-check
/** The agent that `arl conformance agent` tests: docs/conformance.md says what it gets and does. */
import { join } from "node:path";
import { createInterface } from "node:readline";
import { connect, LedgerError, NotUndone, RolledBack } from "../src/index.js";

/** @typedef {import("../src/index.js").Undo} Undo */

/** The service refuses: there was no effect, and there will be none. */
class RefusedForGood extends Error {}

/** @param {string} name */
const given = (name) => process.env[name] ?? "";

/**
 * Asks the service for an effect, or whether there was one.
 *
 * @param {Record<string, any>} members @param {"POST" | "GET"} method
 * @returns {Promise<any>}
 */
async function ask(members, method) {
  const url = given("KIT_EFFECTS") + (method === "GET" ? `?${new URLSearchParams(members)}` : "");
  const answer = await fetch(url, { method, signal: AbortSignal.timeout(5000), ...(method === "POST" ? { body: JSON.stringify(members) } : {}) });
  if (answer.status === 409) throw new RefusedForGood();
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  return answer.json();
}

const agent = await connect(given("KIT_AGENT"), {
  key: given("KIT_KEY"), url: given("KIT_LEDGER"), root: given("KIT_ROOT"), state: join(given("KIT_STATE"), "agent"), secret: given("KIT_SECRET"),
  new: given("KIT_START") === "first",
});
agent.listen((e) => console.error(e.kind, e.incident, e.exec, e.text, e.error?.message ?? ""));

agent.compensates(async (undo) => {
  try {
    await ask({ do: "compensate", exec: undo.exec, key: undo.key }, "POST");
  } catch (why) {
    throw why instanceof RefusedForGood ? new NotUndone("the charge stands: the service refuses to take it back") : why;
  }
}, {
  probe: async (undo) => {
    for (const key of undo.keys) if ((await ask({ do: "compensate", exec: undo.exec, key }, "GET")).done) return true;
    return false;
  },
});

/** @param {Undo} undo */
const checkpoint = (undo) => `${agent.name}#${undo.checkpoint}`;

agent.restores(async (undo) => (await ask({ do: "restore", checkpoint: checkpoint(undo), standing: undo.standing }, "POST")).digest, {
  idempotent: false,
  probe: async (undo) => {
    const answer = await ask({ do: "restore", checkpoint: checkpoint(undo) }, "GET");
    return answer.done ? answer.digest : false;
  },
});

/** @param {any} task */
async function work(task) {
  await agent.run(task.wid, async (run) => {
    /** @type {string | undefined} */
    let exec;
    try {
      await run.step("task", { effect: task.effect, parents: task.parents, id: task.exec, exec: task.exec }, async (step) => {
        exec = step.exec;
        const question = { do: "run", exec: step.exec, key: step.key };
        if (!(step.interrupted && (await ask(question, "GET")).done)) await ask(question, "POST");
      });
    } catch (why) {
      if (!(why instanceof RefusedForGood) || exec === undefined) throw why;
      await run.signal(exec, "tool.error", { effects: "none" });
    }
  });
}

/** The tasks, one after the other. */
async function tasks() {
  for await (const line of createInterface({ input: process.stdin })) {
    try {
      await work(JSON.parse(line));
    } catch (why) {
      if (!(why instanceof LedgerError || why instanceof RolledBack || why instanceof Error)) throw why;
      console.error(why.name, why.message);
    }
  }
}

agent.follow();
void tasks();
await agent.serve();
