// @ts-check
/**
 * An agent for crash.test.js: works, fails, and is rolled back; dies at one of its points.
 *
 *     crashing.js NAME KEY WORLD POINT
 *
 * WORLD is a directory with what the agent has effects on. POINT is the number of the point at which
 * the process kills itself; 0: never; "hook": within a compensation that is neither idempotent nor
 * probed, as often as that compensation is called; "copy": after a compensation, with a copy of the
 * state from before the signal; or the name of an effect: when the effect has happened, and the agent
 * does not know it yet. The points lie before and after each document that is saved, and before each
 * request that writes and after its answer; and around each effect.
 */
import * as fs from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, RolledBack } from "../src/index.js";
import { Ledger } from "../src/ledger.js";
import { Store } from "../src/store.js";

const [name = "", key = "", world = "", point = "0"] = process.argv.slice(2);
let passed = 0;

function passPoint(what = "") {
  if (++passed === Number(point) || what !== "" && what === point) die();
}

const { saveText } = Store.prototype;
Store.prototype.saveText = function (/** @type {string} */ document, /** @type {string} */ json) {
  passPoint();
  saveText.call(this, document, json);
  passPoint();
};
const { submit } = Ledger.prototype;
Ledger.prototype.submit = async function (/** @type {string} */ envelope, /** @type {object} */ asking) {
  passPoint();
  const ref = await submit.call(this, envelope, asking);
  passPoint();
  return ref;
};

/** A service that knows its keys: the same key twice is one effect, and it counts the calls. @param {string} what @param {string} of */
function effect(what, of) {
  passPoint();
  fs.appendFileSync(join(world, `${what}-${of}`), "x");
  passPoint(what);
}

/** @returns {never} */
function die() {
  process.kill(process.pid, "SIGKILL");
  for (;;); // until it has come
}

/** What cannot be found out, and is not idempotent. @param {string} of */
function callBack(of) {
  effect("back", of);
  die();
}

/** @param {string} of */
function recall(of) {
  effect("recall", of);
  if (point === "copy") die();
}

const agent = await connect(name, { key, patience: 20_000 });
agent.compensates("charge", (undo) => effect("refund", undo.key), { idempotent: true });
agent.compensates("mail", (undo) => recall(undo.key), { probe: (undo) => undo.keys.some((k) => fs.existsSync(join(world, `recall-${k}`))) });
agent.compensates("wire", (undo) => callBack(undo.key));
agent.restores((undo) => {
  fs.writeFileSync(join(world, "state.json"), JSON.stringify(undo.state));
  passPoint("restore");
});

async function work() {
  await agent.run("trip", async (run) => {
    await run.checkpoint("begun", { price: null });
    const price = await run.step("price", { effect: "reversible" }, () => passPoint());
    const charge = await run.step("charge", { effect: "compensable", parents: [price] }, (step) => {
      effect("charge", step.key);
      return step.key;
    });
    await run.step("mail", { effect: "compensable", parents: [charge] }, (step) => effect("mail", step.key));
    if (point === "copy") fs.cpSync(`${key}.state`, `${key}.copy`, { recursive: true });
    if (point === "hook") await run.step("wire", { effect: "compensable", parents: [price] }, () => {});
    await run.signal(price, "output.bad_arguments");
    for (let turn = 0; ; turn++) await run.step("wait", { id: String(turn) }, () => sleep(50)); // until the next step tells it
  });
}

try {
  const told = Object.keys(agent.records.run("trip").told);
  if (told.length) throw agent.rolledBack("trip", told.map(Number)); // killed when it was told already
  await work();
} catch (why) {
  if (!(why instanceof RolledBack)) throw why;
  console.log(JSON.stringify({ undone: why.undone, checkpoint: why.checkpoint, points: passed }));
}
await agent.close();
