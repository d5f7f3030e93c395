// @ts-check
/**
 * SHA-256 (FIPS 180-4), without waiting: WebCrypto answers a promise for each
 * of the many short hashes of a proof, which costs more than the hash.
 */

/** First 32 bits of the fractional parts of roots of the first primes. */
function constants() {
  /** @type {number[]} */
  const primes = [];
  for (let n = 2; primes.length < 64; n++) if (primes.every((p) => n % p)) primes.push(n);
  const bits = (/** @type {number} */ x) => Math.floor((x - Math.floor(x)) * 2 ** 32) | 0;
  return { k: Int32Array.from(primes, (p) => bits(Math.cbrt(p))), h: primes.slice(0, 8).map((p) => bits(Math.sqrt(p))) };
}

const { k: K, h: H } = constants();
const W = new Int32Array(64);

/** Holds a message with its padding: grown when a longer one comes. */
let buffer = new Uint8Array(2048);

/**
 * @param {Int32Array} h the state
 * @param {Uint8Array} data
 * @param {number} at offset of the block of 64 bytes
 */
function compress(h, data, at) {
  const [w, k] = [W, K];
  const word = (/** @type {Int32Array | Uint8Array} */ of, /** @type {number} */ i) => /** @type {number} */ (of[i]);
  for (let i = 0, j = at; i < 16; i++, j += 4) w[i] = (word(data, j) << 24) | (word(data, j + 1) << 16) | (word(data, j + 2) << 8) | word(data, j + 3);
  for (let i = 16; i < 64; i++) {
    const x = word(w, i - 15);
    const y = word(w, i - 2);
    const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
    const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
    w[i] = (word(w, i - 16) + s0 + word(w, i - 7) + s1) | 0;
  }
  let a = word(h, 0), b = word(h, 1), c = word(h, 2), d = word(h, 3);
  let e = word(h, 4), f = word(h, 5), g = word(h, 6), z = word(h, 7);
  for (let i = 0; i < 64; i++) {
    const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
    const t1 = (z + s1 + ((e & f) ^ (~e & g)) + word(k, i) + word(w, i)) | 0;
    const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    z = g;
    g = f;
    f = e;
    e = (d + t1) | 0;
    d = c;
    c = b;
    b = a;
    a = (t1 + t2) | 0;
  }
  h[0] = word(h, 0) + a;
  h[1] = word(h, 1) + b;
  h[2] = word(h, 2) + c;
  h[3] = word(h, 3) + d;
  h[4] = word(h, 4) + e;
  h[5] = word(h, 5) + f;
  h[6] = word(h, 6) + g;
  h[7] = word(h, 7) + z;
}

/**
 * @param {Uint8Array[]} parts hashed one after the other
 * @returns {Uint8Array} 32 bytes
 */
export function sha256(...parts) {
  let n = 0;
  for (const part of parts) n += part.length;
  const end = (((n + 8) >> 6) + 1) << 6;
  if (buffer.length < end) buffer = new Uint8Array(2 * end);
  const data = buffer;
  let at = 0;
  for (const part of parts) {
    data.set(part, at);
    at += part.length;
  }
  data.fill(0, n, end);
  data[n] = 0x80;
  for (let i = 0, bits = n * 8; i < 6; i++, bits = Math.floor(bits / 256)) data[end - 1 - i] = bits;
  const state = Int32Array.from(H);
  for (let block = 0; block < end; block += 64) compress(state, data, block);
  const out = new Uint8Array(32);
  for (let i = 0; i < 32; i++) out[i] = /** @type {number} */ (state[i >> 2]) >> (24 - 8 * (i & 3));
  return out;
}
