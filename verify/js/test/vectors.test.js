// @ts-check
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { base64, hex, unbase64 } from "../src/bytes.js";
import { sha256 } from "../src/sha256.js";
import { readVectors } from "./files.js";
import { runVectors } from "./vectors.js";

test("all protocol vectors", async () => {
  const { count, wrong } = await runVectors(readVectors());
  assert.deepEqual(wrong, []);
  assert(count > 900, `${count} vectors`);
});

test("a damaged vector is wrong", async () => {
  const vectors = readVectors();
  for (const name of ["hash/good.json", "leaf/canonical.json", "bundle/good-automatic.json"]) {
    const v = structuredClone(vectors.get(name));
    const damaged = name.startsWith("bundle") ? ((v.want.confirmed = !v.want.confirmed), v) : { ...v, wantErr: "stale" };
    assert.equal((await runVectors(new Map([[name, damaged]]))).wrong.length, 1, name);
  }
});

test("SHA-256 of every length up to three blocks is that of Node", () => {
  for (const n of [...Array(200).keys(), 4000, 70_000]) {
    const data = Uint8Array.from({ length: n }, (_, i) => i * 7 + n);
    assert.equal(hex(sha256(data.subarray(0, n >> 1), data.subarray(n >> 1))), createHash("sha256").update(data).digest("hex"));
  }
});

test("base64 has one spelling", () => {
  for (const good of ["", "AA==", "AAA=", "AAAA", "+/+/"]) assert.equal(base64(/** @type {any} */ (unbase64(good))), good);
  for (const bad of ["A", "AA", "AB==", "AAB=", "====", "A===", "AA=A", "AAAA\n", "_-AA", "AA==AAAA", "é==="]) assert.equal(unbase64(bad), null, bad);
});

test("modules import each other and nothing else, and stay small", () => {
  const folder = fileURLToPath(new URL("../src/", import.meta.url));
  const sources = readdirSync(folder).map((name) => readFileSync(folder + name, "utf8"));
  for (const source of sources) {
    for (const [, from] of source.matchAll(/^(?:import|export) .*?from "(.*)";$/gm)) assert.match(from ?? "", /^\.\/[a-z0-9]+\.js$/);
    assert.doesNotMatch(source, /\b(?:eval|Function|require|process|Buffer)\(/);
  }
  const all = sources.join("");
  const [raw, zipped] = [all.length, gzipSync(all, { level: 9 }).length];
  assert(raw < 198_000 && zipped < 56_500, `${raw} bytes, ${zipped} in gzip, comments included`);
});
