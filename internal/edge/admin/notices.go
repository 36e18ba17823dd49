package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/state/cluster"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
)

// A Notice says in words what needs attention, and what to do.
type Notice struct {
	Key   string    `json:"key"`   // the same as long as it is the same thing
	Level string    `json:"level"` // bad or warning
	Title string    `json:"title"`
	Text  string    `json:"text"`
	Link  string    `json:"link"` // a page of the console
	Do    string    `json:"do"`   // what the link is called
	Help  string    `json:"help"` // what to do: a page of the documentation that the console has
	Since time.Time `json:"since"`
	Over  time.Time `json:"over,omitzero"` // since when it is over; zero: it is not
	// Merchant is the merchant whose people see it too; "" means that it is for those who see all.
	Merchant string `json:"merchant,omitempty"`
}

// The levels of a notice.
const (
	LevelBad     = "bad"
	LevelWarning = "warning"
)

const (
	// noticesState is the key of the small value of the store that has the notices of the last day. The lease of the
	// same name says which node keeps them.
	noticesState = "notices"

	// NoticeInterval is how often a node looks for notices.
	NoticeInterval = 15 * time.Second

	// noticeLease is for how long a node keeps the notices without another word.
	noticeLease = 3 * NoticeInterval

	// keepOver is how long a notice stays that is over.
	keepOver = 24 * time.Hour

	// againWithin is how soon after its end a notice is taken for the same one when it comes back.
	againWithin = 15 * time.Minute

	// maxNotices is how many notices are kept. Those that are over give way first.
	maxNotices = 60

	// maxNoticeText is the length of the longest text of a notice, in runes. A fault of a configuration may be long.
	maxNoticeText = 400
)

// The pages of the documentation that say what to do, up to the name of an alert.
const (
	alertsHelp = "/docs/operating/alerts.html#threeds"
	stateHelp  = "/docs/operating/alerts-state.html#threeds"
)

// The begins of the keys of notices that are found in the journal. They stay as they are while it cannot be read.
const (
	directoryNotice = "directory "
	merchantNotice  = "merchant "
)

// A finding is what a look for notices has found.
type finding struct {
	notices     []Notice
	directories []Directory
	flow        []journal.FlowCount // flow counts the requests of the last 15 minutes.
	flowError   error               // flowError says why the journal could not count them.
}

// find looks for all that needs attention now. What nodes say is over is among it.
func (h *Handler) find(ctx context.Context) (f finding, err error) {
	if f.flow, f.flowError = h.countNow(ctx); f.flowError == nil {
		f.notices = h.noticesOfFlow(ctx, f.flow)
	}
	if h.Node == nil {
		return f, nil
	}
	members, err := h.Node.Members(ctx)
	if err != nil {
		return f, err
	}
	if f.directories, err = h.readDirectories(ctx); err != nil {
		return f, err
	}
	ofWebhooks, err := h.noticesOfWebhooks(ctx)
	f.notices = slices.Concat(noticesOfMembers(members), h.noticesOfServer(f.directories), h.noticesOfNodes(members),
		f.notices, ofWebhooks)
	for i := range f.notices {
		n := &f.notices[i]
		if runes := []rune(n.Text); len(runes) > maxNoticeText {
			n.Text = string(runes[:maxNoticeText]) + "…"
		}
	}
	return f, err
}

// readNotices returns the notices that a node has kept.
func (h *Handler) readNotices(ctx context.Context) (kept []Notice, err error) {
	data, err := h.Keeper.State(ctx, noticesState)
	if errors.Is(err, store.ErrNotFound) || err == nil && len(data) == 0 {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &kept)
	}
	return kept, err
}

