//go:build unix

package main_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"recoveryledger/api"
)

// TestConsoleSaysWhatTheCommandSays compares the page of an incident and the overview with the JSON
// of the commands that they name.
func TestConsoleSaysWhatTheCommandSays(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.enrol()
	id := m.escalated()
	c := m.console("--read-only")
	text := func(path string) string {
		_, page := c.get(path)
		for !strings.Contains(page, fmt.Sprintf("derived here from %d entries", m.head().Size)) { // it begins with a kept fold
			m.must(t.Context().Err())
			_, page = c.get(path)
		}
		return regexp.MustCompile(`(<[^>]*>|\s)+`).ReplaceAllString(page, " ")
	}
	overview, incident := text("/"), text(fmt.Sprintf("/incidents/%d", id))
	var waits api.Escalation
	m.must(json.Unmarshal([]byte(m.arl("escalation", "list", "--output", "json")), &waits))
	for _, want := range []string{fmt.Sprintf("incident %s", waits.ID), waits.State, waits.Waits.Who, waits.Waits.Then, api.Instant(waits.Waits.Until)} {
		if want == "" || !strings.Contains(overview, want) {
			t.Errorf("the overview does not say %q: %s", want, overview)
		}
	}
	said := m.arl("incident", "preview", fmt.Sprint(id))
	for _, want := range []string{waits.State, waits.Waits.String(), waits.Waits.Then, api.Instant(waits.Waits.Until), "irrevocable", "seed"} {
		if !strings.Contains(incident, want) {
			t.Errorf("the page of the incident does not say %q: %s", want, incident)
		}
	}
	for _, exec := range regexp.MustCompile(`[\w-]+#[\w-]+`).FindAllString(said, -1) {
		if !strings.Contains(incident, exec) {
			t.Errorf("the page does not name %s: %s", exec, incident)
		}
	}
}
