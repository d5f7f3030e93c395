package api

import "recoveryledger/ledger/entry"

// RolloutsMax is how many rollouts that ended GET /v1/rollouts lists. The entries of kind rollout
// have all of them.
const RolloutsMax = 100

// Rollouts is the answer of GET /v1/rollouts.
type Rollouts struct {
	Size    uint64         `json:"size" doc:"size of the log that the answer follows from"`
	Current *Rollout       `json:"current,omitempty" doc:"the rollout under way; absent: there is none"`
	History []EndedRollout `json:"history" doc:"the rollouts that ended, the newest first"`
}

// OneRollout is the answer of GET /v1/rollouts/{id}. It has one of Current and Ended.
type OneRollout struct {
	Size    uint64        `json:"size" doc:"size of the log that the answer follows from"`
	Current *Rollout      `json:"current,omitempty" doc:"the rollout, while it is under way"`
	Ended   *EndedRollout `json:"ended,omitempty" doc:"the rollout, once it is over"`
}

// Rollout is a rollout under way.
type Rollout struct {
	Rollout         string            `json:"rollout"`
	CandidateDigest entry.Digest      `json:"candidate_digest"`
	BaselineDigest  entry.Digest      `json:"baseline_digest"`
	Stage           entry.Stage       `json:"stage"`
	SharePermille   int64             `json:"share_permille" doc:"cases that the candidate decides, in a thousand"`
	Salt            string            `json:"salt" doc:"of the draw of arms"`
	Gates           []entry.Gate      `json:"gates"`
	TolerancePPM    int64             `json:"tolerance_ppm" doc:"by how much more a case may cost or take"`
	CasesMin        int64             `json:"cases_min" doc:"pairs of cases below which no gate falls but unsafe"`
	DeadlineAt      int64             `json:"deadline_at" doc:"Unix milliseconds"`
	Started         uint64            `json:"started" doc:"index of the entry that began it"`
	StartedAt       int64             `json:"started_at" doc:"Unix milliseconds"`
	By              entry.Principal   `json:"by" doc:"who began it"`
	Moved           uint64            `json:"moved" doc:"index of its newest entry"`
	Waivers         []entry.Principal `json:"waivers,omitempty" doc:"approvers who promote without a report"`
	Report          entry.Digest      `json:"report,omitempty" doc:"newest report in the log that compares candidate and baseline"`
	Promotes        bool              `json:"promotes" doc:"whether the report says promote"`
	Canary          RolloutArm        `json:"canary" doc:"cases that the candidate decided"`
	Control         RolloutArm        `json:"control" doc:"cases that the baseline decided meanwhile"`
	Compared        []RolloutGate     `json:"compared" doc:"a line for each gate"`
	Groups          []RolloutGroup    `json:"groups" doc:"a line for each slice, and for each class that an arm met: the gate recovered is watched in each"`
	Fell            entry.Gate        `json:"fell,omitempty" doc:"the gate that fell; absent: none has"`
	FellIn          string            `json:"fell_in,omitempty" doc:"the class or slice in which it fell; absent: over all cases"`
	Missing         []string          `json:"missing" doc:"why the ledger takes no promotion, neither by the report nor by waivers; empty: the policy's authority may sign it"`
}

// RolloutArm counts the cases of an arm.
type RolloutArm struct {
	Cases        int64 `json:"cases"`
	Recovered    int64 `json:"recovered"`
	Unsafe       int64 `json:"unsafe" doc:"recoveries of cases that the rules leave to people"`
	Escalated    int64 `json:"escalated"`
	Unknown      int64 `json:"unknown" doc:"cases that are no evidence: another arm decided about them before, or their earlier entries made room for 1,024 newer cases under way"`
	Costed       int64 `json:"costed" doc:"cases whose cost is known"`
	CostMicroUSD int64 `json:"cost_micro_usd" doc:"of these"`
	Timed        int64 `json:"timed" doc:"cases whose time is known"`
	ElapsedMS    int64 `json:"elapsed_ms" doc:"of these"`
}

// RolloutGate is how the arms compare in a gate.
type RolloutGate struct {
	Gate    entry.Gate `json:"gate"`
	Pairs   int64      `json:"pairs" doc:"pairs of cases, one of each arm"`
	Better  int64      `json:"better" doc:"pairs in which the candidate was better"`
	Worse   int64      `json:"worse" doc:"pairs in which the candidate was worse"`
	Needed  int64      `json:"needed" doc:"of so many pairs that differ, an arm has to win that many to be the better one"`
	Missing int64      `json:"missing" doc:"pairs that the gate lacks before it may decide"`
	Verdict string     `json:"verdict" doc:"candidate, baseline, or neither: the evidence is too weak"`
}

// RolloutGroup is how the arms recover the cases of a class or of a slice.
type RolloutGroup struct {
	Class   string          `json:"class,omitempty" doc:"of the first failure of its cases; absent: a slice"`
	Slice   string          `json:"slice,omitempty" doc:"tag of its cases; absent: a class"`
	Canary  RolloutGroupArm `json:"canary"`
	Control RolloutGroupArm `json:"control"`
	Pairs   int64           `json:"pairs" doc:"pairs of cases, one of each arm"`
	Better  int64           `json:"better" doc:"pairs in which the candidate was better"`
	Worse   int64           `json:"worse" doc:"pairs in which the candidate was worse"`
	Needed  int64           `json:"needed" doc:"of so many pairs that differ, an arm has to win that many to be the better one"`
	Missing int64           `json:"missing" doc:"pairs that are lacking before the gate may fall here"`
	Verdict string          `json:"verdict" doc:"candidate, baseline, or neither: the evidence is too weak"`
	// The gate cost compares the same pairs.
	Cheaper     int64  `json:"cheaper" doc:"pairs in which the case of the candidate cost less"`
	Dearer      int64  `json:"dearer" doc:"pairs in which the case of the candidate cost more"`
	CostVerdict string `json:"cost_verdict" doc:"the same of costs: candidate, baseline, or neither"`
}

// RolloutGroupArm counts the cases of an arm in a group.
type RolloutGroupArm struct {
	Cases     int64 `json:"cases"`
	Recovered int64 `json:"recovered"`
	Unsafe    int64 `json:"unsafe" doc:"cases that recovered although the rules leave them to people"`
}

// EndedRollout is a rollout that is over.
type EndedRollout struct {
	Rollout         string       `json:"rollout"`
	CandidateDigest entry.Digest `json:"candidate_digest"`
	BaselineDigest  entry.Digest `json:"baseline_digest"`
	Started         uint64       `json:"started" doc:"index of its first entry"`
	StartedAt       int64        `json:"started_at" doc:"Unix milliseconds"`
	Ended           uint64       `json:"ended" doc:"index of its last entry"`
	EndedAt         int64        `json:"ended_at" doc:"Unix milliseconds"`
	Outcome         string       `json:"outcome" doc:"promoted or aborted"`
	Gate            entry.Gate   `json:"gate,omitempty" doc:"of an abort: the gate that fell; absent: a person aborted"`
	Report          entry.Digest `json:"report,omitempty" doc:"of a promotion; absent: a quorum waived report and canary"`
}
