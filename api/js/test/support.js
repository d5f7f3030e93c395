// @ts-check
/** A real ledger for the tests: `arl serve` on loopback, in a directory of its own. */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { connect, LedgerError, Run, Unreachable } from "../src/index.js";
import { Ledger } from "../src/ledger.js";

/** The top of the checkout. */
export const TREE = fileURLToPath(new URL("../../..", import.meta.url));
/** The program `arl`. */
export const ARL = process.env["ARL"] ?? join(TREE, "bin", "arl");

const run = promisify(execFile);

/** A machine with `arl`, an ARL_HOME and a ledger that runs until the tests of a file end. */
export class Machine {
  #count = 0;
  /** @type {import("node:child_process").ChildProcess} */
  #server;
  url = "";

  constructor() {
    this.dir = fs.mkdtempSync(join(tmpdir(), "arl-js-"));
    this.env = { ...process.env, ARL_HOME: join(this.dir, "home") };
    const log = fs.openSync(join(this.dir, "serve.log"), "w");
    this.#server = spawn(ARL, ["serve", "--data", join(this.dir, "data"), "--listen", "127.0.0.1:0"], { env: this.env, stdio: ["ignore", log, log] });
    fs.closeSync(log);
  }

  /** Waits until the ledger answers. */
  async ready() {
    for (const till = Date.now() + 60_000; Date.now() < till && this.#server.exitCode === null; await sleep(20)) {
      const profile = this.profile();
      if (!profile) continue;
      const ledger = new Ledger(profile.url, profile.root);
      try {
        await ledger.request("GET", "/readyz", "", { attempts: 1 });
        this.url = profile.url;
        return;
      } catch (why) {
        if (!(why instanceof LedgerError)) throw why;
      } finally {
        ledger.close();
      }
    }
    throw new Error(fs.readFileSync(join(this.dir, "serve.log"), "utf8"));
  }

  /** URL and pinned root of the ledger. @returns {any} */
  profile() {
    const folder = join(this.dir, "home", "profiles");
    const name = fs.existsSync(folder) && fs.readdirSync(folder).find((file) => file.endsWith(".json"));
    return name ? JSON.parse(fs.readFileSync(join(folder, name), "utf8")) : null;
  }

  async close() {
    const ended = new Promise((resolve) => this.#server.once("exit", resolve));
    if (this.#server.exitCode === null && this.#server.kill()) await ended;
    fs.rmSync(this.dir, { recursive: true, force: true });
  }

  /** Runs `arl`. @param {string[]} words @returns {Promise<string>} */
  async arl(...words) {
    return (await run(ARL, words, { env: this.env, cwd: this.dir })).stdout;
  }

  /** Makes another agent. @returns {Promise<{name: string, key: string}>} */
  async enrol(domain = "shop") {
    const name = `agent${++this.#count}`;
    const key = join(this.dir, `${name}.key`);
    await this.arl("key", "generate", "--out", key);
    await this.arl("agent", "enrol", "--principal", name, "--key", key, "--domain", domain);
    return { name, key };
  }
}

/** @type {Promise<Machine> | undefined} */
let made;
after(async () => (await made)?.close());

/** The machine of this process. @returns {Promise<Machine>} */
export async function machine() {
  made ??= (async () => {
    const one = new Machine();
    await one.ready();
    process.env["ARL_HOME"] = one.env.ARL_HOME;
    return one;
  })();
  return made;
}

/** An agent of its own at a real ledger. */
export class Live {
  /** @type {import("../src/index.js").Event[]} */
  events = [];

  /** @param {import("node:test").TestContext} t @param {Machine} at @param {string} name @param {string} key */
  constructor(t, at, name, key) {
    this.t = t;
    this.machine = at;
    this.name = name;
    this.key = key;
  }

  /** @param {Partial<import("../src/agent.js").ConnectOptions>} [options] */
  async connect(options = {}) {
    const agent = await connect(this.name, { key: this.key, ...options });
    agent.listen((event) => this.events.push(event));
    this.t.after(() => agent.close());
    return agent;
  }

  /** What obey returns, by step. @param {import("../src/index.js").Agent} agent */
  async outcomes(agent, timeout = 40_000) {
    try {
      const undone = Object.entries(await agent.obey({ timeout }));
      return Object.fromEntries(undone.map(([name, result]) => [name.slice(name.indexOf("/") + 1), result]));
    } catch (why) {
      if (!(why instanceof Unreachable)) throw why;
      return assert.fail([why, ...this.events.map((e) => JSON.stringify({ ...e, error: String(e.error) }))].join("\n"));
    }
  }

  /** All entries of the log. */
  async entries() {
    const { url, root } = this.machine.profile();
    const ledger = new Ledger(url, root);
    this.t.after(() => ledger.close());
    const all = [];
    for (let page = await ledger.entries(0, 500); page.length; page = await ledger.entries(all.length, 500)) all.push(...page);
    return all;
  }

  /**
   * Signals an execution of a run from a step of it, and ends when the agent knows what the signal undoes: a
   * run may else be over before the coordinator has decided.
   *
   * @param {import("../src/index.js").Agent} agent @param {string} run @param {string} step of the run
   */
  async signal(agent, run, step) {
    await new Run(agent, run).signal(`${this.name}#${run}/${step}`, "output.bad_arguments");
    while (!agent.pending(run).length) await agent.changed.wait(1000);
  }

  /** What the agent has logged of its executions, in order. */
  async progress() {
    return (await this.entries()).filter((e) => e.kind === "execution" && e.body.iss === this.name).map((e) => `${e.body.exec} ${e.body.progress}`);
  }
}

/** A new agent. @param {import("node:test").TestContext} t */
export async function live(t) {
  const at = await machine();
  const { name, key } = await at.enrol();
  return new Live(t, at, name, key);
}
