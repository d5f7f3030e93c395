package publish_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"recoveryledger/ledger"
	"recoveryledger/ledger/export"
	"recoveryledger/ledger/publish"
	"recoveryledger/verify"
)

var places = map[string]func(testing.TB) *place{"directory": newDirectory, "bucket": newBucket}

// TestPublish: after every step all files are there that the published head covers, with the bytes
// and headers that readers need, and a step without news writes nothing.
func TestPublish(t *testing.T) {
	for name, at := range places {
		t.Run(name, func(t *testing.T) {
			p, l := at(t), &log{name: "a"}
			for _, size := range []int{0, 1, 3, 255, 256, 257, 700, 66000} {
				report := p.once(l.grow(size))
				if got := p.check(l); got != uint64(size) || report.Newer.Size != got {
					t.Fatalf("size %d, want %d: %+v", got, size, report)
				}
				puts := p.puts.Load()
				if again := p.once(l); again.Files != 0 || again.Older != again.Newer || p.puts.Load() != puts {
					t.Errorf("size %d: without news %+v", size, again)
				}
			}
		})
	}
}

// TestPartialTilesGo: partial tiles stay for an hour after a published head has the full tile, and
// not longer, though the publisher was another process before.
func TestPartialTilesGo(t *testing.T) {
	for name, at := range places {
		p, l, now := at(t), &log{name: "a"}, time.Unix(1e9, 0)
		step := func() {
			_, err := p.publisher(l, &now).Once(t.Context())
			must(t, err)
		}
		names := []string{"tile/0/000.p/3", "tile/entries/000.p/3", "tile/0/000.p/9", "tile/entries/000.p/9"}
		stand := func(want int) {
			t.Helper()
			there := slices.DeleteFunc(slices.Clone(names), func(n string) bool { _, _, found := p.get(n); return !found })
			if len(there) != want {
				t.Errorf("%s, at %s: %q", name, now, there)
			}
		}
		l.grow(3)
		step()
		l.grow(9)
		step()
		now = now.Add(2 * time.Hour)
		step()
		stand(4) // the tile is not full
		l.grow(260)
		step()
		now = now.Add(59 * time.Minute)
		step()
		stand(4)
		now = now.Add(2 * time.Minute)
		step()
		stand(0)
		p.check(l)
	}
}

// TestTargetAheadOfTheLog: a published head that the log does not have ends the publishing, and
// stays.
func TestTargetAheadOfTheLog(t *testing.T) {
	for name, at := range places {
		p := at(t)
		p.once((&log{name: "a"}).grow(300))
		before, _, _ := p.get(export.Checkpoint)
		for what, c := range map[string]struct {
			other *log
			want  error
		}{
			"a log that lost entries":        {(&log{name: "a"}).grow(299), ledger.ErrRolledBack},
			"another log of the same size":   {(&log{name: "b"}).grow(300), export.ErrInconsistent},
			"another log, which is longer":   {(&log{name: "b"}).grow(900), export.ErrInconsistent},
			"another log that begins like a": {fork(290, 400), export.ErrInconsistent},
		} {
			other := p.publisher(c.other, nil)
			if _, err := other.Once(t.Context()); !errors.Is(err, c.want) || !publish.Conflicts(err) {
				t.Errorf("%s, %s: %v", name, what, err)
			} else if found, is := errors.AsType[*verify.ForkError](err); is != errors.Is(c.want, export.ErrInconsistent) || is && found.First != string(before) {
				t.Errorf("%s, %s: the heads are not kept: %+v", name, what, found)
			}
			if err := other.Run(t.Context(), time.Hour); !errors.Is(err, c.want) {
				t.Errorf("%s, %s: Run: %v", name, what, err)
			}
			if after, _, _ := p.get(export.Checkpoint); string(after) != string(before) {
				t.Fatalf("%s, %s: the published head has changed", name, what)
			}
		}
		_, err := p.target().Put(t.Context(), export.Checkpoint, []byte("no tree head\n"), publish.PutOptions{})
		must(t, err)
		if err := p.publisher((&log{name: "a"}).grow(300), nil).Check(t.Context()); !errors.Is(err, export.ErrInconsistent) {
			t.Errorf("%s, no tree head: %v", name, err)
		}
	}
}

