package publish_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	checkpoint "github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"

	"recoveryledger/ledger/export"
	"recoveryledger/ledger/publish"
	"recoveryledger/merkle"
	"recoveryledger/testdata/bucket"
	"recoveryledger/testdata/testlog"
	"recoveryledger/verify"
)

const origin = "ledger.example/published"

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// log is a log in memory that signs every head, and serves tiles by their definition. The same name
// gives the same leaves.
type log struct {
	name   string
	mu     sync.Mutex
	leaves [][]byte
	hashes []merkle.Hash
}

// grow adds leaves up to a size.
func (l *log) grow(size int) *log {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.leaves); i < size; i++ {
		leaf := fmt.Appendf(nil, "%s %d %s", l.name, i, strings.Repeat("y", i%50))
		l.leaves, l.hashes = append(l.leaves, leaf), append(l.hashes, merkle.HashLeaf(leaf))
	}
	return l
}

// Published implements [export.Source].
func (l *log) Published() (verify.SignedHead, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	head := merkle.HeadOf(l.hashes)
	signer, _, _ := testlog.NoteKey(origin)
	body := checkpoint.Checkpoint{Origin: origin, Size: head.Size, Hash: head.Root[:]}.Marshal()
	signed, err := note.Sign(&note.Note{Text: string(body)}, signer)
	return verify.SignedHead{Head: head, Note: string(signed)}, err
}

// Tile implements [export.Source]: hash i of tile n at level v covers 256^v leaves.
func (l *log) Tile(t merkle.Tile) (out []byte, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := t.Index * 256; i < t.Index*256+uint64(t.Width); i++ {
		if t.Entries {
			out = append(append(out, byte(len(l.leaves[i])>>8), byte(len(l.leaves[i]))), l.leaves[i]...)
			continue
		}
		span := uint64(1) << (8 * t.Level)
		root := merkle.HeadOf(l.hashes[i*span : (i+1)*span]).Root
		out = append(out, root[:]...)
	}
	return out, nil
}

func openHead(signed []byte) (merkle.Head, error) {
	_, verifier, _ := testlog.NoteKey(origin)
	opened, _, _, err := checkpoint.ParseCheckpoint(signed, origin, verifier)
	if err != nil {
		return merkle.Head{}, err
	}
	return merkle.Head{Size: opened.Size, Root: merkle.Hash(opened.Hash)}, nil
}

// place is where a test publishes.
type place struct {
	t        testing.TB
	location string
	env      map[string]string
	store    http.Handler // of a bucket
	puts     atomic.Int64
	onPut    atomic.Pointer[func(n int64, w http.ResponseWriter, r *http.Request) bool] // true: it has answered
	get      func(name string) (body []byte, header http.Header, found bool)
}

func (p *place) getenv(name string) string { return p.env[name] }

func (p *place) target() publish.Target {
	p.t.Helper()
	target, err := publish.Open(p.location, p.getenv)
	must(p.t, err)
	return target
}

// publisher returns a publisher of a log, with the clock at a time.
func (p *place) publisher(l *log, now *time.Time) *publish.Publisher {
	p.t.Helper()
	c := &publish.Config{Target: p.target(), Source: l, Open: openHead}
	if now != nil {
		c.Now = func() time.Time { return *now }
	}
	made, err := publish.New(c)
	must(p.t, err)
	return made
}

// once publishes a log.
func (p *place) once(l *log) *export.Report {
	p.t.Helper()
	report, err := p.publisher(l, nil).Once(p.t.Context())
	must(p.t, err)
	return report
}

// newDirectory returns a directory as a place.
func newDirectory(tb testing.TB) *place {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), "public")
	return &place{t: tb, location: "file://" + dir, get: func(name string) ([]byte, http.Header, bool) {
		body, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		return body, nil, err == nil
	}}
}

// newBucket returns a bucket as a place: a store of S3 on loopback.
func newBucket(tb testing.TB) *place {
	tb.Helper()
	store := bucket.NewStore()
	p := &place{t: tb, location: "s3://" + bucket.Name + "/some/prefix", store: store}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			n := p.puts.Add(1)
			if act := p.onPut.Load(); act != nil && (*act)(n, w, r) {
				return
			}
		}
		store.ServeHTTP(w, r)
	}))
	tb.Cleanup(web.Close)
	p.env = bucket.Variables(web.URL)
	p.get = func(name string) ([]byte, http.Header, bool) {
		tb.Helper()
		request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, web.URL+"/"+bucket.Name+"/some/prefix/"+name, http.NoBody)
		must(tb, err)
		response, err := http.DefaultClient.Do(request) // unpacks gzip
		must(tb, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		must(tb, err)
		return body, response.Header, response.StatusCode == http.StatusOK
	}
	return p
}

// check compares all files under the published head with the log as it was then, and returns the
// size.
func (p *place) check(l *log) uint64 {
	p.t.Helper()
	signed, header, found := p.get(export.Checkpoint)
	if !found {
		return 0
	}
	head, err := openHead(signed)
	must(p.t, err)
	if head != merkle.HeadOf(l.hashes[:head.Size]) {
		p.t.Fatalf("the published head is of another log: %v", head)
	}
	p.cached(header, export.Checkpoint, "public, max-age=1")
	for level := uint(0); head.Size>>(8*level) > 0; level++ {
		hashes := head.Size >> (8 * level)
		for index := uint64(0); index*256 < hashes; index++ {
			tiles := []merkle.Tile{{Level: level, Index: index, Width: int(min(256, hashes-index*256))}}
			if level == 0 {
				tiles = append(tiles, merkle.Tile{Entries: true, Index: index, Width: tiles[0].Width})
			}
			for _, tile := range tiles {
				want, err := l.Tile(tile)
				must(p.t, err)
				got, header, found := p.get(tile.Path())
				if !found || !bytes.Equal(got, want) {
					p.t.Fatalf("size %d: %s is not there, or differs from the definition", head.Size, tile.Path())
				}
				p.cached(header, tile.Path(), "public, max-age=31536000, immutable")
			}
		}
	}
	return head.Size
}

func (p *place) cached(header http.Header, name, want string) {
	p.t.Helper()
	if got := header.Get("Cache-Control"); header != nil && got != want {
		p.t.Errorf("%s: Cache-Control %q, want %q", name, got, want)
	}
}
