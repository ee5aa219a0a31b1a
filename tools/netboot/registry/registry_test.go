package registry

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// lab is a registry with a clock of its own.
type lab struct {
	*Registry
	t    *testing.T
	file string
	now  time.Time
	own  map[string]bool // MACs with a config of their own
}

func newLab(t *testing.T, unknown Decision) *lab {
	l := &lab{t: t, file: filepath.Join(t.TempDir(), "boards.json"), now: time.Unix(1e9, 0), own: map[string]bool{}}
	l.restart(unknown)
	return l
}

// restart starts the server anew, with what the file has.
func (l *lab) restart(unknown Decision) {
	l.t.Helper()
	r, err := New(Options{File: l.file, Unknown: unknown, Now: func() time.Time { return l.now }, Known: func(b Board) bool { return l.own[b.MAC] }})
	if err != nil {
		l.t.Fatal(err)
	}
	l.Registry = r
}

const mac = "b8:27:eb:01:02:03"

var address = netip.MustParseAddr("10.0.0.9")

// ask is a board that wants to boot, has its address, and gets a token.
func (l *lab) ask() (token string) {
	l.t.Helper()
	if _, ok := l.Ask(Facts{MAC: mac, Name: "rpi-3a-plus", Address: address}); !ok {
		l.t.Fatal("the board is not answered")
	}
	token, err := l.Token(address)
	if err != nil {
		l.t.Fatal(err)
	}
	return token
}

func (l *lab) board() Board {
	l.t.Helper()
	list, _, _ := l.Boards(0)
	if len(list) != 1 {
		l.t.Fatalf("there are %d boards: %v; want one", len(list), list)
	}
	return list[0]
}

// TestBoot is the story of a boot, as the page tells it.
func TestBoot(t *testing.T) {
	l := newLab(t, Accept)
	token := l.ask()
	step := func(want Stage, percent int) {
		t.Helper()
		if b := l.board(); b.Stage != want || b.Percent != percent || b.ID != "b8-27-eb-01-02-03" {
			t.Fatalf("the board is %+v; want stage %s, %d %%", b, want, percent)
		}
	}
	step(Offered, 0)
	l.Transferred(Transfer{Address: address, File: "kernel8.img", Bytes: 0, Total: 1000})
	l.now = l.now.Add(2 * time.Second)
	l.Transferred(Transfer{Address: address, File: "kernel8.img", Bytes: 500, Total: 1000})
	step(Loading, 50)
	if b := l.board(); b.Speed != 250 {
		t.Errorf("the speed is %d bytes a second; want 250", b.Speed)
	}
	l.Loaded(address)
	step(Kernel, 100)
	_, session, err := l.Enroll(Enrolment{Token: token, Nonce: "n1", Version: "v1", Facts: Facts{Serial: "ab"}})
	if err != nil {
		t.Fatal(err)
	}
	l.Given("b8-27-eb-01-02-03", "default.yaml")
	step(Config, 100)
	for _, phase := range []Stage{API, Ready} {
		if _, err := l.Told(session, Status{Phase: string(phase), Percent: 100, Message: "up\x1b[2J"}); err != nil {
			t.Fatal(err)
		}
		step(phase, 100)
	}
	if b := l.board(); b.Message != "up[2J" || b.Version != "v1" || b.Serial != "ab" || b.Config != "default.yaml" {
		t.Errorf("the board is %+v; want what it told, without control characters", b)
	}
	if _, err := l.Told(session, Status{Phase: "made up"}); err == nil {
		t.Error("an unknown phase was taken")
	}
	l.ask()
	if b := l.board(); b.Stage != Offered || b.Boots != 1 {
		t.Errorf("at its next boot the board is %+v; want it offered, and counted", b)
	}
}

// TestToken: it is for the node that comes first, also over a restart of the server,
// and not for ever.
func TestToken(t *testing.T) {
	l := newLab(t, Accept)
	token := l.ask()
	if again, err := l.Token(address); err != nil || again != token {
		t.Errorf("the second file of a boot has the token %q, %v; want the same", again, err)
	}
	l.restart(Accept) // the power of the server went
	enroll := func(token, nonce string) error {
		_, _, err := l.Enroll(Enrolment{Token: token, Nonce: nonce})
		return err
	}
	for _, c := range []struct {
		what, token, nonce string
		want               error
	}{
		{"no token", "", "n1", ErrToken},
		{"a wrong token", strings.Repeat("0", 64), "n1", ErrToken},
		{"no nonce", token, "", ErrToken},
		{"the node", token, "n1", nil},
		{"the node that was not heard", token, "n1", nil},
		{"another node", token, "n2", ErrUsed},
	} {
		if err := enroll(c.token, c.nonce); !errors.Is(err, c.want) {
			t.Errorf("%s: Enroll = %v; want %v", c.what, err, c.want)
		}
	}
	l.restart(Accept)
	if err := enroll(token, "n2"); !errors.Is(err, ErrUsed) {
		t.Errorf("after a restart another node has Enroll = %v; want %v", err, ErrUsed)
	}
	next, err := l.Token(address)
	if err != nil || next == token {
		t.Errorf("the token of the next boot is %q, %v; want another", next, err)
	}
	l.now = l.now.Add(tokenLife + time.Second)
	if err := enroll(next, "n3"); !errors.Is(err, ErrToken) {
		t.Errorf("an old token has Enroll = %v; want %v", err, ErrToken)
	}
}

