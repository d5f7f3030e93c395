package entry

// Run opens or closes a run of the recovery engine.
type Run struct {
	Header
	Run            string `json:"run"`
	Op             string `json:"op"` // open, close
	ConfigDigest   Digest `json:"config_digest"`
	ScenarioDigest Digest `json:"scenario_digest"`
	Seed           int64  `json:"seed"`
	Engine         string `json:"engine"`                    // name and version
	PolicyDigest   Digest `json:"policy_digest,omitempty"`   // of the rules that decide
	BaselineDigest Digest `json:"baseline_digest,omitempty"` // of the rules of the run that this one is compared with
	RunRoot        Digest `json:"run_root,omitempty"`
	ReportDigest   Digest `json:"report_digest,omitempty"`
	Recommendation string `json:"recommendation,omitempty"` // promote, reject, inconclusive
}

// Kind implements [Body].
func (*Run) Kind() Kind { return KindRun }

func (r *Run) check() error {
	err := first(checkName("run", r.Run), checkOneOf("op", r.Op, "open", "close"),
		checkDigest("config_digest", r.ConfigDigest), checkDigest("scenario_digest", r.ScenarioDigest),
		checkName("engine", r.Engine), optional("policy_digest", string(r.PolicyDigest), checkDigestText),
		optional("baseline_digest", string(r.BaselineDigest), checkDigestText))
	if err != nil || r.Op == "open" {
		return first(err, refuseIf(r.RunRoot != "" || r.ReportDigest != "" || r.Recommendation != "", "op", "an open run has no result yet"))
	}
	return first(checkDigest("run_root", r.RunRoot), checkDigest("report_digest", r.ReportDigest),
		checkOneOf("recommendation", r.Recommendation, "promote", "reject", "inconclusive"))
}
