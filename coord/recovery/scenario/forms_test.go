package scenario

import (
	"slices"
	"strings"
	"testing"

	"recoveryledger/ledger/entry"
)

const pythonTraceback = "Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\n    open('a')\nFileNotFoundError: [Errno 2] No such file or directory: 'a'\n"

// Each fixed form, and what decides about it.
func TestForms(t *testing.T) {
	for text, want := range map[string]string{
		pythonTraceback: "output.bad_arguments by form: exception FileNotFoundError",
		"it ran\nTraceback (most recent call last):\n  File \"x\"\nrequests.exceptions.ReadTimeout: HTTPConnectionPool\n": "transient.timeout by form: exception requests.exceptions.ReadTimeout",
		"TypeError: Cannot read properties of undefined (reading 'x')\n    at f (a.js:1:2)":                               "output.bad_arguments by form: exception TypeError",
		"Uncaught RangeError: Invalid array length":                                                                       "output.bad_arguments by form: exception RangeError",
		"Exception in thread \"main\" java.lang.NullPointerException: x\n\tat A.b(A.java:1)":                              "tool.error by form: exception java.lang.NullPointerException",
		"java.lang.RuntimeException: y\n\tat A\nCaused by: java.net.SocketTimeoutException: timed out":                    "transient.timeout by form: exception java.net.SocketTimeoutException",
		"make: *** [all] Error 2\nexit code: 2":                                                                           "tool.error by form: exit code 2",
		"[Command finished with exit code 127]":                                                                           "output.hallucinated_tool by form: exit code 127",
		"killed\nProcess exited with code 137":                                                                            "crash.oom by form: exit code 137",
		"Command '['a']' returned non-zero exit status 124.":                                                              "transient.timeout by form: exit code 124",
		"bash: line 1: foo: command not found":                                                                            "output.hallucinated_tool by form: command not found: foo",
		"zsh: command not found: foo":                                                                                     "output.hallucinated_tool by form: command not found: foo",
		"/bin/sh: 1: foo: not found":                                                                                      "output.hallucinated_tool by form: command not found: foo",
		"Error code: 429 - {'error': {}}":                                                                                 "capacity.rate_limited by form: HTTP status 429",
		"Search failed with status 503":                                                                                   "transient.unavailable by form: HTTP status 503",
		"received status 403 so fetching is not allowed":                                                                  "access.denied by form: HTTP status 403",
		"503 Server Error: Service Unavailable for url: http://x":                                                         "transient.unavailable by form: HTTP status 503",
		"request failed with status code 401":                                                                             "access.unauthenticated by form: HTTP status 401",
		"user 42 not found":                                                                                               `output.bad_arguments by phrase: phrase " not found"`,
		"Rate-limit reached, please slow down":                                                                            `capacity.rate_limited by phrase: phrase "rate limit"`,
		"it rained":                                                                                                       "unknown by : ",
		"No such function name: fly":                                                                                      `output.hallucinated_tool by message: message "No such function name: *"`,
	} {
		e := Explain(RawError{Text: text})
		if got := e.Label.String() + " by " + e.By + ": " + e.Cause; got != want {
			t.Errorf("%q:\n got %s\nwant %s", text, got, want)
		}
		if e.Change == "" || e.Version < 2 {
			t.Errorf("%q: %+v", text, e)
		}
	}
	typed := Explain(RawError{Text: pythonTraceback, HTTPStatus: 429})
	if typed.By != "status" || typed.Label.String() != "capacity.rate_limited" {
		t.Errorf("a status comes before a text: %+v", typed)
	}
}

// A failure that passes as an answer is found by its form, and never by a word in it.
func TestFailuresThatPassAsGood(t *testing.T) {
	for answer, want := range map[string]string{
		pythonTraceback:                         "output.bad_arguments",
		"ls\nexit code: 1":                      "tool.error",
		`{"stdout": "", "exit_code": 127}`:      "output.hallucinated_tool",
		`{"stdout": "x", "returncode": 0}`:      "",
		"bash: foo: command not found":          "output.hallucinated_tool",
		"all good\nexit code: 0":                "",
		"Exit code 1\nls: x":                    "tool.error",
		"Exit code 0\nls: x":                    "",
		"Exit code 1 means that it failed":      "",
		"<returncode>2</returncode>\n<output>":  "tool.error",
		"<output>\n<returncode>0</returncode>":  "",
		"Exit code 0\nexited with code 3":       "tool.error",
		"it ran\n(exit 3)":                      "tool.error",
		"./a: Segmentation fault (core dumped)": "crash.panic",
		"'x' is not recognized as an internal or external command,\noperable program or batch file.": "output.hallucinated_tool",
		"How to fix a TypeError: read the docs":                                                      "",
		"TypeError: a novel":                                                                         "",
		"The server answered HTTP 503 twice":                                                         "",
		"the rate limit is 5":                                                                        "",
		`{"jsonrpc": "2.0", "error": {"code": -32001, "message": "Request timed out"}}`:              "transient.timeout",
		`{"errors": [{"message": "Field x does not exist", "extensions": {}}], "data": null}`:        "output.bad_arguments",
		`{"errors": [{"message": "some fields failed"}], "data": {"a": 1}}`:                          "",
		`{"errors": [], "data": null}`:                                                               "",
		`{"status": 400, "message": "Não foi possível", "errors": [{"error": "CEP INVÁLIDO"}]}`:      "output.bad_arguments",
		`{"isError": true, "message": "permission denied"}`:                                          "access.denied",
	} {
		raw, failed := FailureIn(answer)
		got := ""
		if failed {
			got = Classify(raw).String()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", answer, got, want)
		}
	}
}

