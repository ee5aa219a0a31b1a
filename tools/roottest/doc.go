// Package roottest tests the drivers of hal/linux and the controllers of the
// network and the time together, as root and for real: in network namespaces of
// their own, with the DHCP, router advertisement and time servers that others
// wrote.
package roottest
