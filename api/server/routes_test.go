package server

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"recoveryledger/api"
	"recoveryledger/api/metrics"
	"recoveryledger/ledger/entry"
)

// A server whose handlers are not those of the routes does not start.
func TestBind(t *testing.T) {
	s := &Server{metrics: metrics.New()}
	want := s.handlers()
	if err := bind(echo.New(), api.Routes(), maps.Clone(want)); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		lacking := maps.Clone(want)
		delete(lacking, name)
		if err := bind(echo.New(), api.Routes(), lacking); err == nil || !strings.Contains(err.Error(), "route "+name+" has no handler") {
			t.Errorf("without the handler of %s: %v", name, err)
		}
	}
	more := maps.Clone(want)
	more["teapot"] = want["log"]
	if err := bind(echo.New(), api.Routes(), more); err == nil || !strings.Contains(err.Error(), "teapot") {
		t.Errorf("with a handler too many: %v", err)
	}
}

// The parameter state and the OpenAPI document have the states that the fold knows.
// Draft: INC-9.
func TestIncidentStates(t *testing.T) {
	var want []string
	for _, s := range entry.IncidentStates() {
		want = append(want, string(s))
	}
	if got := api.IncidentChoices(); !slices.Equal(got[3:], want) {
		t.Errorf("%v, want %v", got, want)
	}
	field, _ := reflect.TypeFor[api.Incident]().FieldByName("State")
	if got := field.Tag.Get("enum"); got != strings.Join(want, ",") {
		t.Errorf("the document has %s, want %v", got, want)
	}
}
