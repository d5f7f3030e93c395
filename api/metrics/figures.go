package metrics

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

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
	by := map[string][]*dto.Metric{}
	for _, family := range families {
		by[family.GetName()] = family.GetMetric()
	}
	entries, commits := 0.0, uint64(0)
	for _, one := range by["arl_entries_total"] {
		entries += one.GetCounter().GetValue()
	}
	for _, one := range by["arl_commit_seconds"] {
		commits += one.GetHistogram().GetSampleCount()
	}
	detail := fmt.Sprintf("since the start %s in %s", words.Counted(int64(entries), "entry"), words.Counted(commits, "commit"))
	if bound, ok := quantile99(by["arl_submission_seconds"]); ok {
		detail += "; 99 of 100 submissions answered within " + bound
	}
	var refused []string
	for _, one := range by["arl_refusals_total"] {
		if n := one.GetCounter().GetValue(); n > 0 {
			refused = append(refused, fmt.Sprintf("%.0f %s", n, one.GetLabel()[0].GetValue()))
		}
	}
	if slices.Sort(refused); len(refused) > 0 {
		detail += "; refused: " + strings.Join(refused, ", ")
	}
	return words.Finding{Check: "submissions", State: words.FindingOK, Detail: detail}
}

// quantile99 returns the upper bound of the bucket in which 99 of 100 observations of all
// histograms lie; not ok: there are none.
func quantile99(list []*dto.Metric) (bound string, ok bool) {
	total, below := uint64(0), map[float64]uint64{}
	for _, one := range list {
		total += one.GetHistogram().GetSampleCount()
		for _, b := range one.GetHistogram().GetBucket() {
			below[b.GetUpperBound()] += b.GetCumulativeCount()
		}
	}
	if total == 0 {
		return "", false
	}
	least, most := math.Inf(1), 0.0
	for upper, n := range below {
		if n >= total-total/100 {
			least = min(least, upper)
		}
		most = max(most, upper)
	}
	if math.IsInf(least, 1) {
		return "more than " + seconds(most), true
	}
	return seconds(least), true
}

func seconds(s float64) string { return time.Duration(math.Round(s * 1e9)).String() }