// Codes of systems and names of exceptions of Python, JavaScript and Java.
func TestStructuredCodes(t *testing.T) {
	for code, want := range map[string]string{
		"ECONNREFUSED": "transient.unavailable", "ETIMEDOUT": "transient.timeout", "EACCES": "access.denied", "ENOENT": "output.bad_arguments", "ENOSPC": "capacity.quota_exhausted",
		"-32001": "transient.timeout", "-32000": "tool.error", "KeyError": "output.bad_arguments", "java.io.FileNotFoundException": "output.bad_arguments",
		"KeyboardInterrupt": "crash.interrupted", "ModuleNotFoundError": "request.invalid", "PermissionError": "access.denied",
	} {
		if e := Explain(RawError{ProviderCode: code}); e.Label.String() != want || e.By != "code" {
			t.Errorf("%s: %+v, want %s", code, e, want)
		}
	}
}

// Every phrase is a row of the taxonomy, in the letters in which texts are searched, and reached:
// none stands behind one that it contains. Of a family, one phrase is reached.
func TestPhrases(t *testing.T) {
	all := causes().phrases
	hidden, reached := map[string]string{}, map[string]bool{}
	for i, p := range all {
		if !slices.Contains(entry.Codes(p.label.Class), p.label.Code) {
			t.Errorf("%q: %s is no row", p.Words, p.label)
		}
		if strings.ToLower(p.Words) != p.Words || strings.ContainsAny(p.Words, "_-") {
			t.Errorf("%q is never met", p.Words)
		}
		sample := causes().words("x" + strings.ReplaceAll(p.Words, "*", "x") + "x")
		before := slices.IndexFunc(all[:i], func(earlier phrase) bool { return hasParts(sample, earlier.parts) })
		if before < 0 {
			reached[p.family] = true
		} else {
			hidden[p.family] = all[before].Words
		}
	}
	for family, before := range hidden {
		if !reached[family] {
			t.Errorf("%q is never reached behind %q", family, before)
		}
	}
}

// Words that say the same, and the families of phrases.
func TestWordings(t *testing.T) {
	for text, want := range map[string]string{
		"Event ID not supplied.":                              "output.bad_arguments",
		"Event ID wasn't given.":                              "output.bad_arguments",
		"`path` isn't valid":                                  "output.bad_arguments",
		"Illegal Flight Search.":                              "output.bad_arguments",
		"Couldn't find the order":                             "output.bad_arguments",
		"We're temporarily offline":                           "transient.unavailable",
		"timeout must be positive":                            "output.bad_arguments",
		"the request timed out":                               "transient.timeout",
		"Please sign in first":                                "access.unauthenticated",
		"The access token has expired":                        "access.unauthenticated",
		"Can't fill the tank":                                 "unknown", // too often wrong
		"Backup failed.":                                      "unknown",
		"something went wrong":                                "unknown",
		"ValueError: wifi already enabled":                    "tool.error",
		"ValueError: could not make sense of it":              "output.bad_arguments",
		"PermissionError: [Errno 13] Permission denied: '/x'": "access.denied",
		"PermissionError: Location service is not enabled.":   "tool.error",
		"All is well":                                         "unknown",
	} {
		if got := Explain(RawError{Text: text}); got.Label.String() != want {
			t.Errorf("%q: %s by %s, want %s", text, got.Label, got.Cause, want)
		}
	}
	if got := alternatives("{a|b} c{d|}"); !slices.Equal(got, []string{"a cd", "a c", "b cd", "b c"}) {
		t.Errorf("%q", got)
	}
	if got := alternatives("a {b"); !slices.Equal(got, []string{"a {b"}) {
		t.Errorf("%q", got)
	}
}

// A question of a live loop is answered within a millisecond, whatever its text: the longest text
// that is kept is classified in a part of it.
func BenchmarkExplain(b *testing.B) {
	for name, text := range map[string]string{"message": "Event ID was not looked at.", "longest": strings.Repeat("nobody can tell what this says ", 132)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Explain(RawError{Text: text})
			}
		})
	}
}

// Looking at groups of bytes first changes no label.
func TestGrams(t *testing.T) {
	all := causes().phrases
	for i := range all {
		for _, text := range []string{" " + strings.Join(all[i].parts, " x ") + " ", strings.Join(all[i].parts, ""), all[(i+1)%len(all)].Words} {
			if in := gramsIn(text); hasParts(text, all[i].parts) && !in.mayHave(all[i].grams) {
				t.Errorf("%q is not seen in %q", all[i].Words, text)
			}
		}
	}
	if gramsIn("nobody can tell what this says").mayHave(gramsOf([]string{"not found"})) {
		t.Error("a text without a phrase may have it")
	}
}

// FuzzExplain: an explanation is a label of the taxonomy with a cause, and the same again.
func FuzzExplain(f *testing.F) {
	for _, text := range []string{pythonTraceback, "exit code: 9", "zsh: command not found: ", "HTTP 4", ": not found", "Caused by: ", "\nCaused by: A", "status code "} {
		f.Add(text, "", 0)
	}
	f.Add("x", "a.b.", 429)
	f.Fuzz(func(t *testing.T, text, code string, status int) {
		raw := RawError{Text: text, ProviderCode: code, HTTPStatus: status}
		e := Explain(raw)
		if e != Explain(raw) || (e.Label == UnknownLabel()) != (e.By == "") || !slices.Contains(append(entry.Codes(e.Label.Class), "unknown"), e.Label.Code) {
			t.Fatalf("%+v", e)
		}
		FailureIn(text)
	})
}
