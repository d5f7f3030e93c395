//go:build unix

package main

import (
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
)

// membersKey is where a script has the nodes of its cluster, by their directories.
type membersKey struct{}

// scriptMember starts a node of a cluster on a directory, and waits until every node that runs
// votes. @FILE in a flag stands for what the file holds.
func scriptMember(ts *testscript.TestScript, _ bool, args []string) {
	all, _ := ts.Value(membersKey{}).(map[string]*scriptServer)
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
	all[name] = &scriptServer{}
	var st node.Started
	all[name].start(ts, &st, append([]string{"serve", "--cluster", "--data", name, "--listen", ownAddress(ts), "--output", "json", "--reserve", "1"}, flags...))
	ts.Setenv("URL", st.URL)
	runs := 0
	for _, one := range all {
		if one.process != nil {
			runs++
		}
	}
	if !waitFor(time.Minute, func() bool { return voters(st.URL) == runs }) {
		ts.Fatalf("not %d nodes vote: %s", runs, all[name].stderr.String())
	}
}

// voters returns how many nodes vote, as a node shows them; 0: none leads.
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
		if m.Voter {
			n++
		}
	}
	return n
}

// scriptUnmember ends a node of a cluster in order, or waits until the node ends by itself with an
// exit code. Its words are in NAME.log.
func scriptUnmember(ts *testscript.TestScript, _ bool, args []string) {
	all, _ := ts.Value(membersKey{}).(map[string]*scriptServer)
	s, want := all[args[0]], "0"
	if len(args) > 1 {
		want = args[1]
	} else {
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
