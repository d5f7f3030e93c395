package demo

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	_ "modernc.org/sqlite" // the driver "sqlite": no C, one file

	"recoveryledger/ledger/entry"
)

// reversible is the state of an agent that can be taken back, by workflow.
type reversible interface {
	snapshot(wid entry.WorkflowID) ([]byte, error)
	restore(wid entry.WorkflowID, state []byte) error
}

func (d directory) key(p entry.Principal) string   { return d.path("agents", string(p), "agent.key") }
func (d directory) state(p entry.Principal) string { return d.path("agents", string(p), "state") }
func (d directory) receipts(p entry.Principal) string {
	return d.path("agents", string(p), "receipts.ndjson")
}
func (d directory) queued(id string) string {
	return d.path("work", string(mailer), "queue", id+".json")
}

func (d directory) checkpoint(p entry.Principal, id string) string {
	return d.path("agents", string(p), "checkpoints", id+".json")
}

func (d directory) board(r entry.Ref) string {
	return d.path("board", strings.ReplaceAll(string(r), "#", "-")+".json")
}

func (d directory) secret(p entry.Principal) ([]byte, error) {
	text, err := os.ReadFile(d.path("agents", string(p), "secret"))
	if err != nil {
		return nil, err
	}
	return hex.DecodeString(string(text))
}

func (p *player) files() files { return p.dir.files(p.name) }
func (p *player) rows() rows   { return p.dir.rows(p.name) }

func (p *player) reversible() reversible { return p.dir.reversible(p.name) }

// reversible returns the agent's state: the pricer's is in a database.
func (d directory) reversible(p entry.Principal) reversible {
	if p == pricer {
		return d.rows(p)
	}
	return d.files(p)
}

// files are a state in a directory for each workflow.
type files string

func (d directory) files(p entry.Principal) files { return files(d.path("work", string(p))) }

func (f files) set(wid entry.WorkflowID, name, text string) error {
	return write(filepath.Join(string(f), string(wid), name), []byte(text))
}

func (f files) read(wid entry.WorkflowID) (map[string]string, error) {
	state := map[string]string{}
	list, err := os.ReadDir(filepath.Join(string(f), string(wid)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, file := range list {
		text, err := os.ReadFile(filepath.Join(string(f), string(wid), file.Name()))
		if err != nil {
			return nil, err
		}
		state[file.Name()] = string(text)
	}
	return state, nil
}

func (f files) snapshot(wid entry.WorkflowID) ([]byte, error) {
	state, err := f.read(wid)
	if err != nil {
		return nil, err
	}
	return json.Marshal(state, json.Deterministic(true))
}

func (f files) restore(wid entry.WorkflowID, state []byte) error {
	var then map[string]string
	if err := json.Unmarshal(state, &then); err != nil {
		return err
	}
	now, err := f.read(wid)
	if err != nil {
		return err
	}
	for name := range now {
		if _, keep := then[name]; !keep {
			if err := os.Remove(filepath.Join(string(f), string(wid), name)); err != nil {
				return err
			}
		}
	}
	for name, text := range then {
		if err := f.set(wid, name, text); err != nil {
			return err
		}
	}
	return nil
}

// rows are a state in an SQLite database.
type rows string

func (d directory) rows(p entry.Principal) rows { return rows(d.path("work", string(p), "agent.db")) }

const tables = `
create table if not exists prices(wid text, item text, cents integer, primary key(wid, item));
create table if not exists bookings(exec text, item text, pieces integer, primary key(exec, item));
create table if not exists cancellations(key text primary key, exec text, comp_exec text);`

// transact opens the database for one transaction; it is durable when it returns
// nil.
func (r rows) transact(use func(*sql.Tx) error) (err error) {
	if err := os.MkdirAll(filepath.Dir(string(r)), 0o700); err != nil {
		return err
	}
	file := url.URL{Scheme: "file", Path: string(r), RawQuery: "_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)&_txlock=immediate"}
	db, err := sql.Open("sqlite", file.String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.ExecContext(context.Background(), tables); err != nil {
		return fmt.Errorf("demo: database %s: %w", r, err)
	}
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	if err := use(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func (r rows) setPrices(wid entry.WorkflowID, cents map[string]int) error {
	return r.transact(func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(context.Background(), "delete from prices where wid = ?", wid); err != nil {
			return err
		}
		for item, price := range cents {
			if _, err := tx.ExecContext(context.Background(), "insert into prices values(?, ?, ?)", wid, item, price); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r rows) prices(wid entry.WorkflowID) (map[string]int, error) {
	return r.count("select item, cents from prices where wid = ?", wid)
}

func (r rows) snapshot(wid entry.WorkflowID) ([]byte, error) {
	prices, err := r.prices(wid)
	if err != nil {
		return nil, err
	}
	return json.Marshal(prices, json.Deterministic(true))
}

func (r rows) restore(wid entry.WorkflowID, state []byte) error {
	var prices map[string]int
	if err := json.Unmarshal(state, &prices); err != nil {
		return err
	}
	return r.setPrices(wid, prices)
}

// book reserves things for an execution.
func (r rows) book(exec entry.Ref, pieces map[string]int) error {
	return r.transact(func(tx *sql.Tx) error {
		for _, item := range slices.Sorted(maps.Keys(pieces)) {
			if _, err := tx.ExecContext(context.Background(), "insert into bookings values(?, ?, ?)", exec, item, pieces[item]); err != nil {
				return err
			}
		}
		return nil
	})
}

// cancel gives back what an execution has reserved, under a key. Twice would be
// an error, and twice as much given back.
func (r rows) cancel(key string, exec, comp entry.Ref) error {
	return r.transact(func(tx *sql.Tx) error {
		_, err := tx.ExecContext(context.Background(), "insert into cancellations values(?, ?, ?)", key, exec, comp)
		return err
	})
}

// cancelled returns the keys under which an execution was cancelled.
func (r rows) cancelled(exec entry.Ref) ([]string, error) {
	found, err := r.count("select key, 1 from cancellations where exec = ?", exec)
	return slices.Sorted(maps.Keys(found)), err
}

// booked returns for how many items an execution has booked.
func (r rows) booked() (map[string]int, error) {
	return r.count("select exec, count(*) from bookings group by exec")
}

// count returns the result of a query for texts and numbers.
func (r rows) count(query string, args ...any) (found map[string]int, err error) {
	found = map[string]int{}
	return found, r.transact(func(tx *sql.Tx) error {
		list, err := tx.QueryContext(context.Background(), query, args...)
		if err != nil {
			return err
		}
		defer list.Close() //nolint:errcheck // Err says what went wrong
		for list.Next() {
			var name string
			var n int
			if err := list.Scan(&name, &n); err != nil {
				return err
			}
			found[name] = n
		}
		return list.Err()
	})
}
