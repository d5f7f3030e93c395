package foreign

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery/scenario"
)

// A message in the form of another provider is refused. Otherwise the message would pass for mere
// words, and the calls in the message would be lost.

// noToolBlocks refuses a content with a call or a result among its blocks.
func noToolBlocks(content jsontext.Value, field string) *scenario.Error {
	var blocks []jsontext.Value
	if content.Kind() != '[' {
		return nil
	}
	if wrong := scenario.DecodeRecord(content, &blocks); wrong != nil {
		return within(field, wrong)
	}
	for i, value := range blocks {
		var block struct {
			Type jsontext.Value `json:"type"`
		}
		if value.Kind() != '{' {
			continue
		}
		if wrong := scenario.DecodeRecord(value, &block); wrong != nil {
			return within(at(field, i), wrong)
		}
		if block.Type.Kind() != '"' {
			continue
		}
		if wrong := noToolBlock(scenario.ContentText(block.Type), at(field, i)); wrong != nil {
			return wrong
		}
	}
	return nil
}

// noToolBlock refuses a block that is a call or a result.
func noToolBlock(kind, field string) *scenario.Error {
	if strings.HasSuffix(kind, "tool_use") || strings.HasSuffix(kind, "tool_result") {
		return scenario.Malformed(field+"/type", named(kind)+", a block of Anthropic's messages", "read the file as --format anthropic")
	}
	return nil
}

// noChatCalls refuses a message with calls in the form of chat completions.
func noChatCalls(calls, function jsontext.Value, field string) *scenario.Error {
	const detail, remedy = "holds a call in the form of chat completions", "read the file as --format openai-chat or group-chat"
	switch {
	case calls.Kind() == '[' && strings.Trim(string(calls), "[] \t\r\n") != "":
		return scenario.Malformed(field+"/tool_calls", detail, remedy)
	case first(function) != nil:
		return scenario.Malformed(field+"/function_call", detail, remedy)
	}
	return nil
}
