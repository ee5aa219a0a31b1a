package main

import (
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"machined/api/pki"
	"machined/hal"
)

const (
	statePKI   = stateDir + "/pki"
	cardPKI    = cardDir + "/pki"
	cardBundle = cardDir + "/bundle"
	// bundleMark holds the fingerprint of the client certificate that is on
	// the card until its first use.
	bundleMark = stateDir + "/card-bundle"
	// ownClientLife is how long the client certificate is valid that a node
	// with its own CA leaves on its card: as long as the CA, since nobody else
	// could renew it, and it counts from the clock's floor, which may be old.
	ownClientLife = 10 * 365 * 24 * time.Hour
)

// identity is the node's PKI, and the server's settings that follow it.
type identity struct {
	node *pki.Node
	kept bool // on STATE
	tls  atomic.Pointer[tls.Config]
}

// use makes node the identity. Connections that are open keep theirs.
func (i *identity) use(node *pki.Node) {
	i.node = node
	i.tls.Store(pki.NodeTLS(node, time.Now))
}

// settings returns what the server uses: for each connection, what is in force.
func (i *identity) settings() *tls.Config {
	outer := i.tls.Load().Clone()
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return i.tls.Load(), nil }
	return outer
}

// loadIdentity takes the PKI from STATE, or else from the card, and otherwise
// makes one, once. Key material that is there and not whole is an error: a
// node that re-keyed itself would lock its owner out.
func (n *node) loadIdentity() error {
	node, err := pki.LoadNode(n.at(statePKI))
	kept := err == nil
	if errors.Is(err, pki.ErrNone) {
		node, kept, err = n.firstIdentity()
	}
	if errors.Is(err, pki.ErrNone) && (n.boot.Resident || !n.state.settled || n.boot.Netbooted) {
		return nil // it is made once STATE is there to keep it, or comes from the netboot server
	}
	if err != nil {
		return err
	}
	for _, w := range node.Warnings {
		n.log.Printf("identity", "%s.", w)
	}
	if n.identity == nil {
		n.identity = &identity{}
	} else if !n.identity.node.Cert.Equal(node.Cert) {
		n.log.Printf("identity", "The node's PKI is another from now on: that of STATE.")
	}
	n.identity.kept = kept
	n.identity.use(node)
	// A certificate starts a day before its making.
	if err := n.raiseClock(node.Cert.NotBefore.Add(24 * time.Hour)); err != nil {
		n.log.Printf("clock", "%v.", err)
	}
	if n.boot.Netbooted {
		return nil // a bundle that waits on the card stays there: the card is out of reach
	}
	mark, err := os.ReadFile(n.at(bundleMark))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	n.mu.Lock()
	n.cardBundle = string(mark)
	n.mu.Unlock()
	return err
}

// firstIdentity takes the PKI from the card, or makes one, and keeps it in
// STATE. A card's PKI is of use without STATE; one that would be forgotten
// with the next restart is not made. A netbooted node has that of its server, and
// makes none: there is no card to leave the owner's bundle on.
func (n *node) firstIdentity() (node *pki.Node, kept bool, err error) {
	_, stateErr := os.Stat(n.at(stateMarker))
	given, whose := cardPKI, "card's"
	if n.boot.Netbooted {
		given, whose = servedPKI, "server's"
	}
	node, err = pki.LoadNode(n.at(given))
	if errors.Is(err, pki.ErrNone) && !n.boot.Resident && n.state.settled && !n.boot.Netbooted {
		if stateErr != nil {
			return nil, false, fmt.Errorf("make the node's own CA: STATE, which would keep it, is not mounted: %w", stateErr)
		}
		node, err = n.makeIdentity()
		return node, true, err
	}
	if err != nil || stateErr != nil {
		return node, false, err
	}
	if err := pki.WriteNode(n.at(statePKI), node); err != nil {
		// A STATE that is full or read-only must not cost the API.
		n.log.Printf("identity", "The %s PKI is used, and not kept on STATE: %v.", whose, err)
		return node, false, nil
	}
	return node, true, nil
}

