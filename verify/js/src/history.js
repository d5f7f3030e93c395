// @ts-check
/** Histories: these entries and no others, or none (docs/history.md). */
import { size as bytesOf } from "./bytes.js";
import { FormatError, StepError } from "./errors.js";
import { compact } from "./json.js";
import { parseHash } from "./merkle.js";
import { checkPrefix, checkRun, compareBytes, hashRecord, isSubject, isZero, labelsOf, subjectKey, subjectsOf } from "./prefix.js";
import { read } from "./shape.js";

/**
 * @typedef {import("./merkle.js").Uint} Uint
 * @typedef {{label: string, from: Uint, indexes: Uint[], path: string[]}} List
 * @typedef {{type: string, value: string, rows?: {label: string, count: Uint, root: string}[], lists?: List[], depth: number,
 *   other?: {key: string, record: string}}} Subject
 * @typedef {{subjects: Subject[], prefix: string[]}} Indexed what an index entry proves about some subjects
 * @typedef {Indexed & {head: string, index: Uint, entries: {index: Uint, leaf: string}[], inclusion: string[], size: number}} History
 * @typedef {{type: string, value: string, label?: string, from?: Uint, size?: Uint}} Question
 * @typedef {{type: string, value: string, label?: string, from: Uint, size: Uint, entries: Uint[], tail: number}} Answer
 * @typedef {import("./entry.js").Registered} Registered
 */

/** What no proof by an index shows. */
export const FOLLOWS = "that the root of the index follows from the log: an audit of the log shows it, or the quorum of witnesses if auditors are among them";

const MAX_SUBJECTS = 1024;
const MAX_ENTRIES = 100_000;
const DEPTH = 256;
export const SUBJECT = {
  type: "text", value: "text", "rows?": [{ label: "text", count: "uint", root: "hash" }],
  "lists?": [{ label: "text", from: "uint", indexes: ["uint"], path: ["hash"] }], depth: "count", "other?": { key: "hash", record: "hash" },
};
const HISTORY = {
  head: "text", index: "uint", entries: [{ index: "uint", leaf: "raw" }], inclusion: ["hash"], subjects: [SUBJECT], prefix: ["sibling"], size: "uint",
};

/** @param {boolean} holds @param {string} why @param {string} [what] @returns {asserts holds} */
function need(holds, why, what = "history") {
  if (!holds) throw new FormatError(what, why);
}

/** @param {string} text */
const hash = (text) => /** @type {Uint8Array} */ (parseHash(text));

/**
 * Reads a history, which has one form but for white space.
 *
 * @param {import("./json.js").Parsed} parsed
 * @param {{maxPath: number, maxNote: number, maxLeaf: number}} limits
 * @returns {History}
 * @throws {FormatError}
 */
export function readHistory(parsed, { maxPath, maxNote, maxLeaf }) {
  /** @type {History} */
  const h = read("history", HISTORY, parsed.value, true);
  need(parsed.plain, "not in its one form");
  need(h.head !== "" && bytesOf(h.head) <= maxNote, "its head is too large, or missing");
  need(h.subjects.length > 0, "no subject");
  need(Number(h.size) > 0 && Number.isSafeInteger(h.size), "no size");
  need(h.entries.length <= MAX_ENTRIES && h.inclusion.length <= maxPath * (h.entries.length + 1), "too many entries or hashes");
  h.entries.forEach((e, i) => {
    const { leaf } = parsed.value.entries[i];
    e.leaf = leaf && typeof leaf === "object" ? compact(parsed.source(leaf)) || leaf.raw : JSON.stringify(leaf);
    need(i === 0 || /** @type {any} */ (h.entries[i - 1]).index < e.index, "entries do not ascend");
    need(bytesOf(e.leaf) <= maxLeaf, "a leaf is too large");
  });
  checkSubjects("history", h, maxPath);
  return h;
}

/**
 * What holds of subjects and their hashes before anything is verified.
 *
 * @param {string} what they are in
 * @param {Indexed} x
 * @param {number} maxPath
 * @throws {FormatError}
 */
