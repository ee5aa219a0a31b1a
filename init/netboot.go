package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"machined/api/pki"
	"machined/hal"
	"machined/init/config"
	"machined/init/netboot"
)

// A netbooted node has its system in the initramfs, and no boot partition. The
// server that it was booted by gives it a config, and an identity where STATE has
// none.

const (
	// ramSystem is the system image in the initramfs.
	ramSystem = "/" + systemFile
	// netbootCA and imageConfig are files of the initramfs. It is out of sight
	// once the root is switched, so that netbootDir, which is RAM too, has copies.
	netbootCA  = "/etc/machined/netboot-ca.crt"
	netbootDir = "/run/machined/netboot"
	servedPKI  = netbootDir + "/pki"
	// netbootPoll is how often is looked for what nobody tells of: an address, a
	// service that has become healthy.
	netbootPoll = time.Second
	// phaseReady is the last phase that the server is told of.
	phaseReady = "ready"
)

// netbooting is what a node has to do with its netboot server. It belongs to the
// loop.
type netbooting struct {
	client  *netboot.Client // nil for none
	retry   netboot.Retry
	next    int64              // when to enroll, nanoseconds since boot; 0 at once
	call    hal.Job            // that is under way
	answer  *netboot.Enrolment // of the call, to be read when it has ended
	session string
	said    string // the last word on the console
	// name and config are the server's config, which loadConfig reads like a file.
	name   string
	config []byte
	// settled: the server's config is in use, or it has none.
	settled bool
	telling hal.Job
	told    netboot.Status
}

// fromRAM says whether the system came in the initramfs, and keeps what else did.
func fromRAM(h *handover, args bootArgs) (bool, error) {
	_, err := os.Stat(ramSystem)
	if errors.Is(err, fs.ErrNotExist) && args.Netboot == "" {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("find the system of a netboot, which machined.netboot= asks for; the initramfs must be the one of `machinectl netboot build`: %w", err)
	}
	h.Netbooted, h.Slot, h.Server, h.Token = true, "", args.Netboot, args.Token
	return true, keepInitramfs("/")
}

// keepInitramfs copies what the initramfs has beside the system.
func keepInitramfs(root string) error {
	if err := os.MkdirAll(filepath.Join(root, netbootDir), 0o700); err != nil {
		return err
	}
	for _, path := range []string{netbootCA, imageConfig} {
		text, err := readConfig(filepath.Join(root, path))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(root, netbootDir, filepath.Base(path)), text, 0o600)
		}
		if err != nil {
			return fmt.Errorf("keep %s of the initramfs: %w", path, err)
		}
	}
	return nil
}

// startNetboot prepares the calls to the server. A node whose arguments are wrong
// goes on without: it may have all that it needs on STATE.
func (n *node) startNetboot() {
	if n.boot.Resident {
		return // its successor does it
	}
	ca, err := os.ReadFile(n.at(netbootDir + "/" + filepath.Base(netbootCA)))
	if n.boot.Server == "" {
		err = errors.New("the kernel's argument machined.netboot=https://IP:PORT is missing; the config and the identity of STATE are used, if it has them")
	}
	if err == nil {
		n.netboot.client, err = netboot.New(n.boot.Server, n.boot.Token, ca, func() time.Time { return time.Unix(0, n.clock.Now()) })
	}
	if err != nil {
		n.log.Printf("netboot", "There is no server to ask: %v.", err)
		return
	}
	n.netboot.name = "netboot server " + n.netboot.client.Server()
}

// netbootConfigs are the sources of a config behind the boot partition: the
// netboot server's, and the image's.
func (n *node) netbootConfigs() []config.Source {
	image := n.at(imageConfig)
	if n.boot.Netbooted {
		image = n.at(netbootDir + "/" + configName)
	}
	return []config.Source{
		{Name: n.netboot.name, Read: func() ([]byte, error) {
			if n.netboot.config == nil {
				return nil, fs.ErrNotExist
			}
			return n.netboot.config, nil
		}},
		{Name: imageConfig, Read: func() ([]byte, error) { return readConfig(image) }},
	}
}

// followNetboot enrolls the node once it has an address and STATE is settled, and
// then tells the server how far it has come. It returns when it is to be called
// again, in nanoseconds since boot.
func (n *node) followNetboot(now int64) int64 {
	b := &n.netboot
	switch {
	case b.client == nil || n.boot.Resident:
		return now + int64(idlePass)
	case b.call != nil && !b.call.Done():
		return now + int64(idlePass) // its end is told
	case b.call != nil:
		err := b.call.Err()
		b.call = nil
		b.next = now + int64(n.enrolled(err))
	case !b.settled && now >= b.next && n.state.settled && n.hasAddress():
		n.enroll()
	}
	n.tellServer(now)
	if b.settled && b.told.Phase == phaseReady {
		return now + int64(idlePass)
	}
	return now + int64(netbootPoll)
}