// TestLaggingNodePublishes: a node of a cluster is behind what another one has published. It
// publishes nothing while it does not know whether entries are lost, and goes on when it has them.
func TestLaggingNodePublishes(t *testing.T) {
	for name, at := range places {
		p, l := at(t), (&log{name: "a"}).grow(300)
		p.once(l)
		behind := (&log{name: "a"}).grow(299)
		cutOff := errors.New("no majority answers")
		for what, c := range map[string]struct {
			reach func(context.Context) error
			want  error
		}{
			"it does not know":    {func(context.Context) error { return cutOff }, cutOff},
			"nobody has them":     {func(context.Context) error { return nil }, ledger.ErrRolledBack},
			"it has them by then": {func(context.Context) error { behind.grow(300); return nil }, nil},
		} {
			behind = (&log{name: "a"}).grow(299)
			node, err := publish.New(&publish.Config{Target: p.target(), Source: behind, Open: openHead, Reach: c.reach,
				Size: func() uint64 { return uint64(len(behind.leaves)) }})
			must(t, err)
			if _, err := node.Once(t.Context()); !errors.Is(err, c.want) || publish.Conflicts(err) != errors.Is(c.want, ledger.ErrRolledBack) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
}

// fork returns a log that is log a up to a size, and then goes on by itself.
func fork(same, size int) *log {
	l := (&log{name: "a"}).grow(same)
	l.name = "b"
	return l.grow(size)
}

// TestPublishedFewerThanSize: a head that covers less than what is published is no loss where the
// log has all of it, as after a restart before the witnesses cosign.
func TestPublishedFewerThanSize(t *testing.T) {
	p := newBucket(t)
	p.once((&log{name: "a"}).grow(20))
	older, err := publish.New(&publish.Config{Target: p.target(), Source: (&log{name: "a"}).grow(10), Open: openHead, Size: func() uint64 { return 20 }})
	must(t, err)
	report, err := older.Once(t.Context())
	if err != nil || report.Newer.Size != 20 || p.check((&log{name: "a"}).grow(20)) != 20 {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestConditions: a put under a condition that does not hold changes nothing, at a store that knows
// conditions, and at one that does not.
func TestConditions(t *testing.T) {
	for name, at := range places {
		for _, refuses := range []bool{false, true} {
			p := at(t)
			if refuses {
				p.on(func(_ int64, w http.ResponseWriter, r *http.Request) bool {
					unknown := r.Header.Get("If-Match") != "" || r.Header.Get("If-None-Match") != ""
					if unknown {
						w.WriteHeader(http.StatusNotImplemented)
					}
					return unknown
				})
			}
			target, ctx := p.target(), t.Context()
			tag, err := target.Put(ctx, "x", []byte("1"), publish.PutOptions{IfAbsent: true})
			must(t, err)
			if _, err := target.Put(ctx, "x", []byte("2"), publish.PutOptions{IfAbsent: true}); !errors.Is(err, publish.ErrChanged) {
				t.Errorf("%s: it is there: %v", name, err)
			}
			_, err = target.Put(ctx, "x", []byte("3"), publish.PutOptions{IfTag: tag})
			must(t, err)
			if _, err := target.Put(ctx, "x", []byte("4"), publish.PutOptions{IfTag: tag}); !errors.Is(err, publish.ErrChanged) {
				t.Errorf("%s: another tag: %v", name, err)
			}
			if data, _, err := target.Get(ctx, "x"); err != nil || string(data) != "3" {
				t.Errorf("%s: %q, %v", name, data, err)
			}
			must(t, target.Delete(ctx, "x"))
			must(t, target.Delete(ctx, "x"))
		}
	}
}

func (p *place) on(act func(n int64, w http.ResponseWriter, r *http.Request) bool) {
	p.onPut.Store(&act)
}

// TestMain is the publisher that TestKilledPublisher kills, if the environment says so.
func TestMain(m *testing.M) {
	if os.Getenv("PUBLISH_TO") == "" {
		os.Exit(m.Run())
	}
	target, err := publish.Open(os.Getenv("PUBLISH_TO"), os.Getenv)
	if err != nil {
		panic(err)
	}
	p, err := publish.New(&publish.Config{Target: target, Source: (&log{name: "a"}).grow(66000), Open: openHead})
	if err == nil {
		_, err = p.Once(context.Background())
	}
	if err != nil {
		panic(err)
	}
	os.Exit(0)
}

// TestKilledPublisher kills a publisher at its n-th put, before or after the store has it. What is
// published is the older log, whole, and the next publisher makes it the newer one. It does not put
// again what was noted.
func TestKilledPublisher(t *testing.T) {
	p, l := newBucket(t), &log{name: "a"}
	p.once(l.grow(300))
	l.grow(66000)
	self, err := os.Executable()
	must(t, err)
	for _, at := range []int64{1, 2, 40, 131, 100, 129, 130} {
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(os.Environ(), "PUBLISH_TO="+p.location)
		for name, value := range p.env {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		// The store may still serve puts of the killed process before. Its key tells them apart.
		key := fmt.Sprintf("killed-at-%d", at)
		cmd.Env = append(cmd.Env, "AWS_ACCESS_KEY_ID="+key)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		started := make(chan struct{})
		var own atomic.Int64
		p.on(func(_ int64, _ http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.Header.Get("Authorization"), key+"/") {
				return false
			}
			// All of the body is here before the kill: the store has the put whole, or not at all.
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return true // of a put that was under way at the kill
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			n := own.Add(1)
			if n == at {
				<-started
				_ = cmd.Process.Kill() // it may have ended
			}
			return n >= at && at%2 == 0
		})
		must(t, cmd.Start())
		close(started)
		if err := cmd.Wait(); err != nil && !strings.Contains(err.Error(), "killed") {
			t.Fatalf("%v\n%s", err, &out)
		}
		p.on(func(int64, http.ResponseWriter, *http.Request) bool { return false })
		if size := p.check(l); size != 300 && size != 66000 {
			t.Fatalf("killed at put %d: a log of size %d", at, size)
		}
	}
	p.puts.Store(0)
	report := p.once(l) // 64 bundles and their tiles were noted three times
	if size := p.check(l); size != 66000 || p.puts.Load() > 150 || report.Kept < 300 {
		t.Errorf("size %d after %d further puts, %+v", size, p.puts.Load(), report)
	}
}

// TestNotesOfAnotherLog: notes that are of another log, or damaged, do not let a tile be left out.
func TestNotesOfAnotherLog(t *testing.T) {
	for name, at := range places {
		for _, notes := range []string{`{"full":{"size":512,"root":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="},"partial":null}`, "}{", "1"} {
			p, l := at(t), (&log{name: "a"}).grow(700)
			_, err := p.target().Put(t.Context(), ".arl-publish", []byte(notes), publish.PutOptions{})
			must(t, err)
			p.once(l)
			if size := p.check(l); size != 700 {
				t.Errorf("%s, notes %q: size %d", name, notes, size)
			}
		}
	}
}

// TestOpen: a location that names no target is refused, with the form that is wanted.
func TestOpen(t *testing.T) {
	for _, wrong := range []string{"", "s3:///a", "s3://b?x", "file://host/a", "file:relative", "ftp://a", "/tmp/a", "s3://u@b/a", "%"} {
		if _, err := publish.Open(wrong, func(string) string { return "" }); err == nil {
			t.Errorf("%q: no error", wrong)
		}
	}
	for _, endpoint := range []string{"store", "ftp://a", "http://a/b"} {
		if _, err := publish.Open("s3://b", func(name string) string { return map[string]string{"AWS_ENDPOINT_URL": endpoint}[name] }); err == nil {
			t.Errorf("endpoint %q: no error", endpoint)
		}
	}
	if _, err := publish.New(&publish.Config{}); err == nil {
		t.Error("no target: no error")
	}
}

// TestRun: an error of the store is told and tried again, and what the log grows by is published,
// until the end.
func TestRun(t *testing.T) {
	p, l := newBucket(t), (&log{name: "a"}).grow(5)
	put := make(chan int64, 1<<10) // a put was answered, or will be
	p.on(func(n int64, w http.ResponseWriter, r *http.Request) bool {
		if n == 1 {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		p.store.ServeHTTP(w, r)
		put <- n
		return true
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended, failed := make(chan error, 1), make(chan error, 1)
	runs, err := publish.New(&publish.Config{Target: p.target(), Source: l, Open: openHead, Failed: func(err error) { failed <- err }})
	must(t, err)
	go func() { ended <- runs.Run(ctx, 10*time.Millisecond) }()
	if err := <-failed; err == nil || publish.Conflicts(err) {
		t.Errorf("the refusal of the store is told as %v", err)
	}
	for _, size := range []int{5, 300} {
		l.grow(size)
		for n := range put {
			if n > 0 && p.published() == uint64(size) {
				break
			}
		}
	}
	cancel()
	must(t, <-ended)
	p.check(l)
}

// TestRunThatHangs: a store that does not answer makes its place late, from the start on and in a
// later round.
func TestRunThatHangs(t *testing.T) {
	p, l := newBucket(t), (&log{name: "a"}).grow(5)
	hangs, goesOn := make(chan int64), make(chan struct{})
	var hung sync.Map // by the published size
	p.on(func(_ int64, w http.ResponseWriter, r *http.Request) bool {
		size := int64(p.published())
		if _, before := hung.LoadOrStore(size, true); !before && size < 300 {
			hangs <- size
			<-goesOn
		}
		p.store.ServeHTTP(w, r)
		return true
	})
	var now atomic.Int64
	runs, err := publish.New(&publish.Config{Target: p.target(), Source: l, Open: openHead, Now: func() time.Time { return time.UnixMilli(now.Load()) }})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runs.Run(ctx, 10*time.Millisecond) }()
	for _, want := range []struct{ hangs, at, late int64 }{{0, 7000, 7000}, {5, 7510, 500}} {
		if at := <-hangs; at != want.hangs {
			t.Errorf("the store has size %d, want %d", at, want.hangs)
		}
		now.Store(want.at)
		if size, late := runs.Status(); size != uint64(want.hangs) || late != time.Duration(want.late)*time.Millisecond {
			t.Errorf("size %d, %s late, want %+v", size, late, want)
		}
		l.grow(300)
		goesOn <- struct{}{}
	}
	cancel()
	must(t, <-ended)
}

func (p *place) published() uint64 {
	signed, _, found := p.get(export.Checkpoint)
	if !found {
		return 0
	}
	head, err := openHead(signed)
	must(p.t, err)
	return head.Size
}
