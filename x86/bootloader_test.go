package x86

import (
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"testing"

	"machined/hal"
	"machined/hal/fake"
)

// esp has both slots whole, with the entries of a new image, changed by pairs: a
// path and a text, "-" to remove it.
func esp(changes ...string) *fake.BootFiles {
	b := &fake.BootFiles{Sum: func(data []byte) [32]byte { return sha256.Sum256(data) }}
	for i, slot := range []string{"A", "B"} {
		m := hal.SlotManifest{Version: "v1", Board: "x86_64-uefi"}
		for _, path := range []string{KernelFile, InitramfsFile} {
			b.Put(slot+"/"+path, []byte(path))
			m.Files = append(m.Files, hal.SlotFile{Path: path, Size: int64(len(path)), SHA256: sha256.Sum256([]byte(path))})
		}
		b.Put(slot+"/"+hal.CommandLineName, []byte("quiet machined.slot="+slot+"\n"))
		b.Put(slot+"/"+hal.SlotManifestName, []byte(m.String()))
		b.Put(Entries+"/"+SlotEntry(slot).String(), []byte(Entry(slot, 1-i, "v1", "quiet machined.slot="+slot)))
	}
	b.Put(LoaderFile, []byte("timeout 0\ndefault "+DefaultPattern+"\n"))
	b.Put(Entries+"/windows.conf", []byte("efi /EFI/Microsoft/bootmgfw.efi\n"))
	for i := 0; i < len(changes); i += 2 {
		if changes[i+1] != "-" {
			b.Put(changes[i], []byte(changes[i+1]))
			continue
		}
		b.Unlocked = true
		if err := b.Remove(changes[i]); err != nil {
			panic(err)
		}
		b.Unlocked = false
		b.Settle()
	}
	return b
}

// entriesOf lists the files in loader/entries, disabled ones with a #.
func entriesOf(t *testing.T, b *fake.BootFiles) string {
	t.Helper()
	list, err := b.List(Entries)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range list {
		text, err := b.Read(Entries + "/" + f.Name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(text), "#") {
			f.Name = "#" + f.Name
		}
		names = append(names, f.Name)
	}
	return strings.Join(names, " ")
}

const (
	aConf = Entries + "/machined-a.conf"
	bConf = Entries + "/machined-b.conf"
)

func trialOf(generation int) string {
	return Entry("B", generation, "v2", "quiet machined.slot=B")
}

func TestEntriesOfATrial(t *testing.T) {
	b := esp()
	l := &Bootloader{Files: b, Tries: 5}
	step := func(what string, err error, want string) {
		t.Helper()
		if got := entriesOf(t, b); err != nil || got != want || b.Unlocked {
			t.Fatalf("%s = %v, and the entries are %s; want %s, and the partition locked", what, err, got, want)
		}
	}
	argument, err := l.Try("A", "B")
	step("Try", err, "machined-a.conf machined-b+5.conf windows.conf")
	if argument != "" {
		t.Errorf("Try wants the argument %q; want none", argument)
	}
	text, _ := b.Read(Entries + "/machined-b+5.conf")
	if want := Entry("B", 2, "v1", "quiet machined.slot=B"); string(text) != want {
		t.Errorf("the entry is %q; want %q", text, want)
	}
	step("Abandon", l.Abandon("A", "B"), "machined-a.conf #machined-b+5.conf windows.conf")
	_, err = l.Try("A", "B")
	step("Try again", err, "machined-a.conf machined-b+5.conf windows.conf")
	step("Commit", l.Commit("B"), "machined-a.conf machined-b.conf windows.conf")
	step("Abandon of a slot that is good", l.Abandon("B", "B"), "machined-a.conf machined-b.conf windows.conf")
	if st, err := l.State("A"); err != nil || st.Default != "A" {
		t.Errorf("State after the rollback = %+v, %v; want A to be the default", st, err)
	}
}

