package scenario

import (
	"fmt"
	"strings"
	"testing"
)

// An answer is a failure by its form only.
func TestFailureInAnswer(t *testing.T) {
	for _, c := range []struct{ answer, want string }{
		{``, "ok"},
		{`Error: not enough seats on flight A1`, "not enough seats on flight A1"},
		{`An Error: in the middle`, "ok"},
		{`Errors are human`, "ok"},
		{`{"a": 1}`, "ok"},
		{`{"error": ""}`, "ok"},
		{`{"error": null, "isError": false, "success": true}`, "ok"},
		{`{"error": "boom"}`, "boom"},
		{`{"error": {"message": "slow down", "type": "t", "code": "rate_limit_exceeded"}}`, "slow down [rate_limit_exceeded]"},
		{`{"error": {"type": "overloaded_error"}}`, " [overloaded_error]"},
		{`{"error": {}}`, "ok"},
		{`{"error": true}`, ""},
		{`{"isError": true, "message": "m"}`, "m"},
		{`{"status": 404, "message": "gone"}`, "gone (404)"},
		{`{"status": "401", "msg": "Authentication required"}`, "Authentication required (401)"},
		{`{"status": 200, "message": "fine"}`, "ok"},
		{`{"status": "available"}`, "ok"},
		{`{'success': False, 'message': 'Tracking information not found'}`, "Tracking information not found"},
		{`{'title': 'Bad Request', 'status': 400, 'traceId': '|a.'}`, "Bad Request (400)"},
		{`{'message': "Endpoint '/a' does not exist"}`, "Endpoint '/a' does not exist"},
		{`{"message": "mail sent"}`, "ok"},
		{`{"message": "Forbidden", "from": "a novel"}`, "ok"},
		{`"Forbidden"`, "Forbidden"},
		{`Forbidden`, "Forbidden"},
		{`[{"error": "inside a list of results"}]`, "ok"},
		{`{"result": {"error": "inside a result"}}`, "ok"},
		{`{'result': [{'title': 'Errors', 'text': 'cut off in the mid`, "ok"},
	} {
		raw, failed := FailureIn(c.answer)
		got := "ok"
		if failed {
			got = raw.Text
			if raw.ProviderCode != "" {
				got += fmt.Sprintf(" [%s]", raw.ProviderCode)
			}
			if raw.HTTPStatus != 0 {
				got += fmt.Sprintf(" (%d)", raw.HTTPStatus)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.answer, got, c.want)
		}
	}
}

// members reads JSON and Python text alike, and of a text that is cut off
// what is there.
func TestMembers(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{``, ``},
		{`[1]`, ``},
		{`{}`, ``},
		{`{"a": "b", "c": 1}`, `a="b" c=1`},
		{`{'a': True, 'b': None, 'c': 'it\'s', "d": "\u00e9\ud83d\ude00\n"}`, `a=True b=None c="it's" d="é😀` + "\n" + `"`},
		{`{"a": {"b": [1, "}"]}, 'c': (1, 2), "d": 4}`, `a={"b": [1, "}"]} c=(1, 2) d=4`},
		{`{"a": "cut o`, `a="cut o"`},
		{`{"a": "b\`, `a="b\"`},
		{`{"a": [1, 2`, `a=[1, 2`},
		{`{"a"`, ``},
		{`{a: 1}`, ``},
		{`{"a": 1 "b": 2}`, `a=1 "b"`},
		{`{'a': '\x41\ud800\q'}`, `a="A` + "\uFFFD" + `q"`},
	} {
		var all []string
		for _, m := range Members(c.text) {
			value := m.Value
			if m.quoted {
				value = `"` + value + `"`
			}
			all = append(all, m.Name+"="+value)
		}
		if got := strings.Join(all, " "); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.text, got, c.want)
		}
	}
}

// Answers are read loosely, but never past their end, and give no more text
// than they hold.
func FuzzFailureIn(f *testing.F) {
	for _, seed := range []string{`{'a': "\u00e9\ud83d\ude00", 'error': {'code': 'x'}}`, `{"status": "404", "message": "`, `"\`, `Error: x`, `{"a": [({`, `{"a": \u12`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		raw, failed := FailureIn(answer)
		if len(raw.Text) > 3*len(answer) || raw.HTTPStatus != 0 && !failed {
			t.Fatalf("%q: %+v, %t", answer, raw, failed)
		}
		for _, m := range Members(answer) {
			if !m.quoted && !strings.Contains(answer, m.Value) {
				t.Fatalf("%q: invented %q", answer, m.Value)
			}
		}
	})
}
