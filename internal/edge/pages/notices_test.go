package pages_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/peers/directory"
	"github.com/openthreeds/threeds/internal/state/cluster"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// addRequests adds so many requests of a merchant at a time, changed.
func (s *site) addRequests(n int, at time.Time, merchant string, kind journal.Kind, change func(*journal.Record)) {
	s.Helper()
	var entries []journal.Entry
	for range n {
		s.added++
		r := recordOf(fmt.Sprintf("90000000-0000-4000-8000-%012d", s.added))
		r.Created, r.Merchant = at, merchant
		change(&r)
		entries = append(entries, journal.Entry{Kind: kind, Record: r, Steps: []journal.Step{stepOf("areq", at)}})
	}
	_, err := s.Journal.Write(s.Context(), entries)
	must(s.TB, err)
}

func asItIs(*journal.Record) {}

func refusedByUs(r *journal.Record) {
	r.Status, r.Result, r.TransStatus, r.ErrorCode, r.Elements = "refused", "", "", "203", []string{"mcc"}
}

func refusedByDirectory(r *journal.Record) {
	r.Status, r.Result, r.TransStatus, r.ErrorCode, r.ErrorComponent = "failed", "error", "", "303", "D"
}

func notAnswered(r *journal.Record) {
	refusedByDirectory(r)
	r.ErrorCode, r.ErrorComponent = "402", "S"
}

// needs returns what the overview of a caller says needs attention, and what is over.
func (s *site) needs(caller string) (open, over string) {
	body := s.get(caller, "/").Body.String()
	_, part, _ := strings.Cut(body, "Needs attention")
	part, _, _ = strings.Cut(part, "Over time")
	open, over, _ = strings.Cut(part, "Over in the last day")
	return open, over
}

// keep has a node look for notices after a time.
func (s *site) keep(after time.Duration) {
	s.Helper()
	s.Now = s.Now.Add(after)
	must(s.TB, s.Admin.KeepNotices(s.Context(), "node-1"))
}

// TestK3NowIsBesideTheDaysBefore: each number of the last 15 minutes, with what is usual at this time of the day.
func TestK3NowIsBesideTheDaysBefore(t *testing.T) {
	t.Parallel()
	empty, s := newSite(t), newSite(t)
	empty.want(empty.get("viewer", "/"), 200, "the last 15 minutes</span>", "<dt>Requests</dt><dd>0</dd>")
	s.addRequests(6, s.Now.Add(-14*time.Minute), shop, journal.Answered, asItIs)
	s.addRequests(5, s.Now.Add(-time.Minute), shop, journal.Refused, refusedByUs)
	s.addRequests(3, s.Now.Add(-time.Minute), otherShop, journal.Answered, refusedByDirectory)
	s.addRequests(2, s.Now.Add(-time.Minute), otherShop, journal.Answered, notAnswered)
	s.addRequests(9, s.Now.Add(-16*time.Minute), shop, journal.Answered, asItIs) // too long ago
	s.addRequests(40, s.Now.AddDate(0, 0, -1).Add(-time.Minute), shop, journal.Answered, asItIs)
	s.addRequests(20, s.Now.AddDate(0, 0, -3).Add(-time.Minute), shop, journal.Answered, refusedByDirectory)
	s.addRequests(99, s.Now.AddDate(0, 0, -8).Add(-time.Minute), shop, journal.Answered, asItIs) // too long ago
	s.want(s.get("viewer", "/"), 200, "the last 15 minutes, next to the same time of the 3 days before</span>",
		"<dt>Requests</dt><dd>16</dd><dd>usually 20</dd>",
		`<dt>Refused by us</dt><dd class="tb">5</dd><dd>31.2`, "usually 0.0",
		"<dt>Refused by directories</dt><dd>3</dd><dd>18.8", "usually 33.3",
		"<dt>Unanswered</dt><dd>2</dd><dd>12.5")
	s.want(s.get("own-viewer", "/"), 200, "<dt>Requests</dt><dd>11</dd>", "<dt>Unanswered</dt><dd>0</dd>")
}

