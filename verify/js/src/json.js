// @ts-check
/**
 * JSON as the protocol reads it: no member twice, no lone surrogate, integers
 * of 53 bits, limited depth; and written in the form of RFC 8785.
 */

/** A number that is no integer within ±(2^53−1), or is not written as one. */
export class Literal {
  /** @param {string} raw */
  constructor(raw) {
    this.raw = raw;
  }
}

/**
 * Text read as JSON. `plain`: every string has the fewest escapes; `spaced`:
 * with white space between; `odd`: with a {@link Literal}. `source` is the text
 * of an object or a list in the value.
 *
 * @typedef {{value: any, plain: boolean, spaced: boolean, odd: boolean, end: number, source: (value: any) => string}} Parsed
 */

const NUMBER = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;
const SPECIAL = /[\\\0-\x1f]/;
const LONE = /[\ud800-\udfff]/u;

class Malformed extends Error {}

class Parser {
  /** @param {string} text @param {number} depth */
  constructor(text, depth) {
    this.text = text;
    this.limit = depth;
    this.at = 0;
    this.plain = true;
    this.odd = false;
    this.spaced = false;
    /** @type {WeakMap<object, [number, number]>} where objects and lists stand in the text */
    this.places = new WeakMap();
  }

  space() {
    for (; ; this.at++) {
      const c = this.text.charCodeAt(this.at);
      if (c !== 32 && c !== 10 && c !== 13 && c !== 9) return;
      this.spaced = true;
    }
  }

  /** @returns {string} */
  string() {
    const from = this.at;
    if (this.text[from] !== '"') throw new Malformed("a string is expected");
    const quote = this.text.indexOf('"', from + 1);
    const simple = this.text.slice(from + 1, quote < 0 ? undefined : quote);
    if (quote >= 0 && !SPECIAL.test(simple)) {
      this.at = quote + 1;
      return simple;
    }
    let at = from + 1;
    while (this.text[at] !== '"') {
      if (at >= this.text.length) throw new Malformed("a string is not closed");
      at += this.text[at] === "\\" ? 2 : 1;
    }
    const raw = this.text.slice(from, at + 1);
    let value;
    try {
      value = JSON.parse(raw);
    } catch {
      throw new Malformed("a string has a wrong escape or a control character");
    }
    if (LONE.test(value)) throw new Malformed("a lone surrogate");
    this.plain &&= JSON.stringify(value) === raw;
    this.at = at + 1;
    return value;
  }

  /** @returns {number | Literal} */
  number() {
    NUMBER.lastIndex = this.at;
    const match = NUMBER.exec(this.text);
    if (!match) throw new Malformed(`not JSON at character ${this.at}`);
    this.at = NUMBER.lastIndex;
    const value = Number(match[0]);
    if (match[1] === undefined && match[2] === undefined && match[0] !== "-0" && Number.isSafeInteger(value)) return value;
    this.odd = true;
    return new Literal(match[0]);
  }

  /** @param {string} close @param {() => void} element */
  list(close, element) {
    this.at++;
    this.space();
    if (this.text[this.at] === close) {
      this.at++;
      return;
    }
    for (;;) {
      element();
      this.space();
      const c = this.text[this.at++];
      if (c === close) return;
      if (c !== ",") throw new Malformed(`not JSON at character ${this.at - 1}`);
      this.space();
    }
  }

  /** @param {number} depth @returns {any} */
  value(depth) {
    const c = this.text[this.at];
    if (c === '"') return this.string();
    if (c === "{" || c === "[") {
      if (depth >= this.limit) throw new Malformed(`deeper than ${this.limit}`);
      const from = this.at;
      const out = c === "{" ? this.object(depth) : this.array(depth);
      this.places.set(out, [from, this.at]);
      return out;
    }
    for (const [word, value] of WORDS) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return value;
      }
    }
    return this.number();
  }

  /** @param {number} depth */
  array(depth) {
    /** @type {any[]} */
    const out = [];
    this.list("]", () => void out.push(this.value(depth + 1)));
    return out;
  }

  /** @param {number} depth */
  object(depth) {
    /** @type {Record<string, any>} */
    const out = Object.create(null);
    this.list("}", () => {
      const name = this.string();
      if (name in out) throw new Malformed(`member ${name} stands there twice`);
      this.space();
      if (this.text[this.at++] !== ":") throw new Malformed(`not JSON at character ${this.at - 1}`);
      this.space();
      out[name] = this.value(depth + 1);
    });
    return out;
  }
}

/** @type {[string, boolean | null][]} */
const WORDS = [["true", true], ["false", false], ["null", null]];

/**
 * Reads one JSON value.
 *
 * @param {string} text
 * @param {number} [depth] of nested objects and lists
 * @param {number} [at] where the value begins; with it, something may follow
 * @returns {Parsed | null} null if the text is no such JSON
 */
export function parse(text, depth = 16, at) {
  const parser = new Parser(text, depth);
  try {
    parser.at = at ?? 0;
    parser.space();
    const value = parser.value(0);
    const end = parser.at;
    if (at === undefined) {
      parser.space();
      if (parser.at !== text.length) return null;
    }
    const source = (/** @type {any} */ of) => text.slice(...(parser.places.get(of) ?? [0, 0]));
    return { value, plain: parser.plain, spaced: parser.spaced, odd: parser.odd, end, source };
  } catch (error) {
    if (error instanceof Malformed || error instanceof RangeError) return null;
    throw error;
  }
}

/**
 * Takes the white space between the parts of JSON out.
 *
 * @param {string} text
 */
export const compact = (text) => text.replace(/("(?:[^"\\]|\\.)*")|[ \t\r\n]+/g, (_, string) => string ?? "");

/**
 * Writes a value that {@link parse} has read without anything odd, in the form
 * of RFC 8785.
 *
 * @param {any} value
 * @returns {string}
 */
export function canonical(value) {
  if (Array.isArray(value)) return "[" + value.map(canonical).join(",") + "]";
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const names = Object.keys(value).sort();
  return "{" + names.map((name) => JSON.stringify(name) + ":" + canonical(value[name])).join(",") + "}";
}
