package foreign

import (
	"cmp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery/scenario"
)

// responsesRun is a record of OpenAI's responses: a response, a request with its response beside or
// inside, or the items of a conversation.
type responsesRun struct {
	ID       jsontext.Value `json:"id"`
	TaskID   jsontext.Value `json:"task_id"`
	Trial    jsontext.Value `json:"trial"`
	Model    string         `json:"model"`
	Reward   jsontext.Value `json:"reward"`
	Input    jsontext.Value `json:"input"`
	Items    []responseItem `json:"items"`
	Output   []responseItem `json:"output"`
	Response *responsesRun  `json:"response"`
	Status   string         `json:"status"`
	Error    *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Incomplete *struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
}

type responseItem struct {
	Type      string         `json:"type"`
	Role      string         `json:"role"`
	ID        string         `json:"id"`
	CallID    string         `json:"call_id"`
	Content   jsontext.Value `json:"content"`
	ToolCalls jsontext.Value `json:"tool_calls"`
	Function  jsontext.Value `json:"function_call"`
	Name      string         `json:"name"`
	Arguments jsontext.Value `json:"arguments"`
	Input     jsontext.Value `json:"input"`
	Action    jsontext.Value `json:"action"`
	Queries   jsontext.Value `json:"queries"`
	Code      jsontext.Value `json:"code"`
	Operation jsontext.Value `json:"operation"`
	Output    jsontext.Value `json:"output"`
	Outputs   jsontext.Value `json:"outputs"`
	Results   jsontext.Value `json:"results"`
	Result    jsontext.Value `json:"result"`
	Error     jsontext.Value `json:"error"`
	Status    string         `json:"status"`
}

// Responses reads a record of OpenAI's responses.
func Responses(value jsontext.Value) (Conversation, *scenario.Error) {
	var run responsesRun
	if wrong := scenario.DecodeRecord(value, &run); wrong != nil {
		return Conversation{}, wrong
	}
	c := Conversation{Model: run.Model, Reward: run.Reward}
	if wrong := c.id(run.ID, run.TaskID, run.Trial); wrong != nil {
		return Conversation{}, wrong
	}
	found := false
	if wrong := c.responses(&run, "", &found); wrong != nil {
		return Conversation{}, wrong
	}
	if run.Response != nil {
		if wrong := c.responses(run.Response, "/response", &found); wrong != nil {
			return Conversation{}, wrong
		}
		c.Model = cmp.Or(c.Model, run.Response.Model)
	}
	if !found {
		return Conversation{}, scenario.Malformed("/output", "is missing, and so are items and input", "write each run with the items of its conversation")
	}
	return c, nil
}

// responses takes the items of a request or a response, and how it ended.
func (c *Conversation) responses(run *responsesRun, field string, found *bool) *scenario.Error {
	var input []responseItem
	switch run.Input.Kind() {
	case '"':
		*found = true
		c.user(field + "/input")
	case '[':
		if wrong := scenario.DecodeRecord(run.Input, &input); wrong != nil {
			return within(field+"/input", wrong)
		}
	case 'n', 0:
	default:
		return scenario.Malformed(field+"/input", "holds "+scenario.KindName(run.Input.Kind()), "write a string or an array of items")
	}
	for _, list := range []struct {
		name  string
		items []responseItem
	}{{"/input", input}, {"/items", run.Items}, {"/output", run.Output}} {
		*found = *found || list.items != nil
		for i := range list.items {
			if wrong := c.item(&list.items[i], at(field+list.name, i)); wrong != nil {
				return wrong
			}
		}
	}
	switch {
	case run.Error != nil:
		*found = true
		c.Failure = &scenario.RawError{ProviderCode: run.Error.Code, Text: run.Error.Message}
	case run.Incomplete != nil:
		c.Failure = &scenario.RawError{ProviderCode: run.Incomplete.Reason, Text: "incomplete: " + run.Incomplete.Reason}
	case run.Status == "failed":
		c.Failure = &scenario.RawError{Text: "the response failed"}
	}
	return nil
}

