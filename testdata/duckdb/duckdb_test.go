// Package duckdb asks tables of proven entries in SQL, as docs/trust.md does. It is a
// module of its own, so that DuckDB stays out of the ledger's dependencies.
package duckdb

import (
	"bufio"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	_ "github.com/duckdb/duckdb-go/v2"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ledger is arl serve in a directory, with the program.
type ledger struct {
	t        *testing.T
	dir, arl string
}

func start(t *testing.T) *ledger {
	t.Helper()
	l := &ledger{t: t, dir: t.TempDir()}
	l.arl = filepath.Join(l.dir, "arl")
	build := exec.Command("go", "build", "-o", l.arl, "./cmd/arl")
	build.Dir = "../.."
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as everything but this test is compiled
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	process := l.command(l.arl + " serve --data data --index --listen 127.0.0.1:0 --output json")
	process.Stderr = nil
	stdout, err := process.StdoutPipe()
	must(t, err)
	must(t, process.Start())
	t.Cleanup(func() { must(t, process.Process.Signal(syscall.SIGTERM)); must(t, process.Wait()) })
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	must(t, err)
	must(t, json.Unmarshal(line, new(struct{ URL string })))
	return l
}

// command is a line of shell in the ledger's directory.
func (l *ledger) command(line string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", "exec "+line)
	cmd.Dir = l.dir
	cmd.Env = append(os.Environ(), "ARL_HOME="+filepath.Join(l.dir, "home"), "PATH="+l.dir+":"+os.Getenv("PATH"))
	return cmd
}

// run runs the console blocks of a part of a page. What they print is compared elsewhere.
func (l *ledger) run(part string) {
	l.t.Helper()
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(part, -1) {
		for _, line := range strings.Split(block[1], "\n") {
			if line, ok := strings.CutPrefix(line, "$ "); ok {
				cmd := l.command("sh -e -c '" + strings.ReplaceAll(line, "'", `'\''`) + "'")
				if out, err := cmd.CombinedOutput(); err != nil {
					l.t.Fatalf("%s: %v\n%s", line, err, out)
				}
			}
		}
	}
}

// TestSQLOfThePage makes the histories of docs/trust.md, and asks them what the page asks,
// with the answers of the page. The proof in the metadata of a table verifies.
func TestSQLOfThePage(t *testing.T) {
	content, err := os.ReadFile("../../docs/trust.md")
	must(t, err)
	page := string(content)
	between := func(from, to string) string {
		_, part, ok := strings.Cut(page, from)
		part, _, ended := strings.Cut(part, to)
		if !ok || !ended {
			t.Fatalf("the page has nothing between %q and %q", from, to)
		}
		return part
	}
	l := start(t)
	l.run(strings.ReplaceAll(between("## 2. ", "## 3. "), "$(seq -w 50)", "01 02 03"))
	l.run(strings.ReplaceAll(between("## 5. ", "## 6. "), "python3 score.py", "true"))
	must(t, os.Mkdir(filepath.Join(l.dir, "histories"), 0o755))
	l.run("```console\n$ for i in 01 02 03; do arl agent history agent-$i --prove --out histories/agent-$i.json; done\n```")
	part := between("## 6. ", "\n## ")
	l.run(part)

	db, err := sql.Open("duckdb", "")
	must(t, err)
	defer db.Close()
	blocks := regexp.MustCompile("(?s)```sql\n(.*?)```(?:\n\n```text\n(.*?)```)?").FindAllStringSubmatch(part, -1)
	if len(blocks) != 3 {
		t.Fatalf("%d blocks of SQL", len(blocks))
	}
	for _, block := range blocks {
		query := strings.ReplaceAll(block[1], "'histories/", "'"+l.dir+"/histories/")
		got := ask(t, db, query)
		if block[2] == "" {
			l.verifies(got[0][0])
			continue
		}
		var want [][]string
		for _, line := range strings.Split(strings.TrimSpace(block[2]), "\n") {
			want = append(want, strings.Fields(line))
		}
		if !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%s\ngives %q, the page says %q", block[1], got, want)
		}
	}
	l.sameRows(db)
}

// ask returns the rows of a query as text.
func ask(t *testing.T, db *sql.DB, query string) (rows [][]string) {
	t.Helper()
	found, err := db.Query(query)
	if err != nil {
		t.Fatalf("%s\n%v", query, err)
	}
	defer found.Close()
	columns, err := found.Columns()
	must(t, err)
	for found.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		must(t, found.Scan(into...))
		var row []string
		for _, value := range values {
			row = append(row, fmt.Sprint(value))
		}
		rows = append(rows, row)
	}
	must(t, found.Err())
	return rows
}

// verifies has arl verify the proof out of a table.
func (l *ledger) verifies(proof string) {
	l.t.Helper()
	must(l.t, os.WriteFile(filepath.Join(l.dir, "proof.json"), []byte(proof), 0o600))
	out, err := l.command("arl verify proof.json").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "verified: complete: ") {
		l.t.Errorf("%v\n%s", err, out)
	}
}

// sameRows has DuckDB read the three formats of one table: the same rows, of the same types.
func (l *ledger) sameRows(db *sql.DB) {
	l.t.Helper()
	of := func(format string) [][]string {
		file := filepath.Join(l.dir, "rows."+format)
		l.run("```console\n$ arl verify histories/agent-02.json --rows " + file + "\n```")
		return ask(l.t, db, "SELECT subject, label, index::BIGINT, registered_at::TIMESTAMP, iss, leaf_hash, payload->>'$.jti' FROM '"+file+"'")
	}
	parquet := of("parquet")
	if len(parquet) < 7 {
		l.t.Errorf("%d rows", len(parquet))
	}
	for _, format := range []string{"csv", "ndjson"} {
		if got := of(format); !slices.EqualFunc(got, parquet, slices.Equal) {
			l.t.Errorf("%s: %q\nParquet: %q", format, got, parquet)
		}
	}
}
