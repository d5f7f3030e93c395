//go:build unix

package main_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"recoveryledger/testdata/needs"
	"recoveryledger/testdata/program"
)

// TestPages runs what README.md and the pages under docs show, as a reader does: every block
// "console", in order, in one directory a page, and compares what the commands print. A line … or
// ... stands for any lines, … within a line for any text. A command without output below it prints
// what it likes. The words behind "console" say what is not as usual:
//
//	running        the last command goes on: the shown lines are waited for
//	stopped        what goes on is ended before, as Ctrl-C does
//	scene=NAME     begin in a new directory, after the commands of testdata/pages/NAME.md, or of docs/NAME.md
//	test=TestNAME  that test runs these commands
//	not-run: WHY   nobody runs them
//
// A block "text running" is what the command that goes on prints next. A block with file=NAME is
// the content of a file. URL in the environment is the ledger's.
func TestPages(t *testing.T) {
	commands := 0
	for name, page := range markdown(t) {
		if name != "README.md" && !strings.HasPrefix(name, "docs/") {
			continue
		}
		blocks := blocksOf(t, name, page)
		if !slices.ContainsFunc(blocks, func(b block) bool { return b.isRun() }) {
			continue
		}
		for _, b := range blocks {
			if b.isRun() {
				commands += strings.Count("\n"+b.content, "\n$ ")
			}
		}
		scene := strings.TrimSuffix(filepath.Base(name), ".md")
		t.Run(scene, func(t *testing.T) {
			t.Parallel()
			r := &reader{t: t}
			defer r.stop()
			r.begin(scene, name)
			r.read(name, blocks)
		})
	}
	if commands < 60 {
		t.Errorf("%d commands on all pages: the blocks are not found", commands)
	}
}

// hasCommand finds a line that a reader may type.
var hasCommand = regexp.MustCompile(`(?m)^(\$ |arl [a-z])`)

// TestCommandsAreRun wants every command of a document in a block that a test runs.
func TestCommandsAreRun(t *testing.T) {
	for name, page := range markdown(t) {
		for _, b := range blocksOf(t, name, page) {
			test, tested := b.word("test=")
			switch {
			case b.language != "sh" && !hasCommand.MatchString(b.content) || b.isRun():
			case name == "docs/operations/install.md" && b.language == "sh" && len(b.words) == 0: // make packages runs each
			case b.language == "text" && scripted[name] != "":
			case b.language == "sh" && strings.HasPrefix(name, "docs/operations/runbooks/"): // TestRunbooks wants a drill of each
			case tested && hasTest(t, test):
			case len(b.words) > 1 && b.words[0] == "not-run:":
			default:
				t.Errorf("%s:%d: no test runs these commands: want ```console, or the reason behind it (see TestPages)", name, b.line)
			}
		}
	}
}

// scripted are the pages whose blocks "text" begin with a command: the script of a page runs the
// commands, and compares with what the page prints.
var scripted = map[string]string{"docs/rollback.md": "rollback_page.txtar", "docs/tasks.md": "tasks_page.txtar", "docs/disk-gone.md": "disk_page.txtar"}

// TestScriptedPages holds pages and scripts together.
func TestScriptedPages(t *testing.T) {
	for name, page := range markdown(t) {
		file, is := scripted[name]
		if !is {
			continue
		}
		script, err := os.ReadFile(filepath.Join(root, "testdata", "scripts", file))
		if err != nil {
			t.Fatal(err)
		}
		commands := 0
		for _, b := range blocksOf(t, name, page) {
			if b.language != "text" {
				continue
			}
			for _, part := range strings.Split("\n"+b.content, "\n$ ")[1:] {
				command, printed, _ := strings.Cut(part, "\n")
				commands++
				if !strings.Contains(string(script), "\nexec "+command+"\n") {
					t.Errorf("%s:%d: the script does not run %q", name, b.line, command)
				}
				if !strings.Contains(string(script), "\n"+printed) { // as a whole: what it compares the output with
					t.Errorf("%s:%d: the script does not compare with\n%s", name, b.line, printed)
				}
			}
		}
		if commands == 0 {
			t.Errorf("no command on %s", name)
		}
	}
}

func hasTest(t *testing.T, name string) bool {
	t.Helper()
	return exec.Command("git", "-C", root, "grep", "-q", "func "+name+"(", "--", "*_test.go").Run() == nil
}

// block is a fenced block of a page.
type block struct {
	language string
	words    []string // behind the language
	content  string   // with a newline at the end of each line
	line     int
}

// isRun reports whether [TestPages] runs its commands.
func (b block) isRun() bool {
	_, tested := b.word("test=")
	return b.language == "console" && !tested && !slices.Contains(b.words, "not-run:")
}