// TestSessions: a retry gets the session that it had, and the next boot another.
func TestSessions(t *testing.T) {
	l := newLab(t, Accept)
	token := l.ask()
	_, first, err := l.Enroll(Enrolment{Token: token, Nonce: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, again, err := l.Enroll(Enrolment{Token: token, Nonce: "n1"}); err != nil || again != first {
		t.Errorf("the retry has another session, %v", err)
	}
	l.restart(Accept)
	if _, err := l.Session(first); err != nil {
		t.Errorf("after a restart the session is %v", err)
	}
	_, second, err := l.Enroll(Enrolment{Token: l.ask(), Nonce: "n2"})
	if err != nil || second == first {
		t.Errorf("the next boot has the same session, %v", err)
	}
	if _, err := l.Session(first); !errors.Is(err, ErrToken) {
		t.Errorf("the session of the boot before is %v; want %v", err, ErrToken)
	}
	if _, err := l.Session(""); !errors.Is(err, ErrToken) {
		t.Errorf("no session is %v; want %v", err, ErrToken)
	}
}

// TestDecisions: what the policy is, what a config of its own is worth, and what a
// person says.
func TestDecisions(t *testing.T) {
	for _, c := range []struct {
		unknown, person Decision
		own             bool
		answered        bool
		want            error
	}{
		{Accept, Undecided, false, true, nil},
		{Hold, Undecided, false, true, ErrHeld},
		{Ignore, Undecided, false, false, nil},
		{Hold, Undecided, true, true, nil},
		{Ignore, Undecided, true, true, nil},
		{Hold, Accept, false, true, nil},
		{Ignore, Accept, false, true, nil},
		{Accept, Hold, true, true, ErrHeld},
		{Accept, Ignore, true, false, nil},
	} {
		l := newLab(t, c.unknown)
		l.own[mac] = c.own
		l.Ask(Facts{MAC: mac, Address: address})
		if c.person != Undecided {
			if err := l.Decide("b8-27-eb-01-02-03", c.person); err != nil {
				t.Fatal(err)
			}
			l.restart(c.unknown) // it is remembered
		}
		_, answered := l.Ask(Facts{MAC: mac, Address: address})
		if answered != c.answered {
			t.Errorf("%+v: answered %v", c, answered)
		}
		if !answered {
			continue
		}
		token, err := l.Token(address)
		if err != nil {
			t.Fatal(err)
		}
		if _, session, err := l.Enroll(Enrolment{Token: token, Nonce: "n"}); !errors.Is(err, c.want) || (session != "") != (err == nil) {
			t.Errorf("%+v: Enroll = %q, %v", c, session, err)
		}
	}
	if err := newLab(t, Accept).Decide("nobody", Accept); !errors.Is(err, ErrUnknown) {
		t.Errorf("a decision about nobody is %v; want %v", err, ErrUnknown)
	}
}

// TestHeldUntilAccepted: the node that waits gets its session once somebody says so.
func TestHeldUntilAccepted(t *testing.T) {
	l := newLab(t, Hold)
	n := Enrolment{Token: l.ask(), Nonce: "n"}
	if _, _, err := l.Enroll(n); !errors.Is(err, ErrHeld) || l.board().Stage != Held {
		t.Fatalf("Enroll = %v, stage %s; want it held", err, l.board().Stage)
	}
	if err := l.Decide(l.board().ID, Accept); err != nil {
		t.Fatal(err)
	}
	if _, session, err := l.Enroll(n); err != nil || session == "" {
		t.Errorf("Enroll of the accepted board = %q, %v", session, err)
	}
}

// TestInstalled: a board that has installed itself is left to its disk, until
// somebody wants it again.
func TestInstalled(t *testing.T) {
	l := newLab(t, Accept)
	_, session, err := l.Enroll(Enrolment{Token: l.ask(), Nonce: "n"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Told(session, Status{Phase: "installed"}); err != nil {
		t.Fatal(err)
	}
	l.restart(Accept)
	if b, ok := l.Ask(Facts{MAC: mac}); ok || b.Stage != Installed {
		t.Errorf("the board is answered: %v, stage %s; want it left to its disk", ok, b.Stage)
	}
	if err := l.Decide("b8-27-eb-01-02-03", Accept); err != nil {
		t.Fatal(err)
	}
	if _, ok := l.Ask(Facts{MAC: mac}); !ok {
		t.Error("the board is not answered though it was accepted anew")
	}
}

// TestRoom: boards that are made up push out neither those that were decided about
// nor the memory.
func TestRoom(t *testing.T) {
	l := newLab(t, Accept)
	l.Ask(Facts{MAC: mac})
	if err := l.Decide("b8-27-eb-01-02-03", Accept); err != nil {
		t.Fatal(err)
	}
	for i := range 2 * MaxBoards {
		l.now = l.now.Add(time.Second)
		l.Ask(Facts{MAC: fmt.Sprintf("02:00:00:00:%02x:%02x", i>>8, i&255), Address: netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})})
	}
	list, _, _ := l.Boards(0)
	if len(list) != MaxBoards || len(l.byAddr) > MaxBoards || list[MaxBoards-1].MAC != mac {
		t.Errorf("%d boards and %d addresses are kept, the last %s; want %d with the one that was decided about", len(list), len(l.byAddr), list[len(list)-1].MAC, MaxBoards)
	}
}

// TestNeighbour: where DHCP is another's, the kernel knows whose an address is.
func TestNeighbour(t *testing.T) {
	l := newLab(t, Accept)
	l.Neighbour = func(a netip.Addr) string {
		if a == address {
			return mac
		}
		return ""
	}
	l.Ask(Facts{MAC: mac})
	l.Transferred(Transfer{Address: address, File: "f", Total: 1})
	if b := l.board(); b.File != "f" {
		t.Errorf("the board is %+v; want the transfer to be its own", b)
	}
	// An address that goes to another board is that one's.
	l.Neighbour = func(netip.Addr) string { return "02:00:00:00:00:09" }
	l.Transferred(Transfer{Address: address, File: "g", Total: 1})
	if list, _, _ := l.Boards(0); len(list) != 2 || list[0].File != "g" {
		t.Errorf("the boards are %+v; want the second to load g", list)
	}
}

// TestConsoles: where a board's console is goes by what it is known by.
func TestConsoles(t *testing.T) {
	l := newLab(t, Accept)
	l.Consoles = map[string]string{"b8-27-eb-01-02-03": "telnet://10.0.0.5:2001", "b22faaeb": "telnet://10.0.0.5:2002"}
	for _, c := range []struct {
		facts Facts
		want  string
	}{
		{Facts{MAC: mac}, "telnet://10.0.0.5:2001"},
		{Facts{MAC: "02:00:00:00:00:01", Serial: "B22FAAEB"}, "telnet://10.0.0.5:2002"},
		{Facts{MAC: "02:00:00:00:00:02"}, ""},
	} {
		if b, _ := l.Ask(c.facts); b.Console != c.want {
			t.Errorf("the console of %+v is at %q; want %q", c.facts, b.Console, c.want)
		}
	}
}

// TestChanges: a viewer gets what has changed since it last looked.
func TestChanges(t *testing.T) {
	l := newLab(t, Accept)
	_, version, changed := l.Boards(0)
	l.Ask(Facts{MAC: mac})
	select {
	case <-changed:
	default:
		t.Fatal("nobody was told of a change")
	}
	list, version, _ := l.Boards(version)
	if len(list) != 1 {
		t.Fatalf("changed are %v; want the board", list)
	}
	l.Ask(Facts{MAC: "02:00:00:00:00:09"})
	if list, _, _ := l.Boards(version); len(list) != 1 || list[0].MAC == mac {
		t.Errorf("changed are %v; want the other board alone", list)
	}
}

// TestFile: it is its owner's alone, and what cannot be read is not passed over.
func TestFile(t *testing.T) {
	l := newLab(t, Accept)
	l.ask()
	info, err := os.Stat(l.file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v; want it its owner's alone", info, err)
	}
	if err := os.WriteFile(l.file, []byte(`[{"board"`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{File: l.file}); err == nil || !strings.Contains(err.Error(), "move it aside") {
		t.Errorf("New with a damaged file = %v; want an error that says what to do", err)
	}
	l.File = filepath.Join(t.TempDir(), "gone", "boards.json")
	if err := l.Decide("b8-27-eb-01-02-03", Ignore); err == nil || l.board().Decision != Undecided {
		t.Errorf("a decision that cannot be kept is %v, %q; want an error and none", err, l.board().Decision)
	}
}

func TestName(t *testing.T) {
	for in, want := range map[string]string{
		"B8:27:EB:01:02:03": "b8-27-eb-01-02-03", "../../etc": "etc", "a/b\x00c\n": "abc", "..": "", "é1": "1", "10.0.0.9": "10.0.0.9",
	} {
		if got := Name(in); got != strings.ReplaceAll(want, "/", "") {
			t.Errorf("Name(%q) = %q; want %q", in, got, want)
		}
	}
}

func FuzzName(f *testing.F) {
	f.Add("../x")
	f.Fuzz(func(t *testing.T, s string) {
		if got := Name(s); strings.ContainsAny(got, "/\\: \n'\"{}") || strings.HasPrefix(got, ".") || len(got) > maxText {
			t.Errorf("Name(%q) = %q", s, got)
		}
	})
}
