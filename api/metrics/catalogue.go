// Package metrics has the metrics of a ledger: [Catalogue] says what they are, and [Metrics] counts
// them for one ledger. A metric that the catalogue does not have cannot be counted.
//
// Names follow Prometheus and OpenMetrics: the unit stands in the name, and a counter ends in
// _total. The values of every label are bounded, so that no client can make the number of series
// grow. No label names an agent, because agents come and go by the thousand.
package metrics

import (
	"slices"

	"recoveryledger/coord/recovery"
	"recoveryledger/ledger/entry"
)

// Type is the type of a metric, by the name that Prometheus gives it.
type Type string

// The types.
const (
	Counter   Type = "counter"   // since the start of the process, unless the meaning says otherwise
	Gauge     Type = "gauge"     // at the time of reading
	Histogram Type = "histogram" // since the start of the process
)

// Label is a label of a metric.
type Label struct {
	Name string `json:"name"`
	// Bound says which values the label can have.
	Bound string `json:"bound"`
	// Values are the values, if they are fixed.
	Values []string `json:"values,omitempty"`
}

// Metric is an entry of the catalogue.
type Metric struct {
	Name    string  `json:"name"`
	Type    Type    `json:"type"`
	Unit    string  `json:"unit"` // of its values; empty: a count of what the meaning names
	Labels  []Label `json:"labels"`
	Meaning string  `json:"meaning"`
	// Alerts are the alerts of docs/operations/alerts.yaml that read the metric.
	Alerts []string `json:"alerts,omitempty"`

	group   string    // of the document
	buckets []float64 // of a histogram
	pulled  bool      // whether its value is asked for at the time of reading
}

// other is the value of a label that stands for every value outside of the label's bound.
const other = "other"

// Catalogue returns all metrics in the order of the document.
func Catalogue() []Metric {
	all := slices.Concat(ofEntries(), ofLog(), ofCluster(), ofIncidents(), ofRecovery(), ofTasks(), ofInvariants(), ofHTTP(), ofProcess())
	for i := range all {
		all[i].Alerts = alerts[all[i].Name]
	}
	return all
}

// alerts are the alerts that read a metric, in ascending order.
var alerts = map[string][]string{
	"arl_approvals_oldest_seconds":   {"ArlApprovalsWait"},
	"arl_incidents_ended_total":      {"ArlNotUndone"},
	"arl_witnesses_failing":          {"ArlWitnessesDown"},
	"arl_witnessed_age_seconds":      {"ArlWitnessesDown"},
	"arl_incidents":                  {"ArlCoordinatorSilent"},
	"arl_decisions_total":            {"ArlCoordinatorSilent"},
	"arl_incidents_opened_total":     {"ArlFlood"},
	"arl_build_info":                 {"ArlDown"},
	"arl_disk_free_bytes":            {"ArlDiskAlmostFull"},
	"arl_disk_reserve_bytes":         {"ArlDiskAlmostFull"},
	"arl_disk_read_only":             {"ArlDiskReadOnly"},
	"arl_invariant_violations_total": {"ArlForged", "ArlInvariant"},
	"arl_key_away_seconds":           {"ArlKeyAway"},
	"arl_clock_offset_seconds":       {"ArlClockStepped"},
	"arl_backup_timestamp_seconds":   {"ArlBackupOld"},
	"arl_connections_refused_total":  {"ArlConnections"},
	"arl_rollouts_aborted_total":     {"ArlRolloutStopped"},
	"arl_index_stopped":              {"ArlIndexStopped"},
	"arl_published_late_seconds":     {"ArlPublishingLate"},
	"arl_notifications_late_seconds": {"ArlNotifications"},
	"arl_cluster_leader":             {"ArlNobodyLeads", "ArlNodeBehind"},
	"arl_log_info":                   {"ArlBackupOld", "ArlNobodyLeads"},
	"arl_cluster_lag_entries":        {"ArlNodeBehind"},
	"arl_log_size":                   {"ArlNodeBehind"},
	"arl_cluster_etcd_used_bytes":    {"ArlEtcdAlmostFull"},
	"arl_cluster_etcd_bytes":         {"ArlEtcdAlmostFull"},
	"arl_cluster_etcd_quota_bytes":   {"ArlEtcdAlmostFull"},
}

