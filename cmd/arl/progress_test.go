package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLongCommandsTellTheirProgress runs each long command in this process, with a line at every
// step: its name, and at its end all of all. How often there is a line, and the bar on a terminal,
// are the display's (TestProgressInLines, TestProgressShowsOnATerminal); the opening of a ledger
// that builds its state again is TestRebuildTells.
func TestLongCommandsTellTheirProgress(t *testing.T) {
	l := startCommandLine(t, "--index")
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	tells := func(name string, note string, args ...string) {
		t.Helper()
		var said bytes.Buffer
		a := newApp(strings.NewReader(""), new(bytes.Buffer), &said)
		a.LineEvery = 1
		root := a.rootCommand()
		root.SetArgs(append(args, "--home", l.home))
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatalf("arl %s: %v\n%s", strings.Join(args, " "), err, &said)
		}
		last := ""
		for line := range strings.Lines(said.String()) {
			if strings.HasPrefix(line, "arl: "+name+": ") {
				last = line
			}
		}
		var done, total int
		rest := ""
		if n, _ := fmt.Sscanf(last, "arl: "+name+": %d of %d%s", &done, &total, &rest); n < 2 || done != total || total == 0 || !strings.HasSuffix(last, note+"\n") {
			t.Errorf("arl %s ends with %q of\n%s", strings.Join(args, " "), last, &said)
		}
	}
	spans := ""
	for i := range 300 {
		spans += fmt.Sprintf(`{"name":"call","context":{"trace_id":"%032x","span_id":"%016x"},"start_time":"2026-11-01T00:00:00Z","end_time":"2026-11-01T00:00:01Z",`+
			`"attributes":{"openinference.span.kind":"TOOL","tool.name":"read","gen_ai.agent.name":"a"}}`+"\n", 1+i/100, 1+i)
	}
	if err := os.WriteFile(at("spans.jsonl"), []byte(spans), 0o600); err != nil {
		t.Fatal(err)
	}
	tells("import", " bytes read, 512 registered", "entry", "import", "--format", "openinference", at("spans.jsonl"))
	l.stop()
	tells("audit", "", "log", "audit", "--data", l.data)
	tells("fsck", "", "log", "fsck", "--data", l.data)
	tells("index", "", "log", "fsck", "--index", "--data", l.data)
	tells("export", "", "log", "export", "--data", l.data, at("export"))
	tells("backup", "", "backup", at("backup"), "--data", l.data)
	head := filepath.Join(at("export"), "checkpoint")
	tells("restore", "", "restore", at("backup"), "--data", at("restored"), "--newest", head)
	tells("check", "", "restore", at("backup"), "--data", at("again"), "--newest", head)
	if err := copyTree(filepath.Join(at("imported"), "keys"), filepath.Join(l.data, "keys")); err != nil {
		t.Fatal(err)
	}
	tells("import", "", "log", "import", at("export"), "--data", at("imported"), "--newest", head)
}
