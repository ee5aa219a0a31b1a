package main

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"machined/api/apitest"
	"machined/api/machinepb"
	"machined/api/pki"
	"machined/reconcile/resource"
)

func TestOutputs(t *testing.T) {
	l := newLab(t)
	for _, tt := range []struct {
		name string
		args []string
	}{
		{"version", []string{"version"}},
		{"links", []string{"get", "LinkStatus"}},
		{"link", []string{"get", "links", "eth0", "--namespace", "network"}},
		{"route", []string{"get", "routes"}},
		{"config", []string{"get", "machineconfig"}},
		{"service", []string{"get", "SERVICES"}},
		{"none", []string{"get", "pods"}},
	} {
		for _, f := range []string{"text", "table", "json", "yaml"} {
			got := l.run(l.as("reader", append(tt.args, "-o", f)...)...)
			if got.code != 0 {
				t.Errorf("machinectl %q -o %s = %d, %s", tt.args, f, got.code, got.stderr)
			}
			golden(t, tt.name+"."+f, got.stdout+got.stderr)
		}
	}
	// Text is what there is without -o.
	for _, args := range [][]string{{"version"}, {"get", "links"}} {
		if got, want := l.run(l.as("reader", args...)...), l.run(l.as("reader", append(args, "-o", "text")...)...); got != want {
			t.Errorf("machinectl %q = %v; want %v", args, got, want)
		}
	}
}

func TestReboot(t *testing.T) {
	l := newLab(t)
	for _, tt := range []struct {
		bundle, command string
		want            result
	}{
		{"operator", "reboot", result{"reboot requested\n", "", 0}},
		{"admin", "shutdown", result{"shutdown requested\n", "", 0}},
		{"reader", "reboot", result{"", "machinectl: reboot $ADDR: laptop may not call /machine.MachineService/Reboot: it needs the role os:operator and the certificate carries [os:reader]; use a bundle with that role\n", 1}},
		{"reader", "shutdown", result{"", "machinectl: shut down $ADDR: laptop may not call /machine.MachineService/Shutdown: it needs the role os:operator and the certificate carries [os:reader]; use a bundle with that role\n", 1}},
	} {
		if got := l.run(l.as(tt.bundle, tt.command)...); got != tt.want {
			t.Errorf("machinectl %s as %s = %+v; want %+v", tt.command, tt.bundle, got, tt.want)
		}
	}
	if got, want := l.node.Asked(), []string{"reboot by laptop", "shutdown by laptop"}; !slices.Equal(got, want) {
		t.Errorf("the node was asked for %q; want %q", got, want)
	}
}

func TestNodeErrors(t *testing.T) {
	l := newLab(t)
	now := time.Now()
	l.write(t, "foreign", apitest.NewBundle(t, apitest.NewCA(t, "other CA", now), now, time.Hour, pki.RoleAdmin))
	expired := apitest.NewBundle(t, l.ca, now.Add(-48*time.Hour), time.Hour, pki.RoleAdmin)
	l.write(t, "expired", expired)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{l.as("foreign", "reboot"), `machinectl: reboot $ADDR: the node's certificate is of the CA "lab CA" and not of the bundle's, "other CA" ($DIR/foreign/ca.crt); use the bundle of this node, or check that the address is the node's`},
		{l.as("expired", "reboot"), "machinectl: connect to $ADDR: the client certificate $DIR/expired/client.crt expired on " + expired.Cert.NotAfter.UTC().Format("2006-01-02 15:04 UTC") + ", and this computer's clock says "},
		{l.as("missing", "reboot"), "machinectl: load ca.crt, client.crt, client.key from $DIR/missing: no PKI here (file does not exist); name a directory of a client's files, such as `machinectl pki new DIR` makes in DIR/bundles\n"},
		{l.as("reader", "get", "links", "eth7"), "machinectl: get LinkStatus eth7: the node has no such one; it has eth0, lo\n"},
		{l.as("reader", "get", "pods", "a\nb"), `machinectl: get PodStatus "a\nb": the node has no PodStatus` + "\n"},
		{l.as("reader", "reboot", "--endpoint", closed.Addr().String()), "machinectl: reboot " + closed.Addr().String() + ": connection refused; "},
		{l.as("reader", "reboot", "--timeout", "200ms", "--endpoint", silent.Addr().String()), "machinectl: reboot " + silent.Addr().String() + ": something takes the connection and says nothing within 200ms; "},
		{l.as("reader", "reboot", "--endpoint", "ftp://x"), `machinectl: use endpoint "ftp://x": the scheme is "ftp"; a node answers to https:// alone` + "\n"},
		{l.as("reader", "reboot", "--server-name", "x"), `machinectl: reboot $ADDR: the node's certificate is not for the server name "x"; `},
	} {
		got := l.run(tt.args...)
		if got.code != exitFailure || got.stdout != "" || !strings.HasPrefix(got.stderr, tt.want) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("machinectl %q = %+v\nwant %d, one line %s", tt.args[4:], got, exitFailure, tt.want)
		}
	}
	// The version of this program is said even so.
	if got := l.run(l.as("foreign", "version")...); got.code != exitFailure || got.stdout != "client  devel\n" {
		t.Errorf("machinectl version with a foreign bundle = %+v; want the client's version and a failure", got)
	}
}