// enroll starts a call.
func (n *node) enroll() {
	client, answer, root := n.netboot.client, new(netboot.Enrolment), n.root
	facts := netboot.Facts{Board: n.boot.Board, Version: version}
	n.netboot.answer = answer
	n.netboot.call = n.jobs.Start(func() (err error) {
		netboot.Machine(&facts, root)
		*answer, err = client.Enroll(context.Background(), facts)
		return err
	})
}

// hasAddress reports whether a server beyond this machine may be in reach.
func (n *node) hasAddress() bool {
	for i := range n.store.Addresses.Len() {
		a, _ := n.store.Addresses.At(i)
		ip, ok := netip.AddrFromSlice(a.Address.Address.Bytes[:a.Address.Address.Len])
		if ok && ip.IsGlobalUnicast() {
			return true
		}
	}
	return false
}

// enrolled acts on the end of a call, and returns when to make the next one.
func (n *node) enrolled(err error) time.Duration {
	b := &n.netboot
	if err != nil {
		n.sayNetboot(err.Error())
		return b.retry.After(err)
	}
	b.session = b.answer.Session
	why := n.useEnrolment(*b.answer)
	b.answer = nil // the key is in its place
	if why != "" {
		n.sayNetboot(why)
		return b.retry.AfterUnusable()
	}
	b.settled = true
	n.sayNetboot("enrolled at " + b.client.Server())
	return 0
}

// sayNetboot says a thing once, however often it is found anew.
func (n *node) sayNetboot(what string) {
	if what != n.netboot.said {
		n.netboot.said = what
		n.log.Printf("netboot", "%s.", strings.ToUpper(what[:1])+what[1:])
	}
}

// useEnrolment takes what the server has given, and says what of it is of no use.
func (n *node) useEnrolment(given netboot.Enrolment) string {
	b := &n.netboot
	var faults []string
	if err := n.useServedIdentity(given.Identity); err != nil {
		faults = append(faults, err.Error())
	} else if n.identity == nil {
		faults = append(faults, "it gives no identity, and STATE has none: the API stays off until it does")
	}
	if given.Config != "" && given.Config != string(b.config) {
		b.config = []byte(given.Config)
		if err := n.loadConfig(); err != nil {
			n.log.Printf("config", "%v.", err)
		}
		n.useConfig()
	}
	for _, r := range n.loaded.Rejected {
		if r.Name == b.name {
			faults = append(faults, "its config cannot be used and is asked for again, see above") // which says why
		}
	}
	return strings.Join(faults, "; ")
}

// useServedIdentity makes the identity the node's, unless it has one.
func (n *node) useServedIdentity(id *netboot.Identity) error {
	if id == nil || n.identity != nil {
		return nil
	}
	if err := os.RemoveAll(n.at(servedPKI)); err != nil {
		return err
	}
	if err := os.MkdirAll(n.at(servedPKI), 0o700); err != nil {
		return err
	}
	for name, text := range map[string]string{pki.CACertFile: id.CA, pki.NodeCertFile: id.Cert, pki.NodeKeyFile: id.Key} {
		if err := os.WriteFile(n.at(servedPKI+"/"+name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	err := n.loadIdentity()
	if err == nil && n.server == nil {
		err = n.startAPI()
	}
	if err != nil {
		return fmt.Errorf("use the identity of the netboot server: %w", err)
	}
	n.clockSets = 0 // its certificate has not been looked at
	return nil
}

// tellServer tells the server of a change. That is for people, so that one which
// does not arrive is not sent again.
func (n *node) tellServer(now int64) {
	b := &n.netboot
	installing := n.installs.now().Phase == installWriting
	if b.session == "" || b.telling != nil && !b.telling.Done() || b.told.Phase == phaseReady && !installing {
		return
	}
	s := n.netbootStatus(now)
	if s == b.told {
		return
	}
	b.told = s
	client, session := b.client, b.session
	b.telling = n.jobs.Start(func() error { return client.Tell(context.Background(), session, s) })
}

func (n *node) netbootStatus(now int64) netboot.Status {
	b := &n.netboot
	if s := n.installs.now(); s.Phase == installWriting && s.TotalBytes > 0 {
		const step = 5 // a call for each of them
		return netboot.Status{Phase: "installing", Percent: int(100*s.Bytes/s.TotalBytes) / step * step, Message: "to " + s.Disk}
	} else if s.Phase == installDone {
		return b.told // which the job does
	}
	if !b.settled {
		return netboot.Status{Phase: "config", Percent: 25, Message: b.said}
	}
	if n.server == nil || !n.apiStatus.Healthy {
		return netboot.Status{Phase: "config", Percent: 50, Message: n.apiStatus.Message}
	}
	if why := n.unhealthy(now); why != "" {
		return netboot.Status{Phase: "api", Percent: 75, Message: why}
	}
	return netboot.Status{Phase: phaseReady, Percent: 100, Message: "config from " + n.loaded.Source}
}
