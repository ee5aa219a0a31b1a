package provision

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"machined/api/pki"
	"machined/images/netboot"
	"machined/init/config"
	"machined/tools/netboot/registry"
)

// identitiesDir has the PKI of each node, in the netboot directory.
const identitiesDir = "nodes"

// Identities issues the PKI of nodes, once each.
type Identities struct {
	Dir string // the netboot directory
	CA  *pki.CA
	Now func() time.Time

	mu sync.Mutex
}

// Of returns the identity of a board, which is made at the first call. text is its
// config, for the names in its certificate.
func (i *Identities) Of(b registry.Board, text []byte) (netboot.Identity, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	id := registry.Name(b.ID)
	if id == "" {
		return netboot.Identity{}, errors.New("issue an identity: the board has no name")
	}
	dir := filepath.Join(i.Dir, identitiesDir, id)
	node, err := pki.LoadNode(dir)
	if errors.Is(err, pki.ErrNone) {
		node, err = i.make(dir, id, text)
	}
	if err != nil {
		return netboot.Identity{}, fmt.Errorf("the identity of board %s: %w", id, err)
	}
	if !node.CACert.Equal(i.CA.Cert) {
		return netboot.Identity{}, fmt.Errorf("the identity of board %s in %s is of another CA than %s; remove it for a new one", id, dir, netboot.PKIDir)
	}
	var files [3]string
	for n, name := range []string{pki.CACertFile, pki.NodeCertFile, pki.NodeKeyFile} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return netboot.Identity{}, err
		}
		files[n] = string(text)
	}
	return netboot.Identity{CA: files[0], Cert: files[1], Key: files[2]}, nil
}

func (i *Identities) make(dir, id string, text []byte) (*pki.Node, error) {
	names := []string{id}
	if c, _, err := config.Parse("config", text); err == nil && c.Machine.Hostname != "" {
		names = append(names, c.Machine.Hostname)
	}
	for _, name := range names {
		if strings.EqualFold(name, netboot.ServerName) {
			return nil, fmt.Errorf("the name %s is the netboot server's; choose another hostname", name)
		}
	}
	node, err := i.CA.IssueNode(names, i.Now())
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, err
	}
	return node, pki.WriteNode(dir, node)
}
