package foreign

import (
	"strings"

	"recoveryledger/ledger/entry"
)

// ToolEffect is the effect of a tool that an agent calls by name. It is the
// table below and nothing else: a name it does not hold is undeclared, which
// counts as irrevocable for anything automatic.
//
//	get_… search_… list_…            none          read
//	calculate think                  none          the agent's own reasoning
//	retrieval rerank                 none          a trace says so: a search in documents
//	Finish                           none          ToolBench: ends a branch
//	book_reservation                 compensable   can be cancelled
//	update_reservation_…             compensable   can be updated back
//	cancel_reservation               irrevocable   seats and price are gone
//	send_certificate                 irrevocable   a gift of money
//	transfer_to_human_agents         irrevocable   a person takes over
//
// The prefixes are a convention that the airline tools of tau-bench keep and
// that the APIs of ToolBench keep where they have them; neither source records
// the HTTP method, so that an API with another name stays undeclared.
func ToolEffect(tool string) entry.Effect {
	for _, prefix := range []string{"get_", "search_", "list_"} {
		if strings.HasPrefix(tool, prefix) {
			return entry.EffectNone
		}
	}
	switch tool {
	case "calculate", "think", "Finish", "retrieval", "rerank":
		return entry.EffectNone
	case "book_reservation":
		return entry.EffectCompensable
	case "cancel_reservation", "send_certificate", "transfer_to_human_agents":
		return entry.EffectIrrevocable
	}
	if strings.HasPrefix(tool, "update_reservation_") {
		return entry.EffectCompensable
	}
	return entry.EffectUndeclared
}

// CommandEffect is the effect of a command of a coding agent, by its first word.
func CommandEffect(tool string) entry.Effect {
	switch tool {
	case "find_file", "search_dir", "search_file", "open", "goto", "scroll_up", "scroll_down", "ls", "cat", "grep", "head", "tail", "pwd", "file", "read", "recall", "think":
		return entry.EffectNone
	case "edit", "create", "insert", "str_replace_editor", "write", "undo_edit":
		return entry.EffectReversible
	}
	return entry.EffectUndeclared
}
