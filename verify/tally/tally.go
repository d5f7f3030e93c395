// Package tally counts the log's statements about an agent, from proven entries alone. It trusts no
// server, and does not fold the log. A reader can look at the entries of every count. An agent
// alone, or with principals of its own domain, cannot make anything count as corroborated.
package tally

import (
	"cmp"
	"iter"
	"slices"

	"recoveryledger/ledger/entry"
	"recoveryledger/verify"
)

// Verdicts are the numbers of signals, or of works that signals are about, by verdict. The records
// and denials of incidents have the verdicts.
type Verdicts struct {
	// Corroborated were supported by a principal of another domain than the signaler's, or by a
	// role that only the policy's authority grants.
	Corroborated int64 `json:"corroborated"`
	// OwnDomain were supported only by principals of the signaler's own domain. A principal that
	// may enrol in a domain can make as many of these as it likes.
	OwnDomain    int64 `json:"own_domain"`
	SelfReported int64 `json:"self_reported"`
	Inconclusive int64 `json:"inconclusive"`
	Dismissed    int64 `json:"dismissed"`
	Open         int64 `json:"open"` // no record or denial in the entries says anything
}

// Failure counts works of the agent that were reported to have failed: executions and
// tasks, each once for its class and code, with the strongest verdict of the signals.
type Failure struct {
	Class string `json:"class"`
	Code  string `json:"code"`
	Works int64  `json:"works"`
	Verdicts
	Reporters []entry.Principal `json:"reporters"` // the signalers, ascending; the agent may be among them
	Domains   []string          `json:"domains"`   // that bear it out, ascending
}

// Outcome counts members of rollbacks, executions of the agent, by their newest result.
type Outcome struct {
	Result  entry.Result `json:"result"`
	Members int64        `json:"members"`
	// Corroborated are those in an incident of which a signal was corroborated, by another
	// domain or a granted role: an agent may report and undo its own work as it likes.
	Corroborated int64 `json:"corroborated"`
	Own          int64 `json:"own"` // reported by the agent itself
	// Milliseconds from the opening signal to the outcome, by the ledger's clock: of the
	// fastest, the median and the slowest of those whose opening signal is shown.
	FastestMS int64 `json:"fastest_ms"`
	MedianMS  int64 `json:"median_ms"`
	SlowestMS int64 `json:"slowest_ms"`
}

// Crash counts claims of tasks that the coordinator ended as failed.
type Crash struct {
	Class  string `json:"class"`
	Code   string `json:"code"`
	Claims int64  `json:"claims"`
}

// Tasks counts claims of tasks by the agent.
type Tasks struct {
	Assigned     int64   `json:"assigned"`
	Started      int64   `json:"started"`
	Completed    int64   `json:"completed"` // the agent says so; an operator gave the task
	Blocked      int64   `json:"blocked"`
	Interrupted  int64   `json:"interrupted"`
	Crashes      []Crash `json:"crashes"`
	Retries      int64   `json:"retries"`        // claims of a task whose earlier claim had failed
	Restarts     int64   `json:"restarts"`       // attempts within a claim, beyond the first
	CostMicroUSD int64   `json:"cost_micro_usd"` // of claims that failed or were interrupted
}

// Strategy counts steps of recovery that the agent recorded as the engine, by strategy
// and result. They are its own word.
type Strategy struct {
	Strategy     string `json:"strategy"`
	Result       string `json:"result"`
	Steps        int64  `json:"steps"`
	CostMicroUSD int64  `json:"cost_micro_usd"`
	LatencyMS    int64  `json:"latency_ms"`
}

// Counts are the counts of an agent, from the entry at From on and over the first Size entries. All
// lists are in the order of their names.
type Counts struct {
	Agent       entry.Principal `json:"agent"`
	From        uint64          `json:"from"`
	Size        uint64          `json:"size"`
	Entries     int64           `json:"entries"` // under the agent
	Executions  int64           `json:"executions"`
	Failures    []Failure       `json:"failures"`
	Signals     Verdicts        `json:"signals"`     // that the agent issued, about anybody
	Memberships int64           `json:"memberships"` // members of rollbacks with an outcome
	Outcomes    []Outcome       `json:"outcomes"`
	Corrections int64           `json:"corrections"` // outcomes behind the record of their incident
	Tasks       Tasks           `json:"tasks"`
	Attempts    int64           `json:"attempts"` // entries about cases of its own work, whoever wrote them
	Strategies  []Strategy      `json:"strategies"`
	// NotShown are incidents that the entries name, and that no history shows up to Size: the
	// dispositions of their signals may be missing.
	NotShown []uint64 `json:"not_shown"`
}

// Of returns the counts of each agent that a verified report answers about with all
// labels, in the order of their names. Histories that adjoin are counted as one; behind
// a gap the counts begin anew.
func Of(r *verify.Report) []Counts {
	var pages []verify.Answer
	incidents := map[string]uint64{} // sizes up to which they are shown
	for _, a := range r.Answers {
		switch {
		case a.Label != "":
		case a.Type == entry.SubjectAgent:
			pages = append(pages, a)
		case a.Type == entry.SubjectIncident && a.From == 0:
			incidents[a.Value] = max(incidents[a.Value], a.Size)
		}
	}
	slices.SortStableFunc(pages, func(a, b verify.Answer) int {
		return cmp.Or(cmp.Compare(a.Value, b.Value), cmp.Compare(a.From, b.From), cmp.Compare(a.Size, b.Size))
	})
	var all []Counts
	for i := 0; i < len(pages); {
		page := pages[i]
		for i++; i < len(pages) && pages[i].Value == page.Value && pages[i].From <= page.Size; i++ {
			page.Size = max(page.Size, pages[i].Size)
		}
		c := Counts{Agent: entry.Principal(page.Value), From: page.From, Size: page.Size}
		c.Count(incidents, func(yield func(*entry.Registered) bool) {
			for i := range r.Entries {
				if !yield(&r.Entries[i].Registered) {
					return
				}
			}
		})
		all = append(all, c)
	}
	return all
}

// Count counts among entries in the order of the log, for Agent, From and Size, which are
// set before. Of entries that neither stand under the agent nor say what became of an
// incident none counts. shown says up to which size of the log all entries of an incident,
// by [entry.IncidentValue], are among them.
func (c *Counts) Count(shown map[string]uint64, entries iter.Seq[*entry.Registered]) {
	of := counter{Counts: c, found: map[uint64]*entry.Disposition{}, opened: map[uint64]int64{},
		closed: map[uint64]uint64{}, sound: map[uint64]bool{}, named: map[uint64]bool{}, works: map[work]*report{}, members: map[member]*result{},
		crashes: map[[2]string]int64{}, steps: map[[2]string]*Strategy{}}
	for e := range entries {
		if e.Index < c.Size {
			of.verdict(e)
		}
	}
	for e := range entries {
		if e.Index >= c.From && e.Index < c.Size && about(e, c.Agent) {
			of.add(e)
		}
	}
	of.finish(shown)
}

// about reports whether an entry stands under an agent (IDX-1).
func about(e *entry.Registered, agent entry.Principal) bool {
	return slices.ContainsFunc(e.Subjects(e.Index), func(l entry.Listing) bool {
		return l.Type == entry.SubjectAgent && l.Value == string(agent)
	})
}
