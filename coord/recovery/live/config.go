package live

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"

	"recoveryledger/coord/recovery"
	"recoveryledger/coord/recovery/scenario"
	"recoveryledger/ledger/process"
)

// Config says what a live run may call.
type Config struct {
	// Models are the models by the names that scenario and policy give them.
	Models map[string]Endpoint `json:"models"`
	// DefaultModel is the model of steps that name no model.
	DefaultModel string `json:"default_model"`
	// Tools are the tools by the names of the steps.
	Tools map[string]Tool `json:"tools"`

	// LookupEnv reads a variable of the environment; nil: the environment of the process.
	LookupEnv func(name string) (string, bool) `json:"-"`
}

// Endpoint is a model at an endpoint in the form of OpenAI's chat completions.
type Endpoint struct {
	// BaseURL is what stands before /chat/completions.
	BaseURL string `json:"base_url"`
	// Model is what the endpoint calls it; empty: its name here.
	Model string `json:"model"`
	// KeyEnv names the environment variable with the API key; empty: no key is sent.
	KeyEnv string `json:"key_env"`
	// TimeoutMS bounds a call; 0 is two minutes.
	TimeoutMS int64 `json:"timeout_ms"`
	// Concurrency bounds the calls at once; 0: no bound.
	Concurrency int64 `json:"concurrency"`
	// Before and Instead are those of [Tool].
	Before  map[string]Call   `json:"before"`
	Instead map[string]string `json:"instead"`
}

// Tool is a tool: a request over HTTP or a process.
type Tool struct {
	Call
	// Envelope says that an answer is {output, status, reason, effects,
	// confidence_ppm, citations, error}; else all of it is the output.
	Envelope bool `json:"envelope"`
	// Concurrency bounds the calls at once; 0: no bound.
	Concurrency int64 `json:"concurrency"`
	// Probe asks the authoritative state whether the effect of a step took
	// place. It answers {effects: none | complete | unknown, output}, has no
	// effect itself, and is repeated when it cannot be reached.
	Probe *Call `json:"probe"`
	// Before is called before an attempt with a variation, by the variant of retry_altered or by
	// the strategy. It may answer {input}.
	Before map[string]Call `json:"before"`
	// Instead is the tool that is called in place of this one, by the same
	// names.
	Instead map[string]string `json:"instead"`
}

// Call is one request over HTTP or one process. Both get a JSON object with
// the input of the step (docs/scenario.md), in the body or on standard input.
type Call struct {
	// URL is where the request goes, with Method, POST by default.
	URL    string `json:"url"`
	Method string `json:"method"`
	// Headers are sent as they are, HeaderEnv with the values of environment
	// variables.
	Headers   map[string]string `json:"headers"`
	HeaderEnv map[string]string `json:"header_env"`

	// Command is a program and its arguments; no shell reads them. Dir is its
	// working directory, Env names the variables of the environment that it
	// gets beside PATH and ARL_….
	Command []string `json:"command"`
	Dir     string   `json:"dir"`
	Env     []string `json:"env"`

	// Raw sends only the input of the step, without the object around the input.
	Raw bool `json:"raw"`
	// TimeoutMS bounds the call; 0 is two minutes.
	TimeoutMS int64 `json:"timeout_ms"`
}

// DecodeConfig reads the configuration of a live run from YAML. The name stands
// in errors.
func DecodeConfig(name string, doc []byte) (*Config, error) {
	var c Config
	wrong := scenario.Document{What: "a live configuration", Help: "write models and tools as docs/scenario.md describes them", BytesMax: configBytesMax}.DecodeYAML(doc, &c)
	if wrong == nil {
		if wrong = c.check(); wrong != nil {
			wrong.Line = scenario.LineInYAML(doc, wrong.Field)
		}
	}
	if wrong != nil {
		wrong.File = name
		return nil, wrong
	}
	return &c, nil
}

