//go:build unix

package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rogpeppe/go-internal/testscript"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
)

// loadClients is how many clients of a script submit at once.
const loadClients = 4

// scriptLoad submits entries of an agent, by several clients at once, until the script ends:
// executions, attempts with cost and tokens, and entries that the ledger refuses.
func scriptLoad(ts *testscript.TestScript, _ bool, args []string) {
	signer, err := keys.Load(ts.MkAbs(args[0]), nil)
	ts.Check(err)
	principal, origin, url := entry.Principal(args[1]), ts.Getenv("ORIGIN"), ts.Getenv("URL")
	header := func() entry.Header {
		return entry.Header{V: 1, JTI: uuid.NewString(), Iss: principal, Aud: origin, Iat: time.Now().Unix(), Wid: "load"}
	}
	next := func(i int) entry.Body {
		switch i % 8 {
		case 0: // its parent is unknown
			return &entry.Execution{Header: header(), Exec: uuid.NewString(), Parents: []entry.Parent{{Exec: "nobody#nothing", Dep: entry.Hard}}, Effect: entry.EffectNone, Progress: entry.Confirmed}
		case 1:
			return &entry.Attempt{Header: header(), Agent: principal, AttemptCase: entry.AttemptCase{Case: "case-" + strconv.Itoa(i), Status: entry.StatusRecovered, CostMicroUSD: new(int64(7)),
				Rungs: []entry.Rung{{Attempt: 1, Class: "transient", Code: "timeout", Rule: "r", Strategy: "retry", Result: "ok", CostMicroUSD: new(int64(7)), Tokens: new(int64(100)), Reason: "load"}}}}
		}
		return &entry.Execution{Header: header(), Exec: uuid.NewString(), Parents: []entry.Parent{}, Effect: entry.EffectNone, Progress: entry.Confirmed}
	}
	ended := make(chan struct{})
	var clients sync.WaitGroup
	for range loadClients {
		clients.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-ended:
					return
				default:
				}
				if e, err := entry.New(next(i)); err == nil && signer.Sign(e) == nil {
					submitAnyway(url, e)
				}
			}
		})
	}
	ts.Defer(func() { close(ended); clients.Wait() })
}

// scriptFlood has an agent log steps that cannot be undone, and signal each of them, in one batch:
// KEY PRINCIPAL COUNT.
func scriptFlood(ts *testscript.TestScript, _ bool, args []string) {
	signer, err := keys.Load(ts.MkAbs(args[0]), nil)
	ts.Check(err)
	principal, origin := entry.Principal(args[1]), ts.Getenv("ORIGIN")
	count, err := strconv.Atoi(args[2])
	ts.Check(err)
	var batch []byte
	add := func(body entry.Body) {
		e, err := entry.New(body)
		ts.Check(err)
		ts.Check(signer.Sign(e))
		batch = append(e.AppendEnvelope(batch), '\n')
	}
	for range count {
		header := entry.Header{V: 1, JTI: uuid.NewString(), Iss: principal, Aud: origin, Iat: time.Now().Unix(), Wid: "flood"}
		started := entry.Execution{Header: header, Exec: uuid.NewString(), Parents: []entry.Parent{}, Effect: entry.EffectIrrevocable,
			Progress: entry.Started, IdempotencyKey: entry.DigestOf(header.JTI)}
		confirmed := started
		confirmed.JTI, confirmed.Progress = uuid.NewString(), entry.Confirmed
		header.JTI = uuid.NewString()
		add(&started)
		add(&confirmed)
		add(&entry.Signal{Header: header, Subject: entry.NewRef(principal, started.Exec), Class: "tool", Code: "error", Standing: entry.StandingExecutor,
			Effects: entry.EffectsComplete, ReplaySafety: entry.ReplayUnknown, ObservedAt: time.Now().UnixMilli()})
	}
	response, err := http.Post(ts.Getenv("URL")+api.PathEntries, api.MediaNDJSON, bytes.NewReader(batch))
	ts.Check(err)
	answer, err := io.ReadAll(response.Body)
	ts.Check(errors.Join(err, response.Body.Close()))
	if lines := bytes.Count(answer, []byte("\n")); response.StatusCode != http.StatusOK || lines != 3*count+1 || bytes.Contains(answer, []byte(`"problem"`)) {
		ts.Fatalf("status %d, %d lines for %d entries: ... %s", response.StatusCode, lines, 3*count, answer[max(0, len(answer)-1000):])
	}
}

// submitAnyway submits an entry, and ignores whether the ledger takes it.
func submitAnyway(url string, e *entry.Entry) {
	response, err := http.Post(url+"/v1/entries", "application/json", bytes.NewReader(e.AppendEnvelope(nil)))
	if err != nil {
		time.Sleep(askEvery) // the ledger is away
		return
	}
	_, _ = io.Copy(io.Discard, response.Body) // so that the connection stays
	_ = response.Body.Close()
}
