package keyring_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/state/keyring"
)

func handOver(t *testing.T, r *keyring.Ring, stay ...string) *keyring.Handover {
	t.Helper()
	h, err := r.NewHandover(stay)
	if err != nil {
		t.Fatal(err)
	}
	return &h
}

// TestHandoverMakesASecretReadableThenCurrent: each ring opens what the other makes, in either order of the two steps,
// and the file that is written has all secrets.
func TestHandoverMakesASecretReadableThenCurrent(t *testing.T) {
	a := load(t, fmt.Sprintf(`{"current":%q,"previous":[%q,%q]}`, secret('a'), secret('b'), secret('c')))
	ids := strings.Split(a.KeyIDs().Previous, ",")
	h := handOver(t, a, ids[1])
	accepts, err := a.Accept(h)
	must(t, err)
	follows, err := a.Follow(h)
	must(t, err)
	if got, want := accepts.KeyIDs(), (keyring.KeyIDs{Current: h.From, Previous: a.KeyIDs().Previous, Next: h.ID}); got != want {
		t.Errorf("accepted: %+v, want %+v", got, want)
	}
	if got, want := follows.KeyIDs(), (keyring.KeyIDs{Current: h.ID, Previous: h.From + "," + ids[1]}); got != want {
		t.Errorf("followed: %+v, want %+v", got, want)
	}
	if !accepts.Opens(follows) || !follows.Opens(accepts) || a.Opens(follows) {
		t.Error("the rings do not open what each other makes, or the former one does")
	}
	if got, err := accepts.Open("x", follows.Seal("x", []byte("plain"))); err != nil || string(got) != "plain" {
		t.Errorf("Open: %q %v", got, err)
	}
	path := file(t, `{"current":"`+secret('a')+`"}`)
	must(t, follows.WriteFile(path))
	written, err := keyring.Load(path)
	must(t, err)
	if written.KeyIDs() != follows.KeyIDs() || !written.Opens(follows) || !written.Opens(a) {
		t.Errorf("the file has %+v, want %+v", written.KeyIDs(), follows.KeyIDs())
	}
	must(t, accepts.WriteFile(path))
	if written, err = keyring.Load(path); err != nil || written.KeyIDs() != accepts.KeyIDs() {
		t.Errorf("the file has %+v, %v; want %+v", written.KeyIDs(), err, accepts.KeyIDs())
	}
}

// TestHandoverIsBelievedOnlyAsItWasSealed: a handover that was changed in any way, or that is for another ring, gives
// no secret.
func TestHandoverIsBelievedOnlyAsItWasSealed(t *testing.T) {
	a, b := load(t, `{"current":"`+secret('a')+`"}`), load(t, `{"current":"`+secret('b')+`"}`)
	afterA := load(t, fmt.Sprintf(`{"current":%q,"previous":%q}`, secret('b'), secret('a')))
	good := handOver(t, a)
	for name, test := range map[string]struct {
		ring   *keyring.Ring
		change func(h *keyring.Handover)
		want   error
	}{
		"id":     {a, func(h *keyring.Handover) { h.ID = "00000000" }, keyring.ErrSealed},
		"former": {a, func(h *keyring.Handover) { h.Former = []string{"00000000"} }, keyring.ErrSealed},
		"seal":   {a, func(h *keyring.Handover) { h.Sealed = append([]byte{}, h.Sealed...); h.Sealed[40]++ }, keyring.ErrSealed},
		"cut":    {a, func(h *keyring.Handover) { h.Sealed = h.Sealed[:3] }, keyring.ErrSealed},
		"gone":   {a, func(h *keyring.Handover) { h.Sealed = nil }, keyring.ErrHandoverGone},
		"other":  {b, func(*keyring.Handover) {}, nil},
		"late":   {afterA, func(*keyring.Handover) {}, nil}, // a has been followed by another secret already
		"from":   {b, func(h *keyring.Handover) { h.From = b.KeyIDs().Current }, keyring.ErrSealed},
	} {
		h := *good
		test.change(&h)
		for _, open := range []func(*keyring.Handover) (*keyring.Ring, error){test.ring.Accept, test.ring.Follow} {
			if r, err := open(&h); err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("%s: %v %v, want %v", name, r, err, test.want)
			}
		}
	}
}

// TestHandoverNeedsRoom: if the file has a next secret, or as many previous secrets as it can have, there is no
// handover.
func TestHandoverNeedsRoom(t *testing.T) {
	if _, err := load(t, fmt.Sprintf(`{"current":%q,"next":%q}`, secret('a'), secret('b'))).NewHandover(nil); err == nil {
		t.Error("a next secret is no obstacle")
	}
	var list []string
	for i := range 33 {
		list = append(list, fmt.Sprintf("%q", secret(byte('0'+i))))
	}
	text := func(n int) string {
		return fmt.Sprintf(`{"current":%q,"previous":[%s]}`, secret('z'), strings.Join(list[:n], ","))
	}
	full := load(t, text(32))
	ids := strings.Split(full.KeyIDs().Previous, ",")
	if _, err := full.NewHandover(ids); err == nil || !strings.Contains(err.Error(), "32 previous secrets") {
		t.Errorf("no room: %v", err)
	}
	next, err := full.Follow(handOver(t, full, ids[:31]...))
	must(t, err)
	path := file(t, text(1))
	must(t, next.WriteFile(path))
	if _, err := keyring.Load(path); err != nil {
		t.Errorf("a full file: %v", err)
	}
	if _, err := keyring.Load(file(t, text(33))); err == nil || !strings.Contains(err.Error(), "previous: has 33 secrets") {
		t.Errorf("33 secrets: %v", err)
	}
}

// TestPreviousIsAListOfStrings names what is wrong with a list, and shows no secret.
func TestPreviousIsAListOfStrings(t *testing.T) {
	a, b := secret('a'), secret('b')
	for previous, want := range map[string]string{
		`[]`:                        "",
		`["` + b + `"]`:             "",
		`[1]`:                       "previous: not a list of strings",
		`[["` + b + `"]]`:           "previous: not a list of strings",
		`["` + b + `"`:              "previous: not a list of strings",
		`["` + b + `","` + a + `"]`: "previous[1]: is the same as current",
		`["` + b + `","x"]`:         "previous[1]: not base64",
	} {
		_, err := keyring.Load(file(t, `{"current":"`+a+`","previous":`+previous+`}`))
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), b[:8])) {
			t.Errorf("%.20s: %v, want %q", previous, err, want)
		}
	}
	if _, err := keyring.Load(file(t, `{"current":["`+a+`"]}`)); err == nil {
		t.Error("current may be a list")
	}
}

// TestWriteFileKeepsModeAndReplacesWhatALinkNames: the mode stays, a link stays a link, and if no file can be made, the
// old one stays as it was.
func TestWriteFileKeepsModeAndReplacesWhatALinkNames(t *testing.T) {
	path := file(t, `{"current":"`+secret('a')+`"}`)
	must(t, os.Chmod(path, 0o400))
	link := filepath.Join(t.TempDir(), "keys.json")
	must(t, os.Symlink(path, link))
	b := load(t, `{"current":"`+secret('b')+`"}`)
	must(t, b.WriteFile(link))
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v %v", info, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("the mode is %v, %v; want 0400", info.Mode(), err)
	}
	if got, err := keyring.Load(path); err != nil || !got.Opens(b) {
		t.Errorf("not written: %v", err)
	}
	if err := b.WriteFile(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	others, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(others) != 1 {
		t.Errorf("beside the file is %v, %v", others, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
