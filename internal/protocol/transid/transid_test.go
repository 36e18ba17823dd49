package transid_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/randtest"
	"github.com/openthreeds/threeds/internal/protocol/transid"
)

const (
	maxAge = 80 * time.Second
	owner  = "shop"
	pan    = "3000100811111072"
)

var (
	noon = time.Date(2026, 11, 20, 12, 0, 0, 123e6, time.UTC)
	keyA = bytes.Repeat([]byte{0xa}, 32)
	keyB = bytes.Repeat([]byte{0xb}, 32)
	keyC = bytes.Repeat([]byte{0xc}, 32)
)

// zeros is a random source for ids that are to be the same every time.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// form is that of a UUID of version 4, in lowercase.
var form = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// TestIDIsAUUIDInLowercase: and is accepted in capitals too.
func TestIDIsAUUIDInLowercase(t *testing.T) {
	k := transid.NewKeys(keyA)
	randtest.Check(t, func(t *randtest.T) {
		made := time.UnixMilli(int64(t.Uint64Range(0, 1<<42-1))).UTC()
		scheme := transid.Scheme(t.Uint64Range(0, 1<<16-1))
		if scheme == 15 { // which is no number of a scheme
			scheme = 16
		}
		owner, pan := t.Text(0, 30), t.Digits(13, 19)
		id := k.New(made, maxAge, rand.Reader, scheme, owner, pan)
		if !form.MatchString(id) {
			t.Errorf("New = %q, not a lowercase UUID of version 4", id)
		}
		want := transid.Info{ID: id, Made: made, Scheme: scheme}
		if got, err := k.Check(id, made, maxAge, owner, pan); got != want || err != nil {
			t.Errorf("Check = %+v, %v; want %+v", got, err, want)
		}
		upper := strings.ToUpper(id)
		if got, err := k.Check(upper, made, maxAge, owner, pan); got != want || err != nil {
			t.Errorf("Check in capitals = %+v, %v; want %+v", got, err, want)
		}
	})
}

// TestLayoutIsPinned: another release must read the ids of this one. The tags were computed
// from the description of the package by another program.
func TestLayoutIsPinned(t *testing.T) {
	id := transid.NewKeys(keyA).New(noon, maxAge, bytes.NewReader([]byte{0xfe, 0xdc, 0xff, 0x98}), 5, owner, pan)
	first := noon.UnixMilli() | 2<<42 // minutes
	if want := fmt.Sprintf("%08x-%04x-4edc-bf98-f5", first>>16, first&0xffff); !strings.HasPrefix(id, want) {
		t.Errorf("New = %s, want %s…", id, want)
	}
	if got, want := id[26:], "07b982218e"; got != want {
		t.Errorf("tags %s, want %s", got, want)
	}
}

// TestA2LayoutOfLongSchemesIsPinned: a long number takes the place of random bits and is under the tags. The
// tags were computed from the description of the package by another program.
func TestA2LayoutOfLongSchemesIsPinned(t *testing.T) {
	id := transid.NewKeys(keyA).New(noon, maxAge, bytes.NewReader([]byte{0xfe, 0xdc, 0xff, 0x98}), 0x1234, owner, pan)
	first := noon.UnixMilli() | 2<<42 // minutes
	if want := fmt.Sprintf("%08x-%04x-4edc-b123-4f", first>>16, first&0xffff); !strings.HasPrefix(id, want) {
		t.Errorf("New = %s, want %s…", id, want)
	}
	if got, want := id[26:], "fe7cde884b"; got != want {
		t.Errorf("tags %s, want %s", got, want)
	}
}

