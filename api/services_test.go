package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"machined/api"
	"machined/api/apitest"
	"machined/api/machinepb"
)

func TestServiceControl(t *testing.T) {
	l := newLab(t)
	l.node.Infos = []*machinepb.ServiceInfo{{Id: "web", State: "Stopping", Message: "asked to end"}}
	var asked []string
	var answer error
	var mu sync.Mutex // a call may outlast its client
	l.node.OnControl = func(ctx context.Context, id string, a api.Action) error {
		mu.Lock()
		asked = append(asked, fmt.Sprint(id, " ", a))
		answer := answer
		mu.Unlock()
		if answer == nil {
			return nil
		}
		if errors.Is(answer, context.DeadlineExceeded) {
			<-ctx.Done()
			return ctx.Err()
		}
		return answer
	}
	client := machinepb.NewMachineServiceClient(l.dial(t, l.bundle(t, "os:operator")))
	// With a time-out, the answer came at the client's own deadline, which was
	// nearly always the first: nobody was told what the service was doing.
	for _, tt := range []struct {
		id     string
		answer error
		code   codes.Code
		says   string
	}{
		{"web", nil, codes.OK, ""},
		{"wbe", nil, codes.NotFound, `no such service "wbe"; known are web`},
		{"web", api.ErrBusy, codes.FailedPrecondition, "another sequence"},
		{"web", errors.New("exited with code 3"), codes.Aborted, "service web: exited with code 3"},
		{"web", context.DeadlineExceeded, codes.DeadlineExceeded, "service web is still Stopping: asked to end"},
	} {
		mu.Lock()
		answer = tt.answer
		mu.Unlock()
		ctx, cancel := context.WithTimeout(limited(t), 2*time.Second)
		info, err := client.ServiceStop(ctx, &machinepb.ServiceRequest{Id: tt.id})
		cancel()
		if status.Code(err) != tt.code || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("ServiceStop(%s) when the node says %v = %v; want %v with %q", tt.id, tt.answer, err, tt.code, tt.says)
		}
		if tt.code == codes.OK && info.GetId() != "web" {
			t.Errorf("ServiceStop returns %v; want web", info)
		}
	}
	mu.Lock()
	answer = nil
	mu.Unlock()
	if _, err := client.ServiceStart(limited(t), &machinepb.ServiceRequest{Id: "web"}); err != nil {
		t.Error(err)
	}
	if _, err := client.ServiceRestart(limited(t), &machinepb.ServiceRequest{Id: "web"}); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(asked, ","); !strings.HasPrefix(got, "web 1,") || !strings.HasSuffix(got, ",web 0,web 2") {
		t.Errorf("asked for %s; want stops, a start and a restart", got)
	}
	reader := machinepb.NewMachineServiceClient(l.dial(t, l.bundle(t, "os:reader")))
	if _, err := reader.ServiceStop(limited(t), &machinepb.ServiceRequest{Id: "web"}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("ServiceStop by a reader = %v; want PermissionDenied", err)
	}
	if _, err := client.ResetRuntime(limited(t), &machinepb.Empty{}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("ResetRuntime by an operator = %v; want PermissionDenied", err)
	}
	list, err := reader.ServiceList(limited(t), &machinepb.Empty{})
	if err != nil || len(list.GetServices()) != 1 {
		t.Errorf("ServiceList = %v, %v; want one service", list, err)
	}
}

// logLab has a log of ten lines, of which the last six are kept.
func logLab(t *testing.T) (*apitest.Log, machinepb.MachineServiceClient, *lab) {
	l := newLab(t)
	log := &apitest.Log{Keep: 6}
	for i := range 10 {
		log.Write(int64(i), fmt.Sprint("line ", i), i%2 == 1)
	}
	l.node.LogOf = map[string]api.Log{"web": log}
	return log, machinepb.NewMachineServiceClient(l.dial(t, l.bundle(t, "os:reader"))), l
}

func TestLogs(t *testing.T) {
	_, client, _ := logLab(t)
	for _, tt := range []struct {
		tail int32
		want string
	}{
		{0, "line 4 stdout,line 5 stderr,line 6 stdout,line 7 stderr,line 8 stdout,line 9 stderr"},
		{2, "line 8 stdout,line 9 stderr"},
		{100, "line 4 stdout,line 5 stderr,line 6 stdout,line 7 stderr,line 8 stdout,line 9 stderr"},
		{-1, ""},
	} {
		stream, err := client.Logs(limited(t), &machinepb.LogsRequest{Service: "web", TailLines: tt.tail})
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for {
			resp, err := stream.Recv()
			if err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			for _, r := range resp.GetRecords() {
				lines = append(lines, string(r.GetText())+" "+r.GetStream())
			}
		}
		if got := strings.Join(lines, ","); got != tt.want {
			t.Errorf("a tail of %d is %q; want %q", tt.tail, got, tt.want)
		}
	}
	stream, err := client.Logs(limited(t), &machinepb.LogsRequest{Service: "wbe"})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.NotFound {
		t.Errorf("Logs of an unknown service = %v; want NotFound", err)
	}
}

func TestLogsFollow(t *testing.T) {
	log, client, l := logLab(t)
	stream, err := client.Logs(limited(t), &machinepb.LogsRequest{Service: "web", Follow: true, TailLines: 1})
	if err != nil {
		t.Fatal(err)
	}
	wantLine := func(want string) {
		t.Helper()
		resp, err := stream.Recv()
		if err != nil || len(resp.GetRecords()) != 1 || string(resp.Records[0].GetText()) != want {
			t.Fatalf("Recv = %v, %v; want the one line %q", resp, err, want)
		}
	}
	wantLine("line 9")
	log.Write(10, "line 10", false)
	wantLine("line 10")
	// A burst that is longer than the log: what was lost is said.
	for i := range 100 {
		log.Write(int64(i), fmt.Sprint("burst ", i), false)
	}
	var lost, got uint64
	for lost+got < 100 {
		resp, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		lost += resp.GetLost()
		got += uint64(len(resp.GetRecords()))
	}
	if lost == 0 || lost+got != 100 {
		t.Errorf("%d lines and %d lost of a burst of 100", got, lost)
	}
	l.server.Stop(time.Second)
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("after Stop Recv = %v; want Unavailable", err)
	}
}

func TestLogsLimit(t *testing.T) {
	_, _, l := logLab(t)
	for i := range 40 {
		// A connection each, as of clients each for itself.
		client := machinepb.NewMachineServiceClient(l.dial(t, l.bundle(t, "os:reader")))
		stream, err := client.Logs(limited(t), &machinepb.LogsRequest{Service: "web", Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		_, err = stream.Recv()
		if i < 32 && err != nil || i >= 32 && status.Code(err) != codes.ResourceExhausted {
			t.Fatalf("log %d: %v", i, err)
		}
	}
}
