package keys

import (
	"time"

	"github.com/google/uuid"

	"recoveryledger/ledger/entry"
)

// NewHeader returns the header of a new entry that an issuer signs now for the
// ledger of an origin.
func NewHeader(issuer entry.Principal, origin string) entry.Header {
	return entry.Header{V: 1, JTI: uuid.Must(uuid.NewV7()).String(), Iss: issuer, Aud: origin, Iat: time.Now().Unix()}
}

// FillHeader makes a body the content of a new entry that an issuer signs now for the ledger of an
// origin. The workflow of the body stays.
func FillHeader(body entry.Body, issuer entry.Principal, origin string) {
	h, wid := entry.HeaderOf(body), entry.HeaderOf(body).Wid
	*h = NewHeader(issuer, origin)
	h.Wid = wid
}