// texts returns values as strings.
func texts[T ~string](values []T) (list []string) {
	for _, v := range values {
		list = append(list, string(v))
	}
	return list
}

// label returns a label with fixed values.
func label(name, bound string, values ...string) Label { return Label{name, bound, values} }

// group gives every metric its group.
func group(name string, list ...Metric) []Metric {
	for i := range list {
		list[i].group = name
		if list[i].Labels == nil {
			list[i].Labels = []Label{}
		}
	}
	return list
}

func ofEntries() []Metric {
	return group("Entries",
		Metric{Name: "arl_entries_total", Type: Counter, Labels: []Label{label("kind", "the kinds of entry", texts(entry.Kinds())...)},
			Meaning: "Entries added to the log."},
		Metric{Name: "arl_refusals_total", Type: Counter, Labels: []Label{label("problem", "the problem types, or an HTTP status where there is none")},
			Meaning: "Requests refused."},
		Metric{Name: "arl_submission_seconds", Type: Histogram, Unit: "seconds", Labels: []Label{label("outcome", "how submissions end", outcomes...)},
			buckets: []float64{0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10},
			Meaning: "Time in which the ledger checks, orders and makes durable what one request submits. known: all entries were there already. failed: the ledger could not answer."},
		Metric{Name: "arl_commit_seconds", Type: Histogram, Unit: "seconds", buckets: []float64{0.00005, 0.00015, 0.00045, 0.00135, 0.00405, 0.01215, 0.03645, 0.10935, 0.32805, 0.98415, 2.95245},
			Meaning: "Time of a commit's write and sync."},
		Metric{Name: "arl_commit_entries", Type: Histogram, buckets: []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096},
			Meaning: "Entries made durable by one commit."},
		Metric{Name: "arl_queue_depth", Type: Gauge, pulled: true, Meaning: "Requests with entries that wait for the next commit."},
		Metric{Name: "arl_lanes_narrow", Type: Gauge, pulled: true,
			Meaning: "Clients that wait for each other, because too many of their entries were refused."},
		Metric{Name: "arl_lanes_waiting", Type: Gauge, pulled: true, Meaning: "Requests of these clients that are under way or wait."})
}

// outcomes are how a submission ends.
var outcomes = []string{Registered, Known, Refused, FailedSubmission}

// How a submission ends.
const (
	Registered       = "registered"
	Known            = "known"
	Refused          = "refused"
	FailedSubmission = "failed"
)

