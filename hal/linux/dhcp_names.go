package linux

import (
	"strings"

	"github.com/insomniacslk/dhcp/rfc1035label"
)

// maxHostname is what the kernel takes (__NEW_UTS_LEN).
const maxHostname = 64

// hostname returns the name of option 12, or of it the first label where the
// whole is too long for the kernel; "" for what is no name.
func hostname(b []byte) string {
	name := domain(string(b))
	if len(name) > maxHostname {
		name, _, _ = strings.Cut(name, ".")
	}
	if name == "localhost" || strings.HasPrefix(name, "localhost.") {
		return "" // what a server says of a client that it does not know
	}
	return name
}

// searchList returns the domains of option 119 (RFC 3397), or without any those
// of option 15.
func searchList(list, single []byte) []string {
	var names []string
	if labels, err := rfc1035label.FromBytes(list); err == nil {
		names = labels.Labels
	}
	if found := domains(names); len(found) > 0 {
		return found
	}
	return domains(strings.Fields(string(single)))
}

func domains(names []string) []string {
	var found []string
	for _, name := range names {
		if name = domain(name); name != "" && len(found) < maxDHCPDomains {
			found = append(found, name)
		}
	}
	return found
}

// domain returns a name of letters, digits and hyphens (RFC 1123, 2.1) without
// the dot and the zero bytes that may end it, and "" for what is none.
func domain(name string) string {
	name = strings.TrimSuffix(strings.TrimRight(name, "\x00"), ".")
	if len(name) > 253 {
		return ""
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return ""
		}
		for _, c := range []byte(label) {
			if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-') {
				return ""
			}
		}
	}
	return name
}

// printable returns a text that can be shown on a console, shortened.
func printable(b []byte) string {
	b = b[:min(len(b), maxDHCPText)]
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, string(b))
	return strings.TrimSpace(text)
}
