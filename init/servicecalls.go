package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"machined/api"
	"machined/api/machinepb"
	"machined/init/config"
	"machined/init/supervise"
	"machined/init/supervise/logring"
	"machined/reconcile/resource"
)

// running is the supervisor as other goroutines than the loop's may use it.
type running struct{ *supervise.Supervisor }

// restartTime bounds the wait for a restart that no call waits for.
const restartTime = 2 * time.Minute

func (r *running) restart(id string) error {
	ctx, cancel := context.WithTimeout(context.Background(), restartTime)
	defer cancel()
	_, err := r.Do(ctx, id, supervise.DoRestart)
	return err
}

// The methods below implement api.Services; they run on the API's goroutines.

func (n *node) Services() []*machinepb.ServiceInfo {
	var out []*machinepb.ServiceInfo
	for _, c := range n.store.Snapshot(resource.ServiceStatusKind) {
		if s, ok := c.Resource.(resource.ServiceStatus); ok {
			out = append(out, n.serviceInfo(s))
		}
	}
	return out
}

func (n *node) serviceInfo(s resource.ServiceStatus) *machinepb.ServiceInfo {
	info := &machinepb.ServiceInfo{
		Id: s.ServiceID, State: s.State, Healthy: s.Healthy, Message: s.Message, Restarts: s.Restarts, LastExit: s.LastExit,
		OomKills: s.OOMKills, Critical: s.Critical, Pid: s.PID,
	}
	if s.LastOutput != "" {
		info.LastOutput = strings.Split(s.LastOutput, outputSeparator)
	}
	if r := n.running.Load(); r != nil {
		booted := n.clock.Now() - n.clock.SinceBoot()
		for _, c := range r.History(s.ServiceID) {
			info.Events = append(info.Events, &machinepb.ServiceEvent{TimeUnixNanos: booted + c.At, State: c.State.String(), Reason: c.Reason})
		}
	}
	path := servicesCgroup + "/" + s.ServiceID
	if s.ServiceID == config.ContainerdID {
		path = runtimeCgroup
	}
	if n.cgroups != nil && s.PID != 0 {
		if accounts, err := n.cgroups.Status(path); err == nil {
			info.MemoryBytes = uint64(accounts.Memory)
		}
	}
	if s.PID != 0 {
		status, _ := os.ReadFile("/proc/" + strconv.FormatInt(s.PID, 10) + "/status")
		info.RssAnonBytes = kilobytes(status, "RssAnon") << 10
	}
	return info
}

// errOwn says that a service is listed and not one that is run.
var errOwn = errors.New("it is a part of machined, which runs as long as the node does")

func (n *node) Control(ctx context.Context, id string, action api.Action) (*machinepb.ServiceInfo, error) {
	r := n.running.Load()
	if r == nil {
		return nil, api.ErrUnknownService
	}
	do := supervise.DoStart
	switch action {
	case api.Stop:
		do = supervise.DoStop
	case api.Restart:
		do = supervise.DoRestart
	}
	result, err := r.Do(ctx, id, do)
	s := serviceStatus(result.Status)
	s.ServiceID = id
	info := n.serviceInfo(s)
	if len(result.Also) > 0 {
		info.Message += "; with it: " + strings.Join(result.Also, ", ")
	}
	switch {
	case errors.Is(err, supervise.ErrUnknown) && slices.ContainsFunc(n.Services(), func(s *machinepb.ServiceInfo) bool { return s.GetId() == id }):
		return nil, errOwn
	case errors.Is(err, supervise.ErrUnknown):
		return nil, api.ErrUnknownService
	case errors.Is(err, supervise.ErrGoingDown):
		return info, fmt.Errorf("%w: %w", api.ErrBusy, err)
	}
	return info, err
}

// Logs also has the lines of services that are not there any more.
func (n *node) Logs(service string) (api.Log, error) {
	if ring := n.rings.Find(service); ring != nil {
		return serviceLog{ring}, nil
	}
	return nil, api.ErrUnknownService
}

// serviceLog is a ring in the words of the API.
type serviceLog struct{ *logring.Ring }

// logBatch is about how many bytes one Read returns.
const logBatch = 16 << 10

func (l serviceLog) Read(from uint64, out []api.LogEntry) (entries []api.LogEntry, next, lost uint64) {
	lines, next, lost := l.Ring.Read(from, logBatch)
	for _, e := range lines {
		out = append(out, api.LogEntry{UnixNanos: e.Time, Stderr: e.Stream == logring.Stderr, Text: []byte(e.Text)})
	}
	return out, next, lost
}

var _ api.Log = serviceLog{}
