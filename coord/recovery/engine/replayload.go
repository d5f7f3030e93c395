package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"recoveryledger/ledger/entry"

	"github.com/go-json-experiment/json"
)

// load reads the files of the run. A report that cannot be decoded was changed: load decides the
// report again, and compares the two byte by byte. The reason says why that is not possible.
func (p *replay) load() (reason string, err error) {
	if p.config, err = os.ReadFile(p.file(ConfigFile)); err != nil {
		if _, there := os.Stat(p.file(ReportFile)); there == nil && errors.Is(err, fs.ErrNotExist) {
			return fmt.Sprintf("%s is missing: only this file has the policy of the run", p.file(ConfigFile)), nil
		}
		return "", fmt.Errorf("engine: %w", err)
	}
	switch p.text, err = os.ReadFile(p.file(ReportFile)); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("%s is missing: the run did not end (arl recover --resume continues it), or the file was removed", p.file(ReportFile)), nil
	case err != nil:
		return "", fmt.Errorf("engine: %w", err)
	}
	p.report, err = DecodeReport(p.file(ReportFile), p.text)
	readable := err == nil
	unreadable := json.Unmarshal(p.config, &p.snapshot, json.RejectUnknownMembers(true))
	got := entry.DigestOf(p.config)
	switch {
	case unreadable == nil && p.snapshot.Engine != Engine:
		return fmt.Sprintf("the engine of the run is %s, this one is %s", p.snapshot.Engine, Engine), nil
	case readable && got != p.report.ConfigDigest:
		return fmt.Sprintf("%s changed: the report names the digest %s, the file has %s", ConfigFile, p.report.ConfigDigest, got), nil
	case unreadable != nil:
		return fmt.Sprintf("%s changed, or is of another version: %v", ConfigFile, unreadable), nil
	}
	return "", nil
}

// incomparable returns the reason why a comparison means nothing: the run used another policy than
// the replay.
func (p *replay) incomparable() (reason string, err error) {
	if p.policy = p.o.Policy; p.policy == nil {
		if p.policy, err = p.snapshot.policy(p.file(ConfigFile)); err != nil {
			return fmt.Sprintf("the policy in %s cannot be used: %v", ConfigFile, err), nil
		}
	}
	if got := p.policy.Hash(); got != p.snapshot.PolicyDigest {
		return fmt.Sprintf("the policy changed: the run used %s, this policy is %s", p.snapshot.PolicyDigest, got), nil
	}
	return "", nil
}

// input finds the input of the run: its scenario, or its record if the record does not follow from
// the scenario. The digest of the record stands only in the report.
func (p *replay) input() (reason string, err error) {
	what, remedy := "the scenario", "; pass --scenario"
	if p.snapshot.recorded() {
		what, remedy, p.scenario = "the record", "", p.file(RecordFile)
	} else if p.scenario = p.o.Scenario; p.scenario == "" {
		info, err := (&Dir{path: p.dir}).info()
		if err != nil {
			return fmt.Sprintf("%s does not name the scenario (%v); pass --scenario", p.file(InfoFile), err), nil
		}
		p.scenario = info.Scenario
	}
	got, _, err := digestFile(p.scenario)
	want := p.snapshot.Scenario
	if p.snapshot.recorded() {
		want, p.record = p.report.RecordDigest, got
		if want == "" { // the report cannot be read
			want = got
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("%s %s is missing%s", what, p.scenario, remedy), nil
	case err != nil:
		return fmt.Sprintf("%s cannot be read (%v)%s", what, err, remedy), nil
	case got != want:
		return fmt.Sprintf("%s %s changed: the run used %s, the file is %s", what, p.scenario, want, got), nil
	}
	return "", nil
}
