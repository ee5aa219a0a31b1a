package web

import (
	"fmt"
	"io"
	"sync/atomic"

	"machined/tools/netboot/registry"
)

// Metrics counts what a server does, for Prometheus (its text format 0.0.4).
type Metrics struct {
	TFTPBytes, TFTPDone, TFTPFailed atomic.Uint64
	HTTPBytes, HTTPDone, HTTPFailed atomic.Uint64
	Offers, Refusals, Leases        atomic.Uint64
}

// stages are all that a board can be in, so that a series does not vanish.
var stages = [...]registry.Stage{
	registry.Seen, registry.Offered, registry.Loading, registry.Kernel, registry.Held, registry.Config,
	registry.API, registry.Ready, registry.Installing, registry.Installed, registry.Ignored,
}

func (m *Metrics) write(w io.Writer, boards []registry.Board) {
	count := make(map[registry.Stage]int)
	for _, b := range boards {
		count[b.Stage]++
	}
	series := func(name, kind, help string) {
		fmt.Fprintf(w, "# HELP machined_netboot_%s %s\n# TYPE machined_netboot_%s %s\n", name, help, name, kind)
	}
	series("boards", "gauge", "Boards by how far they have come.")
	for _, s := range stages {
		fmt.Fprintf(w, "machined_netboot_boards{stage=%q} %d\n", string(s), count[s])
	}
	series("sent_bytes_total", "counter", "Bytes of files that boards have got.")
	fmt.Fprintf(w, "machined_netboot_sent_bytes_total{by=\"tftp\"} %d\nmachined_netboot_sent_bytes_total{by=\"http\"} %d\n", m.TFTPBytes.Load(), m.HTTPBytes.Load())
	series("transfers_total", "counter", "Transfers by how they ended.")
	for _, t := range []struct {
		by, end string
		n       *atomic.Uint64
	}{
		{"tftp", "done", &m.TFTPDone}, {"tftp", "failed", &m.TFTPFailed}, {"http", "done", &m.HTTPDone}, {"http", "failed", &m.HTTPFailed},
	} {
		fmt.Fprintf(w, "machined_netboot_transfers_total{by=%q,end=%q} %d\n", t.by, t.end, t.n.Load())
	}
	series("dhcp_total", "counter", "Answers to DHCP by what they were.")
	fmt.Fprintf(w, "machined_netboot_dhcp_total{answer=\"offer\"} %d\nmachined_netboot_dhcp_total{answer=\"refusal\"} %d\nmachined_netboot_dhcp_total{answer=\"lease\"} %d\n",
		m.Offers.Load(), m.Refusals.Load(), m.Leases.Load())
}
