// Package probe asks services whether they are healthy: over HTTP, TCP and
// gRPC, and by a command. Each question ends within its time-out.
package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"machined/hal"
	"machined/init/supervise"
)

// Prober is the real supervise.Prober.
type Prober struct {
	Jobs      hal.Jobs
	Processes hal.Processes
	Cgroups   hal.Cgroups // nil for none
}

// Probe implements supervise.Prober.
func (p *Prober) Probe(s *supervise.Service) hal.Job {
	svc := *s // the loop may change its own
	return p.Jobs.Start(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(svc.Probe.Timeout))
		defer cancel()
		err := p.ask(ctx, &svc)
		if err != nil && late(ctx, err) {
			return fmt.Errorf("no answer within %s", time.Duration(svc.Probe.Timeout))
		}
		return err
	})
}

func late(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded)
}

func (p *Prober) ask(ctx context.Context, s *supervise.Service) error {
	switch s.Probe.Kind {
	case supervise.ProbeHTTP:
		return askHTTP(ctx, s.Probe.Target)
	case supervise.ProbeTCP:
		return askTCP(ctx, s.Probe.Target)
	case supervise.ProbeExec:
		return p.askExec(ctx, s)
	case supervise.ProbeGRPC:
		return askGRPC(ctx, s.Probe.Target)
	}
	return errors.New("a probe of an unknown kind")
}

// withoutPort takes our own address out of an error: it differs from try to try,
// and each new reason is told to all that watch the service.
func withoutPort(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Source != nil {
		plain := *op
		plain.Source = nil
		return &plain
	}
	return err
}

func askTCP(ctx context.Context, address string) error {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return withoutPort(err)
	}
	return c.Close()
}

// sigKill ends a command that does not answer in time.
const sigKill = 9

// askExec runs the command as the service's user, where the service is: it is a
// part of what the service may use. An exit code of 0 is health.
func (p *Prober) askExec(ctx context.Context, s *supervise.Service) error {
	spec := hal.ProcessSpec{
		Argv: s.Probe.Exec, Env: s.Env, Dir: s.Dir, UID: s.UID, GID: s.GID, Stdout: -1, Stderr: -1,
		Cgroup: s.Cgroup, NoNewPrivs: s.NoNewPrivs, Bounded: s.Bounded, Capabilities: s.Capabilities, OOMScoreAdj: s.OOMScoreAdj,
	}
	if p.Cgroups == nil {
		spec.Cgroup = ""
	} else if _, err := p.Cgroups.Status(s.Cgroup); err != nil {
		spec.Cgroup = ""
	}
	ended := make(chan hal.ExitStatus, 1)
	pid, err := p.Processes.Start(spec, func(e hal.ExitStatus) { ended <- e })
	if err != nil {
		return err
	}
	select {
	case e := <-ended:
		return judge(e)
	case <-ctx.Done():
	}
	_ = p.Processes.Signal(pid, sigKill) // it may have ended meanwhile
	// One that not even this ends would be another process at each period: the
	// supervisor asks no more until this job ends.
	<-ended
	return ctx.Err()
}

func judge(e hal.ExitStatus) error {
	switch {
	case e.Signal != 0:
		return fmt.Errorf("the probe was ended by signal %d", e.Signal)
	case e.Code != 0:
		return fmt.Errorf("the probe exited with code %d", e.Code)
	}
	return nil
}

var _ supervise.Prober = (*Prober)(nil)
