package view

import (
	"recoveryledger/api"
	"recoveryledger/coord/rollout"
)

// WhyEnded says why a rollout is over: the gate that fell, the report that promoted the candidate,
// a quorum that waived the report, or a person.
func WhyEnded(e *api.EndedRollout) string {
	switch {
	case e.Gate != "":
		return "gate " + string(e.Gate)
	case e.Report != "":
		return "report " + string(e.Report)
	case e.Outcome == string(rollout.Promoted):
		return "waived"
	}
	return "by hand"
}
