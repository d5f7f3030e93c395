// @ts-check
/** What a verifier was given, in any order and from anywhere (docs/verify.md). */
import { size as bytesOf, text as decode, utf8 } from "./bytes.js";
import { FormatError, Refusal } from "./errors.js";
import { decodeEnvelope } from "./entry.js";
import { compact, parse } from "./json.js";
import { parseHash, uint } from "./merkle.js";
import { read } from "./shape.js";
import { MAX_NOTE } from "./root.js";
import { readHistory } from "./history.js";

export const MAX_PATH = 65;
export const MAX_LEAF = 65_535;
const MAX_RECEIPT = 4 * MAX_NOTE;
const MAX_FILE = 64 << 20;
const MAX_ITEMS = 100_000;
const MAX_LEAVES = 256;
const DEPTH = 10_000;

/**
 * @typedef {import("./merkle.js").Uint} Uint
 * @typedef {{leaf: Uint8Array, index: Uint, proof: string[], head: string}} Receipt
 * @typedef {{old: Uint, new: Uint, path: string[]}} Consistency
 * @typedef {{evidence: string, detail: string, older?: string, newer?: string, root?: string, path?: string[], problem?: string,
 *   field?: string, receipts?: Receipt[], envelope?: string, subjects?: Uint, history?: any, consistency?: Consistency[]}} Evidence
 */

const RECEIPT = { leaf: "bytes", index: "uint", proof: ["hash"], head: "text" };
const CONSISTENCY = { old: "uint", new: "uint", path: ["hash"] };
const EVIDENCE = {
  evidence: "text", detail: "text", "older?": "text", "newer?": "text", "root?": "raw", "path?": ["hash"], "problem?": "text", "field?": "text",
  "receipts?": [RECEIPT], "envelope?": "raw", "subjects?": "uint", "history?": "raw", "consistency?": [CONSISTENCY],
};
const HISTORY_LIMITS = { maxPath: MAX_PATH, maxNote: MAX_NOTE, maxLeaf: MAX_LEAF };
const TLOG_PROOF = "c2sp.org/tlog-proof@v1\n";

/** @type {(what: string, why: string) => FormatError} */
const bad = (what, why) => new FormatError(what, why);

/** @param {string} what @param {string[]} path @param {string[]} heads */
export function checkLimits(what, path, ...heads) {
  if (path.length > MAX_PATH) throw bad(what, `a proof of ${path.length} hashes, the limit is ${MAX_PATH}`);
  if (heads.some((head) => head === "" || bytesOf(head) > MAX_NOTE)) throw bad(what, `a tree head that has not 1 to ${MAX_NOTE} bytes`);
}

/** @param {string} what @param {Receipt} r */
function checkReceipt(what, r) {
  if (r.leaf.length < 1 || r.leaf.length > MAX_LEAF) throw bad(what, `a leaf that has not 1 to ${MAX_LEAF} bytes`);
  checkLimits(what, r.proof, r.head);
}

export class Material {
  constructor() {
    /** @type {Receipt[]} */
    this.receipts = [];
    /** @type {Receipt[]} without leaf, out of a .tlog-proof */
    this.proofs = [];
    /** @type {Uint8Array[]} for the proofs */
    this.leaves = [];
    /** @type {Consistency[]} */
    this.consistency = [];
    /** @type {string[]} signed notes */
    this.heads = [];
    /** @type {Evidence[]} */
    this.evidence = [];
    /** @type {import("./history.js").History[]} */
    this.histories = [];
    /** What the histories are to answer. @type {import("./history.js").Question[]} */
    this.questions = [];
  }

