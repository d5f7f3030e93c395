package metrics

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"recoveryledger/coord"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
)

// Metrics are the metrics of one ledger and its server. They are safe for concurrent use.
type Metrics struct {
	registry   *prometheus.Registry
	counters   map[string]*prometheus.CounterVec
	gauges     map[string]*prometheus.GaugeVec
	histograms map[string]*prometheus.HistogramVec
	pulled     map[string]pulled
	entries    map[entry.Kind]prometheus.Counter

	// mu guards sources: by name, so that a source is there once.
	mu      sync.Mutex
	sources map[string]source

	follower follower
	away     away
	reads    atomic.Uint64
}

// pulled is a metric whose value is asked for at the time of reading.
type pulled struct {
	desc *prometheus.Desc
	of   prometheus.ValueType
}

// emit takes a value of a metric that is read, with the values of its labels.
type emit func(name string, value float64, labels ...string)

// source emits the values of metrics at the time of reading.
type source func(emit emit)

// New returns new metrics of a ledger, with the metrics of the process.
func New() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(), counters: map[string]*prometheus.CounterVec{}, gauges: map[string]*prometheus.GaugeVec{},
		histograms: map[string]*prometheus.HistogramVec{}, pulled: map[string]pulled{}, entries: map[entry.Kind]prometheus.Counter{},
		sources: map[string]source{},
	}
	m.follower = follower{metrics: m, rules: new(coord.Rules), authorizedAt: map[uint64]int64{}, stated: map[entry.Ref]bool{}}
	for _, metric := range Catalogue() {
		m.define(&metric)
	}
	for _, class := range entry.Classes() { // the codes depend on the class, so that define does not know the series
		for _, code := range append(entry.Codes(class), other) {
			for _, source := range failureSources {
				m.counter("arl_failures_total", source, class, code)
			}
		}
	}
	for _, kind := range entry.Kinds() {
		m.entries[kind] = m.counter("arl_entries_total", string(kind))
	}
	m.add("keys", m.away.read)
	m.registry.MustRegister(collector{m}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// define makes a metric of the catalogue. A counter whose labels have fixed values has all of its
// series from the start, at 0. A rate over a series that appears with its first value would miss
// that value.
func (m *Metrics) define(metric *Metric) {
	labels, complete := make([]string, len(metric.Labels)), true
	series := [][]string{nil}
	for i := range metric.Labels {
		l := &metric.Labels[i]
		labels[i] = l.Name
		complete = complete && len(l.Values) > 0
		var longer [][]string
		for _, before := range series {
			for _, value := range l.Values {
				longer = append(longer, append(slices.Clone(before), value))
			}
		}
		series = longer
	}
	if !complete {
		series = nil
	}
	switch {
	case metric.pulled:
		of := prometheus.GaugeValue
		if metric.Type == Counter {
			of = prometheus.CounterValue
		}
		m.pulled[metric.Name] = pulled{prometheus.NewDesc(metric.Name, metric.Meaning, labels, nil), of}
	case metric.Type == Counter:
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: metric.Name, Help: metric.Meaning}, labels)
		m.counters[metric.Name] = v
		m.registry.MustRegister(v)
		for _, values := range series {
			v.WithLabelValues(values...)
		}
	case metric.Type == Gauge:
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: metric.Name, Help: metric.Meaning}, labels)
		m.gauges[metric.Name] = v
		m.registry.MustRegister(v)
		for _, values := range series {
			v.WithLabelValues(values...)
		}
	default:
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: metric.Name, Help: metric.Meaning, Buckets: metric.buckets}, labels)
		m.histograms[metric.Name] = v
		m.registry.MustRegister(v)
		for _, values := range series {
			v.WithLabelValues(values...)
		}
	}
}

func (m *Metrics) counter(name string, labels ...string) prometheus.Counter {
	return m.counters[name].WithLabelValues(labels...)
}

func (m *Metrics) histogram(name string, labels ...string) prometheus.Observer {
	return m.histograms[name].WithLabelValues(labels...)
}

