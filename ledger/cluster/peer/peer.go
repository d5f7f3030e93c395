// Package peer is what the nodes of a cluster say to one another beside the order: a node joins,
// takes a copy of the log, and passes requests of clients on to the node that orders the log.
// Commands about the cluster ask there, too.
//
// Every request but that to join needs a certificate of the cluster. Who has one has the keys of
// the ledger as well, so nothing is refused to it.
package peer

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/cluster"
	"recoveryledger/ledger/cluster/site"
)

// The paths of the peer port. What is below pathAPI goes to the API of the node.
const (
	pathJoin   = "/join"
	pathCopy   = "/copy"
	pathStatus = "/status"
	pathToken  = "/token"
	pathRemove = "/remove"
	pathLead   = "/lead"
	pathHead   = "/head"
	pathKeys   = "/keys"
	pathAccuse = "/accuse"
	pathSpace  = "/space"
	pathAPI    = "/api"

	pathCompact = "/compact"
	pathUpgrade = "/upgrade"
)

const (
	answerMax = 16 << 20         // bytes of an answer in JSON
	askTime   = 30 * time.Second // for a request that copies nothing
)

// Config is what a node serves to its peers. Every field is mandatory.
type Config struct {
	Node *cluster.Node
	Site *site.Site
	// Keys is the directory with the keys of the ledger, which a node that joins gets.
	Keys string
	// Copy writes a copy of the database to a directory that does not exist.
	Copy func(dir string) error
	// Show shows the log of this node, and the root of a size.
	Show func(size uint64) (*cluster.Shown, error)
	// Accused is told of a node that has another root of a size than this one. It does not
	// return.
	Accused func(err error)
	Logger  *slog.Logger
}

// Server is the peer port of a node.
type Server struct {
	cfg   Config
	peers *Client
	http  *http.Server
	api   atomic.Pointer[http.Handler]
}

// New returns the peer port of a node.
func New(c Config) (*Server, error) {
	own, _, err := c.Site.TLS()
	if err != nil {
		return nil, err
	}
	peers, err := NewClient(c.Site)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: c, peers: peers}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+pathJoin, s.join)
	for path, handle := range map[string]func(*http.Request) (any, error){
		"GET " + pathStatus: s.status, "POST " + pathToken: s.token, "POST " + pathRemove: s.remove, "POST " + pathLead: s.lead,
		"POST " + pathKeys: s.keys, "GET " + pathSpace: s.space, "POST " + pathCompact: s.compact, "POST " + pathUpgrade: s.upgrade,
		"GET " + pathHead: s.head, "POST " + pathAccuse: s.accuse,
	} {
		mux.HandleFunc(path, known(answering(handle)))
	}
	mux.HandleFunc("GET "+pathCopy, known(s.copy))
	mux.HandleFunc(pathAPI+"/", known(http.StripPrefix(pathAPI, http.HandlerFunc(s.pass)).ServeHTTP))
	s.http = &http.Server{Handler: mux, TLSConfig: own, ReadHeaderTimeout: askTime, ErrorLog: slog.NewLogLogger(c.Logger.Handler(), slog.LevelDebug)}
	return s, nil
}

// Answer has api answer what other nodes pass on. Before that the node says that it is not ready.
func (s *Server) Answer(api http.Handler) { s.api.Store(&api) }

func (s *Server) pass(w http.ResponseWriter, r *http.Request) {
	if api := s.api.Load(); api != nil {
		(*api).ServeHTTP(w, r)
		return
	}
	http.Error(w, "peer: this node only starts", http.StatusServiceUnavailable)
}

// Run serves until ctx ends. Requests under way end with it: clients send them again.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	defer context.AfterFunc(ctx, s.Close)()
	if err := s.http.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("peer: serve %s: %w", listener.Addr(), err)
	}
	return nil
}

// Close ends [Server.Run].
func (s *Server) Close() { _ = s.http.Close() } // no request is waited for

// known answers nodes of the cluster alone.
func known(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			http.Error(w, "peer: this needs a certificate of the cluster", http.StatusForbidden)
			return
		}
		next(w, r)
	}
}

// answering answers in JSON, or with the text of an error.
func answering(handle func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), askTime)
		defer cancel()
		answer, err := handle(r.WithContext(ctx))
		body := []byte(nil)
		if err == nil {
			body, err = json.Marshal(answer)
		}
		if err != nil {
			http.Error(w, err.Error(), statusOf(err))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body) // the one that asked is gone
	}
}

// statusOf returns the status of an answer with an error.
func statusOf(err error) int {
	if passed, ok := errors.AsType[*Refused](err); ok {
		return passed.Status
	}
	switch {
	case errors.Is(err, cluster.ErrNoNode):
		return http.StatusNotFound
	case errors.Is(err, cluster.ErrName), errors.Is(err, cluster.ErrToken):
		return http.StatusConflict
	case cluster.Passes(err):
		return http.StatusServiceUnavailable
	}
	return http.StatusConflict
}

