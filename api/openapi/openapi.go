// Package openapi makes the OpenAPI document of a ledger from the route table of
// package api, from nothing else: what a route promises stands there once.
package openapi

import (
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/coord/recovery/ask"
	"recoveryledger/coord/recovery/engine"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/entry"
)

// object is a JSON object of the document.
type object = map[string]any

// Document returns the OpenAPI 3.1 document of a version of the server, in a fixed order.
func Document(version string) ([]byte, error) {
	schemas := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	paths := object{}
	for _, route := range api.Routes() {
		item, ok := paths[route.Path].(object)
		if !ok {
			item = object{}
			paths[route.Path] = item
		}
		operation, err := describe(&route, schemas)
		if err != nil {
			return nil, fmt.Errorf("openapi: route %s: %w", route.Name, err)
		}
		item[strings.ToLower(route.Method)] = operation
	}
	components, err := withPayloads(schemas)
	if err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	return json.Marshal(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Agent recovery ledger", "version": version,
			"description": "An append-only Merkle log of signed entries. The signature of an entry is its authority: requests need no " +
				"credentials. A client verifies answers offline against a pinned root. The server refuses unknown query parameters. HEAD has the header of " +
				"the answer to GET. The server compresses JSON of 1 KiB and more with gzip if the client accepts that. " +
				"Every answer has the header Log-Size: a size that the log had when the server made the answer. A request may have the header Min-Log-Size: " +
				"a server whose log is smaller waits 2 s for that size, and then answers not-ready. A 404 for an index or a size above Log-Size says nothing about the log.",
		},
		"servers":    []object{{"url": "/", "description": "the ledger that serves this document"}},
		"paths":      paths,
		"components": object{"schemas": components},
	}, json.Deterministic(true))
}

// describe returns the description of a route. The types that it names become schemas.
func describe(r *api.Route, schemas huma.Registry) (object, error) {
	responses, err := describeResponses(r, schemas)
	if err != nil {
		return nil, err
	}
	operation := object{"operationId": r.Name, "summary": r.Summary, "responses": responses}
	if r.Doc != "" {
		operation["description"] = r.Doc
	}
	params := r.Params
	if r.Query != nil {
		params = append(params, r.Query().Params()...)
	}
	var described []object
	for i := range params {
		p := &params[i]
		schema, err := read(p.Schema)
		if err != nil {
			return nil, err
		}
		one := object{"name": p.Name, "in": p.In, "description": p.Doc, "schema": schema, "example": p.Example}
		if p.Required {
			one["required"] = true
		}
		described = append(described, one)
	}
	if described != nil {
		operation["parameters"] = described
	}
	if len(r.Takes) > 0 {
		content, err := describeContent(r.Takes, schemas)
		if err != nil {
			return nil, err
		}
		operation["requestBody"] = object{"required": true, "content": content}
	}
	return operation, nil
}

// describeResponses describes what a route answers, problems by their names, and every
// other problem as one.
func describeResponses(r *api.Route, schemas huma.Registry) (object, error) {
	responses := object{}
	for _, answer := range r.Answers {
		one := object{"description": answer.Doc}
		if len(answer.Content) > 0 {
			content, err := describeContent(answer.Content, schemas)
			if err != nil {
				return nil, err
			}
			one["content"] = content
		}
		headers := object{}
		for _, header := range answer.Headers {
			schema, err := read(header.Schema)
			if err != nil {
				return nil, err
			}
			headers[header.Name] = object{"description": header.Doc, "schema": schema}
		}
		if len(headers) > 0 {
			one["headers"] = headers
		}
		responses[strconv.Itoa(answer.Status)] = one
	}
	schemas.Schema(reflect.TypeFor[api.Problem](), true, "")
	for _, name := range append(r.Problems, entry.RateLimited) {
		t, _ := api.Explain(string(name))
		status := strconv.Itoa(t.Status)
		if known, ok := responses[status].(object); ok {
			known["description"] = fmt.Sprint(known["description"], " · ", name)
			continue
		}
		one := problem(string(name))
		if t.Status == http.StatusTooManyRequests || t.Status == http.StatusServiceUnavailable {
			one["headers"] = object{"Retry-After": object{"description": "seconds", "schema": object{"type": "integer"}}}
		}
		responses[status] = one
	}
	responses["default"] = problem("any other problem")
	return responses, nil
}

func problem(description string) object {
	return object{"description": description, "content": object{api.MediaProblem: object{"schema": object{"$ref": "#/components/schemas/Problem"}}}}
}

// describeContent describes the forms of a body.
func describeContent(forms []api.Content, schemas huma.Registry) (object, error) {
	content := object{}
	for i := range forms {
		schema, err := read(forms[i].Schema.JSON)
		if err != nil {
			return nil, err
		}
		one := object{"schema": schema}
		if forms[i].Example != "" {
			if one["example"], err = read(forms[i].Example); err != nil {
				return nil, err
			}
		}
		for _, t := range forms[i].Schema.Uses {
			schemas.Schema(t, true, "")
		}
		content[forms[i].MediaType] = one
	}
	return content, nil
}

func read(text string) (value any, err error) {
	err = json.Unmarshal([]byte(text), &value)
	return value, err
}

// encoded returns the schemas of the Go types, of cases, traces, questions and decisions.
func encoded(schemas huma.Registry) (object, error) {
	for _, schema := range schemas.Map() {
		for _, member := range schema.Properties {
			member.Nullable = false // the encoder writes empty arrays, never null
		}
	}
	data, err := json.Marshal(schemas.Map())
	if err != nil {
		return nil, err
	}
	all := object{}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	for name, text := range map[string][]byte{"Case": scenario.CaseSchema(), "Trace": engine.Schema("trace"), "Question": ask.Schema("question"), "Decision": ask.Schema("decision")} {
		inner := strings.ReplaceAll(string(text), `"#/$defs/`, `"#/components/schemas/`+name+`/$defs/`)
		schema := object{}
		if err := json.Unmarshal([]byte(inner), &schema); err != nil {
			return nil, fmt.Errorf("schema %s: %w", name, err)
		}
		delete(schema, "$schema")
		all[name] = schema
	}
	for _, text := range [][3]string{{"Recovery", "trace", "Trace"}, {"RecoveryLine", "trace", "Trace"}, {"Decided", "decision", "Decision"}} {
		if members := member(all, text[0], "properties"); members != nil { // it is text to Go
			members[text[1]] = object{"$ref": "#/components/schemas/" + text[2]}
		}
	}
	return all, nil
}

// member walks down objects; nil where there is none.
func member(value object, names ...string) object {
	for _, name := range names {
		value, _ = value[name].(object)
	}
	return value
}