// TestA2LongSchemeIsNoOtherScheme: whoever changes the number in an id, or makes a short number of a long
// one, has no id of this owner any more.
func TestA2LongSchemeIsNoOtherScheme(t *testing.T) {
	k := transid.NewKeys(keyA)
	id := k.New(noon, maxAge, zeros{}, 0x1234, owner, pan)
	for _, changed := range []string{
		id[:20] + "123-5f" + id[26:], id[:20] + "223" + id[23:], id[:25] + "1" + id[26:], id[:25] + "0" + id[26:],
	} {
		if _, err := k.Check(changed, noon, maxAge, owner, pan); !errors.Is(err, transid.ErrOwner) {
			t.Errorf("Check(%s) of %s: %v", changed, id, err)
		}
	}
	for bit := range 20 {
		b := []byte(id)
		at := 20 + bit/4 + bit/12 // the dash is behind the third digit
		digit := strings.IndexByte("0123456789abcdef", b[at])
		b[at] = "0123456789abcdef"[digit^1<<(bit%4)]
		if _, err := k.Check(string(b), noon, maxAge, owner, pan); !errors.Is(err, transid.ErrOwner) {
			t.Errorf("bit %d of the number changed, %s: %v, want ErrOwner", bit, b, err)
		}
	}
	// A number that fits four bits is never written as a long one.
	for _, last := range []string{"0", "8", "e", "f"} {
		short := id[:20] + "000-" + last + "f" + id[26:]
		if _, err := k.Check(short, noon, maxAge, owner, pan); !errors.Is(err, transid.ErrMalformed) {
			t.Errorf("Check(%s): %v, want ErrMalformed", short, err)
		}
	}
}

func TestIDExpiresByAge(t *testing.T) {
	k := transid.NewKeys(keyA)
	id := k.New(noon, maxAge, rand.Reader, 1, owner, pan)
	for _, test := range []struct {
		after time.Duration
		want  error
	}{
		{0, nil},
		{maxAge - time.Millisecond, nil},
		{maxAge, transid.ErrExpired},
		{maxAge + time.Millisecond, transid.ErrExpired},
		{1000 * time.Hour, transid.ErrExpired},
		{-transid.MaxSkew + time.Millisecond, nil},
		{-transid.MaxSkew, nil},
		{-transid.MaxSkew - time.Millisecond, transid.ErrFuture},
		{-1000 * time.Hour, transid.ErrFuture},
	} {
		if _, err := k.Check(id, noon.Add(test.after), maxAge, owner, pan); !errors.Is(err, test.want) {
			t.Errorf("Check %v after New: %v, want %v", test.after, err, test.want)
		}
	}
}

// TestIDSaysItsLife: an id says in minutes how long it may be used. Whoever checks it may
// allow less, but not more.
func TestIDSaysItsLife(t *testing.T) {
	k := transid.NewKeys(keyA)
	for life, want := range map[time.Duration]time.Duration{
		0: 0, time.Millisecond: time.Minute, 59 * time.Second: time.Minute, time.Minute: time.Minute,
		time.Minute + 1: 2 * time.Minute, 80 * time.Second: 2 * time.Minute, time.Hour: time.Hour, transid.MaxLife: transid.MaxLife,
	} {
		id := k.New(noon, life, rand.Reader, 1, owner, pan)
		for _, id := range []string{id, strings.ToUpper(id)} {
			if got := transid.Life(id); got != want {
				t.Errorf("Life of an id made for %v = %v, want %v", life, got, want)
			}
		}
		for _, maxAge := range []time.Duration{want, want + time.Hour} {
			if _, err := k.Check(id, noon.Add(want), maxAge, owner, pan); !errors.Is(err, transid.ErrExpired) {
				t.Errorf("made for %v, after %v: %v, want ErrExpired", life, want, err)
			}
			if _, err := k.Check(id, noon.Add(want-time.Millisecond), maxAge, owner, pan); want > 0 && err != nil {
				t.Errorf("made for %v, a moment before %v: %v", life, want, err)
			}
		}
	}
	for _, none := range []string{"none", k.New(noon, time.Hour, rand.Reader, 1, owner, pan)[:35] + "x"} {
		if got := transid.Life(none); got != 0 {
			t.Errorf("Life of %q, which is no id, = %v", none, got)
		}
	}
	for _, life := range []time.Duration{-1, transid.MaxLife + 1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("New with a life of %v did not panic", life)
				}
			}()
			k.New(noon, life, rand.Reader, 1, owner, pan)
		}()
	}
}