export function checkSubjects(what, { subjects, prefix }, maxPath) {
  const hold = (/** @type {boolean} */ holds, /** @type {string} */ why) => need(holds, why, what);
  hold(subjects.length <= MAX_SUBJECTS && prefix.length <= DEPTH * (subjects.length + 1), "too many subjects, or too many of their hashes");
  subjects.forEach((s, i) => {
    const before = subjects[i - 1];
    hold(!before || compareBytes(subjectKey(before.type, before.value), subjectKey(s.type, s.value)) < 0, "subjects do not ascend by their keys");
    const { rows = [], lists = [] } = s;
    hold(isSubject(s.type, s.value), "a subject that the protocol does not know");
    hold(s.depth >= 0 && s.depth <= DEPTH && !(rows.length && s.other) && rows.length <= labelsOf(s.type).length, "depth, rows and other do not go together");
    lists.forEach((l, j) => {
      const count = rowOf(s, l.label)?.count ?? 0;
      hold(j === 0 || /** @type {List} */ (lists[j - 1]).label < l.label, "labels of lists do not ascend");
      hold(l.indexes.length > 0 && BigInt(l.from) + BigInt(l.indexes.length) <= BigInt(count), "a list that is not of a row");
      hold(l.path.length <= 2 * maxPath, "the proof of a list is too long");
    });
  });
}

/** The row of a label, found as among rows that ascend. @param {Subject} s @param {string} label */
function rowOf({ rows = [] }, label) {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (/** @type {any} */ (rows[middle]).label < label) low = middle + 1;
    else high = middle;
  }
  return rows[low]?.label === label ? rows[low] : undefined;
}

/** @param {{type: string, value: string, label?: string}} q */
const nameOf = (q) => `${q.label || "entries"} of ${q.type}${q.value && ":" + q.value}`;

/**
 * Steps 10 to 12: what the index entry proves about the subjects.
 *
 * @param {Indexed} h
 * @param {{size: number, root: string}} index
 * @returns {number} lists that were checked
 */
export function checkIndexed(h, index) {
  const answers = h.subjects.map((s) => {
    const key = subjectKey(s.type, s.value);
    const other = s.other ? { key: hash(s.other.key), record: hash(s.other.record) } : null;
    const leaf = other && isZero(other.key) && isZero(other.record) ? null : other;
    const record = s.rows ? hashRecord(s.rows.map((r) => ({ ...r, root: hash(r.root) }))) : null;
    if (s.rows && !record) throw new StepError(10, nameOf(s), "its rows are no record");
    if (other && compareBytes(other.key, key) === 0) throw new StepError(10, nameOf(s), "its own leaf stands in its place, and it has no rows");
    return { key, depth: s.depth, leaf: record ? { key, record } : leaf };
  });
  const path = h.prefix.map((p) => (p === "" ? new Uint8Array(32) : hash(p)));
  if (!checkPrefix(answers, index.root, path)) throw new StepError(11, `index of ${index.size} entries`, "the proof does not lead to its root");
  let count = 0;
  for (const s of h.subjects) {
    for (const l of s.lists ?? []) {
      const row = rowOf(s, l.label);
      const good = row && /** @type {Uint} */ (l.indexes.at(-1)) < index.size && checkRun(l.from, l.indexes, { size: row.count, root: row.root }, l.path.map(hash));
      if (!good) throw new StepError(12, nameOf({ ...s, label: l.label }), "the list is another one");
      count++;
    }
  }
  return count;
}

/**
 * What a history answers if nobody asks: all that it shows.
 *
 * @param {Subject} s
 * @param {number} size
 * @returns {Question[]}
 */
export function questionsOf(s, size) {
  const { type, value } = s;
  const lists = s.lists ?? [];
  const all = lists.flatMap((l) => {
    const [first, last] = [/** @type {Uint} */ (l.indexes[0]), /** @type {Uint} */ (l.indexes.at(-1))];
    const whole = BigInt(l.from) + BigInt(l.indexes.length) === BigInt(rowOf(s, l.label)?.count ?? 0);
    const from = l.from > 0 ? first : 0;
    const until = whole || last >= size ? size : Number(last) + 1;
    return from < until ? [{ type, value, label: l.label, from: Number(from), size: until }] : []; // below size, which is a number
  });
  const [from, until] = [Math.max(0, ...all.map((q) => q.from)), Math.min(size, ...all.map((q) => q.size))];
  const whole = lists.length === (s.rows?.length ?? 0) && all.length === lists.length && from < until;
  return whole ? [{ type, value, from, size: until }] : all;
}