// KeepNotices looks for notices, and keeps in the store what is found and what is over. One node does so at a time.
func (h *Handler) KeepNotices(ctx context.Context, node string) error {
	lease, err := h.Keeper.Acquire(ctx, noticesState, node, noticeLease)
	if errors.Is(err, store.ErrHeld) {
		return nil
	}
	if err != nil {
		return err
	}
	kept, err := h.readNotices(ctx)
	if err != nil {
		kept = nil // what cannot be read is replaced
	}
	f, err := h.find(ctx)
	if err != nil {
		return err
	}
	was, _ := json.Marshal(kept) // such values can be encoded
	now, _ := json.Marshal(mergeNotices(kept, &f, h.Now()))
	if string(was) == string(now) {
		return nil
	}
	if err := h.Keeper.PutState(ctx, noticesState, now, lease); !errors.Is(err, store.ErrFenced) {
		return err
	}
	return nil
}

// mergeNotices returns the notices that there are now, those that are not over first: the kept ones, of which some may
// be over by now, and those that were found.
func mergeNotices(kept []Notice, f *finding, now time.Time) (all []Notice) {
	now = now.UTC().Truncate(time.Second)
	found := slices.Clone(f.notices)
	take := func(isWanted func(*Notice) bool) *Notice {
		i := slices.IndexFunc(found, func(n Notice) bool { return isWanted(&n) })
		if i < 0 {
			return nil
		}
		n := found[i]
		found = slices.Delete(found, i, i+1)
		return &n
	}
	for _, was := range kept {
		isOpen := was.Over.IsZero()
		isNotRead := f.flowError != nil &&
			(strings.HasPrefix(was.Key, directoryNotice) || strings.HasPrefix(was.Key, merchantNotice))
		past := take(func(n *Notice) bool { return n.Key == was.Key && !n.Over.IsZero() && n.Since.Equal(was.Since) })
		var again *Notice
		if isOpen || now.Sub(was.Over) < againWithin {
			again = take(func(n *Notice) bool { return n.Key == was.Key && n.Over.IsZero() })
		}
		switch {
		case again != nil:
			again.Since = was.Since
			was = *again
		case past != nil:
			was = *past
		case isOpen && !isNotRead:
			was.Over = now
		}
		all = append(all, was)
	}
	for _, n := range found {
		if n.Since = n.Since.UTC().Truncate(time.Second); n.Since.Unix() <= 0 {
			n.Since = now
		}
		all = append(all, n)
	}
	all = slices.DeleteFunc(all, func(n Notice) bool { return !n.Over.IsZero() && now.Sub(n.Over) >= keepOver })
	slices.SortStableFunc(all, func(a, b Notice) int {
		switch isOpen := a.Over.IsZero(); {
		case isOpen && !b.Over.IsZero():
			return -1
		case !isOpen && b.Over.IsZero():
			return 1
		case isOpen:
			return strings.Compare(a.Level, b.Level) // bad comes before warning
		}
		return b.Over.Compare(a.Over)
	})
	return all[:min(len(all), maxNotices)]
}

// splitNotices returns the notices that an actor may see: those that are not over, and those that are.
func splitNotices(all []Notice, by *operator.Actor) (open, over []Notice) {
	open, over = []Notice{}, []Notice{}
	for _, n := range all {
		switch {
		case by.IsBound() && (n.Merchant == "" || !by.CanSee(n.Merchant)):
		case n.Over.IsZero():
			open = append(open, n)
		default:
			over = append(over, n)
		}
	}
	return open, over
}

// The parts of /readyz that are of one node. All others look the same on each.
var partsOfNode = []string{
	"store", "journal", "journal keys", "journal evidence", "audit trail", "keys", "webhooks", "configuration", "process",
}

// isOfNode reports whether a part is of one node: one of those, or the way to a directory.
func isOfNode(part string) bool {
	return slices.Contains(partsOfNode, part) || strings.HasPrefix(part, cluster.WayTo)
}

// noticesOfMembers says what is not well with single nodes, and what was not.
func noticesOfMembers(all []cluster.Member) (notices []Notice) {
	for i := range all {
		m := &all[i]
		for _, p := range slices.Concat(m.Problems, m.Past) {
			if !isOfNode(p.Part) || m.State == cluster.Silent && p.Over.IsZero() {
				continue
			}
			n := DescribeProblem(&p)
			n.Key, n.Since, n.Over = "node "+m.Name+" "+p.Part, p.Since, p.Over
			if len(all) > 1 {
				n.Title = m.Name + ": " + n.Title
			}
			notices = append(notices, n)
		}
	}
	return notices
}

