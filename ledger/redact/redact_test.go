package redact

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"recoveryledger/ledger/entry"
)

// planted are secrets in the places where errors really have them. What stands
// between ‹ and › must be gone; wanted is what must still be there.
var planted = []struct{ text, wanted string }{
	{"login of ‹ann.o'hara+test@mail.example.org› failed", "login of [mail] failed"},
	{"mail to ‹ann›%40‹example.org› and ‹bob› [at] ‹example.com›", "mail to [mail] and"},
	{"OPENAI_API_KEY=‹sk-proj-abc123DEF456ghi789› rejected", "OPENAI_API_KEY=[secret] rejected"},
	{"Incorrect API key provided: ‹sk-abcdefghijklmnop›", "Incorrect API key provided: "},
	{`{"password": "‹hunter2 and more›", "user": "ann"}`, `"user": "ann"`},
	{`{\"token\": \"‹tok-1-2-3-4›\"}`, "token"},
	{"connect postgres://‹admin:s3cr3t›@db.internal:5432/app: refused", "db.internal:5432/app: refused"},
	{"GET /v1 Authorization: Bearer ‹abc.def-ghi› gave 401", "Authorization"},
	{"sent Bearer ‹0123456789abcdef› twice", "sent Bearer [secret] twice"},
	{"Cookie: ‹session=abcdef; theme=dark›", "Cookie"},
	{"curl --api-key ‹plainword› https://x.example/", "https://x.example/"},
	{"aws ‹AKIAIOSFODNN7EXAMPLE› and ‹wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY› leaked", "leaked"},
	{"jwt ‹eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U› expired", "expired"},
	{"git clone https://‹x-access-token:ghp_16C7e42F292c6912E7710c838347Ae178B4a›@github.example/a/b", "github.example/a/b"},
	{"key\n-----BEGIN PRIVATE KEY-----\n‹MC4CAQAwBQYDK2VwBCIEIA›\n-----END PRIVATE KEY-----\nis bad", "is bad"},
	{"key -----BEGIN EC PRIVATE KEY-----\n‹MHcCAQEEIKkkk› and no end", "key [key]"},
	{"hash ‹9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08›", "hash [key]"},
	{`the user said "‹please cancel my appointment with the doctor on Monday›" and left`, `the user said [quote] and left`},
	{"the user said '‹please cancel my appointment with the doctor on Monday›' and left", "the user said [quote] and left"},
	{"the user said “‹please cancel my appointment with the doctor›”", "the user said [quote]"},
	{`an open quote "‹please cancel my appointment with the doctor on Monday›`, "an open quote [quote]"},
	{"card ‹4111 1111 1111 1111› declined", "card [number] declined"},
	{"pass\u200bword=‹hunter2›", "=[secret]"},
	{"client_secret=>‹abc›, retry=3", "retry=3"},
	{"DSN := ‹user:pw@tcp(db)/x›", "DSN"},
	{"MYSQL_PWD=‹q7› exit status 1", "exit status 1"},
	{"signature=‹AbC%2F123›&expires=60", "expires=60"},
}

func unmark(text string) (clean string, secrets []string) {
	for _, part := range strings.Split(text, "‹")[1:] {
		secret, _, _ := strings.Cut(part, "›")
		secrets = append(secrets, secret)
	}
	return strings.NewReplacer("‹", "", "›", "").Replace(text), secrets
}

// Every sort of secret goes, wherever it stands in a text, and what says what
// went wrong stays.
func TestTextTakesSecretsOut(t *testing.T) {
	for _, p := range planted {
		text, secrets := unmark(p.text)
		for _, around := range []string{"%s", "panic: %s", "Traceback (most recent call last):\n  File \"/srv/agent/main.py\", line 7\n%s\n", strings.Repeat("x ", 4200) + "%s"} {
			got := Text(fmt.Sprintf(around, text))
			for _, s := range secrets {
				if strings.Contains(got, s) {
					t.Errorf("%q is left in %q", s, got)
				}
			}
			if !strings.Contains(got, p.wanted) {
				t.Errorf("%q became %q, want %q in it", text, got, p.wanted)
			}
		}
	}
}

