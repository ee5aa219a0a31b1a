package scenario

import (
	"testing"
)

// node is a new image in memory.
func node(b Backend, note func(Moment) error) *Node {
	files := Memory(b.Tree())
	return &Node{Backend: b, Files: files, Boot: View{files}, Note: note}
}

func TestScenarios(t *testing.T) {
	ends := map[string]string{"commit": "B", "fail": "A", "abandon": "A", "again": "B", "rollback": "A"}
	for _, b := range Backends() {
		for _, s := range Scenarios() {
			t.Run(b.Name+"/"+s.Name, func(t *testing.T) {
				var last Moment
				flagged, judged := 0, 0
				n := node(b, func(m Moment) error {
					if last.Judged && !m.Judged {
						t.Errorf("%s is not judged after %s was", m.After, last.After)
					}
					if last = m; m.Judged {
						judged++
					}
					if m.Flagged != "" {
						flagged++
					}
					return nil
				})
				if err := n.Run(s); err != nil {
					t.Fatal(err)
				}
				if last.Boots != ends[s.Name] || judged < 3 {
					t.Errorf("after %d moments, slot %s boots; want slot %s after 3 and more", judged, last.Boots, ends[s.Name])
				}
				if (flagged > 0) != (b.Name == "rpi") {
					t.Errorf("the flag of a trial is set at %d moments", flagged)
				}
				if err := n.Begin("a cut"); err != nil || last.After != "a cut" || !last.Judged {
					t.Errorf("Begin = %v and notes %+v", err, last)
				}
				if err := n.Upgrade("v9"); err != nil {
					t.Errorf("an upgrade after it: %v", err)
				}
			})
		}
	}
}

// TestUpgradeRefuses has damage that an upgrade must not pass over.
func TestUpgradeRefuses(t *testing.T) {
	for _, b := range Backends() {
		tree := b.Tree()
		tree["B/system.squashfs"][0] ^= 1 // of the same size: the slot seems whole
		files := Memory(tree)
		n := &Node{Backend: b, Files: files, Boot: View{files}}
		if err := n.Upgrade("v9"); err == nil {
			t.Errorf("%s: a slot that is said to be whole and is not passes", b.Name)
		}
	}
}

func TestSerial(t *testing.T) {
	for _, b := range Backends() {
		for _, s := range Scenarios() {
			for _, mode := range []Mode{Real, NoFlush, NoOrder, Upgrade} {
				if mode != Real && s.Name != "commit" {
					continue
				}
				j := Job{Backend: b.Name, Name: s.Name, Mode: mode}
				got, err := ParseSerial(j.Serial() + "\n")
				if got != j || err != nil || len(j.Serial()) > 20 {
					t.Errorf("ParseSerial(%q) = %v, %v; want %v, and 20 characters at most", j.Serial(), got, err, j)
				}
			}
		}
	}
	if got, err := ParseSerial("QM0001"); err == nil {
		t.Errorf("ParseSerial of another disk's = %v; want an error", got)
	}
}

func TestMoment(t *testing.T) {
	m := Moment{After: "Stage of slot B", Boots: "A", Flagged: "B", Fallback: "A", Judged: true}
	sector, err := m.Encode()
	if err != nil || len(sector) != NoteBytes {
		t.Fatalf("Encode = %d bytes, %v; want %d", len(sector), err, NoteBytes)
	}
	if got, err := DecodeMoment(sector); got != m || err != nil {
		t.Errorf("DecodeMoment = %v, %v; want %v", got, err, m)
	}
	if got, err := DecodeMoment(make([]byte, NoteBytes)); err == nil {
		t.Errorf("DecodeMoment of zeros = %v; want an error", got)
	}
	if _, err := (Moment{After: string(make([]byte, NoteBytes))}).Encode(); err == nil {
		t.Error("a note of more than a sector is encoded")
	}
}
