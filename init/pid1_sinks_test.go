package main

import (
	"bufio"
	"encoding/json"
	"net"
	"strings"
	"sync"
	"testing"
)

// receiver keeps the lines that reach it.
type receiver struct {
	mu    sync.Mutex
	lines []string
	close func()
}

func (r *receiver) add(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
}

// count returns how many lines have all of the texts.
func (r *receiver) count(texts ...string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
lines:
	for _, line := range r.lines {
		for _, text := range texts {
			if !strings.Contains(line, text) {
				continue lines
			}
		}
		n++
	}
	return n
}

// listenTCP receives on a port of the node's own network.
func (b *bench) listenTCP(address string) *receiver {
	b.t.Helper()
	var l net.Listener
	b.must(b.enterNetwork(func() (err error) {
		l, err = net.Listen("tcp", address)
		return err
	}))
	r := &receiver{}
	var mu sync.Mutex
	var open []net.Conn
	r.close = func() {
		l.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, c := range open {
			c.Close()
		}
	}
	b.t.Cleanup(r.close)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			for lines := bufio.NewScanner(c); lines.Scan(); {
				r.add(lines.Text())
			}
		}
	}()
	return r
}

func (b *bench) listenUDP(address string) *receiver {
	b.t.Helper()
	var l net.PacketConn
	b.must(b.enterNetwork(func() (err error) {
		l, err = net.ListenPacket("udp", address)
		return err
	}))
	r := &receiver{close: func() { l.Close() }}
	b.t.Cleanup(r.close)
	go func() {
		for packet := make([]byte, 64<<10); ; {
			n, _, err := l.ReadFrom(packet)
			if err != nil {
				return
			}
			r.add(string(packet[:n]))
		}
	}()
	return r
}

// logsReachSinks forwards to a receiver of JSON over TCP and one of syslog over
// UDP, of which neither is there from the start nor stays.
func logsReachSinks(t *testing.T, f *factory) {
	const tcp, udp = "127.0.0.1:5140", "127.0.0.1:5514"
	b := f.start(t, setup{services: []string{"greeter"}, card: `machine:
  hostname: kiosk
  logs: {sinks: [{url: "tcp://` + tcp + `"}, {url: "syslog+udp://` + udp + `"}]}
  services:
  - {id: greeter, command: [/bin/payload, greet, /data/starts]}
`})
	b.waitLine("logs: Logs do not reach tcp://" + tcp + ": connect: connection refused; trying again.")
	b.waitLine("greeter: hello 1")
	stream, packets := b.listenTCP(tcp), b.listenUDP(udp)
	hello := func(r *receiver, n string) int { return r.count("greeter", "hello "+n) }
	b.until("what was written before the sinks were there", func() bool { return hello(stream, "1") == 1 && hello(packets, "1") == 1 })
	for r, want := range map[*receiver][]string{
		stream:  {`"host":"kiosk","service":"machined","stream":"stdout","message":"boot: Done: machined`},
		packets: {"<30>1 ", " kiosk machined - - - boot: Done: machined"},
	} {
		b.until("the node's own lines", func() bool { return r.count(want...) == 1 })
	}
	b.until("stderr", func() bool {
		return stream.count(`"service":"greeter","stream":"stderr","message":"listening"`) == 1 && packets.count("<29>1 ", "greeter - - - listening") == 1
	})
	stream.mu.Lock()
	for _, line := range stream.lines {
		var record map[string]string
		if err := json.Unmarshal([]byte(line), &record); err != nil || len(record) != 5 {
			t.Errorf("received %q, %v; want an object of five texts", line, err)
		}
	}
	stream.mu.Unlock()

	stream.close()
	packets.close()
	b.waitLine("logs: Logs do not reach tcp://" + tcp)
	b.reaches(b.client.RestartService, "greeter", "Running", "running")
	b.waitLine("greeter: hello 2")
	b.until("both to be missed", func() bool {
		return b.printed("logs: Logs do not reach udp://"+udp) && b.printed("Logs do not reach tcp://"+tcp)
	})
	again, packetsAgain := b.listenTCP(tcp), b.listenUDP(udp)
	b.until("what was written while they were away", func() bool { return hello(again, "2") == 1 && hello(packetsAgain, "2") == 1 })
	b.reaches(b.client.RestartService, "greeter", "Running", "running")
	b.until("what is written now", func() bool { return hello(again, "3") == 1 && hello(packetsAgain, "3") == 1 })
	if n := hello(again, "1") + hello(packetsAgain, "1"); n != 0 {
		t.Errorf("%d lines came a second time", n)
	}
}