// What is no secret stays as it is.
func TestTextLeavesErrors(t *testing.T) {
	for _, text := range []string{
		"", "exit status 3", "signal: killed", "open /usr/lib/python3/dist-packages/requests/adapters.py: no such file or directory",
		"dial tcp 127.0.0.1:8087: connect: connection refused", `KeyError: "booking"`, "runtime error: index out of range [7] with length 7",
		"goroutine 17 [running]: main.work(0x1)", "context deadline exceeded", "HTTP 503 after 3 attempts in 1200 ms", "can't open the author's file",
		"task planner#step-7 of workflow booking-2026-07-30 failed",
	} {
		if got := Text(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// A secret that the caller knows goes wherever it stands, also over line ends; one
// too short to be told from words is not looked for.
func TestKnownSecrets(t *testing.T) {
	r := New([]string{"correct horse battery", "horses", "multi\nline secret", "short"[:secretMin-1]})
	for text, want := range map[string]string{
		"it was correct horse battery staple": "it was [secret] staple",
		"horses and short":                    "[secret] and short",
		"said multi\nline secret here":        "said [secret] here",
	} {
		if got := r.Text(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
	for name, want := range map[string]bool{"OPENAI_API_KEY": true, "DB_PASSWORD": true, "GITHUB_TOKEN": true, "DATABASE_URL": true,
		"MYSQL_PWD": true, "PWD": false, "OLDPWD": false, "PATH": false, "HOME": false, "LANG": false, "KEYBOARD": false} {
		if Sensitive(name) != want {
			t.Errorf("Sensitive(%s) is %v", name, !want)
		}
	}
}

// TestSparing leaves the words that the caller knows, with the marks around them, and takes out the
// secrets beside them, and a known word that stands where a secret does.
func TestSparing(t *testing.T) {
	const id = "a#3f2c9a1e-7b4d-4c0a-9e1f-2d3c4b5a6978"
	for text, want := range map[string]string{
		id + " cannot be undone":                       id + " cannot be undone",
		"withheld (" + id + "), " + id + ".":           "withheld (" + id + "), " + id + ".",
		"b" + id + " with sk-abcdefghijklmnop":         "ba#[key] with [key]",
		id + " failed: token=ghp_0123456789abcdef0123": id + " failed: token=[secret]",
		"token: " + id:                         "token: [secret]",
		"one\n\u202etwo \U0001D800 \U0001D801": "one two",
		"(\U0001D800" + id + ")":               "(" + id + ")",
		"":                                     "",
		strings.Repeat(id+" ", 3):              id + " " + id + " " + id,
	} {
		if got := Sparing(text, func(word string) bool { return word == id }); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for _, p := range planted {
		text := strings.NewReplacer("‹", "", "›", "").Replace(p.text)
		if got, want := Sparing(text, func(string) bool { return false }), Text(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// What is left is as long as an entry's text may be, at the limit and past it; of
// what is longer than is looked at, beginning and end are.
func TestTextIsBounded(t *testing.T) {
	if textMax != entry.MaxText {
		t.Fatalf("%d bytes are left, an entry takes %d", textMax, entry.MaxText)
	}
	whole := strings.Repeat("ab ", textMax/3) + "z"
	for text, want := range map[string]int{whole: textMax, whole + "z": 0} {
		if got := Text(text); len(got) > textMax || want > 0 && len(got) != want || want == 0 && !strings.Contains(got, " … ") {
			t.Errorf("%d bytes became %d", len(text), len(got))
		}
	}
	got := Text("first " + strings.Repeat("ä ", inputMax) + " last")
	if !strings.HasPrefix(got, "first ") || !strings.HasSuffix(got, " last") || len(got) > textMax {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	if got := New([]string{"one secret", "another secret"}).Text(strings.Repeat("x", inputMax/2-4) + "one secret" + strings.Repeat("y", 3*inputMax)); strings.Contains(got, "one ") {
		t.Errorf("a secret that was cut is left in part: %.40q", got)
	}
}

// FuzzText: what comes out is short, one line of UTF-8, comes out again as it is,
// and has none of the known secrets in it, nor an e-mail address or a long quote.
func FuzzText(f *testing.F) {
	for _, p := range planted {
		text, secrets := unmark(p.text)
		f.Add(text, secrets[0])
	}
	f.Add(`""""`, "aaaaaaa")
	f.Fuzz(func(t *testing.T, text, secret string) {
		r := New([]string{secret})
		got := r.Text(text)
		switch {
		case len(got) > textMax, !utf8.ValidString(got), strings.ContainsFunc(got, unicode.IsControl):
			t.Fatalf("%q", got)
		case Text(Text(text)) != Text(text):
			t.Fatalf("twice: %q, then %q", Text(text), Text(Text(text)))
		}
		for _, s := range sorts() {
			if again := s.pattern.ReplaceAllString(got, s.with); again != got {
				t.Fatalf("%q has %s left", got, s.with)
			}
		}
		for _, q := range quotes().FindAllString(got, -1) {
			if len(q) > quoteMax+8 {
				t.Fatalf("%q is left", q)
			}
		}
		bare := strings.NewReplacer("[secret]", "", "[key]", "", "[mail]", "", "[quote]", "", "[number]", "", "…", "").Replace(got)
		if len(secret) >= secretMin && strings.Contains(bare, secret) {
			t.Fatalf("%q has %q left", got, secret)
		}
	})
}

func ExampleText() {
	fmt.Println(Text(`login of ann@example.org failed: token=ghp_8s7d6f5g4h3j2k1l`))
	// Output: login of [mail] failed: token=[secret]
}
