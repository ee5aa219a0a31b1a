package fake

import (
	"strconv"

	"machined/hal"
)

// AttachLoop implements hal.Mounts.
func (m *Mounts) AttachLoop(path string) (string, func(), error) {
	if err := m.failing("AttachLoop"); err != nil {
		return "", nil, err
	}
	file := find(m.files, path)
	if file == nil {
		return "", nil, hal.ErrNotFound
	}
	device := "/dev/loop" + strconv.Itoa(m.loops)
	m.loops++
	m.sources = append(m.sources, source{path: device, fsType: file.fsType, readOnly: true, held: true, loop: true})
	return device, func() {
		if s := find(m.sources, device); s != nil {
			s.held = false
		}
		m.autoclear(device)
	}, nil
}

// autoclear takes a loop device away whose last user has gone.
func (m *Mounts) autoclear(device string) {
	s := find(m.sources, device)
	if s == nil || !s.loop || s.held {
		return
	}
	for _, mnt := range m.mounts {
		if mnt.Source == device {
			return
		}
	}
	m.sources = without(m.sources, device)
}

func find(sources []source, path string) *source {
	for i := range sources {
		if sources[i].path == path {
			return &sources[i]
		}
	}
	return nil
}

func without(sources []source, path string) []source {
	kept := sources[:0]
	for _, s := range sources {
		if s.path != path {
			kept = append(kept, s)
		}
	}
	return kept
}
