package console

import (
	"net/http"

	"recoveryledger/api"
	"recoveryledger/coord"
	"recoveryledger/ledger/entry"
)

// rolloutsPage shows the rollout under way, and those that ended.
type rolloutsPage struct {
	api.Rollouts
	More int // rollouts that ended and are not listed
}

// Arms returns both arms by their names.
func (b *rolloutsPage) Arms() []arm {
	return []arm{{"candidate", b.Current.Canary}, {"baseline", b.Current.Control}}
}

// arm is an arm of a rollout.
type arm struct {
	Name string
	api.RolloutArm
}

// rollouts is GET /rollouts.
func (k *Console) rollouts(*http.Request) (*page, error) {
	body := &rolloutsPage{}
	p := &page{name: "rollouts", Title: "Rollouts", Command: "arl rollout status", Section: "Rollouts", Body: body, About: []string{subject(entry.SubjectLog, "")}}
	k.cfg.Source.Read(func(state *coord.State, at Standing) {
		p.At = at
		body.Rollouts = state.Rollouts().View(state.Size(), state.Law())
	})
	body.More = max(0, len(body.History)-rows)
	body.History = body.History[:len(body.History)-body.More]
	return p, nil
}
