// @ts-check
/**
 * Signed notes and the tree heads in them (c2sp.org/signed-note,
 * c2sp.org/tlog-checkpoint).
 */
import { hex, unbase64, utf8 } from "./bytes.js";
import { FormatError } from "./errors.js";
import { parseHash, uint, EMPTY_ROOT } from "./merkle.js";
import { sha256 } from "./sha256.js";

/** Types of verifier keys, and the length of a key of the type. */
export const ED25519 = 1;
export const COSIGNATURE = 4;
export const ML_DSA_44 = 6;
const LENGTHS = new Map([[ED25519, 32], [COSIGNATURE, 32], [ML_DSA_44, 1312]]);

/**
 * A verifier key: `hash` are the first four bytes of its id in hexadecimal.
 *
 * @typedef {{text: string, name: string, hash: string, type: number, raw: Uint8Array}} VerifierKey
 */

const SPACE = /[\s\x85]/;

/** @param {string} name */
export const goodName = (name) => name !== "" && !SPACE.test(name.replace(/\ufeff/g, "")) && !name.includes("+");

/**
 * Reads a verifier key.
 *
 * @param {string} text
 * @param {number} [classic] the type wanted, beside ML-DSA-44; any if absent
 * @returns {VerifierKey}
 * @throws {FormatError}
 */
export function parseVerifierKey(text, classic) {
  const [name = "", hash = "", ...rest] = text.split("+");
  const key = unbase64(rest.join("+"));
  const type = key?.[0] ?? 0;
  if (classic && type !== classic && type !== ML_DSA_44) throw new FormatError("verifier key", `of type ${type}, not ${classic} or ${ML_DSA_44}`);
  if (!rest.length || !goodName(name) || !/^[\da-f]{8}$/.test(hash) || !key || key.length - 1 !== LENGTHS.get(type))
    throw new FormatError("verifier key", "not NAME+ID+KEY of a known type");
  if (hex(sha256(utf8(name + "\n"), key).subarray(0, 4)) !== hash)
    throw new FormatError("verifier key", "its id is not that of name and key");
  return { text, name, hash, type, raw: key.slice(1) };
}

/**
 * A note, taken apart. Nobody has verified its signatures; those of unknown keys
 * may have padding bits that are set: `strict` says that one has none.
 *
 * @typedef {{text: string, signatures: {name: string, hash: string, sig: Uint8Array, strict: boolean}[]}} Note
 */

const MAX_SIGNATURES = 100;

/**
 * Reads a signed note.
 *
 * @param {string} note
 * @returns {Note | null} null if it is none
 */
export function parseNote(note) {
  if (/[\0-\x09\x0b-\x1f]/.test(note)) return null;
  const at = note.lastIndexOf("\n\n");
  if (at < 0 || !note.endsWith("\n") || at + 2 >= note.length) return null;
  const signatures = [];
  for (const line of note.slice(at + 2, -1).split("\n")) {
    const [dash, name = "", encoded = "", ...rest] = line.split(" ");
    const sig = unbase64(encoded, true);
    if (dash !== "\u2014" || !goodName(name) || rest.length || !sig || sig.length < 5) return null;
    signatures.push({ name, hash: hex(sig.subarray(0, 4)), sig: sig.subarray(4), strict: unbase64(encoded) !== null });
    if (signatures.length > MAX_SIGNATURES) return null;
  }
  return { text: note.slice(0, at + 1), signatures };
}

/**
 * Reads the text of a tree head: origin, size, root, and extension lines, which
 * mean nothing here.
 *
 * @param {string} text
 * @param {string} origin
 * @returns {import("./merkle.js").Head | null}
 */
export function parseCheckpoint(text, origin) {
  const [first, second = "", third = "", ...more] = text.slice(0, -1).split("\n");
  const size = uint(second);
  if (first !== origin || size === null || !parseHash(third) || more.includes("")) return null;
  return size === 0 && third !== EMPTY_ROOT ? null : { size, root: third };
}

/**
 * What a cosignature is over, and when it was made.
 *
 * @param {string} text of the note
 * @param {Uint8Array} signature
 * @returns {{at: import("./merkle.js").Uint, message: string, sig: Uint8Array} | null}
 */
export function cosigned(text, signature) {
  if (signature.length < 8) return null;
  const at = uint(new DataView(signature.buffer, signature.byteOffset).getBigUint64(0).toString());
  return at !== null && at < 1n << 63n ? { at, message: `cosignature/v1\ntime ${at}\n${text}`, sig: signature.subarray(8) } : null;
}
