package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/api"
	"recoveryledger/api/attempts"
	"recoveryledger/api/certificate"
	"recoveryledger/api/server"
	"recoveryledger/coord"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/rollout"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/testdata/budget"
)

// engineOf has the server record by a key.
func (n *node) engineOf(key *keys.Signer, hourly int64, now func() time.Time) {
	n.t.Helper()
	c := n.recording(key, hourly)
	c.Now = now
	n.cfg.Attempts = attempts.New(c)
	n.again()
}

// recording is what records by a key.
func (n *node) recording(key *keys.Signer, hourly int64) attempts.Config {
	rules := recovery.Default()
	return attempts.Config{Submit: n.log.Submit, Origin: origin, Sign: key.Sign, Hourly: hourly,
		Owner: func() (entry.Principal, bool) { return n.coord.View().Chain.Owner(key.Public().KeyID()) },
		Known: func(task entry.Ref) (known bool) {
			n.coord.Read(func(s *coord.State) { _, known = s.Task(task) })
			return known
		},
		Rules: func(entry.Digest) *recovery.Policy { return rules },
		Log:   asLog{n},
		Roles: func() []entry.Role {
			info, _ := n.coord.View().Chain.KeyInfo(key.Public().KeyID())
			return info.Roles
		}}
}

// asLog is the node's log as an engine sees it.
type asLog struct{ *node }

func (l asLog) Execution(_ context.Context, ref entry.Ref) (found *entry.Execution, err error) {
	for index := range l.log.Head().Size {
		e, err := l.log.Entry(index)
		if err != nil {
			return nil, err
		}
		if x, ok := e.Body.(*entry.Execution); ok && x.Ref() == ref {
			return x, nil
		}
	}
	return nil, nil
}

func (l asLog) Task(_ context.Context, ref entry.Ref) (newest *entry.Task, err error) {
	for index := range l.log.Head().Size {
		e, err := l.log.Entry(index)
		if err != nil {
			return nil, err
		}
		if x, ok := e.Body.(*entry.Task); ok && x.Task == ref {
			newest = x
		}
	}
	return newest, nil
}

func (l asLog) Register(ctx context.Context, entries []*entry.Entry) error {
	answer, err := l.log.Submit(ctx, entries...)
	if err == nil && answer.Refused != nil {
		err = answer.Refused
	}
	return err
}

// attemptsFrom returns the attempt entries from an index on.
func (n *node) attemptsFrom(index uint64) (all []*entry.Attempt) {
	n.t.Helper()
	for ; index < n.log.Head().Size; index++ {
		receipt, err := n.log.Receipt(index)
		must(n.t, err)
		e, _, err := entry.DecodeLeaf(receipt.Leaf)
		must(n.t, err)
		if a, ok := e.Body.(*entry.Attempt); ok {
			all = append(all, a)
		}
	}
	return all
}

// TestRecoveriesAreRecorded: an enrolled engine of the server signs one entry for one case, the
// same case again makes none, and an answer without an entry says why. Callers without a
// certificate cannot fill the log.
func TestRecoveriesAreRecorded(t *testing.T) {
	n := start(t, nil)
	key, now := newSigner(t), time.Now()
	said := func(path, body string) api.Recorded {
		t.Helper()
		return n.recovered(n.recover(path, api.MediaJSON, body)).Recorded
	}
	is := func(got, want api.Recorded) {
		t.Helper()
		if got != want {
			t.Errorf("recorded %+v, want %+v", got, want)
		}
	}
	another := strings.Replace(oneCase, `"id":"one"`, `"id":"two"`, 1)
	size := n.log.Head().Size
	is(said("", oneCase), api.Recorded{Reason: api.NoEngineKey})
	n.engineOf(key, 0, nil)
	is(said("", oneCase), api.Recorded{Reason: api.NotEnrolled})
	n.register(n.enrol("engine-1", key, entry.RoleEngine))
	for i := range 10 {
		is(said("", strings.Replace(oneCase, `"id":"one"`, fmt.Sprintf(`"id":"flood-%d"`, i), 1)), api.Recorded{Reason: api.OverQuota})
	}
	if got := n.log.Head().Size; got != size+1 {
		t.Errorf("the log grew from %d to %d", size, got)
	}
	n.engineOf(key, 3, func() time.Time { return now })
	size = n.log.Head().Size
	is(said("?record=false", oneCase), api.Recorded{Reason: api.NotWanted})
	is(said("", oneCase), api.Recorded{Cases: 1, Entries: 1})
	now = now.Add(2 * time.Second) // another iat, and so another entry under the same id
	is(said("", oneCase), api.Recorded{Cases: 1, Known: 1})
	is(said("?record=true", another), api.Recorded{Cases: 1, Entries: 1})
	is(said("", another), api.Recorded{Reason: api.OverQuota})
	now = now.Add(time.Hour)
	is(said("", another), api.Recorded{Cases: 1, Known: 1})
	if late := said("", strings.Replace(oneCase, `"id":"one"`, `"id":"late"`, 1)); late.Reason != api.Refused || !strings.Contains(late.Detail, "iat") || late.Cases != 0 {
		t.Errorf("an engine whose clock is an hour off: %+v", late)
	}
	all := n.attemptsFrom(size)
	if len(all) != 2 || all[0].Iss != "engine-1" || all[0].Agent != "a" || all[0].Policy != recovery.Default().Hash() || all[0].Arm != "" ||
		all[0].Case != "one" || all[0].Rungs[1].Strategy != "fallback_model" || all[0].Status != entry.StatusRecovered || all[0].Facts == nil {
		t.Errorf("%d entries: %+v", len(all), all[0])
	}
	n.problem(n.recover("?record=perhaps", api.MediaJSON, oneCase), entry.Malformed, http.StatusBadRequest)
}

