package pages

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/edge/admin"
	"github.com/openthreeds/threeds/internal/edge/lanes"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/peers/rangequery"
)

// A rangeStatus is how things stand with the card ranges of a scheme.
type rangeStatus struct {
	*admin.RangesOfScheme
	Match *rangeMatch

	Age   string
	Pairs [][2]string // addresses of comparisons with what they are called
}

// A rangeMatch is what was found of a prefix in one scheme.
type rangeMatch struct{ *admin.RangeMatch }

// Left returns how many more ranges were found than are shown.
func (m *rangeMatch) Left() int { return m.Count - len(m.Ranges) }

// A rangesView is the data of the page of card ranges.
type rangesView struct {
	Prefix     string
	Fault      string
	IsSearched bool
	Schemes    []rangeStatus
	CanAccept  bool
	CanRefresh bool
	Done       string
}

func rangesPage(h *Handler, v *visit) (result, error) {
	asked := v.URL.Query()
	view := rangesView{
		CanAccept: v.can("ranges accept"), CanRefresh: v.can("ranges refresh"),
	}
	view.Done = map[string]string{
		"accept":  "Accepted. A node that serves uses them within seconds.",
		"refresh": "The directory server is asked as soon as the protocol allows.",
	}[asked.Get("done")]
	prefix := strings.ReplaceAll(strings.TrimSpace(asked.Get("prefix")), " ", "")
	// A whole card number is refused, and the page does not show it again.
	if len(prefix) > admin.MaxPrefix && cardnumber.MayBe(prefix) {
		view.Fault, prefix = "This looks like a whole card number. Its first 6 to 12 digits are enough.", ""
	}
	start := time.Now()
	found, err := h.Admin.ListRanges(v.Context(), v.session.Actor)
	if err != nil {
		return result{}, err
	}
	var all []rangeStatus
	for _, one := range found {
		s := rangeStatus{RangesOfScheme: one}
		if prefix != "" && view.Fault == "" {
			found, err := h.Admin.FindRanges(v.Context(), v.session.Actor, one.Scheme, prefix)
			if view.Fault, err = faultOf(err); err != nil {
				return result{}, err
			}
			if found != nil && found.Match != nil {
				s.Match = &rangeMatch{found.Match}
			}
		}
		s.describe()
		all = append(all, s)
	}
	view.Schemes, view.Prefix, view.IsSearched = all, prefix, prefix != "" && view.Fault == ""
	return result{
		template: "ranges", title: "Card ranges", data: view, db: time.Since(start), status: faultStatus(view.Fault),
	}, nil
}

// describe sets what people read of a status.
func (s *rangeStatus) describe() {
	s.Age = "none yet"
	if s.Loaded != nil {
		s.Age = lanes.Span(s.AgeSeconds*1000) + " old"
	}
	at := "/ranges/" + url.PathEscape(s.Scheme) + "/diff?"
	if s.Held != 0 {
		s.Pairs = append(s.Pairs, [2]string{
			at + url.Values{"old": {strconv.FormatInt(s.Generation, 10)}, "new": {"held"}}.Encode(), "in use and held back"})
	}
	for i := 0; i+1 < len(s.Generations); i++ {
		newer, older := strconv.FormatInt(s.Generations[i], 10), strconv.FormatInt(s.Generations[i+1], 10)
		s.Pairs = append(s.Pairs,
			[2]string{at + url.Values{"old": {older}, "new": {newer}}.Encode(), older + " and " + newer})
	}
}

// A rangeChange is a range that two generations do not have in common.
type rangeChange struct {
	Change, Start, End string
	Old, New           *rangeInfo
}

// A rangeInfo is what is said of a range.
type rangeInfo rangequery.Info

// String says in a line what is said of a range.
func (i *rangeInfo) String() string {
	var parts []string
	for _, v := range i.ACS {
		text := v.Version
		if v.MethodURL != "" {
			text += " " + v.MethodURL
		}
		if len(v.InfoInd) > 0 {
			text += " acsInfoInd " + strings.Join(v.InfoInd, ",")
		}
		parts = append(parts, text)
	}
	parts = append(parts, "directory server "+strings.Join(i.DS, ","))
	if i.Country != "" {
		parts = append(parts, "issuer in "+i.Country)
	}
	return strings.Join(parts, "; ")
}

// A rangeDiffView is the data of the page that compares two generations.
type rangeDiffView struct {
	*rangequery.Difference
	First []rangeChange
	Left  int
	Held  int64 // what may be accepted; 0: nothing
}

func rangeDiffPage(h *Handler, v *visit) (result, error) {
	asked := v.URL.Query()
	start := time.Now()
	diff, status, err := h.Admin.CompareRanges(v.Context(), v.session.Actor, v.PathValue("scheme"), asked.Get("old"),
		asked.Get("new"))
	if err != nil {
		return result{}, err
	}
	view := rangeDiffView{Difference: diff, Left: diff.Added + diff.Removed + diff.Changed - len(diff.First)}
	for _, c := range diff.First {
		view.First = append(view.First, rangeChange{c.Change, c.Start, c.End, (*rangeInfo)(c.Old), (*rangeInfo)(c.New)})
	}
	if view.New == "held" && v.can("ranges accept") {
		view.Held = status.Held
	}
	return result{
		template: "rangediff", title: "Card ranges of " + h.schemeName(view.Scheme), data: view, db: time.Since(start),
	}, nil
}

// changeRanges accepts what is held back, or has the directory server asked.
func changeRanges(h *Handler, v *visit) (result, error) {
	do := v.PathValue("do")
	if !slices.Contains([]string{"accept", "refresh"}, do) {
		return result{}, errNoPage
	}
	by := v.session.Actor
	if err := ops.Find("ranges " + do).Check(&by); err != nil {
		return result{}, err
	}
	d, err := h.Admin.FindDirectory(v.PathValue("scheme"))
	if err != nil {
		return result{}, err
	}
	if do == "refresh" {
		return result{to: "/ranges?done=refresh"}, h.Acts.RefreshRanges(v.Context(), by, d.Scheme)
	}
	var held int64
	if text := v.PostForm.Get("held"); text != "" {
		if held, err = strconv.ParseInt(text, 10, 64); err != nil {
			return result{},
				&admin.Problem{Status: http.StatusBadRequest, Detail: "The form names no generation. Open the page again."}
		}
	}
	_, err = h.Acts.AcceptRanges(v.Context(), by, d.Scheme, held)
	return result{to: "/ranges?done=accept"}, err
}
