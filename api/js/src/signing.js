// @ts-check
/** Entries of an agent: header, signature, envelope in canonical form. */
import { randomUUID } from "node:crypto";
import { InputError } from "./errors.js";
import { checkPayload } from "./verify/schema.js";
import { canonical, parse } from "./verify/json.js";

const MAX_ENVELOPE = 48 << 10;
const MAX_TEXT = 1024; // bytes of a detail, a reason, a residual
const PREFIX = "application/vnd.agent-recovery.";
const SUFFIX = "+json";
const HEADER = ["v", "jti", "iss", "aud", "iat"];

/** @typedef {Record<string, any>} Body */

/** Signs entries of an agent for a ledger. */
export class Signer {
  /** @param {string} agent @param {string} origin @param {import("./keyfile.js").Key} key */
  constructor(agent, origin, key) {
    this.agent = agent;
    this.origin = origin;
    this.key = key;
  }

  /**
   * The envelope of a body under a new header, at a time in Unix milliseconds.
   *
   * @param {string} kind @param {Body} body @param {number} now
   * @returns {string}
   * @throws {InputError}
   */
  sign(kind, body, now) {
    const header = { v: 1, jti: randomUUID(), iss: this.agent, aud: this.origin, iat: Math.floor(now / 1000) };
    const payload = canonical(JSON.parse(JSON.stringify({ ...body, ...header })));
    const parsed = parse(payload);
    const fault = !parsed || parsed.odd ? "" : checkPayload(kind, parsed.value);
    if (fault !== null) {
      const shown = Object.entries(body).map(([name, value]) => `${name}=${JSON.stringify(value)?.slice(0, 80)}`).join(", ");
      const remedy = "names have 1 to 128 of A-Z a-z 0-9 . _ : / @ -";
      throw new InputError(`${kind} entry${fault && `, ${fault}`}: not of the form that the log takes: ${shown}`, remedy);
    }
    const type = PREFIX + kind + SUFFIX;
    const pae = Buffer.from(`DSSEv1 ${type.length} ${type} ${Buffer.byteLength(payload)} ${payload}`);
    const envelope = canonical({
      payload: Buffer.from(payload).toString("base64"), payloadType: type,
      signatures: [{ keyid: this.key.keyid, sig: this.key.sign(pae).toString("base64") }],
    });
    const size = Buffer.byteLength(envelope);
    if (size > MAX_ENVELOPE) throw new InputError(`${kind} entry: ${size} bytes, the limit is ${MAX_ENVELOPE}`, "put less into it");
    return envelope;
  }
}

/**
 * Kind and payload of an envelope that the agent has signed.
 *
 * @param {string} envelope
 * @returns {[string, Body]}
 */
export function read(envelope) {
  const value = JSON.parse(envelope);
  return [value.payloadType.slice(PREFIX.length, -SUFFIX.length), JSON.parse(Buffer.from(value.payload, "base64").toString())];
}

/**
 * Kind and payload of an envelope without its header, to be signed anew.
 *
 * @param {string} envelope
 * @returns {[string, Body]}
 */
export function bodyOf(envelope) {
  const [kind, payload] = read(envelope);
  return [kind, Object.fromEntries(Object.entries(payload).filter(([name]) => !HEADER.includes(name)))];
}

/** A text as it may stand in a residual: printable, and not longer than is taken. @param {string} text */
export function residual(text) {
  const printable = Array.from(text.slice(0, MAX_TEXT)).filter((c) => !/^[\ud800-\udfff]$/.test(c)).map((c) => (c >= " " || c === "\n" || c === "\t" ? c : " "));
  let size = 0;
  const short = printable.filter((c) => (size += Buffer.byteLength(c)) <= MAX_TEXT).join("");
  return short || "nothing is said of what is left";
}
