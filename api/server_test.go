package api_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"machined/api"
	"machined/api/machinepb"
	"machined/api/pki"
	"machined/reconcile/resource"
)

const service = "/machine.MachineService/"

// methods returns the full names of all methods of the service.
func methods() []string {
	var names []string
	for _, m := range machinepb.MachineService_ServiceDesc.Methods {
		names = append(names, service+m.MethodName)
	}
	for _, s := range machinepb.MachineService_ServiceDesc.Streams {
		names = append(names, service+s.StreamName)
	}
	return names
}

// invoke calls a method with an empty message and takes whatever comes back.
func invoke(t *testing.T, conn *grpc.ClientConn, method string) codes.Code {
	t.Helper()
	stream, err := conn.NewStream(limited(t), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return status.Code(err)
	}
	// The error of a failed send is what RecvMsg returns.
	_ = stream.SendMsg(&machinepb.Empty{})
	_ = stream.CloseSend()
	return status.Code(stream.RecvMsg(&machinepb.Empty{}))
}

// TestEmptyMessages calls everything there is with an empty message. A new
// method fails here until it has its row.
func TestEmptyMessages(t *testing.T) {
	l := newLab(t)
	conn := l.dial(t, l.bundle(t, "os:admin"))
	want := map[string]codes.Code{
		service + "Version":            codes.OK,
		service + "ListResources":      codes.InvalidArgument,
		service + "Reboot":             codes.OK,
		service + "Shutdown":           codes.OK,
		service + "Reset":              codes.OK,
		service + "ResetKeepIdentity":  codes.OK,
		service + "Upgrade":            codes.InvalidArgument,
		service + "UpgradePush":        codes.OK,
		service + "UpgradeCommit":      codes.OK,
		service + "Rollback":           codes.OK,
		service + "ApplyConfig":        codes.OK,
		service + "Install":            codes.InvalidArgument,
		service + "Watch":              codes.InvalidArgument,
		service + "ServiceList":        codes.OK,
		service + "ServiceStart":       codes.NotFound,
		service + "ServiceStop":        codes.NotFound,
		service + "ServiceRestart":     codes.NotFound,
		service + "Logs":               codes.NotFound,
		service + "ResetRuntime":       codes.OK,
		service + "NoSuchMethod":       codes.Unimplemented,
		"/no.such.Service/Call":        codes.Unimplemented,
		"/grpc.health.v1.Health/Check": codes.OK,
		"/grpc.health.v1.Health/List":  codes.OK,
		"/grpc.health.v1.Health/Watch": codes.OK,
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      codes.InvalidArgument,
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": codes.InvalidArgument,
	}
	names := methods()
	for name := range want {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		code, ok := want[name]
		if !ok {
			t.Errorf("%s has no row in this test", name)
			continue
		}
		if got := invoke(t, conn, name); got != code {
			t.Errorf("%s with an empty message = %v; want %v", name, got, code)
		}
		if got := invoke(t, conn, service+"Version"); got != codes.OK {
			t.Fatalf("after %s: Version = %v; want OK", name, got)
		}
	}
	if got, want := l.node.Asked(), []string{
		"commit by laptop", "config of 0 bytes, dry run false, by laptop", "push of 0 bytes {Stage:false ManualCommit:false Kexec:false} by laptop",
		"reboot by laptop", "reset, identity kept false, by laptop", "reset, identity kept true, by laptop", "rollback by laptop", "runtime reset by laptop", "shutdown by laptop",
	}; !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("the node was asked for %q; want %q", got, want)
	}
}

