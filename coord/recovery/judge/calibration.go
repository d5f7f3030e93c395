package judge

import "math/big"

// binCount is how many rows the reliability table of a [Calibration] has.
const binCount = 10

// Calibration compares confidences with outcomes: of the attempts that were held to be 80 % sure,
// 80 % should succeed. Row i of the table has the confidences from i·10 % up to, and without, the
// next row; the last row has 100 %, too. All numbers are exact, so that a gate may rest on them.
// The zero Calibration has no attempt.
type Calibration struct {
	Bins    [binCount]Bin
	squares big.Int // of the errors, in (parts per million)²
}

// Bin is a row of the reliability table.
type Bin struct {
	Attempts   int64
	Succeeded  int64
	Confidence int64 // sum of the confidences, in parts per million
}

// Add takes an attempt. The confidence is in parts per million, at most a million.
func (c *Calibration) Add(confidencePPM int64, succeeded bool) {
	b := &c.Bins[min(confidencePPM*binCount/million, binCount-1)]
	b.Attempts++
	b.Confidence += confidencePPM
	off := confidencePPM
	if succeeded {
		b.Succeeded++
		off = million - confidencePPM
	}
	c.squares.Add(&c.squares, new(big.Int).Mul(big.NewInt(off), big.NewInt(off)))
}

// Row is a row of the reliability table for people: the confidences from one up to another.
type Row struct {
	FromPPM       int64 `json:"from_ppm"`
	ToPPM         int64 `json:"to_ppm"`
	Attempts      int64 `json:"attempts"`
	ConfidencePPM int64 `json:"confidence_ppm"` // mean, rounded down
	Succeeded     int64 `json:"succeeded"`
}

// Table returns the rows that have an attempt.
func (c *Calibration) Table() (rows []Row) {
	const width = million / binCount
	for i := range c.Bins {
		if b := &c.Bins[i]; b.Attempts > 0 {
			rows = append(rows, Row{int64(i) * width, int64(i+1) * width, b.Attempts, b.Confidence / b.Attempts, b.Succeeded})
		}
	}
	return rows
}

// Attempts returns how many attempts there are.
func (c *Calibration) Attempts() (n int64) {
	for i := range c.Bins {
		n += c.Bins[i].Attempts
	}
	return n
}

// BrierPPM returns the mean square error of the confidences in parts per million, rounded up
// (Brier, Verification of forecasts expressed in terms of probability, 1950). 0 is the best, and a
// million the worst. It is 0 without an attempt.
func (c *Calibration) BrierPPM() int64 {
	return over(&c.squares, new(big.Int).Mul(big.NewInt(c.Attempts()), big.NewInt(million)))
}

// ErrorPPM returns the expected calibration error in parts per million, rounded up: by how much the
// mean confidence of a row differs from the share that succeeded, as the mean over all attempts
// (Naeini and others, Obtaining well calibrated probabilities using Bayesian binning, 2015). It is
// 0 without an attempt.
func (c *Calibration) ErrorPPM() int64 {
	off := new(big.Int)
	for i := range c.Bins {
		b := &c.Bins[i]
		row := new(big.Int).Mul(big.NewInt(b.Succeeded), big.NewInt(million))
		off.Add(off, row.Sub(row, big.NewInt(b.Confidence)).Abs(row))
	}
	return over(off, big.NewInt(c.Attempts()))
}

// over returns a quotient, rounded up; 0 of nothing.
func over(sum, n *big.Int) int64 {
	if n.Sign() == 0 {
		return 0
	}
	quotient, rest := new(big.Int).QuoRem(sum, n, new(big.Int))
	if rest.Sign() > 0 {
		quotient.Add(quotient, big.NewInt(1))
	}
	return quotient.Int64()
}
