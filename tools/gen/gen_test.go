// Package gen_test judges the code that gen.sh makes of api/machine.proto.
package gen_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"machined/api/machinepb"
	"machined/tools/testenv"
)

// TestCurrent regenerates the code and compares it with what is checked in.
func TestCurrent(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the generators; left out by -short")
	}
	testenv.Need(t, "protoc")
	dir := t.TempDir()
	if out, err := exec.Command("./gen.sh", dir).CombinedOutput(); err != nil {
		t.Fatalf("gen.sh: %v\n%s", err, out)
	}
	const checkedIn = "../../api/machinepb"
	fresh := filepath.Join(dir, "api", "machinepb")
	if got, want := goFiles(t, fresh), goFiles(t, checkedIn); !slices.Equal(got, want) {
		t.Errorf("gen.sh makes %q; checked in are %q", got, want)
	}
	for _, name := range goFiles(t, fresh) {
		if read(t, filepath.Join(fresh, name)) != read(t, filepath.Join(checkedIn, name)) {
			t.Errorf("api/machinepb/%s is not what gen.sh makes of api/machine.proto; run `make generate`", name)
		}
	}
}

func goFiles(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range paths {
		names = append(names, filepath.Base(p))
	}
	return names
}

// read returns a generated file without the line that has the version of
// protoc, which comes from the system and makes no difference to the code.
func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^// [-\t ]*protoc +v[^\n]*\n`).ReplaceAllString(string(b), "")
}

// TestPromisedFields keeps what clients of earlier versions rely on. Fields
// may be added, so others than these are none of its business.
func TestPromisedFields(t *testing.T) {
	file := machinepb.File_api_machine_proto
	if file.Package() != "machine" {
		t.Errorf("the package is %s; want machine", file.Package())
	}
	for _, want := range []string{
		"VersionResponse.version = 1 string",
		"VersionResponse.image_id = 2 string",
		"VersionResponse.board = 3 string",
		"VersionResponse.slot = 4 string",
		"VersionResponse.boot_id = 5 string",
		"VersionResponse.kernel = 6 string",
		"ListResourcesRequest.namespace = 1 string",
		"ListResourcesRequest.type = 2 string",
		"ListResourcesResponse.entries = 1 repeated machine.ResourceEntry",
		"ResourceEntry.id = 1 string",
		"ResourceEntry.fields = 2 repeated machine.KeyValue",
		"KeyValue.key = 1 string",
		"KeyValue.value = 2 string",
		"UpgradeRequest.url = 1 string",
		"UpgradeRequest.sha256 = 2 string",
	} {
		name, _, _ := strings.Cut(want, " ")
		message, field, _ := strings.Cut(name, ".")
		if got := describeField(file, message, field); got != want {
			t.Errorf("the field is %q; want %q", got, want)
		}
	}
}

func describeField(file protoreflect.FileDescriptor, message, field string) string {
	m := file.Messages().ByName(protoreflect.Name(message))
	if m == nil {
		return "no message " + message
	}
	f := m.Fields().ByName(protoreflect.Name(field))
	if f == nil {
		return "no field " + message + "." + field
	}
	kind := f.Kind().String()
	if f.Kind() == protoreflect.MessageKind {
		kind = string(f.Message().FullName())
	}
	if f.Cardinality() == protoreflect.Repeated {
		kind = "repeated " + kind
	}
	return fmt.Sprintf("%s.%s = %d %s", message, field, f.Number(), kind)
}

// TestPromisedMethods keeps the names and types of the calls.
func TestPromisedMethods(t *testing.T) {
	service := machinepb.File_api_machine_proto.Services().ByName("MachineService")
	if service == nil {
		t.Fatal("there is no service MachineService")
	}
	for name, want := range map[protoreflect.Name]string{
		"Version":       "Empty VersionResponse",
		"ListResources": "ListResourcesRequest ListResourcesResponse",
		"Reboot":        "Empty Empty",
		"Shutdown":      "Empty Empty",
		"Reset":         "Empty Empty",
		"Upgrade":       "UpgradeRequest Empty",
	} {
		m := service.Methods().ByName(name)
		if m == nil {
			t.Errorf("there is no method %s", name)
			continue
		}
		got := string(m.Input().Name() + " " + m.Output().Name())
		if got != want || m.IsStreamingClient() || m.IsStreamingServer() {
			t.Errorf("%s takes and gives %q; want %q, without streams", name, got, want)
		}
	}
	if n := machinepb.File_api_machine_proto.Messages().ByName("Empty").Fields().Len(); n != 0 {
		t.Errorf("Empty has %d fields; want none", n)
	}
}
