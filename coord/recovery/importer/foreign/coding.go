package foreign

import "github.com/go-json-experiment/json/jsontext"

// SWERun is a trajectory of SWE-agent.
type SWERun struct {
	Environment string    `json:"environment"`
	Trajectory  []SWEStep `json:"trajectory"`
	Info        struct {
		ExitStatus jsontext.Value `json:"exit_status"`
	} `json:"info"`
}

// SWEStep is an action of a trajectory, and what came of it.
type SWEStep struct {
	Action      string `json:"action"`
	Observation string `json:"observation"`
}

// HandsEvent is an event of a run of OpenHands.
type HandsEvent struct {
	ID          jsontext.Value `json:"id"`
	Cause       jsontext.Value `json:"cause"`
	Source      string         `json:"source"`
	Action      string         `json:"action"`
	Observation string         `json:"observation"`
	Content     string         `json:"content"`
	Args        jsontext.Value `json:"args"`
	Extras      struct {
		Metadata struct {
			ExitCode *int64 `json:"exit_code"`
		} `json:"metadata"`
	} `json:"extras"`
}