// check refuses what cannot be called.
func (c *Config) check() *scenario.Error {
	if c.DefaultModel != "" {
		if _, ok := c.Models[c.DefaultModel]; !ok {
			return scenario.Malformed("/default_model", fmt.Sprintf("%q is not one of the models", c.DefaultModel), "name one of models")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		m, known := c.Models[name], func(other string) bool { _, ok := c.Models[other]; return ok }
		wrong := scenario.FirstOf(scenario.CheckName("", name), checkURL("/base_url", m.BaseURL), scenario.CheckCount("/timeout_ms", &m.TimeoutMS), checkPlaces(m.Concurrency),
			checkVariations(m.Before, m.Instead, known))
		if wrong != nil {
			return scenario.Prefixed("/models/"+name, wrong)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		t, known := c.Tools[name], func(other string) bool { _, ok := c.Tools[other]; return ok }
		wrong := scenario.FirstOf(scenario.CheckSize("", name, scenario.ToolMax), t.check(), checkPlaces(t.Concurrency), checkVariations(t.Before, t.Instead, known))
		if t.Probe != nil {
			wrong = scenario.FirstOf(wrong, scenario.Prefixed("/probe", t.Probe.check()))
		}
		if wrong != nil {
			return scenario.Prefixed("/tools/"+name, wrong)
		}
	}
	return nil
}

// checkVariations refuses names of variations that no policy uses.
func checkVariations(before map[string]Call, instead map[string]string, known func(string) bool) *scenario.Error {
	for _, key := range slices.Sorted(maps.Keys(before)) {
		call := before[key]
		if wrong := scenario.FirstOf(checkVariation("/before/"+key, key), scenario.Prefixed("/before/"+key, call.check())); wrong != nil {
			return wrong
		}
	}
	for _, key := range slices.Sorted(maps.Keys(instead)) {
		if wrong := checkVariation("/instead/"+key, key); wrong != nil {
			return wrong
		}
		if !known(instead[key]) {
			return scenario.Malformed("/instead/"+key, fmt.Sprintf("names %.60q, which this file does not configure", instead[key]), "name a tool or model of this file")
		}
	}
	return nil
}

// checkVariation refuses a name that is neither a variant nor a strategy that executes
// a step again in another way.
func checkVariation(field, key string) *scenario.Error {
	var names []string
	for _, v := range recovery.Variants() {
		names = append(names, string(v))
	}
	for _, s := range []recovery.Strategy{recovery.StateReset, recovery.FailReassign, recovery.CheckpointResume} {
		names = append(names, string(s))
	}
	return scenario.OneOf(names...)(field, key)
}

func (c *Call) check() *scenario.Error {
	if wrong := scenario.CheckCount("/timeout_ms", &c.TimeoutMS); wrong != nil {
		return wrong
	}
	switch {
	case (c.URL == "") == (len(c.Command) == 0):
		return scenario.Malformed("", "needs either url or command", "write one of the two")
	case c.URL != "":
		if _, err := http.NewRequest(c.Method, "", nil); err != nil { //nolint:noctx // nothing is sent
			return scenario.Malformed("/method", fmt.Sprintf("%.60q is not a method", c.Method), "write a method such as POST, or leave it out")
		}
		return checkURL("/url", c.URL)
	}
	if c.Dir != "" {
		if info, err := os.Stat(c.Dir); err != nil || !info.IsDir() {
			return scenario.Malformed("/dir", fmt.Sprintf("%.100q is not a directory", c.Dir), "name an existing directory")
		}
	}
	if _, err := exec.LookPath(process.Program(c.Command[0], c.Dir)); err != nil {
		return scenario.Malformed("/command", fmt.Sprintf("%.60q is not a program: %v", c.Command[0], errors.Unwrap(err)), "name a program that is installed, or its path")
	}
	return nil
}

func checkURL(field, text string) *scenario.Error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return scenario.Malformed(field, fmt.Sprintf("%.100q is not an address", text), "write an address that begins with https:// or http://")
	}
	if u.User != nil {
		return scenario.Malformed(field, "holds a password", "pass the password in the environment, with header_env or key_env")
	}
	return nil
}

func checkPlaces(n int64) *scenario.Error {
	const most = 10_000
	if n < 0 || n > most {
		return scenario.Malformed("/concurrency", fmt.Sprintf("is %d", n), fmt.Sprintf("write 0 to %d", most))
	}
	return nil
}

// checkEnvironment refuses a configuration that takes something from a variable
// which is not set: it would be missed only after others had been called.
func (l *Runtime) checkEnvironment() *scenario.Error {
	variables := map[string]string{} // by field
	call := func(field string, c *Call) {
		for header, variable := range c.HeaderEnv {
			variables[field+"/header_env/"+header] = variable
		}
	}
	ways := func(field string, before map[string]Call) {
		for key, c := range before {
			call(field+"/before/"+key, &c)
		}
	}
	for name, m := range l.config.Models {
		if m.KeyEnv != "" {
			variables["/models/"+name+"/key_env"] = m.KeyEnv
		}
		ways("/models/"+name, m.Before)
	}
	for name, t := range l.config.Tools {
		call("/tools/"+name, &t.Call)
		ways("/tools/"+name, t.Before)
		if t.Probe != nil {
			call("/tools/"+name+"/probe", t.Probe)
		}
	}
	for _, field := range slices.Sorted(maps.Keys(variables)) {
		if _, ok := l.config.LookupEnv(variables[field]); !ok {
			return scenario.Malformed(field, fmt.Sprintf("the environment has no %.60s", variables[field]), "export the variable, or remove the line that names it")
		}
	}
	return nil
}

// environment is what a process gets: PATH, the named variables, and ours.
func (l *Runtime) environment(names []string, own ...string) []string {
	var all []string
	for _, name := range append([]string{"PATH"}, names...) {
		if value, ok := l.config.LookupEnv(name); ok && !strings.HasPrefix(name, "ARL_") {
			all = append(all, name+"="+value)
		}
	}
	return append(all, own...)
}
