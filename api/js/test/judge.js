// @ts-check
/**
 * Answers questions {bundle, accepted, now} in each line of standard input with the package's verdict
 * for an agent, so that tests compare the verdict with that of Go.
 */
import { createInterface } from "node:readline";
import { check, ruleOf } from "../src/verdict.js";
import { decodeAccepted, encodeAccepted } from "../src/verify/bundle.js";

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const { bundle, accepted, now } = JSON.parse(line);
  const v = await check(Buffer.from(bundle, "base64"), decodeAccepted(accepted), now);
  const refused = v.error ? ruleOf(v.error) : "";
  const { incident, epoch, expires_at, deadline_at, commands, next } = v;
  const answer = refused === "form" ? {} : { confirmed: next.confirmed, next: encodeAccepted(next), ...(refused ? {} : { incident, epoch, expires_at, deadline_at, commands }) };
  console.log(JSON.stringify({ refused, ...answer }));
}
