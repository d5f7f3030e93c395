package keys

import (
	"bytes"
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"sync"
	"time"

	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/kms"
	"github.com/sigstore/sigstore/pkg/signature/kms/cliplugin"
	"github.com/sigstore/sigstore/pkg/signature/options"

	"recoveryledger/ledger/entry"
)

// KMSError reports that the key at a URI cannot be used. It wraps [ErrSignature] if the KMS
// returned a signature that is not the key's, context.DeadlineExceeded if the KMS did not answer in
// time, exec.ErrNotFound if there is no program for the scheme, or an [*entry.Refusal] for a key of
// another algorithm.
type KMSError struct {
	URI    string // as it was given
	Remedy string
	Err    error
}

// Error implements error. Text that comes from the program is quoted.
func (e *KMSError) Error() string {
	return fmt.Sprintf("keys: the key %.300q: %v", e.URI, e.Err)
}

// Unwrap returns the cause.
func (e *KMSError) Unwrap() error { return e.Err }

// kmsURI is the form of a key's URI: SCHEME://REST. A scheme is part of a program's name, so that
// it has no separator of paths.
var kmsURI = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([a-z0-9][a-z0-9+.-]*)://.`) })

// IsURI reports whether name is the URI of a key in a KMS, and not the path of a file.
func IsURI(name string) bool { return kmsURI().MatchString(name) }

// kmsKey is a key in a KMS, reached through the program sigstore-kms-SCHEME. The program runs once
// for each signature. It implements [signature.Signer].
type kmsKey struct {
	uri    string
	public entry.PublicKey
	wait   time.Duration // for each answer
	health health
}

// openKMS asks the KMS for the public key of a URI.
func openKMS(uri string, wait time.Duration) (*Signer, error) {
	k := newKMSKey(uri, wait)
	half, err := askKMS(k, func(ctx context.Context, sv kms.SignerVerifier) (crypto.PublicKey, error) {
		return sv.PublicKey(options.WithContext(ctx))
	})
	if err != nil {
		return nil, err
	}
	if k.public, err = entry.NewPublicKey(half); err != nil {
		return nil, &KMSError{uri, fmt.Sprintf("name a key of algorithm %s or %s", Ed25519, ECDSAP256), err}
	}
	return &Signer{private: k, public: k.public, keyID: k.public.KeyID()}, nil
}

// PublicKey implements [signature.PublicKeyProvider].
func (k *kmsKey) PublicKey(...signature.PublicKeyOption) (crypto.PublicKey, error) {
	return k.public.Crypto(), nil
}

// SignMessage implements [signature.Signer]. It returns no signature that does not verify under the
// public key which the KMS named when the key was opened.
func (k *kmsKey) SignMessage(message io.Reader, _ ...signature.SignOption) ([]byte, error) {
	content, err := io.ReadAll(message)
	if err != nil {
		return nil, err
	}
	return k.health.ask(func() ([]byte, error) { return k.sign(content) })
}

// sign asks for a signature and checks it.
func (k *kmsKey) sign(content []byte) ([]byte, error) {
	sig, err := askKMS(k, func(ctx context.Context, sv kms.SignerVerifier) ([]byte, error) {
		return sv.SignMessage(bytes.NewReader(content), options.WithContext(ctx))
	})
	if err != nil {
		return nil, err
	}
	verifier, err := NewVerifier(1)
	if err != nil {
		return nil, err
	}
	if err := verifier.Check(k.public, content, sig); err != nil {
		return nil, &KMSError{k.uri, "if the KMS has another version of the key now, open the key again and enrol it; else do not trust this KMS",
			fmt.Errorf("the KMS signed with another key than %s: %w", k.public.KeyID(), err)}
	}
	return sig, nil
}

// askKMS asks the program of a key's scheme one question. It returns when the time is over,
// whatever the program does: a child of the program can hold the pipe that the library reads from,
// and then the library waits longer than its context.
func askKMS[T any](k *kmsKey, question func(context.Context, kms.SignerVerifier) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	ctx, cancel := context.WithTimeout(context.Background(), k.wait)
	defer cancel()
	answered := make(chan answer, 1)
	go func() {
		var a answer
		defer func() { // the library takes the member of an answer that has none
			if p := recover(); p != nil {
				a.err = errors.New("the program gave no answer to the question")
			}
			answered <- a
		}()
		// The library tells the program the deadline of the context here, so that each question
		// opens the key again.
		sv, err := kms.Get(ctx, k.uri, crypto.SHA256)
		if err != nil {
			a.err = err
			return
		}
		a.value, a.err = question(ctx, sv)
	}()
	var a answer
	select {
	case a = <-answered:
	case <-ctx.Done():
		a.err = ctx.Err()
	}
	if a.err == nil {
		return a.value, nil
	}
	var none T
	return none, k.failed(ctx, a.err)
}

// failed returns the error of a question that has no answer.
func (k *kmsKey) failed(ctx context.Context, cause error) error {
	program := cliplugin.PluginBinaryPrefix + kmsURI().FindStringSubmatch(k.uri)[1]
	switch {
	case ctx.Err() != nil:
		return &KMSError{k.uri, "look whether the KMS runs and can be reached, and try again", fmt.Errorf("%s did not answer within %v: %w", program, k.wait, ctx.Err())}
	case errors.Is(cause, exec.ErrNotFound):
		return &KMSError{k.uri, "install the program " + program + " in a directory of PATH", fmt.Errorf("%s: %w", program, exec.ErrNotFound)}
	}
	return &KMSError{k.uri, "look whether the KMS knows this key and lets this user sign; standard error has what the program says",
		fmt.Errorf("%s: %.300q", program, cause.Error())}
}
