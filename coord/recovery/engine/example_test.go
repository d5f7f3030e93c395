package engine_test

import (
	"fmt"
	"strings"

	"recoveryledger/coord/recovery/importer"
	"recoveryledger/coord/recovery/scenario"
)

// A harness tried a task with one model, then with another.
func ExampleImport() {
	const rows = `{"case": "fix-parser", "seq": 0, "model": "small", "class": "test_fail", "edit_outcome": true, "patch_bytes": 310, "cost_usd": 0.0125}
{"case": "fix-parser", "seq": 1, "model": "large", "class": "ok", "cost_usd": 0.20686500000000002}
`
	for c, err := range importer.Import(importer.Attempts, "attempts.ndjson", strings.NewReader(rows), new(importer.Counts)) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(c.ID, c.Outcome)
		for _, step := range c.Steps {
			fmt.Println(step.ID, step.Agent, step.Outcome, *step.CostMicroUSD, step.Parents)
			if step.Failure != nil {
				fmt.Println("  ", step.Failure.Label, "effects", step.Failure.Effects)
			}
		}
	}
	// Output:
	// fix-parser ok
	// 0 attempts/small failed 12500 []
	//    verify.gate_failed effects complete
	// 1 attempts/large ok 206865 [{0 soft}]
}

// The typed cause decides, not the words of the message.
func ExampleClassify() {
	fmt.Println(scenario.Classify(scenario.RawError{HTTPStatus: 429, ProviderCode: "insufficient_quota"}))
	fmt.Println(scenario.Classify(scenario.RawError{Text: "it seems that it rained"}))
	// Output:
	// capacity.quota_exhausted
	// unknown
}
