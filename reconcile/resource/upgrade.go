package resource

// UpgradeStatus is how far the last upgrade has come.
type UpgradeStatus struct {
	Phase       string
	Message     string
	Slot        string // the one that is written or tried
	FromVersion string
	ToVersion   string
	Bytes       int64 // written so far
	TotalBytes  int64 // 0 while unknown
}

func (UpgradeStatus) Kind() Kind { return UpgradeStatusKind }
func (UpgradeStatus) Key() Key   { return Named("upgrade") }

// Fields implements Resource.
func (s UpgradeStatus) Fields() []Field {
	return []Field{
		{"phase", s.Phase}, {"message", s.Message}, {"slot", s.Slot}, {"from_version", s.FromVersion}, {"to_version", s.ToVersion},
		{"bytes", number(s.Bytes)}, {"total_bytes", number(s.TotalBytes)},
	}
}

// SlotStatus is one of the two places for a system.
type SlotStatus struct {
	Slot    string // "A" or "B"
	Version string // "" for none
	// State is empty, good, trial or failed.
	State   string
	Running bool
	Default bool  // boots unless a trial is under way
	Tries   int64 // boots that a trial has left
	// LastBoot is the id of the last boot of it that is known.
	LastBoot string
	Reason   string // why it is in that state
}

func (SlotStatus) Kind() Kind { return SlotStatusKind }
func (s SlotStatus) Key() Key { return Named(s.Slot) }

// Fields implements Resource.
func (s SlotStatus) Fields() []Field {
	return []Field{
		{"slot", s.Slot}, {"version", s.Version}, {"state", s.State}, {"running", flag(s.Running)}, {"default", flag(s.Default)},
		{"tries", number(s.Tries)}, {"last_boot", s.LastBoot}, {"reason", s.Reason},
	}
}

// BootStatus is how this boot came about.
type BootStatus struct {
	Slot   string
	BootID string
	// Reason of the boot before to end: user, upgrade, rollback, reset, watchdog,
	// panic, failure, power; "" on the first boot.
	Reason string
	Detail string
	// Problem is what is wrong with the files of the loader, or what the user has
	// pinned there; "" for nothing.
	Problem string
	// Trial says that the running system is not kept yet.
	Trial bool
}

func (BootStatus) Kind() Kind { return BootStatusKind }
func (BootStatus) Key() Key   { return Named("boot") }

// Fields implements Resource.
func (s BootStatus) Fields() []Field {
	return []Field{
		{"slot", s.Slot}, {"boot_id", s.BootID}, {"reason", s.Reason}, {"detail", s.Detail}, {"problem", s.Problem}, {"trial", flag(s.Trial)},
	}
}

// InstallStatus is how far the node has written itself to a disk.
type InstallStatus struct {
	// Phase is Waiting, Installing, Installed, Refused or Failed.
	Phase      string
	Message    string
	Disk       string
	Bytes      int64 // written so far
	TotalBytes int64 // 0 while unknown
}

func (InstallStatus) Kind() Kind { return InstallStatusKind }
func (InstallStatus) Key() Key   { return Named("install") }

// Fields implements Resource.
func (s InstallStatus) Fields() []Field {
	return []Field{
		{"phase", s.Phase}, {"message", s.Message}, {"disk", s.Disk}, {"bytes", number(s.Bytes)}, {"total_bytes", number(s.TotalBytes)},
	}
}
