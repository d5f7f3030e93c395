package entry_test

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
)

const registeredAt = 1_790_000_000_123

// payload adds a vector of a payload; a good one is signed.
func (s *vectorSet) payload(name string, v *vector) {
	s.t.Helper()
	s.add("payload/"+name, v)
	if v.WantErr != "" {
		return
	}
	e, err := entry.NewRaw(entry.Kind(v.Kind), inputBytes(s.t, v.Input))
	must(s.t, err)
	key := ed25519Key("agent")
	e.Seal(keyID(key.Public()), ed25519.Sign(key, e.PAE()))
	v.Key, v.Sig = publicKey(s.t, "agent").String(), base64.StdEncoding.EncodeToString(e.Sig)
	v.RegisteredAt = new(int64(registeredAt))
	v.Want = wantOf(s.t, e, v.Key, registeredAt)
}

// change is a good payload with one member set to other JSON, or, if that is
// empty, left out.
type change struct {
	name, path, json string
	field            string // at fault; empty: that of path; "ok": nothing is
	least            bool   // of the minimal fixture
}

// attemptID is the id of an attempt entry.
const attemptID = "0190b9d4-7d3e-7cc0-9f11-6c0d8e6a5b21"

// aboutCase is the member about of a task, with one member of it set otherwise.
func aboutCase(member string) string {
	members := map[string]string{"case": `"case":"c"`, "attempt": `"attempt":"` + attemptID + `"`, "decided": `"decided":["quarantine","escalate"]`}
	if name, _, ok := strings.Cut(strings.TrimPrefix(member, `"`), `"`); ok {
		members[name] = member
	}
	return "{" + strings.Join(slices.Sorted(maps.Values(members)), ",") + "}"
}

// authorityKey stands for the first key of the policy fixture.
const authorityKey = `"the first key"`

// changed returns the text of a payload after a change.
func changed(tb testing.TB, payload []byte, path, value string) string {
	tb.Helper()
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.UseNumber()
	var document any
	must(tb, decoder.Decode(&document))
	tokens := regexp.MustCompile(`[^.\[\]]+`).FindAllString(path, -1)
	at := document
	for _, token := range tokens[:len(tokens)-1] {
		if i, err := strconv.Atoi(token); err == nil {
			at = at.([]any)[i]
		} else {
			at = at.(map[string]any)[token]
		}
	}
	last := tokens[len(tokens)-1]
	if list, ok := at.([]any); ok {
		i, err := strconv.Atoi(last)
		must(tb, err)
		list[i] = json.RawMessage(value)
	} else if value == "" {
		delete(at.(map[string]any), last)
	} else {
		at.(map[string]any)[last] = json.RawMessage(value)
	}
	return marshal(tb, document)
}

func marshal(tb testing.TB, document any) string {
	tb.Helper()
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	must(tb, encoder.Encode(document))
	return strings.TrimSuffix(text.String(), "\n")
}

func payloadOf(tb testing.TB, body entry.Body) []byte {
	tb.Helper()
	e, err := entry.New(body)
	must(tb, err)
	return e.Payload()
}

// addPayloadKinds covers the members of every kind: all and only the mandatory
// ones, each of those missing, and what the tables below change.
func (s *vectorSet) addPayloadKinds() {
	for _, kind := range entry.Kinds() {
		least, most := payloadOf(s.t, minimal(s.t, kind)), payloadOf(s.t, full(s.t, kind))
		dir := string(kind) + "/"
		good := func(name, desc string, input any) {
			s.payload(dir+name, &vector{Desc: desc, Kind: string(kind), Input: input})
		}
		bad := func(name, desc string, input any, field string) {
			s.payload(dir+name, &vector{Desc: desc, Kind: string(kind), Input: input, WantErr: string(entry.Malformed), Field: field})
		}
		good("minimal", "mandatory members only", string(least))
		good("full", "every member that may stand together", string(most))
		var members map[string]any
		must(s.t, json.Unmarshal(least, &members))
		for _, name := range slices.Sorted(maps.Keys(members)) {
			header := slices.Contains([]string{"v", "jti", "iss", "aud", "iat"}, name)
			if header && kind != entry.KindExecution {
				continue // the rule is the same for every kind
			}
			bad("missing-"+name, "without "+name, changed(s.t, least, name, ""), name)
		}
		if kind == entry.KindDecision {
			good("not-fenced", "an escalate that fences nothing",
				changed(s.t, []byte(changed(s.t, most, "act", `"escalate"`)), "not_fenced", `"3 domains of the incident, a fence may reach 2"`))
		}
		for _, c := range changes[kind] {
			desc := fmt.Sprintf("%s is %.60s", c.path, c.json)
			if c.json == "" {
				desc = "without " + c.path
			}
			base := most
			if c.least {
				base = least
			}
			value := strings.ReplaceAll(c.json, authorityKey, `"`+publicKey(s.t, "authority").String()+`"`)
			input := changed(s.t, base, c.path, value)
			if c.field == "ok" {
				good(c.name, desc, input)
			} else {
				bad(c.name, desc, input, cmp.Or(c.field, c.path))
			}
		}
	}
}

