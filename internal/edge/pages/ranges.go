package pages

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/edge/admin"
	"github.com/openthreeds/threeds/internal/edge/lanes"
)

// A rangeStatus is how things stand with the card ranges of a scheme, as the admin API has it.
type rangeStatus struct {
	admin.RangesOfScheme
	Match *rangeMatch

	Age   string
	Pairs [][2]string // addresses of comparisons with what they are called
}

// A rangeMatch is what was found of a prefix in one scheme.
type rangeMatch struct{ admin.RangeMatch }

// Left returns how many ranges were found beside those that are shown.
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
		"accept": "Accepted. A node that serves uses them within seconds.", "refresh": "The directory server is asked as soon as the protocol allows.",
	}[asked.Get("done")]
	prefix := strings.ReplaceAll(strings.TrimSpace(asked.Get("prefix")), " ", "")
	// A whole card number is refused, and the page does not show it again.
	if len(prefix) > admin.MaxPrefix && cardnumber.MayBe(prefix) {
		view.Fault, prefix = "This looks like a whole card number. Its first 6 to 12 digits are enough.", ""
	}
	start := time.Now()
	all, err := listAll[rangeStatus](h, v, "ranges", nil)
	if err != nil {
		return result{}, err
	}
	for i := range all {
		s := &all[i]
		if prefix != "" && view.Fault == "" {
			var found rangeStatus
			asked := url.Values{"prefix": {prefix}}
			if view.Fault, err = h.submit(v, http.MethodGet, "ranges/"+url.PathEscape(s.Scheme), asked, nil, &found); err != nil {
				return result{}, err
			}
			s.Match = found.Match
		}
		s.describe()
	}
	view.Schemes, view.Prefix, view.IsSearched = all, prefix, prefix != "" && view.Fault == ""
	return result{template: "ranges", title: "Card ranges", data: view, db: time.Since(start), status: faultStatus(view.Fault)}, nil
}

// describe sets what people read of a status.
func (s *rangeStatus) describe() {
	s.Age = "none yet"
	if s.Loaded != nil {
		s.Age = lanes.Span(s.AgeSeconds*1000) + " old"
	}
	at := "/ranges/" + url.PathEscape(s.Scheme) + "/diff?"
	if s.Held != 0 {
		s.Pairs = append(s.Pairs, [2]string{at + url.Values{"old": {strconv.FormatInt(s.Generation, 10)}, "new": {"held"}}.Encode(), "in use and held back"})
	}
	for i := 0; i+1 < len(s.Generations); i++ {
		newer, older := strconv.FormatInt(s.Generations[i], 10), strconv.FormatInt(s.Generations[i+1], 10)
		s.Pairs = append(s.Pairs, [2]string{at + url.Values{"old": {older}, "new": {newer}}.Encode(), older + " and " + newer})
	}
}

// A rangeChange is a range that two generations do not have in common.
type rangeChange struct {
	Change, Start, End string
	Old, New           *rangeInfo
}

// A rangeInfo is what is said of a range.
type rangeInfo struct {
	ACS []struct {
		Version   string
		MethodURL string   `json:"threeDSMethodURL"`
		InfoInd   []string `json:"acsInfoInd"`
	} `json:"acsProtocolVersions"`
	DS      []string `json:"dsProtocolVersions"`
	Country string   `json:"issuerCountryCode"`
}

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
	Scheme, Old, New        string
	Added, Removed, Changed int
	First                   []rangeChange
	Left                    int
	Held                    int64 // what may be accepted; 0: nothing
}

func rangeDiffPage(h *Handler, v *visit) (result, error) {
	at := "ranges/" + url.PathEscape(v.PathValue("scheme"))
	query := url.Values{}
	for _, name := range []string{"old", "new"} {
		if value := v.URL.Query().Get(name); value != "" {
			query.Set(name, value)
		}
	}
	var view rangeDiffView
	start := time.Now()
	if err := h.call(v, http.MethodGet, at+"/diff", query, nil, &view); err != nil {
		return result{}, err
	}
	view.Left = view.Added + view.Removed + view.Changed - len(view.First)
	if view.New == "held" && v.can("ranges accept") {
		var status rangeStatus
		if err := h.call(v, http.MethodGet, at, nil, nil, &status); err != nil {
			return result{}, err
		}
		view.Held = status.Held
	}
	return result{template: "rangediff", title: "Card ranges of " + h.schemeName(view.Scheme), data: view, db: time.Since(start)}, nil
}

// changeRanges accepts what is held back, or has the directory server asked.
func changeRanges(h *Handler, v *visit) (result, error) {
	do := v.PathValue("do")
	if !slices.Contains([]string{"accept", "refresh"}, do) {
		return result{}, errNoPage
	}
	body := map[string]any{}
	if held := v.PostForm.Get("held"); do == "accept" && held != "" {
		number, err := strconv.ParseInt(held, 10, 64)
		if err != nil {
			return result{}, &admin.Problem{Status: http.StatusBadRequest, Detail: "The form names no generation. Open the page again."}
		}
		body["held"] = number
	}
	at := fmt.Sprintf("ranges/%s/%s", url.PathEscape(v.PathValue("scheme")), do)
	err := h.call(v, http.MethodPost, at, nil, body, nil)
	return result{to: "/ranges?done=" + do}, err
}
