package hal

// TimeSample is what a time server said (RFC 5905, in the simple use of its
// section 14). Durations are nanoseconds.
type TimeSample struct {
	Offset  int64 // to be added to the wall clock
	Delay   int64 // of the round trip
	Stratum uint8 // 1 to 15; 0 and 16 are no time
	// Leap is the leap indicator; 3 says that the server has no time itself.
	Leap uint8
	// RootDelay and RootDispersion bound the server's own error.
	RootDelay, RootDispersion int64
	// Reference is when the server was set last, in Unix nanoseconds.
	Reference int64
	// Kiss is the code that a server sends in place of the time (RFC 5905,
	// section 7.4): RATE, DENY and RSTR send the client away, others such as
	// INIT and STEP say why there is no time yet. "" for none.
	Kiss string
}

// NTP asks time servers.
type NTP interface {
	// Query asks server, a host or host:port, once. It takes as long as the
	// network does, some seconds at most: see Jobs. It may run several times at
	// once.
	Query(server string) (TimeSample, error)
}
