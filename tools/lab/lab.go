// Package lab builds a node's image with a PKI of its own, boots it in QEMU and
// reaches it over its API: what tests, demonstrations and measurements share.
package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"machined/api/client"
	"machined/api/machinepb"
	"machined/api/pki"
	"machined/board"
	"machined/images"
	"machined/images/oci"
	"machined/images/parts"
	"machined/tools/pkidir"
	"machined/tools/qemu"
)

// Options says what node to make.
type Options struct {
	Board board.Board
	Parts string // directory of the parts' store
	Dir   string // gets the PKI and the image
	// Config is the machine config; nil for none.
	Config []byte
	// OwnCA leaves the PKI out of the image: the node makes its own.
	OwnCA bool
	// Containers are files of container images that the node imports, and
	// Programs those of programs that are put on the card, by their names there.
	Containers []string
	Programs   map[string]string
	// Progress is told of the bytes of the image that are written; may be nil.
	Progress func(done, total int64)
}

// Hostname of the lab's nodes, for which their certificates are issued.
const Hostname = "node-1"

// Node is an image and how its node is reached.
type Node struct {
	Options
	Image  images.Image
	Store  *parts.Store
	Bundle string // directory of the admin's client bundle
}

// Build makes the PKI and the image.
func Build(o Options) (*Node, error) {
	store, err := parts.Open(o.Parts)
	if err != nil {
		return nil, err
	}
	n := &Node{Options: o, Store: store}
	build := images.Options{Board: o.Board, Store: store, Config: o.Config, Progress: o.Progress, Programs: o.Programs}
	for _, path := range o.Containers {
		source, err := oci.Read(path)
		if err != nil {
			return nil, err
		}
		build.Containers = append(build.Containers, source)
	}
	if !o.OwnCA {
		dir := filepath.Join(o.Dir, "pki")
		now := time.Now()
		if err := pkidir.New(dir, "lab", 24*time.Hour, now); err != nil {
			return nil, err
		}
		if build.PKI, err = pkidir.Node(dir, Hostname, false, now); err != nil {
			return nil, err
		}
		n.Bundle = filepath.Join(dir, pkidir.Bundles, "admin")
	}
	n.Image, err = images.Build(filepath.Join(o.Dir, o.Board.Name+".img"), build)
	return n, err
}

// Disk returns the path of the node's disk, which outlives its machines.
func (n *Node) Disk() string { return filepath.Join(n.Dir, n.Board.Name+".disk") }

// Start boots the node on its disk. The API is on a free port of 127.0.0.1,
// which the machine's options name.
func (n *Node) Start(console io.Writer, edit func(*qemu.Options)) (*qemu.VM, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	o := qemu.Options{Board: n.Board, Image: n.Image.Path, Disk: n.Disk(), APIPort: port, Console: console}
	if edit != nil {
		edit(&o)
	}
	return qemu.Start(o)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Endpoint returns the address of a machine's API.
func Endpoint(vm *qemu.VM) string { return fmt.Sprintf("https://127.0.0.1:%d", vm.APIPort) }

// Dial returns a client of the machine's API with the bundle in dir.
func Dial(vm *qemu.VM, dir string) (*client.Client, error) {
	bundle, err := pki.LoadBundle(dir)
	if err != nil {
		return nil, err
	}
	return client.Dial(Endpoint(vm), bundle, client.Options{Timeout: 30 * time.Second, BundleDir: dir})
}

// Fields returns the resources of a kind: id → field → value.
func Fields(ctx context.Context, c *client.Client, kind string) (map[string]map[string]string, error) {
	entries, err := c.List(ctx, kind, "")
	if err != nil {
		return nil, err
	}
	all := make(map[string]map[string]string)
	for _, e := range entries {
		fields := make(map[string]string)
		for _, f := range e.GetFields() {
			fields[f.GetKey()] = f.GetValue()
		}
		all[e.GetId()] = fields
	}
	return all, nil
}

// ErrOff says that the machine went off while its API was waited for.
var ErrOff = errors.New("the machine went off")

const (
	// tryEvery is the pause between the beginnings of two tries to reach an
	// API. They overlap: QEMU's network takes a connection before the guest
	// can, and then holds on to it for seconds.
	tryEvery = 500 * time.Millisecond
	// upLine is what the node prints when it can be reached, and watchEvery how
	// often it is looked for: a try at that moment gives the time to the API,
	// which is measured by this, without the load of many tries.
	upLine     = "has the address"
	watchEvery = 10 * time.Millisecond
)

// WaitAPI waits until the API answers with a boot id other than last, which is
// empty for any.
func WaitAPI(ctx context.Context, vm *qemu.VM, bundle, last string) (*machinepb.VersionResponse, error) {
	w := &waiter{vm: vm, bundle: bundle, answers: make(chan *machinepb.VersionResponse), failures: make(chan error)}
	tries, cancel := context.WithCancel(ctx)
	defer cancel()
	tick, look := time.NewTicker(tryEvery), time.NewTicker(watchEvery)
	defer tick.Stop()
	defer look.Stop()
	var lastErr error
	for {
		select {
		case v := <-w.answers:
			if v.GetBootId() != last {
				return v, nil
			}
		case lastErr = <-w.failures:
		case <-ctx.Done():
			if lastErr == nil {
				return nil, fmt.Errorf("wait for the API at %s: %w; no try has ended", Endpoint(vm), ctx.Err())
			}
			return nil, fmt.Errorf("wait for the API at %s: %w; the last try: %w", Endpoint(vm), ctx.Err(), lastErr)
		case <-vm.Done():
			return nil, fmt.Errorf("wait for the API at %s: %w", Endpoint(vm), ErrOff)
		case <-look.C:
			if n := vm.Printed(upLine); n > w.up {
				w.up = n
				tick.Reset(tryEvery)
				go w.try(tries)
			}
		case <-tick.C:
			go w.try(tries)
		}
	}
}

// waiter tries to reach an API.
type waiter struct {
	vm       *qemu.VM
	bundle   string
	up       int // how often upLine was seen
	answers  chan *machinepb.VersionResponse
	failures chan error
}

func (w *waiter) try(ctx context.Context) {
	v, err := tryVersion(ctx, w.vm, w.bundle)
	if err != nil {
		select {
		case w.failures <- err:
		case <-ctx.Done():
		}
		return
	}
	select {
	case w.answers <- v:
	case <-ctx.Done():
	}
}

// tryVersion asks on a connection of its own, so that no backoff of an earlier
// failure delays it.
func tryVersion(ctx context.Context, vm *qemu.VM, bundle string) (*machinepb.VersionResponse, error) {
	c, err := Dial(vm, bundle)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Version(ctx)
}

// Scratch makes a directory below the system's for temporary files.
func Scratch() (string, error) { return os.MkdirTemp("", "machined-lab-") }
