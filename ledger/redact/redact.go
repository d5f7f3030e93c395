// Package redact takes out of a text what a log must not keep: credentials,
// keys, e-mail addresses, long quotes of what somebody said, and secrets that
// the caller knows. What is left is short and one line.
//
// It errs on the side of taking out. What stands in place of what was taken says
// of which sort it was: [key], [secret], [mail], [quote], [number].
//
//	redact.Text(`login of ann@example.org failed: token=ghp_8s7d6f…`)
//	// login of [mail] failed: token=[secret]
//
// It is pure: the same text gives the same result, and redacting twice is
// redacting once. It cannot know what a secret means that looks like a word;
// callers that know such secrets say so ([Redactor]).
package redact

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Text redacts a text without secrets that anybody knows.
func Text(text string) string { return New(nil).Text(text) }

// Sparing redacts a text as [Text] does, and leaves each word for which spare holds, such as the
// name of an execution. Words stand between spaces; marks around them are tried without and with
// them. A word in a place where a secret stands, as behind "token=", is taken out all the same.
func Sparing(text string, spare func(word string) bool) string {
	// Runes of Sutton SignWriting stand for the spared words: no pattern of a secret has them.
	const stand, most = '\U0001D800', 0x200
	fields := strings.Fields(strings.Map(func(r rune) rune {
		if r >= stand && r < stand+most {
			return -1
		}
		return r
	}, text))
	var spared []string
	for i, field := range fields {
		for _, word := range []string{strings.Trim(field, `.,;:()"'`), field} {
			if word != "" && len(spared) < most && spare(word) {
				fields[i] = strings.Replace(field, word, string(stand+rune(len(spared))), 1)
				spared = append(spared, word)
				break
			}
		}
	}
	var b strings.Builder
	for _, r := range Text(strings.Join(fields, " ")) {
		if i := int(r - stand); i >= 0 && i < len(spared) {
			b.WriteString(spared[i])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Redactor knows secrets.
type Redactor struct {
	known *strings.Replacer
}

// New returns a redactor that takes out these secrets wherever they stand, the
// longest first. Secrets shorter than [secretMin] bytes are passed over: they
// would take out half of every text.
func New(secrets []string) *Redactor {
	long := slices.DeleteFunc(slices.Clone(secrets), func(s string) bool { return len(s) < secretMin })
	slices.SortFunc(long, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 4*len(long))
	for _, s := range slices.Compact(long) {
		pairs = append(pairs, s, "[secret]")
		if spaced := oneLine(s); spaced != s && len(spaced) >= secretMin {
			pairs = append(pairs, spaced, "[secret]")
		}
	}
	return &Redactor{strings.NewReplacer(pairs...)}
}

// Sensitive reports whether a name, as of a variable of the environment, is one
// that secrets have. PWD and OLDPWD are directories: every path would go with them.
func Sensitive(name string) bool {
	return name != "PWD" && name != "OLDPWD" && sensitiveName().MatchString(name)
}

// Text returns the text without what a log must not keep, at most [textMax] bytes of
// valid UTF-8 without control characters. Of a longer text the beginning and the
// end are kept, since errors say what they are in the first line or in the last.
func (r *Redactor) Text(text string) string {
	text = r.known.Replace(text)
	if len(text) > inputMax {
		text = text[:inputMax/2] + " … " + text[len(text)-inputMax/2:]
	}
	text = r.known.Replace(oneLine(text))
	for range passesMax {
		next := pass(text)
		if next == text {
			return shorten(text)
		}
		text = next
	}
	return "[secret]"
}

// passesMax is the number of times that a redacted text is redacted again. A removal may bring
// another secret to light.
const passesMax = 8

// pass takes out every sort of thing once.
func pass(text string) string {
	for _, s := range sorts() {
		text = s.pattern.ReplaceAllString(text, s.with)
	}
	text = quotes().ReplaceAllStringFunc(text, func(quote string) string {
		open, size := utf8.DecodeRuneInString(quote)
		switch {
		case len(quote) <= quoteMax+2*size:
			return quote
		case open == '"', open == '`', open > unicode.MaxASCII:
			return "[quote]"
		}
		return quote[:strings.IndexByte(quote, '\'')] + "[quote]"
	})
	text = runs().ReplaceAllStringFunc(text, func(run string) string {
		if random(run) {
			return "[key]"
		}
		return run
	})
	return strings.TrimSpace(text)
}

const word = `(?:pass(?:word|wd|phrase|code)?|pwd|secret|token|api[_. -]?key|access[_. -]?key|private[_. -]?key|signing[_. -]?key|` +
	`client[_. -]?key|credential|authorization|auth|session[_. -]?id|session|cookie|signature|bearer|dsn|connection[_. -]?string)`

var sensitiveName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)` + word + `|(?:^|[_-])key(?:$|[_-])|(?:^|_)uri$|(?:^|_)url$`)
})

// sort is one sort of secret, and what stands in its place.
type sort struct {
	pattern *regexp.Regexp
	with    string
}

// sorts returns the secrets to take out, in this order. They are compiled at the first use: most
// commands redact nothing, and compiling would be a part of each start that can be measured.
var sorts = sync.OnceValue(func() []sort {
	return []sort{
		{regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*-----.*?(?:-----END [A-Z0-9 ]*-----|$)`), "[key]"},
		{regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/@"'<>]*@`), "${1}[secret] "},
		{regexp.MustCompile(`(?i)((?:proxy-)?authorization|(?:set-)?cookie)(["']?\s*[:=]\s*)[^\[\s].*?(?:\s{2}|["',;}\]]\s|$)`), "${1}${2}[secret] "},
		{regexp.MustCompile(`(?i)\b(bearer|basic|negotiate|digest)\s+["']?[a-z0-9._~+/=-]{6,}["']?`), "${1} [secret]"},
		{regexp.MustCompile(`(?i)([\w.-]*` + word + `[\w.-]*["'\\]*\s*(?::=|=>|[:=])\s*)(?:\\?"[^"\[][^"]*"?|\\?'[^'\[][^']*'?|[^\s\["'\\,;&)}\]][^\s"',;&)}\]]*)`), "${1}[secret]"},
		{regexp.MustCompile(`(?i)(--?[\w-]*` + word + `[\w-]*\s+)[^\s\[-][^\s]*`), "${1}[secret]"},
		{regexp.MustCompile(`\b(?:sk|pk|rk|ak)[-_][A-Za-z0-9_-]{8,}|` +
			`\bgh[opsur]_\w{8,}|\bgithub_pat_\w{8,}|\bglpat-[\w-]{8,}|\bxox[a-z]-[\w-]{8,}|` +
			`\b(?:AKIA|ASIA|AROA)[A-Z0-9]{8,}|\bAIza[\w-]{16,}|\bya29\.[\w.-]{8,}|\bhf_\w{8,}|\bnpm_\w{8,}|\bpypi-[\w-]{8,}|` +
			`\beyJ[\w-]{6,}(?:\.[\w-]*){0,2}|\bAGE-SECRET-KEY-\w+`), "[key]"},
		{regexp.MustCompile(`(?i)[\pL\pN._%+'-]+(?:@|%40|\s?[\[(]at[\])]\s?)[\pL\pN-]+(?:\.[\pL\pN-]+)*`), "[mail]"},
		{regexp.MustCompile(`\b\d(?:[ -]?\d){12,18}\b`), "[number]"},
	}
})

