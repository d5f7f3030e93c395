package entry

import (
	"slices"
	"strconv"
)

// Index names a secondary index of the log: a way to look entries up.
type Index byte

// The secondary indexes. No index by time exists: registered_at never falls, so the log itself is
// in the order of time.
const (
	ByKind     Index = 'k'
	ByAgent    Index = 'a' // issued by the principal, or about it
	ByWorkflow Index = 'w'
	ByIncident Index = 'i'
	ByTask     Index = 't'
)

// Tag is a secondary index and the value under which the index lists an entry.
type Tag struct {
	Index Index
	Value string
}

// IncidentValue returns the value of an incident in [ByIncident].
func IncidentValue(incident uint64) string { return strconv.FormatUint(incident, 10) }

// Tags returns the tags of the entry at index, without repetition, in a fixed
// order. A signal is tagged with the incident it would open.
func (e *Entry) Tags(index uint64) []Tag {
	tags := make([]Tag, 0, 6)
	add := func(in Index, value string) {
		tag := Tag{in, value}
		if value != "" && !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	agentOf := func(ref Ref) {
		issuer, _ := ref.Split()
		add(ByAgent, string(issuer))
	}
	add(ByKind, string(e.Kind))
	add(ByAgent, string(e.Header.Iss))
	add(ByWorkflow, string(e.Header.Wid))
	switch body := e.Body.(type) {
	case *Agent:
		add(ByAgent, string(body.Principal))
	case *Execution:
		add(ByTask, string(body.Task))
		if body.Compensates != nil {
			add(ByIncident, IncidentValue(body.Compensates.Incident))
		}
	case *Signal:
		agentOf(body.Subject)
		add(ByIncident, IncidentValue(index))
	case *Decision:
		add(ByIncident, IncidentValue(body.Incident))
	case *Approval:
		add(ByIncident, IncidentValue(body.Incident))
	case *Outcome:
		agentOf(body.Exec)
		add(ByIncident, IncidentValue(body.Incident))
	case *Record:
		add(ByIncident, IncidentValue(body.Incident))
	case *Task:
		add(ByAgent, string(body.Agent))
		add(ByTask, string(body.Task))
	case *Attempt:
		add(ByAgent, string(body.Agent))
		add(ByTask, string(body.Task))
	}
	return tags
}
