package scenario

import (
	"fmt"
	"strconv"
	"strings"

	"recoveryledger/coord/recovery"
)

// The forms in which runtimes, shells and clients write their errors into a text. Each is a fixed
// form of a place in the text: a word alone is none.

// formIn returns the label of the last fixed form that a text has, and what it is.
func (t *causeTables) formIn(text string) (label Label, cause string) {
	name := exceptionIn(text)
	switch label := t.named(name); {
	case name == "" || label == UnknownLabel():
	case strings.HasPrefix(name[strings.LastIndexAny(name, ".$")+1:], "Tool") && label == Label{"tool", "error"}:
		// The exceptions of frameworks only say that a tool failed. A code in the text says why.
		if code, cause := t.statusOrCodeIn(text); code != UnknownLabel() {
			return code, "exception " + name + " and " + cause
		}
		return label, "exception " + name
	default:
		return label, "exception " + name
	}
	if code, ok := exitCodeIn(text); ok && code != 0 {
		return t.exited(code), "exit code " + strconv.Itoa(code)
	}
	if command := missingCommandIn(text); command != "" {
		return Label{"output", "hallucinated_tool"}, "command not found: " + Cut(command, CodeMax)
	}
	return t.statusOrCodeIn(text)
}

// statusOrCodeIn returns the label of a status as clients write it, or else of a code.
func (t *causeTables) statusOrCodeIn(text string) (label Label, cause string) {
	if status := statusIn(text); status != 0 {
		return byStatus(status), "HTTP status " + strconv.Itoa(status)
	}
	return t.codeIn(text)
}

// exited is the label of the exit code of a process.
func (t *causeTables) exited(code int) Label {
	if label, ok := t.exit[strconv.Itoa(code)]; ok {
		return label
	}
	return Label{"tool", "error"}
}

// named takes the row of a code that a provider, a framework or a harness gives to its errors, or
// of the name of an exception, with or without its package.
func (t *causeTables) named(code string) Label {
	if label := t.codes.of(code); label != UnknownLabel() {
		return label
	}
	return t.exceptions.of(code[strings.LastIndexAny(code, ".:$")+1:])
}

// exceptionIn is the name of the exception with which a text says that it ended: on the last line
// of a Python traceback, behind "Caused by:" or "Exception in thread" of Java, or in front of the
// colon with which the text begins, as JavaScript and Python print an error.
func exceptionIn(text string) string {
	lines := strings.Split(strings.TrimRight(text, " \t\r\n"), "\n")
	if at := strings.LastIndex(text, "\nCaused by: "); at >= 0 {
		return errorName(text[at+len("\nCaused by: "):])
	}
	if hasTraceback(text) {
		for i := len(lines) - 1; i > 0; i-- {
			if name := errorName(lines[i]); name != "" && !strings.HasPrefix(lines[i], " ") {
				return name
			}
		}
	}
	first := strings.TrimPrefix(lines[0], "Uncaught ")
	if rest, ok := strings.CutPrefix(first, "Exception in thread "); ok {
		_, after, _ := strings.Cut(rest, `" `)
		first = after
	}
	return errorName(first)
}

// hasTraceback says whether a text has the head of a Python traceback on a line of its own.
func hasTraceback(text string) bool {
	return strings.HasPrefix(text, tracebackHead) || strings.Contains(text, "\n"+tracebackHead)
}

const tracebackHead = "Traceback (most recent call last):"

// errorName is the name of an exception at the beginning of a line, in front of a colon, a space in
// brackets, or the end: letters, digits, and the marks between packages. A name ends with the word
// that its language gives to errors.
func errorName(line string) string {
	end := strings.IndexFunc(line, func(r rune) bool {
		return !strings.ContainsRune("._$", r) && (r > 'z' || !isAlnum(byte(r)))
	})
	name := line
	if end >= 0 {
		if name = line[:end]; line[end] != ':' && line[end] != '(' && line[end] != '\r' && !strings.HasPrefix(line[end:], " [") {
			return ""
		}
	}
	short := name[strings.LastIndexAny(name, ".$")+1:]
	if len(name) > 2*CodeMax || short == "" || short[0] < 'A' || short[0] > 'Z' {
		return ""
	}
	return name
}

// exitLine is an exit code that has its first or last line for itself: "Exit code 1",
// "<returncode>1</returncode>".
var exitLine = atFirstUse(`^(?i:exit code:? (-?\d+)|<(?:returncode|exit_code)>(-?\d+)</(?:returncode|exit_code)>)$`)

// exitCodeIn is the exit code that the last line of a text gives, in the words of a shell tool, or
// that has the first line for itself.
func exitCodeIn(text string) (code int, ok bool) {
	text = strings.TrimRight(text, " \t\r\n.])")
	line := strings.ToLower(text[strings.LastIndexByte(text, '\n')+1:])
	if strings.HasSuffix(line, "segmentation fault (core dumped") {
		return 128 + 11, true // as a shell says it of SIGSEGV
	}
	for _, words := range []string{"exit code: ", "exit code ", "exit status ", "exit status: ", "exited with code ", "returned non-zero exit status ", "exitcode: ", "(exit "} {
		if at := strings.LastIndex(line, words); at >= 0 {
			n, err := strconv.Atoi(line[at+len(words):])
			return n, err == nil && n >= -255 && n <= 255
		}
	}
	first, _, _ := strings.Cut(text, "\n")
	for _, whole := range []string{line, strings.TrimSpace(first)} {
		if found := exitLine().FindStringSubmatch(whole); found != nil {
			n, err := strconv.Atoi(found[1] + found[2])
			return n, err == nil && n >= -255 && n <= 255
		}
	}
	return 0, false
}

