//go:build unix

package main

import (
	"bufio"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/node"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rogpeppe/go-internal/testscript"

	"recoveryledger/testdata/kms"
	"recoveryledger/testdata/program"
)

var update = flag.Bool("update", false, "write what the scripts compare with; read the difference")

// TestMain lets the test binary be the helpers of scripts. The command arl is in the list for the
// scripts, which run the program that stands before it on the path.
func TestMain(m *testing.M) {
	testscript.Main(withProgram{m}, map[string]func(){"arl": main, itself: clocked, "bare": bare, "intruder": intruder, "sigstore-kms-arltest": kms.Main})
}

type withProgram struct{ *testing.M }

// Run implements [testscript.TestingM]. The tests wait for processes and for clocks half of the
// time, so that twice as many run at once as there are processors.
func (t withProgram) Run() int {
	if err := errors.Join(flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))), skipUnraced()); err != nil {
		panic(err)
	}
	return program.Main(t.M)
}

// TestScripts runs the command line as users do, against real servers on
// loopback. Beside the commands of testscript there are:
//
//	serve [flags]         starts arl serve on the directory data, until it takes entries; sets URL, ORIGIN, GENESIS
//	shutdown              ends it with SIGTERM and wants exit code 0
//	crash                 ends it with SIGKILL
//	newer                 builds arl as version "newer", and sets NEWER to its folder; a script that has it first in PATH runs it
//	witness NAME          starts arl witness for the ledger, or again after unwitness; sets NAME to its line of a witness policy
//	unwitness NAME        ends it with SIGKILL
//	stranger DIR          serves the files of a directory by HTTP, as no ledger does, and sets URL
//	exits CODE arl …      wants an exact exit code
//	field NAME MEMBER     sets NAME to a member of the JSON object on the first line of stdout
//	replace FILE OLD NEW  replaces text that must be there
//	append FILE OTHER     appends the content of another file
//	certificates          makes ca.pem, and server and client certificates of it with their keys
//	metric SAMPLE VALUE   waits until a sample of the ledger's metrics has a value; !VALUE: another one; >VALUE: a greater one; <VALUE: a smaller one
//	prometheus            starts a Prometheus that scrapes the ledger, or each node of a cluster, with the alerts of docs/operations
//	alert NAME fires      waits until an alert fires; over: until it does not; LABEL=VALUE at the end: the one with this label
//	scraped               waits until that Prometheus has scraped the ledger that runs now
//	dashboards            waits until every query of the dashboards of docs/operations, and every recording rule, has data:
//	                      those about a cluster in a script with one, the others in any other script
//	disk made             mounts a file system of its own at disk; filled: not a byte more goes onto it; grown: it is larger, and was not in use;
//	                      failed: it takes no writes any more; mended: it does again
//	member NAME [flags]   starts a node of a cluster on the directory NAME, until it votes; sets URL and ORIGIN; & at the end: waits for nothing
//	unmember NAME [CODE]  ends it with SIGTERM; with an exit code, waits until it ends by itself with this one; its words are in NAME.log;
//	                      killed: ends it with SIGKILL
//	etcd NAME             has the etcd of a node that does not run fill that of the cluster up to its quota, which is the least one
//	until TEXT arl …      runs a command until it ends with exit code 0 and prints TEXT
//	ended CODE            waits until the ledger ends by itself, and wants its exit code; its words are in serve.log
//	[disk]                whether a file system can be mounted
//	damage flip FILE      flips a bit of an entry in the stopped ledger's database, or flips it back; lose: removes the entry; FILE has its envelope
//	load KEY AGENT        submits entries of an agent, by several clients at once, until the script ends
//	idle N                holds N connections to the ledger from another address that do nothing; 0: closes them
//	sink deaf             starts an endpoint of notifications that never answers, and sets SINK; hears: it answers;
//	                      heard: waits until it has answered a message
//	[prometheus]          whether promtool and prometheus are installed; with CI set they have to be
//	flip FILE OFFSET      flips a bit, of several files that match in the largest; a negative offset counts from the end
//
// SCENARIO is the path of testdata/tool_chain_failures.ndjson, POLICY that of the default policy,
// GATE that of the recipe of docs/rollout.md, DRAFT that of the worked example of the
// Internet-Draft.
//
// With go test -short those of racedScripts run. The drills run where the command line names them.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Files:         scriptsOfRun(t),
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("ARL_HOME", filepath.Join(env.WorkDir, "home"))
			scenario, err := filepath.Abs("../../testdata/tool_chain_failures.ndjson")
			if err != nil {
				return err
			}
			env.Setenv("SCENARIO", scenario)
			env.Setenv("GORACE", os.Getenv("GORACE"))
			for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
				if value, set := os.LookupEnv(name); set {
					env.Setenv(name, value)
				}
			}
			env.Setenv("DRAFT", filepath.Join(filepath.Dir(scenario), "..", "docs", "draft", "example"))
			env.Setenv("POLICY", filepath.Join(filepath.Dir(scenario), "..", "coord", "recovery", "default.yaml"))
			env.Setenv("GATE", filepath.Join(filepath.Dir(scenario), "recipes", "gate.sh"))
			env.Values[serverKey{}] = new(scriptServer)
			env.Values[idleKey{}], env.Values[sinkKey{}] = new([]net.Conn), new(sink)
			env.Values[witnessesKey{}], env.Values[membersKey{}] = map[string]*scriptServer{}, map[string]*scriptServer{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"stranger": scriptStranger, "serve": scriptServe, "shutdown": scriptShutdown, "crash": scriptCrash, "exits": scriptExits, "field": scriptField,
			"witness": scriptWitness, "unwitness": scriptUnwitness, "replace": scriptReplace, "append": scriptAppend, "certificates": scriptCertificates, "flip": scriptFlip, "metric": scriptMetric,
			"prometheus": scriptPrometheus, "alert": scriptAlert, "scraped": scriptScraped, "damage": scriptDamage, "dashboards": scriptDashboards, "idle": scriptIdle, "sink": scriptSink,
			"newer": scriptNewer, "disk": scriptDisk, "ended": scriptEnded,
			"member": scriptMember, "unmember": scriptUnmember, "etcd": scriptEtcd, "until": scriptUntil, "load": scriptLoad, "flood": scriptFlood,
		},
		Condition: scriptCondition,
	})
}

