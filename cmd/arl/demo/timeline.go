package demo

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/go-json-experiment/json"

	"recoveryledger/api/client"
	"recoveryledger/api/words"
	"recoveryledger/ledger/entry"
)

// line is a line of the timeline, as JSON or for people.
type line struct {
	AtMS     int64     `json:"at_ms"` // since the beginning
	Index    *uint64   `json:"index,omitempty"`
	Who      string    `json:"who"`
	Kind     string    `json:"kind"`
	Incident uint64    `json:"incident,omitzero"`
	Exec     entry.Ref `json:"exec,omitempty"`
	Text     string    `json:"text"`
}

// timeline shows events as they happen.
type timeline struct {
	out   io.Writer
	json  bool
	began time.Time
	said  map[string]bool
	err   error // of writing
}

// say shows a line.
func (t *timeline) say(l line) {
	l.AtMS = time.Since(t.began).Milliseconds()
	if t.json {
		text, err := json.Marshal(l)
		_, failed := t.out.Write(append(text, '\n'))
		t.err = errors.Join(t.err, err, failed)
		return
	}
	index := ""
	if l.Index != nil {
		index = "#" + strconv.FormatUint(*l.Index, 10)
	}
	text := l.Text
	if l.Exec != "" {
		text = string(l.Exec) + ": " + text
	}
	faint := lipgloss.NewStyle().Faint(true)
	_, err := lipgloss.Fprint(t.out, fmt.Sprintf("%s %s %s\n", faint.Render(fmt.Sprintf("%6.3fs %4s", float64(l.AtMS)/1000, index)),
		style(l.Kind).Render(fmt.Sprintf("%-11s", l.Who)), text)) // Fprint drops colors that out cannot show
	t.err = errors.Join(t.err, err)
}

// style returns the colour of a line: failures, decisions and undone work differ.
func style(kind string) lipgloss.Style {
	s := lipgloss.NewStyle()
	switch kind {
	case "signal", "crashed", "fenced":
		return s.Foreground(lipgloss.Red).Bold(true)
	case "decision", "approval":
		return s.Foreground(lipgloss.Yellow)
	case "outcome", "probed", "verified", "compensation":
		return s.Foreground(lipgloss.Cyan)
	case "record", "checked":
		return s.Foreground(lipgloss.Green).Bold(true)
	}
	return s
}

// once shows a line, unless the same line was shown before.
func (t *timeline) once(l line) {
	if t.said == nil {
		t.said = map[string]bool{}
	}
	if key := l.Who + "|" + l.Text; !t.said[key] {
		t.said[key] = true
		t.say(l)
	}
}

// entry shows an entry of the log if the timeline has a line for it.
func (t *timeline) entry(dir directory, e *client.Entry) {
	l := line{Index: &e.Index, Who: string(e.Header.Iss), Kind: string(e.Kind)}
	switch body := e.Body.(type) {
	case *entry.Execution:
		if l.Exec = body.Ref(); body.Compensates != nil && body.Progress == entry.Confirmed {
			l.Kind, l.Text = "compensation", fmt.Sprintf("done, undoes %s", body.Compensates.Exec)
		} else if body.Compensates == nil {
			l.Text = execution(dir, body)
		}
	case *entry.Signal:
		l.Exec, l.Text = body.Subject, fmt.Sprintf("signals %s/%s as its %s: incident %d", body.Class, body.Code, body.Standing, e.Index)
		if l.Incident = e.Index; body.Standing == entry.StandingMonitor {
			l.Text = fmt.Sprintf("signals %s/%s, with %s: incident %d", body.Class, body.Code, words.Counted(len(body.Evidence), "piece")+" of evidence", e.Index)
		}
	case *entry.Decision:
		l.Incident, l.Text = body.Incident, decision(body)
	case *entry.Approval:
		l.Incident, l.Text = body.Incident, fmt.Sprintf("has computed the plan again, and answers: %s", body.Verdict)
	case *entry.Outcome:
		if l.Incident, l.Exec, l.Text = body.Incident, body.Exec, string(body.Result); body.Residual != "" {
			l.Text += ": " + body.Residual
		}
	case *entry.Record:
		l.Incident, l.Text = body.Incident, record(body)
	}
	if l.Text != "" {
		t.say(l)
	}
}

// execution returns the output of a completed execution in words.
func execution(dir directory, x *entry.Execution) string {
	if x.Progress == entry.Planned {
		return "planned (" + string(x.Effect) + ")"
	}
	text, err := os.ReadFile(dir.board(x.Ref()))
	if x.Progress != entry.Confirmed || err != nil || entry.DigestOf(text) != x.OutHash {
		return ""
	}
	var parents []string
	for _, parent := range x.Parents {
		from := string(parent.Exec)
		if parent.Dep == entry.Soft {
			from += " (soft)"
		}
		parents = append(parents, from)
	}
	shown := string(text)
	if len(parents) > 0 {
		shown += " from " + strings.Join(parents, ", ")
	}
	return shown + ", " + effect(x.Effect)
}

func effect(e entry.Effect) string {
	if e == entry.EffectNone {
		return "no effect"
	}
	return string(e)
}

func decision(d *entry.Decision) string {
	text := fmt.Sprintf("%s incident %d", d.Act, d.Incident)
	if d.Impact != nil {
		text += fmt.Sprintf(", %s of %s", words.Counted(d.Impact.Members, "member"), words.Counted(d.Impact.Agents, "agent"))
	}
	if len(d.Approvals) > 0 {
		text += ", " + words.Counted(len(d.Approvals), "approval")
	}
	if d.NotFenced != "" {
		text += ", NOT FENCED: " + d.NotFenced
	}
	return text + ": " + d.Reason
}

func record(r *entry.Record) string {
	var parts []string
	for _, result := range slices.Sorted(maps.Keys(r.Tally)) {
		if n := r.Tally[result]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(string(result), "_", " ")))
		}
	}
	text := fmt.Sprintf("incident %d is %s: %s", r.Incident, r.State, strings.Join(parts, ", "))
	if r.Review > 0 {
		text += fmt.Sprintf("; %d to review", r.Review)
	}
	return text
}
