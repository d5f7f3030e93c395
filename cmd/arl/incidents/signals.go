package incidents

import (
	"strconv"
	"strings"

	"recoveryledger/cmd/arl/exit"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/redact"
)

// Indexes are the values of a flag of indexes.
func Indexes(values []uint) []uint64 {
	list := make([]uint64, len(values))
	for i, v := range values {
		list[i] = uint64(v)
	}
	return list
}

// Dismissed reads the signals that a plan leaves out, INDEX=REASON each. Other text is an error of
// usage, which names the text.
func Dismissed(texts []string) (list []entry.Dismissal, err error) {
	for _, text := range texts {
		number, reason, _ := strings.Cut(text, "=")
		index, err := strconv.ParseUint(number, 10, 64)
		if err != nil || reason == "" {
			return nil, exit.Usagef("--dismiss %s: want INDEX=REASON", text)
		}
		list = append(list, entry.Dismissal{Index: index, Reason: redact.Text(reason)})
	}
	return list, nil
}
