// @ts-check
/**
 * Key files under a passphrase, as `arl key generate` writes them: scrypt, then NaCl's secretbox. Node
 * has scrypt, and neither XSalsa20 nor Poly1305 alone: both stand here. A file has a few hundred bytes,
 * and is opened once.
 */
import { scryptSync, timingSafeEqual } from "node:crypto";

const COSTS = [1 << 15, 1 << 16, 1 << 17]; // those that arl reads, with r = 8 and p = 1
/** @type {any[][]} */
const QUARTERS = [[0, 4, 8, 12], [5, 9, 13, 1], [10, 14, 2, 6], [15, 3, 7, 11], [0, 1, 2, 3], [5, 6, 7, 4], [10, 11, 8, 9], [15, 12, 13, 14]];
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

/**
 * Opens the content of a key file.
 *
 * @param {string} text
 * @param {string} passphrase
 * @returns {Buffer}
 * @throws {Error} the passphrase is wrong, or the file is damaged
 */
export function openSealed(text, passphrase) {
  const doc = JSON.parse(text);
  const params = doc?.kdf?.params;
  const parts = [doc?.kdf?.salt, doc?.cipher?.nonce, doc?.ciphertext];
  if (!params || parts.some((part) => typeof part !== "string" || !BASE64.test(part))) throw new Error("not a sealed key");
  const [salt, nonce, box] = /** @type {[Buffer, Buffer, Buffer]} */ (parts.map((part) => Buffer.from(part, "base64")));
  const known = doc.kdf.name === "scrypt" && doc.cipher.name === "nacl/secretbox" && COSTS.includes(params.N) && params.r === 8 && params.p === 1;
  if (!known || nonce.length !== 24 || box.length < 16) throw new Error("sealed in a way that this package does not read");
  const key = scryptSync(passphrase, salt, 32, { N: params.N, r: 8, p: 1, maxmem: 256 << 20 });
  const stream = xsalsa20(box.length + 16, nonce, key);
  if (!timingSafeEqual(poly1305(box.subarray(16), stream.subarray(0, 32)), box.subarray(0, 16))) throw new Error("wrong passphrase, or the file is damaged");
  return Buffer.from(box.subarray(16).map((byte, i) => byte ^ /** @type {number} */ (stream[32 + i])));
}

/** @param {number} size @param {Buffer} nonce @param {Buffer} key that many bytes of the stream of XSalsa20 */
function xsalsa20(size, nonce, key) {
  const mixed = rounds(state(key, words(nonce.subarray(0, 16))));
  const inner = bytes([0, 5, 10, 15, 6, 7, 8, 9].map((i) => mixed[i]));
  const stream = [];
  for (let block = 0; 64 * block < size; block++) {
    const before = state(inner, [...words(nonce.subarray(16)), block, 0]);
    stream.push(bytes(rounds(before).map((word, i) => (word + before[i]) >>> 0)));
  }
  return Buffer.concat(stream).subarray(0, size);
}

/** @param {Buffer} from @returns {any[]} */
const words = (from) => Array.from({ length: from.length / 4 }, (_, i) => from.readUInt32LE(4 * i));

/** @param {any[]} from */
function bytes(from) {
  const out = Buffer.alloc(4 * from.length);
  from.forEach((word, i) => out.writeUInt32LE(word, 4 * i));
  return out;
}

/** @param {Buffer} key @param {any[]} middle @returns {any[]} */
function state(key, middle) {
  const sigma = words(Buffer.from("expand 32-byte k"));
  const k = words(key);
  return [sigma[0], ...k.slice(0, 4), sigma[1], ...middle, sigma[2], ...k.slice(4), sigma[3]];
}

/** @param {any[]} from @returns {any[]} the twenty rounds of Salsa20, without the addition at their end */
function rounds(from) {
  const x = from.slice();
  for (let round = 0; round < 10; round++)
    for (const [a, b, c, d] of QUARTERS)
      for (const [to, one, other, turn] of /** @type {any[][]} */ ([[b, a, d, 7], [c, b, a, 9], [d, c, b, 13], [a, d, c, 18]])) {
        const total = (x[one] + x[other]) >>> 0;
        x[to] = (x[to] ^ ((total << turn) | (total >>> (32 - turn)))) >>> 0;
      }
  return x;
}

/** @param {Buffer} from */
const number = (from) => BigInt(`0x${Buffer.from(from).reverse().toString("hex") || "0"}`);

/** @param {Buffer} message @param {Buffer} key */
function poly1305(message, key) {
  const prime = (1n << 130n) - 5n;
  const r = number(key.subarray(0, 16)) & 0x0ffffffc0ffffffc0ffffffc0fffffffn;
  let sum = 0n;
  for (let i = 0; i < message.length; i += 16) sum = ((sum + number(Buffer.concat([message.subarray(i, i + 16), Buffer.of(1)]))) * r) % prime;
  const tag = (sum + number(key.subarray(16))) & ((1n << 128n) - 1n);
  return Buffer.from(tag.toString(16).padStart(32, "0"), "hex").reverse();
}
