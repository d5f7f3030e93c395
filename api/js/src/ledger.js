// @ts-check
/**
 * A ledger over HTTP. What it says of the log is proven before it is returned.
 *
 * The client believes a tree head only if a pinned key signed the head, and if the head is proven
 * consistent with the largest one it accepted before. Two heads that contradict each other are a
 * Forked, and the client believes nothing more.
 */
import { readFileSync } from "node:fs";
import * as http from "node:http";
import * as https from "node:https";
import { asError, Forked, InputError, Refused, Unproven, Unreachable } from "./errors.js";
import { pause } from "./waiting.js";
import { unbase64, text as decode } from "./verify/bytes.js";
import { decodeLeaf } from "./verify/entry.js";
import { RuleError, StepError } from "./verify/errors.js";
import { canonical, parse } from "./verify/json.js";
import { Signatures } from "./verify/key.js";
import { checkConsistency, checkInclusion, hashLeaf, parseHash } from "./verify/merkle.js";
import { Opener } from "./verify/root.js";

const ATTEMPTS = 5;
const MAX_ANSWER = 32 << 20; // bytes, as all sizes here
const MAX_RECEIPT = 512 << 10;
const MAX_BUNDLE = 8 << 20;
const MAX_WAIT_MS = 25_000; // of a question for commands
const MAX_PLAN = 1 << 20; // members
const REQUEST_MS = 60_000; // the time of one request
const BACKOFF_MS = 100;
const LONGEST_MS = 30_000;
const PROBLEM = "urn:agent-recovery:problem:";
const AGAIN = [429, 502, 503, 504];
const LIES = "report it: the ledger lies, or another server is at the URL";
const BETWEEN = "check the URL, and any proxy in between";

/**
 * @typedef {import("./verify/root.js").Root} Root
 * @typedef {import("./work.js").Ref} Ref
 * @typedef {{size: number, root: string, note: string}} Head a tree head that was believed; root in base64
 * @typedef {import("./verify/entry.js").Registered & {index: number}} Logged an entry that is proven to be in the log
 * @typedef {{size: number, news: number, commands: {incident: number, decision: number, changed: number}[]}} Hints
 * @typedef {{limit?: number, attempts?: number, stop?: AbortSignal, idle?: boolean, anew?: boolean, least?: number}} Asking limit: of the answer,
 *   in bytes; attempts: how often at most; stop: ends the request; idle: the process need not live for the answer; anew: over a new connection, and not from a cache; least: the answer is
 *   from no smaller log than this, nor than the accepted one
 * @typedef {{data: Buffer, link: string}} Answer link: where the next page is
 */

/**
 * Opens a tree head that a pinned key signed.
 *
 * @param {Root} root @param {string} note
 * @returns {Promise<Head>}
 * @throws {Unproven}
 */
export async function openHead(root, note) {
  const signatures = new Signatures();
  try {
    const head = await signatures.settle(() => new Opener(root).open(note, signatures));
    return { size: Number(head.size), root: head.root, note };
  } catch (why) {
    if (!(why instanceof StepError)) throw why;
    throw new Unproven("a tree head is not signed by the pinned key of the ledger", "check the URL and the pinned root", why);
  }
}

/** A ledger under its pinned root (docs/verify.md). */
export class Ledger {
  /** @type {http.Agent} */
  #connections;
  /** @type {(keepAlive: boolean) => http.Agent} */
  #connecting;
  /** @type {typeof http | typeof https} */
  #transport;
  /** @type {URL} */
  #at;
  /** @type {((head: Head) => void) | undefined} */
  #keep;
  /** @type {Forked | null} */
  #fork = null;
  /** One head at a time is believed. @type {Promise<unknown>} */
  #turn = Promise.resolve();

