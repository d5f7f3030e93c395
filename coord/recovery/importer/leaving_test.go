package importer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"recoveryledger/coord/recovery/scenario"
)

// TestClassifierLeavingOut classifies the failures of each set without what the tables have from
// that set: its messages, and its own codes. It is what the classifier makes of a source that it
// does not know, but for its phrases, which were written when the sets were known. At most 30 % may
// be unknown and at least 90 % of the others right, over all sets.
func TestClassifierLeavingOut(t *testing.T) {
	var page strings.Builder
	page.WriteString("| set, without its own messages and codes | failures | unknown | right of the others | unknown before | right before |\n|---|--:|--:|--:|--:|--:|\n")
	var all, allBefore leavingCount
	classes, classesBefore := map[string]*leavingCount{}, map[string]*leavingCount{}
	for _, set := range labelSets {
		var now, before leavingCount
		eachLeftOut(t, set.name, set.format, set.ext, func(want, said, old string) {
			class, _, _ := strings.Cut(want, ".")
			if classes[class] == nil {
				classes[class], classesBefore[class] = new(leavingCount), new(leavingCount)
			}
			for _, count := range []*leavingCount{&now, &all, classes[class]} {
				count.add(want, said)
			}
			for _, count := range []*leavingCount{&before, &allBefore, classesBefore[class]} {
				count.add(want, old)
			}
		})
		writeLeaving(&page, "`"+set.name+"`", now, before)
	}
	writeLeaving(&page, "together", all, allBefore)
	page.WriteString("\n| class by hand | failures | unknown | right of the others | unknown before | right before |\n|---|--:|--:|--:|--:|--:|\n")
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		writeLeaving(&page, class, *classes[class], *classesBefore[class])
	}
	checkGoal(t, "over all sets", all)
	compareFigures(t, "TestClassifierLeavingOut", page.String())
}

// leaving is what the classifier says without what it has from a set.
func leaving(raw scenario.RawError, set string) string {
	return scenario.ExplainLeaving(raw, set).Label.String()
}

// leavingTyped is leaving as version 1 of the tables did it: without fixed forms and phrases.
func leavingTyped(raw scenario.RawError, set string) string {
	e := scenario.ExplainLeaving(raw, set)
	if e.By == "form" || e.By == "phrase" {
		return scenario.Classify(scenario.RawError{HTTPStatus: raw.HTTPStatus}).String()
	}
	return e.Label.String()
}

// eachLeftOut gives each labelled failure of a set: its label, what the classifier says without
// what it has from the set, and what it said before there were forms and phrases.
func eachLeftOut(t *testing.T, set string, format Format, ext string, each func(want, said, old string)) {
	t.Helper()
	labels := readLabels(t, set)
	for _, c := range importFiles(t, format, dataFiles(t, set, ext)) {
		for _, s := range c.Steps {
			want := labels[labelKey(s)]
			if s.Failure == nil || want == "" || want == labelOK || want == "unknown" {
				continue
			}
			each(want, leaving(s.Failure.Raw, set), leavingTyped(s.Failure.Raw, set))
		}
	}
}

// leavingCount counts failures, those that are unknown, and those that are right.
type leavingCount struct{ all, unknown, right int }

func (c *leavingCount) add(want, said string) {
	c.all++
	switch said {
	case "unknown":
		c.unknown++
	case want:
		c.right++
	}
}

func writeLeaving(page *strings.Builder, name string, now, before leavingCount) {
	fmt.Fprintf(page, "| %s | %d | %s | %s | %s | %s |\n", name, now.all, share(now.unknown, now.all), share(now.right, now.all-now.unknown),
		share(before.unknown, before.all), share(before.right, before.all-before.unknown))
}
