package foreign

import (
	"cmp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery/scenario"
)

// groupRun is a record of a group chat: the history of AutoGen or AG2, a result of a team of
// AutoGen, or a row of a data set of such chats.
type groupRun struct {
	ID          jsontext.Value `json:"id"`
	ChatID      jsontext.Value `json:"chat_id"`
	TaskID      jsontext.Value `json:"task_id"`
	QuestionID  jsontext.Value `json:"question_ID"`
	Trial       jsontext.Value `json:"trial"`
	Trajectory  jsontext.Value `json:"trajectory"`
	Reward      jsontext.Value `json:"reward"`
	Correct     jsontext.Value `json:"is_correct"`
	Corrected   jsontext.Value `json:"is_corrected"`
	History     []groupMessage `json:"history"`
	ChatHistory []groupMessage `json:"chat_history"`
	Messages    []groupMessage `json:"messages"`
}

type groupMessage struct {
	Type      string         `json:"type"`
	Role      string         `json:"role"`
	Name      string         `json:"name"`
	Source    string         `json:"source"`
	Content   jsontext.Value `json:"content"`
	ToolCalls []chatCall     `json:"tool_calls"`
	CallID    string         `json:"tool_call_id"`
	Function  *chatFunction  `json:"function_call"`
	Responses []groupAnswer  `json:"tool_responses"`
	Usage     *struct {
		Prompt     jsontext.Value `json:"prompt_tokens"`
		Completion jsontext.Value `json:"completion_tokens"`
	} `json:"models_usage"`
}

type groupAnswer struct {
	ID      string         `json:"tool_call_id"`
	Content jsontext.Value `json:"content"`
}

type groupCall struct {
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Arguments jsontext.Value `json:"arguments"`
}

type groupResult struct {
	ID      string         `json:"call_id"`
	Content jsontext.Value `json:"content"`
	IsError jsontext.Value `json:"is_error"`
}

// Group reads a chat between agents. Every message is a step of the agent that speaks.
func Group(value jsontext.Value) (Conversation, *scenario.Error) {
	var run groupRun
	if wrong := scenario.DecodeRecord(value, &run); wrong != nil {
		return Conversation{}, wrong
	}
	if run.Trajectory.Kind() == '[' {
		return Conversation{}, scenario.Malformed("/trajectory", "is that of a run of SWE-agent", "read the file as --format swe-agent")
	}
	c := Conversation{Reward: run.Reward}
	if wrong := c.id(first(run.ID, run.ChatID), first(run.TaskID, run.QuestionID), run.Trial); wrong != nil {
		return Conversation{}, wrong
	}
	for _, list := range []struct {
		field    string
		messages []groupMessage
	}{{"/history", run.History}, {"/chat_history", run.ChatHistory}, {"/messages", run.Messages}} {
		if list.messages == nil {
			continue
		}
		if len(list.messages) == 0 {
			return Conversation{}, scenario.Malformed(list.field, "is empty", "write the chat as an array of messages")
		}
		for i := range list.messages {
			if wrong := c.groupMessage(&list.messages[i], at(list.field, i), i == 0); wrong != nil {
				return Conversation{}, wrong
			}
		}
		judged := first(run.Correct, run.Corrected)
		if judged.Kind() == 'f' || strings.EqualFold(scenario.ContentText(judged), "false") {
			c.Failure = &scenario.RawError{Text: "the result is not correct"}
		}
		return c, nil
	}
	return Conversation{}, scenario.Malformed("/history", "is missing, and so are chat_history and messages", "write the chat as an array of messages")
}

// executed begins a message that says how the code of an agent ran.
const executed = "exitcode: "

// isPerson says whether a speaker stands for the person that the agents work for.
func isPerson(name string) bool {
	switch strings.ToLower(name) {
	case "user", "human", "human_user":
		return true
	}
	return false
}

func (c *Conversation) groupMessage(m *groupMessage, field string, first bool) *scenario.Error {
	speaker := cmp.Or(m.Source, m.Name, m.Role)
	text := scenario.ContentText(m.Content)
	if wrong := noToolBlocks(m.Content, field+"/content"); wrong != nil {
		return wrong
	}
	switch {
	case speaker == "":
		return scenario.Malformed(field+"/name", "is missing, and so are source and role", "write each message with its speaker")
	case m.Type == "ToolCallRequestEvent":
		return c.groupCalls(m, speaker, field)
	case m.Type == "ToolCallExecutionEvent":
		return c.groupResults(m, field)
	case len(m.Responses) > 0:
		for i, r := range m.Responses {
			c.answer(Turn{Field: at(field+"/tool_responses", i) + "/tool_call_id", ID: r.ID, Text: scenario.ContentText(r.Content)})
		}
		return nil
	case m.Role == "tool" && m.CallID != "":
		c.answer(Turn{Field: field + "/tool_call_id", ID: m.CallID, Text: text})
		return nil
	case m.Role == "function":
		c.answer(Turn{Field: field + "/name", ID: functionID(m.Name), Text: text})
		return nil
	case len(m.ToolCalls) > 0, m.Function != nil:
		return c.chatCalls(m.ToolCalls, m.Function, speaker, field)
	case m.Role == "system" && m.Name == "" || strings.HasSuffix(m.Type, "ChunkEvent") || m.Type == "StopMessage":
		c.Left++
		return nil
	case strings.HasPrefix(strings.TrimSpace(text), executed):
		if wrong := c.call(Turn{Field: field, Agent: speaker, ID: field, Tool: "execute_code"}, field); wrong != nil {
			return wrong
		}
		c.answer(Turn{Field: field, ID: field, Text: text, Failure: exitCode(text)})
		return nil
	case isPerson(speaker) || first && m.Role == "user" && m.Name == "":
		c.user(field)
		return nil
	}
	t := Turn{Kind: Speech, Field: field, Agent: speaker, Text: text}
	if m.Usage != nil {
		t.TokensIn, t.TokensOut = count(m.Usage.Prompt), count(m.Usage.Completion)
	}
	c.Turns = append(c.Turns, t)
	return nil
}

// exitCode is the failure of a message about code that ended with a code other than 0.
func exitCode(text string) *scenario.RawError {
	code, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(text), executed), " ")
	if code == "0" {
		return nil
	}
	if _, output, ok := strings.Cut(text, "Code output:"); ok {
		text = output
	}
	if raw, failed := scenario.FailureIn(text); failed {
		return &raw
	}
	return &scenario.RawError{Text: "exit code " + scenario.Cut(code, scenario.CodeMax)}
}

func (c *Conversation) groupCalls(m *groupMessage, speaker, field string) *scenario.Error {
	var calls []groupCall
	if wrong := scenario.DecodeRecord(m.Content, &calls); wrong != nil {
		return within(field+"/content", wrong)
	}
	for i, call := range calls {
		of := at(field+"/content", i)
		if wrong := c.call(Turn{Field: of, Agent: speaker, ID: call.ID, Tool: call.Name, Text: scenario.ContentText(call.Arguments)}, of+"/name"); wrong != nil {
			return wrong
		}
	}
	return nil
}

func (c *Conversation) groupResults(m *groupMessage, field string) *scenario.Error {
	var results []groupResult
	if wrong := scenario.DecodeRecord(m.Content, &results); wrong != nil {
		return within(field+"/content", wrong)
	}
	for i, r := range results {
		t := Turn{Field: at(field+"/content", i) + "/call_id", ID: r.ID, Text: scenario.ContentText(r.Content)}
		if isTrue(r.IsError) {
			t.Failure = &scenario.RawError{Text: t.Text}
		}
		c.answer(t)
	}
	return nil
}
