package live

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
)

// prompt is how a model is asked otherwise than at first.
type prompt struct {
	// more is a message of ours at the end.
	more string
	// fresh keeps the instructions and the last message of the user, compact
	// the newer half of what stands between.
	fresh, compact bool
	// schema has the endpoint constrain the answer to the expected one.
	schema bool
	// cold samples with the least freedom.
	cold bool
}

// promptFor is the prompt of a way; not ok for one that changes nothing in a
// prompt. It says what failed by class and code, and what is expected: the
// words of an error are never given to a model.
func promptFor(q scenario.Request) (prompt, bool) {
	failed := ""
	if q.Failure != nil {
		failed = fmt.Sprintf("The last attempt failed: %s.", q.Failure.Label)
	}
	if q.Variation.Strategy == string(recovery.StateReset) {
		scope := recovery.Scope(q.Variation.Variant)
		return prompt{fresh: true}, scope == recovery.ScopeContext || scope == recovery.ScopeStart
	}
	switch recovery.Variant(q.Variation.Variant) {
	case recovery.Reflect:
		return prompt{more: failed + demands(q.Step.Expect) + " Find the mistake first, then answer again."}, true
	case recovery.RepairArgs:
		return prompt{more: failed + " Make the call again with arguments that fit the description of the tool."}, true
	case recovery.StricterSchema:
		ok := q.Step.Expect != nil && len(q.Step.Expect.Schema) > 0
		return prompt{schema: true, more: "Answer with JSON that fits the schema, and nothing else."}, ok
	case recovery.CompactContext:
		return prompt{compact: true}, true
	case recovery.Decompose:
		return prompt{more: failed + " Split the task into parts, do them one after the other, then answer."}, true
	case recovery.LowerVariance:
		return prompt{cold: true}, true
	case recovery.FreshContext:
		return prompt{fresh: true}, true
	}
	return prompt{}, false
}

// demands names what is expected of an answer.
func demands(e *scenario.Expect) string {
	if e == nil {
		return ""
	}
	var names []string
	if len(e.Schema) > 0 {
		names = append(names, "the schema of the answer")
	}
	for _, c := range e.Checks {
		names = append(names, c.Name)
	}
	if e.CitationsMin > 0 {
		names = append(names, fmt.Sprintf("at least %d citations", e.CitationsMin))
	}
	if len(names) == 0 {
		return ""
	}
	return " It has to satisfy: " + strings.Join(names, ", ") + "."
}

// apply changes a request.
func (p prompt) apply(request chatRequest, expect *scenario.Expect) {
	messages := request.messages()
	switch {
	case p.fresh:
		messages = kept(messages, 1)
	case p.compact:
		messages = kept(messages, len(messages)/2)
	}
	if p.more != "" {
		if text, err := json.Marshal(chatMessage{"user", p.more}); err == nil {
			messages = append(messages, text)
		}
	}
	request.set("messages", messages)
	if p.cold {
		request.set("temperature", 0)
	}
	if p.schema && expect != nil {
		request.set("response_format", map[string]any{
			"type": "json_schema", "json_schema": map[string]any{"name": "answer", "strict": true, "schema": expect.Schema},
		})
	}
}

// kept are the instructions at the beginning, and of the rest the last so
// many messages, from one of the user on: an answer of a tool without the
// call would be refused.
func kept(messages []jsontext.Value, last int) []jsontext.Value {
	role := func(i int) string {
		var message struct {
			Role string `json:"role"`
		}
		_ = json.Unmarshal(messages[i], &message) // what is no message has no role
		return message.Role
	}
	head := 0
	for head < len(messages) && (role(head) == "system" || role(head) == "developer") {
		head++
	}
	from := max(head, len(messages)-last)
	for from > head && role(from) != "user" {
		from--
	}
	return append(messages[:head:head], messages[from:]...)
}