// item takes one item. A call of a tool of the provider has its answer in the same item.
func (c *Conversation) item(m *responseItem, field string) *scenario.Error {
	t := Turn{Field: field, ID: cmp.Or(m.CallID, m.ID), Tool: m.Name}
	switch m.Type {
	case "message", "":
		if m.Role == "" {
			return scenario.Malformed(field+"/role", "is missing", "write each message with its role, and each other item with its type")
		}
		return c.itemMessage(m, field)
	case "function_call":
		t.Text = scenario.ContentText(m.Arguments)
		return c.call(t, field+"/name")
	case "custom_tool_call":
		t.Text = scenario.ContentText(m.Input)
		return c.call(t, field+"/name")
	case "computer_call", "local_shell_call", "shell_call", "apply_patch_call":
		t.Tool, t.Text = strings.TrimSuffix(m.Type, "_call"), scenario.ContentText(first(m.Action, m.Operation))
		return c.call(t, field+"/type")
	case "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call", "tool_search_call":
		return c.hosted(m, t)
	}
	if strings.HasSuffix(m.Type, "_call_output") {
		t.Field, t.Text = field+"/call_id", scenario.ContentText(m.Output)
		if m.Status == "failed" {
			t.Failure = &scenario.RawError{Text: t.Text}
		}
		c.answer(t)
		return nil
	}
	return c.otherItem(m.Type, field)
}

// itemMessage takes a message, which is no step.
func (c *Conversation) itemMessage(m *responseItem, field string) *scenario.Error {
	if wrong := scenario.FirstOf(noChatCalls(m.ToolCalls, m.Function, field), noToolBlocks(m.Content, field+"/content")); wrong != nil {
		return wrong
	}
	if m.Role == "user" {
		c.user(field)
	} else {
		c.Left++
	}
	return nil
}

// otherItem takes an item that is neither a message nor a known call. An unknown call is refused: a
// run without the call would be another run.
func (c *Conversation) otherItem(kind, field string) *scenario.Error {
	switch kind {
	case "reasoning", "compaction", "item_reference", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "tool_search_output":
		c.Left++
		return nil
	}
	if strings.HasSuffix(kind, "call") {
		return scenario.Malformed(field+"/type", named(kind)+", an unknown kind of call", "write calls as function_call with function_call_output")
	}
	if wrong := noToolBlock(kind, field); wrong != nil {
		return wrong
	}
	c.Unknown = append(c.Unknown, kind)
	return nil
}

// hosted takes a call that the provider made, with its answer.
func (c *Conversation) hosted(m *responseItem, t Turn) *scenario.Error {
	t.Tool = cmp.Or(t.Tool, strings.TrimSuffix(m.Type, "_call"))
	t.Text = scenario.ContentText(first(m.Arguments, m.Action, m.Queries, m.Code))
	if wrong := c.call(t, t.Field+"/name"); wrong != nil {
		return wrong
	}
	result := scenario.ContentText(first(m.Output, m.Results, m.Outputs, m.Result))
	switch failed := first(m.Error) != nil || m.Status == "failed"; {
	case failed:
		text := cmp.Or(scenario.ContentText(m.Error), result, "the call failed")
		c.answer(Turn{Field: t.Field, ID: t.ID, Text: text, Failure: &scenario.RawError{Text: text}})
	case m.Status == "" && m.Type != "mcp_call", m.Status == "in_progress", m.Status == "incomplete": // it may not have ended
	default:
		c.answer(Turn{Field: t.Field, ID: t.ID, Text: result})
	}
	return nil
}

// first is the first value that is there.
func first(values ...jsontext.Value) jsontext.Value {
	for _, v := range values {
		if kind := v.Kind(); kind != 0 && kind != 'n' {
			return v
		}
	}
	return nil
}
