package access

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/cmd/arl/exit"
	"recoveryledger/cmd/arl/trust"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// Connection is the connection to a ledger's server. It has the pinned facts about the ledger.
type Connection struct {
	Client  *client.Client
	URL     string
	Root    verify.Root
	Profile *trust.Profile // nil: this machine has no profile of the ledger
	Before  *merkle.Head   // accepted before this command; nil: none
	Clock   *ServerClock   // clock of the server, from its answers
}

// WithConnection connects to the ledger, and calls use. After use it saves the newest tree head
// that was accepted meanwhile.
func (m *Machine) WithConnection(ctx context.Context, t *Target, use func(*Connection) error) error {
	c, err := m.connect(ctx, t)
	if err != nil {
		return err
	}
	err = use(c)
	accepted := c.Client.Accepted()
	if accepted.Note == "" || c.Before != nil && accepted.Head == *c.Before {
		return err
	}
	return errors.Join(err, m.Trust.SaveHead(c.Root.Origin, accepted.Note))
}

// WithWatched connects as [Machine.WithConnection] does, for a command that shows statements of the
// server without a proof. If the root names witnesses, the witnesses must first have cosigned the
// log's tree head. Otherwise the error is a [*verify.WitnessError], as in a command that reads the
// head itself.
func (m *Machine) WithWatched(ctx context.Context, t *Target, use func(*Connection) error) error {
	return m.WithConnection(ctx, t, func(c *Connection) error {
		if c.Root.Watched() {
			if _, err := c.Head(ctx); err != nil {
				return err
			}
		}
		return use(c)
	})
}

// connect finds the URL and the pinned root of a ledger. For a URL without a profile or a root,
// connect uses the profile that matchProfile finds.
func (m *Machine) connect(ctx context.Context, t *Target) (*Connection, error) {
	c := &Connection{URL: t.URL}
	var err error
	switch {
	case t.URL == "" || t.Profile != "":
		c.Profile, err = m.Trust.Select(t.Profile)
	case t.Root == "":
		c.Profile, err = m.matchProfile(ctx, t)
	}
	if err != nil {
		return nil, err
	}
	if c.Profile != nil {
		c.Root = trust.WithCosigner(c.Profile.Root)
		c.URL = cmp.Or(c.URL, c.Profile.URL)
		if c.URL == c.Profile.URL {
			t = t.trusting(c.Profile)
		}
	}
	if t.Root != "" {
		if c.Root, err = m.ReadRoot(t.Root); err != nil {
			return nil, err
		}
		if c.Profile != nil && c.Profile.Root.Genesis != c.Root.Genesis {
			return nil, exit.With(exit.Config, fmt.Errorf("profile %s pins another ledger than %s", c.Profile.Name, t.Root))
		}
	}
	verifier, err := keys.NewVerifier(0)
	if err != nil {
		return nil, err
	}
	c.Root.Signature = verifier.Check // remembers keys: the same keys sign again and again
	known, err := m.Trust.Head(c.Root)
	if err != nil {
		return nil, err
	}
	if known != nil {
		c.Before = &known.Head
	} else {
		known = new(verify.SignedHead)
	}
	c.Client, c.Clock, err = t.Client(c.URL, c.Root, &client.Config{Accepted: known.Note, Keep: m.Trust.KeepRoot})
	return c, err
}

// matchProfile finds the profile of the ledger of a server: the profile with the same URL if there
// is one, otherwise the profile with the origin that the server names.
func (m *Machine) matchProfile(ctx context.Context, t *Target) (*trust.Profile, error) {
	names, err := m.Trust.Profiles()
	if err != nil {
		return nil, err
	}
	var profiles []*trust.Profile
	for _, name := range names {
		p, err := m.Trust.Profile(name)
		if err != nil {
			return nil, err
		}
		if p.URL == t.URL {
			return p, nil
		}
		profiles = append(profiles, p)
	}
	for _, p := range profiles {
		c, _, err := t.Client(t.URL, p.Root, new(client.Config))
		if err != nil {
			return nil, err
		}
		if _, err = c.Log(ctx); errors.Is(err, client.ErrNotServed) {
			_, err = c.Head(ctx)
		}
		if _, unseen := errors.AsType[*verify.WitnessError](err); unseen {
			return p, nil // the ledger of p; the command reports missing cosignatures
		}
		if _, answered := errors.AsType[*api.Problem](err); err == nil || answered || exit.SystemCode(err) != exit.Internal {
			return p, err
		}
	}
	return nil, exit.With(exit.Config, fmt.Errorf("nothing on this machine pins the ledger at %s: get its root from a trusted person, and pass --root FILE", t.URL))
}

