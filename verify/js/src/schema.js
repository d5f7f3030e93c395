// @ts-check
/** What the payload of each kind has (docs/kinds.md). */
import { parseHash } from "./merkle.js";
import { size, unbase64 } from "./bytes.js";

/**
 * A check of a value; null if it holds, else the member at fault, "" for the
 * value itself.
 *
 * @typedef {(value: any) => string | null} Check
 */

/** @type {(holds: (value: any) => boolean) => Check} */
const when = (holds) => (value) => (holds(value) ? null : "");
/** @type {(pattern: RegExp) => Check} */
const text = (pattern) => when((v) => typeof v === "string" && pattern.test(v));
/** @type {(min: number, max: number) => Check} */
const bytes = (min, max) => when((v) => typeof v === "string" && size(v) >= min && size(v) <= max);
/** @type {(min: number, max?: number) => Check} */
const number = (min, max = Number.MAX_SAFE_INTEGER) => when((v) => typeof v === "number" && v >= min && v <= max);
/** @type {(words: string) => Check} */
const one = (words) => {
  const known = words.split(" ");
  return when((v) => known.includes(v));
};

const isObject = (/** @type {any} */ v) => v !== null && typeof v === "object" && !Array.isArray(v);

/** @type {(element: Check, min?: number, max?: number, unique?: boolean) => Check} */
const list = (element, min = 0, max = 256, unique = false) => (v) => {
  if (!Array.isArray(v) || v.length < min || v.length > max) return "";
  if (unique && new Set(v).size !== v.length) return "";
  return v.some((e) => element(e) !== null) ? "" : null;
};

/**
 * An object with members; those whose name ends in ? may be absent, others are
 * ignored unless it is closed.
 *
 * @type {(members: Record<string, Check>, closed?: boolean) => Check}
 */
const object = (members, closed = false) => {
  const list = Object.entries(members).map(([key, check]) => ({ name: key.replace("?", ""), optional: key.endsWith("?"), check }));
  return (v) => {
    if (!isObject(v)) return "";
    if (closed && Object.keys(v).some((n) => !list.some((m) => m.name === n))) return "";
    for (const { name, optional, check } of list) {
      if (!(name in v)) {
        if (!optional) return name;
        continue;
      }
      const fault = check(v[name]);
      if (fault !== null) return fault ? `${name}.${fault}` : name;
    }
    return null;
  };
};

const NAME = "[\\w.:/@-]{1,128}";
const name = text(new RegExp(`^${NAME}$`));
const uuid = text(/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/);
const ref = text(new RegExp(`^${NAME}#${NAME}$`));
/** @param {string} v */
export const isName = (v) => name(v) === null;
/** @param {string} v */
export const isRef = (v) => ref(v) === null;
const word = text(/^[\da-z_.-]{1,64}$/);
const prose = bytes(1, 1024);
const digest = text(/^(hmac-)?sha256:[\da-f]{64}$/);
const flag = when((v) => typeof v === "boolean");
const count = number(0);
const positive = number(1);
const hash = when((v) => parseHash(v) !== null);
const strings = (/** @type {number} */ min) => list(when((v) => typeof v === "string"), min);
const key = when((v) => v?.length >= 4 && v.length <= 2732 && unbase64(v) !== null);
const roles = "agent enroller coordinator operator approver monitor engine";
const entryRef = object({ index: count, leaf_hash: hash });
const headRef = object({ size: count, root: hash });
const evidence = list(object({ digest, "uri?": prose }));
const results = "restored compensated not_executed irrevocable failed refused withheld unknown";
const states = "CREATED ASSIGNED IN_PROGRESS IN_REVIEW BLOCKED FAILED INTERRUPTED COMPLETED CANCELLED";

const found = object({
  index: count,
  disposition: one("corroborated self_reported dismissed inconclusive"),
  "domains?": list(name, 0, 256, true),
  "independent?": flag,
});

