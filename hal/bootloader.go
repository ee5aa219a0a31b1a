package hal

// ErrLocked says that the boot partition is read-only for now.
const ErrLocked Error = "the boot partition is read-only; unlock it first"

// BootFile is an entry of a directory on the boot partition.
type BootFile struct {
	Name string
	Size int64 // bytes; 0 for a directory
	Dir  bool
}

// BootFiles are the files of the boot partition. Paths are relative to it,
// slash-separated and clean; one that leaves it is ErrInvalid. Nothing can be
// written but between Unlock and Lock: ErrLocked.
type BootFiles interface {
	// Unlock makes the partition writable, and Lock read-only again, with all
	// that was written on the disk and the file system marked clean. Either does
	// nothing when that is so already.
	Unlock() error
	Lock() error
	// Read returns a file of at most 1 MiB. ErrNotFound, ErrInvalid for more.
	Read(path string) ([]byte, error)
	// List returns a directory sorted by name. ErrNotFound.
	List(dir string) ([]BootFile, error)
	// Hash returns the SHA-256 of a file as the disk has it: what the page cache
	// holds of it is dropped before, so that a Read right after is from the disk
	// as well. ErrNotFound.
	Hash(path string) ([32]byte, error)
	// Create makes an empty file in the place of the one that is there, and its
	// directories. ErrNoSpace unless there is room for size bytes.
	Create(path string, size int64) (BootWriter, error)
	// Replace puts data in the place of a file by a new file and a rename, each
	// flushed to the disk: see Overwrite for what a power cut leaves of that on
	// FAT, which knows no atomic rename.
	Replace(path string, data []byte) error
	// Overwrite writes data at offset of a file, and has it on the disk when it
	// returns. Within one sector of 512 bytes it is done whole or not at all.
	// ErrNotFound; ErrInvalid for what is not within the file.
	Overwrite(path string, offset int64, data []byte) error
	// Rename flushes the file, renames it, and flushes the directory. A power cut
	// leaves on FAT either name, both with the same clusters, or none.
	Rename(from, to string) error
	// Remove removes a file or a directory with all that is in it, and has that
	// on the disk when it returns. What is not there is no error.
	Remove(path string) error
	// Flush has all that was written on the disk when it returns (fsync(2) of
	// files and directories, syncfs(2)).
	Flush() error
	// Free returns the bytes that a file could take.
	Free() (int64, error)
}

// BootWriter writes a file of the boot partition from its beginning.
type BootWriter interface {
	Write(data []byte) (int, error)
	// Close flushes the file to the disk and closes it.
	Close() error
}

// SlotState is what a slot is for the firmware and for an upgrade.
type SlotState int

const (
	// SlotEmpty has no whole system: nothing, or what was left of an upgrade that
	// did not get to its end. It is never booted.
	SlotEmpty SlotState = iota
	// SlotGood is whole, and booted when nothing speaks against it.
	SlotGood
	// SlotTrial is whole, and is booted once or a few times to prove itself.
	SlotTrial
	// SlotFailed is whole, and its trial ended without a commit.
	SlotFailed
	// SlotStaged is whole, and nothing boots it before Try.
	SlotStaged
)

// String returns the state as the API has it.
func (s SlotState) String() string {
	switch s {
	case SlotGood:
		return "good"
	case SlotTrial:
		return "trial"
	case SlotFailed:
		return "failed"
	case SlotStaged:
		return "staged"
	}
	return "empty"
}

// Slot is one of the two places for a system.
type Slot struct {
	Name    string // "A" or "B"
	Version string // of machined; empty if the slot has none
	State   SlotState
	// Tries is how many boots a trial has left; 0 when it is on none.
	Tries int
}

// BootState is what the boot partition says of the boots to come.
type BootState struct {
	Slots [2]Slot // A and B
	// Default is the slot that boots unless a trial is under way.
	Default string
	// Trial is the slot that the next boot tries; empty for none.
	Trial string
	// Pinned is what the user has set for the loader to boot instead of what
	// machined chose; empty for nothing.
	Pinned string
	// Problem is what is wrong with the loader's files, and what to do; empty
	// for nothing. That another slot runs than the default, without a trial, is
	// one: so it is between a rollback and the restart, too.
	Problem string
}

// SlotFile is a file of a slot.
type SlotFile struct {
	Path   string // relative to the slot, such as overlays/README
	Size   int64  // bytes
	SHA256 [32]byte
}

// SlotContent is what a slot is to hold.
type SlotContent struct {
	Version string
	Board   string
	// Arguments are the kernel's, without the marker of the slot, which the
	// bootloader adds: machined.slot=A.
	Arguments string
	Files     []SlotFile
}

// Bootloader decides which slot boots. Its methods take as long as a slow card,
// and only one runs at a time: see Jobs. running is the slot that runs, as the
// firmware's command line says; what it needs is never touched.
type Bootloader interface {
	// State reads what is there. It writes nothing.
	State(running string) (BootState, error)
	// Recover finishes or takes back what a power cut left half done. It is
	// called once a boot, and writes only when there is something.
	Recover(running string) error
	// Stage empties the other slot, having made sure that it is not booted any
	// more, and returns a writer for its new content. ErrNoSpace and ErrInvalid
	// leave all as it was: content that cannot be staged, or a running slot that
	// is no fallback since it is on trial or not the default.
	Stage(running string, content SlotContent) (SlotWriter, error)
	// Try makes the next boot try slot, which was staged, and returns the
	// argument that Power.Restart needs for it. Until Commit, the other slot is
	// what any further boot falls back to, at the latest after Tries. ErrInvalid
	// for a slot that is not whole, for one that would not be tried since the
	// user has pinned another, and where Stage would refuse the running slot.
	Try(running, slot string) (restartArgument string, err error)
	// Commit makes slot, which runs, what boots from now on. ErrInvalid for one
	// that is not whole.
	Commit(slot string) error
	// Abandon ends the trial of slot: the other one boots from now on. It is
	// also how one goes back to a slot that is good (rollback). ErrInvalid if that
	// one is not whole.
	Abandon(running, slot string) error
}

// TrialProber is of a Bootloader whose trials rest on something that a firmware
// may ignore: it then boots the old slot, as if the new one had failed at once.
type TrialProber interface {
	// ProbeTrial asks the firmware for a trial of the running slot itself, and
	// returns the argument that Power.Restart needs for it. A firmware that makes
	// the trial gives the kernel TrialProbeMark.
	ProbeTrial(running string) (restartArgument string, err error)
	// FlipFirst has Try do without the firmware from now on.
	FlipFirst()
}

// TrialProbeMark is the kernel argument that only a trial asked for by ProbeTrial
// has.
const TrialProbeMark = "machined.probe=1"

// SlotWriter writes the files of a slot, one after the other.
type SlotWriter interface {
	// Create begins the next file of the content.
	Create(path string) (BootWriter, error)
	// Finish flushes all, reads it back from the disk, compares it with the
	// content's hashes, and marks the slot whole. Nothing boots it before Try.
	Finish() error
	// Abort leaves the slot empty.
	Abort() error
}
