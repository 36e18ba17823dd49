package auth_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/state/account"
)

// linesOf returns the lines of the log with a message.
func (s *stand) linesOf(t *testing.T, msg string) (lines []map[string]any) {
	t.Helper()
	for text := range strings.Lines(s.log.String()) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		if line["msg"] == msg {
			lines = append(lines, line)
		}
	}
	return lines
}

// TestD105SchemeFindingsAreLoggedOnceAnHour: each element that a merchant lacks is logged once an hour, even if another
// engine follows. Transactions record each case, and metrics count each.
func TestD105SchemeFindingsAreLoggedOnceAnHour(t *testing.T) {
	s := newStand("visa")
	s.e.Findings = new(auth.FindingLimit)
	request := func(name string, version string, without ...string) (logged []any) {
		t.Helper()
		acc := &account.Account{Merchant: &account.Merchant{Name: name}}
		counted, lines := len(s.counted), len(s.linesOf(t, "scheme rules not kept"))
		clear(s.Txns)
		if _, _, err := s.e.Authenticate(t.Context(), acc, good(version, authtest.Preauth(t, s.e, acc), without...).JSON()); err != nil {
			t.Fatal(err)
		}
		if recorded := len(s.recorded(t)); recorded == 0 || len(s.counted)-counted != recorded {
			t.Errorf("%d findings are recorded, %d counted", recorded, len(s.counted)-counted)
		}
		after := s.linesOf(t, "scheme rules not kept")
		if len(after) > lines+1 {
			t.Errorf("%d lines for one request", len(after)-lines)
		}
		for _, line := range after[lines:] {
			logged = append(logged, line["findings"].([]any)...)
			if line["merchant"] != name {
				t.Errorf("the line of %s is %v", name, line)
			}
		}
		return logged
	}
	const expiry = "cardExpiryDate: required"
	all := request("Shop", "2.2.0")
	if len(all) < 2 {
		t.Fatalf("the first request has the findings %v", all)
	}
	if got := request("Shop", "2.2.0"); len(got) > 0 {
		t.Errorf("a second request has a line with %v", got)
	}
	if got := request("Other", "2.2.0"); !slices.Equal(got, all) {
		t.Errorf("the first request of another merchant has %v, want %v", got, all)
	}
	if got := request("Shop", "2.2.0", "cardExpiryDate"); !slices.Equal(got, []any{expiry}) {
		t.Errorf("a request that lacks one element more has a line with %v", got)
	}
	s.Nanos.Add(int64(time.Hour) - 1)
	if got := request("Shop", "2.2.0", "cardExpiryDate"); len(got) > 0 {
		t.Errorf("within the hour there is a line with %v", got)
	}
	s.Nanos.Add(1)
	if got := request("Shop", "2.2.0", "cardExpiryDate"); len(got) != len(all)+1 {
		t.Errorf("after an hour there is a line with %v", got)
	}
}

// TestD105FindingLimitIsBounded: what is remembered has a bound, and an hour later there is room again.
func TestD105FindingLimitIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("8,000 merchants take a while")
	}
	s := newStand("visa")
	s.e.Findings = new(auth.FindingLimit)
	request := func(name string) {
		acc := &account.Account{Merchant: &account.Merchant{Name: name}}
		if _, _, err := s.e.Authenticate(t.Context(), acc, good("2.2.0", authtest.Preauth(t, s.e, acc)).JSON()); err != nil {
			t.Fatal(err)
		}
	}
	const merchants = 8_000 // Each has three findings or more.
	for i := range merchants {
		request(fmt.Sprintf("Shop %d", i))
	}
	full := len(s.linesOf(t, "scheme rules not kept"))
	if full == 0 || full == merchants {
		t.Fatalf("%d merchants have %d lines", merchants, full)
	}
	s.Nanos.Add(int64(time.Hour))
	request("Late")
	if got := len(s.linesOf(t, "scheme rules not kept")); got != full+1 {
		t.Errorf("after an hour a new merchant has %d lines", got-full)
	}
}

// TestD105StoreFailuresAreLoggedOnceASecond: while the store is away there is one line a second for all requests, and
// it counts those that were left out. A row that cannot be read has a line each time.
func TestD105StoreFailuresAreLoggedOnceASecond(t *testing.T) {
	s, acc := newStand("visa"), merchant("off", false)
	s.e.StoreFailures = &obs.LogThrottle{Interval: time.Second}
	failures := func() (lines []map[string]any) {
		for _, msg := range []string{"claim not stored", "transaction not read", "first leg not read"} {
			lines = append(lines, s.linesOf(t, msg)...)
		}
		return lines
	}
	fail := func(times int) {
		t.Helper()
		for range times {
			id := authtest.Preauth(t, s.e, acc)
			if _, _, err := s.e.Authenticate(t.Context(), acc, good("2.2.0", id).JSON()); authtest.CodeOf(err) != "403" {
				t.Fatalf("/auth: %v", err)
			}
			if _, err := s.e.Result(t.Context(), acc, authtest.Object{"threeDSServerTransID": id}.JSON()); authtest.CodeOf(err) != "403" {
				t.Fatalf("/postauth: %v", err)
			}
		}
	}
	s.Down = true
	fail(10)
	s.Nanos.Add(int64(time.Second) - 1)
	fail(10)
	if got := failures(); len(got) != 1 || got[0]["level"] != "ERROR" || got[0]["others"] != nil {
		t.Errorf("in the first second there are %v", got)
	}
	s.Nanos.Add(1)
	fail(10)
	if got := failures(); len(got) != 2 || got[1]["others"] != 39.0 && got[0]["others"] != 39.0 {
		t.Errorf("in two seconds there are %v", got)
	}
}
