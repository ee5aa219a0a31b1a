package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"machined/api"
	"machined/api/apitest"
	"machined/api/machinepb"
)

func serviceLab(t *testing.T) *lab {
	l := newLab(t)
	l.node.Infos = []*machinepb.ServiceInfo{
		{Id: "containerd", State: "Running", Healthy: true, Message: "running", Pid: 77, MemoryBytes: 12 << 20},
		{
			Id: "web", State: "Waiting", Message: "exited with code 3; starting again after 4 s", Restarts: 2, LastExit: "exited with code 3", OomKills: 1, Critical: true,
			Events: []*machinepb.ServiceEvent{
				{TimeUnixNanos: 1767225600e9, State: "Running", Reason: "running"}, {TimeUnixNanos: 1767225601e9 + 5e6, State: "Waiting", Reason: "exited with code 3"},
			},
			LastOutput: []string{"panic: \x1b[31mno", "bye"},
		},
	}
	return l
}

func TestServiceOutputs(t *testing.T) {
	l := serviceLab(t)
	for name, args := range map[string][]string{
		"services.table": {"service", "list"}, "services.json": {"service", "list", "-o", "json"},
		"serviceshow.text": {"service", "show", "web"}, "serviceshow.yaml": {"service", "show", "web", "-o", "yaml"},
	} {
		got := l.run(l.as("reader", args...)...)
		if got.code != 0 {
			t.Errorf("machinectl %q = %d, %s", args, got.code, got.stderr)
		}
		golden(t, name, got.stdout+got.stderr)
	}
}

func TestServiceControl(t *testing.T) {
	l := serviceLab(t)
	l.node.OnControl = func(ctx context.Context, id string, a api.Action) error {
		switch {
		case id == "containerd":
			return nil
		case a == api.Stop:
			<-ctx.Done()
			return ctx.Err()
		}
		return errors.New("it needs EPHEMERAL, which is Failed")
	}
	for _, tt := range []struct {
		bundle string
		args   string
		want   result
	}{
		{"operator", "service restart containerd", result{"containerd is Running: running\n", "", 0}},
		{"operator", "service start web", result{"", "machinectl: start service web of $ADDR: service web: it needs EPHEMERAL, which is Failed\n", 1}},
		{"operator", "service stop db", result{"", "machinectl: stop service db of $ADDR: the node has no such service \"db\"; known are containerd, web\n", 1}},
		{"reader", "service show db", result{"", "machinectl: show service db: the node has no such one; `machinectl service list` prints them\n", 1}},
		{"admin", "runtime reset --yes", result{"runtime reset requested\n", "", 0}},
		{"admin", "runtime reset", result{"", "machinectl: runtime reset ends all pods and removes their images; add --yes if that is what you want\n", 2}},
		{"operator", "service stop web --wait 0s", result{"", "machinectl: --wait is 0s; give more than 0\n", 2}},
	} {
		if got := l.run(l.as(tt.bundle, strings.Fields(tt.args)...)...); got != tt.want {
			t.Errorf("machinectl %s = %+v; want %+v", tt.args, got, tt.want)
		}
	}
	got := l.run(l.as("operator", "service", "stop", "web", "--wait", "300ms")...)
	if got.code != 1 || !strings.Contains(got.stderr, "stop service web of $ADDR: ") {
		t.Errorf("a stop that takes too long = %+v; want a time-out", got)
	}
}

func TestLogs(t *testing.T) {
	l := serviceLab(t)
	log := &apitest.Log{Keep: 3}
	for i, line := range []string{"lost", "one", "two\tof \x1b[31m", "three"} {
		log.Write(1767225600e9+int64(i)*1e9, line, i == 2)
	}
	l.node.LogOf = map[string]api.Log{"web": log}
	const one, two, three = "2026-01-01T00:00:01.000Z stdout one\n", "2026-01-01T00:00:02.000Z stderr two\tof ?[31m\n", "2026-01-01T00:00:03.000Z stdout three\n"
	for _, tt := range []struct {
		args string
		want result
	}{
		{"logs web", result{one + two + three, "", 0}},
		{"logs web --tail 1", result{three, "", 0}},
		{"logs web --tail 0", result{"", "", 0}},
		{"logs web --tail 1 -o json", result{`{"time":"2026-01-01T00:00:03.000Z","stream":"stdout","text":"three"}` + "\n", "", 0}},
		{"logs web --tail -1", result{"", "machinectl: --tail is -1; give 0 or more\n", 2}},
		{"logs db", result{"", "machinectl: read the log of db of $ADDR: the node has no such service \"db\"; `ServiceList` names the services\n", 1}},
	} {
		if got := l.run(l.as("reader", strings.Fields(tt.args)...)...); got != tt.want {
			t.Errorf("machinectl %s = %+v; want %+v", tt.args, got, tt.want)
		}
	}
}
