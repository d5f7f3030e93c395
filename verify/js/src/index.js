// @ts-check
/**
 * Verifies what an agent recovery ledger hands out, offline, against a pinned
 * root: docs/verify.md says what is checked, docs/bundle.md what an agent may
 * obey. It needs WebCrypto, and nothing else.
 */
import { FormatError } from "./errors.js";
import { Material } from "./material.js";
import { parseRoot } from "./root.js";
import { verify } from "./verify.js";

export { ForkError, FormatError, IndexError, Refusal, RuleError, StepError, STEPS } from "./errors.js";
export { decodeEnvelope, decodeLeaf } from "./entry.js";
export { checkConsistency, checkInclusion, checkInclusions, hashLeaf } from "./merkle.js";
export { decodeAccepted, decodeBundle, encodeAccepted } from "./bundle.js";
export { checkBundle } from "./check.js";
export { Material, parseRoot, verify };

/**
 * Verifies files: receipts, pages of entries, consistency proofs, tree heads,
 * .tlog-proof files with their leaves, and evidence, in any order.
 *
 * @param {string | Uint8Array} root the pinned root, as JSON
 * @param {(string | Uint8Array)[]} files
 * @returns {Promise<import("./verify.js").Report>}
 * @throws {FormatError | import("./errors.js").StepError | import("./errors.js").ForkError}
 */
export async function verifyFiles(root, ...files) {
  const material = new Material();
  files.forEach((file, i) => material.add(`file ${i + 1}`, file));
  return verify(parseRoot(root), material);
}
