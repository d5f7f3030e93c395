// @ts-check
/** What a verifier pins (TRU-1), and the tree heads that count by it. */
import { size as bytesOf, text as decode } from "./bytes.js";
import { FormatError, StepError } from "./errors.js";
import { parse } from "./json.js";
import { ed25519 } from "./key.js";
import { ED25519, ML_DSA_44, parseCheckpoint, parseNote, parseVerifierKey } from "./note.js";
import { read } from "./shape.js";
import { parseQuorum } from "./witness.js";

/**
 * @typedef {import("./merkle.js").Uint} Uint
 * @typedef {{origin: string, ledger_keys: string[], since?: Uint, retired?: {key: string, size: Uint}[], genesis: string,
 *   witnesses?: string, head?: string}} Root
 * @typedef {import("./merkle.js").Head & {note: string, unverified: boolean, extended: boolean}} SignedHead
 * @typedef {{key: import("./key.js").PublicKey, name: string, hash: string, until: Uint | null}} HeadKey
 */

export const MAX_NOTE = 128 << 10;
const MAX_ROOT = 64 << 10;
const MAX_KEYS = 8;
const MAX_RETIRED = 64;

export const ROOT = {
  origin: "text", ledger_keys: ["text"], "since?": "uint", "retired?": [{ key: "text", size: "uint" }], genesis: "hash", "witnesses?": "text", "head?": "text",
};

/** @param {string} why */
const bad = (why) => new FormatError("root", why);

/**
 * Checks verifier keys of a ledger.
 *
 * @param {string[]} keys
 * @param {string} origin
 * @returns {(import("./note.js").VerifierKey & {key: import("./key.js").PublicKey})[]} the Ed25519 keys among them, of which there is one
 * @throws {Error}
 */
export function ledgerKeys(keys, origin) {
  if (keys.length > MAX_KEYS) throw bad(`more than ${MAX_KEYS} ledger keys`);
  const parsed = keys.map((text) => parseVerifierKey(text, ED25519));
  if (parsed.some((key) => key.name !== origin)) throw bad("a ledger key has another name than the origin");
  if (new Set(parsed.map((key) => key.hash)).size !== keys.length) throw bad("two ledger keys with one id");
  const classic = parsed.filter((key) => key.type === ED25519);
  if (!classic.length) throw bad("no Ed25519 key among the ledger keys");
  return classic.map((key) => ({ ...key, key: ed25519("ledger_keys", key.raw) }));
}

/** @param {Root} root @throws {FormatError} */
function check(root) {
  if (!/^[!-*,-~]{1,128}$/.test(root.origin)) throw bad("origin is not 1 to 128 printable ASCII characters without space and +");
  if (/^A{43}=$/.test(root.genesis)) throw bad("genesis is missing");
  const seen = [...root.ledger_keys];
  if ((root.retired?.length ?? 0) > MAX_RETIRED) throw bad(`more than ${MAX_RETIRED} retired keys`);
  for (const { key, size } of root.retired ?? []) {
    const parsed = parseVerifierKey(key, ED25519);
    if (parsed.name !== root.origin || parsed.type !== ED25519 || seen.includes(key)) throw bad("a retired key of another name or type, or twice");
    if (!size || size > (root.since ?? 0)) throw bad("a retired key of which the size is not 1 to since");
    seen.push(key);
  }
}

/**
 * Reads a pinned root. The head in it, if any, has to be one by the root itself:
 * verify and checkBundle look at that.
 *
 * @param {string | Uint8Array} data
 * @returns {Root}
 * @throws {FormatError}
 */
export function parseRoot(data) {
  const text = typeof data === "string" ? data : decode(data) ?? "";
  const parsed = bytesOf(text) > MAX_ROOT ? null : parse(text, 10_000);
  if (!parsed) throw bad("no JSON, or too large");
  const root = read("root", ROOT, parsed.value, false);
  new Opener(root);
  return root;
}

/**
 * Opens the signed tree heads of a ledger by a root.
 */
export class Opener {
  /** @param {Root} root @throws {FormatError} */
  constructor(root) {
    try {
      check(root);
      this.root = root;
      this.quorum = parseQuorum(root.witnesses ?? "");
      /** @type {HeadKey[]} */
      this.keys = ledgerKeys(root.ledger_keys, root.origin).map(({ key, name, hash }) => ({ key, name, hash, until: null }));
      for (const { key, size } of root.retired ?? []) {
        const { name, hash, raw } = parseVerifierKey(key, ED25519);
        this.keys.push({ key: ed25519("retired", raw), name, hash, until: size });
      }
    } catch (error) {
      throw error instanceof FormatError ? error : bad(String(error));
    }
    const seconds = root.ledger_keys.map((text) => parseVerifierKey(text, ED25519)).filter((key) => key.type === ML_DSA_44);
    /** ids of the pinned ML-DSA-44 keys, whose signatures are not checked */
    this.seconds = seconds.map((key) => key.hash);
  }

  /**
   * Opens a signed tree head: a key in force at its size has signed it, the first
   * signature of each known key verifies, and it is one of the pinned origin.
   *
   * @param {string} note
   * @param {import("./key.js").Signatures} signatures
   * @returns {SignedHead}
   * @throws {StepError}
   */
  open(note, signatures) {
    const fail = (/** @type {string} */ why) => new StepError(1, "tree head", why);
    const parsed = signatures.once(`note ${note}`, () => (bytesOf(note) > MAX_NOTE ? null : parseNote(note)));
    if (!parsed) throw fail("not a signed note");
    const seen = new Set();
    const good = [];
    for (const line of parsed.signatures) {
      const key = this.keys.find((k) => k.name === line.name && k.hash === line.hash);
      if (!key || seen.has(key)) continue;
      seen.add(key);
      if (!signatures.good(key.key, parsed.text, line.sig, line)) throw fail(`a signature of ${key.name}+${key.hash} does not verify`);
      if (!line.strict) throw fail("a signature in another spelling of its base64");
      good.push(key);
    }
    if (!good.length) throw fail("not signed by any trusted ledger key (TRU-5)");
    const head = parseCheckpoint(parsed.text, this.root.origin);
    if (!head) throw fail(`no tree head of ${this.root.origin}`);
    if (!good.some((key) => key.until === null || head.size <= key.until)) throw fail(`of size ${head.size}, without a signature by a ledger key in force (TRU-5)`);
    const unverified = parsed.signatures.some((line) => line.name === this.root.origin && this.seconds.includes(line.hash));
    return { ...head, note, unverified, extended: parsed.text.split("\n").length > 4 };
  }
}

/**
 * The root as the policies of a chain leave it (TRU-5).
 *
 * @param {Root} root
 * @param {import("./chain.js").Chain} chain
 * @returns {Root} the same one if nothing changed
 */
export function follow(root, chain) {
  for (const { index, keys } of chain.named) {
    if (index <= (root.since ?? 0)) continue;
    const retired = (root.retired ?? []).filter((old) => !keys.includes(old.key));
    for (const key of ledgerKeys(root.ledger_keys, root.origin)) if (!keys.includes(key.text)) retired.push({ key: key.text, size: index });
    const { witnesses, head } = root;
    root = {
      origin: root.origin,
      ledger_keys: keys,
      since: index,
      ...(retired.length ? { retired: retired.slice(-MAX_RETIRED) } : {}),
      genesis: root.genesis,
      ...(witnesses ? { witnesses } : {}),
      ...(head ? { head } : {}),
    };
  }
  return root;
}

