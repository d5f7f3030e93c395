package lab

import (
	"context"
	"net/http"
	"net/url"

	"recoveryledger/api/console"
	"recoveryledger/api/words"
	"recoveryledger/api/words/runs"
	"recoveryledger/coord/recovery/engine"
)

// replayForm is the form of a replay.
type replayForm struct {
	Runs, Scenarios []item
	Run, Scenario   string
}

// replayFinding is how a run compares with the same run, decided again.
type replayFinding struct {
	Match  engine.Match
	Fields []runs.Field
	End    string
	Case   *caseLink // where the two differ
}

// replayForm is GET /lab/replay.
func (l *Lab) replayForm(_ http.ResponseWriter, q *http.Request) (*console.Page, error) {
	values := q.URL.Query()
	body := &replayForm{Run: values.Get("run"), Scenario: values.Get("scenario")}
	var err error
	if body.Runs, body.Scenarios, _, err = l.shelf.list(); err != nil {
		return nil, refusal(err)
	}
	return &console.Page{Name: "replay", Title: "Replay", Command: "arl replay DIR", Body: body}, nil
}

// startReplay is POST /lab/replay.
func (l *Lab) startReplay(w http.ResponseWriter, q *http.Request) (*console.Page, error) {
	values, err := form(w, q)
	if err != nil {
		return nil, err
	}
	run, err := l.shelf.find("run", aRun, values.Get("run"))
	if err != nil {
		return nil, err
	}
	o, command := engine.ReplayOptions{Workers: l.cfg.Workers}, "arl replay "+words.Quoted(run.Path)
	if id := values.Get("scenario"); id != "" {
		of, err := l.shelf.find("scenario", aScenario, id)
		if err != nil {
			return nil, err
		}
		o.Scenario = of.Path
		command += " --scenario " + words.Quoted(of.Path)
	}
	var found engine.Comparison
	return l.begin(&job{
		Title: "Replay of " + run.Name, Command: command,
		unit: "cases",
		back: "/lab/replay?" + url.Values{"run": {values.Get("run")}, "scenario": {values.Get("scenario")}}.Encode(),
		do: func(ctx context.Context, tell func(done, total int64)) (err error) {
			o.Progress = tell
			found, err = engine.Replay(ctx, run.Path, o)
			return err
		},
		show: func(_ *http.Request, p *jobPage) error {
			p.Replay = &replayFinding{Match: found.Match, Fields: runs.Comparison(&found), End: runs.ReplayEnd(&found)}
			if found.Case != "" {
				p.Replay.Case = &caseLinks(runPath(&run)+"/case", []string{found.Case})[0]
			}
			return nil
		},
	})
}
