package resource

import "strconv"

// VolumeStatus is a volume of the node's own and how far it has come.
type VolumeStatus struct {
	Name   string // STATE
	Device string
	FS     string
	Label  string
	Phase  string // Ready, or Failed: and why
}

func (VolumeStatus) Kind() Kind   { return VolumeStatusKind }
func (s VolumeStatus) ID() string { return s.Name }

// Fields implements Resource.
func (s VolumeStatus) Fields() []Field {
	return []Field{{"name", s.Name}, {"device", s.Device}, {"fs", s.FS}, {"label", s.Label}, {"phase", s.Phase}}
}

// MountStatus is a file system that is mounted.
type MountStatus struct {
	Volume  string // name of the volume, or of the directory
	Source  string
	Target  string
	FSType  string
	Mounted bool
}

func (MountStatus) Kind() Kind   { return MountStatusKind }
func (s MountStatus) ID() string { return s.Target }

// Fields implements Resource.
func (s MountStatus) Fields() []Field {
	return []Field{
		{"volume", s.Volume}, {"source", s.Source}, {"target", s.Target}, {"fstype", s.FSType},
		{"mounted", strconv.FormatBool(s.Mounted)},
	}
}
