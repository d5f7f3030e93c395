// @ts-check
/**
 * SIGKILL at the points of an agent's life: each effect happens once, and the rollback ends.
 *
 * Without ARL_CHAOS the points behind each effect are tried, and a sample of the others, always the
 * same one; with it, every point.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import * as fs from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { machine } from "./support.js";

const CRASHING = fileURLToPath(new URL("crashing.js", import.meta.url));
const SAMPLE = 3;
const EFFECTS = ["charge", "mail", "refund", "recall", "restore"];

/**
 * One life of the agent.
 *
 * @param {import("./support.js").Machine} at @param {string[]} args
 */
async function live(at, ...args) {
  const child = spawn(process.execPath, [CRASHING, ...args], { env: at.env, timeout: 300_000 });
  const ended = new Promise((resolve) => child.once("close", resolve));
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  return { out, err, code: child.exitCode, signal: child.signalCode };
}

/**
 * Kills an agent at a point, starts it again, and looks at the world and the log.
 *
 * @param {import("./support.js").Machine} at @param {number | string} point
 * @returns {Promise<number>} the number of its points
 */
async function play(at, point) {
  const { name, key } = await at.enrol();
  const world = join(at.dir, `world-${name}`);
  fs.mkdirSync(world);
  const first = await live(at, name, key, world, String(point));
  if (point) assert(first.signal === "SIGKILL" || typeof point === "number" && first.code === 0, first.err);
  const done = point ? await live(at, name, key, world, "0") : first;
  const what = `killed at point ${point}: ${done.out}${done.err}`;
  assert.equal(done.code, 0, what);
  const told = JSON.parse(done.out || first.out);
  const undone = Object.fromEntries(Object.entries(told.undone).map(([exec, result]) => [exec.split("/")[1], result]).filter(([step]) => !String(step).includes("wait")));
  assert.deepEqual(undone, { price: "restored", charge: "compensated", mail: "compensated" }, what);
  const files = fs.readdirSync(world).map((file) => file.split("-")[0]).sort();
  assert.deepEqual(files, ["charge", "mail", "recall", "refund", "state.json"], what); // one key each
  const recall = fs.readdirSync(world).find((file) => file.startsWith("recall-")) ?? "";
  assert.equal(fs.readFileSync(join(world, recall), "utf8"), "x", what); // not idempotent: once
  assert.deepEqual(JSON.parse(fs.readFileSync(join(world, "state.json"), "utf8")), { price: null });
  return told.points;
}

/**
 * The first life of an agent that is killed at a point with a name.
 *
 * @param {import("./support.js").Machine} at @param {string} named
 */
async function killed(at, named) {
  const { name, key } = await at.enrol();
  const world = join(at.dir, `world-${name}`);
  fs.mkdirSync(world);
  const first = await live(at, name, key, world, named);
  assert.equal(first.signal, "SIGKILL", first.err);
  return { name, key, world };
}

/** What a life says of the outcome of each step. @param {Awaited<ReturnType<typeof live>>} life */
function outcomes(life) {
  assert.equal(life.code, 0, life.err);
  return Object.fromEntries(Object.entries(JSON.parse(life.out).undone).map(([exec, result]) => [exec.split("/")[1], String(result).split(":")[0]]));
}

/** The effects of a kind, as often as each happened. @param {string} world @param {string} what */
const effects = (world, what) => fs.readdirSync(world).filter((file) => file.startsWith(what)).map((file) => fs.readFileSync(join(world, file), "utf8"));

test("in a hook that cannot be repeated", async () => { // it is not run again: its outcome is unknown
  const at = await machine();
  const { name, key, world } = await killed(at, "hook");
  const undone = outcomes(await live(at, name, key, world, "hook"));
  assert.deepEqual([undone["wire"], undone["charge"], undone["mail"]], ["unknown", "compensated", "compensated"]);
  assert.deepEqual(effects(world, "back-"), ["x"]);
});

test("an older copy of the state", async () => { // the log has a compensation that it would announce: it counts as lost
  const at = await machine();
  const { name, key, world } = await killed(at, "copy");
  fs.rmSync(`${key}.state`, { recursive: true });
  fs.renameSync(`${key}.copy`, `${key}.state`);
  const undone = outcomes(await live(at, name, key, world, "0"));
  assert.equal(undone["mail"], "compensated"); // the probe has found it
  assert.deepEqual(effects(world, "recall-"), ["x"]);
});

test("at every point", async () => {
  const at = await machine();
  const points = await play(at, 0);
  assert(points > 60, `${points} points`);
  const every = process.env["ARL_CHAOS"] !== undefined;
  const from = Number(process.env["CRASH_FROM"] ?? 1);
  const numbered = Array.from({ length: points }, (_, i) => i + 1).filter((p) => (every ? p >= from : p >= 3 && p < points && (p - 3) % Math.max(1, Math.floor(points / SAMPLE)) === 0));
  const chosen = [...EFFECTS, ...numbered];
  const lane = async () => {
    for (let point = chosen.shift(); point !== undefined; point = chosen.shift()) await play(at, point);
  };
  await Promise.all([lane(), lane()]);
});
