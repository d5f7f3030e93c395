// @ts-check
/** The agent's private key, as `arl key generate` writes it: PEM, PKCS #8, not encrypted. */
import { createPrivateKey, createPublicKey, sign } from "node:crypto";
import * as fs from "node:fs";
import { InputError, reason } from "./errors.js";
import { parseKey } from "./verify/key.js";

const REMEDY = "arl key generate --out FILE writes a key file";

/** A private key: Ed25519, or ECDSA P-256. `keyid` is its OpenSSH fingerprint, SHA256:… */
export class Key {
  /** @type {import("node:crypto").KeyObject} */
  #key;

  /** @param {import("node:crypto").KeyObject} key */
  constructor(key) {
    this.#key = key;
    this.public = createPublicKey(/** @type {any} */ (key)).export({ type: "spki", format: "der" }).toString("base64");
    this.keyid = parseKey(this.public).id;
  }

  /** @param {Uint8Array} message @returns {Buffer} its signature: of P-256 in DER, over SHA-256 */
  sign(message) {
    return sign(this.#key.asymmetricKeyType === "ec" ? "sha256" : null, message, this.#key);
  }
}

/**
 * Reads a key file.
 *
 * @param {string} path
 * @returns {Key}
 * @throws {InputError}
 */
export function loadKey(path) {
  let mode, content;
  try {
    mode = fs.statSync(path).mode;
    content = fs.readFileSync(path);
  } catch (why) {
    throw new InputError(`key file ${path}: ${reason(why)}`, REMEDY, why);
  }
  if (process.platform !== "win32" && mode & 0o077) throw new InputError(`key file ${path}: others may read it`, `chmod 600 ${path}`);
  if (content.subarray(0, 200).includes("ENCRYPTED"))
    throw new InputError(`key file ${path}: it is encrypted, which this package does not read`, "write an agent's key without a passphrase");
  let key;
  try {
    key = createPrivateKey(content);
  } catch (why) {
    throw new InputError(`key file ${path}: no private key in PEM`, REMEDY, why);
  }
  const type = key.asymmetricKeyType;
  if (type !== "ed25519" && !(type === "ec" && key.asymmetricKeyDetails?.namedCurve === "prime256v1"))
    throw new InputError(`key file ${path}: neither Ed25519 nor ECDSA P-256`, REMEDY);
  return new Key(key);
}
