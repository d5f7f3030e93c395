//go:build unix

package main

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rogpeppe/go-internal/testscript"
)

// scales make the alerts of docs/operations as fast as a drill: the expressions are the same, and
// times and thresholds are smaller. What fires them is the fault itself.
var scales = []struct{ from, to string }{
	{`\bfor: \d+m`, "for: 0s"}, {`\[(15|5)m\]`, "[4s]"}, {`> 900\b`, "> 0.5"}, {`> 300\b`, "> 0.5"}, {`> 60\b`, "> 0.5"}, {`> 0\.5$`, "> 0.1"},
	{`> 172800\b`, "> 15"}, {`< 900\b`, "< 20"},
}

// prometheusConfig scrapes the ledger of a script. Its target is in a file, since a ledger that is
// started again has another port.
const prometheusConfig = `
global: { scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms }
rule_files: [rules.yaml]
scrape_configs:
  - job_name: arl
    file_sd_configs: [{ files: [targets.json], refresh_interval: 1s }]
`

// prometheusKey is where a script has the URL of its Prometheus.
const prometheusKey = "PROMETHEUS"

// scriptCondition says whether a condition of a script holds.
func scriptCondition(condition string) (bool, error) {
	if condition == "disk" {
		return canMount()
	}
	if condition != "prometheus" {
		return false, fmt.Errorf("no condition %q: scripts know [prometheus] and [disk]", condition)
	}
	for _, program := range []string{"promtool", "prometheus"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") != "" {
				return false, fmt.Errorf("missing: %s: install the package prometheus", program)
			}
			return false, nil
		}
	}
	return true, nil
}

// scriptPrometheus starts a real Prometheus, which scrapes the ledger of the script and evaluates
// the alerts of docs/operations. It returns when each rule is evaluated without an error, each
// metric that a rule reads has data, and each node of a cluster is scraped. The metrics of a
// cluster and of an index have data only where there is one.
func scriptPrometheus(ts *testscript.TestScript, _ bool, _ []string) {
	rules, err := os.ReadFile(filepath.FromSlash("../../docs/operations/alerts.yaml"))
	ts.Check(err)
	for _, s := range scales {
		rules = regexp.MustCompile("(?m)"+s.from).ReplaceAll(rules, []byte(s.to))
	}
	dir := filepath.Join(ts.Getenv("WORK"), "prometheus")
	ts.Check(os.MkdirAll(dir, 0o700))
	ts.Check(os.WriteFile(filepath.Join(dir, "rules.yaml"), rules, 0o600))
	ts.Check(os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(prometheusConfig), 0o600))
	address := ownAddress(ts)
	ts.Setenv(prometheusKey, "http://"+address)
	aim(ts)
	process := exec.Command("prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--log.level=warn")
	var stderr strings.Builder
	process.Stderr = &stderr
	ts.Check(process.Start())
	ts.Defer(func() {
		_ = process.Process.Kill() // it may have ended by itself
		_ = process.Wait()
	})
	names := slices.Compact(slices.Sorted(slices.Values(regexp.MustCompile(`\barl_[a-z0-9_]+`).FindAllString(string(rules), -1))))
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "arl_index_") })
	if all := members(ts); len(all) == 0 {
		names = slices.DeleteFunc(names, ofCluster)
	} else {
		names = append(names, fmt.Sprintf("count(up) == %d and count(up) == sum(up)", len(all)))
	}
	if !waitFor(time.Minute, func() bool {
		return evaluated(ts) && slices.IndexFunc(names, func(name string) bool { return !hasData(ts, name) }) < 0
	}) {
		ts.Fatalf("Prometheus does not evaluate the rules: %s", stderr.String())
	}
}

// ofCluster reports whether a query reads a metric that a ledger of one node does not have.
func ofCluster(query string) bool { return strings.Contains(query, "arl_cluster_") }

// members returns the nodes of the cluster of a script, by their directories.
func members(ts *testscript.TestScript) map[string]*scriptServer {
	all, _ := ts.Value(membersKey{}).(map[string]*scriptServer)
	return all
}