// Joining is what a node says that wants to join.
type Joining struct {
	Secret  string          `json:"secret"`
	Name    string          `json:"name"` // empty: any
	Contact cluster.Contact `json:"contact"`
	Request []byte          `json:"request"` // for its certificate
}

// join admits a node. The secret is its only credential, so it is taken first.
func (s *Server) join(w http.ResponseWriter, r *http.Request) {
	answering(func(r *http.Request) (any, error) {
		var asked Joining
		if err := json.UnmarshalRead(io.LimitReader(r.Body, answerMax), &asked); err != nil {
			return nil, fmt.Errorf("peer: join: %w", err)
		}
		until, err := s.cfg.Node.Admit(r.Context(), asked.Secret, time.Now())
		if err != nil {
			return nil, err
		}
		keys, err := ReadKeys(s.cfg.Keys)
		if err != nil {
			return nil, err
		}
		name, members, err := s.cfg.Node.Add(r.Context(), asked.Name, asked.Contact)
		if err != nil { // the token counts again
			return nil, errors.Join(err, s.cfg.Node.Permit(context.WithoutCancel(r.Context()), asked.Secret, until))
		}
		s.cfg.Logger.Info("a node joins the cluster", "node", name, "peer", asked.Contact.Peer)
		return s.cfg.Site.Admits(name, asked.Request, members, keys)
	})(w, r)
}

