package foreign

import (
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery/scenario"
)

type chatRun struct {
	ID       jsontext.Value `json:"id"`
	TaskID   jsontext.Value `json:"task_id"`
	Trial    jsontext.Value `json:"trial"`
	Model    string         `json:"model"`
	Reward   jsontext.Value `json:"reward"`
	Messages []chatMessage  `json:"messages"`
	Traj     []chatMessage  `json:"traj"`
}

type chatMessage struct {
	Role       string         `json:"role"`
	Content    jsontext.Value `json:"content"`
	Name       string         `json:"name"`
	ToolCalls  []chatCall     `json:"tool_calls"`
	ToolCallID string         `json:"tool_call_id"`
	Function   *chatFunction  `json:"function_call"`
}

// chatFunction is a call of a function: of a tool, or in the form that came before tools.
type chatFunction struct {
	Name      string         `json:"name"`
	Arguments jsontext.Value `json:"arguments"`
}

type chatCall struct {
	ID       string       `json:"id"`
	Function chatFunction `json:"function"`
	Custom   struct {
		Name  string         `json:"name"`
		Input jsontext.Value `json:"input"`
	} `json:"custom"`
}

// functionID is the id of a call of a function, which has none: an answer names the function.
func functionID(name string) string { return "function_call/" + name }

// chatCalls takes the calls of a message by an agent.
func (c *Conversation) chatCalls(calls []chatCall, function *chatFunction, agent, field string) *scenario.Error {
	for i, call := range calls {
		of := at(field+"/tool_calls", i)
		t := Turn{Field: of, Agent: agent, ID: call.ID, Tool: call.Function.Name, Text: scenario.ContentText(call.Function.Arguments)}
		if call.Custom.Name != "" {
			t.Tool, t.Text = call.Custom.Name, scenario.ContentText(call.Custom.Input)
		}
		if wrong := c.call(t, of+"/function/name"); wrong != nil {
			return wrong
		}
	}
	if function == nil {
		return nil
	}
	of := field + "/function_call"
	return c.call(Turn{Field: of, Agent: agent, ID: functionID(function.Name), Tool: function.Name, Text: scenario.ContentText(function.Arguments)}, of+"/name")
}

// Chat reads a transcript in the form of OpenAI's chat completions, bare or with what a benchmark
// adds.
func Chat(value jsontext.Value) (Conversation, *scenario.Error) {
	var run chatRun
	if wrong := scenario.DecodeRecord(value, &run); wrong != nil {
		return Conversation{}, wrong
	}
	c := Conversation{Model: run.Model, Reward: run.Reward}
	if wrong := c.id(run.ID, run.TaskID, run.Trial); wrong != nil {
		return Conversation{}, wrong
	}
	field, messages := "/messages", run.Messages
	if messages == nil {
		field, messages = "/traj", run.Traj
	}
	if messages == nil {
		return Conversation{}, scenario.Malformed("/messages", "is missing", "write the transcript as an array of messages")
	}
	for i := range messages {
		if wrong := c.chatMessage(&messages[i], at(field, i)); wrong != nil {
			return Conversation{}, wrong
		}
	}
	return c, nil
}

func (c *Conversation) chatMessage(m *chatMessage, field string) *scenario.Error {
	if wrong := noToolBlocks(m.Content, field+"/content"); wrong != nil {
		return wrong
	}
	switch m.Role {
	case "assistant":
		if len(m.ToolCalls) == 0 && m.Function == nil {
			c.Left++
		}
		return c.chatCalls(m.ToolCalls, m.Function, "", field)
	case "function":
		c.answer(Turn{Field: field + "/name", ID: functionID(m.Name), Text: scenario.ContentText(m.Content)})
	case "tool":
		c.answer(Turn{Field: field + "/tool_call_id", ID: m.ToolCallID, Text: scenario.ContentText(m.Content)})
	case "user":
		c.user(field)
	case "system", "developer":
		c.Left++
	default:
		return scenario.Malformed(field+"/role", named(m.Role), "use system, developer, user, assistant, tool or function")
	}
	return nil
}