// TestRoles has a row for each method, and a column for each role.
func TestRoles(t *testing.T) {
	l := newLab(t)
	const yes, no = true, false
	rows := map[string][5]bool{
		//                              reader operator admin reader+admin none
		service + "Version":            {yes, yes, yes, yes, no},
		service + "ListResources":      {yes, yes, yes, yes, no},
		service + "Watch":              {yes, yes, yes, yes, no},
		service + "ServiceList":        {yes, yes, yes, yes, no},
		service + "Logs":               {yes, yes, yes, yes, no},
		service + "ServiceStart":       {no, yes, yes, yes, no},
		service + "ServiceStop":        {no, yes, yes, yes, no},
		service + "ServiceRestart":     {no, yes, yes, yes, no},
		service + "ResetRuntime":       {no, no, yes, yes, no},
		service + "Reboot":             {no, yes, yes, yes, no},
		service + "Shutdown":           {no, yes, yes, yes, no},
		service + "Reset":              {no, no, yes, yes, no},
		service + "ResetKeepIdentity":  {no, no, yes, yes, no},
		service + "Upgrade":            {no, no, yes, yes, no},
		service + "UpgradePush":        {no, no, yes, yes, no},
		service + "UpgradeCommit":      {no, no, yes, yes, no},
		service + "Rollback":           {no, no, yes, yes, no},
		service + "ApplyConfig":        {no, no, yes, yes, no},
		service + "Install":            {no, no, yes, yes, no},
		"/grpc.health.v1.Health/Check": {yes, yes, yes, yes, no},
		"/grpc.health.v1.Health/List":  {yes, yes, yes, yes, no},
		"/grpc.health.v1.Health/Watch": {yes, yes, yes, yes, no},
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": {yes, yes, yes, yes, no},
	}
	for _, name := range methods() {
		if _, ok := rows[name]; !ok {
			t.Errorf("%s has no row in this test", name)
		}
	}
	for column, organizations := range [][]string{{"os:reader"}, {"os:operator"}, {"os:admin"}, {"os:reader", "os:admin"}, {"OS:ADMIN", "visitors"}} {
		b := l.bundle(t, organizations...)
		conn := l.dial(t, b)
		before := len(l.node.UsedBy())
		for name, row := range rows {
			code := invoke(t, conn, name)
			if code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Unauthenticated {
				t.Fatalf("%s as %q = %v", name, organizations, code)
			}
			if got := code != codes.PermissionDenied; got != row[column] {
				t.Errorf("%s as %q = %v; want allowed = %v", name, organizations, code, row[column])
			}
		}
		used := l.node.UsedBy()[before:]
		if want := hasRole(column); (len(used) > 0) != want {
			t.Errorf("as %q: Used was called %d times; want some = %v", organizations, len(used), want)
		}
		for _, f := range used {
			if f != pki.Fingerprint(b.Cert) {
				t.Errorf("Used(%s); want the client's fingerprint", f)
			}
		}
	}
}

// hasRole reports whether the clients of a column of TestRoles have a role at all.
func hasRole(column int) bool { return column < 4 }

func TestPermissionDeniedSays(t *testing.T) {
	l := newLab(t)
	for _, tt := range []struct {
		organizations []string
		want          string
	}{
		{[]string{"os:reader"}, "laptop may not call /machine.MachineService/Reboot: it needs the role os:operator and the certificate carries [os:reader]"},
		{nil, "laptop may not call /machine.MachineService/Reboot: it needs the role os:operator and the certificate carries []"},
	} {
		_, err := machinepb.NewMachineServiceClient(l.dial(t, l.bundle(t, tt.organizations...))).Reboot(limited(t), &machinepb.Empty{})
		if st := status.Convert(err); st.Code() != codes.PermissionDenied || st.Message() != tt.want {
			t.Errorf("Reboot as %q = %v; want PermissionDenied, %s", tt.organizations, err, tt.want)
		}
	}
}

// A panic in the node is an error of the call, and the next call is answered.
func TestPanic(t *testing.T) {
	l := newLab(t)
	l.node.OnList = func() { panic("a bug") }
	client := machinepb.NewMachineServiceClient(l.dial(t, l.bundle(t, "os:reader")))
	for range 3 {
		_, err := client.ListResources(limited(t), &machinepb.ListResourcesRequest{Type: "LinkStatus"})
		const want = "/machine.MachineService/ListResources failed inside the node; its console has the details"
		if st := status.Convert(err); st.Code() != codes.Internal || st.Message() != want {
			t.Errorf("ListResources = %v; want Internal, %s", err, want)
		}
	}
	if v, err := client.Version(limited(t), &machinepb.Empty{}); err != nil || v.GetVersion() != "v1.2.3" {
		t.Errorf("Version after panics = %v, %v; want v1.2.3", v, err)
	}
}

