// @ts-check
/**
 * Runs the protocol vectors of testdata/vectors, as their README says, with
 * nothing that only one runtime has: in Node, in others, in browsers.
 */
import { base64, concat, hex, unbase64, utf8 } from "../src/bytes.js";
import { FormatError, ForkError, IndexError, Refusal, StepError } from "../src/errors.js";
import { checkBundle, decodeAccepted, decodeBundle, encodeAccepted, Material, parseRoot, verify } from "../src/index.js";
import { decodeEnvelope, decodeLeaf } from "../src/entry.js";
import { canonical } from "../src/json.js";
import { parseKey, verifySignature, ed25519 } from "../src/key.js";
import { checkConsistency, checkInclusion, hashChildren, hashLeaf, parseHash, treeRoot } from "../src/merkle.js";
import { COSIGNATURE, cosigned, ED25519, ML_DSA_44, parseNote, parseVerifierKey } from "../src/note.js";
import { checkPrefix, checkRun, hashRecord, prefixRoot, subjectKey, subjectsOf } from "../src/prefix.js";
import { sha256 } from "../src/sha256.js";

/** @param {any} parts @returns {Uint8Array} */
function input(parts) {
  if (typeof parts === "string") return utf8(parts);
  if (Array.isArray(parts)) return concat(...parts.map(input));
  if ("repeat" in parts) return utf8(parts.repeat.repeat(parts.times));
  if ("base64" in parts) return Uint8Array.from(atob(parts.base64), (c) => c.charCodeAt(0));
  return utf8(base64(input(parts.encode)));
}

/** @param {import("../src/entry.js").Entry} entry @param {any} v @param {number} at */
async function want(entry, v, at) {
  const digest = (/** @type {string} */ text) => hex(sha256(utf8(text)));
  return {
    pae_sha256: digest(entry.pae),
    envelope_sha256: digest(entry.canonical),
    leaf_hash: base64(hashLeaf(utf8(`{"envelope":${entry.canonical},"registered_at":${at}}`))),
    keyid: entry.keyid,
    signature_valid: await verifySignature(parseKey(v.key), utf8(entry.pae), entry.sig),
  };
}

/** @param {string} kind @param {Uint8Array} payload @param {string} keyid @param {string} sig */
function seal(kind, payload, keyid, sig) {
  const payloadType = `application/vnd.agent-recovery.${kind}+json`;
  return JSON.stringify({ payload: base64(payload), payloadType, signatures: [{ keyid, sig }] });
}

/** @type {Record<string, (v: any) => Promise<any>>} */
const run = {
  payload: async (v) => {
    const payload = input(v.input);
    decodeEnvelope(seal(v.kind, payload, "SHA256:" + "A".repeat(43), "A".repeat(96)));
    if (!v.key) return undefined;
    return want(decodeEnvelope(seal(v.kind, payload, parseKey(v.key).id, v.sig)), v, v.registered_at);
  },
  envelope: async (v) => want(decodeEnvelope(input(v.input)), v, v.registered_at),
  leaf: async (v) => {
    const entry = decodeLeaf(0, input(v.input));
    if (entry.at !== v.registered_at) throw new Error("another time");
    return want(entry, v, entry.at);
  },
  key: async (v) => {
    const key = parseKey(v.input);
    return { keyid: key.id, algorithm: key.algorithm };
  },
  hash: async (v) => {
    if (!parseHash(v.input)) throw new Refusal("malformed", "", "no hash");
  },
  note: async (v) => {
    let key;
    try {
      key = parseVerifierKey(v.input);
    } catch {
      throw new Refusal("malformed", "", "no verifier key");
    }
    const algorithm = { [ED25519]: "ed25519", [COSIGNATURE]: "ed25519-cosignature/v1", [ML_DSA_44]: "ml-dsa-44-cosignature" }[key.type];
    /** @type {any} */
    const got = { keyid: key.hash, algorithm };
    if (!v.want.note) return got;
    const note = parseNote(v.want.note);
    const line = note?.signatures.find((s) => s.name === key.name && s.hash === key.hash);
    if (!note || !line) throw new Error("no note of the key");
    const { message, sig } = key.type === ED25519 ? { message: note.text, sig: line.sig } : /** @type {any} */ (cosigned(note.text, line.sig));
    return { ...got, note: v.want.note, signature_valid: await verifySignature(ed25519("", key.raw), utf8(message), sig) };
  },
  merkle: async (v) => {
    const need = (/** @type {boolean} */ good) => {
      if (!good) throw new Refusal("proof", "", "does not verify");
    };
    const proof = (v.proof ?? []).map(parseHash);
    if (v.op === "leaf") return base64(hashLeaf(utf8(v.input)));
    if (v.op === "node") return base64(hashChildren(/** @type {any} */ (parseHash(v.left)), /** @type {any} */ (parseHash(v.right))));
    if (v.op === "root") need(base64(treeRoot(Array.from({ length: v.head.size }, (_, i) => hashLeaf(utf8(String(i)))))) === v.head.root);
    if (v.op === "inclusion") need(checkInclusion(v.index, /** @type {any} */ (parseHash(v.leaf)), v.head, proof));
    if (v.op === "consistency") need(checkConsistency(v.older, v.head, proof));
    return undefined;
  },
};