// reachOf is a reach of a fence; fenceOf is limits.fence with that of an
// incident, a signaler and a victim.
const reachOf = `{"members":500,"agents":50,"domains":5}`

func fenceOf(incident, signaler, victim string) string {
	return `{"incident":` + incident + `,"signaler":` + signaler + `,"victim":` + victim + `}`
}

// changes are made to the full fixture of each kind.
var changes = map[entry.Kind][]change{
	entry.KindPolicy: {
		{name: "authority-empty", path: "authority", json: `[]`},
		{name: "authority-twice", path: "authority[1].key", json: authorityKey},
		{name: "authority-principal-missing", path: "authority[0].principal", json: ``},
		{name: "authority-key-not-base64", path: "authority[0].key", json: `"MCowBQYDK2VwAyEA"`},
		{name: "roles-of-operator", path: "roles", json: `{"agent":["enroller"],"operator":["operator"]}`},
		{name: "roles-null-list", path: "roles.agent", json: `null`},
		{name: "roles-unknown", path: "roles.agent[0]", json: `"root"`},
		{name: "roles-twice", path: "roles.agent[1]", json: `"enroller"`},
		{name: "window-missing", path: "windows.iat_ms", json: ``},
		{name: "window-zero", path: "windows.decide_ms", json: `0`},
		{name: "limit-missing", path: "limits.victim", json: ``},
		{name: "limit-member-missing", path: "limits.signaler.fenced_ms", json: ``},
		{name: "limit-negative", path: "limits.incident.members", json: `-1`},
		{name: "fence", path: "limits.fence", json: fenceOf(reachOf, reachOf, `{"members":0,"agents":0,"domains":0}`), field: "ok"},
		{name: "fence-member-missing", path: "limits.fence", json: fenceOf(reachOf, reachOf, `{"members":1,"agents":1}`), field: "limits.fence.victim.domains"},
		{name: "fence-negative", path: "limits.fence", json: fenceOf(reachOf, `{"members":1,"agents":-1,"domains":1}`, reachOf), field: "limits.fence.signaler.agents"},
		{name: "fence-null", path: "limits.fence", json: `null`},
		{name: "quota-missing", path: "quotas.entries_per_hour", json: ``},
		{name: "quota-zero-entries", path: "quotas.entries_per_hour", json: `0`, field: "ok"},
		{name: "quota-zero-signals", path: "quotas.signals_per_hour", json: `0`},
		{name: "quorum-zero", path: "quorum.override", json: `0`},
		{name: "max-step-zero", path: "max_step_ms", json: `0`},
		{name: "recovery-list", path: "recovery", json: `[]`},
		{name: "recovery-null", path: "recovery", json: `null`},
		{name: "recovery-with-null", path: "recovery", json: `{"rules":[null,{"when":null}]}`, field: "ok"},
		{name: "previous-without-hash", path: "previous.leaf_hash", json: ``},
		{name: "index-not-required", path: "index.required", json: `false`, field: "ok"},
		{name: "index-empty", path: "index", json: `{}`, field: "index.required"},
		{name: "index-unknown-member", path: "index", json: `{"required":true,"since":1}`, field: "ok"},
		{name: "index-required-text", path: "index.required", json: `"true"`},
		{name: "index-null", path: "index", json: `null`},
		{name: "predecessor-least", path: "predecessor", json: `{"ledger_keys":["k"],"origin":"example.com/lost"}`, field: "ok"},
		{name: "predecessor-without-origin", path: "predecessor.origin", json: ``},
		{name: "predecessor-origin-empty", path: "predecessor.origin", json: `""`},
		{name: "predecessor-without-keys", path: "predecessor.ledger_keys", json: ``},
		{name: "predecessor-keys-empty", path: "predecessor.ledger_keys", json: `[]`},
		{name: "predecessor-genesis-not-a-hash", path: "predecessor.genesis", json: `"AAAA"`},
		{name: "predecessor-genesis-null", path: "predecessor.genesis", json: `null`},
		{name: "predecessor-head-without-root", path: "predecessor.head.root", json: ``},
		{name: "predecessor-null", path: "predecessor", json: `null`},
		{name: "rollout-waived", path: "rollout", json: `{"rollout":"r"}`, field: "ok"},
		{name: "rollout-empty", path: "rollout", json: `{}`, field: "rollout.rollout"},
		{name: "rollout-report-empty", path: "rollout.report", json: `""`},
		{name: "wid", path: "wid", json: `"wf-1"`},
		{name: "wid-null", path: "wid", json: `null`},
	},
	entry.KindAgent: {
		{name: "principal-with-space", path: "principal", json: `"agent 1"`},
		{name: "op-unknown", path: "op", json: `"enroll"`},
		{name: "op-case", path: "op", json: `"Revoke"`},
		{name: "roles-empty", path: "roles", json: `[]`},
		{name: "roles-authority", path: "roles[0]", json: `"authority"`},
		{name: "roles-twice", path: "roles[1]", json: `"agent"`},
		{name: "span-unknown", path: "span", json: `"tenant"`},
		{name: "compromised-by-enrol", path: "op", json: `"enrol"`, field: "compromised_since"},
		{name: "compromised-without-index", path: "compromised_since", json: `{}`, field: "compromised_since.index"},
		{name: "compromised-negative", path: "compromised_since.index", json: `-1`},
		{name: "capability-upper-case", path: "capabilities[0]", json: `"Refund"`},
		{name: "key-null", path: "key", json: `null`},
		{name: "key-number", path: "key", json: `7`},
		{name: "domain-empty", path: "domain", json: `""`},
	},
	entry.KindExecution: {
		{name: "exec-empty", path: "exec", json: `""`},
		{name: "exec-of-128", path: "exec", json: `"` + strings.Repeat("e", 128) + `"`, field: "ok"},
		{name: "exec-of-129", path: "exec", json: `"` + strings.Repeat("e", 129) + `"`},
		{name: "exec-with-hash", path: "exec", json: `"a#b"`},
		{name: "parents-object", path: "parents", json: `{}`},
		{name: "parent-null", path: "parents[0]", json: `null`},
		{name: "parent-without-dep", path: "parents[0].dep", json: ``},
		{name: "parent-dep-unknown", path: "parents[0].dep", json: `"HARD"`},
		{name: "parent-not-a-reference", path: "parents[1].exec", json: `"exec-9"`},
		{name: "parent-two-hashes", path: "parents[1].exec", json: `"a#b#c"`},
		{name: "parent-twice", path: "parents[1].exec", json: `"agent-2@example.com#exec-9"`},
		{name: "parent-with-unknown-member", path: "parents[0].x_weight", json: `null`, field: "ok"},
		{name: "effect-unknown", path: "effect", json: `"idempotent"`},
		{name: "progress-unknown", path: "progress", json: `"done"`},
		{name: "key-missing-compensable", path: "idempotency_key", json: ``},
		{name: "key-missing-irrevocable", path: "effect", json: `"irrevocable"`, field: "idempotency_key", least: true},
		{name: "key-missing-undeclared", path: "effect", json: `"undeclared"`, field: "idempotency_key", least: true},
		{name: "key-missing-reversible", path: "effect", json: `"reversible"`, field: "ok", least: true},
		{name: "key-upper-case", path: "idempotency_key", json: `"sha256:` + strings.Repeat("AB", 32) + `"`},
		{name: "key-of-63", path: "idempotency_key", json: `"sha256:` + strings.Repeat("a", 63) + `"`},
		{name: "key-of-65", path: "idempotency_key", json: `"sha256:` + strings.Repeat("a", 65) + `"`},
		{name: "key-md5", path: "idempotency_key", json: `"md5:d41d8cd98f00b204e9800998ecf8427e"`},
		{name: "task-empty", path: "task", json: `""`},
		{name: "cost-negative", path: "cost_micro_usd", json: `-1`},
		{name: "cost-text", path: "cost_micro_usd", json: `"1234"`},
		{name: "compensation-with-parents", path: "compensates",
			json:  `{"incident":7,"decision":{"index":12,"leaf_hash":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="},"exec":"a#b"}`,
			field: "parents"},
		{name: "compensates-without-exec", path: "compensates",
			json:  `{"incident":7,"decision":{"index":12,"leaf_hash":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}}`,
			field: "compensates.exec"},
		{name: "compensates-hash-null", path: "compensates", json: `{"incident":7,"decision":{"index":12,"leaf_hash":null},"exec":"a#b"}`,
			field: "compensates.decision.leaf_hash"},
	},
	entry.KindCheckpoint: {
		{name: "after-null", path: "after", json: `null`, field: "ok"},
		{name: "after-empty", path: "after", json: `""`},
		{name: "after-not-a-reference", path: "after", json: `"exec-1"`},
		{name: "digest-without-algorithm", path: "digest", json: `"` + strings.Repeat("a", 64) + `"`},
		{name: "digest-null", path: "digest", json: `null`},
		{name: "expires-negative", path: "expires_at", json: `-1`},
		{name: "loc-of-1024", path: "loc", json: `"` + strings.Repeat("l", 1024) + `"`, field: "ok"},
		{name: "loc-of-1025", path: "loc", json: `"` + strings.Repeat("l", 1025) + `"`},
		{name: "loc-of-513-umlauts", path: "loc", json: `"` + strings.Repeat("ä", 513) + `"`},
	},
	entry.KindSignal: {
		{name: "class-of-no-taxonomy", path: "class", json: `"weather"`, field: "ok"},
		{name: "class-upper-case", path: "class", json: `"Tool"`},
		{name: "code-of-65", path: "code", json: `"` + strings.Repeat("c", 65) + `"`},
		{name: "standing-unknown", path: "standing", json: `"bystander"`},
		{name: "effects-unknown-word", path: "effects", json: `"maybe"`},
		{name: "replay-safety-bool", path: "replay_safety", json: `true`},
		{name: "observed-at-zero", path: "observed_at", json: `0`},
		{name: "severity-unknown", path: "severity", json: `"fatal"`},
		{name: "evidence-without-digest", path: "evidence[0].digest", json: ``},
		{name: "evidence-empty-uri", path: "evidence[0].uri", json: `""`},
		{name: "evidence-null", path: "evidence", json: `null`},
		{name: "retry-after-negative", path: "retry_after_ms", json: `-5`},
		{name: "supersedes-short-hash", path: "supersedes.leaf_hash", json: `"AAAA"`},
		{name: "supersedes-padding-bits", path: "supersedes.leaf_hash", json: `"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB="`},
		{name: "detail-of-1024", path: "detail", json: `"` + strings.Repeat("d", 1024) + `"`, field: "ok"},
		{name: "detail-of-1025", path: "detail", json: `"` + strings.Repeat("d", 1025) + `"`},
		{name: "detail-empty", path: "detail", json: `""`},
	},
	entry.KindDecision: {
		{name: "act-unknown", path: "act", json: `"approve"`},
		{name: "contain", path: "act", json: `"contain"`, field: "ok"},
		{name: "escalate", path: "act", json: `"escalate"`, field: "ok"},
		{name: "deny", path: "act", json: `"deny"`, field: "ok"},
		{name: "release", path: "act", json: `"release"`, field: "ok"},
		{name: "contain-without-rollback-set", path: "act", json: `"contain"`, field: "signals", least: true},
		{name: "deny-without-dispositions", path: "act", json: `"deny"`, field: "dispositions", least: true},
		{name: "release-without-members", path: "act", json: `"release"`, field: "members", least: true},
		{name: "authorize-without-signals", path: "signals", json: ``},
		{name: "authorize-without-dismissed", path: "dismissed", json: ``},
		{name: "authorize-without-pin", path: "pin", json: ``},
		{name: "authorize-without-rollback-set", path: "rollback_set", json: ``},
		{name: "authorize-without-impact", path: "impact", json: ``},
		{name: "authorize-without-deadline", path: "deadline_at", json: ``},
		{name: "deadline-zero", path: "deadline_at", json: `0`},
		{name: "deadline-negative", path: "deadline_at", json: `-1`},
		{name: "epoch-negative", path: "epoch", json: `-1`},
		{name: "exp-zero", path: "exp", json: `0`},
		{name: "reason-empty", path: "reason", json: `""`},
		{name: "policy-empty-object", path: "policy", json: `{}`, field: "policy.index"},
		{name: "policy-index-only", path: "policy.leaf_hash", json: ``},
		{name: "signals-without-size", path: "signals.size", json: ``},
		{name: "rollback-set-algorithm", path: "rollback_set.algorithm", json: `"scope/2"`},
		{name: "impact-member-missing", path: "impact.undeclared", json: ``},
		{name: "impact-null", path: "impact.domains", json: `null`},
		{name: "dismissed-without-reason", path: "dismissed[0].reason", json: ``},
		{name: "approval-null", path: "approvals[0]", json: `null`},
		{name: "approval-negative", path: "approvals[1]", json: `-1`},
		{name: "disposition-unknown", path: "dispositions[0].disposition", json: `"true"`},
		{name: "disposition-twice", path: "dispositions",
			json:  `[{"index":7,"disposition":"self_reported"},{"index":7,"disposition":"dismissed"}]`,
			field: "dispositions[1].index"},
		{name: "member-not-a-reference", path: "members[0]", json: `"exec-1"`},
		{name: "not-fenced-authorize", path: "not_fenced", json: `"3 domains of the incident, a fence may reach 2"`},
		{name: "not-fenced-empty", path: "not_fenced", json: `""`},
		{name: "not-fenced-of-1025", path: "not_fenced", json: `"` + strings.Repeat("n", 1025) + `"`},
	},
	entry.KindApproval: {
		{name: "verdict-unknown", path: "verdict", json: `"yes"`},
		{name: "proposal-without-index", path: "proposal.index", json: ``},
		{name: "incident-text", path: "incident", json: `"7"`},
		{name: "incident-largest", path: "incident", json: `9007199254740991`, field: "ok"},
		{name: "incident-too-large", path: "incident", json: `9007199254740992`},
		{name: "exp-negative", path: "exp", json: `-1`},
		{name: "reason-of-1025", path: "reason", json: `"` + strings.Repeat("r", 1025) + `"`},
	},
	entry.KindOutcome: {
		{name: "result-unknown-word", path: "result", json: `"done"`},
		{name: "restored", path: "result", json: `"restored"`, field: "ok"},
		{name: "compensated-without-residual", path: "residual", json: ``, field: "ok"},
		{name: "failed-without-residual", path: "result", json: `"failed"`, field: "residual", least: true},
		{name: "withheld-without-residual", path: "result", json: `"withheld"`, field: "residual", least: true},
		{name: "restored-without-digest", path: "result", json: `"restored"`, field: "post_digest", least: true},
		{name: "compensated-without-exec", path: "comp_exec", json: ``},
		{name: "decision-null", path: "decision", json: `null`},
		{name: "exec-not-a-reference", path: "exec", json: `"#exec-1"`},
		{name: "observed-at-float", path: "observed_at", json: `1790000300000.0`},
		{name: "evidence-bad-digest", path: "evidence[0].digest", json: `"sha256:"`},
	},
	entry.KindRecord: {
		{name: "state-lower-case", path: "state", json: `"partial"`},
		{name: "tally-unknown", path: "tally", json: `{"restored":1,"undone":2}`},
		{name: "tally-null", path: "tally.restored", json: `null`},
		{name: "tally-negative", path: "tally.failed", json: `-1`},
		{name: "unresolved-without-root", path: "unresolved.root", json: ``},
		{name: "dispositions-twice", path: "dispositions[1].index", json: `7`},
		{name: "no-effects", path: "state", json: `"NO_EFFECTS"`, field: "ok"},
		{name: "confirmed-is-no-disposition", path: "dispositions[0].disposition", json: `"confirmed"`},
		{name: "corroborated-by-nobody", path: "dispositions[0].domains", json: ``},
		{name: "corroborated-by-no-domain", path: "dispositions[0].domains", json: `[]`},
		{name: "corroborated-twice-by-one", path: "dispositions[0].domains", json: `["example.com","example.com"]`, field: "dispositions[0].domains[1]"},
		{name: "corroborated-by-no-name", path: "dispositions[0].domains[0]", json: `"a b"`},
		{name: "corroborated-within-a-domain", path: "dispositions[0].independent", json: `false`, field: "ok"},
		{name: "self-reported", path: "dispositions[0]", json: `{"index":7,"disposition":"self_reported"}`, field: "ok"},
		{name: "self-reported-with-domains", path: "dispositions[0].disposition", json: `"self_reported"`, field: "dispositions[0].domains"},
		{name: "inconclusive-with-domains", path: "dispositions[1].domains", json: `["example.com"]`},
		{name: "dismissed-and-independent", path: "dispositions[1]",
			json: `{"index":8,"disposition":"dismissed","independent":true}`, field: "dispositions[1].independent"},
		{name: "dispositions-null", path: "dispositions", json: `null`},
		{name: "review-negative", path: "review", json: `-1`},
	},
	entry.KindTask: {
		{name: "op-unknown", path: "op", json: `"finish"`},
		{name: "from-unknown", path: "from", json: `"NEW"`},
		{name: "to-lower-case", path: "to", json: `"failed"`},
		{name: "task-without-issuer", path: "task", json: `"task-1"`},
		{name: "retry-count-negative", path: "retry_count", json: `-1`},
		{name: "type-with-space", path: "type", json: `"a b"`},
		{name: "max-retries-negative", path: "max_retries", json: `-1`},
		{name: "max-retries-huge", path: "max_retries", json: `101`},
		{name: "lease-too-short", path: "lease_ms", json: `999`},
		{name: "lease-too-long", path: "lease_ms", json: `86400001`},
		{name: "snapshot-member-missing", path: "snapshot.messages", json: ``},
		{name: "snapshot-status-null", path: "snapshot.status", json: `null`},
		{name: "snapshot-taken-at-zero", path: "snapshot.taken_at", json: `0`},
		{name: "snapshot-attempts-huge", path: "snapshot.attempts", json: `65`},
		{name: "about-with-another-op", path: "about", json: aboutCase("")},
		{name: "about-a-case", path: "about", json: aboutCase(""), field: "ok", least: true},
		{name: "about-a-case-of-an-agent", path: "about", json: aboutCase(`"agent":"a"`), field: "ok", least: true},
		{name: "about-null", path: "about", json: `null`, least: true},
		{name: "about-a-case-with-space", path: "about", json: aboutCase(`"case":"a b"`), field: "about.case", least: true},
		{name: "about-an-agent-with-space", path: "about", json: aboutCase(`"agent":"a b"`), field: "about.agent", least: true},
		{name: "about-an-index", path: "about", json: aboutCase(`"attempt":7`), field: "about.attempt", least: true},
		{name: "about-no-uuid", path: "about", json: aboutCase(`"attempt":"7"`), field: "about.attempt", least: true},
		{name: "about-without-decided", path: "about", json: `{"case":"c","attempt":"` + attemptID + `"}`, field: "about.decided", least: true},
		{name: "about-nothing-decided", path: "about", json: aboutCase(`"decided":[]`), field: "about.decided", least: true},
		{name: "about-a-sentence", path: "about", json: aboutCase(`"decided":["escalate","rm -rf /"]`), field: "about.decided[1]", least: true},
		{name: "snapshot-context-text", path: "snapshot.context_digest", json: `"the whole conversation"`},
	},
	entry.KindAttempt: {
		{name: "status-unknown", path: "status", json: `"recovered"`},
		{name: "rungs-null", path: "rungs", json: `null`},
		{name: "rung-without-rule", path: "rungs[1].rule", json: ``},
		{name: "rung-empty-model", path: "rungs[1].model", json: `""`},
		{name: "rung-cost-null", path: "rungs[1].cost_micro_usd", json: `null`},
		{name: "rung-attempt-negative", path: "rungs[0].attempt", json: `-1`},
		{name: "case-with-space", path: "case", json: `"case 1"`},
		{name: "neither-run-nor-agent", path: "run", json: ``, least: true},
		{name: "outside-of-a-run", path: "run", json: ``, field: "ok"},
		{name: "agent-with-space", path: "agent", json: `"agent 1"`},
		{name: "task-without-issuer", path: "task", json: `"task-1"`},
		{name: "policy-no-digest", path: "policy", json: `"v1"`},
		{name: "arm-unknown", path: "arm", json: `"blue"`},
		{name: "arm-without-policy", path: "policy", json: ``, field: "arm"},
		{name: "facts-a-list", path: "facts", json: `[]`},
		{name: "also-null", path: "also", json: `null`},
		{name: "also-without-trace", path: "also[0].trace_digest", json: ``},
		{name: "also-twice", path: "also[0].case", json: `"case-1"`},
		{name: "also-without-rungs", path: "also[0].rungs", json: ``},
		{name: "status-passed-on", path: "status", json: `"passed_on"`, field: "ok"},
		{name: "rung-variant-empty", path: "rungs[1].variant", json: `""`},
		{name: "rung-tokens-negative", path: "rungs[1].tokens", json: `-1`},
		{name: "elapsed-null", path: "elapsed_ms", json: `null`},
	},
	entry.KindRun: {
		{name: "op-unknown", path: "op", json: `"abort"`},
		{name: "open-with-result", path: "op", json: `"open"`},
		{name: "close-without-result", path: "op", json: `"close"`, field: "run_root", least: true},
		{name: "close-without-root", path: "run_root", json: ``},
		{name: "close-without-report", path: "report_digest", json: ``},
		{name: "recommendation-unknown", path: "recommendation", json: `"maybe"`},
		{name: "seed-negative", path: "seed", json: `-9007199254740991`, field: "ok"},
		{name: "seed-too-small", path: "seed", json: `-9007199254740992`},
		{name: "engine-empty", path: "engine", json: `""`},
	},
	entry.KindRollout: {
		{name: "op-unknown", path: "op", json: `"promote"`},
		{name: "start-of-an-abort", path: "op", json: `"abort"`, field: "start"},
		{name: "start-missing", path: "start", json: ``},
		{name: "stage-missing", path: "stage", json: ``},
		{name: "stage-full", path: "stage", json: `"full"`},
		{name: "share-missing", path: "share_permille", json: ``},
		{name: "share-of-a-shadow", path: "stage", json: `"shadow"`, field: "share_permille"},
		{name: "share-zero", path: "share_permille", json: `0`},
		{name: "share-501", path: "share_permille", json: `501`},
		{name: "gate-of-a-start", path: "gate", json: `"cost"`},
		{name: "gates-empty", path: "start.gates", json: `[]`},
		{name: "gates-twice", path: "start.gates[1]", json: `"recovered"`},
		{name: "gate-unknown", path: "start.gates[0]", json: `"mood"`},
		{name: "candidate-list", path: "start.candidate", json: `[]`},
		{name: "cases-zero", path: "start.cases_min", json: `0`},
		{name: "digest-short", path: "start.candidate_digest", json: `"sha256:ab"`},
		{name: "reason-empty", path: "reason", json: `""`},
	},
	entry.KindIndex: {
		{name: "algorithm-unknown", path: "algorithm", json: `"index/2"`},
		{name: "size-zero", path: "size", json: `0`},
		{name: "size-negative", path: "size", json: `-1`},
		{name: "root-short", path: "root", json: `"q6urqw=="`},
		{name: "subjects-negative", path: "subjects", json: `-1`},
		{name: "subjects-text", path: "subjects", json: `"12"`},
		{name: "in-a-workflow", path: "wid", json: `"wf-1"`},
	},
}