  /**
   * @param {string} url
   * @param {Root} root
   * @param {{tlsCA?: string | undefined, keep?: (head: Head) => void}} [options] keep: called with each head that is accepted
   * @throws {InputError}
   */
  constructor(url, root, { tlsCA, keep } = {}) {
    const remedy = "pass a URL such as http://127.0.0.1:8087";
    if (!URL.canParse(url)) throw new InputError(`url ${JSON.stringify(url)}: not the URL of a ledger`, remedy);
    const at = new URL(url);
    if (!["http:", "https:"].includes(at.protocol) || !at.hostname || at.search || at.hash)
      throw new InputError(`url ${JSON.stringify(url)}: not the URL of a ledger`, remedy);
    this.url = url.replace(/\/+$/, "");
    this.root = root;
    /** @type {Head | null} */
    this.accepted = null;
    this.#at = at;
    this.#keep = keep;
    this.#transport = at.protocol === "https:" ? https : http;
    const ca = tlsCA && at.protocol === "https:" ? readFileSync(tlsCA) : undefined;
    this.#connecting = (keepAlive) => (at.protocol === "https:" ? new https.Agent({ keepAlive, minVersion: "TLSv1.3", ...(ca && { ca }) }) : new http.Agent({ keepAlive }));
    this.#connections = this.#connecting(true);
  }

  // Requests

  /**
   * The body of an answer. Repeats what a repetition can help.
   *
   * @param {string} method @param {string} path @param {string} [body] @param {Asking} [asking]
   * @returns {Promise<Answer>}
   */
  async request(method, path, body = "", asking = {}) {
    const attempts = asking.attempts ?? ATTEMPTS;
    for (let attempt = 1; ; attempt++) {
      let asked = 0;
      try {
        return await this.#once(method, path, body, asking);
      } catch (why) {
        if (attempt >= attempts || !(why instanceof Unreachable || why instanceof Refused)) throw why;
        if (why instanceof Refused) asked = why.retryAfter;
        if (why instanceof Refused && (!why.temporary || asked > LONGEST_MS)) throw why;
      }
      const backoff = Math.min(BACKOFF_MS * 2 ** (attempt - 1), LONGEST_MS);
      await pause(Math.max(asked, backoff / 2 + Math.random() * backoff));
    }
  }

  /** Closes the connections. The next request opens another one. */
  close() {
    this.#connections.destroy();
  }

