package importer

// A small input of each format, written for the tests.

const chatSample = `[
 {"id": "r1", "model": "m-1", "reward": 1.0, "messages": [
  {"role": "system", "content": "policy"},
  {"role": "user", "content": "cancel ABC123 please"},
  {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "get_user_details", "arguments": "{\"user_id\":\"ann_lee_7\"}"}}]},
  {"role": "tool", "tool_call_id": "c", "name": "get_user_details", "content": "{\"reservations\": [\"ABC123\"], \"payment_methods\": {\"card_991\": {}}}"},
  {"role": "assistant", "content": "one moment", "tool_calls": [{"id": "c", "function": {"name": "get_reservation_details", "arguments": "{\"reservation_id\":\"ABC123\"}"}}]},
  {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "{\"flights\": [\"HX017\"]}"}]},
  {"role": "user", "content": "yes"},
  {"role": "assistant", "tool_calls": [
    {"id": "d", "function": {"name": "update_reservation_flights", "arguments": "{\"reservation_id\":\"ABC123\",\"flights\":[\"HX017\"],\"payment_id\":\"card_991\"}"}},
    {"id": "e", "function": {"name": "send_mail", "arguments": {"to": "nobody"}}}]},
  {"role": "tool", "tool_call_id": "e", "content": "Error: payment method not found"},
  {"role": "tool", "tool_call_id": "d", "content": "{\"reservation_id\": \"ABC123\", \"flights\": [\"HX017\"]}"},
  {"role": "assistant", "tool_calls": [{"id": "f", "function": {"name": "cancel_reservation", "arguments": "{\"reservation_id\":\"ABC123\"}"}}]}
 ]},
 {"task_id": 7, "trial": 2, "reward": 0.5, "traj": []}
]`

const attemptsSample = `{"case": "p__p-1", "seq": 0, "model": "small", "class": "edit_fail", "edit_outcome": false, "patch_bytes": 12, "cost_usd": 0.0000015}
{"case": "p__p-1", "seq": 1, "model": "large one", "class": "ok", "edit_outcome": true, "patch_bytes": 9, "cost_usd": 1.25, "latency_ms": 900}
{"case": "p__p-2", "seq": 0, "model": null, "class": "test_fail", "edit_outcome": true, "patch_bytes": 4}
{"case": "p__p-3", "class": "no_edit", "patch_bytes": 0}
{"case": "p__p-4"}
`

const toolbenchSample = `{"win": true, "tree": {"tree": {"node_type": "Action Input", "description": "", "children": [
 {"node_type": "Thought", "description": "I look", "children": [
  {"node_type": "Action", "description": "search_x", "children": [
   {"node_type": "Action Input", "description": "{\"q\": 1}", "observation": "{\"error\": \"\", \"response\": \"{'message': \\\"Endpoint '/x' does not exist\\\"}\"}", "observation_code": 0, "children": [
    {"node_type": "Action", "description": "fetch_y", "children": [
     {"node_type": "Action Input", "description": "{}", "observation": "{\"error\": \"request invalid, data error. status_code=500\", \"response\": \"\"}", "observation_code": 12, "children": []}]},
    {"node_type": "Thought", "children": [
     {"node_type": "Action", "description": "fetch_y", "children": [
      {"node_type": "Action Input", "description": "{}", "observation": "{\"error\": \"Message error...\", \"response\": \"{'result': [{'title': 'Error of a ", "observation_code": 11, "children": [
       {"node_type": "Action", "description": "Finish", "children": [
        {"node_type": "Action Input", "description": "{}", "children": []}]}]}]}]}]}]}]}]}}}`

const galaxySample = `{"a_galaxy_workflow": "true", "steps": {
 "0": {"id": 0, "type": "data_input", "tool_id": null, "tool_state": "{}", "input_connections": {}, "workflow_outputs": []},
 "1": {"id": 1, "type": "parameter_input", "input_connections": {}},
 "2": {"id": 2, "type": "subworkflow", "when": "$(inputs.when)",
  "input_connections": {"reads": {"id": 0, "output_name": "output", "input_subworkflow_step_id": 0}, "when": {"id": 1, "output_name": "output"}},
  "workflow_outputs": [{"label": "clean", "output_name": "trimmed"}],
  "subworkflow": {"steps": {
   "0": {"id": 0, "type": "data_input", "input_connections": {}},
   "1": {"id": 1, "type": "parameter_input", "input_connections": {}},
   "10": {"id": 10, "type": "tool", "tool_id": "trim/1.0", "input_connections": {"in": {"id": 0, "output_name": "output"}, "min": {"id": 1, "output_name": "output"}},
    "workflow_outputs": [{"label": "trimmed", "output_name": "out"}]}}}},
 "3": {"id": 3, "type": "tool", "tool_id": "merge/2", "when": null,
  "input_connections": {"files": [{"id": 2, "output_name": "trimmed"}, {"id": 0, "output_name": "output"}, {"id": 0, "output_name": "output"}]},
  "workflow_outputs": [{"label": null, "output_name": "all"}]},
 "4": {"id": 4, "type": "tool", "tool_id": "export_remote", "input_connections": {"in": {"id": 3, "output_name": "all"}}}
}}`
