package config

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"
)

// upgrade reads the policy of upgrades; m has the services and pods that it may
// name.
func (d *decoder) upgrade(v value, m Machine) Upgrade {
	o := d.object(v, "auto_rollback", "keys", "min_version", "firmware", "health")
	u := Upgrade{
		AutoRollback: d.boolean(o.get("auto_rollback"), true),
		MinVersion:   scalar(d, o.get("min_version"), "", parseVersion),
		Firmware:     scalar(d, o.get("firmware"), FirmwareAuto, oneOf[Firmware](firmwareNames())),
		Health:       d.health(o.get("health"), m),
	}
	seen := names{}
	for _, item := range d.list(o.get("keys")) {
		key := scalar(d, item, nil, parseKey)
		if key != nil && seen.add(d, item, "key", base64.StdEncoding.EncodeToString(key)) {
			u.Keys = append(u.Keys, key)
		}
	}
	return u
}

func (d *decoder) health(v value, m Machine) Health {
	o := d.object(v, "services", "pods", "probes", "hold_secs", "deadline_secs")
	h := Health{
		Deadline: d.seconds(o.get("deadline_secs"), 5*time.Minute, 1),
		Hold:     d.seconds(o.get("hold_secs"), 30*time.Second, 0),
	}
	h.Services = d.known(o.get("services"), "service", func(id string) bool {
		return id == ContainerdID && !m.Runtime.Disabled || slices.ContainsFunc(m.Services, func(s Service) bool { return s.ID == id })
	})
	h.Pods = d.known(o.get("pods"), "pod", func(name string) bool {
		return slices.ContainsFunc(m.Pods, func(p Pod) bool { return p.Name == name })
	})
	for _, item := range d.list(o.get("probes")) {
		if p := d.probe(item); p != nil {
			h.Probes = append(h.Probes, *p)
		}
	}
	if h.Hold >= h.Deadline {
		d.errorf(o.value, "want hold_secs below deadline_secs, or no upgrade is ever kept; got %d and %d",
			h.Hold/time.Second, h.Deadline/time.Second)
	}
	return h
}

// known reads a list of names that are elsewhere in the config.
func (d *decoder) known(v value, what string, exists func(string) bool) []string {
	var out []string
	for _, item := range d.list(v) {
		name := scalar(d, item, "", parseID)
		if name == "" {
			continue
		}
		if !exists(name) {
			item.node = target(item.node)
			d.errorf(item, "the config has no %s %q", what, name)
		}
		out = append(out, name)
	}
	return out
}

// parseKey reads a raw Ed25519 public key (RFC 8032), as base64 (RFC 4648, 4).
func parseKey(s string) (ed25519.PublicKey, error) {
	key, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("want an Ed25519 public key, 32 bytes in base64; got %s", quote(s))
	}
	return ed25519.PublicKey(key), nil
}

func parseVersion(s string) (string, error) {
	if s == "" || len(s) > 128 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("want a version such as v1.2.3; got %s", quote(s))
	}
	return s, nil
}
