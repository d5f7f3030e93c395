package main

// board is a dashboard: one question of an operator, and the panels that answer it.
type board struct {
	name, title string
	asks        string
	panels      []panel
}

// panel is a picture of one or more queries. unit is a unit of Grafana.
type panel struct {
	title, asks, unit string
	queries           []query
}

// query is a query of Prometheus. legend names its series.
type query struct{ expr, legend string }

var boards = []board{
	{"overview", "overview", "Does the ledger work, and does anybody have to act?", []panel{
		{"Incidents that are open", "What is under way.", "short", []query{{`sum by (state) (arl_incidents{state=~"REPORTED|CONTAINED|ESCALATED|AUTHORIZED"})`, "{{state}}"}}},
		{"People are waited for", "Above 15 minutes somebody is woken.", "s", []query{{`arl_approvals_oldest_seconds`, "oldest proposal"}}},
		{"Invariants", "Every line must stay at 0.", "short", []query{{`sum by (invariant) (increase(arl_invariant_violations_total[1h]))`, "{{invariant}}"}}},
		{"Entries a second", "What the ledger registers.", "wps", []query{{`sum by (kind) (rate(arl_entries_total[5m]))`, "{{kind}}"}}},
		{"Refusals a second", "What the ledger refuses.", "wps", []query{{`sum by (problem) (rate(arl_refusals_total[5m]))`, "{{problem}}"}}},
		{"Submissions, 99 of 100", "How long a client waits for its receipt.", "s", []query{{`histogram_quantile(0.99, sum by (le, outcome) (rate(arl_submission_seconds_bucket[5m])))`, "{{outcome}}"}}},
	}},
	{"recovery", "recovery and cost", "What fails, what helps, and what does it cost?", []panel{
		{"Failures a minute by class", "What agents signal and tasks fail with.", "short", []query{{`sum by (class) (rate(arl_failures_total{source=~"signal|task"}[15m])) * 60`, "{{class}}"}}},
		{"Steps of recovery by strategy", "What is tried.", "short", []query{{`sum by (strategy) (increase(arl_recovery_steps_total[1h]))`, "{{strategy}}"}}},
		{"Results of steps", "What helps.", "short", []query{{`sum by (result) (increase(arl_recovery_steps_total[1h]))`, "{{result}}"}}},
		{"How cases end", "What people are left with.", "short", []query{{`sum by (status) (increase(arl_recovery_cases_total{status!="passed_on"}[1h]))`, "{{status}}"}}},
		{"Decisions by rules", "The newest rules that decided, by the digest of the policy.", "short", []query{{`sum by (policy) (increase(arl_recovery_decisions_total[1h]))`, "{{policy}}"}}},
		{"Cases of a rollout", "What canary and control end with.", "short",
			[]query{{`sum by (arm, status) (increase(arl_recovery_cases_total{arm=~"control|canary",status!="passed_on"}[1h]))`, "{{arm}} {{status}}"}}},
		{"Tokens an hour", "What models read and write to recover.", "short", []query{{`sum by (arm) (increase(arl_tokens_total[1h]))`, "{{arm}}"}}},
		{"Cost an hour", "In micro-USD.", "short", []query{{`sum by (source) (increase(arl_cost_micro_usd_total[1h]))`, "{{source}}"}}},
		{"Crashes", "Agents whose process ended.", "short", []query{{`sum by (kind) (increase(arl_crashes_total[1h]))`, "{{kind}}"}}},
		{"Tasks", "What waits and what runs.", "short", []query{{`sum by (state) (arl_tasks)`, "{{state}}"}, {`arl_tasks_unassignable`, "nobody can"}}},
		{"Leases", "Agents that hold a task, and those that fell silent.", "short", []query{{`arl_leases`, "held"}, {`increase(arl_leases_lost_total[1h])`, "lost in an hour"}}},
	}},
	{"incidents", "incidents and approvals", "How fast is a failure contained, decided and undone, and what stays?", []panel{
		{"From signal to contain and authorize, half of all", "How fast decisions are.", "s", []query{
			{`histogram_quantile(0.5, sum by (le) (rate(arl_incident_contain_seconds_bucket[1h])))`, "contain"},
			{`histogram_quantile(0.5, sum by (le) (rate(arl_incident_authorize_seconds_bucket[1h])))`, "authorize"},
		}},
		{"From authorize to record, half of all", "How fast agents undo.", "s", []query{{`histogram_quantile(0.5, sum by (le) (rate(arl_incident_record_seconds_bucket[1h])))`, "record"}}},
		{"Opened and ended", "Whether incidents become fewer.", "short", []query{
			{`increase(arl_incidents_opened_total[1h])`, "opened"}, {`sum by (state) (increase(arl_incidents_ended_total[1h]))`, "{{state}}"},
		}},
		{"Members by result", "What became of what was to be undone.", "short",
			[]query{{`sum by (result) (increase(arl_members_total[1h]))`, "{{result}}"}, {`increase(arl_members_residual_total[1h])`, "not undone"}}},
		{"Size of plans, 9 of 10", "How far failures reach.", "short", []query{{`histogram_quantile(0.9, sum by (le, act) (rate(arl_plan_members_bucket[1h])))`, "{{act}}"}}},
		{"Why people are asked", "What the coordinator may not decide.", "short", []query{{`sum by (reason) (increase(arl_escalations_total[1d]))`, "{{reason}}"}}},
		{"Answers of approvers", "What people say.", "short", []query{{`sum by (verdict) (increase(arl_approvals_total[1d]))`, "{{verdict}}"}}},
		{"Without a fence, and unanswered", "What agents may build on, and what nobody answered.", "short",
			[]query{{`arl_incidents_not_fenced`, "not fenced"}, {`arl_incidents_unacknowledged`, "unanswered"}}},
	}},
	{"log", "the log and its witnesses", "Is the log durable, witnessed and read?", []panel{
		{"Size: log, witnesses, index, published", "Who keeps up with the log.", "short", []query{
			{`arl_log_size`, "log"}, {`arl_witnessed_size`, "witnessed"}, {`arl_index_size`, "index"}, {`arl_published_size`, "published"},
		}},
		{"Age of the witnessed head", "Agents obey nothing older than bundle_max_age_ms.", "s", []query{{`arl_witnessed_age_seconds`, "age"}}},
		{"Answers of witnesses a minute", "Who cosigns and who fails.", "short", []query{{`sum by (witness, result) (rate(arl_cosignatures_total[5m])) * 60`, "{{witness}} {{result}}"}}},
		{"Commits, 99 of 100", "How long the disk takes.", "s", []query{{`histogram_quantile(0.99, sum by (le) (rate(arl_commit_seconds_bucket[5m])))`, "commit"}}},
		{"Entries a commit", "How many share a sync.", "short", []query{{`rate(arl_commit_entries_sum[5m]) / rate(arl_commit_entries_count[5m])`, "mean"}}},
		{"Who leads a cluster", "One node is at 1, or nobody orders the log. Batches are taken back where the lead changes.", "short",
			[]query{{`arl_cluster_leader`, "{{instance}}"}, {`increase(arl_cluster_overtaken_total[1h])`, "taken back by {{instance}}"}}},
		{"Nodes of a cluster behind", "Entries that a node lacks, and the nodes that follow no further.", "short",
			[]query{{`max by (job, node) (arl_cluster_lag_entries)`, "{{node}}"}, {`arl_cluster_paused`, "{{instance}} paused"}}},
		{"Agreement in a cluster, 99 of 100", "How long a majority of the nodes takes.", "s",
			[]query{{`histogram_quantile(0.99, sum by (le) (rate(arl_cluster_agreement_seconds_bucket[5m])))`, "agreement"}}},
		{"Anchor and readers behind", "Entries that are not there yet.", "short", []query{{`arl_anchor_lag_entries`, "anchor"}, {`arl_fold_lag_entries`, "readers"}}},
	}},
	{"capacity", "capacity", "How long do disk, memory and connections last?", []panel{
		{"Free disk space", "Below the reserve entries are refused.", "bytes", []query{{`arl_disk_free_bytes`, "free"}, {`arl_disk_reserve_bytes`, "reserve"}}},
		{"Free in a week", "By the growth of six hours.", "bytes", []query{{`predict_linear(arl_disk_free_bytes[6h], 7 * 86400)`, "in a week"}}},
		{"etcd of a cluster", "From half of the quota on entries are slow, from three quarters on refused.", "bytes",
			[]query{{`arl_cluster_etcd_used_bytes`, "{{instance}} in use"}, {`arl_cluster_etcd_bytes`, "{{instance}} file"},
				{`arl_cluster_etcd_quota_bytes`, "{{instance}} quota"}}},
		{"Memory", "What the process holds.", "bytes", []query{{`process_resident_memory_bytes{job="arl"}`, "resident"}}},
		{"Connections and streams", "Who is connected.", "short", []query{{`arl_connections`, "connections"}, {`arl_event_streams`, "event streams"},
			{`increase(arl_connections_refused_total[5m])`, "refused"}}},
		{"Goroutines and files", "What grows without end is a fault.", "short", []query{{`go_goroutines{job="arl"}`, "goroutines"}, {`process_open_fds{job="arl"}`, "files"}}},
		{"Clock", "Beyond max_step_ms entries are refused.", "s", []query{{`arl_clock_offset_seconds`, "offset"}}},
		{"Requests a second", "By route.", "reqps", []query{{`sum by (route) (rate(arl_http_requests_total[5m]))`, "{{route}}"}}},
		{"Narrow lanes", "Clients that are slowed down.", "short", []query{{`arl_lanes_narrow`, "clients"}, {`arl_lanes_waiting`, "requests"}}},
	}},
}