// aim points Prometheus at the ledger that runs now, or at the nodes of the cluster: each as it ran
// last.
func aim(ts *testscript.TestScript) {
	at := map[string]string{}
	for name, one := range members(ts) {
		at[name] = one.listen
	}
	if len(at) == 0 {
		at["ledger"] = strings.TrimPrefix(ts.Getenv("URL"), "http://")
	}
	var targets []string
	for _, name := range slices.Sorted(maps.Keys(at)) {
		targets = append(targets, fmt.Sprintf(`{"targets": [%q], "labels": {"instance": %q}}`, at[name], name))
	}
	target := "[" + strings.Join(targets, ",\n") + "]"
	path := filepath.Join(ts.Getenv("WORK"), "prometheus", "targets.json")
	ts.Check(os.WriteFile(path+".new", []byte(target), 0o600))
	ts.Check(os.Rename(path+".new", path))
}

// askEvery is the time between two questions of a drill that waits. A drill that asks without a
// pause takes the processors from the processes that it waits for.
const askEvery = 50 * time.Millisecond

// waitFor asks every [askEvery] whether something is so, until limit is over.
func waitFor(limit time.Duration, so func() bool) bool {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for end := time.Now().Add(limit); time.Now().Before(end); <-tick.C {
		if so() {
			return true
		}
	}
	return false
}

// ask decodes the data of an answer of Prometheus; false: it does not answer, or not yet.
func ask(ts *testscript.TestScript, path string, data any) bool {
	response, err := http.Get(ts.Getenv(prometheusKey) + path)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	answer := struct {
		Data any `json:"data"`
	}{data}
	return response.StatusCode == http.StatusOK && json.UnmarshalRead(response.Body, &answer) == nil
}

// evaluated reports whether Prometheus has evaluated every rule, without an error.
func evaluated(ts *testscript.TestScript) bool {
	var data struct {
		Groups []struct {
			Rules []struct {
				Health string `json:"health"`
			} `json:"rules"`
		} `json:"groups"`
	}
	if !ask(ts, "/api/v1/rules", &data) || len(data.Groups) == 0 {
		return false
	}
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			if r.Health != "ok" {
				return false
			}
		}
	}
	return true
}

// hasData reports whether a query has an answer with a number. Prometheus answers NaN where
// nothing was counted.
func hasData(ts *testscript.TestScript, query string) bool {
	var data samples
	return ask(ts, "/api/v1/query?query="+url.QueryEscape(query), &data) && data.number()
}

// samples are the answer of Prometheus to a query.
type samples struct {
	Result []struct {
		Value [2]any `json:"value"` // the time, and the value as text
	} `json:"result"`
}

func (s *samples) number() bool {
	for _, one := range s.Result {
		text, _ := one.Value[1].(string)
		if value, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(value) && !math.IsInf(value, 0) {
			return true
		}
	}
	return false
}

// TestNaNIsNoData: a panel whose query answers NaN shows nothing.
func TestNaNIsNoData(t *testing.T) {
	for answer, want := range map[string]bool{
		`{"result": []}`: false,
		`{"result": [{"metric": {}, "value": [1, "NaN"]}]}`:                                              false,
		`{"result": [{"metric": {}, "value": [1, "+Inf"]}]}`:                                             false,
		`{"result": [{"metric": {}, "value": [1, "NaN"]}, {"metric": {"a": "b"}, "value": [1, "0.5"]}]}`: true,
	} {
		var data samples
		if err := json.Unmarshal([]byte(answer), &data); err != nil {
			t.Fatal(err)
		}
		if data.number() != want {
			t.Errorf("%s: %t", answer, !want)
		}
	}
}

// scriptAlert waits until an alert fires, or is over. A label, as name=value, says which of the
// alerts with this name is meant.
func scriptAlert(ts *testscript.TestScript, _ bool, args []string) {
	aim(ts)
	name, want := args[0], args[1] == "fires"
	if !want && args[1] != "over" {
		ts.Fatalf("alert NAME fires|over, not %s", args[1])
	}
	label, value, _ := strings.Cut(strings.Join(args[2:], " "), "=")
	so := waitFor(time.Minute, func() bool {
		var data struct {
			Alerts []struct {
				Labels map[string]string `json:"labels"`
				State  string            `json:"state"`
			} `json:"alerts"`
		}
		if !ask(ts, "/api/v1/alerts", &data) {
			return false
		}
		firing := false
		for _, a := range data.Alerts {
			firing = firing || a.Labels["alertname"] == name && a.Labels[label] == value && a.State == "firing"
		}
		return firing == want
	})
	if !so {
		ts.Fatalf("%s: not %s", name, args[1:])
	}
}

