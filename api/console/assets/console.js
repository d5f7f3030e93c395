// @ts-check
/**
 * What the pages do beside being read: copy the command, keys, the picture's
 * threads, and news of the log as it grows. Without this file the pages show all
 * the same.
 */

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const base = main.dataset.base ?? "/";
const keys = /** @type {HTMLDialogElement} */ (document.getElementById("keys-help"));
const news = /** @type {HTMLElement} */ (document.getElementById("news"));

// Copy

const command = /** @type {HTMLElement} */ (document.getElementById("command"));
const copyButton = /** @type {HTMLButtonElement} */ (document.getElementById("copy-command"));

/** The clipboard is there on loopback and over TLS alone. */
copyButton.hidden = !navigator.clipboard;

async function copy() {
  if (copyButton.hidden) return;
  try {
    await navigator.clipboard.writeText(command.textContent);
    say("The command is copied.");
  } catch {
    say("The browser did not let this page copy.");
  }
}

copyButton.addEventListener("click", copy);

/** @param {string} text a screen reader reads, too */
function say(text) {
  news.textContent = text;
}

if (document.getElementById("verify")) import("./receipt.js");

// Keys

const KEYS_OFF = "arl-keys-off";

/** Where a key leads after g. @type {Record<string, string>} */
const PLACES = { o: "", i: "incidents", t: "tasks", a: "agents", r: "rollouts", l: "log", h: "health", b: "lab" };

/** Acts of the other keys. @type {Record<string, () => void>} */
const ACTS = {
  j: () => walk(1),
  k: () => walk(-1),
  "/": () => /** @type {HTMLElement | null} */ (main.querySelector("form input"))?.focus(),
  y: copy,
  r: () => location.reload(),
  "?": () => keys.showModal(),
};

/** Moves the focus to the first link of the next row that has one. @param {number} step */
function walk(step) {
  const links = [...main.querySelectorAll("tbody tr")].flatMap((row) => /** @type {HTMLElement | null} */ (row.querySelector("a")) ?? []);
  const here = links.findIndex((link) => link.closest("tr")?.contains(document.activeElement));
  links[here < 0 ? (step > 0 ? 0 : links.length - 1) : here + step]?.focus();
}

let going = false;

/** @param {KeyboardEvent} event */
function press(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  const typing = target.closest?.("input, select, textarea, dialog");
  if (typing || event.ctrlKey || event.altKey || event.metaKey || event.isComposing || localStorage.getItem(KEYS_OFF)) return;
  const place = PLACES[event.key];
  const act = ACTS[event.key];
  if (going && place !== undefined) {
    const link = document.querySelector(`nav a[href="${CSS.escape(base + place)}"]`);
    if (link) location.assign(base + place);
  } else if (act) {
    event.preventDefault();
    act();
  }
  going = event.key === "g";
}

document.addEventListener("keydown", press);

const keysOn = /** @type {HTMLInputElement} */ (document.getElementById("keys-on"));
keysOn.checked = !localStorage.getItem(KEYS_OFF);
keysOn.addEventListener("change", () => (keysOn.checked ? localStorage.removeItem(KEYS_OFF) : localStorage.setItem(KEYS_OFF, "1")));

const keysButton = /** @type {HTMLButtonElement} */ (document.getElementById("show-keys"));
keysButton.hidden = false;
keysButton.addEventListener("click", () => keys.showModal());

// The picture: what leads to a box, and what follows from it

/** @param {Element} svg @param {string} box @returns {Element[]} boxes and arrows */
function threads(svg, box) {
  const edges = /** @type {SVGElement[]} */ ([...svg.querySelectorAll("[data-from]")]);
  const found = new Set([/** @type {Element} */ (svg.querySelector(`[data-box="${box}"]`))]);
  for (const [from, to] of /** @type {const} */ ([["from", "to"], ["to", "from"]])) {
    const reached = new Set([box]);
    for (const at of reached) {
      for (const edge of edges) {
        const next = edge.dataset[to];
        if (edge.dataset[from] !== at || next === undefined) continue;
        found.add(edge).add(/** @type {Element} */ (svg.querySelector(`[data-box="${next}"]`)));
        reached.add(next);
      }
    }
  }
  return [...found];
}

