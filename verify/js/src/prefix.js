// @ts-check
/** The index of the log: subjects, labels, and the prefix tree over them (docs/index.md). */
import { base64, utf8 } from "./bytes.js";
import { checkInclusions, hashLeaf, uint } from "./merkle.js";
import { isName, isRef } from "./schema.js";
import { sha256 } from "./sha256.js";

/**
 * @typedef {import("./merkle.js").Uint} Uint
 * @typedef {{label: string, count: Uint, root: Uint8Array}} Row
 * @typedef {{key: Uint8Array, record: Uint8Array}} PrefixLeaf
 * @typedef {{key: Uint8Array, depth: number, leaf: PrefixLeaf | null}} PrefixAnswer
 */

const ZERO = new Uint8Array(32);

/** @param {Uint8Array} hash whether it is that of an empty subtree */
export const isZero = (hash) => hash.every((b) => b === 0);

/** @param {Uint8Array} a @param {Uint8Array} b */
export function compareBytes(a, b) {
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    const d = /** @type {number} */ (a[i]) - /** @type {number} */ (b[i]);
    if (d) return d;
  }
  return a.length - b.length;
}

/** @param {Uint} n @returns {Uint8Array} 8 bytes, big-endian */
function eight(n) {
  const out = new Uint8Array(8);
  new DataView(out.buffer).setBigUint64(0, BigInt(n));
  return out;
}

/** @param {string} type @param {string} value */
export const subjectKey = (type, value) => sha256(utf8(`arl index/1\n${type}\n${value}`));

/** @param {Row[]} rows @returns {Uint8Array | null} null if they are no record */
export function hashRecord(rows) {
  /** @type {Uint8Array[]} */
  const parts = [Uint8Array.of(4)];
  /** @type {Uint8Array | null} */
  let before = null;
  for (const { label, count, root } of rows) {
    const name = utf8(label);
    if (!name.length || name.length > 255 || !count || (before && compareBytes(before, name) >= 0)) return null;
    parts.push(Uint8Array.of(name.length), name, eight(count), root);
    before = name;
  }
  return before && sha256(...parts);
}

/** @param {Uint8Array} key @param {number} i */
const bit = (key, i) => (/** @type {number} */ (key[i >> 3]) >> (7 - (i & 7))) & 1;

/**
 * Whether a joint proof shows the answers, whose keys ascend, in the prefix tree
 * of a root.
 *
 * @param {PrefixAnswer[]} answers
 * @param {string} root in base64
 * @param {Uint8Array[]} path
 */
export function checkPrefix(answers, root, path) {
  for (const [i, a] of answers.entries()) {
    const before = answers[i - 1];
    if ((before && compareBytes(before.key, a.key) >= 0) || a.depth < 0 || a.depth > 256) return false;
    for (let j = 0; a.leaf && j < a.depth; j++) if (bit(a.key, j) !== bit(a.leaf.key, j)) return false;
  }
  let next = 0;
  let broken = false;
  /** @type {(some: PrefixAnswer[], depth: number) => {hash: Uint8Array, lone: boolean}} */
  const climb = (some, depth) => {
    const fail = () => {
      broken = true;
      return { hash: ZERO, lone: false };
    };
    const [first] = some;
    if (!first) {
      const hash = path[next++];
      return hash ? { hash, lone: isZero(hash) } : fail();
    }
    if (some.some((a) => a.depth <= depth)) {
      const id = (/** @type {PrefixAnswer} */ a) => (a.leaf ? base64(a.leaf.key) + base64(a.leaf.record) : "");
      if (some.some((a) => a.depth !== depth || id(a) !== id(first))) return fail();
      return { hash: first.leaf ? sha256(Uint8Array.of(2), first.leaf.key, first.leaf.record) : ZERO, lone: true };
    }
    const left = climb(some.filter((a) => !bit(a.key, depth)), depth + 1);
    const right = broken ? left : climb(some.filter((a) => bit(a.key, depth)), depth + 1);
    if (broken || (left.lone && right.lone && (isZero(left.hash) || isZero(right.hash)))) return fail();
    return { hash: sha256(Uint8Array.of(3), left.hash, right.hash), lone: false };
  };
  const { hash } = climb(answers, 0);
  return !broken && next === path.length && base64(hash) === root;
}

/**
 * The root of the prefix tree over leaves. They stand in any order, and no two have one key.
 *
 * @param {PrefixLeaf[]} leaves
 * @param {number} [depth] leading bits that all of the keys have in common
 * @returns {Uint8Array} 32 bytes, all zero if there is no leaf
 */
