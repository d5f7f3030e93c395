package lab

import (
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"recoveryledger/api/console"
	"recoveryledger/api/words"
	"recoveryledger/coord/policyfile"
	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// formMax bounds a form that is no upload, in bytes. The text of a policy may take three bytes for
// each.
const formMax = 3*recovery.DocumentMax + 1<<12

// uploadTime is how long an upload may take.
const uploadTime = 10 * time.Minute

// form reads a form that is no upload.
func form(w http.ResponseWriter, q *http.Request) (url.Values, error) {
	q.Body = http.MaxBytesReader(w, q.Body, formMax)
	if err := q.ParseForm(); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, entry.Refuse(entry.TooLarge, "form", "the form has more than %d bytes", formMax).WithRemedy("a policy is shorter: leave out rules that the last rule covers")
		}
		return nil, entry.Refuse(entry.Malformed, "form", "%s", err).WithRemedy("send the form as the page does")
	}
	return q.PostForm, nil
}

// upload is POST /lab/files.
func (l *Lab) upload(w http.ResponseWriter, q *http.Request) (*console.Page, error) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(uploadTime)) // a large file takes longer than a form
	q.Body = http.MaxBytesReader(w, q.Body, l.shelf.most+1<<16)
	if of, _, err := mime.ParseMediaType(q.Header.Get("Content-Type")); err != nil || of != "multipart/form-data" {
		return nil, entry.Refuse(entry.Malformed, "form", "%.40q is not a form with a file", q.Header.Get("Content-Type")).WithRemedy("upload by the page of the lab")
	}
	parts, err := q.MultipartReader()
	if err != nil {
		return nil, entry.Refuse(entry.Malformed, "form", "%s", err).WithRemedy("upload by the page of the lab")
	}
	i, err := l.take(q.Context(), parts)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, entry.Refuse(entry.TooLarge, "file", "the file has more than %d bytes", l.shelf.most).WithRemedy("start arl console with --runs DIR: a file in DIR has any size")
	}
	if err != nil {
		return nil, refusal(err)
	}
	to := "/lab"
	if i.Kind == aPolicy {
		to = policyPath(&i)
	}
	return &console.Page{To: to}, nil
}

func policyPath(i *item) string { return "/lab/policy?policy=" + url.QueryEscape(i.ID()) }

// take keeps the file of an upload.
func (l *Lab) take(ctx context.Context, parts *multipart.Reader) (item, error) {
	var want kind
	for {
		part, err := parts.NextPart()
		switch {
		case errors.Is(err, io.EOF):
			return item{}, entry.Refuse(entry.Malformed, "file", "the form has no file").WithRemedy("choose a file")
		case err != nil:
			if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
				return item{}, err
			}
			return item{}, entry.Refuse(entry.Malformed, "form", "%s", err).WithRemedy("send the form as the page does")
		case part.FormName() == "kind":
			text, err := io.ReadAll(io.LimitReader(part, nameMax))
			if want = kind(text); err != nil || want != aScenario && want != aPolicy {
				return item{}, entry.Refuse(entry.Malformed, "kind", "%.40q is neither scenario nor policy", want).WithRemedy("upload by the page of the lab")
			}
		case part.FormName() == "file" && want == aPolicy:
			return l.shelf.save(part.FileName(), aPolicy, part, recovery.DocumentMax)
		case part.FormName() == "file" && want == aScenario:
			return l.takeScenario(ctx, part)
		default:
			return item{}, entry.Refuse(entry.Malformed, "form", "%.40q is not a field of an upload", part.FormName()).WithRemedy("upload by the page of the lab")
		}
	}
}

// takeScenario keeps a scenario whose first line is a case.
func (l *Lab) takeScenario(ctx context.Context, part *multipart.Part) (item, error) {
	name, err := plainName(part.FileName(), aScenario)
	if err != nil {
		return item{}, err
	}
	in, out := io.Pipe()
	first := make(chan error, 1)
	go func() {
		lines := scenario.Pipeline[struct{}]{Workers: 1, Do: func(context.Context, *scenario.Case) (struct{}, error) { return struct{}{}, nil }}
		var err error
		for _, err = range lines.Run(ctx, name, in) {
			break // the first line tells whether the file is another one
		}
		first <- err
		_, _ = io.Copy(io.Discard, in) // so that the file is written to its end
	}()
	i, err := l.shelf.save(name, aScenario, io.TeeReader(part, out), l.shelf.most)
	_ = out.Close() // it has no error
	if wrong := <-first; err == nil && wrong != nil {
		return item{}, errors.Join(wrong, os.Remove(i.Path))
	}
	return i, err
}

