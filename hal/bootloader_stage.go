package hal

import (
	"errors"
	"strconv"
	"strings"
)

// CommandLineName is the file of a slot with the kernel's arguments.
const CommandLineName = "cmdline.txt"

// spaceMargin is what each file may take beyond its size: the rest of its last
// cluster, and its share of directories. Bytes.
const spaceMargin = 64 << 10

// SlotStage is the SlotWriter of every bootloader: nothing but the last step of
// Finish makes the slot whole.
type SlotStage struct {
	files   BootFiles
	slot    string
	content SlotContent
	written []bool // by index of content.Files
	open    *stagedFile
	ended   bool
}

// CheckSlotContent refuses content that cannot be staged in slot, before
// anything is touched: ErrInvalid, ErrNoSpace. reserved are names that the
// bootloader keeps for itself in a slot.
func CheckSlotContent(files BootFiles, slot string, content SlotContent, reserved ...string) error {
	doing := "stage " + strconv.Quote(content.Version) + " in slot " + slot
	if why := content.wrong(append(reserved, SlotManifestName, CommandLineName)); why != "" {
		return &BootError{Doing: doing, Why: why, Err: ErrInvalid}
	}
	return WrapBoot(doing, checkSpace(files, slot, content))
}

// NewSlotStage empties slot and returns a writer for its new content, which was
// checked. The caller has made sure that nothing boots the slot, and has
// unlocked files, which the writer locks.
func NewSlotStage(files BootFiles, slot string, content SlotContent) (*SlotStage, error) {
	if err := EmptySlot(files, slot); err != nil {
		return nil, err
	}
	return &SlotStage{files: files, slot: slot, content: content, written: make([]bool, len(content.Files))}, nil
}

// wrong says what is wrong with the content; empty for nothing.
func (c SlotContent) wrong(reserved []string) string {
	switch {
	case c.Version == "" || !plain(c.Version):
		return "the version is empty or has characters that a manifest cannot hold"
	case c.Board == "" || !plain(c.Board):
		return "the board is empty or has characters that a manifest cannot hold"
	case c.Arguments == "" || !plain(c.Arguments):
		return "the kernel's arguments are empty or not one line of plain text"
	case strings.Contains(" "+c.Arguments, " machined.slot="):
		return "the kernel's arguments name a slot already; leave machined.slot= out"
	case len(c.Files) == 0:
		return "it has no files"
	}
	for i, f := range c.Files {
		if f.Size < 0 || !validSlotPath(f.Path) {
			return "the file " + strconv.Quote(f.Path) + " has a path or a size that a slot cannot hold"
		}
		for _, name := range reserved {
			if strings.EqualFold(f.Path, name) {
				return f.Path + " is written by the node itself; leave it out"
			}
		}
		if _, twice := sizeOf(c.Files[:i], f.Path); twice {
			return f.Path + " is there twice"
		}
	}
	return ""
}

// checkSpace looks before anything is removed. What the slot holds now will be.
func checkSpace(files BootFiles, slot string, content SlotContent) error {
	free, err := files.Free()
	if err != nil {
		return err
	}
	old, err := listSlot(files, slot, "", nil)
	if err != nil {
		return err
	}
	for _, f := range old {
		free += f.Size
	}
	need := int64(spaceMargin)
	for _, f := range content.Files {
		if f.Size > free {
			need = f.Size // and no sum that overflows
			break
		}
		need += f.Size + spaceMargin
	}
	if need > free {
		return &BootError{
			Doing: "look for room", Err: ErrNoSpace,
			Why: "it takes " + strconv.FormatInt(need, 10) + " bytes and " + strconv.FormatInt(free, 10) + " are free; remove files of yours from the boot partition",
		}
	}
	return nil
}

