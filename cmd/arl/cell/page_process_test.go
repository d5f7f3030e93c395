//go:build unix

package cell_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"recoveryledger/testdata/budget"
	"recoveryledger/testdata/needs"
)

// walk does what docs/cluster.md says, with the commands of the page.
type walk struct {
	*machine
	left     map[string]bool // commands that the page has: whether none has run yet
	receipts []string
}

// place is a machine of the page, whose working directory is its own. Its node is in ./data.
type place struct {
	*node
	w         *walk
	addresses map[string]string // HOST:PORT that stands for a port of the page
}

// newWalk reads the commands of the page, and makes three machines.
func newWalk(t *testing.T) (w *walk, all []*place) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(needs.Root(), "docs", "cluster.md"))
	must(t, err)
	w = &walk{machine: newMachine(t), left: map[string]bool{}}
	for _, block := range regexp.MustCompile("(?s)```sh test=TestClusterPage\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n  ", "")) {
			w.left[strings.TrimSpace(line)] = true
		}
	}
	for _, name := range []string{"m1", "m2", "m3"} {
		must(t, os.Mkdir(w.Path(name), 0o700))
		p := &place{node: &node{m: w.machine, data: name + "/data"}, w: w, addresses: map[string]string{}}
		p.addresses["8087"] = host(t)
		ip, _, err := net.SplitHostPort(p.addresses["8087"])
		must(t, err)
		for _, port := range []string{"8088", "8089"} {
			listener, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
			must(t, err)
			p.addresses[port] = listener.Addr().String()
			must(t, listener.Close())
		}
		all = append(all, p)
	}
	return w, all
}

// shell returns a command of the page at a machine, with more behind it. replaced are pairs of what
// the page says and what stands for it.
func (p *place) shell(line, more string, replaced ...string) *exec.Cmd {
	p.m.t.Helper()
	if _, known := p.w.left[line]; !known {
		p.m.t.Fatalf("docs/cluster.md has no command %q", line)
	}
	p.w.left[line] = false
	line = regexp.MustCompile(`192\.0\.2\.\d:(\d+)`).ReplaceAllStringFunc(line, func(address string) string {
		_, port, _ := net.SplitHostPort(address)
		return p.addresses[port]
	})
	cmd := p.m.Command()
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", "exec " + strings.NewReplacer(replaced...).Replace(line) + more}
	cmd.Dir = filepath.Join(cmd.Dir, filepath.Dir(p.data))
	return cmd
}

// does runs a command of the page, and returns what it prints.
func (p *place) does(line string, replaced ...string) string {
	p.m.t.Helper()
	cmd := p.shell(line, "", replaced...)
	said := &lines{}
	cmd.Stderr = said
	out, err := cmd.Output()
	if err != nil {
		p.m.t.Fatalf("%s: %v\n%s%s", line, err, out, said)
	}
	return strings.TrimSpace(string(out))
}

// begins starts a node by a command of the page, and returns a function that waits until it serves.
func (p *place) begins(line string, replaced ...string) (serves func()) {
	p.m.t.Helper()
	p.cmd, p.said = p.shell(line, " --output json", replaced...), &lines{}
	p.cmd.Stderr = p.said
	out, err := p.cmd.StdoutPipe()
	must(p.m.t, err)
	must(p.m.t, p.cmd.Start())
	p.m.t.Cleanup(p.kill)
	return func() {
		p.m.t.Helper()
		var started struct{ URL string }
		if err := json.NewDecoder(bufio.NewReader(out)).Decode(&started); err != nil {
			_ = p.cmd.Wait() // it has ended
			p.m.t.Fatalf("%s: %v\n%s", line, err, p.said)
		}
		p.url = started.URL
		go func() { _, _ = io.Copy(io.Discard, out) }() // until it ends
	}
}

// The commands of the page that start a node.
const (
	pageFounds = "arl serve --data ./data --cluster --listen 192.0.2.1:8087 --peer-listen 192.0.2.1:8088 --etcd-listen 192.0.2.1:8089"
	pageJoins  = "arl serve --data ./data --cluster --listen 192.0.2.2:8087 --peer-listen 192.0.2.2:8088 --etcd-listen 192.0.2.2:8089 --join TOKEN"
	pageGoesOn = "arl serve --data ./data --cluster --listen 192.0.2.1:8087"
	pageToken  = "arl cluster token --data ./data"
)

