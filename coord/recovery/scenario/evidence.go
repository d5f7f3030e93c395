package scenario

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
)

// evidenceText is evidence.yaml as JSON, as causesText is causes.yaml.
//
//go:embed evidence.json
var evidenceText []byte

// A phrase decides only if it was right often enough about messages that people labelled. The share
// of right ones is smoothed: little evidence of a phrase leaves it near the share of its label, and
// little evidence of a label near that of all phrases. The counts are whole numbers, and so is the
// arithmetic.
const (
	rightPPM   = 800_000 // the least share of right messages with which a phrase decides
	labelCount = 4       // as how many messages of a phrase the share of its label counts
	wholeCount = 10      // as how many messages of a label the share of all phrases counts
	ppm        = 1_000_000
)

// tally counts right and wrong messages.
type tally struct{ right, wrong int64 }

func (t tally) minus(o tally) tally { return tally{t.right - o.right, t.wrong - o.wrong} }

func (t tally) plus(o tally) tally { return tally{t.right + o.right, t.wrong + o.wrong} }

// share is the share of right ones in millionths, smoothed towards a prior share that counts as
// some messages.
func (t tally) share(prior, count int64) int64 {
	return (t.right*ppm + count*prior) / (t.right + t.wrong + count)
}

// evidence is what a phrase, a label or all phrases together got right and wrong, by data set and
// over all sets.
type evidence struct {
	all tally
	in  map[string]tally
}

// without is the evidence of all sets but one.
func (e *evidence) without(set string) tally {
	if e == nil {
		return tally{}
	}
	return e.all.minus(e.in[set])
}

func (e *evidence) add(set string, t tally) {
	if e.in == nil {
		e.in = map[string]tally{}
	}
	e.all, e.in[set] = e.all.plus(t), e.in[set].plus(t)
}

// phraseKey names a phrase: its words in the table, and its label.
type phraseKey struct{ words, label string }

// allEvidence is the evidence of phrases, of labels, and of all together.
type allEvidence struct {
	phrases map[phraseKey]*evidence
	labels  map[string]*evidence
	whole   evidence
}

// readEvidence reads the counts of evidence.yaml from JSON. A phrase that stands there twice, or
// that the tables do not have, is an error.
func readEvidence(text []byte, phrases []phrase) (*allEvidence, error) {
	var doc struct {
		Phrase []struct {
			Words string             `json:"words"`
			Label string             `json:"label"`
			In    map[string][]int64 `json:"in"`
		} `json:"phrase"`
	}
	if wrong := (Document{What: "the evidence of the classifier"}).DecodeJSON(text, &doc); wrong != nil {
		return nil, wrong
	}
	known := map[phraseKey]*evidence{}
	for i := range phrases {
		known[phraseKey{phrases[i].family, phrases[i].Label}] = new(evidence)
	}
	all := &allEvidence{phrases: map[phraseKey]*evidence{}, labels: map[string]*evidence{}}
	for _, p := range doc.Phrase {
		key := phraseKey{p.Words, p.Label}
		if all.phrases[key] != nil || known[key] == nil {
			return nil, fmt.Errorf("scenario: evidence of %q stands twice, or is of no phrase", p.Words)
		}
		all.phrases[key] = known[key]
		if all.labels[p.Label] == nil {
			all.labels[p.Label] = new(evidence)
		}
		for _, set := range slices.Sorted(maps.Keys(p.In)) {
			counts := p.In[set]
			if len(counts) != 2 || counts[0] < 0 || counts[1] < 0 {
				return nil, fmt.Errorf("scenario: evidence of %q in %s is not [right, wrong]", p.Words, set)
			}
			for _, e := range []*evidence{all.phrases[key], all.labels[p.Label], &all.whole} {
				e.add(set, tally{counts[0], counts[1]})
			}
		}
	}
	return all, nil
}

// of is the evidence of a phrase without a data set, and its smoothed share of right messages.
func (a *allEvidence) of(p *phrase, leaving string) (counts tally, share int64) {
	whole := a.whole.without(leaving).share(ppm, 1)
	label := a.labels[p.Label].without(leaving).share(whole, wholeCount)
	counts = a.phrases[phraseKey{p.family, p.Label}].without(leaving)
	return counts, counts.share(label, labelCount)
}

// weigh is a phrase that a text has, as what it decides: nothing, if it was wrong too often.
func (a *allEvidence) weigh(p *phrase, leaving string) found {
	counts, share := a.of(p, leaving)
	if share >= rightPPM {
		return found{p.label, fmt.Sprintf("phrase %q", p.Words)}
	}
	return found{label: UnknownLabel(), cause: fmt.Sprintf("nothing: phrase %q says %s, and was right about %d of %d labelled messages, which is too few (%d %% after smoothing, of %d %%)",
		p.Words, p.label, counts.right, counts.right+counts.wrong, share*100/ppm, rightPPM*100/ppm)}
}

// PhraseLeaving is the phrase that decides about an error if every phrase counts, by its words in
// the tables, and its label. It leaves out what was found in a data set, as [ExplainLeaving] does.
// No words: another step decides, or none.
func PhraseLeaving(raw RawError, set string) (words string, label Label) {
	t := causes()
	if e := t.decide(raw, set, nil, found{label: UnknownLabel()}); e.By != "" {
		return "", UnknownLabel()
	}
	if p := t.firstPhrase(raw.Text, set); p != nil {
		return p.family, p.label
	}
	return "", UnknownLabel()
}