// missingCommandIn is the command that a shell did not find: "bash: foo: command not found".
func missingCommandIn(text string) string {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutSuffix(strings.TrimSpace(line), ": command not found")
		if !ok {
			if rest, ok = strings.CutSuffix(strings.TrimSpace(line), ": not found"); !ok || !strings.Contains(rest, "sh: ") {
				rest, ok = "", false
			}
		}
		if before, _, windows := strings.Cut(strings.TrimSpace(line), "' is not recognized as an internal or external command"); windows && strings.HasPrefix(before, "'") {
			return before[1:]
		}
		if after, zsh := strings.CutPrefix(strings.TrimSpace(line), "zsh: command not found: "); zsh {
			return after
		}
		if name := rest[strings.LastIndex(rest, ": ")+1:]; ok && strings.TrimSpace(name) != "" && len(rest) < 2*ToolMax {
			return strings.TrimSpace(name)
		}
	}
	return ""
}

// statusIn is the HTTP status of an error that a client of HTTP wrote: "HTTP 503", "status code
// 429", "Error code: 429", "429 Client Error".
func statusIn(text string) int {
	lower := strings.ToLower(text)
	for _, words := range []string{"status_code=", "status code: ", "status code ", "http status ", "http error ", "http ", "http/1.1 ",
		"error code: ", "returned error: ", "status: ", "failed, response ", "with status ", "received status "} {
		for rest := lower; ; {
			at := strings.Index(rest, words)
			if at < 0 {
				break
			}
			if rest = rest[at+len(words):]; len(rest) >= 3 && (len(rest) == 3 || !isDigit(rest[3])) {
				if n, err := strconv.Atoi(rest[:3]); err == nil && 400 <= n && n < 600 {
					return n
				}
			}
		}
	}
	if name, rest, named := strings.Cut(text, ": "); named && errorName(text) == name && strings.HasPrefix(name[strings.LastIndexByte(name, '.')+1:], "HTTP") {
		if status := leadingStatus(rest); status != 0 {
			return status
		}
	}
	for _, words := range []string{" client error", " server error"} {
		at := strings.Index(lower, words)
		if at < 3 || at > 3 && isAlnum(lower[at-4]) {
			continue
		}
		if n, err := strconv.Atoi(lower[at-3 : at]); err == nil && 400 <= n && n < 600 {
			return n
		}
	}
	return 0
}

// failsByForm says whether the answer of a tool is a failure by a fixed form alone: a traceback, an
// exit code other than 0 on its last line or as its first, a command that the shell did not find,
// or the error of a client. The bare name of an exception or a status within a text is none: an
// answer may be about one.
func failsByForm(text string) bool {
	code, exited := exitCodeIn(text)
	return exited && code != 0 || !exited && (hasTraceback(text) || missingCommandIn(text) != "" || isClientError(text))
}

// found is what a phrase decides that a text has: its label, or unknown and why it does not count.
type found struct {
	label Label
	cause string
}

// phraseIn returns what the first phrase of the table decides that a text has, but for those
// learned from a data set.
func (t *causeTables) phraseIn(text, leaving string) found {
	if p := t.firstPhrase(text, leaving); p != nil {
		return t.evidence.weigh(p, leaving)
	}
	return found{label: UnknownLabel()}
}

// firstPhrase is the first phrase of the table that a text has, but for those learned from a data
// set; nil: none.
func (t *causeTables) firstPhrase(text, leaving string) *phrase {
	lower := t.words(text)
	in := gramsIn(lower)
	for i := range t.phrases {
		if p := &t.phrases[i]; in.mayHave(p.grams) && !p.onlyFrom(leaving) && hasParts(lower, p.parts) {
			return p
		}
	}
	return nil
}

// words is a text as phrases look at it: in small letters, in words that say the same, with one
// space around each.
func (t *causeTables) words(text string) string {
	return " " + strings.Join(strings.Fields(marks.Replace(t.sameWords(plain(text)))), " ") + " "
}

// onlyFrom reports whether a phrase was learned from a data set alone.
func (p *phrase) onlyFrom(set string) bool { return len(p.From) == 1 && p.From[0] == set }

// marks makes spaces of the marks between words.
var marks = strings.NewReplacer(".", " ", ",", " ", "!", " ", "?", " ", ";", " ", ":", " ", "(", " ", ")", " ", `"`, " ", "'", " ", "`", " ", "[", " ", "]", " ")

// plain is a text in small letters, with spaces for what else separates words.
func plain(text string) string {
	return strings.NewReplacer("_", " ", "-", " ", "\n", " ", "\t", " ").Replace(strings.ToLower(text))
}

// hasParts reports whether a text has the parts in this order.
func hasParts(text string, parts []string) bool {
	for _, part := range parts {
		var fits bool
		if _, text, fits = strings.Cut(text, part); !fits {
			return false
		}
	}
	return true
}

// patternIn is the first pattern of a policy that a text fits.
func patternIn(text string, patterns []recovery.Pattern) (label Label, cause string, refused bool) {
	for i, p := range patterns {
		if hasParts(plain(text), strings.Split(plain(p.Words), "*")) {
			return labelOf(p.Failure), fmt.Sprintf("pattern %d of the policy, %q", i+1, p.Words), p.Refused
		}
	}
	return UnknownLabel(), "", false
}