// TestFirstFaultIsReported has several things wrong at once.
func TestFirstFaultIsReported(t *testing.T) {
	k := transid.NewKeys(keyA)
	id := k.New(noon, maxAge, zeros{}, 1, owner, pan)
	late, early := noon.Add(time.Hour), noon.Add(-time.Hour)
	for _, test := range []struct {
		name, id   string
		now        time.Time
		owner, pan string
		want       error
	}{
		{"form and all", id[1:], late, "x", "1", transid.ErrMalformed},
		{"owner, age and card", id, late, "x", "1", transid.ErrOwner},
		{"age and card", id, late, owner, "1", transid.ErrExpired},
		{"future and card", id, early, owner, "1", transid.ErrFuture},
		{"card", id, noon, owner, "1", transid.ErrCard},
	} {
		if info, err := k.Check(test.id, test.now, maxAge, test.owner, test.pan); !errors.Is(err, test.want) || info != (transid.Info{}) {
			t.Errorf("%s: Check = %+v, %v; want %v", test.name, info, err, test.want)
		}
	}
}

func TestOtherTextIsMalformed(t *testing.T) {
	k := transid.NewKeys(keyA)
	id := k.New(noon, maxAge, zeros{}, 1, owner, pan)
	for _, bad := range []string{
		"", "-", id + "0", id[:35], " " + id[1:], "{" + id[1:35] + "}", strings.ReplaceAll(id, "-", ""), strings.ReplaceAll(id, "-", "_"),
		id[:14] + "1" + id[15:], id[:19] + "c" + id[20:], id[:19] + "7" + id[20:], id[:35] + "g", id[:34] + "é", id[:9] + "-" + id[10:],
		id[:8] + "_" + id[9:], id[:13] + "_" + id[14:], id[:18] + "_" + id[19:], id[:23] + "_" + id[24:], // each has another spelling then
		id[:35] + ":", id[:35] + "@", id[:35] + "`",
	} {
		if _, err := k.Check(bad, noon, maxAge, owner, pan); !errors.Is(err, transid.ErrMalformed) {
			t.Errorf("Check(%q): %v, want ErrMalformed", bad, err)
		}
	}
}

// TestEveryChangeIsFound flips each bit of an id, and checks it for other owners and cards. A
// tag has 20 bits, so with real randomness a wrong one would pass now and then: here the
// random bits are fixed.
func TestEveryChangeIsFound(t *testing.T) {
	k := transid.NewKeys(keyA, keyB, keyC)
	id := k.New(noon, maxAge, zeros{}, 1, owner, pan)
	for i := range id {
		for bit := range 4 {
			digit := strings.IndexByte("0123456789abcdef", id[i])
			if digit < 0 {
				continue
			}
			changed := id[:i] + string("0123456789abcdef"[digit^1<<bit]) + id[i+1:]
			want := transid.ErrOwner // everything but the card tag is under the owner tag
			switch {
			case i == 14 || i == 19 && bit >= 2:
				want = transid.ErrMalformed
			case i >= 31:
				want = transid.ErrCard
			}
			if _, err := k.Check(changed, noon, maxAge, owner, pan); !errors.Is(err, want) {
				t.Errorf("digit %d, bit %d: %v, want %v", i, bit, err, want)
			}
		}
	}
	for _, other := range []string{"", "Shop", "shop ", "sho", "shop2"} {
		if _, err := k.Check(id, noon, maxAge, other, pan); !errors.Is(err, transid.ErrOwner) {
			t.Errorf("owner %q: %v, want ErrOwner", other, err)
		}
	}
	for _, other := range []string{"", pan[1:], pan + "0", "3000100811111073", "shop" + pan} {
		if _, err := k.Check(id, noon, maxAge, owner, other); !errors.Is(err, transid.ErrCard) {
			t.Errorf("another card: %v, want ErrCard", err)
		}
	}
}

