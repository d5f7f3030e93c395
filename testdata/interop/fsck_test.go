package interop

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"recoveryledger/testdata/bucket"
)

// fsckCluster makes the ledger a node of a cluster, which publishes to a bucket.
func fsckCluster(t *testing.T, l *live) {
	web := httptest.NewServer(bucket.NewStore())
	t.Cleanup(web.Close)
	for name, value := range bucket.Variables(web.URL) {
		t.Setenv(name, value)
	}
	l.serve(t, "--cluster", "--peer-listen", "127.0.0.1:0", "--etcd-listen", "127.0.0.1:0", "--publish", "s3://"+bucket.Name+"/mine")
	public := web.URL + "/" + bucket.Name + "/mine/"
	l.awaitPublication(t, func(t *testing.T) []byte { return fetched(t, public+"checkpoint") })
	fsck(t, l, l.url+"/")
	fsck(t, l, public)
	l.stop(t)
}

// fsck runs Tessera's checker, which has to find everything in order.
func fsck(t *testing.T, l *live, storage string) {
	t.Helper()
	out, err := runFsck(t, l, storage)
	if err == nil {
		err = judged(out)
	}
	if err != nil {
		t.Fatalf("fsck of %s: %v\n%s", storage, err, out)
	}
}

// fsckWorkers is how many resources the checker compares at a time. With one, the
// first that is damaged ends the only worker, and the checker waits for it for ever.
const fsckWorkers = 4

// fsckLimit ends a checker that waits for ever, long after one that works is done.
const fsckLimit = 2 * time.Minute

// runFsck returns what Tessera's checker says. An error is that it did not come to
// its end, not what it has found: the exit code is 0 then, too.
func runFsck(t *testing.T, l *live, storage string) (out string, err error) {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key.pub")
	must(t, os.WriteFile(key, []byte(l.vkey), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), fsckLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, l.fsck, "--storage_url="+storage, "--public_key="+key, "--origin="+l.origin,
		fmt.Sprintf("--N=%d", fsckWorkers), "--ui=false", "--logtostderr", "--v=1")
	cmd.WaitDelay = time.Second
	raw, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = fmt.Errorf("no end within %v: %w", fsckLimit, ctx.Err())
	}
	return string(raw), err
}

// judged reads the words of Tessera's checker, the only place where it says what it
// has found: success, no failure, and at its end every range of the log in order.
func judged(out string) error {
	_, ranges, ended := strings.Cut(out, "Completed ranges:")
	states := regexp.MustCompile(`\[\d+, \d+\):(\w+)`).FindAllStringSubmatch(ranges, -1)
	switch {
	case strings.Contains(out, "fsck failed"):
		return errors.New("it says that the check failed")
	case !strings.Contains(out, "Successfully fsck'd log with size"):
		return errors.New("it does not say that the check succeeded")
	case !ended || len(states) == 0:
		return errors.New("it does not say what it has checked")
	}
	for _, state := range states {
		if state[1] != "OK" {
			return fmt.Errorf("range %s", state[0])
		}
	}
	return nil
}

// Only a checker that says that all is well has found that.
func TestWordsOfFsck(t *testing.T) {
	const (
		success = "I0101 fsck.go:161] Successfully fsck'd log with size 703 and root x (00)\n"
		ranges  = "I0101 main.go:87] Completed ranges:\nEntry bundles: [0, 3):OK\nTiles level 0: [0, 3):OK\n"
		failure = "E0101 main.go:85] fsck failed: failed: tile/000: log has:\n"
	)
	for out, good := range map[string]bool{
		success + ranges:                true,
		failure + ranges:                false,
		success + failure + ranges:      false,
		ranges:                          false,
		success:                         false,
		success + "Completed ranges:\n": false,
		success + strings.Replace(ranges, "OK", "Invalid", 1):       false,
		success + strings.Replace(ranges, "3):OK", "2):Fetched", 1): false,
		"": false,
	} {
		if err := judged(out); (err == nil) != good {
			t.Errorf("%q: %v", out, err)
		}
	}
}

// fsckFindsDamage shows that a pass of fsck means something: it comes to its end with
// words of failure whatever part of an export is damaged.
func fsckFindsDamage(t *testing.T, l *live, export string) {
	flip := func(path string) error {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		at := len(content) / 2
		if _, size, head := strings.Cut(string(content), l.origin+"\n"); head {
			at = len(content) - len(size) + strings.Index(size, "\n") + 9 // in the root: whose signatures are checked is the checker's affair
		}
		content[at] ^= 1
		return errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, content, 0o600))
	}
	for desc, damage := range map[string]func(dir string) error{
		"a flipped bit in an entry":  func(dir string) error { return flip(filepath.Join(dir, "tile", "entries", "001")) },
		"a flipped bit in a hash":    func(dir string) error { return flip(filepath.Join(dir, "tile", "0", "001")) },
		"a flipped bit above a tile": func(dir string) error { return flip(one(t, dir, "tile", "1", "*.p", "*")) },
		"a flipped bit in the head":  func(dir string) error { return flip(filepath.Join(dir, "checkpoint")) },
		"entries that are not there": func(dir string) error { return os.Remove(filepath.Join(dir, "tile", "entries", "001")) },
		"hashes that are not there":  func(dir string) error { return os.Remove(filepath.Join(dir, "tile", "0", "001")) },
		"entries of another place":   func(dir string) error { return swap(filepath.Join(dir, "tile", "entries"), "000", "001") },
		"no head":                    func(dir string) error { return os.Remove(filepath.Join(dir, "checkpoint")) },
	} {
		t.Run(desc, func(t *testing.T) {
			damaged := t.TempDir()
			must(t, os.CopyFS(damaged, os.DirFS(export)))
			must(t, damage(damaged))
			out, err := runFsck(t, l, "file://"+damaged)
			if err != nil || judged(out) == nil || !strings.Contains(out, "fsck failed") {
				t.Errorf("fsck ends with %v:\n%s", err, out)
			}
		})
	}
}

// one returns the one file that a pattern matches.
func one(t *testing.T, pattern ...string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(pattern...))
	must(t, err)
	if len(found) != 1 {
		t.Fatalf("%v: %v", pattern, found)
	}
	return found[0]
}

// swap lets two files take each other's place.
func swap(dir, a, b string) error {
	a, b = filepath.Join(dir, a), filepath.Join(dir, b)
	return errors.Join(os.Rename(a, a+".swapped"), os.Rename(b, a), os.Rename(a+".swapped", b))
}
