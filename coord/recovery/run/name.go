package run

import (
	"path"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/entry"
)

// localID makes an id or principal of any text. A text that already is one
// stays as it is; else what does not fit is replaced or cut and a part of the
// text's digest added, so that different texts stay different.
func localID(text string) string {
	fits := strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (isAlnum(byte(r)) || strings.ContainsRune("._:/@-", r)) {
			return r
		}
		return '-'
	}, text)
	if fits == text && text != "" && len(text) <= entry.MaxName {
		return text
	}
	tail := "-" + digest(text)[len("sha256:"):][:16]
	return fits[:min(len(fits), entry.MaxName-len(tail))] + tail
}

func isAlnum(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// modelID is the name of a model as an id; empty where there is none.
func modelID(name string) string {
	if name == "" {
		return ""
	}
	return localID(name)
}

// principal is the agent of a format under the name the source gives it.
func principal(format Format, name string) entry.Principal {
	return entry.Principal(localID(string(format) + "/" + name))
}

// workflowID is the id of a workflow: format, file, case.
func workflowID(format Format, parts ...string) entry.WorkflowID {
	return entry.WorkflowID(localID(string(format) + "/" + strings.Join(parts, "/")))
}

// stem is the last part of a file's name without its extension.
func stem(file string) string {
	base := path.Base(file)
	return strings.TrimSuffix(base, path.Ext(base))
}

// fileID is the id of the one case of a file: its folder and its stem, since
// sets of such files repeat names over folders.
func fileID(file string) string {
	folder := path.Base(path.Dir(file))
	if folder == "." || folder == "/" || folder == ".." {
		return localID(stem(file))
	}
	return localID(folder + "/" + stem(file))
}

// scalar is the text of a string or number member; absent and null give "".
func scalar(field string, value jsontext.Value) (string, *Error) {
	switch value.Kind() {
	case '"':
		text, err := jsontext.AppendUnquote(nil, value)
		if err != nil {
			return "", malformed(field, "holds a broken string: "+err.Error(), "write a JSON string")
		}
		return string(text), nil
	case '0':
		return string(value), nil
	case 'n', 0:
		return "", nil
	default:
		return "", malformed(field, "holds "+kindName(value.Kind()), "write a string or a number")
	}
}
