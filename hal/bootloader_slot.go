package hal

import (
	"errors"
	"strings"
)

// ReadSlot returns the manifest of a slot. why says what keeps the slot from
// being whole; it is empty when every file is there with its size. What the
// files hold was compared when they were written, and is not again.
func ReadSlot(files BootFiles, slot string) (m SlotManifest, why string, err error) {
	text, err := files.Read(slot + "/" + SlotManifestName)
	switch {
	case errors.Is(err, ErrNotFound):
		return SlotManifest{}, "it has no " + SlotManifestName, nil
	case errors.Is(err, ErrInvalid):
		return SlotManifest{}, "its " + SlotManifestName + " is too large", nil
	case err != nil:
		return SlotManifest{}, "", WrapBoot("read the manifest of slot "+slot, err)
	}
	if m, err = ParseSlotManifest(text); err != nil {
		return SlotManifest{}, "its " + SlotManifestName + " is damaged", nil
	}
	there, err := listSlot(files, slot, "", nil)
	if err != nil {
		return SlotManifest{}, "", err
	}
	for _, want := range m.Files {
		size, ok := sizeOf(there, want.Path)
		switch {
		case !ok:
			return m, want.Path + " is missing", nil
		case size != want.Size:
			return m, want.Path + " has another size than its manifest says", nil
		}
	}
	return m, "", nil
}

// listSlot appends all files below dir of a slot.
func listSlot(files BootFiles, slot, dir string, to []SlotFile) ([]SlotFile, error) {
	entries, err := files.List(strings.TrimSuffix(slot+"/"+dir, "/"))
	if errors.Is(err, ErrNotFound) {
		return to, nil
	}
	if err != nil {
		return nil, WrapBoot("list "+slot+"/"+dir, err)
	}
	for _, e := range entries {
		if !e.Dir {
			to = append(to, SlotFile{Path: dir + e.Name, Size: e.Size})
			continue
		}
		if to, err = listSlot(files, slot, dir+e.Name+"/", to); err != nil {
			return nil, err
		}
	}
	return to, nil
}

// sizeOf finds a file as FAT does: whatever the case of its letters.
func sizeOf(list []SlotFile, path string) (int64, bool) {
	for _, f := range list {
		if strings.EqualFold(f.Path, path) {
			return f.Size, true
		}
	}
	return 0, false
}

// Holds reports whether the manifest lists a file, whatever the case of its
// letters.
func (m SlotManifest) Holds(path string) bool {
	_, ok := sizeOf(m.Files, path)
	return ok
}

// EmptySlot removes a slot: its marker first, so that at no instant a slot that
// is not whole seems so. The marker is spoilt before, since the next one may get
// its clusters, and with a power cut its content.
func EmptySlot(files BootFiles, slot string) error {
	marker := slot + "/" + SlotManifestName
	err := files.Overwrite(marker, 0, []byte("-"))
	if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrInvalid) {
		return WrapBoot("remove the marker of slot "+slot, err)
	}
	if err := files.Remove(marker); err != nil {
		return WrapBoot("remove the marker of slot "+slot, err)
	}
	return WrapBoot("empty slot "+slot, files.Remove(slot))
}

// markSlot makes a slot whole. The manifest has several sectors, of which a cut
// may leave some: it is written spoilt, and one byte makes it valid once all of
// it is on the disk.
func markSlot(files BootFiles, slot string, m SlotManifest) error {
	marker, text := slot+"/"+SlotManifestName, m.String()
	if err := PutBootFile(files, marker, "-"+text[1:]); err != nil {
		return err
	}
	if err := files.Overwrite(marker, 0, []byte(text[:1])); err != nil {
		return WrapBoot("mark slot "+slot+" as whole", err)
	}
	return CompareBootFile(files, marker, text)
}

// PutBootFile writes a small file, and reads it back from the disk. A power cut
// leaves nothing, a part, or all of it: nothing may rest on it before.
func PutBootFile(files BootFiles, path, text string) error {
	doing := "write " + path
	w, err := files.Create(path, int64(len(text)))
	if err != nil {
		return WrapBoot(doing, err)
	}
	_, err = w.Write([]byte(text))
	if err = errors.Join(err, w.Close()); err != nil {
		return WrapBoot(doing, err)
	}
	if err := files.Flush(); err != nil {
		return WrapBoot(doing, err)
	}
	return CompareBootFile(files, path, text)
}

// ErrReadBack says that a file is on the disk otherwise than it was written.
const ErrReadBack Error = "what the disk has is not what was written; the card or disk may be failing"

// CompareBootFile compares a small file with text, as the disk has it.
func CompareBootFile(files BootFiles, path, text string) error {
	doing := "read back " + path
	// For its dropping of what is in memory: the next read is from the disk.
	if _, err := files.Hash(path); err != nil {
		return WrapBoot(doing, err)
	}
	got, err := files.Read(path)
	if err != nil {
		return WrapBoot(doing, err)
	}
	if string(got) != text {
		return WrapBoot(doing, ErrReadBack)
	}
	return nil
}
