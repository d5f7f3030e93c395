// @ts-check
/** Bytes as text: UTF-8 and base64, each in its one spelling. */

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** @param {string} text */
export const utf8 = (text) => encoder.encode(text);

/**
 * @param {Uint8Array} data
 * @returns {string | null} null if data is not UTF-8
 */
export function text(data) {
  try {
    return decoder.decode(data);
  } catch {
    return null;
  }
}

/**
 * @param {string} value
 * @returns {number} bytes of UTF-8
 */
export const size = (value) => (/^[\0-\x7f]*$/.test(value) ? value.length : encoder.encode(value).length);

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const VALUE = new Int16Array(128).fill(-1);
for (let i = 0; i < 64; i++) VALUE[ALPHABET.charCodeAt(i)] = i;

/**
 * Decodes standard base64 with padding. Anything but the one spelling of some
 * bytes, such as white space or padding bits that are set, is refused.
 *
 * @param {any} value
 * @param {boolean} [loose] takes padding bits that are set
 * @returns {Uint8Array | null} null if value is refused, or no string
 */
export function unbase64(value, loose = false) {
  if (typeof value !== "string" || value.length % 4) return null;
  const n = value.length;
  const pad = n && value[n - 1] === "=" ? (value[n - 2] === "=" ? 2 : 1) : 0;
  const out = new Uint8Array((n / 4) * 3 - pad);
  for (let i = 0, o = 0; i < n; i += 4) {
    let bits = 0;
    for (let j = 0; j < 4; j++) {
      const code = value.charCodeAt(i + j);
      const digit = i + j >= n - pad ? 0 : code < 128 ? /** @type {number} */ (VALUE[code]) : -1;
      if (digit < 0) return null;
      bits = (bits << 6) | digit;
    }
    if (!loose && i + 4 === n && pad && bits & (pad === 1 ? 0xff : 0xffff)) return null;
    out[o++] = bits >> 16;
    if (o < out.length) out[o++] = bits >> 8;
    if (o < out.length) out[o++] = bits;
  }
  return out;
}

/** @param {Uint8Array} data */
export function base64(data) {
  let out = "";
  for (let i = 0; i < data.length; i += 3) {
    const [a = 0, b = 0, c = 0] = data.subarray(i, i + 3);
    const bits = (a << 16) | (b << 8) | c;
    for (let j = 0; j < 4; j++) out += i + j > data.length ? "=" : ALPHABET[(bits >> (18 - 6 * j)) & 63];
  }
  return out;
}

/** @param {Uint8Array} data */
export const hex = (data) => Array.from(data, (b) => b.toString(16).padStart(2, "0")).join("");

/** @param {Uint8Array[]} parts */
export function concat(...parts) {
  const out = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/**
 * @param {Uint8Array} a
 * @param {Uint8Array} b
 */
export const equal = (a, b) => a.length === b.length && a.every((x, i) => x === b[i]);
