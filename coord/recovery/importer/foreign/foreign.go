// Package foreign reads documents in which other systems record what agents did: conversations as
// turns ([Chat], [Responses], [Messages], [Group]), workflow instances as tasks ([Workflow]), and
// runs of LangSmith as spans ([Span]). Room importer makes cases of them.
//
// Every function is pure: the same bytes give the same value. An error names the field. Nothing of
// a document with an error is returned. docs/traces.md lists the fields of each format.
package foreign

import (
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery/scenario"
)

// Kind is what happens in a turn.
type Kind int

// The kinds of turns.
const (
	// Call is a call of a tool by an agent.
	Call Kind = iota
	// Answer is what a call came to.
	Answer
	// Speech is a message of an agent that is a step of its own, because the conversation has no
	// other steps.
	Speech
	// User is a message of the person that the agent works for.
	User
)

// Turn is one event of a conversation.
type Turn struct {
	Kind Kind
	// Field is the JSON pointer of the turn in its record, for errors.
	Field string
	// Agent is the speaker or caller; empty: the agent of the run.
	Agent string
	// ID names the call, in Call and Answer. A conversation may repeat an ID.
	ID string
	// Tool is the name of the tool, in Call.
	Tool string
	// Text is the arguments, the answer or the message.
	Text string
	// Failure is set if the document itself says that the call failed.
	Failure *scenario.RawError
	// TokensIn and TokensOut are those of a Speech; nil: not known.
	TokensIn, TokensOut *int64
}

// Conversation is one run of agents.
type Conversation struct {
	// ID is the id that the document has for the run; empty: none.
	ID string
	// Model is the model that the document names; empty: none.
	Model string
	// Reward is the judgement of a benchmark, as the document writes it; absent: none.
	Reward jsontext.Value
	// Failure is set if the document says that the run as a whole failed.
	Failure *scenario.RawError
	// Turns are in the order of the conversation.
	Turns []Turn
	// Left counts the messages that are no turn, such as system prompts and thoughts.
	Left int
	// Unknown has the types of the items that are left because no table of docs/traces.md names
	// them.
	Unknown []string
}

// call appends a call and checks that it has a name.
func (c *Conversation) call(t Turn, nameField string) *scenario.Error {
	if t.Tool == "" {
		return scenario.Malformed(nameField, "is missing", "name the tool")
	}
	t.Kind = Call
	c.Turns = append(c.Turns, t)
	return nil
}

// answer appends an answer.
func (c *Conversation) answer(t Turn) {
	t.Kind = Answer
	c.Turns = append(c.Turns, t)
}

// user appends a message of the user.
func (c *Conversation) user(field string) { c.Turns = append(c.Turns, Turn{Kind: User, Field: field}) }

// id sets the id of the conversation: its own, or its task and trial.
func (c *Conversation) id(own, task, trial jsontext.Value) *scenario.Error {
	var ids [3]string
	for i, v := range []struct {
		field string
		value jsontext.Value
	}{{"/id", own}, {"/task_id", task}, {"/trial", trial}} {
		text, wrong := scalar(v.field, v.value)
		if wrong != nil {
			return wrong
		}
		ids[i] = text
	}
	switch {
	case ids[0] != "":
		c.ID = ids[0]
	case ids[1] != "" && ids[2] != "":
		c.ID = "task-" + ids[1] + "/trial-" + ids[2]
	case ids[1] != "":
		c.ID = "task-" + ids[1]
	}
	return nil
}

// at is the pointer of an element.
func at(field string, index int) string { return field + "/" + strconv.Itoa(index) }

// within puts an error of an inner value below the pointer of the value.
func within(field string, wrong *scenario.Error) *scenario.Error {
	if wrong != nil {
		wrong.Field = field + wrong.Field
	}
	return wrong
}

// scalar is the text of a string or number; absent and null give "".
func scalar(field string, value jsontext.Value) (string, *scenario.Error) {
	switch value.Kind() {
	case '"', '0':
		return scenario.ContentText(value), nil
	case 'n', 0:
		return "", nil
	}
	return "", scenario.Malformed(field, "holds "+scenario.KindName(value.Kind()), "write a string or a number")
}

// named is a value as the document quotes it in an error.
func named(text string) string { return fmt.Sprintf("is %q", scenario.Cut(text, scenario.ToolMax)) }

// isTrue says whether a value is true.
func isTrue(value jsontext.Value) bool { return value.Kind() == 't' }

// count is a number of tokens of at least 0; anything else is not known.
func count(value jsontext.Value) *int64 {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if value.Kind() != '0' || err != nil || n < 0 {
		return nil
	}
	return &n
}
