package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"recoveryledger/ledger/publish"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// served is a node that arl serves.
type served struct {
	cmd  *exec.Cmd
	said bytes.Buffer
	data string
	url  string
}

// serve starts a node, and waits until it serves.
func (p *program) serve(ctx context.Context, data string, args ...string) (*served, error) {
	s := &served{data: data, cmd: p.command(ctx, append([]string{"serve", "--output", "json", "--data", data, "--listen", "127.0.0.1:0", "--rate=-1",
		"--accept-no-coordinator", "--cluster", "--peer-listen", "127.0.0.1:0", "--etcd-listen", "127.0.0.1:0"}, args...)...)}
	s.cmd.Stderr = &s.said
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(os.Interrupt) }
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	var started struct{ URL string }
	if err := json.NewDecoder(out).Decode(&started); err != nil {
		return s, errors.Join(fmt.Errorf("arl serve: %w", err), s.cmd.Wait(), errors.New(s.said.String()))
	}
	s.url = started.URL
	return s, nil
}

func (s *served) stop() error {
	if s == nil || s.cmd.ProcessState != nil {
		return nil
	}
	if err := errors.Join(s.cmd.Process.Signal(os.Interrupt), s.cmd.Wait()); err != nil {
		return fmt.Errorf("%s: %w: %s", s.data, err, s.said.String())
	}
	return nil
}

// resident returns the largest memory that the process had, in MiB.
func (s *served) resident() (float64, error) {
	return peakMemory(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
}

// clusterJoin founds a cluster from a ledger of many entries, has two empty nodes join, and puts
// load on the leader: how fast a node catches up, and what memory each node takes.
func clusterJoin(ctx context.Context, b *bench) (err error) {
	p, err := buildBinary(ctx, b.dir)
	if err != nil {
		return err
	}
	dir := filepath.Join(b.dir, "join")
	defer os.RemoveAll(dir)
	pool, err := fill(ctx, b, filepath.Join(dir, nodeName(0)))
	if err != nil {
		return err
	}
	all := make([]*served, nodes)
	defer func() {
		for _, s := range all {
			err = errors.Join(err, s.stop())
		}
	}()
	if all[0], err = p.serve(ctx, filepath.Join(dir, nodeName(0)), "--accept-anchor"); err != nil { // fill has written none
		return err
	}
	var rates []float64
	for i := 1; i < nodes; i++ {
		token, err := p.command(ctx, "cluster", "token", "--data", all[0].data).Output()
		if err != nil {
			return fmt.Errorf("arl cluster token: %w", err)
		}
		began := time.Now()
		if all[i], err = p.serve(ctx, filepath.Join(dir, nodeName(i)), "--join", strings.TrimSpace(string(token))); err != nil {
			return err
		}
		if err := all[i].reaches(ctx, b.entries); err != nil {
			return err
		}
		rates = append(rates, float64(b.entries)/time.Since(began).Seconds())
	}
	b.print(row{name: fmt.Sprintf("an empty node of a cluster catches up with %d entries", b.entries), value: slices.Min(rates), unit: "entries/s", target: 50_000,
		detail: fmt.Sprintf("slowest of %d, start of the process included: %.0f; all nodes on one machine and one disk", len(rates), rates)})
	return memoryOfNodes(b, all, pool)
}

// fill makes a ledger of as many entries as the rows want, and signs more for a load.
func fill(ctx context.Context, b *bench, dir string) (next func() []byte, err error) {
	const batch = 1000
	t, err := openLedger(ctx, dir)
	if err != nil {
		return nil, err
	}
	for i := 0; i < b.entries; i += batch {
		if err := t.submitMany(ctx, i, min(batch, b.entries-i)); err != nil {
			return nil, err
		}
	}
	if next, err = t.envelopesFrom(b.entries, int(b.time.Seconds()*pinnedRate)); err != nil {
		return nil, err
	}
	return joined(next, 256), t.stop()
}

// reaches waits until the node has so many entries: it says what it has not reached only then.
func (s *served) reaches(ctx context.Context, size int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/v1/entries/%d", s.url, size-1), http.NoBody)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		if err := response.Body.Close(); err != nil || response.StatusCode == http.StatusOK {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s is at %s, not at %d: %w", s.data, response.Header.Get("Log-Size"), size, ctx.Err())
		}
	}
}

// memoryOfNodes posts batches to the leader, and reads the memory of each node.
func memoryOfNodes(b *bench, all []*served, next func() []byte) error {
	done, elapsed, err := closedLoop(8, b.time, next, func(body []byte) error {
		response, err := http.Post(all[0].url+"/v1/entries", "application/x-ndjson", bytes.NewReader(body))
		if err != nil {
			return err
		}
		answer, err := io.ReadAll(response.Body)
		if err == nil && (response.StatusCode >= 300 || bytes.Contains(answer, []byte(`"status"`))) {
			err = fmt.Errorf("%s: %.300s", response.Status, answer)
		}
		return errors.Join(err, response.Body.Close())
	})
	if err != nil {
		return err
	}
	var sizes []float64
	for _, s := range all {
		mib, err := s.resident()
		if err != nil {
			return err
		}
		sizes = append(sizes, mib)
	}
	b.print(row{name: fmt.Sprintf("resident memory of a node at %d entries, under load over HTTP", b.entries), value: slices.Max(sizes), unit: "MiB", target: 512, atMost: true,
		detail: fmt.Sprintf("the largest that each process had: %.0f; %.0f entries/s in batches of 256", sizes, float64(done*256)/elapsed.Seconds())})
	return nil
}

