//go:build unix

package main

import (
	"context"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rogpeppe/go-internal/testscript"

	"recoveryledger/api"
	"recoveryledger/cmd/arl/node"
	"recoveryledger/testdata/overfill"
)

// membersKey is where a script has the nodes of its cluster, by their directories.
type membersKey struct{}

// scriptMember starts a node of a cluster on a directory, and waits until the node votes, and so
// many as run. @FILE in a flag stands for what the file holds. Behind & at the end it waits for
// nothing: such a node may not serve before it has what the others registered.
func scriptMember(ts *testscript.TestScript, _ bool, args []string) {
	all := members(ts)
	name := args[0]
	flags := slices.Clone(args[1:])
	for i, flag := range flags {
		if file, found := strings.CutPrefix(flag, "@"); found {
			flags[i] = strings.TrimSpace(ts.ReadFile(file))
		}
	}
	if _, err := os.Stat(ts.MkAbs(name)); err != nil {
		flags = append([]string{"--peer-listen", ownAddress(ts), "--etcd-listen", ownAddress(ts)}, flags...)
	}
	if all[name] == nil {
		all[name] = &scriptServer{listen: ownAddress(ts)}
	}
	at := len(flags) - 1
	waits := at < 0 || flags[at] != "&"
	if !waits {
		flags = flags[:at]
	}
	flags = append([]string{"serve", "--cluster", "--data", name, "--listen", all[name].listen, "--output", "json", "--reserve", "1"}, flags...)
	if !waits {
		all[name].launch(ts, flags)
		ts.Check(all[name].process.Start())
		return
	}
	var st node.Started
	all[name].start(ts, &st, flags)
	ts.Setenv("URL", st.URL)
	ts.Setenv("ORIGIN", st.Origin)
	runs := 0
	for _, one := range all {
		if one.process != nil {
			runs++
		}
	}
	if !waitFor(time.Minute, func() bool { return voters(st.URL) >= runs }) {
		ts.Fatalf("not %d nodes vote: %s", runs, all[name].stderr.String())
	}
}

// voters returns how many nodes vote, as a node shows them; 0: none leads, or that node does not
// vote.
func voters(url string) (n int) {
	response, err := http.Get(url + api.PathCluster)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	var c api.Cluster
	if json.UnmarshalRead(response.Body, &c) != nil || !slices.ContainsFunc(c.Members, func(m api.Member) bool { return m.Leader }) {
		return 0
	}
	for _, m := range c.Members {
		switch {
		case m.Voter:
			n++
		case m.Name == c.Node:
			return 0
		}
	}
	return n
}

// scriptUnmember ends a node of a cluster in order, or kills it, or waits until the node ends by
// itself with an exit code. Its words are in NAME.log.
func scriptUnmember(ts *testscript.TestScript, _ bool, args []string) {
	all := members(ts)
	s, want := all[args[0]], "0"
	switch {
	case len(args) > 1 && args[1] == "killed":
		s.kill()
		return
	case len(args) > 1:
		want = args[1]
	default:
		ts.Check(s.process.Process.Signal(syscall.SIGTERM))
	}
	s.end(ts, args[0]+".log", want)
}

// scriptUntil runs a command until it ends with exit code 0 and prints a text.
func scriptUntil(ts *testscript.TestScript, _ bool, args []string) {
	if !waitFor(time.Minute, func() bool {
		err := ts.Exec(args[1], args[2:]...)
		return exitCode(ts, err) == 0 && strings.Contains(ts.ReadFile("stdout"), args[0])
	}) {
		ts.Fatalf("%q never prints %q", args[1:], args[0])
	}
}

// fillTime is how long the etcd of a node may take to fill.
const fillTime = time.Minute

// scriptEtcd has the etcd of a node that does not run fill that of the cluster up to its quota,
// which is that of [overfill.Quota].
func scriptEtcd(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), fillTime)
	defer cancel()
	ts.Check(overfill.Etcd(ctx, ts.MkAbs(args[0])))
}
