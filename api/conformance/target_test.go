package conformance_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"recoveryledger/api/client"
	"recoveryledger/api/client/agent"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/verify"
)

// target is the agent of this repository as the kit tests one: its runtime, and work of its own.
type target struct {
	behavior string // a name of agentFaults, "naive" or "ours"

	root    verify.Root
	name    entry.Principal
	signer  *keys.Signer
	client  *client.Client
	effects string // URL
	secret  []byte

	// mistakes, none in the agent of this repository
	late          time.Duration           // of its clock
	alwaysNew     bool                    // whatever the kit says
	keyOf         func(key string) string // nil: the key of the call
	twice         bool                    // each effect
	refusedIsDone bool                    // a refusal of the service
	order         []string                // nil: log, then act
	credulous     bool                    // of receipts
	defiant       bool                    // of refusals
	silent        bool                    // of the end of executions
	noSignal      bool
}

// newTarget reads what the kit gives.
func newTarget() (*target, error) {
	t := &target{name: entry.Principal(os.Getenv("KIT_AGENT")), effects: os.Getenv("KIT_EFFECTS")}
	text, err := os.ReadFile(os.Getenv("KIT_ROOT"))
	if err != nil {
		return nil, err
	}
	if t.root, err = verify.ParseRoot(text); err != nil {
		return nil, err
	}
	if t.signer, err = keys.Load(os.Getenv("KIT_KEY"), nil); err != nil {
		return nil, err
	}
	if t.secret, err = os.ReadFile(os.Getenv("KIT_SECRET")); err != nil {
		return nil, err
	}
	t.client, err = client.New(os.Getenv("KIT_LEDGER"), t.root, &client.Config{Accepted: t.root.Seen, Attempts: 1, Timeout: 5 * time.Second})
	return t, err
}

// obeys runs the agent until it is told to end.
func (t *target) obeys(ctx context.Context) error {
	store, err := agent.OpenDir(os.Getenv("KIT_STATE"))
	if err != nil {
		return err
	}
	server := &agent.Server{Client: t.client, Agent: t.name}
	config := &agent.Config{Root: t.root, Agent: t.name, Secret: t.secret, Sign: t.signer.Sign, NewID: uuid.NewString, Ledger: server, Log: server, Store: store,
		Hooks: agent.Hooks{Drain: t.hook, Restore: t.hook, Compensate: t.hook, Cancel: t.hook, Probe: t.hook},
		Tell:  func(e agent.Event) { fmt.Fprintln(os.Stderr, e.Kind, e.Exec, e.Text, e.Err) }}
	if seen := t.root.Seen; seen != "" {
		config.Second = &agent.Mirror{Client: t.client, Head: func(context.Context) (string, error) { return seen, nil }}
	}
	if change := agentFaults[t.behavior].change; change != nil {
		change(t, config)
	}
	now := time.Now().UnixMilli()
	if documents, err := store.Names(); err == nil && (os.Getenv("KIT_START") == "first" || t.alwaysNew && len(documents) == 0) {
		since := now
		if t.alwaysNew {
			since = 1 // as if it had been there for ever
		}
		if err := agent.Init(store, t.root, t.name, since); err != nil {
			return err
		}
	}
	go t.works(ctx, os.Stdin)
	a, err := agent.Open(config, now-t.late.Milliseconds())
	if err != nil {
		return err
	}
	if t.late == 0 {
		return agent.Run(ctx, a, server)
	}
	for ctx.Err() == nil && err == nil {
		now := time.Now().Add(-t.late).UnixMilli()
		var next int64
		if next, err = a.Step(ctx, now); next > now {
			_ = server.Wait(ctx, time.Second) // its error comes again
			a.Poke()
		}
	}
	return err
}

// hook is every hook of the agent.
func (t *target) hook(ctx context.Context, c *agent.Call) (*agent.Report, error) {
	hook, probes := c.Hook, c.Hook == agent.Probe
	if probes {
		hook = c.Of
	}
	if hook == agent.Drain || hook == agent.Cancel {
		return &agent.Report{Status: agent.Done}, nil
	}
	members := map[string]any{"do": string(hook)}
	keyOf := func(key string) string {
		if t.keyOf == nil {
			return key
		}
		return t.keyOf(key)
	}
	if hook == agent.Restore {
		members["checkpoint"], members["standing"] = c.Checkpoint, c.Standing
	} else {
		members["exec"], members["key"] = c.Members[0].Exec, keyOf(c.Key)
	}
	if !probes {
		return t.effect(ctx, members)
	}
	keysOf := c.Keys
	if hook == agent.Restore {
		keysOf = []string{""}
	}
	for _, key := range keysOf {
		query := url.Values{"do": {string(hook)}, "key": {keyOf(key)}}
		if hook == agent.Restore {
			query.Set("checkpoint", string(c.Checkpoint))
		} else {
			query.Set("exec", string(c.Members[0].Exec))
		}
		report, err := t.ask(ctx, http.MethodGet, t.effects+"?"+query.Encode(), nil)
		if err != nil || report.Status == agent.Done {
			return report, err
		}
	}
	return &agent.Report{Status: agent.NoEffect}, nil
}