// DescribeProblem says in words what is not well with a node, and leads to the page that shows it.
func DescribeProblem(p *cluster.Problem) Notice {
	n := Notice{
		Level: LevelBad, Link: "/nodes", Do: "See nodes", Title: "Not all is well with " + p.Part, Text: p.Text + ".",
		Help: stateHelp + "degraded",
	}
	scheme, isWay := strings.CutPrefix(p.Part, cluster.WayTo)
	failure, isWrite := strings.CutPrefix(p.Text, "writes fail: ")
	switch {
	case isWay:
		n.Title, n.Link, n.Do = "The directory server of "+scheme+" cannot be reached", "/directories", "See directories"
		n.Help = alertsHelp + "directorygone"
		n.Text = p.Text + ". Its requests are refused immediately. " +
			"Every few seconds one is let through to see whether it is back."
	case p.Part == "store" && isWrite:
		n.Title = "The store refuses writes: " + failure
		n.Text, n.Help = "Every /auth is refused until it takes them again.", stateHelp+"storefailing"
	case p.Part == "store":
		n.Title = "The store " + p.Text
		n.Text, n.Help = "Every /auth is refused until the server can write transactions.", stateHelp+"storefailing"
	case p.Part == "journal":
		n.Title, n.Help = "The journal is not written", stateHelp+"journalfailing"
		n.Text = "What happens waits in memory, which stops no payment. The log says why: look for \"journal not written\"."
	case p.Part == "configuration":
		how, why, _ := strings.Cut(p.Text, ": ")
		n.Title, n.Text, n.Help = "The configuration on disk "+how, why, stateHelp+"configurationrefused"
		if !strings.HasSuffix(why, "?") { // a fault may end with a question: did you mean this?
			n.Text += "."
		}
	}
	return n
}

// A tally counts requests, and the bad ones among them.
type tally struct{ all, bad int64 }

func (t tally) share() float64 {
	if t.all == 0 {
		return 0
	}
	return float64(t.bad) / float64(t.all)
}

// A limit says which share of bad requests is worth a notice.
type limit struct {
	usual float64 // usual is the limit for all requests of the last 15 minutes.
	// severe is the limit for the newest requests alone, so that a notice does not wait for the average.
	severe float64
}

// leastRequests is how many requests a notice takes.
const leastRequests = 20

var (
	directoryLimit = limit{usual: 0.1, severe: 0.5}
	merchantLimit  = limit{usual: 0.5, severe: 0.8}
)

// isBroken reports whether too many requests are bad, by minute, and since which minute. The newest minutes that have
// enough requests decide whether it still is so.
func (l limit) isBroken(minutes map[time.Time]tally) (since time.Time, isBroken bool) {
	newest := slices.SortedFunc(maps.Keys(minutes), func(a, b time.Time) int { return b.Compare(a) })
	var all, lately tally
	for _, at := range newest {
		m := minutes[at]
		if lately.all < leastRequests {
			lately.all, lately.bad = lately.all+m.all, lately.bad+m.bad
		}
		all.all, all.bad = all.all+m.all, all.bad+m.bad
	}
	if all.all < leastRequests || lately.share() <= l.usual || all.share() <= l.usual && lately.share() <= l.severe {
		return since, false
	}
	for _, at := range newest {
		switch isBad := minutes[at].share() > l.usual; {
		case isBad:
			since = at
		case !since.IsZero():
			return since, true
		}
	}
	return since, true
}

