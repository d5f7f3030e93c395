package console

import "net/http"

// alone returns the page that stands in the place of all pages: what contradicts the
// ledger, or how far the log is read; nil: every page can be shown.
func (k *Console) alone(w http.ResponseWriter) *page {
	at := k.cfg.Source.Standing()
	switch {
	case at.Found != nil:
		command := "arl log audit"
		if at.Found.Evidence != "" {
			command = "arl verify " + at.Found.Evidence
		}
		return &page{name: "alone", Title: "Do not trust this ledger", Command: command, Body: at, At: at, Alone: true}
	case at.Reading != nil:
		w.Header().Set("Refresh", "1")
		return &page{name: "alone", Title: "Reading the log", Command: "arl log audit", Body: at, At: at, Alone: true}
	}
	return nil
}
