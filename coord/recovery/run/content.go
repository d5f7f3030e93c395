package run

import (
	"strconv"
	"strings"
)

// failureIn says whether the answer of a tool is itself the report of a
// failure, and which. It looks at the answer's form, never for words in it:
// an answer that is one message of a known shape or starts with "Error:", or
// an object whose own members say so. The object may be JSON or the text
// form of a Python dictionary, which wrappers of APIs leave behind.
func failureIn(answer string) (RawError, bool) {
	text := strings.TrimSpace(answer)
	if cause, ok := strings.CutPrefix(text, "Error:"); ok {
		return RawError{Text: strings.TrimSpace(cause)}, true
	}
	if strings.HasPrefix(text, "{") {
		return failureOf(members(text))
	}
	if strings.HasPrefix(text, `"`) {
		quoted := scanner{text: text}
		text = quoted.quoted()
	}
	return RawError{Text: text}, hasKnownShape(text)
}

func hasKnownShape(text string) bool {
	label, _ := byMessage(text)
	return label != unknown()
}

// failureOf reads the members of an answer. Each of these says failed: error
// with something in it, isError or is_error true, success false, a status
// from 400 to 599, or a lone message of a known shape.
func failureOf(all []member) (RawError, bool) {
	raw, failed := RawError{}, false
	texts := map[string]string{}
	for _, m := range all {
		switch m.name {
		case "error":
			inner, isError := errorMember(m)
			texts["error"], raw.ProviderCode, raw.GRPCCode = inner.Text, inner.ProviderCode, inner.GRPCCode
			if inner.HTTPStatus != 0 {
				raw.HTTPStatus = inner.HTTPStatus
			}
			failed = failed || isError
		case "isError", "is_error":
			failed = failed || strings.EqualFold(m.value, "true")
		case "success":
			failed = failed || strings.EqualFold(m.value, "false")
		case "status", "statusCode", "status_code":
			if status, err := strconv.Atoi(m.value); err == nil && 400 <= status && status < 600 {
				raw.HTTPStatus, failed = status, true
			}
		case "message", "msg", "detail", "title":
			texts[m.name] = m.value
		}
	}
	for _, name := range []string{"message", "msg", "detail", "error", "title"} {
		if raw.Text == "" {
			raw.Text = texts[name]
		}
	}
	if len(all) == 1 && texts["message"] != "" {
		failed = hasKnownShape(raw.Text)
	}
	return raw, failed
}

// errorMember reads a member named error: a message, an object, or a mere
// true. Null, false and what is empty are no error.
func errorMember(m member) (RawError, bool) {
	switch {
	case m.quoted:
		return RawError{Text: m.value}, m.value != ""
	case !strings.HasPrefix(m.value, "{"):
		return RawError{}, strings.EqualFold(m.value, "true")
	}
	return errorObject(m.value, 1)
}

// errorObject reads an error with message, code and type, and the cause inside
// of it, which tells more if it is typed: a wrapper has an error of its own. A
// number as code is a status of HTTP or a code of JSON-RPC; the name of a
// status is one of gRPC.
func errorObject(text string, depth int) (RawError, bool) {
	raw, cause, all := RawError{}, RawError{}, members(text)
	for _, m := range all {
		code, err := strconv.Atoi(m.value)
		switch {
		case m.name == "message":
			raw.Text = m.value
		case m.name == "code" && m.quoted && m.value != "", m.name == "code" && err == nil && code < 0:
			raw.ProviderCode = m.value
		case m.name == "code" && err == nil && 400 <= code && code < 600:
			raw.HTTPStatus = code
		case m.name == "status" && m.quoted && byGRPC(m.value) != unknown():
			raw.GRPCCode = m.value
		case m.name == "type" && raw.ProviderCode == "":
			raw.ProviderCode = m.value
		case isCause(m) && depth < causesMax:
			if inner, _ := errorObject(m.value, depth+1); typed(inner) {
				cause = inner
			}
		}
	}
	if typed(cause) {
		return cause, true
	}
	return raw, len(all) > 0
}

// isCause says whether a member of an error holds the one behind it.
func isCause(m member) bool {
	switch m.name {
	case "error", "cause", "inner_error", "innererror":
		return strings.HasPrefix(m.value, "{") && !m.quoted
	}
	return false
}

// typed says whether more is known of an error than its words.
func typed(raw RawError) bool {
	raw.Text = ""
	return Classify(raw) != unknown()
}
