// @ts-check
/**
 * The state of an agent: small documents, each replaced whole and synced.
 *
 * A document is a file NAME.doc. Its first line is `arl-agent/1 NAME SHA-256`, over the rest: a
 * document that was changed is noticed. After a crash a document is the old one or the new one.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import * as fs from "node:fs";
import { basename, dirname, join } from "node:path";
import { reason, StateError } from "./errors.js";
import { canonical } from "./verify/json.js";

const MAGIC = "arl-agent/1";
const MAX_DOCUMENT = (32 << 20) + 256; // bytes
const MAX_DOCUMENTS = 1 << 20;

/** A document is not what was saved. */
export class Damaged extends Error {}

/**
 * Waits until the disk has the names in a directory.
 *
 * @param {string} path
 */
function syncDir(path) {
  if (process.platform === "win32") return;
  const folder = fs.openSync(path, "r");
  try {
    fs.fsyncSync(folder);
  } finally {
    fs.closeSync(folder);
  }
}

/**
 * Replaces a file. After a crash it has the old content or the new one.
 *
 * @param {string} path
 * @param {Uint8Array | string} content
 */
export function writeFile(path, content) {
  const file = fs.openSync(`${path}.new`, "w", 0o600);
  try {
    fs.writeFileSync(file, content);
    fs.fsyncSync(file);
  } finally {
    fs.closeSync(file);
  }
  fs.renameSync(`${path}.new`, path);
  syncDir(dirname(path));
}

/** @param {string} name @param {Uint8Array} content */
const firstLine = (name, content) => `${MAGIC} ${name} ${createHash("sha256").update(content).digest("hex")}`;

/** Documents in a directory. One process at a time has a store. */
export class Store {
  /** @type {number | null} */
  #lock;

  /** @param {string} path @throws {StateError} */
  constructor(path) {
    this.path = path;
    try {
      fs.mkdirSync(path, { recursive: true, mode: 0o700 });
      this.#lock = openLocked(join(path, ".lock"));
    } catch (why) {
      if (why instanceof StateError) throw why;
      throw new StateError(`state ${path}: ${reason(why)}`, "pass state: with a directory that can be written", why);
    }
    if (this.#lock === null) throw new StateError(`state ${path}: another process has it`, "end that process, or give each agent its own state:");
  }

  /** Gives the directory free for other processes. */
  close() {
    if (this.#lock !== null) fs.closeSync(this.#lock);
    this.#lock = null;
  }

  /** @returns {string[]} the names of all documents, in order */
  names() {
    const found = fs.readdirSync(this.path).map((file) => /^([a-z0-9-]{1,128})\.doc$/.exec(file)?.[1] ?? "").filter(Boolean).sort();
    if (found.length > MAX_DOCUMENTS) throw new StateError(`state ${this.path}: ${found.length} documents, the limit is ${MAX_DOCUMENTS}`);
    return found;
  }

  /**
   * The value in a document.
   *
   * @param {string} name
   * @returns {any}
   * @throws {Damaged} also if there is none
   */
  load(name) {
    try {
      return JSON.parse(this.loadText(name));
    } catch (why) {
      throw why instanceof Damaged ? why : new Damaged(`document ${name}: not JSON`);
    }
  }

  /** @param {string} name @returns {string} the JSON in a document @throws {Damaged} */
  loadText(name) {
    let data;
    try {
      data = fs.readFileSync(join(this.path, `${name}.doc`));
    } catch (why) {
      throw new Damaged(`document ${name}: ${reason(why)}`);
    }
    const end = data.indexOf("\n");
    const content = end < 0 ? Buffer.alloc(0) : data.subarray(end + 1);
    if (data.length > MAX_DOCUMENT || end < 0 || data.subarray(0, end).toString("latin1") !== firstLine(name, content))
      throw new Damaged(`document ${name}: its first line does not match its content`);
    return content.toString();
  }

  /**
   * Replaces a document. It is durable when save returns.
   *
   * @param {string} name @param {any} value
   * @throws {StateError}
   */
  save(name, value) {
    this.saveText(name, canonical(JSON.parse(JSON.stringify(value))));
  }

  /** Replaces a document by JSON that stands as it is. @param {string} name @param {string} json @throws {StateError} */
  saveText(name, json) {
    const content = Buffer.from(json);
    try {
      writeFile(join(this.path, `${name}.doc`), Buffer.concat([Buffer.from(`${firstLine(name, content)}\n`), content]));
    } catch (why) {
      throw new StateError(`state ${this.path}: document ${name}: ${reason(why)}`, "make room, or mend the disk", why);
    }
  }
}

const BSD_EXLOCK = 0x20; // O_EXLOCK: a lock as of flock(2), taken with open
const WINDOWS_EXLOCK = 0x10000000; // UV_FS_O_EXLOCK: no other process opens the file

/**
 * Opens a file under an exclusive lock, which ends with the process. On Linux the lock is that of
 * flock(2), as other implementations take it: a program takes it for the descriptor that it
 * inherits, and the descriptor holds it on.
 *
 * @param {string} path
 * @returns {number | null} null if another process has it
 */
function openLocked(path) {
  const { O_RDWR, O_CREAT, O_NONBLOCK } = fs.constants;
  const exclusive = process.platform === "win32" ? WINDOWS_EXLOCK : process.platform === "linux" ? 0 : BSD_EXLOCK | O_NONBLOCK;
  let file;
  try {
    file = fs.openSync(path, O_RDWR | O_CREAT | exclusive, 0o600);
  } catch (why) {
    if (exclusive && ["EAGAIN", "EBUSY", "EWOULDBLOCK"].includes(/** @type {any} */ (why).code)) return null;
    throw why;
  }
  if (exclusive) return file;
  for (const [program, ...args] of [["flock", "-x", "-n", "3"], ["perl", "-e", "open(my $f, '>>&=3') && flock($f, 6) or exit 1"]]) {
    const done = spawnSync(/** @type {string} */ (program), args, { stdio: ["ignore", "ignore", "ignore", file] });
    if (done.error) continue; // there is no such program
    if (done.status === 0) return file;
    fs.closeSync(file);
    return null;
  }
  fs.closeSync(file);
  throw new StateError(`state ${basename(dirname(path))}: it cannot be locked`, "install the program flock, of util-linux");
}