func ofLog() []Metric {
	return group("The log",
		Metric{Name: "arl_log_info", Type: Gauge, pulled: true, Labels: []Label{label("origin", "the origin of the log, one at a process")},
			Meaning: "1. It says of which log the other metrics of the process are, where several logs are on one machine."},
		Metric{Name: "arl_log_size", Type: Gauge, pulled: true, Meaning: "Entries in the log."},
		Metric{Name: "arl_log_head_age_seconds", Type: Gauge, Unit: "seconds", pulled: true, Meaning: "Age of the newest entry. It grows while nobody writes."},
		Metric{Name: "arl_anchor_lag_entries", Type: Gauge, pulled: true, Meaning: "Entries that the anchor on the disk does not cover."},
		Metric{Name: "arl_anchor_lag_seconds", Type: Gauge, Unit: "seconds", pulled: true,
			Meaning: "Age of the oldest entry that the anchor on the disk does not cover; 0: it covers all."},
		Metric{Name: "arl_fold_lag_entries", Type: Gauge, pulled: true, Meaning: "Entries that readers have not taken up. The next read takes them up."},
		Metric{Name: "arl_snapshot_lag_entries", Type: Gauge, pulled: true,
			Meaning: "Entries that the newest snapshot of the state does not cover. A start after a crash applies them again."},
		Metric{Name: "arl_checked_timestamp_seconds", Type: Gauge, Unit: "seconds", pulled: true, Labels: []Label{label("check", "how the log was checked", checks...)},
			Meaning: "When arl log fsck or arl log audit last checked this data directory, in Unix seconds; 0: never."},
		Metric{Name: "arl_checked_sound", Type: Gauge, pulled: true, Labels: []Label{label("check", "how the log was checked", checks...)},
			Meaning: "1 if that check found the log sound; 0: it did not, or there was none."},
		Metric{Name: "arl_checked_entries", Type: Gauge, pulled: true, Labels: []Label{label("check", "how the log was checked", checks...)}, Meaning: "Entries that this check covered."},
		Metric{Name: "arl_backup_timestamp_seconds", Type: Gauge, Unit: "seconds", pulled: true,
			Meaning: "When arl backup --data last made a whole backup of this data directory, in Unix seconds; 0: never."},
		Metric{Name: "arl_backup_entries", Type: Gauge, pulled: true, Meaning: "Entries that this backup has."},
		Metric{Name: "arl_snapshots_damaged_total", Type: Counter, Meaning: "Damaged snapshots of the state. The ledger rebuilt the state from the log."},
		Metric{Name: "arl_witnessed_size", Type: Gauge, pulled: true, Meaning: "Entries below the newest tree head that the quorum of witnesses has cosigned."},
		Metric{Name: "arl_witnessed_age_seconds", Type: Gauge, Unit: "seconds", pulled: true,
			Meaning: "Age of the quorum's cosignatures on that head; 0 if the policy names no witnesses, the age of 1970 if they have cosigned nothing."},
		Metric{Name: "arl_witnesses_failing", Type: Gauge, pulled: true, Meaning: "Witnesses of the policy in force whose newest answer is no cosignature."},
		Metric{Name: "arl_cosignatures_total", Type: Counter, pulled: true,
			Labels:  []Label{label("witness", "the names of witnesses in the policies"), label("result", "cosigned, failed", "cosigned", "failed")},
			Meaning: "Answers of witnesses to tree heads."},
		Metric{Name: "arl_published_size", Type: Gauge, pulled: true, Meaning: "Entries below the newest tree head that the place of --publish has; 0: none was seen there since the start, or there is no --publish."},
		Metric{Name: "arl_published_late_seconds", Type: Gauge, Unit: "seconds", pulled: true,
			Meaning: "For how long the place of --publish may lack the newest tree head, as rounds fail or do not end; 0: it has it, or there is no --publish."},
		Metric{Name: "arl_index_size", Type: Gauge, pulled: true, Meaning: "Entries that the newest index entry covers."},
		Metric{Name: "arl_index_lag", Type: Gauge, pulled: true, Meaning: "Entries that no index entry covers."},
		Metric{Name: "arl_index_subjects", Type: Gauge, pulled: true, Meaning: "Subjects in the index."},
		Metric{Name: "arl_index_stopped", Type: Gauge, pulled: true, Meaning: "1 if the index has stopped; the ledger's log says why."})
}

// spans are the buckets of the times between the steps of an incident, in seconds.
var spans = []float64{0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60, 300, 900, 3600, 14400, 86400}