func TestListResources(t *testing.T) {
	l := newLab(t)
	client := machinepb.NewMachineServiceClient(l.dial(t, l.bundle(t, "os:reader")))
	// What a disk or a network calls itself need not be UTF-8, which protobuf
	// strings are.
	l.node.Resources[resource.ServiceStatusKind] = []resource.Resource{resource.ServiceStatus{ServiceID: "a\xff", Message: "b\xfe"}}
	resp, err := client.ListResources(limited(t), &machinepb.ListResourcesRequest{Type: "ServiceStatus", Namespace: "runtime"})
	const want = `id:"a?" fields:{key:"service_id" value:"a?"} fields:{key:"state"} fields:{key:"healthy" value:"false"} fields:{key:"message" value:"b?"}`
	if err != nil || len(resp.GetEntries()) != 1 {
		t.Fatalf("ListResources = %v, %v; want one entry", resp, err)
	}
	// The text form has spaces that vary by design.
	if got := strings.Join(strings.Fields(resp.GetEntries()[0].String()), " "); !strings.HasPrefix(got, want) {
		t.Errorf("ListResources = %s\nwant %s", got, want)
	}
	for _, k := range resource.Kinds() {
		for namespace, code := range map[string]codes.Code{"": codes.OK, k.Namespace(): codes.OK, "nowhere": codes.InvalidArgument} {
			_, err := client.ListResources(limited(t), &machinepb.ListResourcesRequest{Type: k.String(), Namespace: namespace})
			if got := status.Code(err); got != code {
				t.Errorf("ListResources(%s, %q) = %v; want %v", k, namespace, got, code)
			}
		}
	}
	for _, kind := range []string{"", "linkstatus", "LinkStatus ", strings.Repeat("x", 100_000)} {
		_, err := client.ListResources(limited(t), &machinepb.ListResourcesRequest{Type: kind})
		if got := status.Code(err); got != codes.InvalidArgument {
			t.Errorf("ListResources(%.20q) = %v; want InvalidArgument", kind, err)
		}
	}
	_, err = client.ListResources(limited(t), &machinepb.ListResourcesRequest{Type: strings.Repeat("x", 2<<20)})
	if got := status.Code(err); got != codes.ResourceExhausted {
		t.Errorf("ListResources with 2 MiB = %v; want ResourceExhausted", got)
	}
}

func TestEndErrors(t *testing.T) {
	l := newLab(t)
	client := machinepb.NewMachineServiceClient(l.dial(t, l.bundle(t, "os:operator")))
	for _, tt := range []struct {
		err  error
		code codes.Code
		want string
	}{
		{fmt.Errorf("%w: shutdown", api.ErrBusy), codes.FailedPrecondition, "another sequence is running: shutdown"},
		{errors.New("no power"), codes.Internal, "no power"},
	} {
		l.node.EndError = tt.err
		_, reboot := client.Reboot(limited(t), &machinepb.Empty{})
		_, shutdown := client.Shutdown(limited(t), &machinepb.Empty{})
		for _, err := range []error{reboot, shutdown} {
			if st := status.Convert(err); st.Code() != tt.code || st.Message() != tt.want {
				t.Errorf("with %v: %v; want %v, %s", tt.err, err, tt.code, tt.want)
			}
		}
	}
}

func TestHealth(t *testing.T) {
	l := newLab(t)
	client := grpc_health_v1.NewHealthClient(l.dial(t, l.bundle(t, "os:reader")))
	for _, name := range []string{"", "machine.MachineService"} {
		resp, err := client.Check(limited(t), &grpc_health_v1.HealthCheckRequest{Service: name})
		if err != nil || resp.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("Check(%q) = %v, %v; want SERVING", name, resp, err)
		}
	}
	_, err := client.Check(limited(t), &grpc_health_v1.HealthCheckRequest{Service: "other"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("Check(other) = %v; want NotFound", err)
	}
}

func TestReflection(t *testing.T) {
	l := newLab(t)
	stream, err := grpc_reflection_v1.NewServerReflectionClient(l.dial(t, l.bundle(t, "os:reader"))).ServerReflectionInfo(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(req *grpc_reflection_v1.ServerReflectionRequest) *grpc_reflection_v1.ServerReflectionResponse {
		if err := stream.Send(req); err != nil {
			t.Fatal(err)
		}
		resp, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	var names []string
	for _, s := range ask(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{},
	}).GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	want := []string{"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection", "machine.MachineService"}
	if !slices.Equal(names, want) {
		t.Errorf("services = %q; want %q", names, want)
	}
	files := ask(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "machine.MachineService"},
	}).GetFileDescriptorResponse().GetFileDescriptorProto()
	if len(files) != 1 || !strings.Contains(string(files[0]), "ListResourcesRequest") {
		t.Errorf("the file of machine.MachineService = %q; want its descriptor", files)
	}
}
