package hal

// Host is the kernel's own settings: host name and sysctls.
type Host interface {
	// Hostname returns the kernel's host name.
	Hostname() (string, error)
	// SetHostname sets it. ErrInvalid when the kernel refuses the name.
	SetHostname(name string) error
	// Sysctl returns the value of key, dots or slashes between its parts,
	// without the newline. ErrNotFound when the kernel has no such key.
	Sysctl(key string) (string, error)
	// SetSysctl writes value. ErrNotFound for an unknown key, ErrInvalid for a
	// value that the kernel refuses.
	SetSysctl(key, value string) error
}