// policyPage is the text of a policy, and its mistakes.
type policyPage struct {
	ID       string // of the file; empty: the text is in no file
	Name     string // under which the text is kept
	Text     string
	Problems []recovery.Problem
	Whole    bool   // the policy of a ledger, and not the rules of recovery alone
	Apply    string // command that puts the policy in force; empty: the text is in no file, or has mistakes
	Saved    bool
	Policies []item
	InForce  bool // the log has a policy to begin with
	Of       string
}

// The policies to begin with, by their names in forms.
const (
	fromDefault = "default"
	fromLog     = "in-force"
)

// policy is GET /lab/policy: a policy to edit.
func (l *Lab) policy(_ http.ResponseWriter, q *http.Request) (*console.Page, error) {
	id := cmp.Or(q.URL.Query().Get("policy"), fromDefault)
	body := &policyPage{Of: id, Name: "policy.yaml"}
	var text []byte
	var err error
	switch id {
	case fromDefault:
		text, err = policyfile.Default()
	case fromLog:
		text, err = l.inForce()
	default:
		var i item
		if i, err = l.shelf.find("policy", aPolicy, id); err == nil {
			body.ID, body.Name = i.ID(), i.Name
			text, err = readPolicy(i.Path)
		}
	}
	if err != nil {
		return nil, refusal(err)
	}
	body.Text = string(text)
	return l.policyPage(body)
}

// inForce returns the policy of the log as a file.
func (l *Lab) inForce() ([]byte, error) {
	if l.cfg.InForce == nil {
		return nil, entry.Refuse(entry.NotFound, "policy", "this console shows no policy of a log")
	}
	p := l.cfg.InForce()
	if p == nil {
		return nil, entry.Refuse(entry.NotFound, "policy", "the log has no policy in force")
	}
	return policyfile.Format(p)
}

// edit is POST /lab/policy: it checks a text, and keeps the text if the form says so.
func (l *Lab) edit(w http.ResponseWriter, q *http.Request) (*console.Page, error) {
	values, err := form(w, q)
	if err != nil {
		return nil, err
	}
	body := &policyPage{Name: values.Get("name"), Text: strings.ReplaceAll(values.Get("text"), "\r\n", "\n")} // HTML sends two
	if values.Get("do") == "keep" {
		i, err := l.shelf.save(body.Name, aPolicy, strings.NewReader(body.Text), recovery.DocumentMax)
		if err != nil {
			return nil, refusal(err)
		}
		return &console.Page{To: policyPath(&i)}, nil
	}
	return l.policyPage(body)
}

// policyPage completes the page of a text.
func (l *Lab) policyPage(body *policyPage) (*console.Page, error) {
	name, command := cmp.Or(body.Name, "policy"), "arl policy lint "+words.Quoted(cmp.Or(body.Name, "FILE"))
	path := ""
	if body.ID != "" {
		i, err := l.shelf.find("policy", aPolicy, body.ID)
		if err != nil {
			return nil, err
		}
		path = i.Path
		command = "arl policy lint " + words.Quoted(path)
	}
	var err error
	body.Problems, err = policyfile.Lint(name, []byte(body.Text), func() ([]recovery.Problem, error) { return missingStrategies(name, body.Text) })
	if err != nil {
		return nil, refusal(err)
	}
	_, body.Whole, err = policyfile.Plain(name, []byte(body.Text))
	if path != "" && err == nil && len(body.Problems) == 0 && body.Whole {
		body.Apply = "arl policy apply " + words.Quoted(path) + " --reason …"
	}
	body.InForce = l.cfg.InForce != nil
	if _, _, body.Policies, err = l.shelf.list(); err != nil {
		return nil, refusal(err)
	}
	return &console.Page{Name: "policy", Title: "Policy", Command: command, Body: body}, nil
}

// missingStrategies returns the rules that name strategies: nothing implements one in the lab.
func missingStrategies(name, text string) (problems []recovery.Problem, err error) {
	p, err := recovery.Load(name, []byte(text))
	if err != nil {
		return nil, err
	}
	for _, m := range p.Missing(nil) {
		m.Fix = "the lab asks no strategy, and the rule's ladder decides; arl policy lint --strategies FILE checks the file of strategies"
		problems = append(problems, m.Problem)
	}
	return problems, nil
}