// quotes are the texts between quotation marks, long or short, so that each mark belongs to one
// quote. A single mark opens only at a place where a word could begin.
var quotes = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`"[^"]*(?:"|$)|` + "`[^`]*(?:`|$)" + `|“[^”]*(?:”|$)|„[^“”]*(?:[“”]|$)|«[^»]*(?:»|$)|(?:^|[\s(=:,\[{])'[^']*(?:'|$)`)
})

// runs are stretches that may be keys.
var runs = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[A-Za-z0-9+/=_-]{20,}`) })

// random reports whether a stretch looks like nothing that people write: letters
// and digits mixed without end. Paths are left, unless one of their parts does.
func random(run string) bool {
	for part := range strings.SplitSeq(run, "/") {
		if len(part) >= 20 && mixed(part) {
			return true
		}
	}
	upper := strings.ContainsFunc(run, unicode.IsUpper)
	lower := strings.ContainsFunc(run, unicode.IsLower)
	return len(run) >= 32 && upper && lower && strings.ContainsFunc(run, unicode.IsDigit)
}

// mixed reports whether letters and digits change places more often than in a
// name with a number.
func mixed(part string) bool {
	changes := 0
	for i := 1; i < len(part); i++ {
		a, b := rune(part[i-1]), rune(part[i])
		if unicode.IsDigit(a) != unicode.IsDigit(b) || unicode.IsUpper(b) && unicode.IsLower(a) {
			changes++
		}
	}
	return changes >= 4
}

// oneLine makes a line of valid UTF-8 of a text: what is no character to be seen
// becomes a space, invisible ones, which could part a secret, vanish.
func oneLine(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == utf8.RuneError, unicode.IsSpace(r), unicode.IsControl(r):
			b.WriteByte(' ')
		case !unicode.IsGraphic(r):
		default:
			b.WriteRune(r)
		}
	}
	return strings.TrimSpace(b.String())
}

// shorten keeps beginning and end of a redacted text, cut at the ends of words, so that no part of
// a secret stands alone.
func shorten(text string) string {
	if len(text) <= textMax {
		return text
	}
	const mark = " … "
	head, tail := text[:(textMax-len(mark))/2], text[len(text)-(textMax-len(mark))/2:]
	if at := strings.LastIndexByte(head, ' '); at >= 0 {
		head = head[:at]
	}
	if at := strings.IndexByte(tail, ' '); at >= 0 {
		tail = tail[at+1:]
	}
	return strings.ToValidUTF8(head, "") + mark + strings.ToValidUTF8(tail, "")
}
