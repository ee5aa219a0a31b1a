package config

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"strconv"
	"strings"
)

// The functions of this file read one scalar each. Their error is the message
// that the user sees: what was wanted, and what was there.

const (
	letters  = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits   = "0123456789"
	alphanum = letters + digits
)

// only reports whether s is not empty and has no character outside set.
func only(s, set string) bool {
	return s != "" && strings.Trim(s, set) == ""
}

// parseHostname accepts RFC 1123 names up to the 64 bytes of sethostname(2).
func parseHostname(s string) (string, error) {
	if len(s) > 64 {
		return "", fmt.Errorf("want at most 64 characters, the kernel's limit for a hostname; got %d", len(s))
	}
	if !isDomain(s) {
		return "", fmt.Errorf("want letters, digits and hyphens, in labels of 1 to 63 with dots between (RFC 1123); got %s", quote(s))
	}
	return s, nil
}

// isDomain reports whether s is a name by RFC 1123, section 2.1.
func isDomain(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if len(label) > 63 || !only(label, alphanum+"-") || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
	}
	return true
}

// parseSearch accepts a domain, rooted or not, with the underscores that
// service names have.
func parseSearch(s string) (string, error) {
	if s != "." && !isDomain(strings.ReplaceAll(strings.TrimSuffix(s, "."), "_", "x")) {
		return "", fmt.Errorf("want a domain name such as lan.example; got %s", quote(s))
	}
	return s, nil
}

// parseID accepts names that are safe as a file name, a cgroup and a log field.
func parseID(s string) (string, error) {
	if len(s) > 63 || !only(s, alphanum+"._@-") || !strings.Contains(alphanum+"_", s[:1]) {
		return "", fmt.Errorf("want 1 to 63 letters, digits and any of . _ @ -, the first a letter, a digit or _; got %s", quote(s))
	}
	return s, nil
}

// Path is where the parameter is below /proc/sys, such as net/ipv4/ip_forward.
//
// As in sysctl.d(5), the separator that comes first decides: after a dot, dots
// separate and a slash stands for a dot in a name (net.ipv4.conf.eth0/1.mtu);
// after a slash, the key is the path as it is.
func (s Sysctl) Path() string {
	if i := strings.IndexAny(s.Key, "./"); i >= 0 && s.Key[i] == '/' {
		return s.Key
	}
	return strings.NewReplacer(".", "/", "/", ".").Replace(s.Key)
}

// parseSysctlKey keeps the path inside /proc/sys.
func parseSysctlKey(s string) (string, error) {
	parts := strings.Split(Sysctl{Key: s}.Path(), "/")
	ok := len(parts) > 1 && len(s) <= 255
	for _, p := range parts {
		ok = ok && only(p, alphanum+"._:@+-") && strings.Trim(p, ".") == p
	}
	if !ok {
		return "", fmt.Errorf("want a kernel parameter such as net.ipv4.ip_forward; got %s", quote(s))
	}
	return s, nil
}

func parseSysctlValue(s string) (string, error) {
	if len(s) > 4096 || strings.ContainsAny(s, "\x00\n\r") {
		return "", fmt.Errorf("want one line of at most 4096 bytes; got %s", quote(s))
	}
	return s, nil
}

// parsePath accepts an absolute path in its shortest form.
func parsePath(s string) (string, error) {
	if !path.IsAbs(s) || s == "/" || strings.ContainsRune(s, 0) || len(s) > 4095 {
		return "", fmt.Errorf("want an absolute path such as /usr/bin/containerd; got %s", quote(s))
	}
	if clean := path.Clean(s); clean != s {
		return "", fmt.Errorf("want the path without detours, %s; got %s", quote(clean), quote(s))
	}
	return s, nil
}

func parseDirectory(s string) (string, error) {
	if s == "/" {
		return s, nil
	}
	return parsePath(s)
}

// parseSocket accepts a path that fits sockaddr_un, see unix(7).
func parseSocket(s string) (string, error) {
	if len(s) > 107 {
		return "", fmt.Errorf("want a socket path of at most 107 bytes; got %d", len(s))
	}
	return parsePath(s)
}

func parseDisk(s string) (string, error) {
	if _, err := parsePath(s); err != nil || !strings.HasPrefix(s, "/dev/") {
		return "", fmt.Errorf("want a disk such as /dev/mmcblk0; got %s", quote(s))
	}
	return s, nil
}

// parseArgument accepts what execve(2) can carry.
func parseArgument(s string) (string, error) {
	if strings.ContainsRune(s, 0) {
		return "", errors.New("a NUL byte cannot be part of an argument; remove it")
	}
	return s, nil
}

func parseImage(s string) (string, error) {
	if s == "" || len(s) > 512 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("want an image reference such as docker.io/library/busybox:1.36; got %s", quote(s))
	}
	return s, nil
}

// parseServer accepts a host or an address, with a port or without.
func parseServer(s string) (string, error) {
	if isHost(s) || parseHostPort(s) == nil {
		return s, nil
	}
	return "", fmt.Errorf("want a host name or an address, with :port or without; got %s", quote(s))
}

func isHost(s string) bool {
	a, err := netip.ParseAddr(s)
	return (err == nil && isZone(a.Zone())) || isDomain(s)
}

// isZone accepts no zone, or one that can be an interface's name; netip takes
// any bytes.
func isZone(s string) bool {
	return s == "" || (len(s) <= 15 && only(s, alphanum+"._-"))
}

// parseHostPort checks host:port, with brackets around an IPv6 address.
func parseHostPort(s string) error {
	i := strings.LastIndexByte(s, ':')
	if i >= 0 {
		host, port := s[:i], s[i+1:]
		inner, bracketed := strings.CutPrefix(host, "[")
		if bracketed {
			host = strings.TrimSuffix(inner, "]")
			bracketed = host != inner
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err == nil && n > 0 && isHost(host) && bracketed == strings.Contains(host, ":") {
			return nil
		}
	}
	return fmt.Errorf("want host:port; got %s", quote(s))
}

// oneOf reads one of the words as its index.
func oneOf[T ~uint8](words []string) func(string) (T, error) {
	return func(s string) (T, error) {
		for i, w := range words {
			if w == s {
				return T(i), nil
			}
		}
		return 0, fmt.Errorf("want one of %s; got %s%s", strings.Join(words, ", "), quote(s), suggest(s, words))
	}
}