// Create implements SlotWriter. The files may come in any order.
func (s *SlotStage) Create(path string) (BootWriter, error) {
	doing := "write " + s.slot + "/" + path
	if s.ended || s.open != nil {
		return nil, &BootError{Doing: doing, Why: "the slot is finished, or its last file is not closed", Err: ErrInvalid}
	}
	for i, f := range s.content.Files {
		if f.Path != path || s.written[i] {
			continue
		}
		w, err := s.files.Create(s.slot+"/"+path, f.Size)
		if err != nil {
			return nil, WrapBoot(doing, err)
		}
		s.written[i] = true
		s.open = &stagedFile{stage: s, to: w, doing: doing, index: i, left: f.Size}
		return s.open, nil
	}
	return nil, &BootError{Doing: doing, Why: "the content does not list the file, or it was written before", Err: ErrInvalid}
}

// stagedFile keeps a file to its size.
type stagedFile struct {
	stage *SlotStage
	to    BootWriter
	doing string
	index int   // of the content
	left  int64 // bytes
}

// Write implements BootWriter.
func (f *stagedFile) Write(data []byte) (int, error) {
	if f.stage.open != f || int64(len(data)) > f.left {
		return 0, &BootError{Doing: f.doing, Why: "it is longer than the content says, or closed", Err: ErrInvalid}
	}
	n, err := f.to.Write(data)
	f.left -= int64(n)
	return n, WrapBoot(f.doing, err)
}

// Close implements BootWriter. After an error the file may be created again.
func (f *stagedFile) Close() error {
	if f.stage.open != f {
		return &BootError{Doing: f.doing, Why: "it is closed already", Err: ErrInvalid}
	}
	f.stage.open = nil
	err := WrapBoot(f.doing, f.to.Close())
	if err == nil && f.left != 0 {
		err = &BootError{Doing: f.doing, Why: strconv.FormatInt(f.left, 10) + " bytes of it are missing", Err: ErrInvalid}
	}
	f.stage.written[f.index] = err == nil
	return err
}

// Finish implements SlotWriter. After an error the slot is empty.
func (s *SlotStage) Finish() error {
	if s.ended {
		return &BootError{Doing: "finish slot " + s.slot, Why: "it is finished or aborted already", Err: ErrInvalid}
	}
	if err := s.finish(); err != nil {
		return errors.Join(err, s.Abort())
	}
	s.ended = true
	return WrapBoot("make the boot partition read-only", s.files.Lock())
}

func (s *SlotStage) finish() error {
	for i, f := range s.content.Files {
		if !s.written[i] || s.open != nil {
			return &BootError{Doing: "finish slot " + s.slot, Why: f.Path + " or a file after it is missing or not closed", Err: ErrInvalid}
		}
	}
	line := s.content.Arguments + " machined.slot=" + s.slot + "\n"
	if err := PutBootFile(s.files, s.slot+"/"+CommandLineName, line); err != nil {
		return err
	}
	if err := s.files.Flush(); err != nil {
		return WrapBoot("flush slot "+s.slot, err)
	}
	for _, f := range s.content.Files {
		doing := "read back " + s.slot + "/" + f.Path
		sum, err := s.files.Hash(s.slot + "/" + f.Path)
		if err != nil {
			return WrapBoot(doing, err)
		}
		if sum != f.SHA256 {
			return &BootError{Doing: doing, Why: "its SHA-256 is " + hexadecimal(sum) + ", want " + hexadecimal(f.SHA256), Err: ErrReadBack}
		}
	}
	sum, err := s.files.Hash(s.slot + "/" + CommandLineName)
	if err != nil {
		return WrapBoot("read back "+s.slot+"/"+CommandLineName, err)
	}
	m := SlotManifest{Version: s.content.Version, Board: s.content.Board}
	m.Files = append(append(m.Files, s.content.Files...), SlotFile{Path: CommandLineName, Size: int64(len(line)), SHA256: sum})
	return markSlot(s.files, s.slot, m)
}

// Abort implements SlotWriter.
func (s *SlotStage) Abort() error {
	if s.ended {
		return nil
	}
	s.ended = true
	var closed error
	if s.open != nil {
		closed = s.open.to.Close()
		s.open = nil
	}
	err := EmptySlot(s.files, s.slot)
	return errors.Join(closed, err, WrapBoot("make the boot partition read-only", s.files.Lock()))
}

var _ SlotWriter = (*SlotStage)(nil)
