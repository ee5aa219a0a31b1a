package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, 2, "containerd takes --config FILE"},
		{[]string{"--config", "x", "y"}, 2, "containerd takes --config FILE"},
		{[]string{"--frobnicate"}, 2, "frobnicate"},
		{[]string{"check"}, 2, "check takes --config FILE"},
		{[]string{"import"}, 2, "one or more"},
		{[]string{"import", "--help"}, 0, "containerd's socket"},
		{[]string{"--config", "/nonexistent"}, 1, "read the configuration /nonexistent"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(context.Background(), c.args, &stdout, &stderr); code != c.code || !strings.Contains(stderr.String(), c.says) {
			t.Errorf("containerd %q = %d, %s; want %d, %q", c.args, code, stderr.String(), c.code, c.says)
		}
	}
}

// TestCheck takes what is spelled wrong for an error.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		text, says string
		code       int
	}{
		{"version = 4\n[plugins.'io.containerd.cri.v1.runtime'.cni]\nbin_dir = 'x'\n", "nothing reads", 1},
		{"version = 4\n[plugins.'io.containerd.frob.v1.nicate']\na = 1\n", "plugin io.containerd.frob.v1.nicate: there is none", 1},
		{"version = 4\nrequired_plugins = ['io.containerd.nri.v1.nri']\n", "there is no plugin io.containerd.nri.v1.nri", 1},
		{"version = 4\nroot = 1\n", "read the configuration", 1},
		{"version = 4\nroot = '/a'\nstate = '/b'\nrequired_plugins = ['io.containerd.grpc.v1.cri']\n", "", 0},
	} {
		path := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		if code := run(context.Background(), []string{"check", "--config", path}, &stdout, &stderr); code != c.code || !strings.Contains(stderr.String(), c.says) {
			t.Errorf("check of %q = %d, %s; want %d, %q", c.text, code, stderr.String(), c.code, c.says)
		}
	}
}