// add adds a source. Only the first source of a name counts.
func (m *Metrics) add(name string, s source) (first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sources[name] != nil {
		return false
	}
	m.sources[name] = s
	return true
}

// collector reads the sources.
type collector struct{ m *Metrics }

// Describe implements [prometheus.Collector].
func (c collector) Describe(descs chan<- *prometheus.Desc) {
	for _, p := range c.m.pulled {
		descs <- p.desc
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(values chan<- prometheus.Metric) {
	c.m.mu.Lock()
	sources := slices.Collect(maps.Values(c.m.sources))
	c.m.mu.Unlock()
	for _, read := range sources {
		read(func(name string, value float64, labels ...string) {
			p := c.m.pulled[name]
			values <- prometheus.MustNewConstMetric(p.desc, p.of, value, labels...)
		})
	}
}

// Handler answers with the metrics, in the text format of Prometheus or in OpenMetrics.
func (m *Metrics) Handler() http.Handler {
	all := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.reads.Add(1)
		all.ServeHTTP(w, r)
	})
}

// Reads returns how often the metrics were read.
func (m *Metrics) Reads() uint64 { return m.reads.Load() }

// Final returns a handler that answers with the metrics as they are now, also when the ledger is
// closed.
func (m *Metrics) Final() http.Handler {
	families, err := m.registry.Gather()
	return promhttp.HandlerFor(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return families, err }), promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// Commit counts a commit. It is meant for [ledger.Config].Observe.
func (m *Metrics) Commit(c ledger.Commit) {
	for _, e := range c.Entries {
		m.entries[e.Kind].Inc()
	}
	m.histogram("arl_commit_seconds").Observe(c.Took.Seconds())
	m.histogram("arl_commit_entries").Observe(float64(len(c.Entries)))
}

// opened counts the repairs of the log at its opening.
func (m *Metrics) opened(l *ledger.Log) {
	if l.SnapshotDamage() != nil {
		m.counter("arl_snapshots_damaged_total").Inc()
	}
}

// Submitted counts what one request submitted, by its outcome.
func (m *Metrics) Submitted(outcome string, took time.Duration) {
	m.histogram("arl_submission_seconds", outcome).Observe(took.Seconds())
}

// Request counts an answer to a request of a route.
func (m *Metrics) Request(method, route string, status int, took time.Duration) {
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodHead:
	default:
		method = other // a client may make up methods
	}
	m.counter("arl_http_requests_total", method, route, strconv.Itoa(status)).Inc()
	m.histogram("arl_http_request_seconds", route).Observe(took.Seconds())
}

// Refused counts a refusal by its problem, or by its HTTP status where there is none.
func (m *Metrics) Refused(problem string) {
	m.counter("arl_refusals_total", problem).Inc()
	switch problem {
	case string(entry.BadSignature):
		m.Violated(Forged)
	case string(entry.ScopeExceedsPolicy):
		m.Violated(BeyondLimits)
	}
}

// Violated counts a violation of an invariant.
func (m *Metrics) Violated(i Invariant) { m.counter("arl_invariant_violations_total", string(i)).Inc() }

// Damaged counts the error of a reader that the log's database cannot answer: a missing entry is
// lost, and other damage is a corrupt read. It counts no other error.
func (m *Metrics) Damaged(err error) {
	switch {
	case errors.Is(err, ledger.ErrMissing):
		m.Violated(Lost)
	case errors.Is(err, ledger.ErrCorrupt):
		m.Violated(CorruptRead)
	}
}

// Gone counts a client that went away before its answer was whole.
func (m *Metrics) Gone() { m.counter("arl_clients_gone_total").Inc() }

// Streams is the number of open event streams.
func (m *Metrics) Streams() prometheus.Gauge { return m.gauges["arl_event_streams"].WithLabelValues() }

// Connections is the number of open connections.
func (m *Metrics) Connections() prometheus.Gauge {
	return m.gauges["arl_connections"].WithLabelValues()
}

// ConnectionsRefused counts the connections that were closed because too many were open.
func (m *Metrics) ConnectionsRefused() prometheus.Counter {
	return m.counter("arl_connections_refused_total")
}
