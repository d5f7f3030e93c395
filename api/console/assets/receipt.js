// @ts-check
/**
 * The button "Verify here" on the page of an entry: verifies the receipt in the
 * browser, with code that shares nothing with the program behind the page.
 */
import { FormatError, ForkError, StepError, STEPS, verifyFiles } from "./verify/index.js";

const button = /** @type {HTMLButtonElement} */ (document.getElementById("verify"));
const verdict = /** @type {HTMLElement} */ (document.getElementById("verdict"));

/** @param {string | undefined} path @returns {Promise<string>} */
async function get(path = "") {
  const answer = await fetch(path, { cache: "no-store" });
  if (!answer.ok) throw new Error(`${path} answers ${answer.status}`);
  return answer.text();
}

/** @param {string} tag @param {string} text */
function element(tag, text) {
  const made = document.createElement(tag);
  made.textContent = text;
  return made;
}

/** @param {import("./verify/verify.js").Report} report @param {number} index @returns {Element[]} */
function holds(report, index) {
  const found = report.entries.find((e) => e.index === index);
  if (!found?.signed) throw new Error(`the receipts do not prove entry ${index} and its signature`);
  const { size, root } = /** @type {{size: any, root: string}} */ (report.heads.at(-1));
  const list = document.createElement("ul");
  for (const { step, name, count } of report.checked) list.append(element("li", `✓ step ${step}, ${name}: ${count}`));
  for (const gap of report.missing) list.append(element("li", `… step ${gap.step}, ${gap.name}: nothing shows ${gap.what}`));
  for (const text of [...report.not_checked, ...report.warnings]) list.append(element("li", `… not checked: ${text}`));
  const said = element("p", `✓ Verified here: entry ${index}, ${found.kind} by ${found.iss}, stands in the log of ${size} entries with the root ${root}, and is signed by a key that counted.`);
  said.className = "good";
  return [said, list];
}

/** @param {unknown} error @returns {Element[]} */
function refused(error) {
  const where = error instanceof StepError ? ` at step ${error.step}, ${STEPS[error.step]}`
    : error instanceof ForkError ? ": the ledger has signed two logs" : error instanceof FormatError ? ": this is no receipt" : "";
  const said = element("p", `✕ Refused${where}. ${error instanceof Error ? error.message : error}`);
  said.className = "alarm";
  return [said];
}

button.addEventListener("click", async () => {
  button.disabled = true;
  verdict.replaceChildren(element("p", "Verifying…"));
  try {
    const { root, receipts, index } = button.dataset;
    const [pinned, given] = await Promise.all([get(root), get(receipts)]);
    verdict.replaceChildren(...holds(await verifyFiles(pinned, given), Number(index)));
  } catch (error) {
    verdict.replaceChildren(...refused(error));
  }
  button.disabled = false;
});
if (crypto.subtle) button.hidden = false;
else verdict.textContent = "This page is neither on loopback nor behind TLS, and a browser has no cryptography for such a page: download the receipts.";