// scriptScraped waits until Prometheus has scraped the ledger that runs now: a counter that grows
// before the first scrape does not grow for Prometheus.
func scriptScraped(ts *testscript.TestScript, _ bool, _ []string) {
	aim(ts)
	const began = "process_start_time_seconds"
	want := number(ts, readSample(ts, ts.Getenv("URL")+"/metrics", began))
	if !waitFor(time.Minute, func() bool { return hasData(ts, fmt.Sprintf("%s == %f", began, want)) }) {
		ts.Fatalf("Prometheus does not scrape the ledger that began at %f", want)
	}
}

// zeroIsRight are the queries that answer 0 at a ledger that works, though all happened that the
// script of the dashboards makes.
var zeroIsRight = map[string]string{
	`sum by (invariant) (increase(arl_invariant_violations_total[1h]))`: "nobody breaks an invariant; watched_invariants breaks them",
	`arl_approvals_oldest_seconds`:                                      "every proposal is answered",
	`arl_incidents_not_fenced`:                                          "the coordinator fences at once",
	`arl_incidents_unacknowledged`:                                      "approvers answer in time",
	`arl_anchor_lag_entries`:                                            "the anchor follows each commit",
	`arl_fold_lag_entries`:                                              "a reader takes up what there is",
	`increase(arl_connections_refused_total[5m])`:                       "few connections are open",
	`arl_clock_offset_seconds`:                                          "the clock of the machine is right",
	`arl_lanes_narrow`:                                                  "no client has too many entries refused in a row",
	`arl_lanes_waiting`:                                                 "there is no narrow lane",
	`increase(arl_cluster_overtaken_total[1h])`:                         "the lead does not change",
}

// scriptDashboards waits until every query of the dashboards, and every recording rule, has an
// answer with a number that is not 0. 0 will do for those of [zeroIsRight]. In a script with a
// cluster these are the queries about a cluster, and in another one all others.
func scriptDashboards(ts *testscript.TestScript, _ bool, _ []string) {
	files, err := filepath.Glob(filepath.FromSlash("../../docs/operations/dashboards/*.json"))
	ts.Check(err)
	var queries []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		ts.Check(err)
		var board struct {
			Panels []struct {
				Targets []struct {
					Expr string `json:"expr"`
				} `json:"targets"`
			} `json:"panels"`
		}
		ts.Check(json.Unmarshal(content, &board))
		for _, p := range board.Panels {
			for _, target := range p.Targets {
				queries = append(queries, target.Expr)
			}
		}
	}
	rules, err := os.ReadFile(filepath.FromSlash("../../docs/operations/alerts.yaml"))
	ts.Check(err)
	for _, match := range regexp.MustCompile(`(?m)^ +- record: (\S+)$`).FindAllStringSubmatch(string(rules), -1) {
		queries = append(queries, match[1])
	}
	if len(queries) < 42 {
		ts.Fatalf("the dashboards have %d queries", len(queries))
	}
	for query := range zeroIsRight {
		if !slices.Contains(queries, query) {
			ts.Fatalf("no dashboard asks %s", query)
		}
	}
	cluster := len(members(ts)) > 0
	queries = slices.DeleteFunc(queries, func(query string) bool { return ofCluster(query) != cluster })
	if cluster && len(queries) < 8 {
		ts.Fatalf("the dashboards have %d queries about a cluster", len(queries))
	}
	waitFor(time.Minute, func() bool {
		queries = slices.DeleteFunc(queries, func(query string) bool {
			if zeroIsRight[query] == "" {
				query = "(" + query + ") != 0"
			}
			return hasData(ts, query)
		})
		return len(queries) == 0
	})
	if len(queries) > 0 {
		ts.Fatalf("no data, or nothing but 0: %q", queries)
	}
}
