package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"recoveryledger/api/words"
)

// Find tells what this process has done since its start: entries and commits, refusals by problem,
// and the time within which 99 of 100 submissions were answered. The time is the bound of the
// histogram's bucket: the true one is not above it.
func (m *Metrics) Find() words.Finding {
	families, err := m.registry.Gather()
	if err != nil {
		return words.Finding{Check: "submissions", State: words.FindingWarn, Detail: err.Error(), Remedy: "read /metrics"}
	}
	by := figures{}
	for _, family := range families {
		by[family.GetName()] = family.GetMetric()
	}
	return by.submissions()
}

// Read tells what the metrics of a ledger say, in the text format of Prometheus: what
// [Metrics.Find] tells, the free space on its disk beside the reserve, how far its anchor is, how
// old its backup is at the time now, if there is one, and, if the ledger notifies endpoints, which
// of them takes nothing. If the ledger publishes its log, the last finding is what is published, or
// how late that is. The error says where the text is malformed.
func Read(text []byte, now time.Time) ([]words.Finding, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("metrics: read: %w", err)
	}
	by := figures{}
	for name, family := range families {
		by[name] = family.GetMetric()
	}
	found := []words.Finding{by.disk(), by.anchor(), by.submissions()}
	if told, ok := by.backup(now); ok {
		found = append(found, told)
	}
	if told, ok := by.notifications(); ok {
		found = append(found, told)
	}
	if told, ok := by.publishing(); ok {
		found = append(found, told)
	}
	return found, nil
}

// figures are the series of metrics by the names of the metrics.
type figures map[string][]*dto.Metric

// gauge returns the value of a metric without labels; not ok: there is none.
func (by figures) gauge(name string) (value float64, ok bool) {
	if len(by[name]) == 0 {
		return 0, false
	}
	return by[name][0].GetGauge().GetValue(), true
}

// disk says how much of the ledger's disk is free.
func (by figures) disk() words.Finding {
	free, ok := by.gauge("arl_disk_free_bytes")
	reserve, _ := by.gauge("arl_disk_reserve_bytes")
	var unknown error
	if !ok {
		unknown = errors.New("the ledger does not tell arl_disk_free_bytes")
	}
	return words.FindReserve(uint64(max(free, 0)), uint64(max(reserve, 0)), unknown)
}

// anchor says how far the ledger's anchor is.
func (by figures) anchor() words.Finding {
	size, _ := by.gauge("arl_log_size")
	lag, ok := by.gauge("arl_anchor_lag_entries")
	if !ok {
		return words.Finding{Check: "anchor", State: words.FindingWarn, Detail: "the ledger does not tell arl_anchor_lag_entries: it cannot read its anchor file",
			Remedy: "on the ledger's machine, run arl doctor --data DIR"}
	}
	return words.Finding{Check: "anchor", State: words.FindingOK, Detail: fmt.Sprintf("size %.0f, %s behind the log", size-lag, words.Counted(int64(lag), "entry"))}
}

// backup says how old the last backup of the data directory is; not ok: there was none.
func (by figures) backup(now time.Time) (found words.Finding, ok bool) {
	made, _ := by.gauge("arl_backup_timestamp_seconds")
	entries, _ := by.gauge("arl_backup_entries")
	if !(made > 0 && made < 1e11 && entries >= 0 && entries < 1<<53) {
		return words.Finding{}, false
	}
	return words.FindBackup(now.Sub(time.Unix(int64(made), 0)), uint64(entries)), true
}

const (
	lateMin      = 60.0 // seconds that a message or a tree head waits before people are told
	endpointsMax = 32   // endpoints that are told of: a ledger has no more, and a liar may name any
)