// Client returns a client of the server at a URL, and the clock of the server. Client adds the
// transport to config, with the certificates that the flags name.
func (t *Target) Client(url string, root verify.Root, config *client.Config) (*client.Client, *ServerClock, error) {
	secure, err := t.tlsConfig()
	if err != nil {
		return nil, nil, err
	}
	clock := &ServerClock{next: client.Transport(secure, url)}
	if len(secure.Certificates) == 0 {
		secure.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			clock.asked.Store(true)
			return new(tls.Certificate), nil // none
		}
	}
	config.HTTP = &http.Client{Transport: clock}
	c, err := client.New(url, root, config)
	return c, clock, exit.With(exit.Config, err)
}

// trusting returns the target with the CA file of the profile if the flags name no CA file.
func (t *Target) trusting(p *trust.Profile) *Target {
	with := *t
	with.TLSCA = cmp.Or(t.TLSCA, p.TLSCA)
	return &with
}

// tlsConfig reads the certificates that the flags name.
func (t *Target) tlsConfig() (*tls.Config, error) {
	if err := CheckPair(t.TLSCert, t.TLSKey); err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	if t.TLSCA != "" {
		pem, err := os.ReadFile(t.TLSCA)
		if err != nil {
			return nil, exit.With(exit.Config, fmt.Errorf("what the server's certificate is checked with: %w (pass --tls-ca)", err))
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, exit.With(exit.Config, fmt.Errorf("%s: the file has no certificate", t.TLSCA))
		}
	}
	if t.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(t.TLSCert, t.TLSKey)
		if err != nil {
			return nil, exit.With(exit.Config, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// explainTLSError adds the remedy to a TLS error. asked says that the server asked for a
// certificate and got none. The kind of the error then depends on chance, so asked decides the
// remedy.
func explainTLSError(err error, asked bool) error {
	remedy := ""
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		remedy = "pass --tls-ca with the CA of the server's certificate, from a trusted person"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		remedy = "pass --url with a name that the server's certificate has"
	}
	if asked {
		remedy = "the server requires a client certificate: pass --tls-cert and --tls-key of a certificate that its --tls-client-ca signed"
	}
	if remedy == "" {
		return err
	}
	return fmt.Errorf("%w (%s)", err, remedy)
}

// ServerClock learns the server's clock from the dates of the answers. A date is the server's time
// cut to a second (RFC 9110, section 5.6.7). It is safe for concurrent use.
type ServerClock struct {
	next http.RoundTripper
	skew atomic.Pointer[time.Duration] // nil: no answer had a date

	asked atomic.Bool // whether the server asked for a certificate and got none
}

// Skew returns the time by which the server's clock is ahead of this machine's clock. seen says
// that an answer had a date.
func (s *ServerClock) Skew() (skew time.Duration, seen bool) {
	if told := s.skew.Load(); told != nil {
		return *told, true
	}
	return 0, false
}

// RoundTrip implements [http.RoundTripper].
func (s *ServerClock) RoundTrip(request *http.Request) (*http.Response, error) {
	sent := time.Now()
	response, err := s.next.RoundTrip(request)
	if err != nil {
		return nil, explainTLSError(err, s.asked.Load())
	}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		s.learn(time.Until(date), date.Add(time.Second).Sub(sent))
	}
	return response, nil
}

// learn takes from an answer between which two values the skew is. A skew between them stays, so
// that the time of the server does not go back and forth by the second that a date leaves open.
// Otherwise the smaller value is the skew: an act must not be dated after the server's time. Of two
// answers at once, the second one to come here begins with the skew of the first one.
func (s *ServerClock) learn(least, below time.Duration) {
	for {
		known := s.skew.Load()
		skew := new(time.Duration)
		if known != nil {
			*skew = *known
		}
		if *skew < least || *skew >= below {
			*skew = least
		}
		if s.skew.CompareAndSwap(known, skew) {
			return
		}
	}
}

// Chain returns the verified chain of policies and keys as of now.
func (c *Connection) Chain(ctx context.Context) (*verify.Chain, error) {
	if err := c.Client.CatchUp(ctx); err != nil {
		return nil, err
	}
	chain, err := c.Client.Chain(ctx)
	if err != nil {
		return nil, err
	}
	if policy, _ := chain.Policy(); policy == nil {
		return nil, exit.With(exit.Unavailable, errors.New("the ledger has no genesis policy yet"))
	}
	return chain, nil
}

// Agent returns the facts of the chain about a principal.
func (c *Connection) Agent(ctx context.Context, principal string) (*verify.AgentInfo, error) {
	chain, err := c.Chain(ctx)
	if err != nil {
		return nil, err
	}
	info, ok := chain.Agent(entry.Principal(principal))
	if !ok {
		return nil, exit.With(exit.NotFound, fmt.Errorf("%s was never enrolled", principal))
	}
	return &info, nil
}

// Register implements [record.Ledger].
func (c *Connection) Register(ctx context.Context, entries []*entry.Entry) error {
	_, err := c.Client.SubmitBatch(ctx, entries)
	return err
}

// Receipts implements [record.Ledger].
func (c *Connection) Receipts(ctx context.Context, index entry.Index, value string) iter.Seq2[*verify.Receipt, error] {
	q := api.ListQuery{Limit: api.MaxPage}
	switch index {
	case entry.ByKind:
		q.Kinds = []entry.Kind{entry.Kind(value)}
	case entry.ByWorkflow:
		q.Workflow = entry.WorkflowID(value)
	case entry.ByTask:
		q.Task = entry.Ref(value)
	default:
		return func(yield func(*verify.Receipt, error) bool) {
			yield(nil, fmt.Errorf("access: a server lists no entries by the index %q", index))
		}
	}
	return func(yield func(*verify.Receipt, error) bool) {
		for e, err := range c.Client.Entries(ctx, q) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(&e.Receipt, nil) {
				return
			}
		}
	}
}