  get #items() {
    return this.receipts.length + this.proofs.length + this.leaves.length + this.consistency.length + this.heads.length + this.histories.reduce((n, h) => n + 1 + h.entries.length, 0);
  }

  /**
   * Reads a file and adds what it holds, told by its content.
   *
   * @param {string} name for the error
   * @param {string | Uint8Array} data
   * @throws {FormatError} and then nothing is added
   */
  add(name, data) {
    const size = typeof data === "string" ? bytesOf(data) : data.length;
    if (size > MAX_FILE) throw bad(name, `${size} bytes, the limit is ${MAX_FILE}`);
    // What is not UTF-8 is no note either: a note has no NUL.
    const text = typeof data === "string" ? data : decode(data) ?? new TextDecoder().decode(data).replaceAll("\ufffd", "\0");
    const add = new Material();
    if (text.startsWith(TLOG_PROOF)) add.proofs.push(parseTLogProof(text));
    else if (/^[ \t\r\n]*\{/.test(text)) add.#values(name, text);
    else if (text.includes("\n\n\u2014 ")) add.heads.push(text);
    else throw bad(name, "neither a receipt, a leaf, a page of entries, a consistency proof, evidence, a .tlog-proof nor a tree head");
    if (this.#items + add.#items > MAX_ITEMS || this.leaves.length + add.leaves.length > MAX_LEAVES)
      throw bad(name, `more than ${MAX_ITEMS} receipts, proofs and heads, or ${MAX_LEAVES} leaves`);
    for (const list of /** @type {const} */ (["receipts", "proofs", "leaves", "consistency", "heads", "evidence", "histories"])) {
      for (const item of add[list]) /** @type {any[]} */ (this[list]).push(item);
    }
  }

  /** @param {string} name @param {string} text */
  #values(name, text) {
    for (let at = 0; ; ) {
      at += /^[ \t\r\n]*/.exec(text.slice(at))?.[0].length ?? 0;
      if (at === text.length) return;
      const parsed = parse(text, DEPTH, at);
      if (!parsed) throw bad(name, `no JSON from character ${at}`);
      this.#value(name, parsed);
      if (this.#items > MAX_ITEMS) return; // refused by the caller
      at = parsed.end;
    }
  }

  /** @param {string} name @param {import("./json.js").Parsed} parsed */
  #value(name, parsed) {
    const { value, source } = parsed;
    const has = (/** @type {string} */ member) => value !== null && typeof value === "object" && member in value;
    const exact = (/** @type {string} */ what, /** @type {any} */ shape) => {
      const got = read(what, shape, value, true);
      if (!parsed.plain || bytesOf(compact(source(value))) > MAX_RECEIPT) throw bad(what, "not in its one form, or too large");
      return got;
    };
    if (value === null || typeof value !== "object" || Array.isArray(value)) throw bad(name, "JSON that is no object");
    if (has("prefix")) this.histories.push(readHistory(parsed, HISTORY_LIMITS));
    else if (has("leaf")) {
      const receipt = exact("receipt", RECEIPT);
      checkReceipt("receipt", receipt);
      this.receipts.push(receipt);
    } else if (has("old")) {
      const proof = exact("consistency proof", CONSISTENCY);
      checkLimits("consistency proof", proof.path);
      this.consistency.push(proof);
    } else if (typeof value.evidence === "string") this.#document(value, parsed);
    else if (has("evidence")) {
      if (value.evidence !== null && !Array.isArray(value.evidence)) throw bad(name, "evidence is no list");
      for (const one of value.evidence ?? []) this.#document(one, parsed);
    } else if (has("head") && Object.keys(value).length === 1) {
      if (typeof value.head !== "string") throw bad(name, "a tree head that is no text");
      checkLimits("tree head", [], value.head);
      this.heads.push(value.head);
    } else if (has("entries") && has("head")) this.#page(value, source);
    else if (has("envelope") && !has("proof")) this.leaves.push(utf8(compact(source(value))));
    else throw bad(name, "an object that is no receipt, leaf, page of entries, consistency proof, tree head or evidence");
  }

  /** @param {any} value @param {(value: any) => string} source */
  #page(value, source) {
    const head = read("page.head", "text", value.head, false);
    this.heads.push(head);
    for (const one of read("page.entries", ["raw"], value.entries, false)) {
      if (one !== null && (typeof one !== "object" || Array.isArray(one))) throw bad("page", "an entry that is no object");
      const index = read("page.index", "uint", one?.index, false);
      const at = one?.registered_at ?? 0;
      const proof = read("page.proof", ["hash"], one?.proof, false);
      if (!isInstant(at)) throw bad("page", "registered_at is no integer of 64 bits");
      try {
        const { canonical } = decodeEnvelope(source(one?.envelope));
        const receipt = { leaf: utf8(`{"envelope":${canonical},"registered_at":${at.raw ?? at}}`), index, proof, head };
        checkReceipt("page", receipt);
        this.receipts.push(receipt);
      } catch (error) {
        throw error instanceof Refusal ? bad("page", error.message) : error;
      }
    }
  }

  /** @param {any} value @param {import("./json.js").Parsed} parsed what it is in */
  #document(value, parsed) {
    const { source } = parsed;
    /** @type {Evidence} */
    const e = read("evidence", EVIDENCE, value, false);
    if (e.root !== undefined && e.root !== null && !parseHash(e.root)) throw bad("evidence", "root is no hash");
    if (e.root === null) delete e.root;
    if ("envelope" in value) e.envelope = typeof value.envelope === "object" && value.envelope ? source(value.envelope) : " ";
    for (const receipt of e.receipts ?? []) checkReceipt("evidence", receipt);
    checkLimits("evidence", e.path ?? []);
    for (const proof of e.consistency ?? []) checkLimits("evidence", proof.path);
    const heads = [e.older, e.newer].filter((note) => note !== undefined);
    switch (e.evidence) {
      case "fork":
        if (!heads.length || heads.some((note) => bytesOf(note) > MAX_NOTE)) throw bad("evidence", "a fork without tree heads, or with one too large");
        if ((e.root !== undefined || e.path?.length) && (e.root === undefined || heads.length < 2)) throw bad("evidence", "root and path go with each other, and with both tree heads");
        break;
      case "entry":
        if (!e.receipts?.length) throw bad("evidence", "no receipt of the entry");
        break;
      case "equivocation":
        if (!e.receipts?.length || !e.envelope) throw bad("evidence", "an equivocation needs the receipt of one object and the envelope of the other");
        break;
      case "index":
        if ("history" in value) {
          const inner = parse(value.history !== null && typeof value.history === "object" ? source(value.history) || "0" : "0", DEPTH, 0);
          this.histories.push((e.history = readHistory(/** @type {import("./json.js").Parsed} */ (inner), HISTORY_LIMITS)));
        }
        else if (e.root === undefined || !e.receipts?.length) throw bad("evidence", "a false index needs a history, or root and the receipt of the index entry");
        break;
      default:
        throw bad("evidence", "its kind is none of fork, entry, equivocation and index");
    }
    this.heads.push(...heads);
    this.receipts.push(...(e.receipts ?? []));
    this.consistency.push(...(e.consistency ?? []));
    this.evidence.push(e);
  }
}

/** @param {any} at whether JSON has an integer of 64 bits there */
function isInstant(at) {
  if (typeof at === "number") return true;
  const raw = at?.raw;
  if (typeof raw !== "string" || !/^-?(0|[1-9]\d*)$/.test(raw)) return false;
  const n = BigInt(raw);
  return n >= -(1n << 63n) && n < 1n << 63n;
}

/**
 * Reads a .tlog-proof (c2sp.org/tlog-proof); an extra line is refused.
 *
 * @param {string} text
 * @returns {Receipt} without its leaf
 * @throws {FormatError}
 */
export function parseTLogProof(text) {
  const what = "tlog-proof";
  const end = text.indexOf("\n\n");
  if (bytesOf(text) > MAX_RECEIPT || end < 0) throw bad(what, "too large, or without an empty line before the tree head");
  const [first = "", ...proof] = text.slice(TLOG_PROOF.length, end).split("\n");
  const index = first.startsWith("index ") ? uint(first.slice(6)) : null;
  if (index === null || proof.some((line) => !parseHash(line))) throw bad(what, "not index, hashes, an empty line and a tree head");
  const head = text.slice(end + 2);
  checkLimits(what, proof, head);
  return { leaf: new Uint8Array(0), index, proof, head };
}
