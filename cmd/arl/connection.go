package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"recoveryledger/api"
	"recoveryledger/api/client"
	"recoveryledger/ledger/entry"
	"recoveryledger/ledger/keys"
	"recoveryledger/merkle"
	"recoveryledger/verify"
)

// connection is a ledger's server, and what is pinned of the ledger.
type connection struct {
	client  *client.Client
	url     string
	root    verify.Root
	profile *profile     // nil: there is none on this machine
	before  *merkle.Head // accepted before this command; nil: none
	clock   *serverClock // as the server's answers show it
}

// withConnection connects for as long as use takes, and remembers the newest
// head that was accepted meanwhile.
func (a *app) withConnection(ctx context.Context, t *target, use func(*connection) error) error {
	c, err := a.connect(ctx, t)
	if err != nil {
		return err
	}
	err = use(c)
	accepted := c.client.Accepted()
	if accepted.Note == "" || c.before != nil && accepted.Head == *c.before {
		return err
	}
	return errors.Join(err, a.saveHead(c.root.Origin, accepted.Note))
}

// connect finds URL and pinned root of a ledger. A URL without a profile is
// matched to the profile that pins the origin which its server names.
func (a *app) connect(ctx context.Context, t *target) (*connection, error) {
	c := &connection{url: t.url}
	var err error
	switch {
	case t.url == "" || t.profile != "":
		c.profile, err = a.chooseProfile(t.profile)
	case t.root == "":
		c.profile, err = a.matchProfile(ctx, t)
	}
	if err != nil {
		return nil, err
	}
	if c.profile != nil {
		c.root = withCosigner(c.profile.Root)
		c.url = cmp.Or(c.url, c.profile.URL)
		if c.url == c.profile.URL {
			t = t.trusting(c.profile)
		}
	}
	if t.root != "" {
		if c.root, err = a.readRoot(t.root); err != nil {
			return nil, err
		}
		if c.profile != nil && c.profile.Root.Genesis != c.root.Genesis {
			return nil, withExit(exitConfig, fmt.Errorf("profile %s pins another ledger than %s", c.profile.Name, t.root))
		}
	}
	verifier, err := keys.NewVerifier(0)
	if err != nil {
		return nil, err
	}
	c.root.Signature = verifier.Check // the same keys sign again and again
	known, err := a.loadHead(c.root)
	if err != nil {
		return nil, err
	}
	if known != nil {
		c.before = &known.Head
	} else {
		known = new(verify.SignedHead)
	}
	c.client, c.clock, err = t.client(c.url, c.root, &client.Config{Accepted: known.Note, Keep: a.keepRoot})
	return c, err
}

// matchProfile finds the profile of the ledger that a server serves: that with
// the same URL if there is one, else that whose origin the server names.
func (a *app) matchProfile(ctx context.Context, t *target) (*profile, error) {
	names, err := a.profileNames()
	if err != nil {
		return nil, err
	}
	var profiles []*profile
	for _, name := range names {
		p, err := a.loadProfile(name)
		if err != nil {
			return nil, err
		}
		if p.URL == t.url {
			return p, nil
		}
		profiles = append(profiles, p)
	}
	for _, p := range profiles {
		c, _, err := t.client(t.url, p.Root, new(client.Config))
		if err != nil {
			return nil, err
		}
		if _, err = c.Log(ctx); errors.Is(err, client.ErrNotServed) {
			_, err = c.Head(ctx)
		}
		if _, unseen := errors.AsType[*verify.WitnessError](err); unseen {
			return p, nil // it is that ledger; the command finds out what it is worth
		}
		if _, answered := errors.AsType[*api.Problem](err); err == nil || answered || systemCode(err) != exitInternal {
			return p, err
		}
	}
	return nil, withExit(exitConfig, fmt.Errorf("nothing on this machine pins the ledger at %s: obtain its root from somebody you trust, and pass --root FILE", t.url))
}

// client returns a client of the server at a URL, configured but for how to get there.
func (t *target) client(url string, root verify.Root, config *client.Config) (*client.Client, *serverClock, error) {
	secure, err := t.tlsConfig()
	if err != nil {
		return nil, nil, err
	}
	clock := &serverClock{next: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: secure, ForceAttemptHTTP2: true}}
	if len(secure.Certificates) == 0 {
		secure.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			clock.asked.Store(true)
			return new(tls.Certificate), nil // none
		}
	}
	config.HTTP = &http.Client{Transport: clock}
	c, err := client.New(url, root, config)
	return c, clock, withExit(exitConfig, err)
}

