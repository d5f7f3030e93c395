package importer

import (
	"path"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// modelID is the name of a model as an id; empty where there is none.
func modelID(name string) string {
	if name == "" {
		return ""
	}
	return scenario.LocalID(name)
}

// principal is the agent of a format under the name the source gives it.
func principal(format Format, name string) entry.Principal {
	return entry.Principal(scenario.LocalID(string(format) + "/" + name))
}

// workflowID is the id of a workflow: format, file, case.
func workflowID(format Format, parts ...string) entry.WorkflowID {
	return entry.WorkflowID(scenario.LocalID(string(format) + "/" + strings.Join(parts, "/")))
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
		return scenario.LocalID(stem(file))
	}
	return scenario.LocalID(folder + "/" + stem(file))
}

// scalar is the text of a string or number member; absent and null give "".
func scalar(field string, value jsontext.Value) (string, *scenario.Error) {
	switch value.Kind() {
	case '"':
		text, err := jsontext.AppendUnquote(nil, value)
		if err != nil {
			return "", scenario.Malformed(field, "holds a broken string: "+err.Error(), "write a JSON string")
		}
		return string(text), nil
	case '0':
		return string(value), nil
	case 'n', 0:
		return "", nil
	default:
		return "", scenario.Malformed(field, "holds "+scenario.KindName(value.Kind()), "write a string or a number")
	}
}
