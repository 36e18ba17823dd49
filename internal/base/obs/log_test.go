package obs_test

import (
	"errors"
	"log"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/base/obs"
)

func TestMask(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{"no digits", "no digits"},
		{"4000001234567890", "***"},
		{"card 4000001234567890 refused", "card *** refused"},
		{"4000 0012 3456 7890", "***"},
		{"4000-0012-3456-7890.", "***."},
		{"12 digits 400000123456", "12 digits 400000123456"},
		{"13 digits 4000001234567", "13 digits ***"},
		{"19 digits 4000001234567890123", "19 digits ***"},
		{"20 digits 40000012345678901234", "20 digits ***"},
		{"two 4000001234567890,5000001234567890", "two ***,***"},
		{"id 01a1fa01-36cc-465e-ab5f-50d051286852", "id 01a1fa01-36cc-465e-ab5f-50d051286852"},
		{"id 01010101-3636-4650-8050-500051286852 made", "id 01010101-3636-4650-8050-500051286852 made"},
		{"01010101-3636-4650-8050-500051286852", "01010101-3636-4650-8050-500051286852"},
		{"2026-11-20 12:00:00", "2026-11-20 12:00:00"},
		{"at the end 4000001234567890-", "at the end ***-"},
		{"last 400000123456-7", "last ***"},
		{"hexadecimal aaaaaaaabbbbbbbbcccc4000001234567890", "hexadecimal aaaaaaaabbbbbbbbcccc***"},
		{"before 400000123456789001010101-3636-4650-8050-500051286852", "before ***"},
		{"behind 01010101-3636-4650-8050-5000512868524000001234567890", "behind ***"},
		{"behind 01010101-3636-4650-8050-5000512868520", "behind ***"},
	} {
		if got := cardnumber.Mask(tt.in); got != tt.want {
			t.Errorf("Mask(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

// TestMaskOnlyUUIDs: a text that is a UUID but for one character is none.
func TestMaskOnlyUUIDs(t *testing.T) {
	const id = "01010101-3636-4650-8050-500051286852"
	for i := range id {
		other := "x"
		if id[i] == '-' {
			other = "0"
		}
		if s := id[:i] + other + id[i+1:]; cardnumber.Mask(s) == s {
			t.Errorf("Mask(%q) hides nothing", s)
		}
	}
}

type pan string

func (p pan) String() string { return string(p) }

// TestLogger puts a card number into every kind of attribute: none of them
// shows it.
func TestLogger(t *testing.T) {
	const number = "4000001234567890"
	var out strings.Builder
	log := obs.NewLogger(&out, slog.LevelDebug)
	log.Info("seen "+number, "text", number, "error", errors.New("bad "+number), "stringer", pan(number),
		"list", []string{"one " + number}, "struct", struct{ N string }{number}, "bytes", []byte(number),
		slog.Group("group", "inner", number))
	log.With("with", number).WithGroup("g").Debug("x", "y", number)
	if strings.Contains(out.String(), number) {
		t.Errorf("the log shows a card number: %s", out.String())
	}
	if !strings.Contains(out.String(), "bad ***") || !strings.Contains(out.String(), `"list":["one ***"]`) {
		t.Errorf("the log hides more than the number: %s", out.String())
	}
}

// TestNothing: an error that there was not is not in the line.
func TestNothing(t *testing.T) {
	var out strings.Builder
	var err error
	obs.NewLogger(&out, slog.LevelDebug).Info("done", "err", err, "scheme", "visa")
	if got := out.String(); strings.Contains(got, "err") || strings.Contains(got, "nil") || !strings.Contains(got, `"scheme":"visa"`) {
		t.Errorf("the line is %s, want no err in it", got)
	}
}

func FuzzMask(f *testing.F) {
	f.Add("4000 0012-3456 7890 and 01a1fa01-36cc-465e-ab5f-50d051286852")
	f.Add("00000000-0000-0000-0A00-0000000000000")
	f.Fuzz(func(t *testing.T, s string) {
		if got := cardnumber.Mask(s); cardnumber.Mask(got) != got {
			t.Errorf("Mask(%q) = %q, which masks again", s, got)
		}
	})
}

// TestLoggerUTC is CF-12 and MC-24: times are UTC, whatever the host's zone.
func TestLoggerUTC(t *testing.T) {
	at := time.Date(2026, 11, 21, 7, 0, 0, 0, time.FixedZone("", -5*60*60))
	var b strings.Builder
	r := slog.NewRecord(at, slog.LevelInfo, "x", 0) // as on a host in that zone
	r.Add("loaded", at)
	if err := obs.NewLogger(&b, slog.LevelInfo).Handler().Handle(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if strings.Count(b.String(), `"2026-11-21T12:00:00Z"`) != 2 || strings.Contains(b.String(), "-05:00") {
		t.Error(b.String())
	}
}

// TestLoggerSpans: a span of time is read by people, who cannot tell nanoseconds
// from milliseconds.
func TestLoggerSpans(t *testing.T) {
	var b strings.Builder
	obs.NewLogger(&b, slog.LevelInfo).Info("x", "within", 15*time.Second)
	if !strings.Contains(b.String(), `"within":"15s"`) {
		t.Error(b.String())
	}
}

// TestLevel: what is below the level is not in the log.
func TestLevel(t *testing.T) {
	for level, want := range map[slog.Level]int{slog.LevelDebug: 3, slog.LevelInfo: 2, slog.LevelWarn: 1} {
		var b strings.Builder
		l := obs.NewLogger(&b, level)
		l.Debug("x")
		l.Info("x")
		l.Warn("x")
		if got := strings.Count(b.String(), "\n"); got != want {
			t.Errorf("%v: %d lines, want %d", level, got, want)
		}
	}
}

// TestLibraries: what net/http quotes of an answer is not passed on.
func TestLibraries(t *testing.T) {
	var b strings.Builder
	l := log.New(obs.Libraries(obs.NewLogger(&b, slog.LevelWarn)), "", 0)
	l.Printf("Unsolicited response received on idle HTTP channel starting with %q; err=%v", `{"authenticationValue":"AAABBCJZUw"}`, nil)
	l.Print("plain words")
	got := b.String()
	if strings.Contains(got, "AAABB") || !strings.Contains(got, `"what":"Unsolicited response received on idle HTTP channel starting with"`) ||
		!strings.Contains(got, `"what":"plain words"`) || strings.Count(got, "\n") != 2 {
		t.Errorf("%s", got)
	}
}