// clusterFailover runs the test that kills nodes and lets them hang while clients submit, and reads
// how long nobody was acknowledged.
func clusterFailover(ctx context.Context, b *bench) error {
	test := exec.CommandContext(ctx, "go", "test", "-count=1", "-v", "-timeout", "2h", "-run", "^TestFailoverChaos$", "./cmd/arl/cell")
	test.Dir = filepath.Join("..", "..")
	test.Env = append(os.Environ(), "FAULTS="+fmt.Sprint(b.faults))
	out, err := test.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	const says = "of all clients: ["
	at := bytes.Index(out, []byte(says))
	if at < 0 {
		return fmt.Errorf("no outages in: %s", out)
	}
	list, _, _ := strings.Cut(string(out[at+len(says):]), "]")
	var outages []float64
	for text := range strings.FieldsSeq(list) {
		took, err := time.ParseDuration(text)
		if err != nil {
			return err
		}
		outages = append(outages, took.Seconds())
	}
	slices.Sort(outages)
	b.print(row{name: "failover, longest time without an acknowledgement, p99", value: outages[int(math.Ceil(0.99*float64(len(outages))))-1], unit: "s", target: 2.5, atMost: true,
		detail: fmt.Sprintf("p50 %.2f s, longest %.2f s, %d kills and pauses; all nodes and clients on one machine and one disk",
			median(outages), outages[len(outages)-1], len(outages))})
	return nil
}

// source is a log as a publisher sees it.
type source struct{ *ledgerUnderTest }

// Published implements export.Source.
func (s source) Published() (verify.SignedHead, error) {
	head, err := s.Log.Published()
	return head.SignedHead, err
}

// publishing compares the rate of publishing with that of registration, while both go on: what is
// published a second of the publisher's time, to a directory and to a store in process.
func publishing(ctx context.Context, b *bench) error {
	fake := gofakes3.New(s3mem.New())
	store := httptest.NewServer(fake.Server())
	defer store.Close()
	for name, value := range map[string]string{"AWS_ENDPOINT_URL_S3": store.URL, "AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_REGION": "bench"} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	for _, to := range []string{"file", "s3"} {
		var ratios, rates, registered []float64
		for i := range b.rounds {
			dir := filepath.Join(b.dir, fmt.Sprintf("publish-%s-%d", to, i))
			location := "file://" + filepath.Join(dir, "published")
			if to == "s3" {
				bucket := fmt.Sprintf("bench-%d", i)
				if err := s3Bucket(ctx, store.URL, bucket); err != nil {
					return err
				}
				location = "s3://" + bucket + "/log"
			}
			published, rate, err := publishRound(ctx, b, dir, location)
			if err != nil {
				return err
			}
			ratios, rates, registered = append(ratios, published/rate), append(rates, published), append(registered, rate)
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			syscall.Sync()
		}
		b.print(row{name: "publishing to " + map[string]string{"file": "a directory",
			"s3": "an S3 store in process"}[to] + " while 1024 submitters register", value: median(ratios), unit: "× the rate of registration", target: 1,
			detail: fmt.Sprintf("%.0f entries/s of the publisher's time, %.0f entries/s registered; ratios %.3g", median(rates), median(registered), ratios)})
	}
	return nil
}

func s3Bucket(ctx context.Context, url, name string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, url+"/"+name, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("make the bucket %s: %s", name, response.Status)
	}
	return response.Body.Close()
}

// publishRound registers for the time of a run while the publisher goes on, as arl serve --publish
// does it. It returns the entries that were published a second of the publisher's time, and those
// that were registered a second.
func publishRound(ctx context.Context, b *bench, dir, location string) (published, registered float64, err error) {
	t, err := openLedger(ctx, filepath.Join(dir, "ledger"))
	if err != nil {
		return 0, 0, err
	}
	next, err := t.envelopes(int(b.time.Seconds() * poolRate))
	if err != nil {
		return 0, 0, err
	}
	target, err := publish.Open(location, os.Getenv)
	if err != nil {
		return 0, 0, err
	}
	genesis, err := t.Entry(0)
	if err != nil {
		return 0, 0, err
	}
	root := verify.Root{Origin: origin, LedgerKeys: t.keys.VerifierKeys[:], Genesis: merkle.HashLeaf(genesis.AppendLeaf(nil))}
	p, err := publish.New(&publish.Config{Target: target, Source: source{t}, Size: t.Size,
		Open: func(signed []byte) (merkle.Head, error) { return root.Head(signed) }})
	if err != nil {
		return 0, 0, err
	}
	over, ended := make(chan struct{}), make(chan error, 1)
	var size uint64
	var took time.Duration
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for last := false; ; {
			began := time.Now()
			report, err := p.Once(ctx)
			if err == nil {
				size, took = report.Newer.Size, took+time.Since(began)
			}
			if err != nil || last {
				ended <- err
				return
			}
			select {
			case <-over:
				last = true
			case <-tick.C:
			}
		}
	}()
	done, elapsed, err := closedLoop(submitters, b.time, next, func(envelope []byte) error { return t.submit(ctx, envelope) })
	close(over)
	if err = errors.Join(err, <-ended, t.stop()); err != nil {
		return 0, 0, err
	}
	return float64(size) / took.Seconds(), float64(done) / elapsed.Seconds(), nil
}
