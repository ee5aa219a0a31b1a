package registry

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
)

// TestAnswers: who is asked about is not yet a board.
func TestAnswers(t *testing.T) {
	for unknown, want := range map[Decision]bool{Accept: true, Hold: true, Ignore: false, Undecided: true} {
		l := newLab(t, unknown)
		l.Neighbour = func(netip.Addr) string { return mac }
		if got := l.Answers(address); got != want {
			t.Errorf("Answers() = %v where unknown boards are to be %q; want %v", got, unknown, want)
		}
		if list, _, _ := l.Boards(0); len(list) != 0 {
			t.Errorf("the boards are %+v; want none", list)
		}
		l.own[mac] = true
		if !l.Answers(address) {
			t.Errorf("a board with a config of its own gets nothing where unknown boards are to be %q", unknown)
		}
		l.Ask(Facts{MAC: mac, Address: address})
		if err := l.Decide(l.board().ID, Ignore); err != nil {
			t.Fatal(err)
		}
		if l.Answers(address) {
			t.Error("a board that a person ignores gets files")
		}
	}
}

// TestAcceptedAgain: a board that has installed itself, and is accepted once more,
// boots by the network also with the server's next life.
func TestAcceptedAgain(t *testing.T) {
	l := newLab(t, Accept)
	_, session, err := l.Enroll(Enrolment{Token: l.ask(), Nonce: "n"})
	if err == nil {
		_, err = l.Told(session, Status{Phase: "installed", Percent: 100})
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Decide(l.board().ID, Accept); err != nil {
		t.Fatal(err)
	}
	l.restart(Accept)
	if _, answered := l.Ask(Facts{MAC: mac, Address: address}); !answered {
		t.Error("the board is not answered after a restart; want it netbooted again")
	}
}

// TestAddressOfNode: firmware and kernel may have got an address each.
func TestAddressOfNode(t *testing.T) {
	l := newLab(t, Accept)
	token, later := l.ask(), netip.MustParseAddr("10.0.0.77")
	if _, _, err := l.Enroll(Enrolment{Token: token, Nonce: "n", Facts: Facts{Address: later}}); err != nil {
		t.Fatal(err)
	}
	if b, ok := l.At(later); !ok || b.Address != later.String() || b.MAC != mac {
		t.Errorf("the board is %+v, %v; want it at the address that it enrolled from", b, ok)
	}
}

// TestLog has a line for each step that only the registry knows, however often a
// board asks.
func TestLog(t *testing.T) {
	var log bytes.Buffer
	l := newLab(t, Hold)
	l.Log = slog.New(slog.NewTextHandler(&log, nil))
	token := l.ask()
	l.Loaded(address)
	for range 3 {
		_, _, _ = l.Enroll(Enrolment{Token: token, Nonce: "n"})
		l.Fail(l.board().ID, "no config")
	}
	_, _, _ = l.Enroll(Enrolment{Token: token, Nonce: "another"})
	_, _, _ = l.Enroll(Enrolment{Token: "none", Nonce: "n"})
	if err := l.Decide(l.board().ID, Accept); err != nil {
		t.Fatal(err)
	}
	_, session, err := l.Enroll(Enrolment{Token: token, Nonce: "n"})
	if err != nil {
		t.Fatal(err)
	}
	l.Given(l.board().ID, "default.yaml")
	for range 2 {
		if _, err := l.Told(session, Status{Phase: "ready"}); err != nil {
			t.Fatal(err)
		}
	}
	for want, times := range map[string]int{
		`msg="board seen"`: 1, `msg="board has all that it boots"`: 1, `msg="board held"`: 1, `msg="board fails"`: 1, `msg="enrolment refused"`: 2,
		`msg="board decided"`: 1, `msg="board config"`: 1, `msg="board ready"`: 1,
	} {
		if got := strings.Count(log.String(), want); got != times {
			t.Errorf("the log has %s %d times; want %d:\n%s", want, got, times, log.String())
		}
	}
	if strings.Contains(log.String(), token) || strings.Contains(log.String(), session) {
		t.Error("the log has a secret")
	}
}
