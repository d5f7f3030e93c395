// @ts-check
/** Public keys and their signatures (docs/entry.md). */
import { base64, unbase64, utf8 } from "./bytes.js";
import { Refusal } from "./errors.js";
import { sha256 } from "./sha256.js";

/**
 * `id`: OpenSSH fingerprint. `raw`: 32 bytes of Ed25519, or an uncompressed
 * point of P-256.
 *
 * @typedef {{algorithm: "ed25519" | "p256", id: string, raw: Uint8Array}} PublicKey
 */

const P = 2n ** 255n - 19n;
const D = 0x52036cee2b6ffe738cc740797779e89800700a4d4141d8ab75eb4dca135978a3n;
const P256 = 2n ** 256n - 2n ** 224n + 2n ** 192n + 2n ** 96n - 1n;
const P256_B = 0x5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604bn;
const P256_N = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;

/** @param {bigint} x @param {bigint} e @param {bigint} p */
function power(x, e, p) {
  let out = 1n;
  for (x %= p; e; e >>= 1n) {
    if (e & 1n) out = (out * x) % p;
    x = (x * x) % p;
  }
  return out;
}

/** @param {Uint8Array} data big-endian */
const integer = (data) => data.reduce((n, b) => (n << 8n) | BigInt(b), 0n);

/**
 * Whether 32 bytes are the canonical encoding of a point of edwards25519 that
 * is not of small order.
 *
 * @param {Uint8Array} raw
 */
function goodPoint(raw) {
  const bits = integer(raw.slice().reverse());
  const y = bits & (2n ** 255n - 1n);
  if (y >= P) return false;
  const mod = (/** @type {bigint} */ n) => ((n % P) + P) % P;
  const yy = mod(y * y); // x² = u/v
  const u = mod(yy - 1n);
  const v = mod(D * yy + 1n);
  if (u === 0n || yy === 0n || power(u * v, (P - 1n) / 2n, P) !== 1n) return false;
  // The eight points of small order are those with x = 0 or y = 0, and those
  // whose double has y = 0: there x² + y² = 0.
  return mod(u + yy * v) !== 0n;
}

/** @param {Uint8Array} point */
function onP256(point) {
  const [x, y] = [integer(point.subarray(1, 33)), integer(point.subarray(33))];
  return x < P256 && y < P256 && (y * y - x * x * x + 3n * x - P256_B) % P256 === 0n;
}

/**
 * Splits a DER element with a tag from what follows it.
 *
 * @param {Uint8Array} data
 * @param {number} tag
 * @returns {[Uint8Array, Uint8Array] | null}
 */
function element(data, tag) {
  let length = data[1] ?? 0;
  let head = 2;
  if (data.length < 2 || data[0] !== tag) return null;
  if (length >= 0x80) {
    head += length & 0x7f;
    if (head === 2 || head > 6 || data.length < head) return null;
    length = data.subarray(2, head).reduce((n, b) => n * 256 + b, 0);
    if (length < 0x80 || data[2] === 0) return null;
  }
  return data.length < head + length ? null : [data.subarray(head, head + length), data.subarray(head + length)];
}

const OIDS = Object.freeze({ ed25519: "2b6570", ec: "2a8648ce3d0201", p256: "2a8648ce3d030107" });

/** @param {Uint8Array} data */
const hexOf = (data) => Array.from(data, (b) => b.toString(16).padStart(2, "0")).join("");

/** @param {string} field @param {Uint8Array} der @returns {PublicKey} */
function parseDER(field, der) {
  const malformed = () => new Refusal("malformed", field, "no SubjectPublicKeyInfo in DER");
  const spki = der.length > 2048 ? null : element(der, 0x30);
  const algorithm = spki && element(spki[0], 0x30);
  const oid = algorithm && element(algorithm[0], 6);
  const bits = algorithm && element(algorithm[1], 3);
  if (!spki || !algorithm || !oid || !bits || spki[1].length || bits[1].length || bits[0][0] !== 0) throw malformed();
  const raw = bits[0].slice(1);
  switch (hexOf(oid[0])) {
    case OIDS.ed25519:
      if (oid[1].length || raw.length !== 32) throw malformed();
      return ed25519(field, raw);
    case OIDS.ec: {
      const curve = element(oid[1], 6);
      if (!curve || curve[1].length) throw malformed();
      if (hexOf(curve[0]) !== OIDS.p256) throw new Refusal("unsupported-alg", field, "a curve that is not P-256");
      if (raw.length !== 65 || raw[0] !== 4 || !onP256(raw)) throw new Refusal("malformed", field, "no uncompressed point of P-256");
      return { algorithm: "p256", id: fingerprint("ecdsa-sha2-nistp256", utf8("nistp256"), raw), raw };
    }
  }
  throw new Refusal("unsupported-alg", field, "neither Ed25519 nor ECDSA P-256");
}

/**
 * Keys that were read before. What others send does not make it grow without end.
 *
 * @type {Map<string, PublicKey>}
 */
const parsed = new Map();

/** @param {string} text @param {() => PublicKey} read @returns {PublicKey} */
function once(text, read) {
  const known = parsed.get(text);
  if (known) return known;
  const key = read();
  if (parsed.size >= 1024) parsed.clear();
  parsed.set(text, key);
  return key;
}

/**
 * @param {string} field
 * @param {Uint8Array} raw 32 bytes
 * @returns {PublicKey}
 */
