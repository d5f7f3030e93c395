package foreign

import (
	"cmp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery/scenario"
)

// messagesRun is a record of Anthropic's messages: a request, with or without its response, or a
// response alone.
type messagesRun struct {
	ID       jsontext.Value `json:"id"`
	TaskID   jsontext.Value `json:"task_id"`
	Trial    jsontext.Value `json:"trial"`
	Model    string         `json:"model"`
	Reward   jsontext.Value `json:"reward"`
	Messages []blockMessage `json:"messages"`
	Response *messagesRun   `json:"response"`
	Error    *struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
	blockMessage
}

type blockMessage struct {
	Role       string         `json:"role"`
	Content    jsontext.Value `json:"content"`
	ToolCalls  jsontext.Value `json:"tool_calls"`
	Function   jsontext.Value `json:"function_call"`
	StopReason string         `json:"stop_reason"`
}

type block struct {
	Type      string         `json:"type"`
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Input     jsontext.Value `json:"input"`
	ToolUseID string         `json:"tool_use_id"`
	Content   jsontext.Value `json:"content"`
	IsError   jsontext.Value `json:"is_error"`
}

// Messages reads a record of Anthropic's messages.
func Messages(value jsontext.Value) (Conversation, *scenario.Error) {
	var run messagesRun
	if wrong := scenario.DecodeRecord(value, &run); wrong != nil {
		return Conversation{}, wrong
	}
	c := Conversation{Model: run.Model, Reward: run.Reward}
	if wrong := c.id(run.ID, run.TaskID, run.Trial); wrong != nil {
		return Conversation{}, wrong
	}
	if run.Messages == nil && run.Content == nil && run.Response == nil && run.Error == nil {
		return Conversation{}, scenario.Malformed("/messages", "is missing, and so are content and response", "write the conversation as an array of messages")
	}
	for i := range run.Messages {
		if wrong := c.blockMessage(&run.Messages[i], at("/messages", i)); wrong != nil {
			return Conversation{}, wrong
		}
	}
	if wrong := c.reply(&run, ""); wrong != nil {
		return Conversation{}, wrong
	}
	if run.Response != nil {
		if wrong := c.reply(run.Response, "/response"); wrong != nil {
			return Conversation{}, wrong
		}
		c.Model = cmp.Or(c.Model, run.Response.Model)
	}
	return c, nil
}

// reply takes the content and the error of a response.
func (c *Conversation) reply(run *messagesRun, field string) *scenario.Error {
	if run.Error != nil {
		c.Failure = &scenario.RawError{ProviderCode: run.Error.Type, Text: run.Error.Message}
	}
	if run.Content == nil {
		return nil
	}
	m := run.blockMessage
	m.Role = cmp.Or(m.Role, "assistant")
	return c.blockMessage(&m, field)
}

func (c *Conversation) blockMessage(m *blockMessage, field string) *scenario.Error {
	if m.Role != "user" && m.Role != "assistant" && m.Role != "system" {
		return scenario.Malformed(field+"/role", named(m.Role), "use user or assistant; results of tools are blocks of a user's message")
	}
	if wrong := noChatCalls(m.ToolCalls, m.Function, field); wrong != nil {
		return wrong
	}
	var blocks []block
	switch m.Content.Kind() {
	case '[':
		if wrong := scenario.DecodeRecord(m.Content, &blocks); wrong != nil {
			return within(field+"/content", wrong)
		}
	case '"', 'n', 0:
	default:
		return scenario.Malformed(field+"/content", "holds "+scenario.KindName(m.Content.Kind()), "write a string or an array of blocks")
	}
	acted := false
	for i := range blocks {
		took, wrong := c.block(&blocks[i], at(field+"/content", i))
		if wrong != nil {
			return wrong
		}
		acted = acted || took
	}
	switch {
	case acted:
	case m.Role == "user":
		c.user(field)
	default:
		c.Left++
	}
	if m.StopReason == "refusal" {
		c.Failure = &scenario.RawError{ProviderCode: m.StopReason}
	}
	return nil
}

// block takes a block of a message. It returns whether the block is a call or a result.
func (c *Conversation) block(b *block, field string) (bool, *scenario.Error) {
	switch {
	case b.Type == "":
		return false, scenario.Malformed(field+"/type", "is missing", "write each block with its type")
	case b.Type == "tool_use", b.Type == "server_tool_use", b.Type == "mcp_tool_use":
		return true, c.call(Turn{Field: field, ID: b.ID, Tool: b.Name, Text: scenario.ContentText(b.Input)}, field+"/name")
	case strings.HasSuffix(b.Type, "tool_result"):
		t := Turn{Field: field + "/tool_use_id", ID: b.ToolUseID, Text: scenario.ContentText(b.Content)}
		if isTrue(b.IsError) {
			t.Failure = &scenario.RawError{Text: t.Text}
		}
		if code := errorCode(b.Content); code != "" {
			t.Failure = &scenario.RawError{ProviderCode: code, Text: code}
		}
		c.answer(t)
		return true, nil
	}
	return false, nil
}

// errorCode is the code of a result of a tool of the provider that failed.
func errorCode(content jsontext.Value) string {
	var result struct {
		Type string `json:"type"`
		Code string `json:"error_code"`
	}
	if content.Kind() != '{' || scenario.DecodeRecord(content, &result) != nil || !strings.HasSuffix(result.Type, "_error") {
		return ""
	}
	return cmp.Or(result.Code, result.Type)
}