func TestOwnerAndCardAreKeptApart(t *testing.T) {
	k := transid.NewKeys(keyA)
	a := k.New(noon, maxAge, zeros{}, 1, "1", "2345")
	b := k.New(noon, maxAge, zeros{}, 1, "51", "234")
	if a[31:] == b[31:] {
		t.Error("the card tag is the same when a digit moves from card to owner")
	}
}

// TestKeysRotate goes through a rotation: the new key is published everywhere before it makes
// ids, and the old key stays until its ids have expired.
// TestIsOwnerKnowsIDsOfAnyAge: the owner of an id is known under each key and at any age, and other
// owners, other keys and texts that are no ids are refused.
func TestIsOwnerKnowsIDsOfAnyAge(t *testing.T) {
	old, now := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	id := transid.NewKeys(old).New(time.Unix(1e9, 0), time.Minute, zeros{}, 1, "Shop", "4000001234567890")
	for _, tt := range []struct {
		name      string
		keys      *transid.Keys
		id, owner string
		want      bool
	}{
		{"its owner", transid.NewKeys(old), id, "Shop", true},
		{"in capitals", transid.NewKeys(old), strings.ToUpper(id), "Shop", true},
		{"after a rotation", transid.NewKeys(now, old), id, "Shop", true},
		{"another owner", transid.NewKeys(now, old), id, "Other", false},
		{"no owner", transid.NewKeys(old), id, "", false},
		{"without its key", transid.NewKeys(now), id, "Shop", false},
		{"no id", transid.NewKeys(old), "", "Shop", false},
	} {
		if got := tt.keys.IsOwner(tt.id, tt.owner); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
}

func TestKeysRotate(t *testing.T) {
	before := transid.NewKeys(keyA, keyB) // current, next
	after := transid.NewKeys(keyB, keyA)  // current, previous
	done := transid.NewKeys(keyB, keyC)
	for _, id := range []string{before.New(noon, maxAge, zeros{}, 1, owner, pan), after.New(noon, maxAge, zeros{}, 1, owner, pan)} {
		for _, k := range []*transid.Keys{before, after} {
			if _, err := k.Check(id, noon, maxAge, owner, pan); err != nil {
				t.Errorf("during the rotation: %v", err)
			}
		}
	}
	if _, err := done.Check(before.New(noon, maxAge, zeros{}, 1, owner, pan), noon, maxAge, owner, pan); !errors.Is(err, transid.ErrOwner) {
		t.Errorf("after the rotation: %v, want ErrOwner", err)
	}
	if _, err := done.Check(after.New(noon, maxAge, zeros{}, 1, owner, pan), noon, maxAge, owner, pan); err != nil {
		t.Errorf("after the rotation: %v", err)
	}
}

func TestIDsAreDistinct(t *testing.T) {
	k := transid.NewKeys(keyA)
	const n = 100_000
	seen := make(map[string]bool, n)
	for i := range n { // 100 a millisecond
		seen[k.New(noon.Add(time.Duration(i/100)*time.Millisecond), maxAge, rand.Reader, 1, owner, pan)] = true
	}
	// The store refuses a collision. For this test one in 2⁷⁰ pairs is none.
	if len(seen) != n {
		t.Errorf("%d distinct ids of %d", len(seen), n)
	}
}

// TestMisuseIsAPanic has a scheme number out of range, and a key that is too short.
func TestMisuseIsAPanic(t *testing.T) {
	for name, misuse := range map[string]func(){
		"New with scheme 15": func() {
			transid.NewKeys(keyA).New(noon, maxAge, zeros{}, transid.LongScheme-1, owner, pan)
		},
		"NewKeys with a short key":   func() { transid.NewKeys(keyA[:15]) },
		"NewKeys with a short other": func() { transid.NewKeys(keyA, nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			misuse()
		}()
	}
}

func TestKeysAreSafeForConcurrentUse(t *testing.T) {
	k := transid.NewKeys(keyA, keyB)
	for i := range 8 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			owner := fmt.Sprint("shop", i)
			for range 200 {
				id := k.New(noon, maxAge, rand.Reader, 1, owner, pan)
				if _, err := k.Check(id, noon, maxAge, owner, pan); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestCheckAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools drop values; make test counts allocations in its run without it")
	}
	k := transid.NewKeys(keyA, keyB)
	id := k.New(noon, maxAge, rand.Reader, 1, owner, pan)
	if n := testing.AllocsPerRun(1000, func() { k.New(noon, maxAge, rand.Reader, 1, owner, pan) }); n > 2 {
		t.Errorf("New: %v allocations, want at most 2", n)
	}
	if n := testing.AllocsPerRun(1000, func() { _, _ = k.Check(id, noon, maxAge, owner, pan) }); n > 0 {
		t.Errorf("Check: %v allocations, want none", n)
	}
}

func TestKeysPrintNoSecret(t *testing.T) {
	k := transid.NewKeys([]byte("a key that must not be seen here"))
	k.New(noon, maxAge, rand.Reader, 1, owner, pan)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		out := fmt.Sprintf(format, k) + fmt.Sprintf(format, *k)
		for _, secret := range []string{"must not", "6d757374", "109 117 115", pan} {
			if strings.Contains(out, secret) {
				t.Errorf("%s shows %q", format, secret)
			}
		}
	}
}

func FuzzCheck(f *testing.F) {
	k := transid.NewKeys(keyA)
	id := k.New(noon, maxAge, zeros{}, 1, owner, pan)
	f.Add(id)
	f.Add(strings.ToUpper(id))
	f.Add("")
	f.Add("00000000-0000-4000-8000-000000000000")
	f.Add(id[:30] + "\x00\xff-" + id[33:])
	f.Fuzz(func(t *testing.T, s string) {
		info, err := k.Check(s, noon, maxAge, owner, pan)
		formed := form.MatchString(strings.ToLower(s))
		switch {
		case err == nil:
			if info.ID != strings.ToLower(s) || !formed {
				t.Errorf("Check(%q) accepts and calls it %q", s, info.ID)
			}
		case errors.Is(err, transid.ErrMalformed) == formed:
			t.Errorf("Check(%q): %v", s, err)
		case info != transid.Info{}:
			t.Errorf("Check(%q): %v with %+v", s, err, info)
		}
	})
}

func BenchmarkNew(b *testing.B) {
	k := transid.NewKeys(keyA)
	b.ReportAllocs()
	for b.Loop() {
		k.New(noon, maxAge, rand.Reader, 1, owner, pan)
	}
}

func BenchmarkCheck(b *testing.B) {
	k := transid.NewKeys(keyA, keyB, keyC)
	id := k.New(noon, maxAge, rand.Reader, 1, owner, pan)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.Check(id, noon, maxAge, owner, pan); err != nil {
			b.Fatal(err)
		}
	}
}

// TestSpan: an id may be used for the first time from when it was made until its life is over, give or take the skew of
// clocks; a text of another form says nothing.
func TestSpan(t *testing.T) {
	made := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	id := transid.NewKeys(make([]byte, 16)).New(made, 10*time.Minute, rand.Reader, 1, "Shop", "4000 0000 0000 0002")
	from, until, ok := transid.Span(strings.ToUpper(id))
	if !ok || !from.Equal(made.Add(-transid.MaxSkew)) || !until.Equal(made.Add(10*time.Minute+transid.MaxSkew)) {
		t.Errorf("Span(%s) = %s, %s, %v", id, from, until, ok)
	}
	if _, _, ok := transid.Span(id[1:]); ok {
		t.Error("a text that is too short has a span")
	}
}