/** Who corroborates a signal is said of a corroborated one alone. */
const disposition = when((v) => {
  const by = v?.domains?.length > 0;
  return found(v) === null && (v.disposition === "corroborated" ? by : !by && !v.independent);
});

const dispositions = when(
  (v) => list(disposition)(v) === null && new Set(v.map((/** @type {any} */ d) => d.index)).size === v.length,
);

const reach = { members: count, agents: count, domains: count };
const cap = object({ ...reach, fenced_ms: count });
const fence = object(reach);

/** @type {Record<string, Check>} */
const attemptCase = {
  case: name,
  rungs: list(object({
    attempt: count, "step?": name, class: word, code: word, rule: word, strategy: word, "variant?": word, "model?": name, result: word,
    "cost_micro_usd?": count, "tokens?": count, "latency_ms?": count, "wait_ms?": count, reason: bytes(0, 1024),
  })),
  status: one("auto_recovered escalated passed_on no_failure"),
  "trace_digest?": digest, "cost_micro_usd?": count, "tokens?": count, "elapsed_ms?": count, "facts?": when(isObject),
};

/** @type {Record<string, Record<string, Check>>} */
const KINDS = {
  policy: {
    authority: list(object({ principal: name, key }), 1),
    roles: object({ "agent?": list(one(roles), 0, 7, true) }, true),
    windows: object({
      decide_ms: positive, answer_ms: positive, member_ms: positive, deadline_max_ms: positive,
      cooldown_ms: positive, since_max_ms: positive, bundle_max_age_ms: positive, iat_ms: positive,
    }),
    limits: object({
      incident: cap, signaler: cap, victim: cap, window_ms: positive,
      "fence?": object({ incident: fence, signaler: fence, victim: fence }),
    }),
    quotas: object({ entries_per_hour: count, signals_per_hour: positive }),
    quorum: object({ approve: positive, override: positive, signalers: positive }),
    max_step_ms: positive,
    "witnesses?": bytes(1, Infinity),
    "index?": object({ required: flag }),
    "ledger_keys?": strings(0),
    "recovery?": when(isObject),
    "previous?": entryRef,
    "predecessor?": object({ origin: bytes(1, Infinity), ledger_keys: strings(1), "genesis?": hash, "head?": headRef }),
    "rollout?": object({ rollout: name, "report?": digest }),
  },
  agent: {
    principal: name,
    op: one("enrol rotate revoke"),
    key,
    roles: list(one(roles), 1, 7, true),
    domain: name,
    span: one("workflow agent"),
    "compromised_since?": object({ index: count }),
    "capabilities?": list(word),
  },
  execution: {
    exec: name,
    parents: list(object({ exec: ref, dep: one("hard soft") })),
    effect: one("none reversible compensable irrevocable undeclared"),
    progress: one("planned started confirmed failed cancelled"),
    "idempotency_key?": digest,
    "task?": ref,
    "checkpoint?": ref,
    "comp?": digest,
    "compensates?": object({ incident: count, decision: entryRef, exec: ref }),
    "inp_hash?": digest,
    "out_hash?": digest,
    "cost_micro_usd?": count,
    "latency_ms?": count,
  },
  checkpoint: {
    checkpoint: name,
    after: (v) => (v === null ? null : ref(v)),
    digest,
    "expires_at?": count,
    "loc?": prose,
  },
  signal: {
    subject: ref,
    class: word,
    code: word,
    standing: one("executor upstream downstream monitor operator"),
    effects: one("none partial complete unknown"),
    replay_safety: one("safe unsafe unknown"),
    observed_at: positive,
    "since?": ref,
    "last_known_good?": ref,
    "evidence?": evidence,
    "retry_after_ms?": count,
    "severity?": one("info warning error critical"),
    "attempt?": count,
    "supersedes?": entryRef,
    "detail?": prose,
  },
  decision: {
    incident: count,
    act: one("contain escalate authorize amend deny override release"),
    policy: entryRef,
    epoch: count,
    exp: positive,
    reason: prose,
    "signals?": headRef,
    "dismissed?": list(object({ index: count, reason: prose })),
    "pin?": headRef,
    "rollback_set?": object({ algorithm: one("scope/1"), size: count, root: hash }),
    "impact?": object({ ...reach, irrevocable: count, undeclared: count }),
    "not_fenced?": prose,
    "deadline_at?": count,
    "approvals?": list(count),
    "supersedes?": entryRef,
    "dispositions?": dispositions,
    "members?": list(ref),
  },
  approval: { incident: count, proposal: entryRef, verdict: one("approve refuse"), exp: positive, reason: prose },
  outcome: {
    incident: count,
    decision: entryRef,
    exec: ref,
    result: one(results),
    observed_at: positive,
    "residual?": prose,
    "comp_exec?": ref,
    "post_digest?": digest,
    "evidence?": evidence,
    "supersedes?": entryRef,
  },
  record: {
    incident: count,
    state: one("RECOVERED NO_EFFECTS PARTIAL FAILED"),
    decision: entryRef,
    tally: (v) =>
      !isObject(v) || Object.entries(v).some(([n, x]) => one(results)(n) !== null || count(x) !== null) ? "" : null,
    unresolved: headRef,
    dispositions,
    review: count,
  },
  task: {
    task: ref,
    op: one("create reassign cancel release start review complete block assign fail interrupt"),
    from: one(states),
    to: one(states),
    reason: prose,
    epoch: count,
    retry_count: count,
    resume_count: count,
    "type?": word,
    "max_retries?": number(0, 100),
    "agent?": name,
    "lease_ms?": number(1000, 86_400_000),
    "snapshot?": object({
      exec: ref, agent: name, turns: count, max_turns: count, cost_micro_usd: count, status: word, started_at: positive,
      taken_at: positive, messages: count, class: word, code: word, context_digest: digest, "attempts?": number(0, 64),
    }),
    "about?": object({ case: name, attempt: uuid, "agent?": name, decided: list(word, 1) }),
  },
  attempt: {
    "run?": name, "agent?": name, "task?": ref, "policy?": digest, "arm?": one("control canary shadow"),
    ...attemptCase,
    "also?": list(object(attemptCase), 0, 128),
  },
  run: {
    run: name,
    op: one("open close"),
    config_digest: digest,
    scenario_digest: digest,
    seed: number(Number.MIN_SAFE_INTEGER),
    engine: name,
    "policy_digest?": digest,
    "baseline_digest?": digest,
    "run_root?": digest,
    "report_digest?": digest,
    "recommendation?": one("promote reject inconclusive"),
  },
  index: { algorithm: one("index/1"), size: positive, root: hash, subjects: count },
  rollout: {
    rollout: name,
    op: one("start advance waive abort"),
    reason: prose,
    "start?": object({
      candidate_digest: digest, baseline_digest: digest, candidate: when(isObject), salt: name,
      gates: list(one("recovered unsafe escalated cost latency"), 1, 5, true), tolerance_ppm: count, cases_min: positive, deadline_at: positive,
    }),
    "stage?": one("shadow canary"),
    "share_permille?": number(1, 500),
    "gate?": one("recovered unsafe escalated cost latency deadline"),
  },
};

