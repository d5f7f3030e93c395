// @ts-check
/** Bundles, and what an agent keeps of a ledger: their one form (docs/bundle.md). */
import { size as bytesOf, text } from "./bytes.js";
import { FormatError, Refusal } from "./errors.js";
import { decodeLeaf } from "./entry.js";
import { checkSubjects, SUBJECT } from "./history.js";
import { parse } from "./json.js";
import { checkLimits, MAX_LEAF, MAX_PATH } from "./material.js";
import { Opener, ROOT } from "./root.js";
import { read } from "./shape.js";

const MAX_SIZE = 8 << 20;
const MAX_ENTRIES = 8192;
const MAX_MEMBERS = 4096;
const MAX_AFTER = 256;
const MAX_ACCEPTED = 32 << 20;
const MAX_LINKS = 16_384;
const MAX_INCIDENTS = 65_536;
const DEPTH = 10_000;

/**
 * @typedef {import("./merkle.js").Uint} Uint
 * @typedef {{index: Uint, leaf: string}} Leaf
 * @typedef {{agent: string, checkpoint?: string, exec: string, index: Uint, leaf_hash: string, method: string}} Member
 * @typedef {{place: Uint, member: Member, after?: Uint[], by?: Uint}} PlanMember
 * @typedef {{exec: Uint, rule: string, from: Uint, by?: Uint, checkpoint?: Uint}} Step
 * @typedef {{agent: string, decision?: Uint, head: string, from: Uint, consistency: string[], entries: Leaf[], inclusion: string[],
 *   members: PlanMember[], membership: string[], steps: Step[], index?: Uint, subjects?: import("./history.js").Subject[], prefix?: string[]}} Bundle
 * @typedef {{incident: Uint, epoch: number, settled?: number, lapses?: number}} Epoch the highest of an incident, from any act;
 *   where it is of an escalate, that one's exp, and the highest from another act
 * @typedef {{root: import("./root.js").Root, agent: string, head: string, confirmed: boolean, links: Leaf[],
 *   epochs: Epoch[]}} Accepted
 */

const LEAF = { index: "uint", leaf: "raw" };
const BUNDLE = {
  agent: "text", "decision?": "uint", head: "text", from: "uint", consistency: ["hash"], entries: [LEAF], inclusion: ["hash"],
  members: [{
    place: "uint",
    member: { agent: "text", "checkpoint?": "text", exec: "text", index: "uint", leaf_hash: "hash", method: "text" },
    "after?": ["uint"], "by?": "uint",
  }],
  membership: ["hash"],
  steps: [{ exec: "uint", rule: "text", from: "uint", "by?": "uint", "checkpoint?": "uint" }],
  "index?": "uint", "subjects?": [SUBJECT], "prefix?": ["sibling"],
};
const ACCEPTED = {
  root: ROOT, agent: "text", head: "text", confirmed: "flag", links: [LEAF], epochs: [{ incident: "uint", epoch: "count", "settled?": "count", "lapses?": "count" }],
};

/**
 * @param {string} what
 * @param {any} shape
 * @param {string | Uint8Array} given
 * @param {number} limit
 */
function decode(what, shape, given, limit) {
  const data = typeof given === "string" ? given : text(given) ?? "";
  if (bytesOf(data) > limit) throw new FormatError(what, `more than ${limit} bytes`);
  const parsed = parse(data, DEPTH);
  if (!parsed || parsed.spaced || !parsed.plain) throw new FormatError(what, "not JSON in the one form it is written in");
  const value = read(what, shape, parsed.value, true);
  for (const leaf of value.entries ?? value.links) leaf.leaf = leaf.leaf && typeof leaf.leaf === "object" ? parsed.source(leaf.leaf) || leaf.leaf.raw : JSON.stringify(leaf.leaf);
  return value;
}

