package site

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// TokenLife is how long a token counts. It counts once.
const TokenLife = time.Hour

// ErrToken reports a text that is no token.
var ErrToken = errors.New("site: not a token of a cluster")

const tokenMagic = "arl1"

// Token lets one node join. It names a node of the cluster, and pins the CA of the cluster, so that
// a node that joins sends its secret to no other cluster.
type Token struct {
	Peer   string // HOST:PORT
	CA     [sha256.Size]byte
	Secret string
}

// NewToken returns a token with a new secret.
func (s *Site) NewToken() (*Token, error) {
	digest, err := s.Digest()
	if err != nil {
		return nil, err
	}
	return &Token{Peer: s.Peer, CA: digest, Secret: rand.Text()}, nil
}

// String returns the text of the token: arl1, then address, digest and secret, with dots between
// them.
func (t *Token) String() string {
	enc := base64.RawURLEncoding
	return strings.Join([]string{tokenMagic, enc.EncodeToString([]byte(t.Peer)), enc.EncodeToString(t.CA[:]), t.Secret}, ".")
}

// ParseToken reads what [Token.String] writes. The error is [ErrToken].
func ParseToken(text string) (*Token, error) {
	parts := strings.Split(strings.TrimSpace(text), ".")
	if len(parts) != 4 || parts[0] != tokenMagic || parts[3] == "" {
		return nil, fmt.Errorf("%w: want the text that arl cluster token prints", ErrToken)
	}
	enc := base64.RawURLEncoding.Strict()
	peer, err := enc.DecodeString(parts[1])
	if err == nil {
		_, _, err = net.SplitHostPort(string(peer))
	}
	digest, malformed := enc.DecodeString(parts[2])
	if err := errors.Join(err, malformed); err != nil || len(digest) != sha256.Size {
		return nil, fmt.Errorf("%w: %v", ErrToken, err)
	}
	t := &Token{Peer: string(peer), Secret: parts[3]}
	copy(t.CA[:], digest)
	return t, nil
}
