package foreign

import (
	"testing"

	"recoveryledger/ledger/entry"
)

// The effect table, row by row.
func TestToolEffects(t *testing.T) {
	for tool, want := range map[string]entry.Effect{
		"get_user_details": entry.EffectNone, "search_direct_flight": entry.EffectNone, "list_all_airports": entry.EffectNone,
		"calculate": entry.EffectNone, "think": entry.EffectNone, "Finish": entry.EffectNone,
		"book_reservation": entry.EffectCompensable, "update_reservation_flights": entry.EffectCompensable,
		"cancel_reservation": entry.EffectIrrevocable, "send_certificate": entry.EffectIrrevocable, "transfer_to_human_agents": entry.EffectIrrevocable,
		"update_address": entry.EffectUndeclared, "getaway": entry.EffectUndeclared, "": entry.EffectUndeclared, "delete_all": entry.EffectUndeclared,
	} {
		if got := ToolEffect(tool); got != want {
			t.Errorf("%s: %s, want %s", tool, got, want)
		}
	}
}
