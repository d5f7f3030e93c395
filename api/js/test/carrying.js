// @ts-check
/** A carrier between agent and ledger, which alters what it carries. */
import assert from "node:assert/strict";
import http from "node:http";

/**
 * What a carrier does. `refuse`: status and problem that answer an entry in the ledger's place; null: the
 * ledger answers; `page`: what of a bundle is asked for; `follows`: whether the agent is told where the
 * next page is; `alter`: a bundle as it is given.
 *
 * @typedef {{refuse?: (body: string) => [number, object] | null, page?: (path: string) => string, follows?: (path: string) => boolean,
 *   alter?: (text: string) => string}} Carries
 */

/** @param {http.IncomingMessage} stream @returns {Promise<string>} */
async function whole(stream) {
  /** @type {Buffer[]} */
  const parts = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts).toString("utf8");
}

/** @param {string} url @param {http.RequestOptions} options @param {string} body @returns {Promise<http.IncomingMessage>} */
const send = (url, options, body) => new Promise((resolve, reject) => {
  http.request(url, { ...options, agent: false }, resolve).on("error", reject).end(body);
});

/**
 * Starts a carrier. `anew` counts the bundles that were asked for past what caches keep.
 *
 * @param {import("node:test").TestContext} t @param {string} url @param {Carries} carries
 */
export async function carrierTo(t, url, carries) {
  const seen = { url: "", anew: 0, connections: 0 };
  /** @param {http.IncomingMessage} request @param {http.ServerResponse} answer */
  async function carry(request, answer) {
    const { host: _host, connection: _connection, ...headers } = request.headers;
    const body = await whole(request);
    const refusal = (request.url === "/v1/entries" && carries.refuse?.(body)) || null;
    if (refusal) {
      answer.writeHead(refusal[0], { "content-type": "application/problem+json" }).end(JSON.stringify(refusal[1]));
      return;
    }
    const ofBundle = request.url?.includes("/bundle?");
    const path = (ofBundle && carries.page?.(request.url ?? "")) || request.url;
    const got = await send(url + path, { method: request.method ?? "GET", headers }, body);
    let text = await whole(got);
    const { "content-length": _length, "transfer-encoding": _encoding, connection: _of, link, ...rest } = got.headers;
    if (ofBundle) {
      seen.anew += Number(headers["cache-control"] === "no-cache");
      text = carries.alter?.(text) ?? text;
    }
    const shown = link && (!ofBundle || (carries.follows?.(path ?? "") ?? true)) ? { link } : {};
    answer.writeHead(got.statusCode ?? 0, { ...rest, ...shown, "content-length": Buffer.byteLength(text) });
    answer.end(text);
  }
  const server = http.createServer((request, answer) => {
    carry(request, answer).catch(() => answer.destroy()); // either side has hung up
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