/** @param {any} leaf */
const leafOf = (leaf) => leaf && { key: parseHash(leaf.key), record: parseHash(leaf.record) };

Object.assign(run, {
  subjects: async (/** @type {any} */ v) => {
    const largest = seal(v.kind, input(v.input), "SHA256:" + "A".repeat(43), "A".repeat(96));
    return { subjects: subjectsOf(decodeEnvelope(largest), v.index) };
  },
  prefix: async (/** @type {any} */ v) => {
    const path = (v.proof ?? []).map(parseHash);
    if (v.op === "key") return base64(subjectKey(v.subject.type, v.subject.value));
    if (v.op === "record") {
      const record = hashRecord((v.rows ?? []).map((/** @type {any} */ r) => ({ ...r, root: parseHash(r.root) })));
      if (!record) throw new Refusal("malformed", "", "no record");
      return base64(record);
    }
    if (v.op === "tree") return base64(prefixRoot((v.leaves ?? []).map(leafOf)));
    const answers = (v.answers ?? []).map((/** @type {any} */ a) => ({ key: parseHash(a.key), depth: a.depth ?? 0, leaf: leafOf(a.leaf) ?? null }));
    const good = v.op === "run" ? checkRun(v.from, v.indexes, v.head, path) : checkPrefix(answers, v.root, path);
    if (!good) throw new Refusal("proof", "", "does not verify");
    return undefined;
  },
});

/** Subjects in the order of docs/history.md. */
const SUBJECTS = [{
  type: 1, value: 1, rows: [{ label: 1, count: 1, root: 1 }], lists: [{ label: 1, from: 1, indexes: 1, path: 1 }], depth: 1,
  other: { key: 1, record: 1 },
}];

/** Members of a history in the order of docs/history.md. */
const HISTORY = { head: 1, index: 1, entries: [{ index: 1, leaf: 0 }], inclusion: 1, subjects: SUBJECTS, prefix: 1, size: 1 };

/** Members of a bundle in the order of docs/bundle.md; a list has elements of one shape. */
const ORDER = {
  agent: 1, decision: 1, head: 1, from: 1, consistency: 1, entries: [{ index: 1, leaf: 0 }], inclusion: 1,
  members: [{ place: 1, member: { agent: 1, checkpoint: 1, exec: 1, index: 1, leaf_hash: 1, method: 1 }, after: 1, by: 1 }],
  membership: 1, steps: [{ exec: 1, rule: 1, from: 1, by: 1, checkpoint: 1 }], index: 1, subjects: SUBJECTS, prefix: 1,
};

/** @param {any} order @param {any} value @returns {string} */
function write(order, value) {
  if (order === 0) return canonical(value);
  if (Array.isArray(order) && Array.isArray(value)) return `[${value.map((v) => write(order[0], v)).join(",")}]`;
  if (order === 1 || value === null || typeof value !== "object" || Array.isArray(value)) return JSON.stringify(value);
  const names = [...Object.keys(order).filter((n) => n in value), ...Object.keys(value).filter((n) => !(n in order))];
  return `{${names.map((n) => `${JSON.stringify(n)}:${write(order[n] ?? 1, value[n])}`).join(",")}}`;
}

/** JSON Patch (RFC 6902): add, remove, replace. @param {any} value @param {any[]} operations */
function patched(value, operations) {
  for (const { op, path, value: to } of structuredClone(operations)) {
    const tokens = path.split("/").slice(1);
    const last = tokens.pop();
    const node = tokens.reduce((/** @type {any} */ n, /** @type {string} */ t) => n[t], value);
    if (!Array.isArray(node)) op === "remove" ? delete node[last] : (node[last] = to);
    else node.splice(Number(last), op === "add" ? 0 : 1, ...(op === "remove" ? [] : [to]));
  }
  return value;
}

/** @param {string} group @param {any} v @param {Map<string, any>} vectors @returns {any} */
const caseOf = (group, v, vectors) => (v.case ? structuredClone(v.case) : !v.like ? v : patched(caseOf(group, vectors.get(`${group}/${v.like}.json`), vectors), v.patch ?? []));

/** @param {{step: number}[]} missing */
const stepsOf = (missing) => [...new Set(missing.map((m) => m.step))].sort((a, b) => a - b);

/** @param {any} c */
const runHistory = (c) =>
  judged(async (material) => {
    material.add("history", utf8(typeof c.history === "string" ? c.history : write(HISTORY, c.history)));
    material.questions.push(...c.questions);
    const { answers, missing } = await verify(parseRoot(JSON.stringify(c.root)), material);
    return { answers, missing: stepsOf(missing) };
  });