func (t *target) effect(ctx context.Context, members map[string]any) (*agent.Report, error) {
	body, err := json.Marshal(members)
	if err != nil {
		return nil, err
	}
	if t.twice {
		_, _ = t.ask(ctx, http.MethodPost, t.effects, body) // once more
	}
	return t.ask(ctx, http.MethodPost, t.effects, body)
}

// ask asks the world of the kit.
func (t *target) ask(ctx context.Context, method, url string, body []byte) (*agent.Report, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusConflict && t.refusedIsDone {
		return &agent.Report{Status: agent.Done}, nil
	}
	if response.StatusCode == http.StatusConflict {
		return &agent.Report{Status: agent.Failed, Residual: "the charge stands: the service refuses to take it back"}, nil
	}
	var answer struct {
		Done   bool         `json:"done"`
		Digest entry.Digest `json:"digest"`
	}
	if err := json.UnmarshalRead(io.LimitReader(response.Body, 1<<16), &answer); err != nil {
		return nil, err
	}
	if !answer.Done {
		return &agent.Report{Status: agent.NoEffect}, nil
	}
	return &agent.Report{Status: agent.Done, Digest: answer.Digest}, nil
}

// task is a line of standard input: an execution to carry out.
type task struct {
	Exec    string         `json:"exec"`
	Wid     string         `json:"wid"`
	Effect  entry.Effect   `json:"effect"`
	Parents []entry.Parent `json:"parents"`
}

// works carries out what it is told on standard input.
func (t *target) works(ctx context.Context, in io.Reader) {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var k task
		if err := json.Unmarshal(lines.Bytes(), &k); err != nil {
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		if err := t.work(ctx, &k); err != nil {
			fmt.Fprintln(os.Stderr, k.Exec, err)
		}
	}
}

// work logs an execution as started, carries it out, and logs how it ended. What may have been
// begun before a crash is asked about.
func (t *target) work(ctx context.Context, k *task) error {
	if t.order != nil {
		_, _ = t.effect(ctx, map[string]any{"do": "run", "exec": entry.NewRef(t.name, k.Exec)}) // first
	}
	mac := hmac.New(sha256.New, t.secret)
	mac.Write([]byte(k.Exec))
	key := hex.EncodeToString(mac.Sum(nil))
	log := func(progress entry.Progress) error {
		if t.silent && progress != entry.Started {
			return nil
		}
		keyDigest := sha256.Sum256([]byte(key))
		return t.logs(ctx, k.Exec+"-"+string(progress), &entry.Execution{Header: entry.Header{Wid: entry.WorkflowID(k.Wid)}, Exec: k.Exec, Effect: k.Effect, Parents: k.Parents,
			Progress: progress, IdempotencyKey: entry.DigestFrom(keyDigest[:])})
	}
	if err := log(entry.Started); err != nil && !t.defiant {
		return err
	}
	ref := entry.NewRef(t.name, k.Exec)
	query := url.Values{"do": {"run"}, "exec": {string(ref)}, "key": {key}}
	report, err := t.ask(ctx, http.MethodGet, t.effects+"?"+query.Encode(), nil)
	if err == nil && report.Status != agent.Done {
		report, err = t.effect(ctx, map[string]any{"do": "run", "exec": ref, "key": key})
	}
	if err != nil {
		return err
	}
	if report.Status == agent.Done {
		return log(entry.Confirmed)
	}
	if err := log(entry.Failed); err != nil || t.noSignal {
		return err
	}
	return t.logs(ctx, k.Exec+"-signal", &entry.Signal{Header: entry.Header{Wid: entry.WorkflowID(k.Wid)}, Subject: ref, Class: "tool", Code: "error",
		Standing: entry.StandingExecutor, Effects: entry.EffectsNone, ReplaySafety: entry.ReplaySafe, ObservedAt: time.Now().UnixMilli()})
}

// logs registers an entry: the same bytes, from a file, until the log has them.
func (t *target) logs(ctx context.Context, name string, body entry.Body) error {
	file := filepath.Join(os.Getenv("KIT_STATE"), "..", "sent-"+name)
	envelope, err := os.ReadFile(file)
	if err != nil {
		h := entry.HeaderOf(body)
		*h = entry.Header{V: 1, JTI: uuid.NewString(), Iss: t.name, Aud: t.root.Origin, Iat: time.Now().Unix(), Wid: h.Wid}
		e, err := entry.New(body)
		if err == nil {
			err = t.signer.Sign(e)
		}
		if err == nil {
			envelope = e.AppendEnvelope(nil)
			err = os.WriteFile(file, envelope, 0o600)
		}
		if err != nil {
			return err
		}
	}
	patient, err := client.New(os.Getenv("KIT_LEDGER"), t.root, &client.Config{Accepted: t.root.Seen, Timeout: 5 * time.Second})
	if err != nil {
		return err
	}
	e, err := entry.Decode(envelope)
	if err == nil && t.credulous {
		t.post(ctx, e.Body)
		return nil
	}
	if err == nil {
		_, err = patient.Submit(ctx, e)
	}
	return err
}

// runTarget is the process of the agent.
func runTarget(behavior string) int {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	t, err := newTarget()
	if err == nil {
		t.behavior = behavior
		if behavior == "naive" {
			t.naive(ctx)
		} else {
			err = t.obeys(ctx)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
