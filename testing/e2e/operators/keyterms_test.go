package operators

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestD107KeyList: a running server refuses a key from elsewhere and one that has ended like one
// that was never made, and the list says what each key may do and when it was used last.
func TestD107KeyList(t *testing.T) {
	t.Parallel() // The test mostly waits until a key has ended.
	begun := time.Now()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca))
	preauth := func(key string) (status int, body string) {
		res, data := s.Call(http.MethodPost, "/preauth", key, rig.Object{"acctNumber": rig.EnrolledPAN})
		return res.StatusCode, string(data)
	}
	here := s.CreateKey("Shop", "--label", "here", "--allow", "127.0.0.0/8", "--allow", "::1")
	elsewhere := s.CreateKey("Shop", "--label", "elsewhere", "--allow", "192.0.2.0/24")
	s.CreateKey("Shop", "--label", "unused")
	var short, ends string
	for lasts := 3 * time.Second; ; lasts *= 2 { // until the machine is fast enough to use the key before it ends
		ends = time.Now().Add(lasts).UTC().Truncate(time.Second).Format(time.RFC3339)
		var out, errs strings.Builder
		code := rig.Run(t.Context(), []string{"key", "create", "--name", "Shop", "--config", s.ConfigFile,
			"--label", "short until " + ends, "--expires", ends}, strings.NewReader(""), &out, &errs)
		if code != 0 && strings.Contains(errs.String(), "is not in the future") {
			continue
		}
		if code != 0 {
			t.Fatalf("key create: %d %s", code, errs.String())
		}
		short = strings.TrimSuffix(out.String(), "\n")
		got, body := preauth(short)
		if got == 200 {
			break
		}
		if end, err := time.Parse(time.RFC3339, ends); err != nil || time.Now().Before(end) {
			t.Fatalf("before its end: %d %s, want 200", got, body)
		}
	}
	for key, want := range map[string]int{here: 200, elsewhere: 401} {
		if got, body := preauth(key); got != want {
			t.Errorf("%d %s, want %d", got, body, want)
		}
	}
	_, stranger := preauth(strangersKey)
	waittest.Until(t, "the end of a key", func() bool {
		status, body := preauth(short)
		return status == 401 && body == stranger
	})
	if _, body := preauth(elsewhere); body != stranger {
		t.Errorf("from elsewhere: %s, and a stranger: %s", body, stranger)
	}
	var all []rig.KeyReport
	named := func(label string) rig.KeyReport {
		return all[slices.IndexFunc(all, func(k rig.KeyReport) bool { return k.Label == label })]
	}
	waittest.Until(t, "the last use to be listed", rig.Unhurried(func() bool {
		var out, errs strings.Builder
		if code := rig.Run(t.Context(), []string{"key", "list", "--json", "--config", s.ConfigFile}, nil, &out, &errs); code != 0 {
			t.Fatalf("key list: %d %s", code, errs.String())
		}
		all = nil
		rig.Must(t, json.Unmarshal([]byte(out.String()), &all))
		return named("here").LastUsed != nil
	}))
	last, err := time.Parse(time.RFC3339, *named("here").LastUsed)
	if err != nil || last.Second() != 0 || time.Since(last) > 2*time.Minute+time.Since(begun) {
		t.Errorf("last use %v, %v; want this minute", last, err)
	}
	if k := named("short until " + ends); k.State != "expired" || k.Expires == nil || *k.Expires != ends {
		t.Errorf("the key that has ended is listed as %+v", k)
	}
	if k := named("elsewhere"); k.State != "good" || len(k.Allow) != 1 || k.Allow[0].String() != "192.0.2.0/24" {
		t.Errorf("the key for elsewhere is listed as %+v", k)
	}
	if k := named("unused"); k.LastUsed != nil || k.Expires != nil || len(k.Allow) != 0 {
		t.Errorf("the key that was not used is listed as %+v", k)
	}
}
