// @ts-check
/** The agent's private key, as `arl key generate` writes it: PEM, PKCS #8, as it is or under a passphrase. */
import { createPrivateKey, createPublicKey, sign } from "node:crypto";
import * as fs from "node:fs";
import { InputError, reason } from "./errors.js";
import { openSealed } from "./sealed.js";
import { parseKey } from "./verify/key.js";

const REMEDY = "arl key generate --out FILE writes a key file";

const SEALED = /-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----([\sA-Za-z0-9+/=]*)-----END ENCRYPTED SIGSTORE PRIVATE KEY-----/;

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
 * Reads a key file. The environment variable ARL_PASSPHRASE has the passphrase of an encrypted one, as
 * for arl.
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
  const sealed = SEALED.exec(content.toString("latin1"));
  let key;
  try {
    key = sealed ? createPrivateKey({ key: opened(path, sealed[1] ?? ""), format: "der", type: "pkcs8" }) : createPrivateKey(content);
  } catch (why) {
    if (why instanceof InputError) throw why;
    throw new InputError(`key file ${path}: no private key in PEM`, REMEDY, why);
  }
  const type = key.asymmetricKeyType;
  if (type !== "ed25519" && !(type === "ec" && key.asymmetricKeyDetails?.namedCurve === "prime256v1"))
    throw new InputError(`key file ${path}: neither Ed25519 nor ECDSA P-256`, REMEDY);
  return new Key(key);
}

/** @param {string} path @param {string} body of the PEM block @returns {Buffer} the private key of an encrypted file, in DER */
function opened(path, body) {
  const passphrase = process.env["ARL_PASSPHRASE"];
  if (!passphrase) throw new InputError(`key file ${path}: it is encrypted`, "set ARL_PASSPHRASE to its passphrase");
  try {
    return openSealed(Buffer.from(body, "base64").toString("utf8"), passphrase);
  } catch (why) {
    throw new InputError(`key file ${path}: ${reason(why)}`, "check ARL_PASSPHRASE, and restore the file if it is damaged", why);
  }
}