  /** @param {string} method @param {string} path @param {string} body @param {Asking} asking @returns {Promise<Answer>} */
  async #once(method, path, body, { limit = MAX_ANSWER, stop, idle, least = 0, anew }) {
    const needed = Math.max(least, this.accepted?.size ?? 0);
    const what = `${method} ${this.url}${path}`;
    const { status, link, data, tooLong, size } = await new Promise((resolve, reject) => {
      /** @param {Error} why */
      const fail = (why) => reject(new Unreachable(`${what}: ${why.message || why.name}`, "see that the ledger runs at this URL", why));
      const request = this.#transport.request(this.#at.origin + this.#at.pathname.replace(/\/+$/, "") + path, {
        method, agent: anew ? this.#connecting(false) : this.#connections, signal: stop,
        headers: { ...(body && { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) }), ...(needed && { "Min-Log-Size": needed }), ...(anew && { "Cache-Control": "no-cache" }) },
      });
      const timer = setTimeout(() => request.destroy(new Error(`no whole answer within ${REQUEST_MS / 1000} s`)), REQUEST_MS);
      if (idle) timer.unref();
      request.on("socket", (socket) => void (idle ? socket.unref() : socket.ref()));
      request.on("close", () => clearTimeout(timer));
      request.on("error", fail);
      request.on("response", (answer) => {
        /** @type {Buffer[]} */
        const parts = [];
        let size = 0;
        const done = (/** @type {boolean} */ long) => resolve({ status: answer.statusCode ?? 0, link: String(answer.headers["link"] ?? ""), data: Buffer.concat(parts), tooLong: long, size: Number(answer.headers["log-size"] ?? NaN) });
        answer.on("data", (/** @type {Buffer} */ part) => {
          size += part.length;
          if (size > limit) {
            done(true);
            request.destroy();
          } else parts.push(part);
        });
        answer.on("end", () => (answer.complete ? done(false) : fail(new Error("the answer breaks off"))));
        answer.on("error", fail);
        answer.on("close", () => fail(new Error("the answer breaks off")));
      });
      request.end(body);
    });
    if (tooLong) throw new Unproven(`${what}: an answer of more than ${limit} bytes`, BETWEEN);
    if (status === 200 || status === 201) return { data, link: nextPage(link) };
    if ((status === 404 || status === 503) && size < needed) throw stale(this.url, size, needed);
    throw problemOf(what, status, data);
  }

  /** The JSON of an answer. Only its form as JSON is checked. @param {string} path @param {Asking} [asking] @returns {Promise<any>} */
  async get(path, asking) {
    return json((await this.request("GET", path, "", asking)).data);
  }

  // Heads

  /**
   * Opens a tree head, and proves it consistent with the largest accepted head.
   *
   * @param {string} note
   * @returns {Promise<Head>}
   */
  async believe(note) {
    const turn = this.#turn.then(() => this.#believe(note));
    this.#turn = turn.catch(() => {});
    return turn;
  }

  /** @param {string} note @returns {Promise<Head>} */
  async #believe(note) {
    if (this.#fork) throw this.#fork;
    const known = this.accepted;
    if (known?.note === note) return known;
    const head = await openHead(this.root, note);
    if (known) await (known.size <= head.size ? this.#connect(known, head) : this.#connect(head, known));
    if (!known || head.size > known.size) {
      this.accepted = head;
      this.#keep?.(head);
    }
    return head;
  }

  /** @param {Head} older @param {Head} newer */
  async #connect(older, newer) {
    if (older.size === newer.size && older.root === newer.root) return;
    const proven = older.size === newer.size;
    try {
      const path = proven ? [] : await this.consistency(older.size, newer.size);
      if (checkConsistency(older, newer, path)) return;
    } catch (why) {
      throw why instanceof Refused && why.problem === "not-found" ? stale(this.url, older.size, newer.size) : why;
    }
    const what = `the ledger shows two logs: the one of size ${newer.size} does not continue the one of size ${older.size}`;
    this.#fork = new Forked(what, [older.note, newer.note], proven);
    throw this.#fork;
  }

  /**
   * The hashes that are to prove that the log of one size begins the log of another.
   *
   * @param {number} old @param {number} newer
   * @returns {Promise<Uint8Array[]>}
   */
  async consistency(old, newer) {
    if (old === 0 || old === newer) return [];
    const { path } = await this.get(`/v1/consistency/${old}/${newer}`, { least: newer });
    if (!Array.isArray(path)) throw formless("a consistency proof");
    return path.map((h) => parseHash(h) ?? refuse(formless("a consistency proof")));
  }

  // Entries

  /**
   * Registers a signed envelope in canonical form, and verifies the receipt. The same bytes again are
   * the same entry.
   *
   * @param {string} envelope @param {Asking} [asking]
   * @returns {Promise<Ref & {registered_at: number}>}
   */
  async submit(envelope, asking = {}) {
    const receipt = json((await this.request("POST", "/v1/entries", envelope, { limit: MAX_RECEIPT, ...asking })).data);
    const leaf = typeof receipt.leaf === "string" ? unbase64(receipt.leaf) : null;
    const shown = leaf && decode(leaf);
    const { index, head, proof } = receipt;
    if (!shown || !Number.isSafeInteger(index) || typeof head !== "string" || !Array.isArray(proof)) throw formless("a receipt");
    const inner = parse(shown);
    const at = inner?.value?.registered_at;
    if (!inner || inner.odd || !Number.isSafeInteger(at) || shown !== `{"envelope":${envelope},"registered_at":${at}}`)
      throw new Unproven("a receipt is of another entry than the one submitted", LIES);
    const hash = hashLeaf(/** @type {Uint8Array} */ (leaf));
    included(index, hash, await this.believe(head), proof);
    return { index, leaf_hash: Buffer.from(hash).toString("base64"), registered_at: at };
  }

  /**
   * The entries of the log from an index on, without a gap, each proven to be in the log.
   *
   * @param {number} start @param {number} limit
   * @returns {Promise<Logged[]>}
   */
  async entries(start, limit) {
    const page = await this.get(`/v1/entries${query({ from: start, limit })}`);
    if (typeof page.head !== "string" || !Array.isArray(page.entries)) throw formless("a page of entries");
    const head = await this.believe(page.head);
    /** @type {Logged[]} */
    const found = [];
    for (const item of page.entries) {
      const { index, envelope, registered_at, proof } = item ?? {};
      if (index !== start + found.length) throw new Unproven(`entry ${index} stands in the place of ${start + found.length}`, "report it: the server leaves entries out");
      if (!envelope || registered_at === undefined || !Array.isArray(proof)) throw formless("a page of entries");
      let e;
      try {
        e = decodeLeaf(index, canonical({ envelope, registered_at }));
      } catch (why) {
        throw new Unproven(`entry ${index} is not one that the log takes`, LIES, why);
      }
      included(index, e.hash, head, proof);
      found.push({ ...e, index });
    }
    return found;
  }

  // What an agent asks

  /**
   * Hints at what there is to do. The server's word alone.
   *
   * @param {string} agent @param {number} start @param {number} wait in milliseconds @param {Asking} [asking]
   * @returns {Promise<Hints>}
   */
  async commands(agent, start, wait, asking = {}) {
    const asked = wait ? query({ from: start, wait: Math.max(0, Math.min(Math.round(wait), MAX_WAIT_MS)) }) : "";
    const answer = await this.get(`/v1/agents/${encodeURIComponent(agent)}/commands${asked}`, { attempts: 1, least: start, ...asking });
    const numbers = (/** @type {any} */ of, /** @type {string[]} */ ...names) => Object.fromEntries(names.map((name) => {
      const value = of?.[name] ?? (name === "news" ? 0 : undefined);
      return [name, Number.isSafeInteger(value) ? value : refuse(formless("an answer with commands"))];
    }));
    if (!Array.isArray(answer.commands)) throw formless("an answer with commands");
    const commands = answer.commands.map((/** @type {any} */ c) => numbers(c, "incident", "decision", "changed"));
    return /** @type {Hints} */ (/** @type {unknown} */ ({ ...numbers(answer, "size", "news"), commands }));
  }

  /**
   * A page of a bundle as received, not believed; and where the next page begins, 0: nowhere.
   *
   * @param {string} agent @param {number} incident 0 asks for news @param {Record<string, number | boolean>} asked
   * @param {boolean} [anew] over a new connection, past what caches keep
   * @returns {Promise<{data: Uint8Array, after: number}>}
   */
  async bundle(agent, incident, asked, anew = false) {
    const some = Object.fromEntries(Object.entries(asked).filter(([, value]) => value));
    const path = incident ? `/v1/incidents/${incident}/bundle${query({ agent, ...some })}` : `/v1/agents/${encodeURIComponent(agent)}/news${query(some)}`;
    const { data, link } = await this.request("GET", path, "", { limit: MAX_BUNDLE, anew });
    const after = link ? new URLSearchParams(link.split("?")[1] ?? "").get("after") ?? "" : "0";
    if (link && !(/^\d{1,15}$/.test(after) && Number(after) > Number(asked["after"] ?? 0))) throw new Unproven("the pages of a bundle do not go on", BETWEEN);
    let end = data.length;
    while (end && data[end - 1] === 10) end--;
    return { data: data.subarray(0, end), after: Number(after) };
  }

  /**
   * What the policy in force has a loop do about one failure, as docs/recovery-reference.md describes. Not proven.
   *
   * @param {object} question
   * @returns {Promise<any>}
   */
  async decide(question) {
    const { decision } = json((await this.request("POST", "/v1/decide", JSON.stringify(question))).data);
    const { action, rule, failure, rung } = decision ?? {};
    const texts = [action?.strategy, action?.reason, rule?.id, failure?.class, failure?.code];
    if (!rung || texts.some((t) => typeof t !== "string") || ![rule.rung, action.wait_ms ?? 0].every(Number.isSafeInteger)) throw formless("a decision");
    return decision;
  }

  /**
   * What the server says about an incident, not proven.
   *
   * @param {number} number
   * @returns {Promise<{state: string, waits_for?: string}>}
   */
  async incident(number) {
    const answer = await this.get(`/v1/incidents/${number}`);
    if (typeof answer.state !== "string") throw formless("an incident");
    return answer;
  }

  /**
   * All members of the plan in force, not proven, ascending by place.
   *
   * @param {number} incident
   * @returns {Promise<any[]>}
   */
  async plan(incident) {
    const members = [];
    for (let path = `/v1/incidents/${incident}/plan?limit=1000`; path; ) {
      const page = await this.get(path);
      if (!Array.isArray(page.members) || page.members.some((/** @type {any} */ m) => m === null || typeof m !== "object")) throw formless("a plan");
      members.push(...page.members);
      path = String(page.next ?? "");
      if (path && (!page.members.length || members.length > MAX_PLAN || !path.startsWith("/v1/incidents/"))) throw new Unproven("the pages of a plan do not go on", BETWEEN);
    }
    return members;
  }
}