/** @type {Record<string, Check>} */
const HEADER = {
  v: number(1, 1),
  jti: uuid,
  iss: name,
  aud: bytes(1, 128),
  iat: positive,
  "crit?": strings(0),
};

/** Kinds of which a workflow has no part. */
const OUTSIDE = ["policy", "agent", "index"];

/**
 * Members that other members ask for: [kind, member, its values, what it needs].
 * A name with ! is one that has to be absent, with + one that may not be empty.
 *
 * @type {[string, string, string, string][]}
 */
const NEEDS = [
  ["execution", "effect", "compensable irrevocable undeclared", "idempotency_key"],
  ["decision", "act", "contain escalate authorize amend", "signals dismissed pin rollback_set impact"],
  ["decision", "act", "authorize amend", "deadline_at+"],
  ["decision", "act", "deny", "dispositions+"],
  ["decision", "act", "release", "members+"],
  ["decision", "act", "contain authorize amend deny override release", "not_fenced!"],
  ["agent", "op", "enrol rotate", "compromised_since!"],
  ["outcome", "result", "irrevocable failed refused withheld unknown", "residual"],
  ["outcome", "result", "compensated", "comp_exec"],
  ["outcome", "result", "restored", "post_digest"],
  ["task", "op", "reassign cancel release start review complete block assign fail interrupt", "about!"],
  ["attempt", "arm", "control canary shadow", "policy"],
  ["run", "op", "close", "run_root report_digest recommendation"],
  ["run", "op", "open", "run_root! report_digest! recommendation!"],
  ["rollout", "op", "start", "start"],
  ["rollout", "op", "advance waive abort", "start!"],
  ["rollout", "op", "start advance", "stage"],
  ["rollout", "op", "waive abort", "stage! share_permille!"],
  ["rollout", "stage", "canary", "share_permille"],
  ["rollout", "stage", "shadow", "share_permille!"],
  ["rollout", "op", "start advance waive", "gate!"],
];

