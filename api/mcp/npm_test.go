package mcp_test

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recoveryledger/api/mcp"
	"recoveryledger/ledger/entry"
	"recoveryledger/testdata/needs"
)

// npmServer returns the program of a server that others wrote. make mcp installs the servers.
func npmServer(t *testing.T, name string) []string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "testdata", "mcp", "node_modules", ".bin", name))
	must(t, err)
	node, err := exec.LookPath("node")
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		needs.Missing(t, err.Error(), "run make mcp", "servers of others are not run")
	}
	return []string{node, path}
}

// tree returns the files below a directory. A directory is a name that ends with a slash.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			found[name+"/"] = ""
			return nil
		}
		text, err := os.ReadFile(path)
		found[name] = string(text)
		return err
	}))
	return found
}

// toolsOf reads a tools file of testdata.
func toolsOf(t *testing.T, name string, replace ...string) *mcp.Tools {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "mcp", name))
	must(t, err)
	tools, err := mcp.ParseTools(name, []byte(strings.NewReplacer(replace...).Replace(string(text))))
	must(t, err)
	return tools
}

// TestFilesystemServer rolls a run at the server for files back: the files are as before.
func TestFilesystemServer(t *testing.T) {
	argv := npmServer(t, "mcp-server-filesystem")
	t.Parallel()
	w := newWorld(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	work, trash := filepath.Join(dir, "work"), filepath.Join(dir, "trash")
	must(t, os.MkdirAll(filepath.Join(work, "kept"), 0o700))
	must(t, os.Mkdir(trash, 0o700))
	must(t, os.WriteFile(filepath.Join(work, "plan.txt"), []byte("first\nsecond\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(work, "old.txt"), []byte("${arguments/path}"), 0o600))
	before := tree(t, work)
	config := w.config(notesFile)
	config.Tools = toolsOf(t, "filesystem.yaml", "TRASH", trash)
	config.Connect = mcp.Command(append(argv, work, trash), os.Stderr, nil)
	l := w.begin(config, nil)
	in := func(name string) string { return filepath.Join(work, name) }
	var first entry.Ref
	for _, c := range []struct {
		tool      string
		arguments map[string]any
	}{
		{"list_directory", map[string]any{"path": work}},
		{"write_file", map[string]any{"path": in("plan.txt"), "content": "first\nthird\n"}},
		{"create_directory", map[string]any{"path": in("new")}},
		{"create_directory", map[string]any{"path": in("kept")}},
		{"write_file", map[string]any{"path": in("new/report.txt"), "content": "done"}},
		{"edit_file", map[string]any{"path": in("old.txt"), "edits": []any{map[string]any{"oldText": "path", "newText": "name"}}}},
		{"move_file", map[string]any{"source": in("old.txt"), "destination": in("new/old.txt")}},
	} {
		text, exec, failed := l.call(c.tool, c.arguments)
		if failed {
			t.Fatalf("%s: %s", c.tool, text)
		}
		if first == "" && c.tool == "write_file" {
			first = exec
		}
		w.entries(exec, entry.Confirmed)
	}
	if now := tree(t, work); now["new/old.txt"] != "${arguments/name}" || now["plan.txt"] != "first\nthird\n" || now["new/report.txt"] != "done" {
		t.Fatalf("after the run %v", now)
	}
	results := l.obey(first)
	if after := tree(t, work); !maps.Equal(after, before) {
		t.Errorf("after the rollback %v, before %v; told %v", after, before, w.told)
	}
	for exec, result := range results {
		if result != entry.Compensated {
			t.Errorf("%s: %s", exec, result)
		}
	}
	if len(results) != 6 {
		t.Errorf("%d results: %v", len(results), results)
	}
}

// TestMemoryServer rolls a run at the server for a memory back: its file is as before.
func TestMemoryServer(t *testing.T) {
	argv := npmServer(t, "mcp-server-memory")
	t.Parallel()
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "memory.jsonl")
	config := w.config(notesFile)
	config.Tools = toolsOf(t, "memory.yaml")
	config.Connect = mcp.Command(append([]string{"/usr/bin/env", "MEMORY_FILE_PATH=" + file}, argv...), os.Stderr, nil)
	l := w.begin(config, nil)
	entity := func(name string) map[string]any {
		return map[string]any{"name": name, "entityType": "person", "observations": []any{"met"}}
	}
	if text, _, failed := l.call("create_entities", map[string]any{"entities": []any{entity("Ann")}}); failed {
		t.Fatal(text)
	}
	before, err := os.ReadFile(file)
	must(t, err)
	text, first, failed := l.call("create_entities", map[string]any{"entities": []any{entity("Ann"), entity("Bob")}}) // Ann is there
	if failed {
		t.Fatal(text)
	}
	for tool, arguments := range map[string]map[string]any{
		"create_relations": {"relations": []any{map[string]any{"from": "Ann", "to": "Bob", "relationType": "knows"}}},
		"add_observations": {"observations": []any{map[string]any{"entityName": "Ann", "contents": []any{"called"}}}},
	} {
		if text, _, failed := l.call(tool, arguments); failed {
			t.Fatalf("%s: %s", tool, text)
		}
	}
	results := l.obey(first)
	after, err := os.ReadFile(file)
	must(t, err)
	if string(after) != string(before) || len(results) != 3 {
		t.Errorf("after the rollback\n%s\nbefore\n%s\n%v", after, before, results)
	}
}

// TestEverythingServer has resources, prompts, progress, logging, sampling and elicitation pass. It
// rolls back a run that switched the server's logging on: the logging is off as before.
func TestEverythingServer(t *testing.T) {
	argv := npmServer(t, "mcp-server-everything")
	t.Parallel()
	w := newWorld(t)
	const toggle = "toggle-simulated-logging"
	config := w.config("tools:\n  " + toggle + ": {compensation: [{tool: " + toggle + ", arguments: {}}]}\n")
	config.Connect = mcp.Command(argv, os.Stderr, nil)
	var progress, sampled, elicited atomic.Int64
	l := w.begin(config, &sdk.ClientOptions{
		ProgressNotificationHandler: func(context.Context, *sdk.ProgressNotificationClientRequest) { progress.Add(1) },
		CreateMessageHandler: func(context.Context, *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) { //nolint:staticcheck // servers sample all the same
			sampled.Add(1)
			//nolint:staticcheck // as above
			return &sdk.CreateMessageResult{Model: "none", Role: "assistant", Content: &sdk.TextContent{Text: "a sample"}}, nil
		},
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			elicited.Add(1)
			return &sdk.ElicitResult{Action: "decline"}, nil
		},
	})
	text, exec, failed := l.call("echo", map[string]any{"message": "hello"})
	if failed || !strings.Contains(text, "hello") || w.entries(exec, entry.Confirmed)[0].Effect != entry.EffectNone {
		t.Errorf("echo: %q", text)
	}
	params := &sdk.CallToolParams{Name: "trigger-long-running-operation", Arguments: map[string]any{"duration": 0.2, "steps": 4}}
	params.SetProgressToken("p")
	if _, err := l.client.CallTool(t.Context(), params); err != nil || progress.Load() == 0 {
		t.Errorf("%d notifications of progress, %v", progress.Load(), err)
	}
	resources, err := l.client.ListResources(t.Context(), nil)
	must(t, err)
	if _, err := l.client.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: resources.Resources[0].URI}); err != nil {
		t.Error(err)
	}
	prompts, err := l.client.ListPrompts(t.Context(), nil)
	must(t, err)
	if len(prompts.Prompts) == 0 {
		t.Error("no prompts")
	}
	if text, _, failed := l.call("trigger-sampling-request", map[string]any{"prompt": "x", "maxTokens": 10}); failed || sampled.Load() != 1 {
		t.Errorf("sampling: %d, %s", sampled.Load(), text)
	}
	if text, _, failed := l.call("trigger-elicitation-request", map[string]any{}); failed || elicited.Load() != 1 {
		t.Errorf("elicitation: %d, %s", elicited.Load(), text)
	}
	text, on, failed := l.call(toggle, map[string]any{})
	if failed || !strings.HasPrefix(text, "Started") {
		t.Fatalf("%s: %s", toggle, text)
	}
	if results := l.obey(on); len(results) != 1 || results[on] != entry.Compensated {
		t.Errorf("%v", results)
	}
	if text, _, failed := l.call(toggle, map[string]any{}); !failed || !strings.Contains(text, "rolled back "+toggle) {
		t.Errorf("the session was not told: %s", text)
	}
	if text, _, failed := l.call(toggle, map[string]any{}); failed || !strings.HasPrefix(text, "Started") {
		t.Errorf("the logging was on: %s", text)
	}
}