func ofIncidents() []Metric {
	return group("Incidents",
		Metric{Name: "arl_incidents", Type: Gauge, pulled: true, Labels: []Label{label("state", "the states of incidents", texts(entry.IncidentStates())...)},
			Meaning: "Incidents by state, of the whole log."},
		Metric{Name: "arl_incidents_opened_total", Type: Counter, Meaning: "Incidents opened."},
		Metric{Name: "arl_incidents_ended_total", Type: Counter, Labels: []Label{label("state", "the states of incidents that are over", ended()...)},
			Meaning: "Incidents ended, by the state in which they ended."},
		Metric{Name: "arl_incidents_not_fenced", Type: Gauge, pulled: true, Meaning: "Incidents that wait for a decision without a fence."},
		Metric{Name: "arl_incidents_unacknowledged", Type: Gauge, pulled: true,
			Meaning: "Incidents with a proposal or amend that nobody answered in time and nobody acknowledged."},
		Metric{Name: "arl_approvals_waiting", Type: Gauge, pulled: true, Meaning: "Proposals that wait for the answers of approvers."},
		Metric{Name: "arl_approvals_oldest_seconds", Type: Gauge, Unit: "seconds", pulled: true, Meaning: "For how long the oldest of these proposals has waited; 0: none waits."},
		Metric{Name: "arl_incident_contain_seconds", Type: Histogram, Unit: "seconds", buckets: spans, Meaning: "Time from the opening signal of an incident to each contain."},
		Metric{Name: "arl_incident_authorize_seconds", Type: Histogram, Unit: "seconds", buckets: spans, Meaning: "Time from the opening signal of an incident to its authorize."},
		Metric{Name: "arl_incident_record_seconds", Type: Histogram, Unit: "seconds", buckets: spans,
			Meaning: "Time from the authorize of an incident to its record. An incident that was authorized before the start of the process is not among them."},
		Metric{Name: "arl_plan_members", Type: Histogram, buckets: []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10000},
			Labels:  []Label{label("act", "the acts with a plan", "contain", "escalate", "authorize", "amend")},
			Meaning: "Members of the plans of decisions."},
		Metric{Name: "arl_decisions_total", Type: Counter, Labels: []Label{label("act", "the acts of decisions", acts()...), label("by", "who decided", byCoordinator, byPeople)},
			Meaning: "Decisions about incidents."},
		Metric{Name: "arl_escalations_total", Type: Counter, Labels: []Label{label("reason", "see below", reasons()...)},
			Meaning: "Plans that people were asked about, by the reason why the coordinator does not decide alone."},
		Metric{Name: "arl_approvals_total", Type: Counter, Labels: []Label{label("verdict", "the verdicts of approvers", "approve", "refuse")}, Meaning: "Answers of approvers to proposals."},
		Metric{Name: "arl_outcomes_total", Type: Counter, Labels: []Label{label("result", "the results of members", texts(entry.Results())...)},
			Meaning: "Outcomes that agents and the coordinator reported, corrections among them."},
		Metric{Name: "arl_members_total", Type: Counter, Labels: []Label{label("result", "the results of members", texts(entry.Results())...)},
			Meaning: "Members of recorded incidents, by their result in the record."},
		Metric{Name: "arl_members_residual_total", Type: Counter, Meaning: "Members of recorded incidents that were not undone."})
}

func ofRecovery() []Metric {
	return group("Failures and recovery",
		Metric{Name: "arl_failures_total", Type: Counter, Labels: []Label{label("source", "what reports the failure", failureSources...),
			label("class", "the classes of the taxonomy", entry.Classes()...),
			{Name: "code", Bound: "the codes of the class in the taxonomy, or other"}},
			Meaning: "Failures by class and code, each once for a source. Sources overlap: an agent may signal what its task failed with, and a " +
				"claim after a failure is an attempt about it."},
		Metric{Name: "arl_recovery_steps_total", Type: Counter, Labels: []Label{label("strategy", "the strategies of the engine, or other", append(texts(recovery.Strategies()), other)...),
			label("result", "the results of a step, or other", append(texts(results), other)...)},
			Meaning: "Steps of recovery that were carried out, in the attempts that were recorded. arl_recovery_decisions_total has those that were decided alone."},
		Metric{Name: "arl_recovery_decisions_total", Type: Counter, Labels: []Label{label("strategy", "the strategies of the engine, or other", append(texts(recovery.Strategies()), other)...),
			{Name: "policy", Bound: "the digests of the 8 newest rules that decided, in force or of a rollout; or other"}, label("arm", "the arms of a rollout, or none", arms()...)},
			Meaning: "Decisions of rules about failures in the attempts that were recorded, when they are decided and not again with their results. " +
				"An agent decides about its claim, and the coordinator about the task after it. Nothing was done about those of the arm shadow, which " +
				"no other metric counts."},
		Metric{Name: "arl_recovery_cases_total", Type: Counter,
			Labels: []Label{label("status", "what the entry says of its case: how it ended, or passed_on if it goes on",
				string(entry.StatusRecovered), string(entry.StatusEscalated), string(entry.StatusPassedOn), string(entry.StatusNoFailure)),
				label("arm", "the arms of a rollout, or none", arms()...)},
			Meaning: "Attempt entries, by the status of their case. A case that goes on has an entry as passed_on for each step."},
		Metric{Name: "arl_rollouts_aborted_total", Type: Counter, Labels: []Label{label("gate", "the gates of rollouts, deadline, or none: a person aborted it", abortedBy()...)},
			Meaning: "Rollouts aborted, by the gate that fell."},
		Metric{Name: "arl_cost_micro_usd_total", Type: Counter, Unit: "micro-USD", Labels: []Label{label("source", "who states the cost", "task", "attempt")},
			Meaning: "Cost, each once: of all attempts of a case, as attempt entries state it; of the last attempt of a claim that failed, as its " +
				"snapshot states it, if no attempt entry stated the cost of the claim."},
		Metric{Name: "arl_tokens_total", Type: Counter, Labels: []Label{label("arm", "the arms of a rollout, or none", arms()...)}, Meaning: "Tokens that steps of recovery state."})
}