// A usage error is found before a node is asked, and is exit code 2.
func TestUsageErrors(t *testing.T) {
	l := newLab(t)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"frobnicate"}, `unknown command "frobnicate" for "machinectl"`},
		{[]string{"frobnicate"}, `unknown command "frobnicate" for "machinectl"`},
		{[]string{"config", "frobnicate"}, `unknown command "frobnicate" for "machinectl config"; there are list, merge, path, use`},
		{[]string{"version", "--bogus"}, "unknown flag: --bogus; see `machinectl version --help`"},
		{[]string{"version", "-o", "xml"}, `invalid argument "xml" for "-o, --output" flag: use text, json, yaml or table; see ` + "`machinectl version --help`"},
		{[]string{"reboot", "now"}, `unknown command "now" for "machinectl reboot"`},
		{[]string{"reboot", "--timeout", "0s"}, "--timeout is 0s; give more than 0"},
		{[]string{"reboot", "--timeout", "soon"}, `invalid argument "soon" for "--timeout" flag: `},
		{[]string{"get", "disks", "sda", "sdb"}, "get takes a KIND and an ID, and not 3 arguments"},
		{[]string{"watch", "disks", "sda"}, "watch takes a KIND, and not 2 arguments"},
		{[]string{"watch", "disks", "-o", "yaml"}, "watch prints text or json"},
		{[]string{"watch", "links", "--namespace", "block"}, `LinkStatus is in namespace "network", not "block"`},
		{[]string{"get", "links", "--namespace", "block"}, `LinkStatus is in namespace "network", not "block"`},
		{[]string{"image", "build"}, `required flag(s) "board", "out" not set`},
		{[]string{"pki", "new"}, "accepts 1 arg(s), received 0"},
		{[]string{"config", "merge", "x"}, `required flag(s) "name" not set`},
		{[]string{"config", "merge", "x", "--name", "../x"}, `"../x" is no name for a context; use at most 64 letters, digits, dots, dashes and underscores`},
		{[]string{"config", "merge", "x", "--name", "x"}, "context x is new: give --endpoint https://HOST[:PORT] too"},
		{[]string{"config", "use"}, "accepts 1 arg(s), received 0"},
	} {
		got := l.run(tt.args...)
		if got.code != exitUsage || got.stdout != "" || !strings.HasPrefix(got.stderr, "machinectl: "+tt.want) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("machinectl %q = %+v\nwant %d, one line machinectl: %s", tt.args, got, exitUsage, tt.want)
		}
	}
	for name, args := range map[string][]string{"kindless.txt": {"get"}, "kindunknown.txt": {"get", "diskstat"}, "kindfar.txt": {"get", "x"}} {
		got := l.run(args...)
		if got.code != exitUsage || got.stdout != "" {
			t.Errorf("machinectl %q = %+v; want %d and nothing on stdout", args, got, exitUsage)
		}
		golden(t, name, got.stderr)
	}
}

func TestHelpSucceeds(t *testing.T) {
	l := newLab(t)
	for _, args := range [][]string{{}, {"--help"}, {"get", "--help"}, {"config"}, {"completion", "bash"}, {"completion", "zsh"}, {"completion", "fish"}, {"completion", "powershell"}, {"--version"}} {
		if got := l.run(args...); got.code != 0 || got.stdout == "" || got.stderr != "" {
			t.Errorf("machinectl %q = %d with %d bytes, %s; want 0 and a text", args, got.code, len(got.stdout), got.stderr)
		}
	}
}

