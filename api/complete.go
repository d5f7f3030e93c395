package api

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// CompleteQuery says which complete history is asked for (docs/history.md).
type CompleteQuery struct {
	Type  entry.SubjectType // of the subject; the path names it
	Value string            // of the subject; empty: that of the log

	Labels []entry.Label // of the lists that are shown; none: all
	Since  uint64        // first index that counts
	Size   uint64        // entries of the log that count; 0: those under the tree head
	Limit  int           // at most so many entries, the oldest; 0: as many as the server likes
	// Incidents asks, about an agent, for the incidents that it has to do with, too: each
	// as a subject of its own, whole up to where the history ends. Limit is not about them.
	Incidents bool
	// Witnessed asks for a tree head that the quorum of witnesses has cosigned, and Wait
	// for how long the answer may wait for one, at most [MaxWait]; 0: [WitnessedDefault].
	Witnessed bool
	Wait      time.Duration
}

// Params implements [Query].
func (q *CompleteQuery) Params() []Param {
	return []Param{
		named("value", &q.Value, "agent-1", "value of the subject: a workflow, an incident, a task as issuer#id, or a principal; empty for the log"),
		labels(&q.Labels, "only these labels of the subject, with commas between them, such as agent/revoke<,outcome"),
		number("since", &q.Since, entry.MaxInteger, 0, "only entries from this index on"),
		number("size", &q.Size, entry.MaxInteger, 1000, "only the first entries of the log, in this number; without size, all entries under the tree head"),
		pageLimit(&q.Limit, MaxPage, MaxCompletePage, "greatest number of entries, the oldest first"),
		flag("incidents", &q.Incidents, "true, for an agent: also incidents that involve the agent, if an incident is open or has an entry from since on; "+
			"each incident is a subject of its own, with the same labels, from its first entry on"),
		flag("witnessed", &q.Witnessed, "true: a history under a tree head that the quorum of witnesses has cosigned"),
		waiting(&q.Wait, fmt.Sprintf("with witnessed: time to wait for the cosignatures, in milliseconds, at most %d", MaxWait.Milliseconds())),
	}
}

// Questions returns the questions that a history of this query must answer: the queried labels,
// from Since up to the end of the history. Without labels, each other subject of the history is
// asked about as a whole.
func (q *CompleteQuery) Questions(h *verify.History) (all []verify.Question) {
	subject := entry.Subject{Type: q.Type, Value: q.Value}
	labels := q.Labels
	if len(labels) == 0 {
		labels = []entry.Label{""}
	}
	for _, label := range labels {
		all = append(all, verify.Question{Subject: subject, Label: label, From: q.Since, Size: h.Size})
	}
	var others []verify.Question
	for i := range h.Subjects {
		if s := h.Subjects[i].Subject; s != subject && len(q.Labels) == 0 {
			others = append(others, verify.Question{Subject: s, Size: h.Size})
		}
	}
	slices.SortFunc(others, func(a, b verify.Question) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(len(a.Value), len(b.Value)), cmp.Compare(a.Value, b.Value)) // numbers by their size
	})
	return append(all, others...)
}

func (q *CompleteQuery) check() *entry.Refusal {
	if q.Wait > 0 && !q.Witnessed {
		return refuseParam("wait", "needs witnessed=true: the server waits only for cosignatures")
	}
	return nil
}

// completeRoutes read complete histories.
func completeRoutes() []Route {
	types := make([]string, 0, len(entry.SubjectTypes()))
	for _, of := range entry.SubjectTypes() {
		types = append(types, string(of))
	}
	of := inPath("type", `{"type":"string","enum":["`+strings.Join(types, `","`)+`"]}`, entry.SubjectAgent, "type of the subject")
	return []Route{{
		Name: "complete", Method: http.MethodGet, Path: PathComplete, Summary: "Read a complete history of a subject",
		Doc: "The history file of IDX-4: the entries of a subject under the labels asked for, and the proof that there are no others, or none at all, among " +
			"the first entries of the log, as many as size says. With limit the history may end before the size asked for: ask again with since at the " +
			"size of the answer. Verify a history offline before you rely on it.",
		Params: []Param{of}, Query: asked[CompleteQuery],
		Answers:  tagged("the history, in the only form that verifiers read", Schema{JSON: schemaComplete}),
		Problems: []entry.Problem{entry.Malformed, entry.NotFound, entry.NotReady},
	}}
}

// URL returns the path that asks for the history.
func (q *CompleteQuery) URL() string { return URL(PathComplete, q, q.Type) }

// labelsMax is the length of a list of labels.
const labelsMax = math.MaxUint8

// labels is a parameter that lists labels of IDX-1. Whether a subject may have them its
// type says.
func labels(to *[]entry.Label, doc string) Param {
	return Param{
		Name: "labels", In: "query", Doc: doc, Schema: schemaText, Example: "execution",
		parse: func(text string) string {
			for label := range strings.SplitSeq(text, ",") {
				if label == "" || len(label) > labelsMax || len(*to) == labelsMax {
					return fmt.Sprintf("%.140q is no list of labels with commas between them", text)
				}
				*to = append(*to, entry.Label(label))
			}
			return ""
		},
		format: func() string {
			texts := make([]string, len(*to))
			for i, label := range *to {
				texts[i] = string(label)
			}
			return strings.Join(texts, ",")
		},
	}
}

// schemaComplete is the schema of a [verify.History], whose form is fixed to the byte.
const schemaComplete = `{"type":"object","additionalProperties":false,
"required":["entries","head","inclusion","index","prefix","size","subjects"],"properties":{
"head":` + schemaText + `,"index":` + schemaNumber + `,"inclusion":` + schemaHashes + `,"size":` + schemaNumber + `,
"prefix":{"type":"array","items":` + schemaText + `},
"entries":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["index","leaf"],
"properties":{"index":` + schemaNumber + `,"leaf":{"type":"object"}}}},
"subjects":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["depth","type","value"],"properties":{
"type":` + schemaText + `,"value":` + schemaText + `,"depth":` + schemaNumber + `,
"rows":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["count","label","root"],
"properties":{"label":` + schemaText + `,"count":` + schemaNumber + `,"root":` + schemaText + `}}},
"lists":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["from","indexes","label","path"],
"properties":{"label":` + schemaText + `,"from":` + schemaNumber + `,"indexes":{"type":"array","items":` + schemaNumber + `},"path":` + schemaHashes + `}}},
"other":{"type":"object","additionalProperties":false,"required":["key","record"],"properties":{"key":` + schemaText + `,"record":` + schemaText + `}}}}}}}`
