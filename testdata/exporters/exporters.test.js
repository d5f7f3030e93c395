// Runs small agents under the instrumentations that others wrote, exports their spans by OTLP over
// HTTP to loopback, and imports them: node --test, with the program in ARL.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { promisify } from "node:util";

const exec = promisify(execFile);
const here = import.meta.dirname;
const arl = process.env.ARL ?? path.join(here, "..", "..", "bin", "arl");
const dir = mkdtempSync(path.join(tmpdir(), "exporters-"));
after(() => rmSync(dir, { recursive: true }));

const MODEL = "gpt-4o-mini";
const CARD = "charge_card: transient.unavailable, retry ok";
const DENIED = `${MODEL}: access.unauthenticated`;

/** The steps of the scene "retried", where the exporter writes tools, and where it does not. */
const WITH_TOOLS = [MODEL, "get_price", MODEL, CARD, MODEL, MODEL];
const MODELS_ALONE = [MODEL, MODEL, MODEL, MODEL];

/**
 * What an exporter makes of the scenes: steps, and the outcome of the run. Where an exporter has no
 * span of what failed, the error of the run is that of the span around it.
 */
const AGENTS = {
  langchain: { retried: WITH_TOOLS, refused: [MODEL, "get_price", DENIED] },
  langgraph: { retried: WITH_TOOLS, refused: [MODEL, "get_price", DENIED] },
  // The tool has the name of its class.
  langchain_openllmetry: { retried: WITH_TOOLS.map((step) => step.replace(/get_price|charge_card/, "DynamicStructuredTool")), refused: [MODEL, "DynamicStructuredTool", DENIED] },
  // A call of the model that fails has no span.
  openai_openinference: { retried: WITH_TOOLS, refused: [MODEL, "get_price"] },
  openai_openllmetry: { retried: MODELS_ALONE, refused: [MODEL] },
  openai_opentelemetry: { retried: MODELS_ALONE, refused: [MODEL, DENIED] },
  // An error of the model ends the program, and its span says that all is well.
  llamaindex_openllmetry: { retried: MODELS_ALONE },
  // The client's second request is a span of its own.
  aisdk: { retried: [...WITH_TOOLS.slice(0, 5), `${MODEL}: capacity.rate_limited, retry ok`], refused: [MODEL, "get_price", DENIED] },
  aisdk_openinference: { retried: [...WITH_TOOLS.slice(0, 5), `${MODEL}: capacity.rate_limited, retry ok`], refused: [MODEL, "get_price", DENIED] },
};

/** A step in words: what is called, its failure, and what was tried after it. */
function said(step) {
  const tried = (step.attempts ?? []).map((attempt) => `, ${attempt.strategy} ${attempt.outcome}`).join("");
  return (step.tool ?? step.model) + (step.failure ? `: ${step.failure.class}.${step.failure.code}` : "") + tried;
}

/** The steps that a rollback of the first one undoes: those that depend hard on it. */
function undone(steps) {
  const reached = new Set([steps[0].id]);
  for (const step of steps) {
    if ((step.parents ?? []).some((parent) => parent.dep === "hard" && reached.has(parent.step))) reached.add(step.id);
  }
  return reached.size;
}

const spansIn = (file) => readFileSync(file, "utf8").trim().split("\n").flatMap((line) =>
  JSON.parse(line).resourceSpans.flatMap((resource) => resource.scopeSpans.flatMap((scope) => scope.spans)));

for (const [agent, scenes] of Object.entries(AGENTS)) {
  for (const [scene, want] of Object.entries(scenes)) {
    test(`${agent}: ${scene}`, async () => {
      const file = path.join(dir, `${agent}-${scene}.jsonl`);
      const run = await exec(process.execPath, [path.join(here, "run.js"), agent, scene, file], { timeout: 60_000, env: { ...process.env, LANGSMITH_TRACING: "false" } });
      assert.match(run.stdout, scene === "retried" ? /The book is paid\./ : /failed: .*Incorrect API key/, run.stderr);
      const imported = await exec(arl, ["scenario", "import", "--format", "otlp", file]);
      const [, taken, all, left] = imported.stderr.match(/: spans taken: (\d+) of (\d+)(?:; left: (.*))?/);
      const named = [...(left ?? "").matchAll(/(?:^|, )(\d+) /g)].reduce((sum, [, n]) => sum + Number(n), 0);
      assert.equal(Number(all), spansIn(file).length, "spans that the exporter sent");
      assert.equal(Number(taken) + named, Number(all), imported.stderr);
      const cases = imported.stdout.trim().split("\n").map((line) => JSON.parse(line));
      assert.equal(cases.length, 1, "one run is one case");
      const [{ outcome, agent: principal, steps }] = cases;
      const calls = steps.filter((step) => step.id !== "verdict");
      assert.deepEqual(calls.map(said), want);
      assert.equal(outcome, scene === "retried" ? "ok" : "failed");
      if (scene === "refused") assert.equal(`${steps.at(-1).failure.class}.${steps.at(-1).failure.code}`, "access.unauthenticated");
      assert.equal(principal, "otlp/shopper");
      assert.equal(undone(calls), calls.length, "what depends on the first call");
    });
  }
}
