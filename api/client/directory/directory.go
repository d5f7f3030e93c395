// Package directory finds the log of a tenant. The unit of scale is the log, so a tenant has one
// log or several, and each log is in one cell: the nodes that serve it.
//
// A directory is a ledger like any other. A place is an execution of a principal that the reader
// names, with the member `place` in its payload, which the ledger keeps and ignores:
//
//	{"exec": "place-7", …, "place": {"tenant": "acme", "origin": "acme.example/1", "cell": "c3", "urls": "https://…", "root": "sha256:…"}}
//
// The newest place of an origin counts. So a log that was moved has another place, and who moved it
// when is signed and stays.
package directory

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/ledger/entry"
)

// Place says where a log of a tenant is.
type Place struct {
	Tenant string `json:"tenant"`
	Origin string `json:"origin"` // of the log
	Cell   string `json:"cell"`
	URLs   string `json:"urls"` // of the nodes of the cell, for [client.New]
	// Root is the digest of the file with the root that clients of the log pin.
	Root entry.Digest `json:"root"`
}

// Reader reads the ledger of the directory under its pinned root. It is a [client.Client].
type Reader interface {
	Entries(ctx context.Context, q api.ListQuery) iter.Seq2[*client.Entry, error]
}

// Directory is the places that a ledger says. One goroutine at a time uses it.
type Directory struct {
	issuer entry.Principal
	next   uint64
	places map[string]Place // by origin
}

// New returns an empty directory of the places that a principal says.
func New(issuer entry.Principal) *Directory {
	return &Directory{issuer: issuer, places: map[string]Place{}}
}

// Update reads what the ledger has registered since the last call. A place that is none, and what
// others say, counts nothing.
func (d *Directory) Update(ctx context.Context, ledger Reader) error {
	for e, err := range ledger.Entries(ctx, api.ListQuery{From: d.next}) {
		if err != nil {
			return fmt.Errorf("directory: read: %w", err)
		}
		if e.Index != d.next {
			return fmt.Errorf("directory: read: entry %d in the place of %d", e.Index, d.next)
		}
		d.next++
		if p, ok := placeOf(e.Payload()); ok && e.Kind == entry.KindExecution && e.Header.Iss == d.issuer {
			d.places[p.Origin] = p
		}
	}
	return nil
}

// placeOf reads the place in a payload.
func placeOf(payload []byte) (Place, bool) {
	var members struct {
		Place Place `json:"place"`
	}
	if err := json.Unmarshal(payload, &members); err != nil {
		return Place{}, false
	}
	p := members.Place
	return p, p.Tenant != "" && p.Origin != "" && p.URLs != "" && p.Root != ""
}

// Log returns the place of a log.
func (d *Directory) Log(origin string) (Place, bool) {
	p, ok := d.places[origin]
	return p, ok
}

// Logs returns the places of the logs of a tenant, by origin.
func (d *Directory) Logs(tenant string) (all []Place) {
	for _, p := range d.places {
		if p.Tenant == tenant {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b Place) int { return strings.Compare(a.Origin, b.Origin) })
	return all
}

// Choose returns the log for a new workflow of a tenant: the one with the largest hash with the
// workflow's id, so that a further log takes its share of every other one. A workflow stays where
// it was begun, so whoever begins it keeps the origin with it.
func (d *Directory) Choose(tenant string, workflow entry.WorkflowID) (Place, bool) {
	all := d.Logs(tenant)
	if len(all) == 0 {
		return Place{}, false
	}
	return slices.MaxFunc(all, func(a, b Place) int {
		return cmp.Or(slices.Compare(weight(a.Origin, workflow), weight(b.Origin, workflow)), strings.Compare(a.Origin, b.Origin))
	}), true
}

func weight(origin string, workflow entry.WorkflowID) []byte {
	sum := sha256.Sum256([]byte(origin + "\x00" + string(workflow)))
	return sum[:]
}
