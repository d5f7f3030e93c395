package engine

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/program"
	"recoveryledger/ledger/entry"
)

// Setup is a configuration with the runtime of the attempts and the chooser of the actions, which a
// run's directory keeps. Make a Setup with [NewSetup].
type Setup struct {
	Config
	Mode       string        // names the runtime: recorded, simulated or live
	Outcomes   *OutcomeModel // of simulated attempts
	LiveDigest entry.Digest  // of the configuration of live attempts
	Strategy   []string      // command line of the strategy that chooses every action
}

// NewSetup returns the setup with recorded attempts and the ladders of the policy. The seed is that
// of jitter and of simulated outcomes.
func NewSetup(p *recovery.Policy, seed int64) *Setup {
	return &Setup{Config: Config{Policy: p, Seed: seed, Runtime: Recorded{}}, Mode: ModeRecorded}
}

// errNamesStrategies reports a policy whose rules name strategies. A program cannot choose in place
// of all ladders of such a policy.
var errNamesStrategies = errors.New("the policy's rules name strategies of their own")

// ChooseBy makes a program choose every action in place of the ladders. The error is
// [errNamesStrategies].
func (s *Setup) ChooseBy(argv []string) error {
	if s.Policy.Names() {
		return errNamesStrategies
	}
	s.Strategy = argv
	s.External = &program.Command{Argv: argv, Is: recovery.About{Name: recovery.RuleExternal, Capabilities: recovery.Strategies()}}
	return nil
}

// Simulate makes an outcome model draw the attempts that a scenario does not record.
func (s *Setup) Simulate(m *OutcomeModel) {
	s.Mode, s.Outcomes, s.Runtime = ModeSimulated, m, newSimulated(m, s.Seed)
}

// MakeLive has a runtime make the attempts for real, and pause wait before them. The
// digest is that of the live configuration.
func (s *Setup) MakeLive(r Runtime, pause func(context.Context, time.Duration) error, of entry.Digest) {
	s.Mode, s.Runtime, s.Pause, s.LiveDigest = ModeLive, r, pause, of
	s.Instance = newID()
}

// NewRun returns a run of the setup with a new id. The caller sets the other members.
func (s *Setup) NewRun(workers int) *Run {
	return &Run{
		Batch: Batch{Config: s.Config, Workers: workers, Neighbours: Neighbours(s.Policy)},
		Mode:  s.Mode, Outcomes: s.Outcomes, LiveDigest: s.LiveDigest, Strategy: s.Strategy, ID: newID(),
	}
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// Keep makes the run keep its traces and report in a directory. The directory is new. To resume a
// run, it is the directory of that run, and the run takes its id. The errors are those of
// [CreateDir]; [ErrUsed] is one of them.
func (r *Run) Keep(path string, resume bool) (err error) {
	if !resume {
		r.Dir, err = CreateDir(path)
		return err
	}
	if r.Dir, err = resumeDir(path); err != nil {
		return err
	}
	before, err := r.Dir.info()
	if r.ID = before.Run; err != nil {
		err = errors.Join(err, r.Dir.Close())
	}
	return err
}

// Execute is [Run.Do] that also keeps, in the directory of the run, when and where it
// ran. build and origin are members of [Info]; now returns Unix milliseconds. The report
// is nil if the run never began.
func (r *Run) Execute(ctx context.Context, build, origin string, now func() int64) (*Report, error) {
	info := Info{Run: r.ID, Scenario: r.Scenario, Workers: r.Workers, Build: build, StartedAt: now(), Ledger: origin}
	if r.Dir != nil {
		if err := r.Dir.writeInfo(info); err != nil {
			return nil, err
		}
	}
	report, err := r.Do(ctx)
	if report.V == 0 {
		return nil, err
	}
	if r.Dir != nil {
		info.EndedAt, info.Partial = now(), report.Partial
		err = errors.Join(err, r.Dir.writeInfo(info))
	}
	return &report, err
}
