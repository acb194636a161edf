// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func chat(id uint64, from int64, more attrs) sp {
	return sp{name: "chat", id: id, parent: 1, from: from, attributes: attrs{"gen_ai.operation.name": "chat"}.with(more)}
}

// The same turn in three vocabularies: a model asks for calls c1 and c2.
var asks = map[string]attrs{
	"openinference": {
		"llm.output_messages.0.message.tool_calls.0.tool_call.id":            "c1",
		"llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "search",
		"llm.output_messages.0.message.tool_calls.1.tool_call.id":            "c2",
		"llm.output_messages.0.message.tool_calls.1.tool_call.function.name": "book",
	},
	"traceloop": {
		"gen_ai.completion.0.tool_calls.0.id": "c1", "gen_ai.completion.0.tool_calls.0.name": "search",
		"gen_ai.completion.0.tool_calls.1.id": "c2", "gen_ai.completion.0.tool_calls.1.name": "book",
		"gen_ai.completion.0.id": "no call's",
	},
	"genai": {
		"gen_ai.output.messages": `[{"role":"assistant","parts":[{"type":"text","content":"x"},{"type":"tool_call","id":"c1","name":"search"},{"type":"tool_call","id":"c2","name":"book"}]}]`,
	},
	"genai, structured": {
		"gen_ai.output.messages": []any{map[string]any{"role": "assistant", "parts": []any{
			map[string]any{"type": "tool_call", "id": "c1", "name": "search"},
			map[string]any{"type": "tool_call", "id": "c2", "name": "book"},
		}}},
	},
}

// The answer to one call, as a later message to the model.
var answers = map[string]func(id string) attrs{
	"openinference": func(id string) attrs { return attrs{"llm.input_messages.3.message.tool_call_id": id} },
	"traceloop":     func(id string) attrs { return attrs{"gen_ai.prompt.2.tool_call_id": id} },
	"genai": func(id string) attrs {
		return attrs{"gen_ai.input.messages": fmt.Sprintf(`[{"role":"tool","parts":[{"type":"tool_call_response","id":%q,"response":"x"}]}]`, id)}
	},
	"genai, structured": func(id string) attrs {
		return attrs{"gen_ai.input.messages": []any{map[string]any{"parts": []any{map[string]any{"type": "tool_call_response", "id": id}}}}}
	},
}

// Call ids that a model asked for and that neither a tool span nor a later message answers are counted.
func TestUnansweredCallsAreCounted(t *testing.T) {
	for name, ask := range asks {
		t.Run(name, func(t *testing.T) {
			bySpan := ourTool(3, 10, 20, "search", "error", attrs{"gen_ai.tool.call.id": "c1"})
			assert.Equal(t, int64(1), get(root(t, agent, chat(2, 1, ask), bySpan), attrUnanswered))
			byMessage := chat(4, 30, answers[name]("c1"))
			assert.Equal(t, int64(1), get(root(t, agent, chat(2, 1, ask), byMessage), attrUnanswered))
			both := chat(4, 30, answers[name]("c2"))
			assert.Nil(t, get(root(t, agent, chat(2, 1, ask), bySpan, both), attrUnanswered))
		})
	}
}

// A call that did not run but was answered for is answered.
func TestACallThatDidNotRunIsAnswered(t *testing.T) {
	got := root(t, agent, chat(2, 1, asks["genai"]),
		ourTool(3, 10, 20, "search", "error", attrs{"gen_ai.tool.call.id": "c1"}),
		ourTool(4, 20, 20, "book", "not_executed", attrs{"gen_ai.tool.call.id": "c2"}))
	assert.Nil(t, get(got, attrUnanswered))
}

// Without proof there is no claim: no answers are seen at all, spans are missing, messages are too long or
// do not parse, or the framework answers such a call itself.
func TestUnansweredIsClaimedOnlyWithProof(t *testing.T) {
	ask := chat(2, 1, asks["genai"])
	answered := ourTool(3, 10, 20, "search", "ok", attrs{"gen_ai.tool.call.id": "c1"})
	orphan := ourTool(4, 10, 20, "book", "ok", nil)
	orphan.parent = 99
	handOff := chat(2, 1, attrs{"gen_ai.output.messages": `[{"parts":[{"type":"tool_call","id":"c1","name":"search"},{"type":"tool_call","id":"c2","name":"transfer_to_billing"},{"type":"tool_call","id":"c3","name":"final_result"}]}]`})
	for name, spans := range map[string][]sp{
		"tool spans have no ids": {agent, ask, ourTool(3, 10, 20, "search", "ok", nil)},
		"spans are missing":      {agent, ask, answered, orphan},
		"messages too long":      {agent, ask, answered, chat(5, 30, attrs{"gen_ai.input.messages": `[` + strings.Repeat(" ", defaultMaxContentBytes) + `]`})},
		"messages nested":        {agent, ask, answered, chat(5, 30, attrs{"gen_ai.input.messages": strings.Repeat("[", 200_000)})},
		"messages cut":           {agent, ask, answered, chat(5, 30, attrs{"gen_ai.input.messages": `[{"parts":[{"type":"tool_call_re`})},
		"the framework answers":  {agent, handOff, answered},
	} {
		assert.Nil(t, get(root(t, spans...), attrUnanswered), name)
	}
}