/** @param {Question} q @throws {FormatError} */
export function checkQuestion(q) {
  const labels = labelsOf(q.type);
  if (!labels.length || !isSubject(q.type, q.value) || (q.label && !labels.includes(q.label)) || (q.size && (q.from ?? 0) > q.size))
    throw new FormatError("question", `${nameOf(q)} cannot be asked`);
}

/** Where entries are listed, which each question asks again. @type {WeakMap<Registered, ReturnType<typeof subjectsOf>>} */
const listings = new WeakMap();

/** @param {Registered} e @param {Question} q whether it is one that a question asks for */
function stands(e, q) {
  let all = listings.get(e);
  if (!all) listings.set(e, (all = subjectsOf(e, e.index)));
  return all.some((l) => l.type === q.type && l.value === q.value && (!q.label || l.label === q.label));
}

/**
 * Whether the lists contradict an entry that the index covers: they leave it out, or
 * name it where it does not belong (step 14).
 *
 * @param {Indexed} h
 * @param {Registered} e
 */
export function contradicts(h, e) {
  return h.subjects.some((s) => {
    const label = subjectsOf(e, e.index).find((l) => l.type === s.type && l.value === s.value)?.label;
    if (label !== undefined && !rowOf(s, label)) return true;
    return (s.lists ?? []).some((l) => {
      const named = l.indexes.includes(e.index);
      if (l.label !== label) return named;
      const begins = l.from === 0 || /** @type {Uint} */ (l.indexes[0]) < e.index;
      const whole = BigInt(l.from) + BigInt(l.indexes.length) === BigInt(rowOf(s, l.label)?.count ?? 0);
      return !named && begins && (whole || /** @type {Uint} */ (l.indexes.at(-1)) > e.index);
    });
  });
}

/**
 * Steps 13 to 15 for a question.
 *
 * @param {Indexed} h
 * @param {number} covered entries that the index covers
 * @param {Question & {from: Uint, size: Uint}} q
 * @param {(index: Uint) => Registered | undefined} entryAt
 * @returns {Answer}
 */
export function answer(h, covered, q, entryAt) {
  checkQuestion(q);
  const fail = (/** @type {number} */ step, /** @type {string} */ why) => new StepError(step, nameOf(q), why);
  const subject = h.subjects.find((s) => s.type === q.type && s.value === q.value);
  if (!subject) throw fail(13, "nothing is shown about it");
  /** @type {Uint[]} */
  const entries = [];
  for (const index of reach(subject, q, fail)) {
    if (index < q.from || index >= q.size) continue;
    const e = entryAt(index);
    if (!e) throw fail(14, `entry ${index}, which its list has, is left out`);
    if (!stands(e, q)) throw fail(14, `entry ${index}, which its list has, is not one by its own content`);
    entries.push(index);
  }
  const shown = entries.length;
  for (let index = q.from > covered ? Number(q.from) : covered; index < q.size; index++) {
    const e = entryAt(index);
    if (!e) throw fail(15, `entry ${index}, which the index does not cover, is left out`);
    if (stands(e, q)) entries.push(index);
  }
  return { ...q, entries, tail: entries.length - shown };
}

/**
 * Step 13: the indexes of the lists that the question asks for.
 *
 * @param {Subject} subject
 * @param {Question & {from: Uint, size: Uint}} q
 * @param {(step: number, why: string) => StepError} fail
 */
function reach(subject, q, fail) {
  /** @type {Uint[]} */
  const all = [];
  for (const row of subject.rows ?? []) {
    if (q.label && q.label !== row.label) continue;
    const l = subject.lists?.find((one) => one.label === row.label);
    if (!l) throw fail(13, `the index has entries with label ${row.label}, and none of them is shown`);
    const [first, last] = [/** @type {Uint} */ (l.indexes[0]), /** @type {Uint} */ (l.indexes.at(-1))];
    if (l.from > 0 && first > q.from) throw fail(13, `what is before entry ${first} is not shown`);
    const end = BigInt(l.from) + BigInt(l.indexes.length);
    if (end < BigInt(row.count) && BigInt(last) + 1n < BigInt(q.size)) throw fail(13, `what is behind entry ${last} is not shown`);
    for (const index of l.indexes) all.push(index);
  }
  all.sort((a, b) => (a < b ? -1 : 1));
  if (new Set(all).size !== all.length) throw fail(13, "an entry has two labels under it");
  return all;
}