// failureSources are what reports failures.
var failureSources = []string{"signal", "task", "attempt"}

// abortedByPeople is the value of the label gate where no gate fell.
const abortedByPeople = "none"

func abortedBy() []string {
	return append(texts(entry.RolloutGates()), string(entry.GateDeadline), abortedByPeople)
}

func ofTasks() []Metric {
	return group("Tasks",
		Metric{Name: "arl_tasks", Type: Gauge, pulled: true, Labels: []Label{label("state", "the states of tasks", texts(entry.TaskStates())...)}, Meaning: "Tasks by state, of the whole log."},
		Metric{Name: "arl_tasks_unassignable", Type: Gauge, pulled: true, Meaning: "Tasks that wait for a claim and that no enrolled agent can get, among the newest 1,024."},
		Metric{Name: "arl_task_operations_total", Type: Counter, Labels: []Label{label("op", "the operations on tasks", operations...)}, Meaning: "Operations on tasks."},
		Metric{Name: "arl_task_retries_total", Type: Counter, pulled: true, Meaning: "Claims of tasks after failures, in the whole log."},
		Metric{Name: "arl_crashes_total", Type: Counter, Labels: []Label{label("kind", "the codes of class crash, or other", append(entry.Codes("crash"), other)...)},
			Meaning: "Claims of tasks that ended with the process of their agent."},
		Metric{Name: "arl_leases", Type: Gauge, pulled: true, Meaning: "Leases on tasks."},
		Metric{Name: "arl_leases_lost_total", Type: Counter, pulled: true, Meaning: "Leases that ended without a renewal."})
}

// Invariant is a promise of the documents. Its counter must stay 0.
type Invariant string

// The invariants.
const (
	Forged            Invariant = "forged"
	Equivocated       Invariant = "equivocated"
	Forked            Invariant = "forked"
	Diverged          Invariant = "diverged"
	Lost              Invariant = "lost"
	CorruptRead       Invariant = "corrupt_read"
	ExecutedTwice     Invariant = "executed_twice"
	BeyondLimits      Invariant = "beyond_limits"
	ForbiddenRecovery Invariant = "forbidden_recovery"
)

// invariants say what the counter of each invariant counts.
var invariants = []struct {
	of      Invariant
	meaning string
}{
	{Forged, "An entry, a lease or a cosignature came under a key that did not sign it. The ledger refused it. Nobody's key is needed for that: every client that reaches the port can do it."},
	{Equivocated, "A principal signed two payloads under one id. The ledger refused the second. It keeps the first 16 of a principal as evidence, and counts the later ones, too."},
	{Forked, "A witness, or the place of `--publish`, has a signed tree head that the log does not have. The ledger stops, and shows this counter until it was read once more, for 2 minutes at most."},
	{Diverged, "A node of a cluster has another log, other rules or another secret than the others, or the order lost batches which a node still has. " +
		"The node stops, and shows this counter like `forked`."},
	{Lost, "An entry that was acknowledged is not in the database. The ledger answered its reader with an error. If the order or the coordinator " +
		"needs the entry, the ledger stops, and shows this counter like `forked`. An endpoint of `--notify` tries again. A loss that is found at the start is not counted: the ledger does not start."},
	{CorruptRead, "The database gave bytes that were not written. The ledger answered with an error. If the order or the coordinator needs the bytes, " +
		"the ledger stops, and shows this counter like `forked`. An endpoint of `--notify` tries again."},
	{ExecutedTwice, "An agent named a second idempotency key for one execution. The ledger refused it. A first key in a later entry is refused, and is not counted."},
	{BeyondLimits, "A decision exceeded what its signer may decide alone. The ledger refused it. A decision of the ledger's own coordinator is counted " +
		"from its second refusal on: an entry that the coordinator had not read may be the reason of the first."},
	{ForbiddenRecovery, "An attempt says that a case recovered by itself, though `never_auto_recover` of the policy has its failure, also one of an " +
		"earlier entry. Of the newest 1,024 such cases under way earlier entries are known, since the process began."},
}

