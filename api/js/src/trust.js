// @ts-check
/** What a machine knows of a ledger: its URL, its pinned root, and the secret of an agent. */
import { randomBytes } from "node:crypto";
import * as fs from "node:fs";
import { homedir } from "node:os";
import { basename, join } from "node:path";
import { asError, InputError, reason, StateError } from "./errors.js";
import { Ledger } from "./ledger.js";
import { writeFile } from "./store.js";
import { parseRoot } from "./verify/root.js";

const SECRET_BYTES = 32;
const SHOW = "arl root show --out FILE writes the pinned root";

/**
 * @typedef {import("./verify/root.js").Root} Root
 * @typedef {{url: string, root: Root, tlsCA?: string}} Found a ledger that is pinned
 */

/** @returns {string} ARL_HOME, by default `arl` in the user's configuration directory */
function home() {
  if (process.env["ARL_HOME"]) return process.env["ARL_HOME"];
  const config = process.platform === "win32" ? process.env["APPDATA"] : process.env["XDG_CONFIG_HOME"];
  return join(config || join(homedir(), ".config"), "arl");
}

/**
 * The ledger of a URL and a pinned root; what is not given comes from the profile in ARL_HOME.
 *
 * @param {string | undefined} url
 * @param {string | Root | undefined} root the root, or its file
 * @returns {Found}
 * @throws {InputError}
 */
export function find(url, root) {
  const given = root === undefined ? undefined : typeof root === "string" ? readRoot(root) : checked(JSON.stringify(root), "root");
  if (url !== undefined && given) return { url, root: given };
  const folder = join(home(), "profiles");
  const files = fs.existsSync(folder) ? fs.readdirSync(folder).sort() : [];
  const names = files.filter((file) => file.endsWith(".json")).map((file) => basename(file, ".json"));
  const chosen = files.includes("chosen") ? fs.readFileSync(join(folder, "chosen"), "utf8").trim() : names.length === 1 ? names[0] : "";
  if (!chosen || !names.includes(chosen)) {
    const which = names.length ? `profiles ${names.join(", ")}, and none is chosen` : "no profile of a ledger";
    throw new InputError(`${folder}: ${which}`, "start arl serve with this ARL_HOME, or pass url: and root:");
  }
  let profile;
  try {
    profile = JSON.parse(fs.readFileSync(join(folder, `${chosen}.json`), "utf8"));
  } catch (why) {
    throw new InputError(`profile ${join(folder, chosen)}.json: ${asError(why).message}`, "pass url: and root:", why);
  }
  const pinned = given ?? checked(JSON.stringify(profile?.root ?? null), `profile ${chosen}`);
  const at = url ?? profile?.url;
  if (typeof at !== "string") throw new InputError(`profile ${join(folder, chosen)}.json: it has no URL`, "pass url: and root:");
  return { url: at, root: pinned, ...(profile.tls_ca ? { tlsCA: String(profile.tls_ca) } : {}) };
}

/** @param {string} path */
function readRoot(path) {
  let content;
  try {
    content = fs.readFileSync(path, "utf8");
  } catch (why) {
    throw new InputError(`root ${path}: ${reason(why)}`, SHOW, why);
  }
  return checked(content, `root ${path}`);
}

/** @param {string} json @param {string} what @returns {Root} */
function checked(json, what) {
  try {
    return parseRoot(json);
  } catch (why) {
    throw new InputError(`${what}: not a pinned root`, SHOW, why);
  }
}

/**
 * The secret in a file, which is made if it is to be made and is not there.
 *
 * @param {string} path
 * @param {boolean} make
 * @returns {Buffer}
 */
export function secretOf(path, make) {
  let text;
  try {
    if (make && !fs.existsSync(path)) writeFile(path, `${randomBytes(SECRET_BYTES).toString("hex")}\n`);
    text = fs.readFileSync(path, "utf8").trim();
  } catch (why) {
    throw new StateError(`secret ${path}: ${reason(why)}`, "restore it from a backup: another secret makes other idempotency keys", why);
  }
  const value = /^(?:[0-9a-f]{2})*$/i.test(text) ? Buffer.from(text, "hex") : Buffer.alloc(0);
  if (value.length < SECRET_BYTES) throw new InputError(`secret ${path}: not ${SECRET_BYTES} bytes or more in hexadecimal`, "restore the file");
  return value;
}

/**
 * A tree head from another source than the ledger: a file, or the URL of a mirror.
 *
 * @param {string} source
 * @param {Found} found
 * @returns {() => Promise<string>}
 */
export function secondSource(source, found) {
  if (!source.includes("://")) {
    let note;
    try {
      note = fs.readFileSync(source, "utf8");
    } catch (why) {
      throw new InputError(`confirm ${source}: ${reason(why)}`, "pass a file with a signed tree head, or the URL of a mirror", why);
    }
    return async () => note;
  }
  const base = source.replace(/\/+$/, "").replace(/\/checkpoint$/, "");
  if (base === found.url.replace(/\/+$/, ""))
    throw new InputError(`confirm ${source}: the ledger itself is no second source`, "pass a mirror, or a file from another party");
  const mirror = new Ledger(base, found.root);
  return async () => (await mirror.request("GET", "/checkpoint")).data.toString();
}
