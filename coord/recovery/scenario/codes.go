package scenario

import (
	"strconv"
	"strings"
)

// Codes that stand within a text, in the forms in which runtimes and clients write them.

// codeIn returns the label of the first code in a text, and what it is: a status with its reason, a
// gRPC code, a JSON-RPC code, a name or number of errno.
func (t *causeTables) codeIn(text string) (label Label, cause string) {
	if status := reasonedStatusIn(strings.ToLower(text)); status != 0 {
		return byStatus(status), "HTTP status " + strconv.Itoa(status)
	}
	if code := grpcIn(text); t.grpc.of(code) != UnknownLabel() {
		return t.grpc.of(code), "gRPC code " + code
	}
	for token := range strings.FieldsFuncSeq(text, func(r rune) bool { return r != '_' && r != '-' && (r > 'z' || !isAlnum(byte(r))) }) {
		rpc := strings.HasPrefix(token, "-32") && len(token) == len("-32000")
		if !rpc && (len(token) < len("EPERM") || strings.ToUpper(token) != token) {
			continue
		}
		if label := t.codes.of(token); label != UnknownLabel() {
			return label, "code " + token
		}
	}
	if name := errnoIn(text); name != "" {
		return t.codes.of(name), "code " + name
	}
	return UnknownLabel(), ""
}

// reasons are the words that follow a status on the wire, and in the errors of clients.
var reasons = map[string]string{
	"400": "bad request", "401": "unauthorized", "402": "payment required", "403": "forbidden", "404": "not found", "405": "method not allowed",
	"408": "request timeout", "409": "conflict", "410": "gone", "412": "precondition failed", "413": "payload too large", "422": "unprocessable",
	"429": "too many requests", "500": "internal server error", "502": "bad gateway", "503": "service unavailable", "504": "gateway time",
}

// reasonedStatusIn is the first status that stands in front of its reason, in small letters.
func reasonedStatusIn(lower string) int {
	for at := 0; at+4 < len(lower); at++ {
		reason, is := reasons[lower[at:at+3]]
		if is && (at == 0 || !isAlnum(lower[at-1])) && strings.HasPrefix(strings.TrimLeft(lower[at+3:], " -:"), reason) {
			status, _ := strconv.Atoi(lower[at : at+3]) // one of reasons
			return status
		}
	}
	return 0
}

// grpcIn is the gRPC code in a text: "code = Unavailable desc" of Go, "StatusCode.UNAVAILABLE" of
// Python, "14 UNAVAILABLE:" of JavaScript.
func grpcIn(text string) string {
	if _, rest, found := strings.Cut(text, "rpc error: code = "); found {
		name, _, _ := strings.Cut(rest, " ")
		var upper strings.Builder
		for i, r := range name {
			if i > 0 && 'A' <= r && r <= 'Z' {
				upper.WriteByte('_')
			}
			upper.WriteRune(r)
		}
		return strings.ToUpper(upper.String())
	}
	if _, rest, found := strings.Cut(text, "StatusCode."); found {
		return leadingName(rest)
	}
	number, rest, found := strings.Cut(text, " ")
	if code, err := strconv.Atoi(number); !found || err != nil || code < 1 || code > 16 {
		return ""
	}
	if name := leadingName(rest); strings.HasPrefix(rest[len(name):], ":") {
		return name
	}
	return ""
}

// leadingName is the name in capital letters with which a text begins.
func leadingName(text string) string {
	end := strings.IndexFunc(text, func(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') })
	if end < 0 {
		return text
	}
	return text[:end]
}

// errnos are names of errno by the number that Linux gives them, and by those of getaddrinfo.
var errnos = map[string]string{
	"1": "EPERM", "2": "ENOENT", "11": "EAGAIN", "12": "ENOMEM", "13": "EACCES", "16": "EBUSY", "17": "EEXIST", "20": "ENOTDIR", "21": "EISDIR", "22": "EINVAL",
	"23": "ENFILE", "24": "EMFILE", "28": "ENOSPC", "30": "EROFS", "32": "EPIPE", "35": "EDEADLK", "36": "ENAMETOOLONG", "39": "ENOTEMPTY", "40": "ELOOP",
	"100": "ENETDOWN", "101": "ENETUNREACH", "103": "ECONNABORTED", "104": "ECONNRESET", "110": "ETIMEDOUT", "111": "ECONNREFUSED", "112": "EHOSTDOWN",
	"113": "EHOSTUNREACH", "122": "EDQUOT", "-2": "ENOTFOUND", "-3": "EAI_AGAIN", "-5": "ENOTFOUND",
}

// errnoIn is the name of the number that Python writes: "[Errno 13]".
func errnoIn(text string) string {
	_, rest, found := strings.Cut(text, "[Errno ")
	number, _, closed := strings.Cut(rest, "]")
	if !found || !closed {
		return ""
	}
	return errnos[number]
}
