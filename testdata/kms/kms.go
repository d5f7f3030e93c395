// Package kms is a program of sigstore's KMS plugin protocol for tests. Installed as
// sigstore-kms-NAME, it signs with the key in a file, as the URI says:
//
//	NAME://sign/PATH    with the key in the file /PATH: PKCS#8 in PEM
//	NAME://slow/PATH    the same, after 50 ms
//	NAME://fail/PATH    names the public key, and refuses to sign
//	NAME://lie/PATH     names the public key, and signs with a key of its own
//	NAME://mute/PATH    answers with an object that has no answer
//	NAME://babble/PATH  answers with text that is not JSON
//	NAME://hang/PATH    names the public key, and starts a child with its pipes that ends only
//	                    with its standard input, when it is to sign
//	NAME://away/PATH    never answers
//	NAME://5ms/PATH     signs after a time; any duration
//	NAME://twoways/PATH signs the same message in two ways, with a random nonce
//	NAME://switch/PATH  does what the first word of the file /PATH.mode says: one of the above
package kms

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha512"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"filippo.io/edwards25519"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/kms/cliplugin/common"
	"github.com/sigstore/sigstore/pkg/signature/kms/cliplugin/handler"
)

// Main is the program.
func Main() {
	args, err := handler.GetPluginArgs(os.Args)
	if err != nil {
		log.Fatal(err)
	}
	mode, path, _ := strings.Cut(args.InitOptions.KeyResourceID, "/")
	if mode == "switch" {
		text, err := os.ReadFile("/" + path + ".mode")
		if err != nil {
			log.Fatal(err)
		}
		mode = strings.TrimSpace(string(text))
	}
	if delay, err := time.ParseDuration(mode); err == nil {
		time.Sleep(delay)
	}
	switch mode {
	case "slow":
		time.Sleep(50 * time.Millisecond)
	case "mute":
		fmt.Println("{}")
		return
	case "babble":
		fmt.Println("\x1b[31mno JSON")
		return
	case "away":
		time.Sleep(time.Hour)
	case "hang":
		if args.MethodName == common.SignMessageMethodName {
			hang()
		}
	}
	k, err := open(mode, "/"+path)
	if err != nil {
		_ = handler.WriteErrorResponse(os.Stdout, err) // nobody listens
		return
	}
	if _, err := handler.Dispatch(os.Stdout, os.Stdin, args, k); err != nil {
		log.Fatal(err)
	}
}

// hang ends this process and leaves a child that holds its standard output for a minute.
func hang() {
	_, err := os.StartProcess("/bin/sleep", []string{"sleep", "60"}, &os.ProcAttr{Files: []*os.File{nil, os.Stdout, nil}})
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(0)
}

// key is the key of a URI. It implements the interface of the protocol's handler.
type key struct {
	signature.SignerVerifier
	mode    string
	private ed25519.PrivateKey // nil: of another algorithm
}

func open(mode, path string) (*key, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	private, err := cryptoutils.UnmarshalPEMToPrivateKey(content, nil)
	if err != nil {
		return nil, err
	}
	sv, err := signature.LoadSignerVerifier(private, crypto.SHA256)
	edwards, _ := private.(ed25519.PrivateKey)
	return &key{sv, mode, edwards}, err
}

// SignMessage signs, or does what the mode says.
func (k *key) SignMessage(message io.Reader, opts ...signature.SignOption) ([]byte, error) {
	switch k.mode {
	case "fail":
		return nil, errors.New("access \x1b[31mdenied")
	case "lie":
		return k.lie(message)
	case "twoways":
		return k.random(message)
	}
	return k.SignerVerifier.SignMessage(message, opts...)
}

// lie signs with another key of the same algorithm.
func (k *key) lie(message io.Reader) ([]byte, error) {
	half, err := k.PublicKey()
	if err != nil {
		return nil, err
	}
	var other crypto.PrivateKey
	if _, ok := half.(ed25519.PublicKey); ok {
		_, other, err = ed25519.GenerateKey(rand.Reader)
	} else {
		other, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		return nil, err
	}
	signer, err := signature.LoadSigner(other, crypto.SHA256)
	if err != nil {
		return nil, err
	}
	return signer.SignMessage(message)
}

// random makes an Ed25519 signature that verifies, and that is another one each time.
func (k *key) random(message io.Reader) ([]byte, error) {
	content, err := io.ReadAll(message)
	if err != nil {
		return nil, err
	}
	wide := make([]byte, 64)
	if _, err := rand.Read(wide); err != nil {
		return nil, err
	}
	scalar := func(parts ...[]byte) *edwards25519.Scalar {
		sum := sha512.Sum512(bytes.Join(parts, nil))
		s, _ := edwards25519.NewScalar().SetUniformBytes(sum[:]) // 64 bytes, as it wants
		return s
	}
	digest := sha512.Sum512(k.private.Seed())
	secret, err := edwards25519.NewScalar().SetBytesWithClamping(digest[:32])
	if err != nil {
		return nil, err
	}
	nonce := scalar(wide)
	point := new(edwards25519.Point).ScalarBaseMult(nonce).Bytes()
	challenge := scalar(point, k.private.Public().(ed25519.PublicKey), content)
	return append(point, edwards25519.NewScalar().MultiplyAdd(challenge, secret, nonce).Bytes()...), nil
}

// CreateKey makes no key: tests make the files.
func (k *key) CreateKey(context.Context, string) (crypto.PublicKey, error) {
	return nil, errors.New("no key is made here")
}

// CryptoSigner is not of the protocol.
func (k *key) CryptoSigner(context.Context, func(error)) (crypto.Signer, crypto.SignerOpts, error) {
	return nil, nil, errors.New("not of the protocol")
}

// SupportedAlgorithms names the algorithms of the ledger.
func (k *key) SupportedAlgorithms() []string { return []string{"ed25519", "ecdsa-p256"} }

// DefaultAlgorithm names the default.
func (k *key) DefaultAlgorithm() string { return "ed25519" }
