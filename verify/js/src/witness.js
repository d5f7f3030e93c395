// @ts-check
/** Witness policies (c2sp.org/tlog-policy) and their cosignatures. */
import { equal } from "./bytes.js";
import { FormatError } from "./errors.js";
import { ed25519 } from "./key.js";
import { COSIGNATURE, cosigned, parseNote, parseVerifierKey } from "./note.js";

const MAX_NODES = 128;

/**
 * A witness or a group of a policy.
 *
 * @typedef {{key?: import("./note.js").VerifierKey, point?: import("./key.js").PublicKey, need: number, members: string[], grouped: boolean}} Node
 */

/** The witnesses whose cosignatures a head needs. */
export class Quorum {
  /** @param {string} name @param {Map<string, Node>} nodes */
  constructor(name, nodes) {
    this.name = name;
    this.nodes = nodes;
  }

  /** The group `emergency` (WIT-6), if the policy has one. */
  emergency() {
    return this.nodes.get("emergency")?.members.length ? new Quorum("emergency", this.nodes) : null;
  }

  /**
   * The time (Unix seconds) that the cosignatures of the quorum on a signed head
   * are not older than. ML-DSA-44 cosignatures are not checked, and do not count.
   *
   * @param {string} note
   * @param {number} latest later cosignatures do not count
   * @param {import("./key.js").Signatures} signatures
   * @returns {import("./merkle.js").Uint | null} null if the quorum has not cosigned it
   */
  since(note, latest, signatures) {
    const parsed = signatures.once(`note ${note}`, () => parseNote(note));
    /** @type {(name: string) => import("./merkle.js").Uint | null} */
    const age = (name) => {
      const node = /** @type {Node} */ (this.nodes.get(name));
      if (node.key) return parsed && newest(node, parsed, latest, signatures);
      const times = node.members.map(age).filter((at) => at !== null).sort((a, b) => (a > b ? -1 : 1));
      return times[node.need - 1] ?? null;
    };
    return age(this.name);
  }
}

/**
 * @param {Node} node
 * @param {import("./note.js").Note} note
 * @param {number} latest
 * @param {import("./key.js").Signatures} signatures
 */
function newest(node, note, latest, signatures) {
  /** @type {import("./merkle.js").Uint | null} */
  let best = null;
  for (const line of note.signatures) {
    if (!node.point || line.name !== node.key?.name || line.hash !== node.key.hash || !line.strict) continue;
    const c = cosigned(note.text, line.sig);
    if (!c || c.at > latest || (best !== null && c.at <= best)) continue;
    if (signatures.good(node.point, c.message, c.sig, line)) best = c.at;
  }
  return best;
}

/** @param {string} need @param {number} members @returns {number | null} */
function needed(need, members) {
  if (need === "any") return 1;
  if (need === "all") return members;
  return /^[1-9]\d{0,3}$/.test(need) && Number(need) <= members ? Number(need) : null;
}

/**
 * Reads a witness policy.
 *
 * @param {string} policy
 * @returns {Quorum | null} null if it wants nobody's cosignature
 * @throws {FormatError}
 */
export function parseQuorum(policy) {
  if (policy === "") return null;
  /** @type {Map<string, Node>} */
  const nodes = new Map();
  let quorum = "";
  for (const [i, line] of policy.split("\n").entries()) {
    const bad = () => new FormatError("witness policy", `line ${i + 1}`);
    const [word, name = "", third = "", ...rest] = line.split(/[ \t]+/).filter((field) => field !== "");
    const fields = [name, third].filter(Boolean).length + rest.length;
    if (!word || word.startsWith("#")) continue;
    if (word === "log" && (fields === 1 || fields === 2)) continue;
    if (word === "quorum" && fields === 1 && !quorum && (nodes.has(name) || name === "none")) {
      quorum = name;
      continue;
    }
    if (nodes.has(name) || name === "none" || nodes.size >= MAX_NODES) throw bad();
    if (word === "witness" && (fields === 2 || fields === 3)) {
      const key = parseVerifierKey(third, COSIGNATURE);
      if ([...nodes.values()].some((n) => n.key && equal(n.key.raw, key.raw))) throw bad();
      nodes.set(name, { key, ...(key.type === COSIGNATURE ? { point: pointOf(key.raw, bad) } : {}), need: 0, members: [], grouped: false });
    } else if (word === "group" && fields > 2) {
      const need = needed(third, rest.length);
      if (!need) throw bad();
      for (const member of rest) {
        const node = nodes.get(member);
        if (!node || node.grouped) throw bad();
        node.grouped = true;
      }
      nodes.set(name, { need, members: rest, grouped: false });
    } else throw bad();
  }
  if (!quorum) throw new FormatError("witness policy", "no quorum");
  return quorum === "none" ? null : new Quorum(quorum, nodes);
}

/** @param {Uint8Array} raw @param {() => FormatError} bad */
function pointOf(raw, bad) {
  try {
    return ed25519("witness", raw);
  } catch {
    throw bad();
  }
}