// Consistency implements [record.Ledger].
func (c *Connection) Consistency(ctx context.Context, older, newer string) (verify.ConsistencyProof, error) {
	return c.Client.Consistency(ctx, older, newer)
}

// Cosigned implements [Registry].
func (c *Connection) Cosigned() string { return c.Client.Cosigned().Note }

// RefTo returns the reference to an entry of the log.
func (c *Connection) RefTo(ctx context.Context, index uint64) (*entry.LogRef, error) {
	r, err := c.Receipt(ctx, index)
	if err != nil {
		return nil, err
	}
	return &entry.LogRef{Index: index, LeafHash: merkle.HashLeaf(r.Leaf)}, nil
}

// Execution implements [record.Ledger]. It looks among the entries of the execution's agent.
func (c *Connection) Execution(ctx context.Context, ref entry.Ref) (*entry.Execution, error) {
	issuer, _ := ref.Split()
	for e, err := range c.Client.Entries(ctx, api.ListQuery{Agent: issuer, Kinds: []entry.Kind{entry.KindExecution}, Newest: true}) {
		if err != nil {
			return nil, err
		}
		if x, ok := e.Body.(*entry.Execution); ok && x.Ref() == ref {
			return x, nil
		}
	}
	return nil, nil
}

// WorkflowOf finds the workflow of an execution.
func (c *Connection) WorkflowOf(ctx context.Context, subject entry.Ref) (entry.WorkflowID, error) {
	x, err := c.Execution(ctx, subject)
	if err == nil && x == nil {
		err = exit.With(exit.NotFound, fmt.Errorf("no execution %s in the log", subject))
	}
	if err != nil {
		return "", err
	}
	return x.Wid, nil
}

// Head returns the cosigned head if there is one. Otherwise it returns the newest accepted head if
// that is larger than the published head, which can be up to a second old.
func (c *Connection) Head(ctx context.Context) (verify.SignedHead, error) {
	published, err := c.Client.Head(ctx)
	if err != nil {
		return verify.SignedHead{}, err
	}
	if err := c.Client.CatchUp(ctx); err != nil {
		return verify.SignedHead{}, err
	}
	if cosigned := c.Client.Cosigned(); cosigned.Note != "" {
		return cosigned, nil // the cosigned head covers every entry that was shown
	}
	if accepted := c.Client.Accepted(); accepted.Size > published.Size {
		return accepted, nil
	}
	return published, nil
}

// publishWait is the time that a ledger may take to publish registered entries; a mirror may take
// longer.
const publishWait = 2 * time.Second

// Published waits until the entries that are registered at the call are published. It waits no
// longer than publishWait.
func (c *Connection) Published(ctx context.Context) (verify.SignedHead, error) {
	if err := c.Client.CatchUp(ctx); err != nil {
		return verify.SignedHead{}, err
	}
	registered := c.Client.Accepted().Size
	again := time.NewTicker(publishWait / 20)
	defer again.Stop()
	for deadline := time.Now().Add(publishWait); ; {
		head, err := c.Client.Head(ctx)
		if err != nil || head.Size >= registered || time.Now().After(deadline) {
			return head, err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return verify.SignedHead{}, ctx.Err()
		}
	}
}

// Receipt returns a verified receipt.
func (c *Connection) Receipt(ctx context.Context, index uint64) (*verify.Receipt, error) {
	return c.Client.Receipt(ctx, index)
}

// COSE returns a receipt as a verified COSE receipt, and in its usual form.
func (c *Connection) COSE(ctx context.Context, index uint64) ([]byte, *verify.Receipt, error) {
	return c.Client.COSE(ctx, index)
}

// Consistent returns a [*verify.ForkError] if the newer head is proven not to continue the older
// one.
func (c *Connection) Consistent(ctx context.Context, older, newer verify.SignedHead) error {
	_, err := c.Client.Consistency(ctx, older.Note, newer.Note)
	return err
}

// Tile implements [audit.Source].
func (c *Connection) Tile(ctx context.Context, t merkle.Tile) ([]byte, error) {
	return c.Client.Tile(ctx, t)
}

// CheckPair returns a usage error if only one of the flags of a certificate and its key is set.
func CheckPair(cert, key string) error {
	if (cert == "") != (key == "") {
		return exit.Usagef("--tls-cert and --tls-key are a pair: pass both")
	}
	return nil
}