func (b block) word(prefix string) (value string, found bool) {
	for _, word := range b.words {
		if value, found = strings.CutPrefix(word, prefix); found {
			break
		}
	}
	return value, found
}

func blocksOf(t *testing.T, name, page string) (all []block) {
	t.Helper()
	open, number := false, 0
	for line := range strings.Lines(page) {
		number++
		info, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch words := strings.Fields(info); {
		case fence && open:
			open = false
		case fence:
			open = true
			all = append(all, block{language: strings.Join(words[:min(1, len(words))], ""), words: words[min(1, len(words)):], line: number})
			if b := all[len(all)-1]; b.language == "console" || b.language == "text" {
				b.checkWords(t, name)
			}
		case open:
			all[len(all)-1].content += line
		}
	}
	return all
}

// checkWords fails where a word behind the language means nothing.
func (b block) checkWords(t *testing.T, name string) {
	t.Helper()
	for _, word := range b.words {
		if word == "not-run:" {
			return // the rest is the reason
		}
		if word != "running" && word != "stopped" && !strings.HasPrefix(word, "scene=") && !strings.HasPrefix(word, "test=") {
			t.Errorf("%s:%d: %q means nothing here", name, b.line, word)
		}
	}
}

// reader does what a page says, in a directory.
type reader struct {
	t       *testing.T
	dir     string
	url     string // of the ledger
	exports string // lines that set the environment of what comes after
	running []*running
}

// begin makes the directory of a scene, and does what comes before it.
func (r *reader) begin(scene, page string) {
	r.t.Helper()
	r.stop()
	r.dir, r.exports = r.t.TempDir(), ""
	testdata, err := filepath.Abs(filepath.Join(root, "testdata"))
	if err == nil {
		err = os.Symlink(testdata, filepath.Join(r.dir, "testdata"))
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(r.dir, "bin"), 0o700)
	}
	if err == nil {
		err = os.Symlink(program.Arl(r.t), filepath.Join(r.dir, "bin", "arl"))
	}
	if err != nil {
		r.t.Fatal(err)
	}
	for _, before := range []string{"testdata/pages/" + scene + ".md", "docs/" + scene + ".md"} {
		content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(before)))
		if err != nil || before == page {
			continue
		}
		r.read(before, blocksOf(r.t, before, string(content)))
		return
	}
}

func (r *reader) read(page string, blocks []block) {
	r.t.Helper()
	for _, b := range blocks {
		if file, ok := b.word("file="); ok {
			if err := os.WriteFile(filepath.Join(r.dir, file), []byte(b.content), 0o600); err != nil {
				r.t.Fatal(err)
			}
		}
		if b.language == "text" && slices.Contains(b.words, "running") {
			r.running[len(r.running)-1].await(r.t, page, b.content)
		}
		if !b.isRun() {
			continue
		}
		if scene, ok := b.word("scene="); ok {
			r.begin(scene, page)
		}
		if slices.Contains(b.words, "stopped") {
			r.stop()
		}
		parts := strings.Split("\n"+strings.TrimSuffix(b.content, "\n"), "\n$ ")[1:]
		for i, part := range parts {
			command, printed := splitCommand(part)
			if i == len(parts)-1 && slices.Contains(b.words, "running") {
				r.start(page, command, printed)
			} else {
				r.run(page, command, printed)
			}
		}
	}
}

// command is a line as the reader's shell runs it. A ledger gets a port of its own. The rest of a
// page is skipped where a program is missing that is no part of arl.
func (r *reader) command(line string) *exec.Cmd {
	r.t.Helper()
	for name, pkg := range map[string]string{"python3": "python3", "curl": "curl", "node": "nodejs"} {
		if strings.Contains(" "+line, " "+name+" ") {
			needs.Program(r.t, name, pkg, "the rest of the page is not run")
		}
	}
	cmd := exec.Command("sh", "-c", r.exports+line)
	cmd.Dir = r.dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ARL_HOME=") || strings.HasPrefix(v, "XDG_") })
	cmd.Env = append(cmd.Env, "HOME="+r.dir, "PATH="+filepath.Join(r.dir, "bin")+":"+os.Getenv("PATH"), "ARL_SERVE_LISTEN=127.0.0.1:0", "COLUMNS=", "URL="+r.url)
	return cmd
}

// run runs a command to its end. One that fails is to show what it prints.
func (r *reader) run(page, command, printed string) {
	r.t.Helper()
	if strings.HasPrefix(command, "export ") {
		r.exports += command + "\n"
		return
	}
	out, err := r.command(command).CombinedOutput()
	if printed == "" && err != nil {
		r.t.Fatalf("%s: $ %s\n%v\n%s", page, command, err, out)
	}
	if printed != "" && !isShown(printed, string(out)) {
		r.t.Errorf("%s: $ %s\nprints (%v)\n%s\nthe page has\n%s", page, command, err, out, printed)
	}
}

