// Package client talks to a ledger over HTTP and believes nothing: every answer
// is checked against a pinned root before it is returned.
//
// What comes back from [Client.Submit], [Client.Receipt], [Client.Entry],
// [Client.Entries] and [Client.Events] stands in the log: it has an inclusion
// proof under a tree head that the pinned key has signed, and every head is
// proven consistent with the last one that the client has accepted
// ([Client.Accepted]). Entries read are, besides, signed by a key that the chain
// of policies and agents from the pinned genesis had let in for their issuer at
// that index ([Client.Chain]). Two heads that cannot both be true are a
// [*verify.ForkError]; the client then answers nothing else.
//
// Where the root names witnesses, what is read stands under a head that their
// quorum has cosigned, or that such a head continues; else the error is a
// [*verify.WitnessError]. The receipt of an entry that was just registered is
// newer than any cosignature.
//
// What follows from the log as a whole is the server's word: [Client.Incidents],
// [Client.Incident], [Client.Plan] and [Client.Workflow] say so, and
// [Client.History] is held to the entries it names. Whoever acts on it folds the
// log ([recoveryledger/coord]) or verifies what proves it.
//
// What no answer can show is not checked: that a list is complete, that a role
// allowed what was signed, that a tile's bytes belong to the log. Auditing the
// whole log shows it.
//
// Requests are repeated on errors of the network and when the server asks for
// it (429, 503). That is safe: an entry is registered once, by its issuer and
// jti.
package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// Config says how a client behaves. It is copied and checked once; nil is all
// defaults.
type Config struct {
	// HTTP makes the requests, with TLS and client certificates as it is set
	// up. A Timeout in it ends event streams. Nil: a client of its own.
	HTTP *http.Client
	// Accepted is the signed tree head that was accepted last, in an earlier
	// life of the client. Empty: the first head is believed as signed, and a
	// fork before it stays unseen.
	Accepted string
	// Keep stores the root when policies have changed the ledger's keys (TRU-5),
	// before a head counts that only new ones sign. Nil: nobody does, and a later
	// client needs a newer root.
	Keep func(root verify.Root) error
	// Attempts is how often a request is made before its error is returned. 0: 5;
	// 1: never again.
	Attempts int
	// Timeout bounds each attempt, and the silence of an event stream. 0: 1 min.
	Timeout time.Duration
	// MaxWait is the longest time that a server may ask to wait before the next
	// attempt; beyond it, the problem is returned. 0: 30 s.
	MaxWait time.Duration
}

func (c *Config) withDefaults() *Config {
	d := Config{}
	if c != nil {
		d = *c
	}
	if d.HTTP == nil {
		d.HTTP = &http.Client{Transport: transport()}
	}
	if d.Attempts == 0 {
		d.Attempts = attemptsDefault
	}
	if d.Timeout == 0 {
		d.Timeout = timeoutDefault
	}
	if d.MaxWait == 0 {
		d.MaxWait = waitDefault
	}
	return &d
}

// transport is the standard one with more connections kept to the one server.
func transport() http.RoundTripper {
	standard, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	own := standard.Clone()
	own.MaxIdleConnsPerHost = own.MaxIdleConns
	return own
}

// Client is a ledger at a URL under a pinned root. It is safe for concurrent
// use.
type Client struct {
	base *url.URL
	cfg  *Config
	root atomic.Pointer[verify.Root] // replaced where a policy changes the ledger's keys

	// mu guards what the client has accepted; it is held while a new head is
	// proven consistent.
	mu       sync.Mutex
	accepted verify.SignedHead
	cosigned verify.SignedHead      // the largest that the witnesses have cosigned whom the root names
	known    map[string]merkle.Head // signed heads proven consistent, a few
	fork     error                  // if not nil, nothing more is accepted

	chain chain

	maxEvidence int // documents in a list of evidence
}

// New returns a client of the ledger at the URL. It makes no request.
func New(baseURL string, root verify.Root, c *Config) (*Client, error) {
	base, err := url.Parse(baseURL)
	if err == nil && (base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" || base.Fragment != "") {
		err = errors.New("want http://host or https://host, and a path at most")
	}
	if err != nil {
		return nil, fmt.Errorf("client: new: %q: %w", baseURL, err)
	}
	client := &Client{base: base, cfg: c.withDefaults(), known: map[string]merkle.Head{}, chain: newChain(), maxEvidence: maxEvidence}
	client.root.Store(&root)
	if client.cfg.Accepted != "" {
		opened, err := root.Head([]byte(client.cfg.Accepted))
		if err != nil {
			return nil, fmt.Errorf("client: new: accepted tree head: %w", err)
		}
		client.accepted = verify.SignedHead{Head: opened, Note: client.cfg.Accepted}
	}
	return client, nil
}

// Root returns what the client checks answers against: the root that it was made
// with, or that root as policies left it which changed the ledger's keys (TRU-5).
// Whoever starts another client later passes it on.
func (c *Client) Root() verify.Root { return *c.root.Load() }