/** @param {Event} event */
function light(event) {
  const at = event.type === "focusout" ? /** @type {FocusEvent} */ (event).relatedTarget : event.target;
  const box = at instanceof Element ? /** @type {SVGElement | null} */ (at.closest("[data-box]")) : null;
  for (const svg of main.querySelectorAll("svg.lit")) {
    svg.classList.remove("lit");
    for (const part of svg.querySelectorAll(".on")) part.classList.remove("on");
  }
  const svg = box?.closest("svg");
  if (!svg) return;
  svg.classList.add("lit");
  for (const part of threads(svg, box?.dataset["box"] ?? "")) part.classList.add("on");
}

for (const type of ["pointerover", "focusin"]) document.addEventListener(type, light);
document.addEventListener("focusout", light);

// Times to come

/** The ledger's clock less the clock of the browser, in milliseconds. */
const ahead = Number(main.dataset["now"]) - Date.now();

/** @param {number} left in milliseconds @returns {string} */
function remaining(left) {
  if (left <= 0) return "over";
  if (left < 60_000) return `${Math.ceil(left / 1000)} s left`;
  return left < 3_600_000 ? `${Math.floor(left / 60_000)} min left` : `${Math.floor(left / 3_600_000)} h left`;
}

/** When the page last asked for leases that agents renew: no entry tells of a renewal. */
let asked = Date.now();

/** Says beside each time to come how far it is away. */
function count() {
  if (document.hidden) return;
  for (const at of /** @type {NodeListOf<HTMLElement>} */ (main.querySelectorAll("[data-until]"))) {
    const left = Number(at.dataset["until"]) - Date.now() - ahead;
    let shown = at.nextElementSibling;
    if (!shown?.classList.contains("left")) {
      shown = document.createElement("span");
      shown.className = "left muted";
      at.after(shown);
    }
    const text = ` (${remaining(left)})`;
    if (shown.textContent !== text) shown.textContent = text;
    if (at.dataset["renew"] && Date.now() - asked >= Number(at.dataset["renew"])) {
      asked = Date.now();
      look();
    }
  }
}

// Live

/**
 * @typedef {{size: number, root: string, lost_at: number, alone: boolean, touched: Record<string, number>}} Growth
 * @typedef {{growth?: Growth, lost?: string, ask?: boolean}} Message
 */

/** The shortest time between two looks at the page again, in milliseconds. */
const PAUSE = 1000;

const about = (main.dataset["about"] ?? "").split(" ").filter(Boolean);
const room = `arl-live ${base}`;
const channel = new BroadcastChannel(room);

/** Size of the log that the page has heard of. */
let size = Number(main.dataset["size"]);
/** New entries about what the page shows that the page does not show. */
let unseen = 0;
/** Whether something new would move what is there. */
let held = false;
let looking = false;
let again = false;
/** When the program behind the page last reached the ledger; 0: it does. */
let lostAt = 0;

/** @param {Growth} growth @returns {number} how many of the new entries the page is about */
function concerns({ size: to, touched }) {
  const any = about.includes("*") || about.length && touched["*"];
  let most = any ? to - size : 0;
  for (const [subject, count] of Object.entries(touched)) {
    const type = subject.slice(0, subject.indexOf("/") + 1);
    if (!any && (about.includes(subject) || about.includes(`${type}*`))) most = Math.max(most, count);
  }
  return most;
}

/** @param {number} at */
const clock = (at) => `${new Date(at).toISOString().slice(11, 19)}Z`;