// copy sends a copy of the database as a tar archive.
func (s *Server) copy(w http.ResponseWriter, _ *http.Request) {
	dir, err := os.MkdirTemp(filepath.Dir(s.cfg.Keys), "copy-") // on the disk of the database: files are linked
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db := filepath.Join(dir, "db")
	if err := s.cfg.Copy(db); err != nil {
		s.cfg.Logger.Error("a node that joins gets no copy of the log", "error", err.Error())
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	archive := tar.NewWriter(w)
	if err := archive.AddFS(os.DirFS(db)); err != nil {
		s.cfg.Logger.Warn("a node that joins gets no copy of the log", "error", err.Error())
		panic(http.ErrAbortHandler) // the archive is not whole
	}
	if err := archive.Close(); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// Status is the cluster as a node sees it.
type Status struct {
	Node    string           `json:"node"`   // that answers
	Leader  string           `json:"leader"` // empty: none
	Members []cluster.Member `json:"members"`
}

// clusterOf returns the cluster as a node sees it.
func clusterOf(ctx context.Context, n *cluster.Node) (*Status, error) {
	members, err := n.Members(ctx)
	if err != nil {
		return nil, err
	}
	leader, err := n.Leader(ctx)
	return &Status{Node: n.Name(), Leader: leader, Members: members}, err
}

func (s *Server) status(r *http.Request) (any, error) { return clusterOf(r.Context(), s.cfg.Node) }

func (s *Server) token(r *http.Request) (any, error) {
	t, err := s.cfg.Site.NewToken()
	if err != nil {
		return nil, err
	}
	return t.String(), s.cfg.Node.Permit(r.Context(), t.Secret, time.Now().Add(site.TokenLife))
}

// remove removes a node. If that node leads, this one leads first, so that the nodes that remain
// need not elect. They elect where the leader hands nothing over.
func (s *Server) remove(r *http.Request) (any, error) {
	name := r.URL.Query().Get("node")
	if leader, err := s.cfg.Node.Leader(r.Context()); err == nil && leader == name {
		ctx, cancel := context.WithTimeout(r.Context(), handOverTime)
		if _, err := s.handOver(ctx, s.cfg.Node.Name(), false); err != nil {
			s.cfg.Logger.Warn("the node that is removed does not hand the lead over", "node", name, "error", err.Error())
		}
		cancel()
	}
	if err := s.cfg.Node.Remove(r.Context(), name); err != nil {
		return nil, err
	}
	s.cfg.Logger.Warn("a node is removed from the cluster", "node", name)
	return clusterOf(r.Context(), s.cfg.Node)
}

// handOverTime is how long a node waits for the lead of a node that is removed.
const handOverTime = 3 * time.Second

func (s *Server) lead(r *http.Request) (any, error) {
	return s.handOver(r.Context(), r.URL.Query().Get("node"), r.URL.Query().Has("passed"))
}

// handOver has a node lead. Only the node that leads can; another one asks it, unless it was passed
// the question.
func (s *Server) handOver(ctx context.Context, name string, passed bool) (*Status, error) {
	if s.cfg.Node.Leads() {
		if name != s.cfg.Node.Name() {
			if err := s.cfg.Node.HandOver(ctx, name); err != nil {
				return nil, err
			}
		}
		return clusterOf(ctx, s.cfg.Node)
	}
	leader, err := s.leader(ctx)
	if err != nil || passed {
		return nil, errors.Join(err, fmt.Errorf("%w: no node leads at the moment", agreement.ErrNotLeading))
	}
	return s.peers.Lead(ctx, leader.Peer, name, true)
}

// leader returns how to reach the node that leads.
func (s *Server) leader(ctx context.Context) (*cluster.Contact, error) {
	return leaderOf(ctx, s.cfg.Node)
}

func leaderOf(ctx context.Context, n *cluster.Node) (*cluster.Contact, error) {
	name, err := n.Leader(ctx)
	if err != nil {
		return nil, err
	}
	if name == "" || name == n.Name() {
		return nil, fmt.Errorf("%w: no other node leads", agreement.ErrNotLeading)
	}
	c, err := n.Contact(ctx, name)
	if err == nil && c == nil {
		err = fmt.Errorf("peer: nobody knows where %s is", name)
	}
	return c, err
}

// Client asks nodes of a cluster.
type Client struct{ http *http.Client }

// NewClient returns a client with the certificate of a node.
func NewClient(s *site.Site) (*Client, error) {
	_, own, err := s.TLS()
	if err != nil {
		return nil, err
	}
	return &Client{&http.Client{Transport: &http.Transport{TLSClientConfig: own, ForceAttemptHTTP2: true, DisableCompression: true}}}, nil
}

// Join asks a node of the cluster that a token names for admission.
func Join(ctx context.Context, t *site.Token, asked *Joining) (*site.Admission, error) {
	c := &Client{&http.Client{Transport: &http.Transport{TLSClientConfig: site.Pinned(t.CA, site.Host(t.Peer)), ForceAttemptHTTP2: true}}}
	defer c.http.CloseIdleConnections()
	asked.Secret = t.Secret
	body, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	a := new(site.Admission)
	return a, c.ask(ctx, http.MethodPost, t.Peer+pathJoin, body, a)
}

// Copy takes a copy of the database of a node to a directory that does not exist.
func (c *Client) Copy(ctx context.Context, address, dir string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+pathCopy, http.NoBody)
	if err != nil {
		return err
	}
	response, err := c.http.Do(r)
	if err != nil {
		return fmt.Errorf("peer: copy the database: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if err := refused(response); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for archive := tar.NewReader(response.Body); ; {
		header, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("peer: copy the database: %w", err)
		case header.Typeflag == tar.TypeDir:
			err = root.MkdirAll(strings.TrimSuffix(header.Name, "/"), 0o700)
		case header.Typeflag == tar.TypeReg:
			err = write(root, header.Name, archive)
		}
		if err != nil {
			return fmt.Errorf("peer: copy the database: %w", err)
		}
	}
}

func write(root *os.Root, name string, from io.Reader) error {
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Status asks a node for the cluster.
func (c *Client) Status(ctx context.Context, address string) (*Status, error) {
	s := new(Status)
	return s, c.ask(ctx, http.MethodGet, address+pathStatus, nil, s)
}

// Token asks a node for a token.
func (c *Client) Token(ctx context.Context, address string) (token string, err error) {
	err = c.ask(ctx, http.MethodPost, address+pathToken, nil, &token)
	return token, err
}

// Remove removes a node.
func (c *Client) Remove(ctx context.Context, address, node string) (*Status, error) {
	s := new(Status)
	return s, c.ask(ctx, http.MethodPost, address+pathRemove+"?node="+url.QueryEscape(node), nil, s)
}

// Lead has a node lead. passed says that this node was asked before, and does not lead.
func (c *Client) Lead(ctx context.Context, address, node string, passed bool) (*Status, error) {
	path := pathLead + "?node=" + url.QueryEscape(node)
	if passed {
		path += "&passed"
	}
	s := new(Status)
	return s, c.ask(ctx, http.MethodPost, address+path, nil, s)
}

// ask sends a request to an address and path of a node.
func (c *Client) ask(ctx context.Context, method, place string, body []byte, answer any) error {
	r, err := http.NewRequestWithContext(ctx, method, "https://"+place, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := c.http.Do(r)
	if err != nil {
		return fmt.Errorf("peer: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if err := refused(response); err != nil {
		return err
	}
	if err := json.UnmarshalRead(io.LimitReader(response.Body, answerMax), answer); err != nil {
		return fmt.Errorf("peer: answer of %s: %w", place, err)
	}
	return nil
}

// Refused is the refusal of a node.
type Refused struct {
	Status int
	Text   string
}

// Error implements error.
func (r *Refused) Error() string { return r.Text }

func refused(response *http.Response) error {
	if response.StatusCode == http.StatusOK {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err != nil {
		return fmt.Errorf("peer: status %d: %w", response.StatusCode, err)
	}
	return &Refused{response.StatusCode, strings.TrimSpace(string(text))}
}
