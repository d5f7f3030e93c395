// @ts-check
/**
 * Answers questions {bundle, accepted, now} in each line of standard input with the package's verdict
 * for an agent, so that tests compare the verdict with that of Go.
 */
import { createInterface } from "node:readline";
import { check, ruleOf } from "../src/verdict.js";
import { decodeAccepted, encodeAccepted } from "../src/verify/bundle.js";

/**
 * Has a function give the same answer to the same arguments without being asked again: of a changed
 * bundle, most keys and signatures are those of the bundle before its change.
 *
 * @param {"importKey" | "verify"} method of the Web Cryptography API
 */
function remember(method) {
  const subtle = /** @type {any} */ (globalThis.crypto.subtle);
  const ask = subtle[method].bind(subtle);
  /** @type {Map<unknown, Map<string, Promise<unknown>>>} */
  const known = new Map();
  subtle[method] = (/** @type {unknown[]} */ ...args) => {
    const key = args.find((arg) => arg instanceof CryptoKey);
    const rest = args.filter((arg) => arg !== key).map((arg) => (arg instanceof Uint8Array ? Buffer.from(arg).toString("latin1") : JSON.stringify(arg)));
    const answers = known.get(key) ?? new Map();
    const name = JSON.stringify(rest);
    if (answers.size > 1000) answers.clear();
    if (!answers.has(name)) answers.set(name, ask(...args));
    known.set(key, answers);
    return answers.get(name);
  };
}

remember("importKey");
remember("verify");
for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const { bundle, accepted, now } = JSON.parse(line);
  const v = await check(Buffer.from(bundle, "base64"), decodeAccepted(accepted), now);
  const refused = v.error ? ruleOf(v.error) : "";
  const { incident, epoch, expires_at, deadline_at, commands, next } = v;
  const answer = refused === "form" ? {} : { confirmed: next.confirmed, next: encodeAccepted(next), ...(refused ? {} : { incident, epoch, expires_at, deadline_at, commands }) };
  console.log(JSON.stringify({ refused, ...answer }));
}