/** @param {Message} message */
function hear({ growth, lost }) {
  if (lost !== undefined) say(lost && `No contact since ${lost}. This page tries again.`);
  if (growth?.alone && main.dataset["alone"] === undefined) location.reload();
  if (growth && growth.lost_at !== lostAt) {
    lostAt = growth.lost_at;
    say(lostAt ? `No contact with the ledger since ${clock(lostAt)}. What is shown is as of then.` : "The ledger is reached again.");
    look(); // the first line of the page says so, too
  }
  if (!growth || growth.size <= size) return;
  const count = concerns(growth);
  size = growth.size;
  unseen += count;
  if (count) look();
}

/** Asks for the page again, at most once a second, and not while nobody sees it. */
function look() {
  if (looking || document.hidden) {
    again = true;
    return;
  }
  looking = true;
  again = false;
  const request = new XMLHttpRequest();
  request.responseType = "document";
  request.open("GET", location.href);
  request.onload = () => request.status === 200 && request.responseXML && update(request.responseXML);
  request.onloadend = () => setTimeout(() => {
    looking = false;
    if (again) look();
  }, PAUSE);
  request.send();
}

/**
 * Puts the live parts of a newer page in the place of the older ones. A part that
 * is pointed at, or has the focus, stays as it is. So does one whose height would
 * change: everything below it would move.
 *
 * @param {Document} page
 */
function update(page) {
  if (goesOn && page.getElementById("main")?.dataset["again"] === undefined) return location.reload();
  let changed = false;
  held = false;
  for (const old of main.querySelectorAll("[data-live]")) {
    const part = page.getElementById(old.id);
    if (part?.isEqualNode(old)) continue;
    changed = true;
    if (!part || old.contains(document.activeElement) || old.matches(":hover") || !fits(old, part)) held = true;
  }
  for (const part of page.querySelectorAll("main [data-live]")) if (!document.getElementById(part.id)) held = changed = true;
  const badge = page.getElementById("badge");
  const newer = page.getElementById("main")?.dataset["size"] ?? "";
  // The first line names the size of what is shown.
  if (badge && (!held || newer === main.dataset["size"])) document.getElementById("badge")?.replaceChildren(...badge.childNodes);
  if (changed && unseen) say(`${unseen} new, ${held ? "press r" : "shown"}`);
  if (held) return;
  unseen = 0;
  main.dataset["size"] = newer;
}

/** @param {Element} old @param {Element} part @returns {boolean} whether the part stands in the old one's place */
function fits(old, part) {
  const { height } = old.getBoundingClientRect();
  const { scrollLeft } = old;
  old.replaceWith(part);
  count();
  part.scrollLeft = scrollLeft;
  if (Math.abs(part.getBoundingClientRect().height - height) < 1) return true;
  part.replaceWith(old);
  return false;
}

/** Whether the page shows something that goes on. */
const goesOn = main.dataset["again"] !== undefined;
if (goesOn) setInterval(look, PAUSE);

/** Keeps one stream for all pages of the browser: whoever has the lock has the stream. */
function lead() {
  /** @type {Growth | undefined} */
  let last;
  /** @param {Message} message */
  const tell = (message) => {
    hear(message);
    channel.postMessage(message);
  };
  const stream = new EventSource(`${base}live?size=${size}`);
  let lost = false;
  stream.onmessage = (event) => {
    last = JSON.parse(event.data);
    tell({ growth: /** @type {Growth} */ (last) });
  };
  stream.onerror = () => {
    if (!lost) tell({ lost: clock(Date.now()) });
    lost = true;
  };
  stream.onopen = () => {
    if (lost) tell({ lost: "" });
    lost = false;
  };
  channel.addEventListener("message", ({ data }) => {
    if (data.ask && last) channel.postMessage({ growth: { ...last, touched: { "*": 1 } } });
  });
}

channel.addEventListener("message", ({ data }) => hear(data));
document.addEventListener("visibilitychange", () => again && look());
count();
setInterval(count, 1000);
// Locks are there on loopback and over TLS alone; else the page is not live.
if (navigator.locks) {
  channel.postMessage({ ask: true });
  navigator.locks.request(room, () => new Promise(lead));
}
