//go:build unix

package main_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"recoveryledger/ledger/entry"
	"recoveryledger/merkle"
	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/damage"
	"recoveryledger/verify"
)

// acknowledged is what a submitter was promised.
type acknowledged struct {
	envelope []byte
	receipt  verify.Receipt
}

// TestChaosKill kills the server under load, again and again: nothing that was
// acknowledged is lost, receipts from before still verify, and there is one
// history. ARL_CHAOS=1 does it 200 times.
func TestChaosKill(t *testing.T) {
	t.Parallel()
	cycles := budget.Budget{Short: 3, Usual: 6, Chaos: 200}.Now()
	seed := budget.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	m := newMachine(t)
	m.start()
	m.enrol()
	var all []acknowledged
	for range cycles {
		acks, unanswered := m.loadAndKill(20 + rng.IntN(200))
		all = append(all, acks...)
		m.start()
		m.checkAcknowledged(all, rng)
		m.resubmit(unanswered)
	}
	m.checkEverything(all)
	m.stop()
}

// loadAndKill submits from several clients and kills the server as soon as it
// has answered wanted entries.
func (m *machine) loadAndKill(wanted int) (acks []acknowledged, unanswered [][]byte) {
	m.t.Helper()
	const clients = 8
	var mu sync.Mutex
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for {
				envelope := m.execution()
				status, body, err := m.post(envelope)
				mu.Lock()
				switch {
				case err != nil:
					unanswered = append(unanswered, envelope)
				case status != http.StatusCreated:
					m.t.Errorf("status %d: %s", status, body)
				default:
					var receipt verify.Receipt
					if err := json.Unmarshal(body, &receipt); err != nil {
						m.t.Error(err)
					}
					acks = append(acks, acknowledged{envelope, receipt})
					if len(acks) == wanted {
						_ = m.process.Process.Kill() // it runs
					}
				}
				mu.Unlock()
				if err != nil || status != http.StatusCreated {
					return
				}
			}
		})
	}
	group.Wait()
	m.kill()
	return acks, unanswered
}

// checkAcknowledged asks the restarted server for the newest promises and some
// old ones, and for consistency with the heads in them.
func (m *machine) checkAcknowledged(all []acknowledged, rng *rand.Rand) {
	m.t.Helper()
	sample := all[max(0, len(all)-30):]
	for range 10 {
		sample = append(slices.Clip(sample), all[rng.IntN(len(all))])
	}
	var log struct{ Size uint64 }
	m.get("/v1/log", &log)
	root := m.root()
	for _, a := range sample {
		var now verify.Receipt
		m.get(fmt.Sprintf("/v1/entries/%d/receipt", a.receipt.Index), &now)
		if now.Index != a.receipt.Index || !bytes.Equal(now.Leaf, a.receipt.Leaf) {
			m.t.Fatalf("entry %d is %s, acknowledged was %s", a.receipt.Index, now.Leaf, a.receipt.Leaf)
		}
		older, err := root.Head([]byte(a.receipt.Head))
		m.must(err)
		newer, err := root.Head([]byte(now.Head))
		m.must(err)
		var consistency struct{ Path []merkle.Hash }
		m.get(fmt.Sprintf("/v1/consistency/%d/%d", older.Size, newer.Size), &consistency)
		m.must(merkle.CheckConsistency(older, newer, consistency.Path))
	}
}

// resubmit sends again what got no answer; it is registered at most once.
func (m *machine) resubmit(unanswered [][]byte) {
	m.t.Helper()
	for _, envelope := range unanswered {
		var first, again verify.Receipt
		for i, into := range []*verify.Receipt{&first, &again} {
			status, body, err := m.post(envelope)
			m.must(err)
			if status != http.StatusOK && (i > 0 || status != http.StatusCreated) {
				m.t.Fatalf("resubmitted: %d %s", status, body)
			}
			m.must(json.Unmarshal(body, into))
		}
		if first.Index != again.Index || !bytes.Equal(first.Leaf, again.Leaf) {
			m.t.Fatalf("registered at %d and at %d", first.Index, again.Index)
		}
	}
}

// checkEverything verifies all receipts that were ever handed out, offline.
func (m *machine) checkEverything(all []acknowledged) {
	m.t.Helper()
	root := m.root()
	places := map[uint64]string{}
	for _, a := range all {
		head, err := root.Head([]byte(a.receipt.Head))
		m.must(err)
		m.must(merkle.CheckInclusion(a.receipt.Index, merkle.HashLeaf(a.receipt.Leaf), head, a.receipt.Proof))
		e, _, err := entry.DecodeLeaf(a.receipt.Leaf)
		m.must(err)
		if other, taken := places[a.receipt.Index]; taken && other != e.Header.JTI {
			m.t.Fatalf("index %d was given to %s and to %s", a.receipt.Index, other, e.Header.JTI)
		}
		places[a.receipt.Index] = e.Header.JTI
	}
}

