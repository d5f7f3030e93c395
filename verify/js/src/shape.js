// @ts-check
/**
 * Reads JSON objects of a known shape. Exactly: its members in their order, an
 * optional one never empty, as it is written. Loosely, for what people edit:
 * in any order, and absent or null where nothing is said.
 */
import { unbase64 } from "./bytes.js";
import { FormatError } from "./errors.js";
import { Literal } from "./json.js";
import { parseHash, uint } from "./merkle.js";

/**
 * A type: a name, a list of one type, or the members of an object, optional
 * where the name ends in ?.
 *
 * @typedef {"text" | "flag" | "uint" | "count" | "hash" | "sibling" | "bytes" | "raw" | [any] | {[name: string]: any}} Shape
 */

const ZERO_HASH = "A".repeat(43) + "=";

/** @type {Record<string, () => any>} */
const ZERO = { text: () => "", flag: () => false, uint: () => 0, count: () => 0, hash: () => ZERO_HASH, bytes: () => new Uint8Array(0), raw: () => undefined };

/** @type {Record<string, (v: any) => any>} undefined where the value is not of the type */
const READ = {
  text: (v) => (typeof v === "string" ? v : undefined),
  flag: (v) => (typeof v === "boolean" ? v : undefined),
  uint: (v) => (typeof v === "number" || v instanceof Literal ? uint(v) ?? undefined : undefined),
  count: (v) => (typeof v === "number" ? v : undefined),
  hash: (v) => (parseHash(v) ? v : undefined),
  bytes: (v) => unbase64(v) ?? undefined,
  sibling: (v) => (v === "" || (parseHash(v) && v !== ZERO_HASH) ? v : undefined),
  raw: (v) => v,
};

/** @param {any} v */
const empty = (v) => v === "" || v === 0 || v === false || v?.length === 0;

/**
 * @param {string} what for the error
 * @param {Shape} shape
 * @param {any} value
 * @param {boolean} exact
 * @returns {any}
 * @throws {FormatError}
 */
export function read(what, shape, value, exact) {
  const bad = (/** @type {string} */ why) => new FormatError(what, why);
  const missing = value === undefined || value === null;
  if (typeof shape === "string") {
    if (missing && !exact && shape !== "raw") return /** @type {any} */ (ZERO[shape])();
    const got = /** @type {any} */ (READ[shape])(value);
    if (got === undefined && !(shape === "raw" && !exact)) throw bad(`no ${shape}`);
    return got;
  }
  if (Array.isArray(shape)) {
    if (missing && !exact) return [];
    if (!Array.isArray(value)) throw bad("no list");
    return value.map((v, i) => read(`${what}[${i}]`, shape[0], v, exact));
  }
  if (missing && !exact) value = {};
  if (value === null || typeof value !== "object" || Array.isArray(value) || value instanceof Literal) throw bad("no object");
  const known = Object.keys(shape).map((name) => name.replace("?", ""));
  const names = Object.keys(value);
  const stranger = names.find((name) => !known.includes(name));
  if (stranger !== undefined) throw bad(`member ${stranger} is not known`);
  if (exact && known.filter((name) => names.includes(name)).join() !== names.join()) throw bad("its members are not in their order");
  /** @type {Record<string, any>} */
  const out = {};
  for (const [key, type] of Object.entries(shape)) {
    const name = key.replace("?", "");
    const optional = name !== key;
    if (optional && !(name in value)) continue;
    out[name] = read(`${what}.${name}`, type, value[name], exact);
    if (optional && empty(out[name])) {
      if (exact) throw bad(`${name} is empty`);
      delete out[name];
    }
  }
  return out;
}