func TestRecover(t *testing.T) {
	trial, disabled := trialOf(2), "#"+trialOf(2)[1:]
	for _, c := range []struct {
		name    string
		running string
		changes []string
		want    string
	}{
		{"nothing to do", "A", nil, "machined-a.conf machined-b.conf windows.conf"},
		{"a trial is under way", "B", []string{bConf, "-", Entries + "/machined-b+2-1.conf", trial}, "machined-a.conf machined-b+2-1.conf windows.conf"},
		{"both, of a commit that is done", "B", []string{bConf, trial, Entries + "/machined-b+2-1.conf", trial}, "machined-a.conf machined-b.conf windows.conf"},
		{"both, of a commit that is not", "B", []string{bConf, disabled, Entries + "/machined-b+2-1.conf", trial}, "machined-a.conf machined-b+2-1.conf windows.conf"},
		{"both, of a commit with a damaged entry", "B", []string{bConf, "\xe5\xe5", Entries + "/machined-b+2-1.conf", trial}, "machined-a.conf machined-b+2-1.conf windows.conf"},
		{"a trial that has failed", "A", []string{bConf, "-", Entries + "/machined-b+0-3.conf", trial}, "machined-a.conf machined-b+0-3.conf windows.conf"},
		{"an abandoned trial", "A", []string{bConf, "-", Entries + "/machined-b+2-1.conf", disabled}, "machined-a.conf #machined-b+2-1.conf windows.conf"},
		{"a trial that was being made", "A", []string{bConf, "-", Entries + "/machined-b+3.conf", ""}, "machined-a.conf windows.conf"},
		{"a trial of a slot that is not whole", "A", []string{bConf, "-", Entries + "/machined-b+3.conf", trial, "B/linux.efi", "-"}, "machined-a.conf #machined-b+3.conf windows.conf"},
		{"an entry that the user has changed", "A", []string{aConf, "linux /A/linux.efi\noptions mine\n"}, "machined-a.conf machined-b.conf windows.conf"},
	} {
		b := esp(c.changes...)
		err := (&Bootloader{Files: b}).Recover(c.running)
		if got := entriesOf(t, b); err != nil || got != c.want {
			t.Errorf("%s: Recover = %v, and the entries are %s; want %s", c.name, err, got, c.want)
		}
	}
}

func TestState(t *testing.T) {
	trial, disabled := trialOf(2), "#"+trialOf(2)[1:]
	for _, c := range []struct {
		name    string
		running string
		changes []string
		state   hal.SlotState // of B
		tries   int
		trial   string
		problem string // a part of it
	}{
		{"a new image", "A", nil, hal.SlotGood, 0, "", ""},
		{"no entry", "A", []string{bConf, "-"}, hal.SlotStaged, 0, "", ""},
		{"a trial", "A", []string{bConf, "-", Entries + "/machined-b+3.conf", trial}, hal.SlotTrial, 3, "B", ""},
		{"a trial that sorts last", "A", []string{bConf, "-", Entries + "/machined-b+3.conf", trialOf(0)}, hal.SlotTrial, 3, "", ""},
		{"the loader's rename, cut off", "B", []string{bConf, "-", Entries + "/machined-b+3.conf", trial, Entries + "/machined-b+2-1.conf", trial}, hal.SlotTrial, 3, "B", ""},
		{"in the last try", "B", []string{bConf, "-", Entries + "/machined-b+0-3.conf", trial}, hal.SlotTrial, 0, "", ""},
		{"no tries left", "A", []string{bConf, "-", Entries + "/machined-b+0-3.conf", trial}, hal.SlotFailed, 0, "", ""},
		{"abandoned", "A", []string{bConf, "-", Entries + "/machined-b+2-1.conf", disabled}, hal.SlotFailed, 0, "", ""},
		{"a file is missing", "A", []string{"B/linux.efi", "-"}, hal.SlotEmpty, 0, "", ""},
		{"the first entry's slot is not whole", "A", []string{"B/linux.efi", "-", bConf, trial}, hal.SlotEmpty, 0, "", "slot B is not whole"},
		{"the trial's entry was lost", "B", []string{bConf, "-"}, hal.SlotTrial, 0, "", "slot B runs though slot A"},
		{"another runs", "B", nil, hal.SlotGood, 0, "", "slot B runs though slot A"},
		{"an entry is damaged", "A", []string{Entries + "/machined-b+3.conf", "x"}, hal.SlotGood, 0, "", "machined-b+3.conf is damaged"},
		{"no good entry", "A", []string{aConf, "-", bConf, "-"}, hal.SlotStaged, 0, "", "no slot has an entry"},
	} {
		b := esp(c.changes...)
		st, err := (&Bootloader{Files: b}).State(c.running)
		s := st.Slots[1]
		if err != nil || s.State != c.state || s.Tries != c.tries || st.Trial != c.trial || !strings.Contains(st.Problem, c.problem) || (c.problem == "") != (st.Problem == "") {
			t.Errorf("%s: State = %+v, %v; want B %v with %d tries, trial %q, problem %q", c.name, st, err, c.state, c.tries, c.trial, c.problem)
		}
	}
}

