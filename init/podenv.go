package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"machined/init/containerd"
	"machined/init/probe"
	"machined/init/supervise"
	"machined/reconcile/runtime"
)

const (
	// podLogDir has a pipe for each container of a pod.
	podLogDir = "/run/machined/pods"
	// cardImages are the images that the card was written with.
	cardImages = bootDir + "/images"
	// importedMarker is beside what containerd keeps: who loses the one has lost
	// the other.
	importedMarker = ephemeralDir + "/lib/machined/imported"
)

// preparePod makes what a pod needs beside the runtime.
func (n *node) preparePod(p *runtime.Pod) error {
	if err := n.makeMounts(p); err != nil {
		return err
	}
	return n.openPodLogs(p)
}

// checkPod asks a pod's probe.
func checkPod(p runtime.Probe, address string) error {
	kind := supervise.ProbeHTTP
	switch p.Kind {
	case runtime.ProbeTCP:
		kind = supervise.ProbeTCP
	case runtime.ProbeGRPC:
		kind = supervise.ProbeGRPC
	case runtime.ProbeHTTP, runtime.ProbeExec: // the runtime itself asks those
	}
	return probe.Ask(supervise.Probe{Kind: kind, Target: podTarget(p.Kind, p.Target, address), Timeout: int64(p.Timeout)})
}

// makeMounts makes the directories that a pod mounts. They are confined to
// EPHEMERAL, and so is what a container, which may write to one of them, could
// put in another's way.
func (n *node) makeMounts(p *runtime.Pod) error {
	root, err := os.OpenRoot(n.at(ephemeralDir))
	if err != nil {
		return fmt.Errorf("make the mounts of pod %s: %w", p.Name, err)
	}
	defer root.Close()
	for i := range p.Containers {
		for _, m := range p.Containers[i].Mounts {
			rel, ok := strings.CutPrefix(m.Source, ephemeralDir+"/")
			if !ok {
				return fmt.Errorf("mount %s in pod %s: it is not below %s", m.Source, p.Name, ephemeralDir)
			}
			if err := makeDirectory(root, rel); err != nil {
				return fmt.Errorf("mount %s in pod %s: %w", m.Source, p.Name, err)
			}
		}
	}
	return nil
}

// makeDirectory makes a directory with those above it, and follows no link. The
// last part may be a file that is there.
func makeDirectory(root *os.Root, rel string) error {
	parts := strings.Split(rel, "/")
	for i := range parts {
		at := path.Join(parts[:i+1]...)
		info, err := root.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = root.Mkdir(at, 0o755)
		case err != nil:
		case info.Mode()&fs.ModeSymlink != 0:
			err = fmt.Errorf("%s is a symbolic link, which is not followed", path.Join(ephemeralDir, at))
		case !info.IsDir() && (i < len(parts)-1 || !info.Mode().IsRegular()):
			err = fmt.Errorf("%s is no directory", path.Join(ephemeralDir, at))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bundles lists the images that the system and the card have.
func (n *node) bundles() ([]runtime.Bundle, error) {
	all := []runtime.Bundle{{Path: n.at(containerd.PauseFile), Ref: containerd.PauseImage}}
	dir := n.at(cardImages)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	for _, e := range entries {
		info, infoErr := e.Info()
		if infoErr != nil || !info.Mode().IsRegular() || !strings.HasSuffix(e.Name(), ".tar") {
			continue
		}
		all = append(all, runtime.Bundle{
			Path:  filepath.Join(dir, e.Name()),
			Stamp: strconv.FormatInt(info.Size(), 10) + " " + strconv.FormatInt(info.ModTime().Unix(), 10),
		})
	}
	return all, err
}

// podTarget is a probe's target as the node reaches it: what a container calls
// itself, its pod's address is to the node.
func podTarget(kind runtime.ProbeKind, target, address string) string {
	if address == "" || kind == runtime.ProbeExec {
		return target
	}
	if kind == runtime.ProbeHTTP {
		u, err := url.Parse(target)
		if err == nil && isLoopback(u.Hostname()) {
			u.Host = strings.TrimSuffix(net.JoinHostPort(address, u.Port()), ":")
			return u.String()
		}
		return target
	}
	if host, port, err := net.SplitHostPort(target); err == nil && isLoopback(host) {
		return net.JoinHostPort(address, port)
	}
	return target
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
