package timesync

import "testing"

func FuzzParseTime(f *testing.F) {
	for _, text := range []string{"1767225600\n", "1767225600", "", "-5", "0", "99999999999999999999", "1e9", " 5"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := ParseTime(text)
		if !ok {
			return
		}
		again, ok := ParseTime(FormatTime(got))
		if got <= 0 || again != got || !ok {
			t.Errorf("ParseTime(%q) = %d, which reads as %d again", text, got, again)
		}
	})
}
