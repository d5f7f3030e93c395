package scenario

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// The errors of clients that pass as the answer of a tool. A tool that catches an exception returns
// its text, and nothing around the text says that the tool failed. Each form below is fixed, and
// stands at the head of the text. Such words elsewhere in a text are none: an answer may be about
// errors.

// wrappers are the words that agent frameworks put in front of the exception of a tool: the MCP SDK
// for Python, FastMCP, the OpenAI Agents SDK and CrewAI.
var wrappers = []string{"Error executing tool ", "Error calling tool '", "An error occurred while running the tool. ", "I encountered an error while trying to use the tool"}

// clientForms are what clients write behind the name of an exception, or without one. In each, the
// first group has a status from 400 to 599, where the form has one.
var clientForms = []func() *regexp.Regexp{
	atFirstUse(`^([45]\d\d) (?:Client|Server) Error\b`),                   // requests
	atFirstUse(`^HTTP Error ([45]\d\d)(?:: |$)`),                          // urllib
	atFirstUse(`^(?:Client|Server) error '([45]\d\d) [^'\n]*' for url '`), // httpx
	atFirstUse(`^Request failed with status code ([45]\d\d)$`),            // axios
	atFirstUse(`^Error code: ([45]\d\d)(?: - |$)`),                        // OpenAI, Anthropic
	atFirstUse(`^HTTP/[\d.]+ ([45]\d\d)\b`),                               // an answer as it is on the wire
	atFirstUse(`^HTTPS?ConnectionPool\(host=`),                            // urllib3
	atFirstUse(`^(?:MCP|JSON-RPC) error -32\d\d\d\b`),                     // MCP for TypeScript
	atFirstUse(`^rpc error: code = [A-Z][A-Za-z]+ desc = `),               // gRPC for Go
	atFirstUse(`^curl: \(\d+\) `),
}

var (
	// nodeForm is an error of the system as Node writes it: "connect ECONNREFUSED 127.0.0.1:80",
	// "ENOENT: no such file or directory, open 'x'".
	nodeForm = atFirstUse(`^(?:(?:connect|getaddrinfo|read|write|spawn|bind|listen|request to \S+ failed, reason:) )?(E[A-Z0-9_]{3,})(?:: | [^ \n]+$|$)`)
	// grpcForm is a status of gRPC for JavaScript: "14 UNAVAILABLE: no connection".
	grpcForm = atFirstUse(`^(?:[1-9]|1[0-6]) ([A-Z_]+): `)
	// errnoForm is an error of the system as Python writes it.
	errnoForm = atFirstUse(`^\[Errno (-?\d+)\] `)
	// titleForm is the title of the page that a gateway makes of a status.
	titleForm = atFirstUse(`^(?i:<!doctype html[^>]*>|<html[^>]*>|<head>|\s)+<title>(?:Error )?([45]\d\d)(?: -)? ([^<]*)</title>`)
	// statusForm is a status that is the whole text, with its reason.
	statusForm = atFirstUse(`^([45]\d\d):? ([A-Za-z -]+?)(?: for (?:url:? )?\S+)?\.?$`)
	// packaged is the name of an exception, in capitals, behind its package, in small letters.
	packaged = atFirstUse(`^[a-z][\w]*(?:[.$]\w+)*[.$][A-Z]\w*$`)
)

// atFirstUse compiles an expression at its first use: most commands classify nothing, and compiling
// all would be a part of each start that can be measured. Inlined, each call takes half a kilobyte
// of the program.
//
//go:noinline
func atFirstUse(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// isClientError says whether a text is the error of a client as a whole, by its head.
func isClientError(text string) bool {
	for _, words := range wrappers {
		if strings.HasPrefix(text, words) {
			return true
		}
	}
	if titleForm().MatchString(text) {
		title := titleForm().FindStringSubmatch(text)
		return hasReason(title[1], title[2])
	}
	head, more, _ := strings.Cut(text, "\n")
	head = strings.TrimSpace(head)
	name := ""
	for range 2 { // a framework's exception around that of a client
		next, rest, found := strings.Cut(head, ": ")
		if !found || errorName(head) != next || hasClientForm(head) {
			break
		}
		name, head = next, rest
	}
	return hasClientForm(head) || name != "" && hasNamedForm(name, head, more) || name == "" && more == "" && isStatusLine(head)
}

// hasClientForm says whether a line begins as one of the clients writes its errors.
func hasClientForm(line string) bool {
	for _, form := range clientForms {
		if form().MatchString(line) {
			return true
		}
	}
	t := causes()
	if found := nodeForm().FindStringSubmatch(line); len(found) > 1 && t.codes.of(found[1]) != UnknownLabel() {
		return true
	}
	if found := grpcForm().FindStringSubmatch(line); len(found) > 1 && (t.grpc.of(found[1]) != UnknownLabel() || found[1] == "UNKNOWN") {
		return true
	}
	found := errnoForm().FindStringSubmatch(line)
	return len(found) > 1 && errnos[found[1]] != ""
}

// hasNamedForm says whether what stands behind a name in capitals is an error: a status at the head
// behind the name of an exception, a stack below it, or one line behind an exception with its
// package.
func hasNamedForm(name, head, more string) bool {
	if leadingStatus(head) != 0 && isErrorWord(name) {
		return true
	}
	if strings.HasPrefix(more, "    at ") || strings.HasPrefix(more, "\tat ") {
		return true
	}
	return more == "" && packaged().MatchString(name) && isErrorWord(name)
}

// leadingStatus is the status from 400 on with which a text begins, as a word.
func leadingStatus(text string) int {
	word, _, _ := strings.Cut(text, " ")
	n, err := strconv.Atoi(strings.TrimRight(word, ":,-"))
	if err != nil || n < 400 || n >= 600 {
		return 0
	}
	return n
}

// isErrorWord says whether the last word of a name is one that languages give to errors, or the
// whole name is one that the tables have.
func isErrorWord(name string) bool {
	return strings.HasSuffix(name, "Error") || strings.HasSuffix(name, "Exception") || causes().named(name) != UnknownLabel()
}

// isStatusLine says whether a text is a status with its reason, and nothing else.
func isStatusLine(text string) bool {
	found := statusForm().FindStringSubmatch(text)
	return len(found) > 2 && hasReason(found[1], found[2])
}

// hasReason says whether words are the reason of a status, as RFC 9110 and gateways write it.
func hasReason(status, words string) bool {
	reason, known := reasons[status]
	words = strings.Replace(strings.ToLower(strings.TrimSpace(words)), " temporarily ", " ", 1)
	rest, is := strings.CutPrefix(words, reason)
	return known && is && (rest == "" || rest == "out" || rest == "-out" || rest == " entity" || rest == " content")
}