// start runs a command that goes on, until it has printed what is shown.
func (r *reader) start(page, command, printed string) {
	r.t.Helper()
	line := strings.Replace(command, "make run", "arl serve --data data", 1)
	c := &running{cmd: r.command("exec " + line), said: make(chan struct{}, 1)}
	c.cmd.Stdout, c.cmd.Stderr = c, c
	if err := c.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.running = append(r.running, c)
	c.await(r.t, page+": $ "+command, printed)
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := ledgerURL.Find(c.text); found != nil {
		r.url = string(found)
	}
}

var ledgerURL = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// stop ends what goes on, the newest first.
func (r *reader) stop() {
	r.t.Helper()
	for _, c := range slices.Backward(r.running) {
		if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			r.t.Error(err)
		}
		if err := c.cmd.Wait(); err != nil && exitOf(err) != 130 {
			r.t.Errorf("%s: %v\n%s", c.cmd, err, c.text)
		}
	}
	r.running = nil
}

// running is a command that goes on, and what it prints.
type running struct {
	cmd  *exec.Cmd
	said chan struct{} // there is more
	mu   sync.Mutex
	text []byte // guarded by mu
	read int    // bytes of it that the page has shown
}

// Write implements [io.Writer].
func (c *running) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.text = append(c.text, p...)
	c.mu.Unlock()
	select {
	case c.said <- struct{}{}:
	default:
	}
	return len(p), nil
}

// await waits until the command has printed what is shown.
func (c *running) await(t *testing.T, page, shown string) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		c.mu.Lock()
		whole := string(c.text[c.read : bytes.LastIndexByte(c.text, '\n')+1])
		c.mu.Unlock()
		if isShown(shown, whole) {
			c.read += len(whole)
			return
		}
		select {
		case <-c.said:
		case <-late:
			t.Fatalf("%s\nprints\n%s\nthe page has\n%s", page, whole, shown)
		}
	}
}

// drawn is what is new in every run of a page's commands: times, ports, origins, keys, hashes and
// durations.
var drawn = regexp.MustCompile(`[0-9a-f]{64}|\d{4}-\d\d-\d\dT[\d:.]+Z|127\.0\.0\.1:\d+|local\.arl[/_][0-9a-f]{8}(\+[0-9a-f]{8}\+[A-Za-z0-9+/]+=*)?|SHA256:[A-Za-z0-9+/]{43}|[A-Za-z0-9+/]{43}=|\d+ ms\b|` +
	`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// isShown reports whether a text is what a page shows of it.
func isShown(shown, text string) bool {
	lines := func(s string) []string {
		return strings.Split(strings.TrimRight(drawn.ReplaceAllString(s, "N"), "\n"), "\n")
	}
	return fits(lines(shown), lines(text))
}

// fits reports whether lines are those that a page shows.
func fits(shown, lines []string) bool {
	if len(shown) == 0 {
		return len(lines) == 0
	}
	if shown[0] == "..." || shown[0] == "…" {
		for i := range len(lines) + 1 {
			if fits(shown[1:], lines[i:]) {
				return true
			}
		}
		return false
	}
	return len(lines) > 0 && lineFits(shown[0], lines[0]) && fits(shown[1:], lines[1:])
}

func lineFits(shown, line string) bool {
	parts := strings.Split(strings.TrimRight(shown, " "), "…")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(strings.TrimRight(line, " "))
}

// splitCommand separates a command, with its further lines and what it reads as a here document,
// from what it prints.
func splitCommand(part string) (command, printed string) {
	command, printed, _ = strings.Cut(part, "\n")
	for strings.HasSuffix(command, "\\") {
		more, rest, _ := strings.Cut(printed, "\n")
		command, printed = command+"\n"+more, rest
	}
	if _, end, reads := strings.Cut(command, "<<'"); reads {
		end, _, _ = strings.Cut(end, "'")
		input, rest, _ := strings.Cut(printed, "\n"+end)
		return command + "\n" + input + "\n" + end, strings.TrimPrefix(rest, "\n")
	}
	return command, printed
}

// fileOf returns a file that a page shows.
func fileOf(t *testing.T, page, file string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocksOf(t, page, string(content)) {
		if name, ok := b.word("file="); ok && name == file {
			path := filepath.Join(t.TempDir(), file)
			if err := os.WriteFile(path, []byte(b.content), 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}
	}
	t.Fatalf("%s shows no %s", page, file)
	return ""
}