func ofInvariants() []Metric {
	var names []string
	for _, i := range invariants {
		names = append(names, string(i.of))
	}
	return group("Safety invariants",
		Metric{Name: "arl_invariant_violations_total", Type: Counter, Labels: []Label{label("invariant", "see below", names...)},
			Meaning: "What must never happen. Every counter must stay 0."})
}

func ofHTTP() []Metric {
	route := Label{Name: "route", Bound: "the routes of the API, or other"}
	return group("HTTP",
		Metric{Name: "arl_http_requests_total", Type: Counter,
			Labels:  []Label{label("method", "GET, POST, HEAD, or other", "GET", "POST", "HEAD", other), route, {Name: "code", Bound: "HTTP statuses"}},
			Meaning: "Requests answered."},
		Metric{Name: "arl_http_request_seconds", Type: Histogram, Unit: "seconds", Labels: []Label{route},
			buckets: []float64{0.0001, 0.0003, 0.0009, 0.0027, 0.0081, 0.0243, 0.0729, 0.2187, 0.6561, 1.9683, 5.9049},
			Meaning: "Time from a request's header to the end of its answer."},
		Metric{Name: "arl_clients_gone_total", Type: Counter, Meaning: "Requests whose client went away before the answer was whole."},
		Metric{Name: "arl_event_streams", Type: Gauge, Meaning: "Event streams open."},
		Metric{Name: "arl_connections", Type: Gauge, Meaning: "Connections open."},
		Metric{Name: "arl_connections_refused_total", Type: Counter, Meaning: "Connections closed at once, because too many were open."})
}

func ofProcess() []Metric {
	return group("The process",
		Metric{Name: "arl_disk_free_bytes", Type: Gauge, Unit: "bytes", pulled: true, Meaning: "Free disk space at the database."},
		Metric{Name: "arl_disk_reserve_bytes", Type: Gauge, Unit: "bytes", pulled: true, Meaning: "Free disk space below which entries are refused."},
		Metric{Name: "arl_disk_read_only", Type: Gauge, pulled: true,
			Meaning: "1 if the file system of the database takes no writes: it is mounted read-only, or has failed; 0: it takes them."},
		Metric{Name: "arl_notifications_late_seconds", Type: Gauge, Unit: "seconds", pulled: true, Labels: []Label{{Name: "endpoint", Bound: "the endpoints of --notify; empty: there are none"}},
			Meaning: "For how long the next message has waited that an endpoint has not taken, or for how long the ledger cannot read the log for the endpoint or keep its cursor; 0: none waits."},
		Metric{Name: "arl_key_seconds", Type: Histogram, Unit: "seconds", Labels: []Label{label("key", "the keys of the ledger, and its engine's", ledgerKeys...)}, buckets: []float64{0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10},
			Meaning: "Time of a signature by a key in a KMS, failures among them."},
		Metric{Name: "arl_key_failures_total", Type: Counter, Labels: []Label{label("key", "the keys of the ledger, and its engine's", ledgerKeys...)},
			Meaning: "Signatures that a KMS did not make in time, refused, or made with another key. None of them left the process."},
		Metric{Name: "arl_key_away_seconds", Type: Gauge, Unit: "seconds", pulled: true, Labels: []Label{label("key", "the keys of the ledger, and its engine's", ledgerKeys...)},
			Meaning: "For how long a key in a KMS has not signed; 0: it signs, or it is in a file."},
		Metric{Name: "arl_clock_offset_seconds", Type: Gauge, Unit: "seconds", pulled: true,
			Meaning: "The wall clock minus the ledger's clock. Beyond max_step_ms of the policy the ledger refuses entries."},
		Metric{Name: "arl_build_info", Type: Gauge, pulled: true, Labels: []Label{{Name: "version", Bound: "one"}, {Name: "revision", Bound: "one"},
			{Name: "goversion", Bound: "one"}}, Meaning: "1, with the build in the labels."})
}
