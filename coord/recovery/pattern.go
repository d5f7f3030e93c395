package recovery

import (
	"fmt"
	"strings"
)

// Pattern names the failures whose messages have some words. The classifier asks the patterns of a
// policy in their order, after codes and statuses, and before its own knowledge of messages.
type Pattern struct {
	// Words are parts of a message between stars, which the message has in this order. Small and
	// capital letters are the same, and so are spaces, underscores, hyphens and line ends.
	Words string `json:"words"`
	// Failure is the class and code that such a message has: class.code.
	Failure string `json:"failure"`
	// Refused says that such a message comes from a call that was refused before any effect.
	Refused bool `json:"refused,omitzero"`
}

// Patterns returns the patterns of messages that the policy adds to the classifier, in their order.
// The digest of the policy is their version.
func (p *Policy) Patterns() []Pattern { return p.doc.Patterns }

// checkPatterns reports patterns that fit every message, that an earlier one hides, or whose
// failure is none.
func (b *builder) checkPatterns() {
	seen := map[string]int{}
	for i, p := range b.policy.doc.Patterns {
		at := element("/recovery/patterns", i)
		class, code, _ := strings.Cut(p.Failure, ".")
		if code == "" {
			b.wrong(at+"/failure", "has no code", "write class.code; docs/taxonomy.md lists them")
		} else if class != "" {
			b.checkFailure(at+"/failure", p.Failure)
		}
		if strings.Trim(p.Words, "* ") == "" {
			b.wrong(at+"/words", "fit every message", "write words that only such messages have")
		}
		if first, twice := seen[strings.ToLower(p.Words)]; twice {
			b.wrong(at+"/words", fmt.Sprintf("are those of pattern %d, which is asked first", first+1), "remove one of the two")
		} else {
			seen[strings.ToLower(p.Words)] = i
		}
	}
}
