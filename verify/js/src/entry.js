// @ts-check
/** Envelopes, payloads and leaves of the log (docs/entry.md). */
import { base64, size as bytesOf, text as decode, unbase64, utf8 } from "./bytes.js";
import { Refusal } from "./errors.js";
import { parse } from "./json.js";
import { parseKey } from "./key.js";
import { hashLeaf } from "./merkle.js";
import { checkPayload, isKind } from "./schema.js";

const MAX_ENVELOPE = 48 << 10;
const PREFIX = "application/vnd.agent-recovery.";
const SUFFIX = "+json";

/**
 * An entry, decoded. `pae` is what its signature covers, `canonical` its envelope
 * in the form of RFC 8785.
 *
 * @typedef {{kind: string, body: any, keyid: string, sig: Uint8Array, pae: string, canonical: string}} Entry
 * @typedef {Entry & {index: import("./merkle.js").Uint, at: number, hash: Uint8Array, leafHash: string, leaf: string}} Registered
 */

/** @type {(v: any, names: string[]) => boolean} */
const hasExactly = (v, names) =>
  v !== null && typeof v === "object" && !Array.isArray(v) && Object.keys(v).length === names.length && names.every((n) => n in v);

/** @param {string} field @param {string} detail */
const malformed = (field, detail) => new Refusal("malformed", field, detail);

/**
 * Checks an envelope and what is in it (REG-1).
 *
 * @param {any} envelope
 * @returns {Entry}
 * @throws {Refusal}
 */
function open(envelope) {
  const signature = envelope?.signatures?.[0];
  if (!hasExactly(envelope, ["payload", "payloadType", "signatures"])) throw malformed("", "members are payload, payloadType and signatures");
  if (!Array.isArray(envelope.signatures) || envelope.signatures.length !== 1 || !hasExactly(signature, ["keyid", "sig"]))
    throw malformed("signatures", "exactly one, with keyid and sig");
  const type = typeof envelope.payloadType === "string" ? envelope.payloadType : "";
  const kind = type.slice(PREFIX.length, -SUFFIX.length);
  if (!isKind(kind) || type !== PREFIX + kind + SUFFIX) throw malformed("payloadType", `not ${PREFIX}KIND${SUFFIX}`);
  const { keyid, sig: encoded } = signature;
  if (typeof keyid !== "string" || !/^SHA256:[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]$/.test(keyid)) throw malformed("keyid", "no OpenSSH fingerprint");
  const sig = unbase64(encoded);
  if (!sig?.length || sig.length > 72) throw malformed("sig", "no base64 of 1 to 72 bytes");
  const raw = unbase64(envelope.payload);
  const text = raw && decode(raw);
  if (!raw?.length || !text) throw malformed("payload", "no base64 of UTF-8");
  const parsed = parse(text);
  if (!parsed || parsed.odd) throw malformed("payload", "no JSON, a member twice, too deep, or a number that is no integer of 53 bits");
  const fault = checkPayload(kind, parsed.value);
  if (fault !== null) throw malformed(fault, `not as docs/kinds.md has it for ${kind}`);
  const ids = keysOf(kind, parsed.value).map((key, i) => parseKey(key, kind === "agent" ? "key" : `authority[${i}].key`).id);
  if (new Set(ids).size !== ids.length) throw malformed("authority", "a key stands there twice");
  return { kind, body: parsed.value, keyid, sig, pae: `DSSEv1 ${type.length} ${type} ${raw.length} ${text}`, canonical: `{"payload":"${envelope.payload}","payloadType":"${type}","signatures":[{"keyid":"${keyid}","sig":"${encoded}"}]}` };
}

/** @param {string} kind @param {any} body @returns {string[]} */
function keysOf(kind, body) {
  return kind === "agent" ? [body.key] : kind === "policy" ? body.authority.map((/** @type {any} */ a) => a.key) : [];
}

/**
 * Reads an envelope in any JSON spelling.
 *
 * @param {string | Uint8Array} data
 * @returns {Entry}
 * @throws {Refusal} malformed, too-large or unsupported-alg
 */
export function decodeEnvelope(data) {
  const raw = typeof data === "string" ? utf8(data) : data;
  if (raw.length > MAX_ENVELOPE) throw new Refusal("too-large", "", `an envelope has at most ${MAX_ENVELOPE} bytes`);
  const text = decode(raw);
  const parsed = text === null ? null : parse(text);
  if (!parsed || parsed.odd) throw malformed("", "no JSON as the protocol reads it");
  return open(parsed.value);
}

/**
 * Reads a leaf, which has one form.
 *
 * @param {import("./merkle.js").Uint} index
 * @param {string | Uint8Array} leaf
 * @returns {Registered}
 * @throws {Refusal}
 */
export function decodeLeaf(index, leaf) {
  const raw = typeof leaf === "string" ? utf8(leaf) : leaf;
  const text = typeof leaf === "string" ? leaf : decode(leaf);
  const parsed = text === null ? null : parse(text);
  if (text === null || !parsed || parsed.odd || !hasExactly(parsed.value, ["envelope", "registered_at"])) throw malformed("", "a leaf has envelope and registered_at");
  const at = parsed.value.registered_at;
  if (typeof at !== "number" || at < 0) throw malformed("registered_at", "no count of milliseconds");
  const entry = open(parsed.value.envelope);
  if (text !== `{"envelope":${entry.canonical},"registered_at":${at}}`) throw malformed("", "not in the form of RFC 8785");
  if (bytesOf(entry.canonical) > MAX_ENVELOPE) throw new Refusal("too-large", "", `an envelope has at most ${MAX_ENVELOPE} bytes`);
  const hash = hashLeaf(raw);
  return { ...entry, index, at, hash, leafHash: base64(hash), leaf: text };
}

/** @param {Registered} entry */
export const refOf = (entry) => ({ index: entry.index, leaf_hash: entry.leafHash });

/** @param {any} a @param {any} b references to entries */
export const sameRef = (a, b) => a?.index === b?.index && a?.leaf_hash === b?.leaf_hash;
