// @ts-check
/** The first page of README.md, word by word, at a fresh ledger. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { machine, TREE } from "./support.js";

const MAX_LINES = 15;
const MAX_CONCEPTS = 8;
const PACKAGE = join(TREE, "api", "js");
/** Where the package is installed: in the checkout, as npm install of a folder leaves it, unless told. */
const INSTALLED = process.env["INSTALLED"] ?? PACKAGE;

test("the first page is followed", async () => {
  const page = (fs.readFileSync(join(PACKAGE, "README.md"), "utf8").split("## The first page")[1] ?? "").split("## Install")[0] ?? "";
  const [serve, commands = "", program = "", output = ""] = [...page.matchAll(/^```[^\n]*\n(.*?)^```$/gms)].map((block) => block[1]);
  assert.equal(serve, "$ arl serve --data data\n");
  const at = await machine(); // arl serve --data, with a port and a directory of the test
  for (const line of commands.trim().split("\n")) {
    const [prompt, command, ...words] = line.split(" ");
    assert.equal(`${prompt} ${command}`, "$ arl");
    await at.arl(...words);
  }
  fs.writeFileSync(join(at.dir, "buyer.mjs"), program);
  fs.mkdirSync(join(at.dir, "node_modules"));
  fs.symlinkSync(INSTALLED, join(at.dir, "node_modules", "recoveryledger"), "dir");
  const done = spawnSync(process.execPath, ["buyer.mjs"], { cwd: at.dir, env: at.env, encoding: "utf8", timeout: 60_000 });
  assert.equal(done.stderr, "");
  const expected = output.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/[0-9a-f]{4}…/, "[0-9a-f]{64}");
  assert.match(done.stdout, new RegExp(`^${expected}$`));
  assert.equal(done.status, 0);
  assert.match(await at.arl("incident", "list"), /RECOVERED/);

  assert(program.split("\n").filter((line) => line.trim()).length <= MAX_LINES);
  const concepts = [...page.matchAll(/^\| `(\w+)` \|/gm)].map((row) => row[1]);
  assert(concepts.length <= MAX_CONCEPTS);
  const used = new Set([...program.matchAll(/(?:agent|run)\.(\w+)|(connect)\(/g)].map((use) => use[1] ?? use[2]));
  assert.deepEqual([...used].sort(), [...concepts].sort());
});