/** @param {string} what */
const formless = (what) => new Unproven(`${what} has not the form of one`, BETWEEN);

/** @param {Error} why @returns {never} */
function refuse(why) {
  throw why;
}

/** @param {Uint8Array} data @returns {any} an object, read as strictly as the log is */
function json(data) {
  const text = decode(data);
  const parsed = text === null ? null : parse(text);
  if (!parsed || parsed.odd || parsed.value === null || typeof parsed.value !== "object") throw new Unproven("an answer is not the JSON of a ledger", BETWEEN);
  return parsed.value;
}

/** @param {number} index @param {Uint8Array} leaf @param {Head} head @param {any[]} proof */
function included(index, leaf, head, proof) {
  const path = proof.map((h) => parseHash(h) ?? refuse(formless("a proof")));
  if (!checkInclusion(index, leaf, head, path)) throw new Unproven(`entry ${index} is not proven to be in the log`, LIES);
}

/** @param {Record<string, string | number | boolean>} members */
function query(members) {
  const text = new URLSearchParams(Object.entries(members).map(([name, value]) => [name, String(value)])).toString();
  return text ? `?${text}` : "";
}

/** @param {string} link */
const nextPage = (link) => /^<([^>]*)>; rel="next"$/.exec(link)?.[1] ?? "";

/** A node is behind, or its ledger has lost entries. That is no evidence of a fork. @param {string} url @param {number} size @param {number} least */
function stale(url, size, least) {
  return new Refused("not-ready", {
    detail: `${url} is stale: its log has size ${size}, and a log of size ${least} was signed before`,
    remedy: "ask again; if it stays so, the ledger may have lost entries: compare its tree head with the last accepted one",
  });
}

/** @param {string} what @param {number} status @param {Buffer} data */
function problemOf(what, status, data) {
  let answer;
  try {
    answer = JSON.parse(data.toString());
  } catch {
    answer = null;
  }
  const name = typeof answer?.type === "string" ? answer.type : "";
  if (name.startsWith(PROBLEM)) return new Refused(name.slice(PROBLEM.length), answer);
  if (AGAIN.includes(status)) return new Unreachable(`${what}: status ${status}`, "see that the ledger runs at this URL");
  return new Unproven(`${what}: status ${status}, which no ledger answers here`, BETWEEN);
}
