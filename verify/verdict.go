package verify

import "fmt"

// Verdict is the result of a verification, in a few words.
type Verdict string

// The verdicts. A verification that fails has an error and no verdict.
const (
	// Verified: every claim of the material was checked.
	Verified Verdict = "verified"
	// Included: the requested entry is in the log. The material does not show whether the
	// signer may sign the entry.
	Included Verdict = "included, signer not checked"
	// Inconclusive: nothing false was found, but not every claim could be checked.
	Inconclusive Verdict = "inconclusive"
)

// Verdict returns the verdict on the subject of the report or, if the material is not
// about one entry, on the whole material.
func (r *Report) Verdict() Verdict {
	if r.Subject != nil && !r.Subject.Signed {
		return Included
	}
	return VerdictOf(r.Missing)
}

// VerdictOf returns the verdict on claims. missing are the claims that could not be checked.
func VerdictOf(missing []Gap) Verdict {
	if len(missing) > 0 {
		return Inconclusive
	}
	return Verified
}

// InconclusiveError reports claims that could not be checked. Nothing false was found.
type InconclusiveError struct{ Missing []Gap }

// Error names the first claim and the missing input, and counts the other claims.
func (e *InconclusiveError) Error() string {
	text := fmt.Sprintf("inconclusive: nothing false was found, but not everything could be checked: %s", e.Missing[0])
	if more := len(e.Missing) - 1; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// Conclusive returns an [*InconclusiveError] if claims could not be checked.
func Conclusive(missing []Gap) error {
	if len(missing) == 0 {
		return nil
	}
	return &InconclusiveError{missing}
}
