package coord

import "recoveryledger/ledger/entry"

// Census counts the incidents of a log. Times are in Unix milliseconds.
type Census struct {
	States         map[entry.IncidentState]int // incidents by state; a state of none is left out
	Unacknowledged int                         // missed answers that no person has acknowledged
	NotFenced      int                         // incidents that wait for a decision while agents may build on what it may undo
	Waiting        int                         // proposals that wait for the answers of people
	WaitingSince   int64                       // when the oldest of these proposals was made; 0: there is none
}

// Census counts in one pass over the incidents. now is the instant of the census.
func (s *State) Census(now int64) (c Census) {
	c.States = map[entry.IncidentState]int{}
	for _, inc := range s.incidents {
		if c.States[inc.state]++; s.missedAnswerOf(inc, now).isOpen() {
			c.Unacknowledged++
		}
		if !inc.state.Open() {
			continue
		}
		if !s.fenced(inc, now) {
			c.NotFenced++
		}
		if p := s.waiting(inc, now); p != nil {
			if c.Waiting++; c.WaitingSince == 0 || p.at < c.WaitingSince {
				c.WaitingSince = p.at
			}
		}
	}
	return c
}

// Milestones returns when an incident was opened, and the index of the entry that ended it; 0: it
// is open. ok is false if there is no such incident.
func (s *State) Milestones(id uint64) (openedAt int64, ended uint64, ok bool) {
	if _, inc, ok := s.findIncident(id); ok {
		return inc.openedAt, inc.recorded, true
	}
	return 0, 0, false
}