// TestK3ChartOfAnHourHasABarForEachMinute.
func TestK3ChartOfAnHourHasABarForEachMinute(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.addRequests(4, s.Now.Add(-10*time.Minute), shop, journal.Answered, asItIs)
	for span, bars := range map[time.Duration]int{15 * time.Minute: 15, time.Hour: 60} {
		o, err := s.Admin.Overview(t.Context(), actor("viewer"), s.Now.Add(-span), time.Time{})
		must(t, err)
		if len(o.Chart) != bars || o.Chart[bars-10].Counts[0] != 4 || o.Chart[bars-11].Counts[0] != 0 {
			t.Errorf("of %v there are %d bars: %+v", span, len(o.Chart), o.Chart)
		}
	}
	s.want(s.get("viewer", "/?time=15m"), 200, `href="/?time=15m" aria-current="true"`, `href="/?time=1h"`, `href="/?time=24h"`,
		`href="/?time=7d"`, `href="/?time=30d"`)
}

// TestK3DirectoryNoticeTakesEnoughRequests: below 20 requests, and from 90 % good answers on, nothing is said. Old
// failures do not count once the newest requests are good, and new ones do not wait for the average.
func TestK3DirectoryNoticeTakesEnoughRequests(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		add  func(s *site, at func(minutes int) time.Time)
		want string
	}{
		"19 of 19": {func(s *site, at func(int) time.Time) {
			s.addRequests(19, at(2), shop, journal.Answered, refusedByDirectory)
		}, ""},
		"20 of 20": {func(s *site, at func(int) time.Time) {
			s.addRequests(20, at(2), shop, journal.Answered, refusedByDirectory)
		}, "visa: refused by the directory"},
		"exactly a tenth": {func(s *site, at func(int) time.Time) {
			s.addRequests(18, at(2), shop, journal.Answered, asItIs)
			s.addRequests(2, at(2), shop, journal.Answered, notAnswered)
		}, ""},
		"more than a tenth": {func(s *site, at func(int) time.Time) {
			s.addRequests(18, at(2), shop, journal.Answered, asItIs)
			s.addRequests(3, at(2), shop, journal.Answered, notAnswered)
		}, "visa: no usable answer from the directory"},
		"the newest are good": {func(s *site, at func(int) time.Time) {
			s.addRequests(40, at(5), shop, journal.Answered, refusedByDirectory)
			s.addRequests(20, at(2), shop, journal.Answered, asItIs)
		}, ""},
		"the newest are bad": {func(s *site, at func(int) time.Time) {
			s.addRequests(300, at(9), shop, journal.Answered, asItIs)
			s.addRequests(21, at(2), shop, journal.Answered, refusedByDirectory)
		}, "visa: refused by the directory"},
		"refused by us": {func(s *site, at func(int) time.Time) {
			s.addRequests(30, at(2), otherShop, journal.Answered, asItIs)
			s.addRequests(20, at(2), otherShop, journal.Refused, refusedByUs)
		}, ""},
		"most refused by us": {func(s *site, at func(int) time.Time) {
			s.addRequests(19, at(2), otherShop, journal.Answered, asItIs)
			s.addRequests(20, at(2), otherShop, journal.Refused, refusedByUs)
		}, otherShop + ": most requests are refused"},
		"refused since an operator disabled the merchant": {func(s *site, at func(int) time.Time) {
			s.want(s.post("operator", "/merchants/Other%20Shop",
				url.Values{"do": {"disable"}, "reason": {"stolen keys"}, "sure": {"1"}}), 303)
			s.addRequests(20, at(2), otherShop, journal.Refused, refusedByUs)
		}, ""},
		"no card ranges": {func(s *site, at func(int) time.Time) {
			s.addRequests(40, at(2), otherShop, journal.Refused, func(r *journal.Record) {
				refusedByUs(r)
				r.ErrorCode = "305"
			})
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.AddNode()
			test.add(s, func(minutes int) time.Time { return s.Now.Add(-time.Duration(minutes) * time.Minute) })
			open, _ := s.needs("viewer")
			switch {
			case test.want == "" && !strings.Contains(open, "All clear."):
				t.Errorf("what needs attention: %s", open)
			case test.want == "":
			case !strings.Contains(open, test.want), strings.Count(open, "<p>Since ") != 1, !strings.Contains(open, "Since 1 Mar 11:58:00."),
				!strings.Contains(open, `href="/docs/operating/alerts.html#threeds`):
				t.Errorf("want %q alone: %s", test.want, open)
			}
		})
	}
}