// TestAWriteErrorEndsTheProcess limits the size of files, so that a write to the
// database fails for real: the process must exit with 74, answer nothing that is
// not durable, and start again with all that it acknowledged.
func TestAWriteErrorEndsTheProcess(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.enrol()
	m.stop()
	m.startLimited()
	var acks []acknowledged
	for {
		envelope := m.execution()
		status, body, err := m.post(envelope)
		if err != nil {
			break
		}
		var receipt verify.Receipt
		if status != http.StatusCreated || json.Unmarshal(body, &receipt) != nil {
			t.Fatalf("status %d: %s", status, body)
		}
		acks = append(acks, acknowledged{envelope, receipt})
	}
	err := m.process.Wait()
	m.process = nil
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 74 {
		t.Fatalf("ended with %v, want exit code 74\n%s", err, m.stderr.String())
	}
	if len(acks) == 0 {
		t.Fatal("the limit struck before anything was acknowledged")
	}
	m.start()
	m.checkAcknowledged(acks, rand.New(rand.NewPCG(1, 1)))
	m.checkEverything(acks)
	m.stop()
}

// TestDamageFoundWhileRunningEndsTheProcess flips a bit where opening the log does
// not look: among the dedup keys, which are read before the first new entry is
// taken. The process must end by itself, say why and what to do, and with the exit
// code of a damaged log.
func TestDamageFoundWhileRunningEndsTheProcess(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.enrol()
	var batch bytes.Buffer
	var keys [][]byte
	for range 2000 {
		envelope := m.execution()
		batch.Write(append(envelope, '\n'))
		e, err := entry.Decode(envelope)
		m.must(err)
		id := binary.BigEndian.AppendUint16(nil, uint16(len(e.Header.Iss)))
		sum := sha256.Sum256(append(append(id, e.Header.Iss...), e.Header.JTI...))
		keys = append(keys, sum[:])
	}
	response, err := http.Post(m.url+"/v1/entries", "application/x-ndjson", &batch)
	m.must(err)
	m.must(response.Body.Close())
	m.stop()
	slices.SortFunc(keys, bytes.Compare)
	m.must(damage.Flip(m.data, keys[len(keys)/2][4:])) // what it shares with its neighbours is not stored again
	damaged, out := m.command(nil, "serve", "--data", m.data, "--listen", "127.0.0.1:0")
	err = damaged.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 10 {
		t.Fatalf("ended with %v, want exit code 10\n%s", err, out)
	}
	for _, want := range []string{`level=ERROR msg="the ledger stopped ordering entries, and registers nothing more"`, "arl: ledger: read dedup keys", "Remedy: keep "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it says nothing of %q:\n%s", want, out)
		}
	}
	checkBrief(t, out.String())
}

// TestAFullDiskRefusesEntriesAndRecovers fills a small file system: entries are
// refused with 507 while reads go on, and are taken again when there is room.
func TestAFullDiskRefusesEntriesAndRecovers(t *testing.T) {
	t.Parallel()
	const size, reserve = 192 << 20, 64 << 20
	m := newMachine(t, "--reserve", strconv.Itoa(reserve))
	disk := t.TempDir()
	unmount := mountSmall(t, disk, size)
	t.Cleanup(func() {
		m.kill()
		if err := unmount(); err != nil {
			t.Error(err)
		}
	})
	m.data = filepath.Join(disk, "data")
	m.start()
	m.enrol()
	filler := filepath.Join(disk, "filler")
	m.must(os.WriteFile(filler, make([]byte, size-reserve-(8<<20)), 0o600))
	refused := m.execution()
	m.eventually(refused, http.StatusInsufficientStorage)
	var log struct{ Size uint64 }
	m.get("/v1/log", &log)
	m.get(fmt.Sprintf("/v1/entries/%d/receipt", log.Size-1), new(verify.Receipt))
	m.must(os.Remove(filler))
	m.eventually(refused, http.StatusCreated)
	m.stop()
}

// eventually submits new entries until one is answered with the status; the free
// space is looked at a few times a second. The last try is the given envelope.
func (m *machine) eventually(envelope []byte, want int) {
	m.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		status, _, err := m.post(m.execution())
		m.must(err)
		if status != want {
			continue
		}
		again, body, err := m.post(envelope)
		if err != nil || again != want {
			m.t.Fatalf("status %d, then %d: %s %v", want, again, body, err)
		}
		return
	}
	m.t.Fatalf("no answer %d within 20 s", want)
}