type (
	serverKey    struct{}
	witnessesKey struct{}
)

// scriptServer is the server of a script; nil: none runs.
type scriptServer struct {
	process *exec.Cmd
	stderr  strings.Builder
	listen  string // address of a witness, or of a node of a cluster
}

func scriptServe(ts *testscript.TestScript, _ bool, args []string) {
	s, _ := ts.Value(serverKey{}).(*scriptServer)
	var st node.Started
	s.start(ts, &st, append([]string{"serve", "--data", "data", "--listen", ownAddress(ts), "--output", "json"}, args...))
	ts.Setenv("URL", st.URL)
	ts.Setenv("ORIGIN", st.Origin)
	ts.Setenv("GENESIS", st.Genesis)
	ts.Setenv("VERIFIER_KEY", st.VerifierKeys[0])
}

// scriptPort is the port that the next server of a script may have. Two runs of the tests
// at once begin at different ones.
var scriptPort atomic.Uint32

// ownAddress returns a loopback address that nobody listens at. Its port is below those
// that systems choose from, so that after the server has ended nobody else gets it: a
// script may want to see the connection refused, or start the server there again.
func ownAddress(ts *testscript.TestScript) string {
	const first, ports = 12000, 20000
	for range ports {
		port := first + (uint32(os.Getpid())*97+scriptPort.Add(1))%ports
		address := fmt.Sprintf("127.0.0.1:%d", port)
		if l, err := net.Listen("tcp", address); err == nil {
			ts.Check(l.Close())
			return address
		}
	}
	ts.Fatalf("no port is free")
	return ""
}

func scriptWitness(ts *testscript.TestScript, _ bool, args []string) {
	all, _ := ts.Value(witnessesKey{}).(map[string]*scriptServer)
	name := args[0]
	if all[name] == nil {
		all[name] = &scriptServer{listen: ownAddress(ts)}
	}
	var st startedWitness
	all[name].start(ts, &st, append([]string{"witness", "--state", name, "--name", name + ".example", "--log", ts.Getenv("VERIFIER_KEY"),
		"--listen", all[name].listen, "--output", "json"}, args[1:]...))
	all[name].listen = strings.TrimPrefix(st.URL, "http://")
	ts.Setenv(name, st.Policy[0])
	ts.Setenv(name+"_auditor", st.Policy[len(st.Policy)-1])
}

func scriptUnwitness(ts *testscript.TestScript, _ bool, args []string) {
	all, _ := ts.Value(witnessesKey{}).(map[string]*scriptServer)
	all[args[0]].kill()
}

// launch prepares a process of arl, which the end of the script kills.
func (s *scriptServer) launch(ts *testscript.TestScript, args []string) {
	name := "arl"
	if ts.Getenv(clockKey) != "" {
		name = itself
	}
	if newer := ts.Getenv("NEWER"); newer != "" && strings.HasPrefix(ts.Getenv("PATH"), newer) {
		name = filepath.Join(newer, name)
	}
	s.process = exec.Command(name, args...)
	s.process.Dir = ts.MkAbs(".")
	s.process.Env = []string{"ARL_HOME=" + ts.Getenv("ARL_HOME"), exit.PassphraseVariable + "=" + ts.Getenv(exit.PassphraseVariable),
		"PATH=" + ts.Getenv("PATH"), "TMPDIR=" + ts.Getenv("TMPDIR"), "GORACE=" + ts.Getenv("GORACE"), clockKey + "=" + ts.Getenv(clockKey)}
	s.stderr.Reset()
	s.process.Stderr = &s.stderr
	ts.Defer(s.kill)
}

