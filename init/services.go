package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"machined/init/config"
	"machined/init/supervise"
)

// prepareServices hands the services of the config to the supervisor; the loop
// starts them.
func (n *node) prepareServices() error {
	var services []supervise.Service
	for _, c := range config.StartOrder(n.loaded.Config.Machine.Services) {
		s, err := service(c)
		if err != nil {
			n.log.Printf(c.ID, "%v.", err)
			continue
		}
		services = append(services, s)
	}
	// The files are kept: one that is collected closes its descriptor.
	outputs := make(map[string]*os.File)
	n.supervisor = supervise.New(n.processes, services, func(id string) int {
		if outputs[id] == nil {
			outputs[id] = n.openOutput(id)
		}
		if outputs[id] == nil {
			return -1
		}
		return int(outputs[id].Fd())
	}, n.kick)
	return nil
}

func service(c config.Service) (supervise.Service, error) {
	s := supervise.Service{
		ID: c.ID, Command: c.Command, Dir: c.WorkingDir, DependsOn: c.DependsOn,
		StopGrace: c.StopGrace.Nanoseconds(),
	}
	switch c.Restart {
	case config.RestartAlways:
		s.Restart = supervise.Always
	case config.RestartOnFailure:
		s.Restart = supervise.OnFailure
	case config.RestartNever:
		s.Restart = supervise.Never
	}
	// Of two variables of one name, most programs take the first.
	if !slices.ContainsFunc(c.Env, func(e config.EnvVar) bool { return e.Name == "PATH" }) {
		s.Env = []string{"PATH=/usr/bin:/usr/sbin:/bin:/sbin"}
	}
	for _, e := range c.Env {
		s.Env = append(s.Env, e.Name+"="+e.Value)
	}
	var err error
	s.UID, s.GID, err = parseUser(c.User)
	if err != nil {
		return supervise.Service{}, fmt.Errorf("service %s is left out: %w", c.ID, err)
	}
	return s, nil
}

// parseUser reads uid[:gid]. The image has no user database, so of the names
// only root's is known.
func parseUser(user string) (uid, gid uint32, err error) {
	if user == "" || user == "root" {
		return 0, 0, nil
	}
	u, g, hasGroup := strings.Cut(user, ":")
	if !hasGroup {
		g = u
	}
	id, err := strconv.ParseUint(u, 10, 32)
	if err != nil {
		return 0, 0, fmt.Errorf("user %q: the node knows no names, write uid or uid:gid", user)
	}
	group, err := strconv.ParseUint(g, 10, 32)
	if err != nil {
		return 0, 0, fmt.Errorf("group of user %q: the node knows no names, write uid:gid", user)
	}
	return uint32(id), uint32(group), nil
}

// maxLine bounds a line of output; the rest becomes the next line.
const maxLine = 4096

// openOutput returns a file whose lines go to the console under the service's
// name, nil when there is none to be had. It outlives the service's restarts.
func (n *node) openOutput(id string) *os.File {
	r, w, err := os.Pipe()
	if err != nil {
		n.log.Printf(id, "Its output is lost: %v.", err)
		return nil
	}
	n.spawn(id, func() { n.copyLines(id, r) })
	return w
}

func (n *node) copyLines(id string, r io.Reader) {
	lines := bufio.NewReaderSize(r, maxLine)
	for {
		line, _, err := lines.ReadLine()
		if err != nil {
			return
		}
		n.log.Printf(id, "%s", line)
	}
}
