package hal

// Files keeps small files: the resolver's, and what must outlast a restart.
type Files interface {
	// Read returns the file's content. ErrNotFound when it is not there,
	// ErrInvalid when it has more than 1 MiB.
	Read(path string) ([]byte, error)
	// Replace writes the file so that a reader, or a power cut, sees the old
	// content or the new one and nothing between, and makes its directory. It
	// is on the disk when Replace returns: on a slow card, see Jobs. Only root
	// can read it unless public is set. ErrInvalid for more than 1 MiB,
	// ErrNoSpace on a full disk.
	Replace(path string, data []byte, public bool) error
	// Remove removes the file; one that is not there is no error.
	Remove(path string) error
}
