// Package client talks to a ledger over HTTP and believes nothing. It checks every answer
// against a pinned root before it returns the answer.
//
// Every entry that [Client.Submit], [Client.Receipt], [Client.Entry], [Client.Entries] and
// [Client.Events] return is in the log. The entry has an inclusion proof under a tree head that
// the pinned key has signed. Every head is proven consistent with the last head that the client
// has accepted ([Client.Accepted]). An entry that the client reads is also signed by a key of
// its issuer. The chain of policies and agents from the pinned genesis had let that key in at
// the index of the entry ([Client.Chain]). Two heads that cannot both be true are a
// [*verify.ForkError]. After that the client answers nothing else.
//
// If the root names witnesses, every entry read is under a head that their quorum has cosigned,
// or that such a head continues. Else the error is a [*verify.WitnessError]. The receipt of an
// entry that was just registered is newer than any cosignature.
//
// What follows from the log as a whole is the server's word. [Client.Incidents],
// [Client.Incident], [Client.Plan] and [Client.Workflow] say so. The client holds
// [Client.History] to the entries that it names. To act on such an answer, fold the log
// ([recoveryledger/coord]) or verify its proof.
//
// The client does not check what no answer can show: that a list is complete, that a role
// allowed a signed entry, or that the bytes of a tile belong to the log. An audit of the whole
// log shows it.
//
// The client repeats a request after an error of the network, and when the server asks for it
// (429, 503). That is safe: the ledger registers an entry once, by its issuer and jti.
//
// A ledger may have several nodes, each with its URL. Every request says how large a log the
// client has accepted, so that no node answers from an older log. A node that is behind is a
// [*StaleError], which is no evidence of a fork: only two signed heads are.
package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// Config says how a client behaves. New copies and checks it once. Nil: all defaults.
type Config struct {
	// HTTP makes the requests, with its own TLS and client certificates. A Timeout in it ends
	// event streams. Nil: the client makes its own.
	HTTP *http.Client
	// Accepted is the signed tree head that an earlier client accepted last. Empty: the
	// client believes the first head as signed, and cannot see a fork before it.
	Accepted string
	// Keep stores the root when policies have changed the ledger's keys (TRU-5). The client
	// calls Keep before it accepts a head that only new keys sign. Nil: the root is not stored,
	// and a later client needs a newer root.
	Keep func(root verify.Root) error
	// Attempts is the number of times that a request is made at each node before its error is
	// returned. 0: 5; 1: the request is never repeated.
	Attempts int
	// Timeout bounds each attempt, and the silence of an event stream. 0: 1 min.
	Timeout time.Duration
	// MaxWait is the longest time that a server may ask to wait before the next attempt. If the
	// server asks for more, the problem is returned. 0: 30 s.
	MaxWait time.Duration
}

func (c *Config) withDefaults(urls string) *Config {
	d := Config{}
	if c != nil {
		d = *c
	}
	if d.HTTP == nil {
		d.HTTP = &http.Client{Transport: Transport(nil, urls)}
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

// How long a node of several may be silent before it is asked for a sign of life, and how long it
// has to give one. A busy node needs some time even for a ping.
const (
	pingAfter = 2 * time.Second
	pingMax   = 3 * time.Second
)

// Transport returns the transport of a client of urls, as [New] takes them. secure may be nil. Of
// several nodes one may hang, and its kernel keeps the connection: over HTTP/2 (RFC 9113, section
// 6.7) a request at a node that answers no ping fails within some seconds, and the client asks the
// next node. One node alone is not pinged, because nobody else could answer.
func Transport(secure *tls.Config, urls string) *http.Transport {
	own := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	if standard, ok := http.DefaultTransport.(*http.Transport); ok {
		own = standard.Clone()
	}
	own.MaxIdleConnsPerHost = own.MaxIdleConns
	if secure != nil {
		own.TLSClientConfig = secure
	}
	if strings.Contains(urls, ",") {
		own.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingMax}
	}
	return own
}

// Client is a ledger at its URLs under a pinned root. It is safe for concurrent
// use.
type Client struct {
	servers []*url.URL    // of the nodes of the ledger
	server  atomic.Uint32 // place in servers of the node to ask
	cfg     *Config
	root    atomic.Pointer[verify.Root] // replaced when a policy changes the ledger's keys

	// mu guards what the client has accepted. It is held while the client proves a new head
	// consistent.
	mu       sync.Mutex
	accepted verify.SignedHead
	cosigned verify.SignedHead      // the largest head that the witnesses of the root have cosigned
	known    map[string]merkle.Head // signed heads proven consistent, a few
	fork     error                  // if not nil, the client accepts nothing more
	reached  atomic.Uint64          // size of accepted, for requests

	chain chain

	maxEvidence int // documents in a list of evidence
}

// New returns a client of a ledger. urls names its nodes, with commas between them: the client
// asks the next node after an error of the network or a 503. New makes no request.
func New(urls string, root verify.Root, c *Config) (*Client, error) {
	client := &Client{cfg: c.withDefaults(urls), known: map[string]merkle.Head{}, chain: newChain(), maxEvidence: maxEvidence}
	for text := range strings.SplitSeq(urls, ",") {
		text = strings.TrimSpace(text)
		node, err := url.Parse(text)
		if err == nil && (node.Scheme != "http" && node.Scheme != "https" || node.Host == "" || node.RawQuery != "" || node.Fragment != "") {
			err = errors.New("want http://host or https://host, and a path at most")
		}
		if err != nil {
			return nil, fmt.Errorf("client: new: %q: %w", text, err)
		}
		client.servers = append(client.servers, node)
	}
	client.root.Store(&root)
	if client.cfg.Accepted != "" {
		opened, err := root.Head([]byte(client.cfg.Accepted))
		if err != nil {
			return nil, fmt.Errorf("client: new: accepted tree head: %w", err)
		}
		client.accepted = verify.SignedHead{Head: opened, Note: client.cfg.Accepted}
		client.reached.Store(opened.Size)
	}
	return client, nil
}

// Root returns the root against which the client checks answers. It is the root that the client
// was made with, with the changes that policies made to the ledger's keys (TRU-5). Pass it to
// the next client.
func (c *Client) Root() verify.Root { return *c.root.Load() }
