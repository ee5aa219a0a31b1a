package probe

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// maxAnswer bounds an answer of the health service, in bytes.
const maxAnswer = 4096

// askGRPC calls the health service of gRPC for the server as a whole. target is
// host:port or unix:///path.
func askGRPC(ctx context.Context, target string) error {
	// The answer is small: so are the buffers. Without a proxy and without a
	// service config, which would be looked up in the DNS.
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithReadBufferSize(maxAnswer), grpc.WithWriteBufferSize(maxAnswer), grpc.WithDisableServiceConfig(), grpc.WithNoProxy(),
		grpc.WithMaxHeaderListSize(maxAnswer),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return err
	}
	defer conn.Close()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		return err
	}
	if s := answer.GetStatus(); s != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("its health service says %s", s)
	}
	return nil
}