// trusting returns the target with the certificates that the profile names for
// its URL, where the flags name none.
func (t *target) trusting(p *profile) *target {
	with := *t
	with.tlsCA = cmp.Or(t.tlsCA, p.TLSCA)
	return &with
}

// tlsConfig reads the certificates that the flags name.
func (t *target) tlsConfig() (*tls.Config, error) {
	if err := checkPair(t.tlsCert, t.tlsKey); err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	if t.tlsCA != "" {
		pem, err := os.ReadFile(t.tlsCA)
		if err != nil {
			return nil, withExit(exitConfig, fmt.Errorf("what the server's certificate is checked with: %w (pass --tls-ca)", err))
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, withExit(exitConfig, fmt.Errorf("%s: no certificate in it", t.tlsCA))
		}
	}
	if t.tlsCert != "" {
		pair, err := tls.LoadX509KeyPair(t.tlsCert, t.tlsKey)
		if err != nil {
			return nil, withExit(exitConfig, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// unagreed adds to an error of TLS what to do. asked is whether the server asked
// for a certificate and got none: how it hangs up then depends on chance.
func unagreed(err error, asked bool) error {
	remedy := ""
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		remedy = "pass --tls-ca with the CA of the server's certificate, from somebody you trust"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		remedy = "pass --url with a name that the server's certificate has"
	}
	if asked {
		remedy = "the server asks for a certificate: pass --tls-cert and --tls-key of one that its --tls-client-ca has signed"
	}
	if remedy == "" {
		return err
	}
	return fmt.Errorf("%w (%s)", err, remedy)
}

// serverClock reads the server's clock off its answers.
type serverClock struct {
	next http.RoundTripper
	seen bool
	skew time.Duration // how far the server's clock is ahead of ours

	asked atomic.Bool // whether the server asked for a certificate and got none
}

// RoundTrip implements [http.RoundTripper].
func (s *serverClock) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := s.next.RoundTrip(request)
	if err != nil {
		return nil, unagreed(err, s.asked.Load())
	}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		s.seen, s.skew = true, time.Until(date)
	}
	return response, nil
}

// chain returns the verified chain of policies and keys as of now.
func (c *connection) chain(ctx context.Context) (*verify.Chain, error) {
	if err := c.client.CatchUp(ctx); err != nil {
		return nil, err
	}
	chain, err := c.client.Chain(ctx)
	if err != nil {
		return nil, err
	}
	if policy, _ := chain.Policy(); policy == nil {
		return nil, withExit(exitUnavailable, errors.New("the ledger has no genesis policy yet"))
	}
	return chain, nil
}

// agent returns what the chain says of a principal.
func (c *connection) agent(ctx context.Context, principal string) (*verify.AgentInfo, error) {
	chain, err := c.chain(ctx)
	if err != nil {
		return nil, err
	}
	info, ok := chain.Agent(entry.Principal(principal))
	if !ok {
		return nil, withExit(exitNotFound, fmt.Errorf("%s was never enrolled", principal))
	}
	return &info, nil
}

// signer is a private key and whom it speaks for.
type signer struct {
	*keys.Signer
	principal entry.Principal
}

// signerFlags say who signs.
type signerFlags struct {
	key       string // file; empty: the profile's
	principal string // empty: whom the key is enrolled for
}

func (f *signerFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.key, "key", "", "key file to sign with (default: the profile's operator)")
	flags.StringVar(&f.principal, "principal", "", "issuer (default: whom the key is enrolled for)")
}

// signer loads the key that the flags name, or the profile's key of fallback.
func (a *app) signer(ctx context.Context, c *connection, f signerFlags, fallback entry.Principal) (*signer, error) {
	if f.key == "" {
		if c.profile == nil {
			return nil, usage("there is no profile with a key of %s: pass the key file", fallback)
		}
		path, err := c.profile.key(fallback)
		if err != nil {
			return nil, err
		}
		loaded, err := a.loadKey(path)
		return &signer{loaded, cmp.Or(entry.Principal(f.principal), fallback)}, err
	}
	loaded, err := a.loadKey(f.key)
	if err != nil {
		return nil, err
	}
	if f.principal != "" {
		return &signer{loaded, entry.Principal(f.principal)}, nil
	}
	chain, err := c.chain(ctx)
	if err != nil {
		return nil, err
	}
	owner, _ := chain.Owner(loaded.Public().KeyID())
	if owner == "" {
		return nil, withExit(exitDenied, fmt.Errorf("%s: %s is enrolled for nobody: arl agent enrol --key %s", f.key, loaded.Public().KeyID(), f.key))
	}
	return &signer{loaded, owner}, nil
}
