// @ts-check
/** A carrier between agent and ledger alters the steps of bundles, which nobody signs: once, and for ever. */
import assert from "node:assert/strict";
import http from "node:http";
import { test } from "node:test";
import { live } from "./support.js";

const STEP = /"exec":(\d+),"rule":"SCO-3","from":\d+/g;

/** A proxy that alters as many bundles as left says. @param {import("node:test").TestContext} t @param {string} url @param {number} left */
async function carrierTo(t, url, left) {
  const seen = { url: "", altered: 0, anew: 0, connections: 0 };
  const server = http.createServer((request, answer) => {
    const { host: _host, connection: _connection, ...headers } = request.headers;
    const there = http.request(url + request.url, { method: request.method ?? "GET", headers, agent: false }, (got) => {
      /** @type {Buffer[]} */
      const parts = [];
      got.on("data", (part) => parts.push(part));
      got.on("end", () => {
        let text = Buffer.concat(parts).toString("utf8");
        if (request.url?.includes("/bundle?")) {
          seen.anew += Number(headers["cache-control"] === "no-cache");
          const changed = text.replace(STEP, '"exec":$1,"rule":"SCO-1","from":$1');
          if (changed !== text && seen.altered < left) {
            seen.altered++;
            text = changed;
          }
        }
        const { "content-length": _length, "transfer-encoding": _encoding, connection: _of, ...rest } = got.headers;
        answer.writeHead(got.statusCode ?? 0, { ...rest, "content-length": Buffer.byteLength(text) });
        answer.end(text);
      });
    });
    there.on("error", () => answer.destroy());
    answer.on("close", () => there.destroy());
    request.pipe(there);
  });
  server.on("connection", () => seen.connections++);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const at = server.address();
  assert(at && typeof at === "object");
  seen.url = `http://127.0.0.1:${at.port}`;
  return seen;
}

for (const { name, left, result } of [{ name: "once", left: 1, result: "compensated" }, { name: "for ever", left: 1e6, result: "refused" }]) {
  test(`a carrier alters bundles ${name}`, async (t) => {
    const at = await live(t);
    const { url, root } = at.machine.profile();
    const carrier = await carrierTo(t, url, left);
    const agent = await at.connect({ url: carrier.url, root });
    agent.compensates("charge", () => {});
    await agent.run("carried", async (run) => {
      const charge = await run.step("charge", { effect: "compensable" }, () => {});
      await run.signal(charge, "output.bad_arguments");
    }).catch((/** @type {Error} */ why) => assert.equal(why.name, "RolledBack"));
    assert.deepEqual(await at.outcomes(agent), { charge: result });
    assert(carrier.altered >= Math.min(left, 6), `${carrier.altered} altered`);
    assert(carrier.anew >= Math.min(left, 5), `${carrier.anew} asked anew`);
    assert(carrier.connections > 1);
  });
}
