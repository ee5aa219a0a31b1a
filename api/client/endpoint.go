package client

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// parseEndpoint returns "host:port" for an endpoint; see Dial for its forms.
func parseEndpoint(endpoint string) (string, error) {
	// A bare IPv6 address is full of colons, none of them before a port.
	if a, err := netip.ParseAddr(endpoint); err == nil {
		return net.JoinHostPort(a.String(), DefaultPort), nil
	}
	if endpoint == "" {
		return "", errors.New("it is empty; give https://HOST:" + DefaultPort)
	}
	text := endpoint
	if !strings.Contains(text, "://") {
		// Only a URL needs a zone's percent sign escaped (RFC 6874).
		text = "https://" + strings.ReplaceAll(text, "%", "%25")
	}
	u, err := url.Parse(text)
	if err != nil {
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err
		}
		return "", fmt.Errorf("%w; give https://HOST:%s, with an IPv6 address in brackets", err, DefaultPort)
	}
	if u.Scheme != "https" {
		return "", fmt.Errorf("the scheme is %q; a node answers to https:// alone", u.Scheme)
	}
	if u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return "", fmt.Errorf("there is more than a host and a port; give https://%s", u.Host)
	}
	return hostPort(u.Hostname(), u.Port(), strings.HasSuffix(u.Host, ":"))
}

func hostPort(host, port string, colon bool) (string, error) {
	if host == "" {
		return "", errors.New("the host is missing; give https://HOST:" + DefaultPort)
	}
	if port == "" && !colon {
		port = DefaultPort
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("%q is no port; a port is a number from 1 to 65535", port)
	}
	return net.JoinHostPort(host, port), nil
}
