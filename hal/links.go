package hal

// Link is a network interface as the kernel sees it.
type Link struct {
	Index    uint32
	Name     string
	Up       bool // administratively up
	Carrier  bool // a cable or an association is there
	Loopback bool
	Wired    bool // a piece of hardware with Ethernet framing, not wireless
	MTU      uint32
	MAC      [6]byte
}

// Links reads and sets network interfaces (rtnetlink(7)).
type Links interface {
	// List returns the links of this network namespace, by index.
	List() ([]Link, error)
	// SetUp raises or lowers the link. ErrNoDevice when it is gone.
	SetUp(index uint32, up bool) error
	// SetMTU sets the MTU in bytes. ErrInvalid when the driver refuses it.
	SetMTU(index uint32, mtu uint32) error
	// AddAddress adds an address; one that is there already is no error.
	AddAddress(index uint32, address Prefix) error
	// RemoveAddress removes an address; one that is not there is no error.
	RemoveAddress(index uint32, address Prefix) error
	// Addresses returns the addresses of the link.
	Addresses(index uint32) ([]Prefix, error)
	// AddRoute adds a route to the main table; one that is there already is no
	// error. ErrExists when another route has its destination and metric.
	AddRoute(r Route) error
	// RemoveRoute removes a route; one that is not there is no error. All its
	// fields count: a route to the same destination by another way stays.
	RemoveRoute(r Route) error
	// Routes returns the unicast routes of the main table.
	Routes() ([]Route, error)
	// Changes returns a number that moves when a link, an address or a route
	// may have changed. It is cheap, and may be called at any time.
	Changes() uint64
}

// Address is an IPv4 or IPv6 address; Len is 4 or 16, and 0 for none. Bytes
// past Len are zero, so that two addresses compare with ==.
type Address struct {
	Bytes [16]byte
	Len   uint8
}

// Prefix is an address and the length of its network part in bits.
type Prefix struct {
	Address Address
	Bits    uint8
}

// Route is one route of the main table. A zero Destination with Bits 0 is the
// default route of the gateway's family.
type Route struct {
	Link        uint32 // index of the outgoing link
	Destination Prefix // Address.Len gives the family
	Gateway     Address
	Metric      uint32 // lower wins; 0 leaves the choice to the kernel
}
