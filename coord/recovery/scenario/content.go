package scenario

import (
	"strconv"
	"strings"

	"recoveryledger/ledger/entry"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// FailureIn reports whether the answer of a tool is the report of a failure, and which failure. It
// looks at the form of the answer, and never for words in the text. A failure is one message of a
// known shape, a text that starts with "Error:", a text with a traceback, with an exit code other
// than 0 at its end or with a command that the shell did not find, or an object with members that
// say so. The object may be JSON, or the text form of a Python dictionary, which wrappers of APIs
// leave behind.
func FailureIn(answer string) (RawError, bool) {
	text := strings.TrimSpace(answer)
	if cause, ok := strings.CutPrefix(text, "Error:"); ok {
		return RawError{Text: strings.TrimSpace(cause)}, true
	}
	if strings.HasPrefix(text, "{") {
		return failureOf(Members(text))
	}
	if strings.HasPrefix(text, `"`) {
		quoted := scanner{text: text}
		text = quoted.quoted()
	}
	return RawError{Text: text}, hasKnownShape(text) || failsByForm(text)
}

func hasKnownShape(text string) bool {
	label, _ := byMessage(text)
	return label != UnknownLabel()
}

// failureOf reads the members of an answer. Each of these members says failed: error with content,
// isError or is_error true, success false, errors without data, an exit code other than 0, a status
// from 400 to 599, or a lone message of a known shape.
func failureOf(all []Member) (RawError, bool) {
	raw, failed, onlyErrors, hasData := RawError{}, false, false, false
	texts := map[string]string{}
	for _, m := range all {
		switch m.Name {
		case "error":
			inner, isError := errorMember(m)
			texts["error"], raw.ProviderCode, raw.GRPCCode = inner.Text, inner.ProviderCode, inner.GRPCCode
			if inner.HTTPStatus != 0 {
				raw.HTTPStatus = inner.HTTPStatus
			}
			failed = failed || isError
		case "errors":
			if inner, ok := strings.CutPrefix(m.Value, "["); ok && strings.HasPrefix(strings.TrimSpace(inner), "{") && !m.quoted {
				listed, _ := errorWithin(strings.TrimSpace(inner), 1)
				texts["errors"], onlyErrors = listed.Text, true
				if raw.ProviderCode == "" {
					raw.ProviderCode = listed.ProviderCode
				}
			}
		case "data", "result":
			hasData = hasData || m.Value != "null" && m.Value != "None"
		case "isError", "is_error":
			failed = failed || strings.EqualFold(m.Value, "true")
		case "success":
			failed = failed || strings.EqualFold(m.Value, "false")
		case "exit_code", "exitCode", "returncode":
			if code, err := strconv.Atoi(m.Value); err == nil && code != 0 {
				raw.Text, failed = "exit code "+m.Value, true
			}
		case "status", "statusCode", "status_code":
			if status, err := strconv.Atoi(m.Value); err == nil && 400 <= status && status < 600 {
				raw.HTTPStatus, failed = status, true
			}
		case "message", "msg", "detail", "title":
			texts[m.Name] = m.Value
		}
	}
	failed = failed || onlyErrors && !hasData
	for _, name := range []string{"errors", "message", "msg", "detail", "error", "title"} {
		if raw.Text == "" {
			raw.Text = texts[name]
		}
	}
	if len(all) == 1 && texts["message"] != "" {
		failed = hasKnownShape(raw.Text)
	}
	return raw, failed
}

// errorMember reads a member named error: a message, an object, or a mere true. Null, false and an
// empty value are no error.
func errorMember(m Member) (RawError, bool) {
	switch {
	case m.quoted:
		return RawError{Text: m.Value}, m.Value != ""
	case !strings.HasPrefix(m.Value, "{"):
		return RawError{}, strings.EqualFold(m.Value, "true")
	}
	return errorWithin(m.Value, 1)
}

// errorWithin reads the text of an error that is an object with message, code and type, and the
// cause inside it. A typed cause says more than its wrapper, which has an error of its own. A
// number as code is an HTTP status or a JSON-RPC code. A name of a status is a gRPC status. Of a
// code and a type the typed one counts. The depth counts this error and the errors around it.
func errorWithin(text string, depth int) (RawError, bool) {
	raw, cause, all, kind := RawError{}, RawError{}, Members(text), ""
	for _, m := range all {
		code, err := strconv.Atoi(m.Value)
		switch {
		case m.Name == "message", m.Name == "error" && m.quoted && raw.Text == "":
			raw.Text = m.Value
		case m.Name == "code" && m.quoted && m.Value != "", m.Name == "code" && err == nil && code < 0:
			raw.ProviderCode = m.Value
		case m.Name == "code" && err == nil && 400 <= code && code < 600:
			raw.HTTPStatus = code
		case m.Name == "status" && m.quoted && causes().grpc.of(m.Value) != UnknownLabel():
			raw.GRPCCode = m.Value
		case m.Name == "type":
			kind = m.Value
		case isCause(m) && depth < causesMax:
			if inner, _ := errorWithin(m.Value, depth+1); inner.Typed() {
				cause = inner
			}
		}
	}
	if cause.Typed() {
		return cause, true
	}
	if raw.ProviderCode == "" || !(RawError{ProviderCode: raw.ProviderCode}).Typed() && (RawError{ProviderCode: kind}).Typed() {
		raw.ProviderCode = kind
	}
	return raw, len(all) > 0
}

// isCause says whether a member of an error holds the one behind it.
func isCause(m Member) bool {
	switch m.Name {
	case "error", "cause", "inner_error", "innererror":
		return strings.HasPrefix(m.Value, "{") && !m.quoted
	}
	return false
}

// Typed says whether more is known of an error than its words.
func (e RawError) Typed() bool {
	e.Text = ""
	return Classify(e) != UnknownLabel()
}

// ContentText is the text of a content: a string, the text parts of an array
// of parts, or else the JSON as it stands.
func ContentText(content jsontext.Value) string {
	switch content.Kind() {
	case '"':
		text, err := jsontext.AppendUnquote(nil, content)
		if err == nil {
			return string(text)
		}
	case '[':
		var parts []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if json.Unmarshal(content, &parts) != nil {
			break
		}
		var text strings.Builder
		for _, part := range parts {
			text.WriteString(part.Text)
		}
		return text.String()
	case 'n', 0:
		return ""
	}
	return string(content)
}

// RetryAfterMS reads the seconds of a Retry-After header.
func RetryAfterMS(text string) *int64 {
	seconds, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || seconds < 0 || seconds > entry.MaxInteger/1000 {
		return nil
	}
	ms := seconds * 1000
	return &ms
}

// NewFailure describes the failure of a step with the given effect. The failure has no effects if
// the step has no effect, or if the call was refused before it began. Otherwise the effects are
// unknown.
func NewFailure(effect entry.Effect, raw RawError, evidence entry.Digest) *Failure {
	raw.Text, raw.ProviderCode = Cut(raw.Text, TextMax), Cut(raw.ProviderCode, CodeMax)
	known := Explain(raw)
	f := &Failure{Raw: raw, Label: known.Label, Effects: entry.EffectsUnknown, ReplaySafety: entry.ReplayUnknown, Evidence: evidence}
	if known.Refused || effect == entry.EffectNone {
		f.Effects, f.ReplaySafety = entry.EffectsNone, entry.ReplaySafe
	}
	return f
}

// Cut shortens text to at most size bytes without breaking a character.
func Cut(text string, size int) string {
	if len(text) <= size {
		return text
	}
	return strings.ToValidUTF8(text[:size], "")
}
