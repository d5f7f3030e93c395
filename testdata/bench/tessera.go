package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/storage/posix"
	"golang.org/x/mod/sumdb/note"
	"k8s.io/klog/v2"
)

// peerSettings say how Tessera runs.
type peerSettings struct {
	tuned  bool // large batches, short ages, frequent checkpoints
	await  bool // an entry counts when a published checkpoint covers it
	verify bool // decode the envelope and check its signature first
}

// peerResult is what a run of Tessera came to.
type peerResult struct {
	rate  float64       // entries a second
	cpu   time.Duration // processor time an entry
	bytes float64       // allocated on disk, an entry
}

// runTessera has adders submit entries for the time of b.
func runTessera(ctx context.Context, b *bench, dir string, adders int, s peerSettings) (peerResult, error) {
	quiet()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	skey, _, err := note.GenerateKey(rand.Reader, origin)
	if err != nil {
		return peerResult{}, err
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		return peerResult{}, err
	}
	driver, err := posix.New(ctx, posix.Config{Path: filepath.Join(dir, "log")})
	if err != nil {
		return peerResult{}, err
	}
	options := tessera.NewAppendOptions().WithCheckpointSigner(signer)
	if s.tuned {
		options = options.WithBatching(4096, 5*time.Millisecond).WithCheckpointInterval(100 * time.Millisecond)
	}
	appender, shutdown, reader, err := tessera.NewAppender(ctx, driver, options)
	if err != nil {
		return peerResult{}, err
	}
	add := func(entry []byte) error {
		if s.verify {
			if err := verifyPlain(entry); err != nil {
				return err
			}
		}
		future := appender.Add(ctx, tessera.NewEntry(entry))
		_, err := future()
		return err
	}
	if s.await {
		awaiter := tessera.NewPublicationAwaiter(ctx, reader.ReadCheckpoint, 10*time.Millisecond)
		add = func(entry []byte) error {
			_, _, err := awaiter.Await(ctx, appender.Add(ctx, tessera.NewEntry(entry)))
			return err
		}
	}
	before := cpuTime()
	done, elapsed, err := closedLoop(adders, b.time, plainEntries(), add)
	if err != nil {
		return peerResult{}, err
	}
	cpu := (cpuTime() - before) / time.Duration(done)
	if err := shutdown(ctx); err != nil {
		return peerResult{}, err
	}
	size, err := reader.IntegratedSize(ctx)
	if err != nil {
		return peerResult{}, err
	}
	bytes, err := allocated(dir)
	return peerResult{float64(done) / elapsed.Seconds(), cpu, float64(bytes) / float64(size)}, err
}

func quiet() {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	stdlog.SetOutput(io.Discard)
}

// closedLoop has workers call add, each as soon as its last call returned.
func closedLoop(workers int, duration time.Duration, next func() []byte, add func([]byte) error) (int64, time.Duration, error) {
	var done atomic.Int64
	var group sync.WaitGroup
	failed := make(chan error, workers)
	start := time.Now()
	for range workers {
		group.Go(func() {
			for time.Since(start) < duration {
				entry := next()
				if entry == nil {
					return
				}
				err := add(entry)
				if errors.Is(err, tessera.ErrPushback) {
					time.Sleep(time.Millisecond)
					continue
				}
				if err != nil {
					failed <- err
					return
				}
				done.Add(1)
			}
		})
	}
	group.Wait()
	elapsed := time.Since(start)
	select {
	case err := <-failed:
		return 0, 0, err
	default:
		return done.Load(), elapsed, nil
	}
}

// plainEntries returns distinct envelopes with valid signatures, as many as
// wanted: one payload in sixteen signatures, told apart by white space, since
// Tessera looks at nothing.
func plainEntries() func() []byte {
	var n atomic.Int64
	pool := plainPool()
	return func() []byte {
		i := n.Add(1)
		envelope := pool[i%int64(len(pool))]
		return append(envelope[:len(envelope):len(envelope)], strconv.FormatInt(i, 36)...)
	}
}

var plainKey = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

func plainPool() [][]byte {
	pool := make([][]byte, 16)
	for i := range pool {
		payload := fmt.Appendf(nil, `{"n":%d,"pad":"%s"}`, i, pad(600))
		pae := fmt.Appendf(nil, "DSSEv1 4 test %d %s", len(payload), payload)
		pool[i] = fmt.Appendf(nil, `{"payload":"%s","payloadType":"test","signatures":[{"keyid":"%s","sig":"%s"}]}`,
			base64.StdEncoding.EncodeToString(payload), pad(43), base64.StdEncoding.EncodeToString(ed25519.Sign(plainKey, pae)))
	}
	return pool
}

// verifyPlain is the cheapest check that a Tessera personality could put in
// front: encoding/json and crypto/ed25519.
func verifyPlain(entry []byte) error {
	var envelope struct {
		Payload     []byte
		PayloadType string
		Signatures  []struct{ Sig []byte }
	}
	end := len(entry)
	for entry[end-1] != '}' {
		end--
	}
	if err := json.Unmarshal(entry[:end], &envelope); err != nil {
		return err
	}
	pae := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(envelope.PayloadType), envelope.PayloadType, len(envelope.Payload), envelope.Payload)
	if !ed25519.Verify(plainKey.Public().(ed25519.PublicKey), pae, envelope.Signatures[0].Sig) {
		return errors.New("bad signature")
	}
	return nil
}
