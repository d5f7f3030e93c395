package figure

import "testing"

// Numbers are told in the unit that people think in, with the exact number beside
// them; none is rounded but a change of a rate.
func TestFigure(t *testing.T) {
	for _, c := range []struct {
		name string
		n    int64
		want string
	}{
		{"thresholds.recovery_rate_min_ppm", 700_000, "70 % (700000 ppm)"},
		{"recovery_rate_min_ppm", 755_319, "75.5319 % (755319 ppm)"},
		{"recovery_rate_min_ppm", 0, "0 % (0 ppm)"},
		{"tolerance_ppm", -50_500, "-5.05 % (-50500 ppm)"},
		{"thresholds.class_tolerance_ppm.tool", 1, "0.0001 % (1 ppm)"},
		{"limits.cost_micro_usd", 1_000_000, "$1.00 (1000000 micro-USD)"},
		{"cost_micro_usd", 58_778, "$0.058778 (58778 micro-USD)"},
		{"cost_micro_usd", 12_345_600_000, "$12345.60 (12345600000 micro-USD)"},
		{"cost_micro_usd", -5, "-$0.000005 (-5 micro-USD)"},
		{"limits.deadline_ms", 600_000, "600000 ms"},
		{"limits.attempts", 6, "6"},
		{"limits.tokens", 1_000_000, "1000000"},
	} {
		if got := Exact(c.name, c.n); got != c.want {
			t.Errorf("%s %d: %s, want %s", c.name, c.n, got, c.want)
		}
	}
	for _, c := range []struct {
		name string
		n    int64
		want string
	}{
		{"change_ppm", 10_638, "+1.1 points (+10638 ppm)"},
		{"change_ppm", -10_438, "-1.0 points (-10438 ppm)"},
		{"change_ppm", 1_000_000, "+100.0 points (+1000000 ppm)"},
		{"change_ppm", 0, "+0.0 points (+0 ppm)"},
		{"cost_per_case_change_micro_usd", 625, "+$0.000625 (+625 micro-USD)"},
		{"cost_per_case_change_micro_usd", -1_500_000, "-$1.50 (-1500000 micro-USD)"},
	} {
		if got := Change(c.name, c.n); got != c.want {
			t.Errorf("%s %d: %s, want %s", c.name, c.n, got, c.want)
		}
	}
}
