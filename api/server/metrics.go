package server

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"recoveryledger/coord"
	"recoveryledger/coord/coordinator"
	"recoveryledger/ledger"
	"recoveryledger/ledger/entry"
)

// Metrics are the metrics of GET /metrics. One Metrics serves one ledger and its server.
type Metrics struct {
	registry *prometheus.Registry
	watching atomic.Bool // whether the metrics show a coordinator

	// Of HTTP.
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	refusals *prometheus.CounterVec
	gone     prometheus.Counter
	streams  prometheus.Gauge

	// Of connections.
	connections prometheus.Gauge
	closed      prometheus.Counter

	// Of the log, for all writers.
	entries map[entry.Kind]prometheus.Counter
	size    prometheus.Gauge
	commits prometheus.Histogram
	batches prometheus.Histogram
	rebuilt prometheus.Counter
}

// NewMetrics returns new metrics of a ledger, with the metrics of the process.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "arl_http_requests_total", Help: "Requests answered.",
		}, []string{"method", "route", "code"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "arl_http_request_seconds", Help: "Time from a request's header to the end of its answer.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 3, 11),
		}, []string{"route"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "arl_refusals_total", Help: "Refusals by problem type, or by HTTP status where there is none.",
		}, []string{"problem"}),
		gone: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "arl_clients_gone_total", Help: "Requests whose client went away before the answer was whole.",
		}),
		streams:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "arl_event_streams", Help: "Event streams open."}),
		connections: prometheus.NewGauge(prometheus.GaugeOpts{Name: "arl_connections", Help: "Connections open."}),
		closed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "arl_connections_refused_total", Help: "Connections closed at once, because too many were open.",
		}),
		entries: map[entry.Kind]prometheus.Counter{},
		size:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "arl_log_size", Help: "Entries in the log."}),
		commits: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "arl_commit_seconds", Help: "Time of a commit's write and sync.",
			Buckets: prometheus.ExponentialBuckets(0.00005, 3, 11),
		}),
		batches: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "arl_commit_entries", Help: "Entries made durable by one commit.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 13),
		}),
		rebuilt: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "arl_snapshots_damaged_total", Help: "Damaged snapshots of the state since the start; the ledger rebuilt the state from the log.",
		}),
	}
	kinds := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "arl_entries_total", Help: "Entries added since the start, by kind.",
	}, []string{"kind"})
	for _, kind := range entry.Kinds() {
		m.entries[kind] = kinds.WithLabelValues(string(kind))
	}
	m.registry.MustRegister(m.requests, m.latency, m.refusals, m.gone, m.streams, m.connections, m.closed, kinds, m.size, m.commits, m.batches, m.rebuilt,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// watch adds metrics that show the incidents, tasks and leases of a coordinator at the time of
// reading. Only the first call counts. now is the ledger's clock.
func (m *Metrics) watch(c *coordinator.Replica, now func() int64) {
	if m.watching.Swap(true) {
		return
	}
	states := func(of entry.TaskState) func() float64 {
		return func() (n float64) {
			c.Read(func(s *coord.State) { n = float64(s.TaskCounts()[of]) })
			return n
		}
	}
	for _, state := range entry.TaskStates() {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "arl_tasks", Help: "Tasks by state.", ConstLabels: prometheus.Labels{"state": string(state)},
		}, states(state)))
	}
	m.watchIncidents(c, now)
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "arl_incidents_not_fenced",
			Help: "Incidents that wait for a decision without a fence."},
			func() (n float64) {
				c.Read(func(s *coord.State) { n = float64(s.NotFenced(now())) })
				return n
			}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "arl_task_retries_total", Help: "Claims of tasks after failures, in the whole log."},
			func() (n float64) {
				c.Read(func(s *coord.State) { n = float64(s.TaskRetries()) })
				return n
			}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "arl_leases", Help: "Leases on tasks."},
			func() float64 { held, _ := c.Leases().Counts(); return float64(held) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "arl_leases_lost_total", Help: "Leases lost since the start."},
			func() float64 { _, lost := c.Leases().Counts(); return float64(lost) }))
}

// Opened counts the repairs of the log at its opening.
func (m *Metrics) Opened(l *ledger.Log) {
	if l.SnapshotDamage() != nil {
		m.rebuilt.Inc()
	}
}

// watchIncidents adds metrics that show the state of incidents at the time of reading.
func (m *Metrics) watchIncidents(c *coordinator.Replica, now func() int64) {
	for state := coord.Reported; state <= coord.Failed; state++ {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "arl_incidents", Help: "Incidents by state.", ConstLabels: prometheus.Labels{"state": state.String()},
		}, func() (n float64) {
			c.Read(func(s *coord.State) { states, _ := s.IncidentCounts(now()); n = float64(states[state]) })
			return n
		}))
	}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "arl_incidents_unacknowledged", Help: "Incidents with a proposal or amend that nobody answered in time and nobody acknowledged.",
	}, func() (n float64) {
		c.Read(func(s *coord.State) { _, count := s.IncidentCounts(now()); n = float64(count) })
		return n
	}))
}

// Commit counts a commit. It is meant for [ledger.Config].Observe.
func (m *Metrics) Commit(c ledger.Commit) {
	for _, e := range c.Entries {
		m.entries[e.Kind].Inc()
	}
	m.size.Set(float64(c.Size))
	m.commits.Observe(c.Took.Seconds())
	m.batches.Observe(float64(len(c.Entries)))
}

// request counts an answer.
func (m *Metrics) request(method, route string, status int, took time.Duration) {
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodHead:
	default:
		method = "other" // a client may make up methods
	}
	m.requests.WithLabelValues(method, route, strconv.Itoa(status)).Inc()
	m.latency.WithLabelValues(route).Observe(took.Seconds())
}

func (m *Metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