// TestQuotaIsForCallersWithoutCertificate: a caller with a certificate is recorded without a quota.
// The quota of all others may end within a batch, whose first cases are recorded.
func TestQuotaIsForCallersWithoutCertificate(t *testing.T) {
	n := start(t, nil)
	key, h := newSigner(t), newHouse(t)
	n.register(n.enrol("engine-1", key, entry.RoleEngine))
	n.engineOf(key, 3, nil)
	batch := func(client *http.Client, url, name string, cases int) api.Recorded {
		t.Helper()
		var body strings.Builder
		for i := range cases {
			body.WriteString(strings.Replace(oneCase, `"id":"one"`, fmt.Sprintf(`"id":"%s-%d"`, name, i), 1) + "\n")
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/recoveries/batch", strings.NewReader(body.String()))
		must(t, err)
		request.Header.Set("Content-Type", api.MediaNDJSON)
		response, err := client.Do(request)
		must(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		must(t, err)
		return recoveryLines(t, &answer{response, text})[cases].End.Recorded
	}
	if got := batch(http.DefaultClient, n.url, "anonymous", 5); got.Cases != 3 || got.Reason != api.OverQuota {
		t.Errorf("without a certificate: %+v", got)
	}
	files, err := certificate.Load(h.file("server.pem"), h.file("server.key"), h.file("ca.pem"))
	must(t, err)
	address, _ := n.serve(func(c *server.Config) { c.TLS = files })
	if got := batch(h.client(), "https://"+address, "known", 300); got.Cases != 300 || got.Reason != "" {
		t.Errorf("with a certificate: %+v", got)
	}
}

// TestDeadlinesAreForClients has the ledger take longer for a batch than a client may, over HTTP/2.
// The client sends the end of the batch after that time, and every case is answered and recorded.
func TestDeadlinesAreForClients(t *testing.T) {
	const cases = 1400                                                               // more than are made ready beside each other
	patience := time.Second * time.Duration(budget.Budget{Short: 5, Usual: 1}.Now()) // a raced client pauses
	n := start(t, nil)
	key, h := newSigner(t), newHouse(t)
	n.register(n.enrol("engine-1", key, entry.RoleEngine))
	files, err := certificate.Load(h.file("server.pem"), h.file("server.key"), h.file("ca.pem"))
	must(t, err)
	held := make(chan struct{})
	hold := sync.OnceFunc(func() { <-time.After(2 * patience); close(held) })
	slow := n.recording(key, cases)
	slow.Submit = func(ctx context.Context, entries ...*entry.Entry) (*ledger.Answer, error) {
		hold()
		return n.log.Submit(ctx, entries...)
	}
	address, _ := n.serve(func(c *server.Config) { c.TLS, c.ReadTimeout, c.Attempts = files, patience, attempts.New(slow) })
	body, write := io.Pipe()
	send := func(i int) {
		_, _ = io.WriteString(write, strings.Replace(oneCase, `"id":"one"`, fmt.Sprintf(`"id":"%d"`, i), 1)+"\n") // a batch that ended shows in the answer
	}
	go func() {
		for i := range cases - 1 {
			send(i)
		}
		<-held
		send(cases - 1)
		_ = write.Close() // never fails
	}()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+address+"/v1/recoveries/batch", body)
	must(t, err)
	request.Header.Set("Content-Type", api.MediaNDJSON)
	response, err := h.client().Do(request)
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	if response.ProtoMajor != 2 {
		t.Errorf("over %s", response.Proto)
	}
	if got := recoveryLines(t, &answer{response, text})[cases].End.Recorded; got.Cases != cases || got.Reason != "" {
		t.Errorf("%+v", got)
	}
}

// TestRecoveriesObeyRollout: the rules of a case's arm decide, its entry names them, and a
// candidate of a shadow decides beside. In a canary, a trace has what the other arm would have
// decided. A batch records its cases together, and the same batch is recorded once.
func TestRecoveriesObeyRollout(t *testing.T) {
	n := start(t, nil)
	key, operator := newSigner(t), newSigner(t)
	n.engineOf(key, 1000, nil)
	law := n.follower()
	law.Recovery = recovery.Default().JSON()
	candidate := jsontext.Value(strings.Replace(string(law.Recovery), `"attempts":6`, `"attempts":1`, 1))
	n.register(n.enrol("engine-1", key, entry.RoleEngine), n.enrol("operator-1", operator, entry.RoleOperator), sign(t, n.authority, law))
	r := &entry.Rollout{Header: n.header("operator-1", "r1"), Rollout: "r1", Op: entry.RolloutStart, Stage: entry.StageShadow, Reason: "try it",
		Start: &entry.RolloutTerms{CandidateDigest: rollout.DigestOf(candidate), BaselineDigest: recovery.Default().Hash(), Candidate: candidate, Salt: "s",
			Gates: entry.RolloutGates(), CasesMin: 30, DeadlineAt: time.Now().Add(time.Hour).UnixMilli()}}
	n.register(sign(t, operator, r))
	size := n.log.Head().Size
	shadow := n.recovered(n.recover("", api.MediaJSON, oneCase))
	trace, err := engine.DecodeTrace(shadow.Trace)
	must(t, err)
	all := n.attemptsFrom(size)
	if trace.Arm != entry.ArmControl || trace.Shadow == nil || shadow.Recorded != (api.Recorded{Cases: 1, Entries: 2}) || len(all) != 2 ||
		all[0].Arm != entry.ArmControl || all[1].Arm != entry.ArmShadow || all[1].Policy != rollout.DigestOf(candidate) || len(all[1].Rungs) != len(trace.Rungs) {
		t.Fatalf("shadow: %+v %s\n%+v", shadow.Recorded, shadow.Trace, all)
	}
	r = &entry.Rollout{Header: n.header("operator-1", "r1"), Rollout: "r1", Op: entry.RolloutAdvance, Stage: entry.StageCanary, SharePermille: 500, Reason: "good"}
	n.register(sign(t, operator, r))
	size = n.log.Head().Size
	var body strings.Builder
	for i := range 100 {
		body.WriteString(strings.Replace(oneCase, `"id":"one"`, fmt.Sprintf(`"id":"case-%d"`, i), 1) + "\n")
	}
	lines := recoveryLines(t, n.recover("/batch", api.MediaNDJSON, body.String()))
	end := lines[100].End
	all = n.attemptsFrom(size)
	if end.Recorded.Cases != 100 || end.Recorded.Reason != "" || int(end.Recorded.Entries) != len(all) || len(all) > 10 {
		t.Errorf("%d entries: %+v", len(all), end.Recorded)
	}
	arms := map[string]entry.Arm{}
	for _, a := range all {
		for c := range a.Cases() {
			arms[c.Case] = a.Arm
			if want := rollout.Draw("s", c.Case) < 500; want != (a.Arm == entry.ArmCanary) || want != (a.Policy == rollout.DigestOf(candidate)) {
				t.Errorf("%s: %s by %s", c.Case, a.Arm, a.Policy)
			}
		}
	}
	for _, line := range lines[:100] {
		var of engine.Trace
		must(t, json.Unmarshal(line.Trace, &of))
		if of.Arm != arms[of.Case] || of.Arm == "" {
			t.Errorf("%s: %s in the trace, %s in the log", of.Case, of.Arm, arms[of.Case])
		}
		other := rollout.DigestOf(candidate) // decides beside a case of the baseline, and the baseline beside one of the candidate
		if of.Arm == entry.ArmCanary {
			other = recovery.Default().Hash()
		}
		if of.Shadow != nil || of.Other == nil || of.Other.Policy != other || len(of.Other.Rungs) != len(of.Rungs) {
			t.Errorf("%s of arm %s: the other arm: %+v", of.Case, of.Arm, of.Other)
		}
	}
	again := recoveryLines(t, n.recover("/batch", api.MediaNDJSON, body.String()))[100].End.Recorded
	if again.Cases != 100 || again.Entries != 0 || int(again.Known) != len(all) || n.log.Head().Size != size+uint64(len(all)) {
		t.Errorf("the same batch again: %+v", again)
	}
}