/** @param {string} name whether it is printable ASCII that JSON writes as it is */
const isPlain = (name) => /^[ !#-[\]-~]{0,257}$/.test(name);

/** @param {Uint[]} numbers */
const ascends = (numbers) => numbers.every((n, i) => i === 0 || /** @type {Uint} */ (numbers[i - 1]) < n);

/**
 * Reads a bundle, which has one form.
 *
 * @param {string | Uint8Array} data
 * @returns {Bundle}
 * @throws {FormatError}
 */
export function decodeBundle(data) {
  /** @type {Bundle} */
  const b = decode("bundle", BUNDLE, data, MAX_SIZE);
  const need = (/** @type {boolean} */ holds, /** @type {string} */ what) => {
    if (!holds) throw new FormatError("bundle", what);
  };
  checkLimits("bundle", b.consistency, b.head);
  need(b.agent !== "" && isPlain(b.agent), "agent is no principal");
  need(b.entries.length <= MAX_ENTRIES && b.members.length <= MAX_MEMBERS && b.steps.length <= MAX_ENTRIES, "too many entries, members or steps");
  need(b.inclusion.length <= MAX_PATH * (b.entries.length + 1) && b.membership.length <= MAX_PATH * b.members.length, "too many hashes");
  need(b.decision === undefined ? b.members.length + b.steps.length === 0 : b.members.length > 0, "members go with a decision");
  const { index, subjects, prefix } = b;
  need(index === undefined ? !subjects && !prefix : b.decision !== undefined && subjects !== undefined, "an index goes with a decision and with subjects");
  checkSubjects("bundle", { subjects: subjects ?? [], prefix: prefix ?? [] }, MAX_PATH);
  need(ascends(b.entries.map((e) => e.index)), "entries do not ascend");
  need(b.entries.every((e) => bytesOf(e.leaf) <= MAX_LEAF), "a leaf is too large");
  need(ascends(b.members.map((m) => m.place)), "members do not ascend");
  for (const { place, member, after = [] } of b.members) {
    need([member.agent, member.exec, member.checkpoint ?? "", member.method].every(isPlain), "a member with a text that is no name");
    need(after.length <= MAX_AFTER && ascends(after) && after.every((p) => p < place), "after names no ascending places below its own");
  }
  need(ascends(b.steps.map((s) => s.exec)), "steps do not ascend");
  for (const s of b.steps) need(s.rule === "SCO-2" || (/^SCO-[13]$/.test(s.rule) && !s.by && !s.checkpoint), "a step of no rule, or with what is not of its rule");
  return b;
}

/**
 * Reads what an agent has accepted. Its head is looked at when a bundle is
 * checked.
 *
 * @param {string | Uint8Array} data
 * @returns {Accepted}
 * @throws {FormatError}
 */
export function decodeAccepted(data) {
  const accepted = decode("accepted state", ACCEPTED, data, MAX_ACCEPTED);
  checkAccepted(accepted);
  return accepted;
}

/**
 * @param {Accepted} a
 * @returns {import("./entry.js").Registered[]} its links
 * @throws {FormatError}
 */
export function checkAccepted(a) {
  const need = (/** @type {boolean} */ holds, /** @type {string} */ what) => {
    if (!holds) throw new FormatError("accepted state", what);
  };
  need(a.links.length <= MAX_LINKS && a.epochs.length <= MAX_INCIDENTS, "too many links or incidents");
  need(isPlain(a.agent), "agent is no principal");
  need(a.head !== "" || !(a.confirmed || a.links.length || a.epochs.length), "no head, but something that rests on one");
  need(ascends(a.epochs.map((e) => e.incident)), "epochs do not ascend");
  need(a.epochs.every((e) => (e.lapses ? (e.settled ?? 0) < e.epoch : !e.settled)), "a settled epoch without one above it that lapses");
  new Opener(a.root);
  need(ascends(a.links.map((l) => l.index)), "links do not ascend");
  try {
    const links = a.links.map((l) => decodeLeaf(l.index, l.leaf));
    need(links.every((l) => l.kind === "policy" || l.kind === "agent"), "a link that is neither policy nor agent");
    return links;
  } catch (error) {
    throw error instanceof Refusal ? new FormatError("accepted state", `a link: ${error.message}`) : error;
  }
}

/** @param {Epoch} e @returns {[string, string][]} */
function epochMembers(e) {
  const all = /** @type {[string, any][]} */ ([["incident", e.incident], ["epoch", e.epoch], ["settled", e.settled], ["lapses", e.lapses]]);
  return all.filter(([name, value], i) => i < 2 || value).map(([name, value]) => [name, String(value)]);
}

/**
 * Takes up the epoch of a decision. A proposal counts until it expires: nothing can carry it out then.
 *
 * @param {Epoch} e @param {any} d @returns {Epoch}
 */
export function raiseEpoch(e, d) {
  const { incident } = e;
  if (d.act !== "escalate") {
    if (d.epoch >= e.epoch) return { incident, epoch: d.epoch };
    return e.lapses ? pending(e, Math.max(e.settled ?? 0, d.epoch), e.lapses) : e;
  }
  if (d.epoch <= e.epoch) return e;
  return pending({ incident, epoch: d.epoch }, e.lapses ? e.settled ?? 0 : e.epoch, d.exp);
}

/** @param {Epoch} e @param {number} settled @param {number} lapses @returns {Epoch} */
const pending = ({ incident, epoch }, settled, lapses) => (settled ? { incident, epoch, settled, lapses } : { incident, epoch, lapses });

/** @param {Epoch | undefined} e @param {number} now milliseconds */
export const epochAt = (e, now) => (!e ? 0 : e.lapses && e.lapses * 1000 <= now ? e.settled ?? 0 : e.epoch);

/**
 * Writes what an agent has accepted, in its one form.
 *
 * @param {Accepted} a
 */
export function encodeAccepted(a) {
  const number = (/** @type {any} */ v) => (typeof v === "bigint" ? String(v) : JSON.stringify(v));
  const object = (/** @type {[string, string][]} */ ...members) => "{" + members.map(([name, value]) => `"${name}":${value}`).join(",") + "}";
  const { root } = a;
  /** @type {[string, string][]} */
  const pinned = [["origin", JSON.stringify(root.origin)], ["ledger_keys", JSON.stringify(root.ledger_keys)]];
  if (root.since) pinned.push(["since", number(root.since)]);
  if (root.retired?.length) pinned.push(["retired", `[${root.retired.map((r) => object(["key", JSON.stringify(r.key)], ["size", number(r.size)])).join(",")}]`]);
  pinned.push(["genesis", JSON.stringify(root.genesis)]);
  if (root.witnesses) pinned.push(["witnesses", JSON.stringify(root.witnesses)]);
  if (root.head) pinned.push(["head", JSON.stringify(root.head)]);
  return object(
    ["root", object(...pinned)],
    ["agent", JSON.stringify(a.agent)],
    ["head", JSON.stringify(a.head)],
    ["confirmed", String(a.confirmed)],
    ["links", `[${a.links.map((l) => object(["index", number(l.index)], ["leaf", l.leaf])).join(",")}]`],
    ["epochs", `[${a.epochs.map((e) => object(...epochMembers(e))).join(",")}]`],
  );
}