/** @param {any} c */
const runEvidence = (c) =>
  judged(async (material) => {
    material.add("evidence", utf8(c.evidence));
    const { equivocations = [], missing } = await verify(parseRoot(JSON.stringify(c.root)), material);
    return { equivocations, missing: stepsOf(missing) };
  }, "index");

/** @param {(material: Material) => Promise<any>} judge @param {string} contradicted the verdict on a false index */
async function judged(judge, contradicted = "step 14") {
  try {
    return { problem: "", got: await judge(new Material()) };
  } catch (error) {
    if (error instanceof FormatError) return { problem: "form" };
    if (error instanceof ForkError) return { problem: "fork" };
    if (error instanceof IndexError) return { problem: contradicted };
    if (error instanceof StepError) return { problem: `step ${error.step}` };
    throw error;
  }
}

/** Groups whose vectors are cases, of which some are like others. @type {Record<string, (c: any) => Promise<{problem: string, got?: any}>>} */
const CASES = { bundle: runBundle, evidence: runEvidence, history: runHistory };

/** @param {any} accepted in its one form */
function state(accepted) {
  const root = accepted.root;
  const names = ["origin", "ledger_keys", "since", "retired", "genesis", "witnesses", "head"].filter((n) => n in root);
  const epochs = accepted.epochs.map((/** @type {any} */ e) => Object.fromEntries(["incident", "epoch", "settled", "lapses"].filter((n) => n in e).map((n) => [n, e[n]])));
  const links = accepted.links.map((/** @type {any} */ l) => `{"index":${l.index},"leaf":${canonical(l.leaf)}}`);
  return `{"root":{${names.map((n) => `"${n}":${JSON.stringify(root[n])}`).join(",")}},"agent":${JSON.stringify(accepted.agent)},"head":${JSON.stringify(accepted.head)},"confirmed":${accepted.confirmed},"links":[${links.join(",")}],"epochs":${JSON.stringify(epochs)}}`;
}

/** @param {any} c */
async function runBundle(c) {
  const text = state(c.accepted);
  const accepted = decodeAccepted(text);
  if (encodeAccepted(accepted) !== text) throw new Error("the accepted state has two forms");
  let bundle;
  try {
    bundle = decodeBundle(typeof c.bundle === "string" ? c.bundle : write(ORDER, c.bundle));
  } catch (error) {
    if (error instanceof FormatError) return { problem: "form" };
    throw error;
  }
  const v = await checkBundle(bundle, accepted, c.now);
  decodeAccepted(encodeAccepted(v.next));
  if (v.error) return { problem: v.error.step === v.error.rule ? v.error.step : `${v.error.step} ${v.error.rule}` };
  const commands = v.commands.map((command) => ({
    exec: command.exec,
    method: command.method,
    released: command.released,
    ...(command.result ? { result: command.result } : {}),
    ...(command.refused ? { refused: [...new Set([command.refused.step, command.refused.rule])].join(" ") } : {}),
    ...(command.digest ? { digest: command.digest } : {}),
    ...(command.waits.length ? { waits: command.waits } : {}),
    ...(command.standing.length ? { standing: command.standing } : {}),
  }));
  const { root, links, epochs } = v.next;
  const got = { confirmed: v.confirmed, incident: v.incident ?? 0, expires_at: v.expires_at ?? 0, commands, links: links.map((l) => l.index), epochs };
  return { problem: "", got: root.since ? { ...got, since: root.since } : got };
}

/**
 * Judges one vector, without what it wants. A bundle's is {accepted, now, bundle}, a
 * history's {root, questions, history}, and evidence's {root, evidence}.
 *
 * @param {string} group @param {any} v
 * @returns {Promise<{problem: string, got?: any}>}
 */
export async function judgeVector(group, v) {
  try {
    const judge = CASES[group];
    return judge ? await judge(v) : { problem: "", got: await /** @type {any} */ (run[group])(v) };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { problem: error.problem };
  }
}

/** Groups that are no verifier's to judge. */
const OTHERS = ["decide", "policy", "scope", "tile"];

/**
 * Runs vectors.
 *
 * @param {Map<string, any>} vectors by path, such as "hash/good.json"
 * @returns {Promise<{count: number, wrong: string[]}>}
 */
export async function runVectors(vectors) {
  let count = 0;
  const wrong = [];
  for (const [path, v] of vectors) {
    const [group = ""] = path.split("/");
    if (OTHERS.includes(group)) continue;
    count++;
    const { problem, got } = await judgeVector(group, group in CASES ? caseOf(group, v, vectors) : v);
    const [is, want] = [[problem, got ?? null], [v.wantErr, v.want ?? null]].map(sorted);
    if (is !== want) wrong.push(`${path}: ${v.desc}: got ${is}, want ${want}`);
  }
  return { count, wrong };
}

/** @param {any} value @returns {string} JSON with its members in one order */
const sorted = (value) => canonical(JSON.parse(JSON.stringify(value)));
