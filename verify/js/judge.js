// @ts-check
/**
 * A verifier over standard input: a question in each line, an answer in each
 * line, in the same order (docs/javascript.md). Other implementations are
 * compared with this one by it.
 */
import { createInterface } from "node:readline";
import { checkBundle, decodeAccepted, decodeBundle, encodeAccepted, ForkError, FormatError, Material, parseRoot, StepError, verify } from "./src/index.js";
import { judgeVector } from "./test/vectors.js";

/** @typedef {import("./src/check.js").Verdict} Verdict */

/** @param {unknown} error @returns {Record<string, unknown>} */
function refusal(error) {
  if (error instanceof FormatError) return { refused: "form", detail: error.message };
  if (error instanceof ForkError) return { refused: "fork", detail: error.message };
  if (error instanceof StepError) return { refused: `step ${error.step}`, detail: error.message };
  throw error;
}

/** @param {import("./src/errors.js").RuleError} error */
const rule = (error) => (error.step === error.rule ? error.step : `${error.step} ${error.rule}`);

/** @param {any} q the pinned root and files, in base64, and questions to histories */
async function verifyFiles(q) {
  const material = new Material();
  for (const [i, file] of q.files.entries()) material.add(`file ${i + 1}`, Buffer.from(file, "base64"));
  material.questions.push(...(q.questions ?? []));
  const { entries, ...report } = await verify(parseRoot(Buffer.from(q.root, "base64")), material);
  return { ...report, entries: entries.map(({ body: _, ...entry }) => entry) };
}

/** @param {any} q a bundle in base64 and what its agent has accepted, each in its one form, and its time */
async function bundle(q) {
  const v = await checkBundle(decodeBundle(Buffer.from(q.bundle, "base64")), decodeAccepted(q.accepted), q.now);
  const { next, error, commands, evidence: _, ...rest } = v;
  return {
    ...rest,
    refused: error ? rule(error) : "",
    ...(error ? { detail: error.message } : {}),
    next: encodeAccepted(next),
    commands: commands.map((c) => ({ ...c, refused: c.refused ? rule(c.refused) : "" })),
  };
}

/** @param {any} q a protocol vector as arl conformance asks it: its input is bytes in base64 */
async function vector(q) {
  const data = q.input === undefined ? "" : Buffer.from(q.input, "base64").toString();
  const asText = ["hash", "key", "merkle", "note"].includes(q.group);
  const v = q.group === "bundle"
    ? { accepted: JSON.parse(q.accepted), now: q.now, bundle: Buffer.from(q.bundle, "base64").toString() }
    : q.group === "history"
    ? { root: q.root, questions: q.questions, history: Buffer.from(q.history, "base64").toString() }
    : q.group === "evidence"
    ? { root: q.root, evidence: Buffer.from(q.evidence, "base64").toString() }
    : { ...q, input: asText ? data : { base64: q.input }, want: { note: q.note } };
  const { problem, got } = await judgeVector(q.group, v);
  return { id: q.id, refused: problem, ...(got === undefined ? {} : { result: got }) };
}

/** @param {string} line */
async function answer(line) {
  const q = JSON.parse(line);
  if (q.group !== undefined) return vector(q);
  try {
    return q.bundle === undefined ? { refused: "", ...(await verifyFiles(q)) } : await bundle(q);
  } catch (error) {
    return refusal(error);
  }
}

/** A size of more than 53 bits is written as it is. @param {unknown} value */
const write = (value) => JSON.stringify(value, (_, v) => (typeof v === "bigint" ? `#${v}#` : v)).replace(/"#(\d+)#"/g, "$1");

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  process.stdout.write(`${write(await answer(line))}\n`);
}
