// Package site keeps what makes a data directory that of a node of a cluster: the node's name and
// addresses, the incarnation and the secret of the cluster, and the certificates with which the
// nodes know one another.
//
//	DIR/cluster/cluster.json   the node, as [Site]
//	DIR/cluster/ca.crt, .key   the CA of the cluster, which every node has: each may admit a node
//	DIR/cluster/node.crt, .key the certificate of this node
//	DIR/cluster/etcd           the files of etcd
//	DIR/cluster/etcd.lock      locked by the process that has them
//	DIR/cluster/members.json   the nodes that this one knew last
//	DIR/cluster/evidence.json  what two nodes have shown that had two roots of one size
//	DIR/cluster/reseeded.json  why and how the cluster was begun again
//
// A node that has all this can sign as the ledger. So the directory is as secret as the keys.
package site

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/ledger/agreement"
	"recoveryledger/ledger/durable"
)

// ErrNone reports a data directory that is not that of a node.
var ErrNone = errors.New("site: not the data directory of a node of a cluster")

const secretSize = 32

// Site is a node of a cluster, as its data directory has it.
type Site struct {
	Dir string `json:"-"` // DIR/cluster

	Origin      string                `json:"origin"`
	Incarnation agreement.Incarnation `json:"incarnation"`
	After       uint64                `json:"after"`  // as in cluster.Config
	Secret      []byte                `json:"secret"` // as in agreement.Member
	Name        string                `json:"name"`
	Addresses
	Members map[string]string `json:"members"` // the nodes and their addresses when this one began
	Joined  bool              `json:"joined"`  // whether the cluster was there before the node
	Copied  bool              `json:"copied"`  // whether the database came from another node

	Anchored bool `json:"anchored"` // whether the node that joined has had an anchor of its own
	Left     bool `json:"left"`     // whether the node is to become a single ledger
	Reseeds  bool `json:"reseeds"`  // whether the node is to begin its cluster again, in this incarnation
}

// Addresses are those of a node. They stay while the node is one of the cluster.
type Addresses struct {
	PeerListen string `json:"peer_listen"` // HOST:PORT that peers are served on
	Peer       string `json:"peer"`        // HOST:PORT at which the others find it
	EtcdListen string `json:"etcd_listen"`
	Etcd       string `json:"etcd"`
}

// Path is the directory of a node in a data directory.
func Path(data string) string { return filepath.Join(data, "cluster") }

// Load reads the site of a data directory. The error is [ErrNone] if there is none.
func Load(data string) (*Site, error) {
	s := &Site{Dir: Path(data)}
	content, err := os.ReadFile(s.file("cluster.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNone, data)
	}
	if err == nil {
		err = json.Unmarshal(content, s)
	}
	if err != nil {
		return nil, fmt.Errorf("site: read %s: %w", s.file("cluster.json"), err)
	}
	return s, nil
}

// Joins reports whether a node was to join from a data directory, and has not been admitted.
func Joins(data string) bool {
	s := &Site{Dir: Path(data)}
	_, asked := os.Stat(s.KeyFile())
	_, admitted := os.Stat(s.file(caKey)) // who founds a cluster makes it first
	return asked == nil && errors.Is(admitted, fs.ErrNotExist)
}

// Save writes the site. The certificates stand beside it already.
func (s *Site) Save() error {
	content, err := json.Marshal(s, jsontext.WithIndent("  "))
	if err != nil {
		return fmt.Errorf("site: %w", err)
	}
	return durable.Write(s.file("cluster.json"), append(content, '\n'), 0o600)
}

// Found makes the site of the first node of a new cluster, without its number of batches, and does
// not save it.
func Found(data, origin, name string, at Addresses) (*Site, error) {
	s := &Site{Dir: Path(data), Origin: origin, Name: name, Addresses: at, Secret: make([]byte, secretSize), Members: map[string]string{name: at.Etcd}}
	_, _ = rand.Read(s.Secret) // never fails
	_, _ = rand.Read(s.Incarnation[:])
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	if err := s.makeCA(); err != nil {
		return nil, err
	}
	request, err := s.Request()
	if err != nil {
		return nil, err
	}
	certificate, err := s.Certify(request)
	if err != nil {
		return nil, err
	}
	return s, durable.Write(s.file(nodeCert), certificate, 0o600)
}

// Admission is what a node gets that joins.
type Admission struct {
	Origin      string                `json:"origin"`
	Incarnation agreement.Incarnation `json:"incarnation"`
	After       uint64                `json:"after"`
	Secret      []byte                `json:"secret"`
	Name        string                `json:"name"`
	Members     map[string]string     `json:"members"`
	Files       map[string][]byte     `json:"files"` // certificates and the key of the CA
	Keys        map[string][]byte     `json:"keys"`  // files of the directory of keys
}

// Admits returns what a node gets of this cluster. keys are the files of the directory of keys.
func (s *Site) Admits(name string, request []byte, members map[string]string, keys map[string][]byte) (*Admission, error) {
	certificate, err := s.Certify(request)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{nodeCert: certificate}
	for _, file := range []string{caCert, caKey} {
		if files[file], err = os.ReadFile(s.file(file)); err != nil {
			return nil, fmt.Errorf("site: %w", err)
		}
	}
	return &Admission{Origin: s.Origin, Incarnation: s.Incarnation, After: s.After, Secret: s.Secret, Name: name,
		Members: maps.Clone(members), Files: files, Keys: keys}, nil
}

// Take makes s, which has its addresses and the key behind its request, the site of the node that
// was admitted, and saves it.
func (s *Site) Take(a *Admission) error {
	s.Origin, s.Incarnation, s.After, s.Secret, s.Name, s.Members, s.Joined = a.Origin, a.Incarnation, a.After, a.Secret, a.Name, a.Members, true
	for _, name := range []string{nodeCert, caCert, caKey} {
		if err := durable.Write(s.file(name), a.Files[name], 0o600); err != nil {
			return err
		}
	}
	return s.Save()
}

func (s *Site) file(name string) string { return filepath.Join(s.Dir, name) }

// EtcdDir returns the directory of etcd.
func (s *Site) EtcdDir() string { return s.file("etcd") }

// Reseed makes the site that of the first node of a new incarnation of its cluster. The
// certificates stay. Until [Site.Reseeded], the node is none of any cluster.
func (s *Site) Reseed() error {
	_, _ = rand.Read(s.Incarnation[:]) // never fails
	s.After, s.Members, s.Joined, s.Copied, s.Reseeds = 0, map[string]string{s.Name: s.Etcd}, false, false, true
	return s.Save()
}

// Reseeded ends what [Site.Reseed] began, once the database is that of a single ledger. Every step
// can be repeated.
func (s *Site) Reseeded() error {
	if err := os.RemoveAll(s.EtcdDir()); err != nil {
		return err
	}
	if err := os.RemoveAll(s.begun()); err != nil {
		return err
	}
	s.Reseeds = false
	return s.Save()
}

// MembersFile returns the file of the nodes that this one knew last.
func (s *Site) MembersFile() string { return s.file("members.json") }

// ReseededFile returns the file that says why and how the cluster was begun again.
func (s *Site) ReseededFile() string { return s.file("reseeded.json") }

// EvidenceFile returns the file of evidence that two nodes have two roots of one size.
func (s *Site) EvidenceFile() string { return s.file("evidence.json") }

// Begun reports whether etcd has been in the directory: the node is one of the cluster.
func (s *Site) Begun() bool {
	_, err := os.Stat(s.begun())
	return err == nil
}

func (s *Site) begun() string { return s.EtcdDir() + ".started" }
