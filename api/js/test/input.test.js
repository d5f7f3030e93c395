// @ts-check
/** Bad input, a damaged state and a ledger that lies: typed errors, which name what, and the remedy. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import * as http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { connect, Forked, InputError, LedgerError, Refused, StateError, Unproven, Unreachable } from "../src/index.js";
import { loadKey } from "../src/keyfile.js";
import { Ledger } from "../src/ledger.js";
import { Damaged, Store } from "../src/store.js";
import { find } from "../src/trust.js";
import { check, fresh } from "../src/verdict.js";
import { ARL, live } from "./support.js";

/** @param {import("node:test").TestContext} t */
function folder(t) {
  const dir = fs.mkdtempSync(join(tmpdir(), "arl-js-"));
  t.after(() => fs.rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** @param {Function} kind @param {RegExp} what @param {() => unknown} does */
async function refused(kind, what, does) {
  let why;
  try {
    await does();
  } catch (thrown) {
    why = thrown;
  }
  assert(why instanceof LedgerError && why instanceof kind, `${what}: ${why}`);
  assert.match(why.message, what);
  assert(why.remedy, why.message);
  return why;
}

test("keys", async (t) => {
  const file = join(folder(t), "a.key");
  await refused(InputError, /no such file/, () => loadKey(file));
  fs.writeFileSync(file, "nonsense", { mode: 0o644 });
  await refused(InputError, /others may read it/, () => loadKey(file));
  fs.chmodSync(file, 0o600);
  await refused(InputError, /no private key in PEM/, () => loadKey(file));
});

test("encrypted keys", async (t) => {
  const file = join(folder(t), "a.key");
  const before = process.env["ARL_PASSPHRASE"];
  t.after(() => (before === undefined ? delete process.env["ARL_PASSPHRASE"] : (process.env["ARL_PASSPHRASE"] = before)));
  process.env["ARL_PASSPHRASE"] = "pässword 1";
  for (const kind of ["ed25519", "ecdsa-p256"]) {
    fs.rmSync(file, { force: true });
    execFileSync(ARL, ["key", "generate", "--out", file, "--algorithm", kind], { stdio: "pipe" });
    assert(execFileSync(ARL, ["key", "show", file], { encoding: "utf8" }).includes(loadKey(file).keyid));
  }
  process.env["ARL_PASSPHRASE"] = "x";
  await refused(InputError, /wrong passphrase, or the file is damaged/, () => loadKey(file));
  process.env["ARL_PASSPHRASE"] = "";
  await refused(InputError, /it is encrypted/, () => loadKey(file));
  process.env["ARL_PASSPHRASE"] = "x";
  const sealed = (/** @type {string} */ body) =>
    fs.writeFileSync(file, `-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\n${body}\n-----END ENCRYPTED SIGSTORE PRIVATE KEY-----\n`);
  const kdf = { name: "scrypt", params: { N: 1 << 30, r: 8, p: 1 }, salt: "" };
  const doc = { kdf, cipher: { name: "nacl/secretbox", nonce: "" }, ciphertext: "" };
  for (const [body, what] of /** @type {[string, RegExp][]} */ ([
    ["", /JSON/],
    ["e30=", /not a sealed key/],
    ["W10=", /not a sealed key/],
    [Buffer.from(JSON.stringify(doc)).toString("base64"), /in a way that this package does not read/],
  ])) {
    sealed(body);
    await refused(InputError, what, () => loadKey(file));
  }
});

test("roots and URLs", async (t) => {
  const dir = folder(t);
  const before = process.env["ARL_HOME"];
  process.env["ARL_HOME"] = dir;
  t.after(() => (before === undefined ? delete process.env["ARL_HOME"] : (process.env["ARL_HOME"] = before)));
  await refused(InputError, /no profile of a ledger/, () => find(undefined, undefined));
  const root = join(dir, "root.json");
  for (const text of ["", "[]", "{}", '{"origin":"a","ledger_keys":[],"genesis":""}', '{"origin":"a","origin":"b"}']) {
    fs.writeFileSync(root, text);
    await refused(InputError, /root .*: not a pinned root/, () => find("http://127.0.0.1:1", root));
  }
  await refused(InputError, /no such file/, () => find("http://127.0.0.1:1", join(dir, "none")));
  const any = /** @type {any} */ ({});
  for (const url of ["", "127.0.0.1:8087", "ftp://a", "http://", "http://a:port", "http://a?b"]) await refused(InputError, /not the URL of a ledger/, () => new Ledger(url, any));
});

test("a store is locked, and notices damage", async (t) => {
  const dir = join(folder(t), "state");
  const store = new Store(dir);
  t.after(() => store.close());
  await refused(StateError, /another process has it/, () => new Store(dir));
  store.save("a", { n: 1 });
  assert.deepEqual(store.load("a"), { n: 1 });
  const path = join(dir, "a.doc");
  const good = fs.readFileSync(path);
  for (let i = 0; i < good.length; i++) {
    const flipped = Buffer.from(good);
    flipped[i] = (good[i] ?? 0) ^ 1;
    for (const changed of [good.subarray(0, i), flipped]) {
      fs.writeFileSync(path, changed);
      assert.throws(() => store.load("a"), Damaged, `byte ${i}`);
    }
  }
  await refused(StateError, /not a directory/, () => new Store(join(path, "state")));
});

test("garbage for a bundle", async (t) => {
  const { root } = (await live(t)).machine.profile();
  for (const text of ["", "{}", "[", "\xff", "{".repeat(200_000), "[".repeat(99_999), '{"agent":1}']) {
    const v = await check(Buffer.from(text, "latin1"), fresh(root, "a"), 0);
    assert(v.error && v.commands.length === 0 && v.next.head === "", text.slice(0, 9));
  }
});

test("steps", async (t) => {
  const at = await live(t);
  const agent = await at.connect();
  const no = () => assert.fail("the step is not begun");
  await agent.run("inputs", async (run) => {
    const any = /** @type {any} */ (run);
    const calls = [() => run.step("a b", no), () => run.step("", no), () => any.step("a", { effect: "deadly" }, no), () => run.step("a", { id: "b c" }, no),
      () => any.step("a", { parents: [1] }, no), () => any.step("a", { parents: "b" }, no), () => run.step("a".repeat(90), { id: "b".repeat(90) }, no), () => run.step("a", {}),
      () => run.checkpoint("a", () => {}), () => run.checkpoint("a", new Map()), () => run.signal("x#y", "output"), () => any.signal(7, "a.b"), () => any.agent.run("a/b", no),
      () => any.agent.run("a"), () => run.checkpoint("c", null, { digest: "md5:1" }), () => run.result("none")];
    for (const [i, call] of calls.entries()) await refused(InputError, /./, call).catch((why) => assert.fail(`call ${i}: ${why}`));
    const why = await refused(Refused, /unknown-subject/, () => run.step("a", { parents: ["nobody#x"] }, no));
    assert(why instanceof Refused && why.problem === "unknown-subject");
    await refused(InputError, /no value of JSON/, () => run.step("a", () => 7n)); // the same step with other parents is another execution
  });
  assert.deepEqual(await at.progress(), ["inputs/a@2 started", "inputs/a@2 failed"]);
});

test("states", async (t) => {
  const at = await live(t);
  await (await at.connect()).close();
  await refused(StateError, /an agent ran with it/, () => at.connect({ new: true }));
  await refused(InputError, /hexadecimal/, () => at.connect({ secret: at.key }));
  await refused(StateError, /no such file/, () => at.connect({ secret: "/nowhere/at/all" }));
  await refused(InputError, /of agent/, () => connect("somebody", { key: at.key }));
  await refused(InputError, /no second source/, () => at.connect({ confirm: at.machine.url }));
  await refused(InputError, /no key/, () => /** @type {any} */ (connect)("somebody"));
  const agent = await at.connect();
  await refused(StateError, /another process has it/, () => at.connect());
  await agent.close();
});

test("a lost state", async (t) => { // what it may have begun is not begun again: a probe is asked, or it is unknown
  const at = await live(t);
  const first = await at.connect();
  const charge = await first.run("lost", async (run) => (await run.step("charge", { effect: "compensable" }, () => {})).exec);
  await first.close();
  for (const file of fs.readdirSync(`${at.key}.state`)) if (file.endsWith(".doc")) fs.unlinkSync(join(`${at.key}.state`, file));
  const agent = await at.connect();
  /** @type {import("../src/index.js").Undo[]} */
  const asked = [];
  agent.compensates(() => {}, {
    probe: (undo) => {
      asked.push(undo);
      return false;
    },
  });
  await agent.run("lost", async (run) => {
    await run.signal(charge, "output.bad_arguments");
    assert.deepEqual(await at.outcomes(agent), { charge: "compensated" });
  });
  assert.deepEqual([asked[0]?.keys.length, asked[0]?.step, asked[0]?.result], [64, "charge", null]);
  assert(at.events.some((e) => e.kind === "lost"));
});

/** @type {[string, (file: string) => void, number][]} */
const DAMAGES = [
  ["a byte changed", (file) => {
    const data = fs.readFileSync(file);
    data[data.length - 2] = (data[data.length - 2] ?? 0) ^ 1;
    fs.writeFileSync(file, data);
  }, 64],
  ["an undertaking is missing between others", (file) => fs.unlinkSync(file), 64],
  ["nothing happened", () => {}, 0],
];
for (const [what, damage, keys] of DAMAGES) {
  test(`a damaged state: ${what}`, async (t) => { // counts as lost: a probe is asked about all keys
    const at = await live(t);
    const first = await at.connect();
    first.compensates(() => {});
    /** @type {string[]} */
    const steps = [];
    await first.run("damaged", async (run) => {
      for (const name of ["a", "b", "c"]) steps.push((await run.step(name, { effect: "compensable" }, () => {})).exec);
      for (const exec of steps.slice(0, 2)) {
        await run.signal(exec, "output.bad_arguments");
        await at.outcomes(first);
      }
    });
    await first.close();
    const number = (/** @type {string} */ file) => Number(file.split("-")[2]?.replace(".doc", ""));
    const [oldest = ""] = fs.readdirSync(`${at.key}.state`).filter((file) => file.startsWith("work-")).sort((a, b) => number(a) - number(b));
    damage(join(`${at.key}.state`, oldest));
    const agent = await at.connect();
    /** @type {number[]} */
    const asked = [];
    const ask = (/** @type {import("../src/index.js").Undo} */ undo) => void asked.push(undo.keys.length);
    agent.compensates(ask, {
      probe: (undo) => {
        ask(undo);
        return false;
      },
    });
    await agent.run("damaged", async (run) => {
      await run.signal(steps[2] ?? "", "output.bad_arguments");
      assert.deepEqual(await at.outcomes(agent), { c: "compensated" });
    });
    assert.equal(Math.max(...asked), keys);
  });
}

/**
 * An agent at a ledger that lies: it passes requests on, and changes answers; null: the answer is lost.
 *
 * @param {Live} at @param {(path: string, body: Buffer) => Buffer | string | null} twist
 * @param {(path: string, least: number) => number} [behind] the status of a node that lags, for a request that needs a size; 0: it does not
 * @typedef {import("./support.js").Live} Live
 */
async function liar(at, twist, behind = () => 0) {
  const { url, root } = at.machine.profile();
  const upstream = new Ledger(url, root);
  const server = http.createServer(async (request, response) => {
    /** @type {Buffer[]} */
    const parts = [];
    for await (const part of request) parts.push(part);
    const path = request.url ?? "";
    const status = behind(path, Number(request.headers["min-log-size"] ?? 0));
    if (status) {
      response.writeHead(status, status === 503 ? { "Log-Size": 1 } : {}).end('{"type":"urn:agent-recovery:problem:not-found","title":"not found","status":404}');
      return;
    }
    /** @type {Buffer | string | null} */
    let got;
    try {
      got = (await upstream.request(request.method ?? "", path, Buffer.concat(parts).toString(), { attempts: 1 })).data;
    } catch (why) {
      if (!(why instanceof LedgerError)) throw why;
      got = why instanceof Refused ? Buffer.from("{}") : null;
    }
    got = got && twist(path, /** @type {Buffer} */ (got));
    if (got === null) request.socket.destroy();
    else response.writeHead(200).end(got);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  at.t.after(() => {
    upstream.close();
    server.closeAllConnections();
    server.close();
  });
  return at.connect({ url: `http://127.0.0.1:${/** @type {import("node:net").AddressInfo} */ (server.address()).port}`, patience: 1000 });
}

test("receipts", async (t) => {
  const at = await live(t);
  const begins = (/** @type {import("../src/index.js").Agent} */ agent) =>
    agent.run("lied", (run) => run.step("charge", { effect: "compensable" }, () => assert.fail("the step is begun without a receipt that holds")));
  const of = (/** @type {(receipt: any) => void} */ change) => (/** @type {string} */ path, /** @type {Buffer} */ body) => {
    if (path !== "/v1/entries") return body;
    const receipt = JSON.parse(body.toString());
    change(receipt);
    return JSON.stringify(receipt);
  };
  const lies = [of((r) => r.index++), of((r) => r.proof.shift()), of((r) => (r.leaf = "e30=")), of((r) => (r.head = r.head.replace("\n", "\n1"))), of((r) => delete r.head),
    (/** @type {string} */ path, /** @type {Buffer} */ body) => (path === "/v1/entries" ? "<html>" : body)];
  for (const [i, lie] of lies.entries()) {
    const agent = await liar(at, lie);
    await assert.rejects(begins(agent), Unproven, `lie ${i}`);
    await agent.close();
  }
  const agent = await liar(at, (path, body) => (path === "/v1/entries" ? null : body)); // the answer is lost
  await assert.rejects(begins(agent), Unreachable);
  await agent.close();
  await (await at.connect()).run("lied", (run) => run.step("charge", { effect: "compensable" }, () => {}));
  assert.deepEqual(await at.progress(), ["lied/charge started", "lied/charge confirmed"]); // no second entry, though it was sent so often
});

test("another log", async (t) => { // a head of another size that no proof connects is a fork, and stops the agent for good
  const at = await live(t);
  const agent = await liar(at, (path, body) => (path.includes("/consistency/") ? JSON.stringify({ path: [], old: 1, new: 2 }) : body));
  await assert.rejects(agent.run("fork", async (run) => {
    for (let n = 0; n < 3; n++) await run.step("turn", { id: String(n) }, () => {});
  }), (why) => why instanceof Forked && why.heads.length === 2);
});

test("a node that lags", async (t) => { // is asked again, whatever it answers, and is no fork; each request says the accepted size
  const at = await live(t);
  let most = 0;
  const answers = [404, 503, 404];
  const agent = await liar(at, (_, body) => body, (path, least) => {
    most = Math.max(most, least);
    return path.includes("/consistency/") ? answers.pop() ?? 0 : 0;
  });
  await agent.run("lag", async (run) => {
    for (let n = 0; n < 6; n++) await run.step("turn", { id: String(n) }, () => {});
  });
  await agent.close();
  assert.deepEqual(answers, []);
  assert(most > 1);
  assert(!at.events.some((e) => e.kind === "fork"));
});