// makeIdentity makes the node's own CA and leaves a client bundle on the card
// for its owner. The bundle comes first: a cut after it costs nothing, since
// the next boot begins anew, but a CA without any client could not be reached.
func (n *node) makeIdentity() (*pki.Node, error) {
	now := time.Unix(0, n.clock.Now())
	ca, err := pki.NewCA("machined "+n.hostname(), now, rand.Reader)
	if err != nil {
		return nil, err
	}
	node, err := ca.IssueNode([]string{n.hostname()}, now)
	if err != nil {
		return nil, err
	}
	node.CA = ca
	client, err := ca.IssueClient("owner of "+n.hostname(), []pki.Role{pki.RoleAdmin}, ownClientLife, now)
	if err != nil {
		return nil, err
	}
	if err := n.writeCard(func() error { return writeBundle(n.at(cardBundle), client) }); err != nil {
		return nil, fmt.Errorf("leave the client bundle on the card: %w", err)
	}
	if err := writeSynced(n.at(bundleMark), []byte(pki.Fingerprint(client.Cert))); err != nil {
		return nil, err
	}
	if err := pki.WriteNode(n.at(statePKI), node); err != nil {
		return nil, err
	}
	n.log.Printf("identity", "This node made its own CA; the admin's bundle is on the boot partition in machined/bundle until its first use.")
	return node, nil
}

// renewIdentity gives the node a certificate that is in force, after its clock
// has been set. Its own CA cannot be in force when the clock had been ahead of
// the time; while nobody has used the bundle on the card, all is made anew.
func (n *node) renewIdentity() error {
	if n.identity == nil {
		return nil
	}
	old := n.identity.node
	renewed, err := old.Renewed(time.Unix(0, n.clock.Now()))
	n.mu.Lock()
	unused := n.cardBundle != "" && !n.usedCard
	n.mu.Unlock()
	if errors.Is(err, pki.ErrCATime) && old.CA != nil && unused && n.identity.kept {
		// Aside in one step: what is left of a PKI would be an error.
		aside := n.at(statePKI + ".old")
		if err := errors.Join(os.RemoveAll(aside), os.Rename(n.at(statePKI), aside), os.RemoveAll(aside)); err != nil {
			return err
		}
		return n.loadIdentity()
	}
	if err != nil || renewed == old {
		return err
	}
	n.identity.use(renewed)
	n.log.Printf("identity", "The node's certificate was renewed: the clock has been set.")
	if !n.identity.kept {
		return nil // STATE may hold the certificate of another key
	}
	return pki.ReplaceCert(n.at(statePKI), renewed)
}

func writeBundle(dir string, client *pki.Bundle) error {
	// Remains of a first boot that was cut.
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return pki.WriteBundle(dir, client)
}

// clearCard removes the client bundle from the card after its first use, so
// that who finds the card later finds no key.
func (n *node) clearCard() {
	n.mu.Lock()
	used := n.usedCard
	n.mu.Unlock()
	if !used {
		return
	}
	err := n.writeCard(func() error { return os.RemoveAll(n.at(cardBundle)) })
	n.mu.Lock()
	n.usedCard = false // the next use tries again
	if err == nil {
		n.cardBundle = ""
	}
	n.mu.Unlock()
	if err != nil {
		n.log.Printf("identity", "The client bundle is still on the card: %v.", err)
		return
	}
	if err := os.Remove(n.at(bundleMark)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.log.Printf("identity", "%v.", err)
	}
	n.log.Printf("identity", "The client bundle was used and is off the card.")
}

// writeCard runs write with the boot partition writable, and leaves it
// read-only, and what was written on the disk.
func (n *node) writeCard(write func() error) error {
	const flags = hal.NoSuid | hal.NoDev | hal.Remount
	remount := func(extra hal.MountFlags) error {
		return n.mounts.Mount(hal.Mount{Source: n.boot.BootPartition, Target: bootDir, FSType: "vfat", Flags: flags | extra, Data: bootOptions})
	}
	if err := remount(0); err != nil {
		return err
	}
	// The kernel writes all of a FAT file system out before it makes it
	// read-only. A sync of everything may take longer than the watchdog waits.
	return errors.Join(write(), remount(hal.ReadOnly))
}
