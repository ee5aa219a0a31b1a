package fake

import "machined/hal"

// Host is a simulated hal.Host. It knows the sysctls that were added to it.
type Host struct {
	Faults
	name    string
	sysctls []sysctl
}

type sysctl struct {
	key, value string // key with slashes
	refuse     func(value string) bool
}

// maxHostname is __NEW_UTS_LEN of the kernel.
const maxHostname = 64

// NewHost returns a host of that name.
func NewHost(name string) *Host { return &Host{name: name} }

// AddSysctl makes key known. refuse tells the values that the kernel would not
// take; nil means that it takes all.
func (h *Host) AddSysctl(key, value string, refuse func(value string) bool) {
	h.sysctls = append(h.sysctls, sysctl{key: slashes(key), value: value, refuse: refuse})
}

// Hostname implements hal.Host.
func (h *Host) Hostname() (string, error) {
	if err := h.failing("Hostname"); err != nil {
		return "", err
	}
	return h.name, nil
}

// SetHostname implements hal.Host.
func (h *Host) SetHostname(name string) error {
	if err := h.failing("SetHostname"); err != nil {
		return err
	}
	if len(name) > maxHostname {
		return hal.ErrInvalid
	}
	h.name = name
	return nil
}

// Sysctl implements hal.Host.
func (h *Host) Sysctl(key string) (string, error) {
	if err := h.failing("Sysctl"); err != nil {
		return "", err
	}
	s := h.find(key)
	if s == nil {
		return "", hal.ErrNotFound
	}
	return s.value, nil
}

// SetSysctl implements hal.Host.
func (h *Host) SetSysctl(key, value string) error {
	if err := h.failing("SetSysctl"); err != nil {
		return err
	}
	s := h.find(key)
	switch {
	case s == nil:
		return hal.ErrNotFound
	case s.refuse != nil && s.refuse(value):
		return hal.ErrInvalid
	}
	s.value = value
	return nil
}

func (h *Host) find(key string) *sysctl {
	key = slashes(key)
	for i := range h.sysctls {
		if h.sysctls[i].key == key {
			return &h.sysctls[i]
		}
	}
	return nil
}

// slashes turns the form with dots into the one with slashes, in which dots
// are part of a name.
func slashes(key string) string {
	b := []byte(key)
	for _, c := range b {
		if c == '/' {
			return key
		}
	}
	for i, c := range b {
		if c == '.' {
			b[i] = '/'
		}
	}
	return string(b)
}

var _ hal.Host = (*Host)(nil)
