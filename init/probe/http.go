package probe

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// maxStatusLine bounds the first line of an answer, in bytes.
const maxStatusLine = 1024

// askHTTP makes one GET request by HTTP/1.1 (RFC 9112) and reads the first line
// of the answer: a status of 200 to 399 is health. The client of net/http would
// cost PID 1 memory for what a probe does not need: connections that are kept,
// HTTP/2, proxies, cookies.
func askHTTP(ctx context.Context, url string) error {
	host, address, path, secure, err := splitURL(url)
	if err != nil {
		return err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return withoutPort(err)
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if secure {
		// A probe asks whether the service answers, not who it is, and most have a
		// certificate that nobody has signed.
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12})
	}
	request := "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: machined\r\nAccept: */*\r\nConnection: close\r\n\r\n"
	if _, err := io.WriteString(conn, request); err != nil {
		return withoutPort(err)
	}
	line, err := bufio.NewReaderSize(io.LimitReader(conn, maxStatusLine), maxStatusLine).ReadString('\n')
	if err != nil {
		return fmt.Errorf("no answer by HTTP: %w", withoutPort(err))
	}
	return judgeStatus(line)
}

// judgeStatus reads a line such as "HTTP/1.1 200 OK".
func judgeStatus(line string) error {
	version, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	code, _, _ := strings.Cut(rest, " ")
	status, err := strconv.Atoi(code)
	if err != nil || !strings.HasPrefix(version, "HTTP/1.") {
		return fmt.Errorf("no answer by HTTP: %.40q", line)
	}
	if status < 200 || status > 399 {
		return fmt.Errorf("HTTP status %.60s", rest)
	}
	return nil
}

// splitURL takes apart what the config has checked to be a URL.
func splitURL(url string) (host, address, path string, secure bool, err error) {
	rest, ok := strings.CutPrefix(url, "http://")
	port := "80"
	if !ok {
		if rest, secure = strings.CutPrefix(url, "https://"); !secure {
			return "", "", "", false, fmt.Errorf("probe %q: want a URL with http or https", url)
		}
		port = "443"
	}
	rest, _, _ = strings.Cut(rest, "#")
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	host, path = rest[:end], rest[end:]
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	address = host
	if _, _, err := net.SplitHostPort(host); err != nil {
		address = net.JoinHostPort(strings.Trim(host, "[]"), port)
	}
	return host, address, path, secure, nil
}
