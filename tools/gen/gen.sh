#!/bin/sh
# Regenerates the code of api/machine.proto into the directory $1 (default: in place).
set -eu
cd "$(dirname "$0")/../.."
out=${1:-.}
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
GOBIN=$bin go install google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc
PATH=$bin:$PATH protoc --proto_path=. \
  --go_out="$out" --go_opt=module=machined \
  --go-grpc_out="$out" --go-grpc_opt=module=machined api/machine.proto
