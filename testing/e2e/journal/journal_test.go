package journal

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestJ7ShowPrintsTheTimeline: each step in the order of time, with its distance from the beginning, what was masked
// and what was found; in whatever order they came into the journal.
func TestJ7ShowPrintsTheTimeline(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config, err := os.ReadFile("../operators/testdata/token.txtar")
	rig.Must(t, err)
	_, text, _ := strings.Cut(string(config), "-- threeds.yaml --\n")
	file := filepath.Join(dir, "threeds.yaml")
	rig.Must(t, os.WriteFile(file, []byte(text), 0o600))
	const id = "8a880dc0-d2d2-4067-bcb1-b08d1690b26e"
	begin := time.Now().UTC().Truncate(time.Millisecond)
	step := func(name string, ms int, message, finding string) journal.Step {
		s := journal.Step{Step: name, At: begin.Add(time.Duration(ms) * time.Millisecond)}
		if message != "" {
			s.Message = []byte(message)
		}
		if finding != "" {
			s.Findings = []string{finding}
		}
		return s
	}
	areq := step("areq", 12, `{"messageType":"AReq","acctNumber":"40000000****0103"}`, "")
	areq.Personal = []byte(`{"email":"zoe@shop.example"}`)
	rig.Must(t, rig.WithJournal(t.Context(), file, func(st journal.Store, _ *journal.Keys) error {
		r := journal.Record{
			ID: id, Created: begin, Updated: begin, API: "emv", Merchant: "Corner Shop", Status: "completed", TransStatus: "Y",
			Card: journal.Card{Scheme: "visa", BIN: "40000000", Last4: "0103"},
		}
		for _, e := range []journal.Entry{
			{Kind: journal.Resulted, Record: r, Steps: []journal.Step{step("rreq", 61_250, `{"messageType":"RReq"}`, ""), step("rres", 61_252, "", "")}},
			{Kind: journal.Claimed, Record: r, Steps: []journal.Step{step("request", 0, "", "mcc: a blank was removed"), areq}},
			{Kind: journal.Answered, Record: r, Steps: []journal.Step{step("ares", 340, `{"messageType":"ARes"}`, ""), step("answered", 341, "", "")}},
		} {
			if _, err := st.Write(t.Context(), []journal.Entry{e}); err != nil {
				return err
			}
		}
		return nil
	}))
	var out, errs strings.Builder
	if code := rig.Run(context.Background(), []string{"journal", "show", id, "--config", file}, strings.NewReader(""), &out, &errs); code != 0 {
		t.Fatalf("%d %s", code, errs.String())
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	want := []string{
		id + ` emv, merchant "Corner Shop", card visa 40000000…0103: completed Y`,
		`\+0 ms  request +`, ` mcc: a blank was removed`, `\+12 ms  areq +\{"messageType":"AReq","acctNumber":"40000000\*\*\*\*0103"\}`,
		`^ +personal \{"email":"zoe@shop.example"\}`,
		`\+340 ms  ares +\{"messageType":"ARes"\}`, `\+341 ms  answered`, `\+61250 ms  rreq +\{"messageType":"RReq"\}`, `\+61252 ms  rres`,
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), out.String())
	}
	for n, pattern := range want {
		if !regexp.MustCompile(pattern).MatchString(lines[n]) {
			t.Errorf("line %d is %q, want %q", n+1, lines[n], pattern)
		}
	}
	if at := begin.Add(61_250 * time.Millisecond).Format("2006-01-02 15:04:05.000"); !strings.HasPrefix(lines[7], at) {
		t.Errorf("line 8 is %q, want the time %s", lines[6], fmt.Sprint(at))
	}
}

// TestK5BillingIsPrinted: as a table, for spreadsheets and as JSON, for the months that are named.
func TestK5BillingIsPrinted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config, err := os.ReadFile("../operators/testdata/token.txtar")
	rig.Must(t, err)
	_, text, _ := strings.Cut(string(config), "-- threeds.yaml --\n")
	file := filepath.Join(dir, "threeds.yaml")
	rig.Must(t, os.WriteFile(file, []byte(text), 0o600))
	rig.Must(t, rig.WithJournal(t.Context(), file, func(st journal.Store, _ *journal.Keys) error {
		var entries []journal.Entry
		for n := range 3 {
			entries = append(entries, journal.Entry{Kind: journal.Answered, Record: journal.Record{
				ID: fmt.Sprintf("8a880dc0-d2d2-4067-bcb1-b08d1690b26%d", n), Created: time.Date(2026, 1+time.Month(n/2), 31-n*10, 23, 59, 0, 0, time.UTC),
				API: "emv", Merchant: "Corner Shop", DeviceChannel: "02", MessageCategory: "01", Status: "completed", TransStatus: "Y",
			}})
		}
		_, err := st.Write(t.Context(), entries)
		return err
	}))
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"--from 2026-01 --to 2026-02", `(?s)^MONTH .*2026-01 +Corner Shop +emv +02 +01 +frictionless +2\n2026-02 +Corner Shop .* 1\n$`, 0},
		{"--from 2026-01 --to 2026-01 --csv", `^month,merchant,api,deviceChannel,messageCategory,kind,count\n2026-01,Corner Shop,emv,02,01,frictionless,2\n$`, 0},
		{"--from 2026-02 --to 2026-02 --json --merchant Corner\x00Shop", `(?s)"month": ?"2026-02".*"count": ?1\b`, 0},
		{"--from 2025-02 --to 2025-02 --merchant Corner\x00Shop", `^MONTH .*\n$`, 0},
		{"--from 2026-02 --to 2026-02 --merchant Nobody", `^$`, 1},
		{"--to January", `^$`, 2}, {"--from 2026-02 --to 2026-01", `^$`, 2}, {"--json --csv", `^$`, 2},
	} {
		args := append([]string{"journal", "billing", "--config", file}, strings.Fields(c.args)...)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "\x00", " ")
		}
		var out, errs strings.Builder
		if code := rig.Run(context.Background(), args, strings.NewReader(""), &out, &errs); code != c.code || !regexp.MustCompile(c.want).MatchString(out.String()) {
			t.Errorf("%s: %d\n%s%s", c.args, code, out.String(), errs.String())
		}
	}
}