func TestCompletion(t *testing.T) {
	l := newLab(t)
	if got := l.run("config", "merge", filepath.Join(l.dir, "reader"), "--name", "lab", "--endpoint", "10.0.0.5"); got.code != 0 {
		t.Fatalf("config merge = %+v", got)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"get", "Disk"}, "DiskStatus\tnamespace block\n"},
		{[]string{"get", "DiskStatus", ""}, ":4\n"},
		{[]string{"get", "--namespace", "b"}, "block\n"},
		{[]string{"version", "-o", "j"}, "json\n"},
		{[]string{"config", "use", ""}, "lab\t10.0.0.5\n"},
		{[]string{"version", "--context", ""}, "lab\t10.0.0.5\n"},
	} {
		got := l.run(append([]string{"__complete"}, tt.args...)...)
		if got.code != 0 || !strings.Contains(got.stdout, tt.want) {
			t.Errorf("completion of %q = %+v; want %s", tt.args, got, tt.want)
		}
	}
}

func TestFindKind(t *testing.T) {
	for name, want := range map[string]string{
		"DiskStatus": "DiskStatus", "diskstatus": "DiskStatus", "DISK": "DiskStatus", "disks": "DiskStatus", "diskstatuses": "DiskStatus",
		"link": "LinkStatus", "linkspec": "LinkSpec", "linkspecs": "LinkSpec", "addresses": "AddressStatus", "routes": "RouteStatus",
		"hostname": "HostnameSpec", "resolvers": "ResolverSpec", "volumes": "VolumeStatus", "discoveredvolumes": "DiscoveredVolume",
		"mounts": "MountStatus", "config": "MachineConfig", "machineconfigs": "MachineConfig", "services": "ServiceStatus",
		"time": "TimeStatus", "runtime": "RuntimeStatus", "pods": "PodStatus", "upgrade": "UpgradeStatus",
		"": "", "s": "", "es": "", "status": "", "spec": "", "machine": "", "disk status": "",
	} {
		if got, _ := findKind(name); got.String() != want {
			t.Errorf("findKind(%q) = %q; want %q", name, got, want)
		}
	}
}

func TestWriteEvent(t *testing.T) {
	entry := &machinepb.ResourceEntry{Id: "eth0", Fields: []*machinepb.KeyValue{{Key: "mtu", Value: "1500"}, {Key: "note", Value: "a b"}}}
	for _, c := range []struct {
		event      *machinepb.WatchEvent
		text, json string
	}{
		{
			&machinepb.WatchEvent{Op: machinepb.WatchEvent_UPDATED, Sequence: 7, Entry: entry}, "updated    eth0 mtu=1500 note=\"a b\"\n",
			`{"op":"updated","kind":"LinkStatus","sequence":"7","id":"eth0","fields":{"mtu":"1500","note":"a b"}}` + "\n",
		},
		{
			&machinepb.WatchEvent{Op: machinepb.WatchEvent_DESTROYED, Sequence: 8, Entry: &machinepb.ResourceEntry{Id: "eth0"}}, "destroyed  eth0\n",
			`{"op":"destroyed","kind":"LinkStatus","sequence":"8","id":"eth0","fields":{}}` + "\n",
		},
		{
			&machinepb.WatchEvent{Op: machinepb.WatchEvent_LOST, Sequence: 90, Lost: 82}, "lost 82\n",
			`{"op":"lost","kind":"LinkStatus","sequence":"90","lost":"82"}` + "\n",
		},
		{&machinepb.WatchEvent{Op: machinepb.WatchEvent_SYNCED, Sequence: 90}, "", `{"op":"synced","kind":"LinkStatus","sequence":"90"}` + "\n"},
	} {
		for out, want := range map[format]string{formatText: c.text, formatJSON: c.json} {
			var b strings.Builder
			if err := writeEvent(&b, out, resource.LinkStatusKind, c.event); err != nil || b.String() != want {
				t.Errorf("%v as %s is %q, %v; want %q", c.event, out, b.String(), err, want)
			}
		}
	}
}

// TestWatchCommand interrupts a watch, as is the way to end one.
func TestWatchCommand(t *testing.T) {
	l := newLab(t)
	ctx, cancel := context.WithCancel(t.Context())
	var stdout strings.Builder
	root := newRoot(&stdout, io.Discard)
	root.SetArgs(l.as("reader", "watch", "services"))
	time.AfterFunc(2*time.Second, cancel)
	if err := root.ExecuteContext(ctx); err != nil {
		t.Errorf("an interrupted watch fails with %v; want success", err)
	}
	if got := stdout.String(); !strings.HasPrefix(got, "current    true service_id=true") || strings.Count(got, "\n") != 1 {
		t.Errorf("watch prints %q; want the one service", got)
	}
}