/** By kind, the check of its members, and what `crit` may name. */
const PAYLOADS = Object.fromEntries(
  Object.entries(KINDS).map(([kind, members]) => {
    const all = { ...HEADER, ...members, ...(OUTSIDE.includes(kind) ? {} : { wid: name }) };
    return [kind, { check: object(all), known: ["wid", ...Object.keys(all).map((n) => n.replace("?", ""))] }];
  }),
);

/** Words of a member that needs others, read once. */
const RULES = NEEDS.map(([kind, member, values, needs]) => ({ kind, member, values: values.split(" "), needs: needs.split(" ").map((n) => ({ name: n.replace(/[!+]$/, ""), how: n.at(-1) })) }));

/** @type {(values: any[]) => boolean} */
const distinct = (values) => new Set(values).size === values.length;

/** @param {string} kind */
export const isKind = (kind) => Object.hasOwn(KINDS, kind);

/**
 * Checks the payload of a kind.
 *
 * @param {string} kind
 * @param {any} body
 * @returns {string | null} null if it holds, else the member at fault
 */
export function checkPayload(kind, body) {
  if (!isObject(body) || Object.keys(body).length > 64) return "";
  const { check, known } = /** @type {{check: Check, known: string[]}} */ (PAYLOADS[kind]);
  const fault = check(body);
  if (fault !== null) return fault;
  if (OUTSIDE.includes(kind) && "wid" in body) return "wid";
  if (body.crit?.some((/** @type {string} */ n) => !known.includes(n))) return "crit";
  for (const { needs } of RULES.filter((r) => r.kind === kind && r.values.includes(body[r.member]))) {
    for (const need of needs) {
      const value = body[need.name];
      if (need.how === "!" ? need.name in body : value === undefined || (need.how === "+" && (value === 0 || value.length === 0))) return need.name;
    }
  }
  if (kind === "execution" && (!distinct(body.parents.map((/** @type {any} */ p) => p.exec)) || (body.compensates && body.parents.length))) return "parents";
  if (kind === "task" && body.about && "type" in body) return "type";
  return kind === "attempt" ? attemptFault(body) : null;
}

/**
 * An attempt within a run has traces, another one an agent; no case stands twice.
 *
 * @param {any} body
 */
function attemptFault(body) {
  const also = body.also ?? [];
  if (!body.run) return body.agent ? attemptTwice(body, also) : "run";
  if (!body.trace_digest) return "trace_digest";
  return also.every((/** @type {any} */ c) => c.trace_digest) ? attemptTwice(body, also) : "also";
}

/** @type {(body: any, also: any[]) => string | null} */
const attemptTwice = (body, also) => (distinct([body.case, ...also.map((c) => c.case)]) ? null : "also");
