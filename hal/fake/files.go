package fake

import "machined/hal"

// Files is a simulated hal.Files, in memory. Replace is atomic, so a power cut
// leaves all of it as it is.
type Files struct {
	Faults
	// Writes counts the calls of Replace that changed a file.
	Writes int

	files []file
}

type file struct {
	path   string
	data   []byte
	public bool
}

// maxFile is the most that a file may have, in bytes.
const maxFile = 1 << 20

// Read implements hal.Files.
func (f *Files) Read(path string) ([]byte, error) {
	if err := f.failing("Read"); err != nil {
		return nil, err
	}
	i := f.find(path)
	switch {
	case i < 0:
		return nil, hal.ErrNotFound
	case len(f.files[i].data) > maxFile:
		return nil, hal.ErrInvalid
	}
	return append([]byte{}, f.files[i].data...), nil
}

// Replace implements hal.Files.
func (f *Files) Replace(path string, data []byte, public bool) error {
	if err := f.failing("Replace"); err != nil {
		return err
	}
	if len(data) > maxFile {
		return hal.ErrInvalid
	}
	f.Put(path, data, public)
	f.Writes++
	return nil
}

// Put places a file without asking for faults, of any size.
func (f *Files) Put(path string, data []byte, public bool) {
	i := f.find(path)
	if i < 0 {
		f.files = append(f.files, file{path: path})
		i = len(f.files) - 1
	}
	f.files[i].data, f.files[i].public = append([]byte{}, data...), public
}

// Remove implements hal.Files.
func (f *Files) Remove(path string) error {
	if err := f.failing("Remove"); err != nil {
		return err
	}
	if i := f.find(path); i >= 0 {
		f.files = append(f.files[:i], f.files[i+1:]...)
	}
	return nil
}

// Public reports whether others than root can read the file.
func (f *Files) Public(path string) bool {
	i := f.find(path)
	return i >= 0 && f.files[i].public
}

// Paths returns the paths of the files, in the order of their making.
func (f *Files) Paths() []string {
	var paths []string
	for _, other := range f.files {
		paths = append(paths, other.path)
	}
	return paths
}

func (f *Files) find(path string) int {
	for i, other := range f.files {
		if other.path == path {
			return i
		}
	}
	return -1
}

var _ hal.Files = (*Files)(nil)