// TestK3NoticeIsListedForADayAfterItIsOver: with its end. What comes back soon is the same notice, and a second node
// does not disturb.
func TestK3NoticeIsListedForADayAfterItIsOver(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	n := s.AddNode()
	s.keep(0)
	began := s.Now
	n.Endings["api.tls.cert"] = s.Now.Add(29 * 24 * time.Hour)
	n.Members[0].Problems = []cluster.Problem{{Part: "journal", Text: "is not written", Since: began}}
	s.keep(time.Minute)
	n.Members[0].Problems, n.Endings = nil, map[string]time.Time{}
	n.Members[0].Past = []cluster.Problem{
		{Part: "journal", Text: "is not written", Since: began, Over: began.Add(90 * time.Second)},
		{Part: "store", Text: "cannot be reached", Since: began, Over: began.Add(95 * time.Second)}, // nobody could look
	}
	s.keep(time.Minute)
	wantOver := func(texts ...string) {
		t.Helper()
		open, over := s.needs("viewer")
		if !strings.Contains(open, "All clear.") || strings.Count(over, "<li>") != len(texts) {
			t.Errorf("open: %s\nover: %s", open, over)
		}
		for _, text := range texts {
			if !strings.Contains(over, text) {
				t.Errorf("over has no %q: %s", text, over)
			}
		}
	}
	all := []string{
		"The journal is not written</p><p>From 1 Mar 12:00:00, <b>over since 1 Mar 12:01:30</b>",
		"The store cannot be reached</p><p>From 1 Mar 12:00:00, <b>over since 1 Mar 12:01:35</b>",
		"A certificate ends in 28 days: api.tls.cert</p><p>From ",
	}
	wantOver(all...)
	n.Members[0].Past = nil // the node was started again, and has forgotten what is over
	s.keep(time.Minute)
	wantOver(all...)
	n.Endings["api.tls.cert"] = s.Now.Add(29 * 24 * time.Hour)
	s.keep(time.Minute)
	if open, over := s.needs("viewer"); !strings.Contains(open, "A certificate ends") || strings.Contains(over, "A certificate ends") {
		t.Errorf("what came back: open %s\nover %s", open, over)
	}
	must(t, s.Admin.KeepNotices(t.Context(), "node-2"))
	n.Endings = map[string]time.Time{}
	s.keep(time.Minute)
	wantOver(all...)
	fresh := directory.RefreshStatus{Generation: 3, Ranges: 1204, Loaded: s.Now.Add(24 * time.Hour)}
	s.PutStatus("visa", fresh)
	s.PutStatus("mastercard", fresh)
	s.keep(24*time.Hour - 3*time.Minute)
	wantOver(all[2])
	s.keep(3 * time.Minute)
	wantOver()
}

// A brokenJournal cannot be counted.
type brokenJournal struct{ journal.Store }

func (brokenJournal) Flow(context.Context, journal.FlowQuery) ([]journal.FlowCount, error) {
	return nil, errors.New("the database is away")
}

func (brokenJournal) Count(context.Context, journal.CountQuery) ([]journal.Rollup, error) {
	return nil, errors.New("the database is away")
}

// TestK3NoticesOfTheJournalOutliveIt: while the journal cannot be read the overview is there, with what else needs
// attention, and what was known from the journal is not taken to be over.
func TestK3NoticesOfTheJournalOutliveIt(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	n := s.AddNode()
	s.addRequests(20, s.Now.Add(-2*time.Minute), shop, journal.Answered, refusedByDirectory)
	s.keep(0)
	n.Members[0].Problems = []cluster.Problem{{Part: "journal", Text: "is not written", Since: s.Now}}
	s.Admin.Journal = brokenJournal{s.Journal}
	s.keep(time.Minute)
	s.want(s.get("viewer", "/"), 200, "The journal cannot be read, so there are no counts.", "The journal is not written", "visa: refused by the directory")
	if _, over := s.needs("viewer"); over != "" {
		t.Errorf("over: %s", over)
	}
}