// TestPinned has what the user set for the loader reported, and no trial that
// would never be booted.
func TestPinned(t *testing.T) {
	for _, c := range []struct{ loader, variable, want string }{
		{"default machined-*\n", "", ""},
		{"default MACHINED-*\n", "", ""},
		{"timeout 3\n", "", ""},
		{"-", "", ""},
		{"default machined-a.conf\n", "", "machined-a.conf"},
		{"default @saved\n", "", "@saved"},
		{"default windows.conf\n", "", "windows.conf"},
		{"default machined-*\n", "windows.conf", "windows.conf"},
	} {
		b := esp(LoaderFile, c.loader)
		l := &Bootloader{Files: b, Pin: func() string { return c.variable }}
		st, err := l.State("A")
		if err != nil || st.Pinned != c.want {
			t.Errorf("with %q and the variable %q, State has %q pinned, %v; want %q", c.loader, c.variable, st.Pinned, err, c.want)
		}
		before := b.Paths()
		if _, err := l.Try("A", "B"); (c.want == "") != (err == nil) || err != nil && (!errors.Is(err, hal.ErrInvalid) || !slices.Equal(b.Paths(), before)) {
			t.Errorf("with %q pinned, Try = %v, and there are %q", c.want, err, b.Paths())
		}
		if text, _ := b.Read(LoaderFile); c.loader != "-" && string(text) != c.loader {
			t.Errorf("loader.conf is %q; want it untouched", text)
		}
	}
}

// TestFallBackIsKept refuses to touch the other slot while the running one has
// no good entry.
func TestFallBackIsKept(t *testing.T) {
	b := esp(aConf, "-", Entries+"/machined-a+2-1.conf", Entry("A", 3, "v1", "quiet machined.slot=A"))
	l := &Bootloader{Files: b}
	content := hal.SlotContent{Version: "v2", Board: "b", Arguments: "quiet", Files: []hal.SlotFile{{Path: KernelFile}, {Path: InitramfsFile}}}
	before := b.Paths()
	if _, err := l.Stage("A", content); !errors.Is(err, hal.ErrInvalid) || !strings.Contains(err.Error(), "commit it first") {
		t.Errorf("Stage in a trial = %v; want it refused, and what to do", err)
	}
	if _, err := l.Try("A", "B"); !errors.Is(err, hal.ErrInvalid) {
		t.Errorf("Try in a trial = %v; want it refused", err)
	}
	if !slices.Equal(b.Paths(), before) {
		t.Errorf("there are %q; want all as it was", b.Paths())
	}
	content.Files = content.Files[1:]
	if err := l.Commit("A"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Stage("A", content); !errors.Is(err, hal.ErrInvalid) {
		t.Errorf("Stage without a kernel = %v; want it refused", err)
	}
}