// joins has a machine join by a node that runs.
func (p *place) joins(by *place) {
	p.m.t.Helper()
	p.begins(pageJoins, "TOKEN", by.does(pageToken))()
}

// anew has the node of a machine begin anew, under its name.
func (p *place) anew(name string, by *place) {
	p.m.t.Helper()
	must(p.m.t, os.RemoveAll(p.m.Path(p.data)+".lost")) // of the time before
	p.does("mv ./data ./data.lost")
	by.does("arl cluster remove n3 --data ./data", "n3", name)
	p.joins(by)
}

// loses removes files of the node of a machine, whose process ends first.
func (p *place) loses(name string) {
	p.m.t.Helper()
	p.kill()
	must(p.m.t, os.RemoveAll(p.m.Path(filepath.Join(p.data, name))))
}

// submits registers an entry at a node.
func (w *walk) submits(p *place, exec string) { w.receipts = append(w.receipts, p.submit(exec)) }

// whole wants every receipt to verify, and every entry at every node, all of which vote.
func (w *walk) whole(all ...*place) {
	w.t.Helper()
	all[0].voters(len(all))
	var nodes []*node
	for _, p := range all {
		nodes = append(nodes, p.node)
	}
	w.check(w.receipts, nodes...)
}

// TestClusterPage walks through docs/cluster.md, with every command of the page: from one node to
// three, through the loss of each part, and back to one. Every receipt verifies at each step.
func TestClusterPage(t *testing.T) {
	budget.Unraced(t, "one command after the other, on nodes as in TestOneThreeOne and TestStart")
	w, all := newWalk(t)
	a, b, c := all[0], all[1], all[2]
	a.begins(pageFounds)()
	w.enrols(a.url)
	w.submits(a, "of-one")
	b.joins(a)
	c.joins(a)
	w.submits(b, "of-three")
	w.whole(all...)

	a.kill() // which leads
	w.submits(c, "without-the-leader")
	a.begins(pageGoesOn)()
	if said := a.does("arl cluster status --data ./data"); !strings.Contains(said, "leads") {
		t.Errorf("status: %s", said)
	}
	w.whole(all...)

	c.loses("") // the disk of a follower, or of the leader
	must(t, os.Mkdir(w.Path(c.data), 0o700))
	w.submits(a, "without-a-disk")
	c.anew("n3", a)
	w.whole(all...)

	b.loses("cluster/etcd")
	if said := w.refused(78, "serve", "--data", b.data, "--cluster", "--listen", b.addresses["8087"]); !strings.Contains(said, "the files of etcd are gone") {
		t.Errorf("a node without its etcd: %s", said)
	}
	b.anew("n2", a)
	w.submits(b, "of-three-again")
	w.whole(all...)
	w.majority(a, b, c)
	w.everything(a, b, c)
	w.restored(a, b, c)
	w.back(a, b, c)
	for _, line := range slices.Sorted(maps.Keys(w.left)) {
		if w.left[line] {
			t.Errorf("the walk does not run %q", line)
		}
	}
}

// majority loses the majority for a while, and then for good: the disk of the third node is gone.
func (w *walk) majority(a, b, c *place) {
	b.kill()
	c.kill()
	for status, began := 0, time.Now(); status != http.StatusServiceUnavailable; status, _ = a.get("/readyz") {
		if time.Sleep(askEvery); time.Since(began) > time.Minute { // it answers from what it knew a second ago
			w.t.Fatalf("ready without a majority: %d\n%s", status, a.said)
		}
	}
	if status, body := a.get("/v1/entries/0"); status != http.StatusOK {
		w.t.Errorf("a read without a majority: %d %s", status, body)
	}
	serves := []func(){b.begins(pageGoesOn), c.begins(pageGoesOn)}
	for _, serve := range serves {
		serve()
	}
	w.submits(a, "the-majority-is-back")
	w.whole(a, b, c)

	b.kill()
	c.loses("")
	a.stop() // else it may lack what it took in its last second
	b.does("arl cluster evidence --data ./data > n2.json")
	w.takes("m2/n2.json", "m1/n2.json")
	a.does(`arl cluster reseed --data ./data --head n2.json --without n3 --reason "the disk of n3 is gone"`)
	a.begins(pageGoesOn)()
	w.submits(a, "begun-again")
	must(w.t, os.RemoveAll(w.Path("m2/data.lost")))
	b.does("mv ./data ./data.lost")
	b.joins(a)
	c.joins(a)
	w.whole(a, b, c)
}