// noticesOfFlow says which directories do not answer well, and the requests of which merchants are refused.
func (h *Handler) noticesOfFlow(ctx context.Context, counts []journal.FlowCount) (notices []Notice) {
	schemes, merchants := sumsBy(counts, func(c *journal.FlowCount) string { return c.Scheme }),
		sumsBy(counts, func(c *journal.FlowCount) string { return c.Merchant })
	for _, scheme := range slices.Sorted(maps.Keys(schemes)) {
		s := schemes[scheme]
		since, isBroken := directoryLimit.isBroken(s.tallies((*journal.Flow).Sent, (*journal.Flow).Failed))
		if scheme == "" || !isBroken {
			continue
		}
		title, help := scheme+": no usable answer from the directory", alertsHelp+"directoryfailing"
		if s.all.Declined >= s.all.Unanswered {
			title, help = scheme+": refused by the directory", alertsHelp+"directoryrefuses"
		}
		notices = append(notices, Notice{
			Key: directoryNotice + scheme, Level: LevelBad, Title: title, Since: since, Do: "See them", Help: help,
			Text: fmt.Sprintf(
				"Of %d requests of the last 15 minutes the directory refused %d and left %d without a usable answer.%s",
				s.all.Sent(), s.all.Declined, s.all.Unanswered,
				h.describeLast(ctx, journal.Query{Scheme: scheme, Status: "failed", From: since})),
			Link: "/authentications?" + url.Values{"scheme": {scheme}, "status": {"failed"}, "time": {"15m"}}.Encode(),
		})
	}
	for _, merchant := range slices.Sorted(maps.Keys(merchants)) {
		s := merchants[merchant]
		refused := func(f *journal.Flow) int64 { return f.Refused }
		since, isBroken := merchantLimit.isBroken(s.tallies(func(f *journal.Flow) int64 { return f.Requests }, refused))
		if merchant == "" || !isBroken {
			continue
		}
		if e, err := h.Merchants().Get(ctx, merchant); err == nil && e.Disabled != nil {
			continue // an operator wants them refused
		}
		notices = append(notices, Notice{
			Key: merchantNotice + merchant, Level: LevelBad, Title: merchant + ": most requests are refused", Since: since,
			Merchant: merchant, Do: "See them", Help: alertsHelp + "authrefused",
			Text: fmt.Sprintf("This server refused %d of %d requests of the last 15 minutes.%s", s.all.Refused, s.all.Requests,
				h.describeLast(ctx, journal.Query{Merchant: merchant, Status: journal.RefusedRequest, From: since})),
			Link: "/authentications?" + url.Values{
				"merchant": {merchant}, "status": {journal.RefusedRequest}, "time": {"15m"},
			}.Encode(),
		})
	}
	return notices
}

// A minuteSums has the flow of each minute, and of all.
type minuteSums struct {
	all     journal.Flow
	minutes map[time.Time]*journal.Flow
}

// sumsBy adds up counts by what a function returns.
func sumsBy(counts []journal.FlowCount, of func(*journal.FlowCount) string) map[string]*minuteSums {
	sums := map[string]*minuteSums{}
	for i := range counts {
		c := &counts[i]
		s := sums[of(c)]
		if s == nil {
			s = &minuteSums{minutes: map[time.Time]*journal.Flow{}}
			sums[of(c)] = s
		}
		if s.minutes[c.Minute] == nil {
			s.minutes[c.Minute] = new(journal.Flow)
		}
		s.all.Add(&c.Flow)
		s.minutes[c.Minute].Add(&c.Flow)
	}
	return sums
}

// tallies returns all and bad requests of each minute.
func (s *minuteSums) tallies(all, bad func(*journal.Flow) int64) map[time.Time]tally {
	got := map[time.Time]tally{}
	for at, f := range s.minutes {
		if n := all(f); n > 0 {
			got[at] = tally{n, bad(f)}
		}
	}
	return got
}

// describeLast says how the last request of a query was refused; "" if it is not known.
func (h *Handler) describeLast(ctx context.Context, q journal.Query) string {
	q.Limit = 1
	page, err := h.Journal.Search(ctx, q)
	if err != nil || len(page.Records) == 0 || page.Records[0].ErrorCode == "" {
		return ""
	}
	r := &page.Records[0]
	text := " The last one: error " + r.ErrorCode
	if code, err := strconv.Atoi(r.ErrorCode); err == nil {
		text += ", " + strings.TrimSuffix(message.Code(code).Description(), ".")
	}
	if len(r.Elements) > 0 {
		text += ": " + strings.Join(r.Elements[:min(3, len(r.Elements))], ", ")
	}
	return text + "."
}