export function ed25519(field, raw) {
  return once(String.fromCharCode(...raw), () => {
    if (!goodPoint(raw)) throw new Refusal("malformed", field, "no point of Ed25519 in canonical encoding, or one of small order");
    return { algorithm: "ed25519", id: fingerprint("ssh-ed25519", raw), raw };
  });
}

/** @param {string} algorithm @param {Uint8Array[]} fields */
function fingerprint(algorithm, ...fields) {
  const wire = [utf8(algorithm), ...fields].flatMap((f) => [new Uint8Array(new Uint32Array([f.length]).buffer).reverse(), f]);
  return "SHA256:" + base64(sha256(...wire)).replace(/=+$/, "");
}

/**
 * Reads a public key: base64 of a SubjectPublicKeyInfo in DER.
 *
 * @param {string} text
 * @param {string} [field] for the error
 * @throws {Refusal} malformed or unsupported-alg
 */
export function parseKey(text, field = "key") {
  return once(text, () => {
    const der = unbase64(text);
    if (!der) throw new Refusal("malformed", field, "no base64 in its one spelling");
    return parseDER(field, der);
  });
}

/**
 * @param {Uint8Array} sig ASN.1 DER
 * @returns {Uint8Array<ArrayBuffer> | null} r and s, as WebCrypto takes them
 */
function rawECDSA(sig) {
  const body = element(sig, 0x30);
  const r = body && element(body[0], 2);
  const s = r && element(r[1], 2);
  if (!body || !r || !s || body[1].length || s[1].length) return null;
  const out = new Uint8Array(64);
  for (const [at, [value]] of /** @type {[number, [Uint8Array, Uint8Array]][]} */ ([[32, r], [64, s]])) {
    const [first = 0x80, second = 0] = value;
    if (first & 0x80 || (value.length > 1 && first === 0 && !(second & 0x80))) return null;
    const n = integer(value);
    if (n === 0n || n >= P256_N) return null;
    const digits = first === 0 ? value.subarray(1) : value;
    out.set(digits, at - digits.length);
  }
  return out;
}

/** Order of the base point of edwards25519, little-endian. */
const ORDER = Uint8Array.from("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010".match(/../g) ?? [], (h) => parseInt(h, 16));

/** @param {Uint8Array} sig whether its s is below the order @returns {boolean} */
function reduced(sig) {
  for (let i = 31; i >= 0; i--) {
    const d = /** @type {number} */ (sig[32 + i]) - /** @type {number} */ (ORDER[i]);
    if (d) return d < 0;
  }
  return false;
}

/** @type {WeakMap<PublicKey, Promise<CryptoKey>>} */
const imported = new WeakMap();

/**
 * Whether sig is the key's signature over message: Ed25519 without cofactor
 * (RFC 8032), or ECDSA P-256 in ASN.1 DER over SHA-256.
 *
 * @param {PublicKey} key
 * @param {Uint8Array} message
 * @param {Uint8Array} sig
 */
export async function verifySignature(key, message, sig) {
  const edwards = key.algorithm === "ed25519";
  const raw = edwards ? new Uint8Array(sig) : rawECDSA(sig);
  if (!raw || raw.length !== 64 || (edwards && !reduced(raw))) return false;
  const algorithm = edwards ? { name: "Ed25519" } : { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
  const { subtle } = globalThis.crypto;
  let promise = imported.get(key);
  if (!promise) imported.set(key, (promise = subtle.importKey("raw", new Uint8Array(key.raw), algorithm, false, ["verify"])));
  return subtle.verify(algorithm, await promise, raw, new Uint8Array(message));
}

/**
 * Signatures that a check has asked for. A check runs as if those that it does
 * not know yet were good, and runs again when all of them were verified at
 * once: so it reads from top to bottom, and waits once.
 */
export class Signatures {
  /** What is known of a signature, by key and whose it is. @type {Map<PublicKey, Map<object, boolean>>} */
  #known = new Map();
  /** @type {{by: Map<object, boolean>, of: object, verify: () => Promise<boolean>}[]} */
  #asked = [];
  /** @type {Map<string, any>} */
  #made = new Map();

  /**
   * Makes something once, for all runs.
   *
   * @template T
   * @param {string} what
   * @param {() => T} make
   * @returns {T}
   */
  once(what, make) {
    if (!this.#made.has(what)) this.#made.set(what, make());
    return this.#made.get(what);
  }

  /**
   * @param {PublicKey} key
   * @param {string} message
   * @param {Uint8Array} sig
   * @param {object} of what is signed, the same in each run
   */
  good(key, message, sig, of) {
    let by = this.#known.get(key);
    if (!by) this.#known.set(key, (by = new Map()));
    const known = by.get(of);
    if (known === undefined) this.#asked.push({ by, of, verify: () => verifySignature(key, utf8(message), sig) });
    return known ?? true;
  }

  /**
   * @template T
   * @param {() => T} check has no effect but its result
   * @returns {Promise<T>}
   */
  async settle(check) {
    for (;;) {
      let result, failure;
      try {
        result = check();
      } catch (error) {
        failure = error;
      }
      if (!this.#asked.length) {
        if (failure) throw failure;
        return /** @type {T} */ (result);
      }
      const asked = this.#asked;
      this.#asked = [];
      const good = await Promise.all(asked.map((one) => one.verify()));
      asked.forEach(({ by, of }, i) => by.set(of, /** @type {boolean} */ (good[i])));
    }
  }
}