// start starts arl, and reads what it prints when it takes requests.
func (s *scriptServer) start(ts *testscript.TestScript, printed any, args []string) {
	s.launch(ts, args)
	stdout, err := s.process.StdoutPipe()
	ts.Check(err)
	ts.Check(s.process.Start())
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		s.kill()
		ts.Fatalf("%s: %v\n%s", args[0], err, s.stderr.String())
	}
	ts.Check(json.Unmarshal(line, printed))
}

func (s *scriptServer) kill() {
	if s.process == nil {
		return
	}
	if s.process.Process != nil {
		_ = s.process.Process.Kill() // it may have ended by itself
		_ = s.process.Wait()
	}
	s.process = nil
}

func scriptShutdown(ts *testscript.TestScript, _ bool, _ []string) {
	s, _ := ts.Value(serverKey{}).(*scriptServer)
	ts.Check(s.process.Process.Signal(syscall.SIGTERM))
	err := s.process.Wait()
	s.process = nil
	ts.Check(os.WriteFile(filepath.Join(ts.Getenv("WORK"), "serve.log"), []byte(s.stderr.String()), 0o600))
	if err != nil {
		ts.Fatalf("shutdown: %v\n%s", err, s.stderr.String())
	}
}

func scriptCrash(ts *testscript.TestScript, _ bool, _ []string) {
	s, _ := ts.Value(serverKey{}).(*scriptServer)
	s.kill()
}

func scriptStranger(ts *testscript.TestScript, _ bool, args []string) {
	web := httptest.NewServer(http.FileServer(http.Dir(ts.MkAbs(args[0]))))
	ts.Defer(web.Close)
	ts.Setenv("URL", web.URL)
}

func scriptExits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := exitCode(ts, ts.Exec(args[1], args[2:]...)); got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func scriptField(ts *testscript.TestScript, _ bool, args []string) {
	line, _, _ := strings.Cut(ts.ReadFile("stdout"), "\n")
	var members map[string]jsontext.Value
	ts.Check(json.Unmarshal([]byte(line), &members))
	value, ok := members[args[1]]
	if !ok {
		ts.Fatalf("no member %s in %s", args[1], line)
	}
	text := string(value)
	if value.Kind() == '"' {
		ts.Check(json.Unmarshal(value, &text))
	}
	ts.Setenv(args[0], text)
}

func scriptReplace(ts *testscript.TestScript, _ bool, args []string) {
	content := ts.ReadFile(args[0])
	if !strings.Contains(content, args[1]) {
		ts.Fatalf("no %q in %s:\n%s", args[1], args[0], content)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Replace(content, args[1], args[2], 1)), 0o600))
}

func scriptAppend(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(ts.ReadFile(args[0])+ts.ReadFile(args[1])), 0o600))
}

func scriptFlip(ts *testscript.TestScript, _ bool, args []string) {
	files, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	var path string
	var content []byte
	for _, file := range files {
		if other := []byte(ts.ReadFile(file)); path == "" || len(other) > len(content) {
			path, content = file, other
		}
	}
	offset, err := strconv.Atoi(args[1])
	ts.Check(err)
	if offset < 0 {
		offset += len(content)
	}
	if offset < 0 || offset >= len(content) {
		ts.Fatalf("%s has %d bytes", args[0], len(content))
	}
	content[offset] ^= 1
	ts.Check(os.WriteFile(path, content, 0o600))
}

func scriptCertificates(ts *testscript.TestScript, _ bool, _ []string) {
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	_, caKey, err := ed25519.GenerateKey(rand.Reader)
	ts.Check(err)
	write := func(name, kind string, der []byte) {
		ts.Check(os.WriteFile(ts.MkAbs(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	ts.Check(err)
	write("ca.pem", "CERTIFICATE", der)
	for i, name := range []string{"server", "client"} {
		leaf := &x509.Certificate{
			SerialNumber: big.NewInt(int64(2 + i)), NotAfter: ca.NotAfter, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
		public, key, err := ed25519.GenerateKey(rand.Reader)
		ts.Check(err)
		der, err := x509.CreateCertificate(rand.Reader, leaf, ca, public, caKey)
		ts.Check(err)
		write(name+".pem", "CERTIFICATE", der)
		encoded, err := x509.MarshalPKCS8PrivateKey(key)
		ts.Check(err)
		write(name+".key", "PRIVATE KEY", encoded)
	}
}