// notifications says which endpoints of --notify have not taken a message for a minute; not ok:
// there are no endpoints.
func (by figures) notifications() (found words.Finding, ok bool) {
	var late []string
	for _, one := range by["arl_notifications_late_seconds"] {
		if len(one.GetLabel()) != 1 || one.GetLabel()[0].GetValue() == "" {
			continue
		}
		ok = true
		if s := one.GetGauge().GetValue(); s > lateMin && len(late) < endpointsMax {
			late = append(late, fmt.Sprintf("%.64s is %s late", one.GetLabel()[0].GetValue(), seconds(math.Round(min(s, 1e9)))))
		}
	}
	if slices.Sort(late); len(late) > 0 {
		return words.Finding{Check: "notifications", State: words.FindingWarn, Detail: strings.Join(late, ", "),
			Remedy: "repair the receiver or the disk: the ledger's log has the error, and the ledger tries again at least every 5 minutes"}, true
	}
	return words.Finding{Check: "notifications", State: words.FindingOK, Detail: "no message has waited for a minute"}, ok
}

// publishing says what the place of --publish has; not ok: the ledger has published nothing.
func (by figures) publishing() (found words.Finding, ok bool) {
	size, _ := by.gauge("arl_published_size")
	late, _ := by.gauge("arl_published_late_seconds")
	if late > lateMin {
		return words.Finding{Check: "publishing", State: words.FindingWarn, Detail: fmt.Sprintf("the place of --publish is %s late", seconds(math.Round(min(late, 1e9)))),
			Remedy: "repair the place: the ledger's log has the error, and the ledger tries again at least every minute"}, true
	}
	return words.Finding{Check: "publishing", State: words.FindingOK, Detail: fmt.Sprintf("size %.0f is published", size)}, size > 0
}

// refusalsMax bounds the problems that are told of: a ledger has fewer, and a liar may name any.
const refusalsMax = 100

// submissions says what the ledger's process has done since its start.
func (by figures) submissions() words.Finding {
	entries, commits := 0.0, uint64(0)
	for _, one := range by["arl_entries_total"] {
		entries += one.GetCounter().GetValue()
	}
	for _, one := range by["arl_commit_seconds"] {
		commits += one.GetHistogram().GetSampleCount()
	}
	detail := fmt.Sprintf("since the start %s in %s", words.Counted(int64(entries), "entry"), words.Counted(commits, "commit"))
	detail += waited(by["arl_submission_seconds"])
	var refused []string
	for _, one := range by["arl_refusals_total"] {
		if n := one.GetCounter().GetValue(); n > 0 && len(one.GetLabel()) == 1 && len(refused) < refusalsMax {
			refused = append(refused, fmt.Sprintf("%.0f %.60s", n, one.GetLabel()[0].GetValue()))
		}
	}
	if slices.Sort(refused); len(refused) > 0 {
		detail += "; refused: " + strings.Join(refused, ", ")
	}
	return words.Finding{Check: "submissions", State: words.FindingOK, Detail: detail}
}

// waited says how long submissions took: the upper bound of the bucket in which 99 of 100
// observations of all histograms lie. It is empty if there are none. The text format has a bucket
// without a bound; the registry has none.
func waited(list []*dto.Metric) string {
	total, below := uint64(0), map[float64]uint64{}
	for _, one := range list {
		total += one.GetHistogram().GetSampleCount()
		for _, b := range one.GetHistogram().GetBucket() {
			if upper := b.GetUpperBound(); !math.IsInf(upper, 1) {
				below[upper] += b.GetCumulativeCount()
			}
		}
	}
	if total == 0 {
		return ""
	}
	least, most := math.Inf(1), 0.0
	for upper, n := range below {
		if n >= total-total/100 {
			least = min(least, upper)
		}
		most = max(most, upper)
	}
	if math.IsInf(least, 1) {
		return "; more than 1 of 100 submissions took longer than " + seconds(most)
	}
	return "; 99 of 100 submissions answered within " + seconds(least)
}

func seconds(s float64) string { return time.Duration(math.Round(s * 1e9)).String() }