export function prefixRoot(leaves, depth = 0) {
  const [first, second] = leaves;
  if (!first) return ZERO;
  if (!second) return sha256(Uint8Array.of(2), first.key, first.record);
  const under = (/** @type {number} */ side) => prefixRoot(leaves.filter((leaf) => bit(leaf.key, depth) === side), depth + 1);
  return sha256(Uint8Array.of(3), under(0), under(1));
}

/**
 * Whether a joint proof shows that a list has indexes from a rank on.
 *
 * @param {Uint} from
 * @param {Uint[]} indexes
 * @param {import("./merkle.js").Head} list
 * @param {Uint8Array[]} path
 */
export function checkRun(from, indexes, list, path) {
  if (indexes.some((index, i) => i > 0 && /** @type {Uint} */ (indexes[i - 1]) >= index)) return false;
  const places = indexes.map((index, i) => ({ index: BigInt(from) + BigInt(i), hash: hashLeaf(eight(index)) }));
  return checkInclusions(places, list, path);
}

// Subjects and labels (IDX-1)

const INCIDENT = ["execution", "signal", "decision", "approval", "outcome", "record"];
const LOG = ["policy", "agent", "decision", "record", "index"];
const OUTSIDE = ["policy", "agent", "index"];
/** Kinds of entries that may be about another principal than their issuer. */
const ABOUT = ["agent", "signal", "outcome", "task", "attempt"];
const ALL = ["policy", "agent", "execution", "checkpoint", "signal", "decision", "approval", "outcome", "record", "task", "attempt", "run", "index", "rollout"];

/** @type {Record<string, string>} */
const ACTS = {
  agent: "enrol rotate revoke",
  decision: "contain escalate authorize amend deny override release",
  task: "create reassign cancel release start review complete block assign fail interrupt",
  rollout: "start advance waive abort",
};

/** @type {Record<string, string[]>} */
const LISTED = {
  workflow: ALL.filter((kind) => !OUTSIDE.includes(kind)),
  incident: INCIDENT,
  task: ["execution", "task", "attempt"],
  agent: ALL,
  log: LOG,
};

/** @param {string} type @returns {string[]} the labels that a subject of a type may have; none if there is no such type */
export function labelsOf(type) {
  const kinds = Object.hasOwn(LISTED, type) ? /** @type {string[]} */ (LISTED[type]) : [];
  return kinds.flatMap((kind) => {
    const acts = ACTS[kind]?.split(" ").map((act) => `${kind}/${act}`) ?? [kind];
    return type === "agent" && ABOUT.includes(kind) ? acts.flatMap((label) => [label, label + ">", label + "<"]) : acts;
  });
}

/** @param {string} type @param {string} value whether the protocol knows such a subject */
export function isSubject(type, value) {
  if (type === "workflow" || type === "agent") return isName(value);
  if (type === "task") return isRef(value);
  if (type === "incident") return typeof uint(value) === "number";
  return type === "log" && value === "";
}

/**
 * The subjects that an entry is listed under, each with its label.
 *
 * @param {{kind: string, body: any}} entry
 * @param {Uint} index
 * @returns {{type: string, value: string, label: string}[]}
 */
export function subjectsOf({ kind, body }, index) {
  const act = { agent: body.op, decision: body.act, task: body.op, rollout: body.op }[kind];
  const label = act ? `${kind}/${act}` : kind;
  /** @type {{type: string, value: string, label: string}[]} */
  const out = [];
  const add = (/** @type {string} */ type, /** @type {any} */ value, mark = "") => void out.push({ type, value: String(value), label: label + mark });
  if (body.wid) add("workflow", body.wid);
  const incident = kind === "signal" ? index : kind === "execution" ? body.compensates?.incident : INCIDENT.includes(kind) ? body.incident : undefined;
  if (incident !== undefined) add("incident", incident);
  if (/** @type {string[]} */ (LISTED["task"]).includes(kind) && body.task) add("task", body.task);
  const about = { agent: body.principal, signal: body.subject?.split("#")[0], outcome: String(body.exec).split("#")[0], task: body.agent, attempt: body.agent }[kind];
  if (!about || about === body.iss) add("agent", body.iss);
  else {
    add("agent", body.iss, ">");
    add("agent", about, "<");
  }
  if (LOG.includes(kind)) add("log", "");
  return out;
}
