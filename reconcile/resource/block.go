package resource

// DiskStatus is a disk as observed.
type DiskStatus struct {
	Name       string
	Path       string
	SizeBytes  int64
	Model      string
	Serial     string
	Bus        string // ata, mmc, nvme, scsi, usb, virtio
	Rotational bool
	ReadOnly   bool
	Table      string // gpt, mbr, or "" for none
	Trouble    string // why it could not be read
}

func (DiskStatus) Kind() Kind { return DiskStatusKind }
func (s DiskStatus) Key() Key { return Named(s.Name) }

// Fields implements Resource.
func (s DiskStatus) Fields() []Field {
	return []Field{
		{"name", s.Name}, {"path", s.Path}, {"size_bytes", number(s.SizeBytes)}, {"model", s.Model},
		{"rotational", flag(s.Rotational)}, {"read_only", flag(s.ReadOnly)}, {"serial", s.Serial},
		{"bus", s.Bus}, {"table", s.Table}, {"trouble", s.Trouble},
	}
}

// DiscoveredVolume is a partition, or a disk with a file system and no table.
type DiscoveredVolume struct {
	Device         string // path
	Disk           string // name of the disk
	PartitionLabel string
	FSType         string
	FSLabel        string
	UUID           string
	SizeBytes      int64
	Trouble        string // why it could not be read
}

func (DiscoveredVolume) Kind() Kind { return DiscoveredVolumeKind }
func (s DiscoveredVolume) Key() Key { return Named(s.Device) }

// Fields implements Resource.
func (s DiscoveredVolume) Fields() []Field {
	return []Field{
		{"device", s.Device}, {"disk", s.Disk}, {"partition_label", s.PartitionLabel}, {"fs_type", s.FSType},
		{"size_bytes", number(s.SizeBytes)}, {"fs_label", s.FSLabel}, {"uuid", s.UUID}, {"trouble", s.Trouble},
	}
}

// VolumeStatus is a volume of the node's own and how far it has come.
type VolumeStatus struct {
	Name   string // STATE, EPHEMERAL
	Device string
	FS     string
	Label  string
	Phase  string // Waiting, Provisioning, Ready, Failed, Refused
	// Message says why the volume is not ready.
	Message string
}

func (VolumeStatus) Kind() Kind { return VolumeStatusKind }
func (s VolumeStatus) Key() Key { return Named(s.Name) }

// Fields implements Resource.
func (s VolumeStatus) Fields() []Field {
	return []Field{
		{"name", s.Name}, {"device", s.Device}, {"fs", s.FS}, {"label", s.Label}, {"phase", s.Phase}, {"message", s.Message},
	}
}

// MountStatus is a file system that is mounted, or that should be.
type MountStatus struct {
	Volume  string // name of the volume, or the directory
	Source  string
	Target  string
	FSType  string
	Mounted bool
}

func (MountStatus) Kind() Kind { return MountStatusKind }
func (s MountStatus) Key() Key { return Named(s.Target) }

// Fields implements Resource.
func (s MountStatus) Fields() []Field {
	return []Field{
		{"volume", s.Volume}, {"source", s.Source}, {"target", s.Target}, {"fstype", s.FSType}, {"mounted", flag(s.Mounted)},
	}
}