// takes copies a file from one machine to another.
func (w *walk) takes(from, to string) {
	w.t.Helper()
	content, err := os.ReadFile(w.Path(from))
	must(w.t, err)
	must(w.t, os.WriteFile(w.Path(to), content, 0o600))
}

// everything loses etcd of all nodes.
func (w *walk) everything(a, b, c *place) {
	for _, p := range []*place{a, b, c} {
		p.stop() // else it may lack what it took in its last second, and no etcd has that
		p.loses("cluster/etcd")
	}
	w.collects(a, b, c)
	w.submits(c, "behind-everything")
	w.whole(a, b, c)
}

// collects begins the cluster again from what every node has.
func (w *walk) collects(a, b, c *place) {
	w.t.Helper()
	for i, p := range []*place{b, c} {
		name := []string{"n2", "n3"}[i]
		p.does("arl cluster evidence --data ./data > n2.json", "n2.json", name+".json")
		w.takes(filepath.Dir(p.data)+"/"+name+".json", "m1/"+name+".json")
	}
	a.does("arl cluster reseed --data ./data --head n2.json --head n3.json")
	a.begins(pageGoesOn)()
	for _, p := range []*place{b, c} {
		must(w.t, os.RemoveAll(w.Path(p.data)+".lost"))
		p.does("mv ./data ./data.lost")
		p.joins(a)
	}
}

// restored restores etcd of all nodes from an older copy. The node that is to lead ends.
func (w *walk) restored(a, b, c *place) {
	all := []*place{a, b, c}
	etcd := func(p *place) string { return w.Path(filepath.Join(p.data, "cluster", "etcd")) }
	for _, p := range all {
		p.stop()
		must(w.t, os.CopyFS(etcd(p)+".older", os.DirFS(etcd(p))))
	}
	var serves []func()
	for _, p := range all {
		serves = append(serves, p.begins(pageGoesOn))
	}
	for _, serve := range serves {
		serve()
	}
	w.submits(a, "behind-the-copy")
	w.whole(a, b, c)
	for _, p := range all {
		p.stop()
		must(w.t, errors.Join(os.RemoveAll(etcd(p)), os.Rename(etcd(p)+".older", etcd(p))))
	}
	ended := make(chan *place, len(all))
	for _, p := range all {
		p.begins(pageGoesOn)
		go func() { _ = p.cmd.Wait(); ended <- p }()
	}
	first := <-ended
	if code := first.cmd.ProcessState.ExitCode(); code != 10 || !strings.Contains(first.said.String(), "this node is not like the others") ||
		!strings.Contains(first.said.String(), "lost its newest batches") {
		w.t.Errorf("%s ends with exit code %d: %s", first.data, code, first.said)
	}
	for _, p := range all {
		_ = p.cmd.Process.Signal(os.Interrupt) // it may have ended
	}
	for range all[1:] {
		<-ended
	}
	w.collects(a, b, c)
	w.submits(b, "behind-a-restored-etcd")
	w.whole(a, b, c)
}

// back makes the cluster a single ledger.
func (w *walk) back(a, b, c *place) {
	a.does("arl cluster remove n3 --data ./data")
	_ = c.cmd.Wait() // it was removed
	a.does("arl cluster remove n2 --data ./data")
	_ = b.cmd.Wait()
	a.voters(1)
	a.stop()
	a.does("arl cluster leave --data ./data")
	a.begins("arl serve --data ./data --listen 192.0.2.1:8087")()
	w.submits(a, "single-again")
	w.check(w.receipts, a.node)
	a.stop()
}
