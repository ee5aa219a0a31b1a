package api

import (
	"cmp"
	"context"
	"crypto/x509"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"machined/api/machinepb"
	"machined/reconcile"
	"machined/reconcile/resource"
)

// service implements the methods of MachineService.
type service struct {
	machinepb.UnimplementedMachineServiceServer
	node     Node
	now      func() time.Time
	stopping <-chan struct{} // closed when watches are to end
	watches  atomic.Int32    // that are open
	logs     atomic.Int32    // that are being read
}

// caller returns the client certificate of a call and the name in it.
func caller(ctx context.Context) (*x509.Certificate, string, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil, "", status.Error(codes.Unauthenticated, "the call has no peer")
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return nil, "", status.Error(codes.Unauthenticated, "a client certificate of this node's CA is required")
	}
	cert := info.State.VerifiedChains[0][0]
	return cert, cert.Subject.CommonName, nil
}

// inForce refuses a client whose certificate has expired. TLS has looked at that
// when the connection was made, which may be long ago.
func inForce(cert *x509.Certificate, name string, now time.Time) error {
	if now.After(cert.NotAfter) {
		return status.Errorf(codes.Unauthenticated, "the client certificate of %s expired on %s", name, cert.NotAfter.UTC().Format(time.DateOnly))
	}
	return nil
}

func (s *service) Version(context.Context, *machinepb.Empty) (*machinepb.VersionResponse, error) {
	v := s.node.Version()
	return &machinepb.VersionResponse{
		Version: v.Version, ImageId: v.ImageID, Board: v.Board, Slot: v.Slot, BootId: v.BootID, Kernel: v.Kernel,
	}, nil
}

func (s *service) ListResources(_ context.Context, req *machinepb.ListResourcesRequest) (*machinepb.ListResourcesResponse, error) {
	kind, err := findKind(req.GetType(), req.GetNamespace())
	if err != nil {
		return nil, err
	}
	resp := &machinepb.ListResourcesResponse{}
	changes, _ := s.node.Watch(kind, 0, nil)
	for _, c := range changes {
		if c.Op == reconcile.Current {
			resp.Entries = append(resp.Entries, entry(c))
		}
	}
	slices.SortFunc(resp.Entries, func(a, b *machinepb.ResourceEntry) int { return cmp.Compare(a.GetId(), b.GetId()) })
	return resp, nil
}

func findKind(name, namespace string) (resource.Kind, error) {
	kind, ok := resource.KindByName(name)
	if !ok {
		return 0, status.Errorf(codes.InvalidArgument, "unknown kind %q; known are %s", name, kindNames())
	}
	if namespace != "" && namespace != kind.Namespace() {
		return 0, status.Errorf(codes.InvalidArgument, "%s is in namespace %q, not %q", kind, kind.Namespace(), namespace)
	}
	return kind, nil
}

// entry formats a resource. A string that is not UTF-8, such as a disk's model,
// would fail the call.
func entry(c reconcile.Change) *machinepb.ResourceEntry {
	e := &machinepb.ResourceEntry{Id: strings.ToValidUTF8(c.Key.String(), "?")}
	if c.Resource == nil {
		return e
	}
	for _, f := range c.Resource.Fields() {
		e.Fields = append(e.Fields, &machinepb.KeyValue{Key: f.Key, Value: strings.ToValidUTF8(f.Value, "?")})
	}
	return e
}

func kindNames() string {
	var names []string
	for _, k := range resource.Kinds() {
		names = append(names, k.String())
	}
	return strings.Join(names, ", ")
}

func (s *service) Reboot(ctx context.Context, _ *machinepb.Empty) (*machinepb.Empty, error) {
	return do(ctx, s.node.Reboot)
}

func (s *service) Shutdown(ctx context.Context, _ *machinepb.Empty) (*machinepb.Empty, error) {
	return do(ctx, s.node.Shutdown)
}
