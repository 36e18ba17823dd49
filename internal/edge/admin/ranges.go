package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/peers/directory"
	"github.com/openthreeds/threeds/internal/peers/rangequery"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/state/store"
)

// A RangesOfScheme is how things stand with the card ranges of one scheme.
type RangesOfScheme struct {
	Scheme string `json:"scheme"`
	Ranges
	Generations []int64 `json:"generations"` // those that the store has, the newest first
}

// A RangeMatch is what the server would do with cards that begin with a prefix, in one scheme.
type RangeMatch struct {
	*rangequery.Match
	Of    int          `json:"of"`    // how many ranges are in use on this node
	Found []FoundRange `json:"found"` // for each entry of Ranges, in the same order
}

// A FoundRange is what the server would do with the cards of one range.
type FoundRange struct {
	// the versions that directory, issuer and configuration have in common, the newest first
	Usable   []string `json:"usable"`
	Method   bool     `json:"method"`   // a 3DS Method is run with at least one of them
	AReqURLs []string `json:"areqURLs"` // where the AReq goes, in the order in which they are tried
	Lines    []string `json:"lines"`    // what the directory server says of the range, in words
}

// MaxPrefix is how many digits a prefix has at most: one less than the shortest card number.
const MaxPrefix = 12

// ListRanges returns how things stand with the card ranges of each directory.
func (h *Handler) ListRanges(ctx context.Context, by operator.Actor) ([]*RangesOfScheme, error) {
	if err := ops.Find("ranges status").Check(&by); err != nil {
		return nil, err
	}
	if h.Node == nil {
		return nil, errNoNode
	}
	all := []*RangesOfScheme{}
	for _, d := range h.Node.Directories() {
		one, err := h.readRangesOf(ctx, &d)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func (h *Handler) readRangesOf(ctx context.Context, d *Directory) (*RangesOfScheme, error) {
	status, err := h.readRanges(ctx, d)
	if err != nil {
		return nil, err
	}
	one := &RangesOfScheme{Scheme: d.Scheme, Ranges: status, Generations: []int64{}}
	snapshots, err := h.Keeper.Snapshots(ctx, d.Scheme)
	for _, s := range snapshots {
		one.Generations = append(one.Generations, s.Generation)
	}
	return one, err
}

// findRanges returns a directory and its card ranges.
func (h *Handler) findRanges(ctx context.Context, by *operator.Actor,
	scheme string) (*Directory, *RangesOfScheme, error) {
	if err := ops.Find("ranges status").Check(by); err != nil {
		return nil, nil, err
	}
	d, err := h.FindDirectory(scheme)
	if err != nil {
		return nil, nil, err
	}
	status, err := h.readRangesOf(ctx, d)
	return d, status, err
}

// FoundRanges say how things stand with the card ranges of a scheme, and what was found there.
type FoundRanges struct {
	*RangesOfScheme
	Match *RangeMatch `json:"match"` // null: no prefix was asked for
}

func showRanges(h *Handler, r *request) (any, error) {
	return h.FindRanges(r.Context(), r.actor, r.PathValue("scheme"), r.URL.Query().Get("prefix"))
}

// FindRanges looks for the ranges that hold cards with a prefix, in what this node uses. "" looks for none.
func (h *Handler) FindRanges(ctx context.Context, by operator.Actor, scheme, prefix string) (*FoundRanges, error) {
	d, status, err := h.findRanges(ctx, &by, scheme)
	if err != nil {
		return nil, err
	}
	answer := &FoundRanges{RangesOfScheme: status}
	prefix = strings.ReplaceAll(prefix, " ", "")
	if prefix == "" {
		return answer, nil
	}
	if len(prefix) > MaxPrefix || strings.Trim(prefix, "0123456789") != "" {
		return nil, refuse(http.StatusBadRequest,
			"prefix: want 1 to %d digits, the first ones of a card number and not all of it.", MaxPrefix)
	}
	g := h.Node.Generation(d.Scheme)
	answer.Match = &RangeMatch{
		Match: rangequery.Find(d.Scheme, status.Generation, g, prefix), Of: g.Len(), Found: []FoundRange{},
	}
	for i, info := range answer.Match.Infos {
		answer.Match.Found = append(answer.Match.Found, newFoundRange(d, g, info, answer.Match.Ranges[i].Country))
	}
	return answer, nil
}

func newFoundRange(d *Directory, g *ranges.Generation, info *ranges.Info, country string) FoundRange {
	f := FoundRange{Usable: []string{}, AReqURLs: []string{}, Lines: rangequery.DescribeInfo(info)}
	for _, v := range info.ACS {
		if slices.Contains(d.Versions, v.Version) && slices.Contains(info.DSVersions, v.Version) {
			f.Usable = append(f.Usable, v.Version)
			f.Method = f.Method || v.MethodURL != ""
		}
	}
	slices.Reverse(f.Usable)
	for _, u := range g.DSURLs {
		if u.Country != "" && u.Country == country {
			f.AReqURLs = append(f.AReqURLs, u.URL)
		}
	}
	f.AReqURLs = append(f.AReqURLs, d.AReqURL)
	for _, u := range g.DSURLs {
		if u.Country == "" && u.URL != d.AReqURL {
			f.AReqURLs = append(f.AReqURLs, u.URL)
		}
	}
	return f
}

func compareRanges(h *Handler, r *request) (any, error) {
	diff, _, err := h.CompareRanges(r.Context(), r.actor, r.PathValue("scheme"), r.URL.Query().Get("old"),
		r.URL.Query().Get("new"))
	return diff, err
}

// CompareRanges says how two generations differ. Without names it compares what is held back, or else the newest
// generation, with the one before it. It also returns the current status.
func (h *Handler) CompareRanges(ctx context.Context, by operator.Actor,
	scheme, oldName, newName string) (*rangequery.Difference, *RangesOfScheme, error) {
	d, status, err := h.findRanges(ctx, &by, scheme)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case newName == "" && status.Held != 0:
		newName = directory.HeldName
	case newName == "":
		newName = strconv.FormatInt(status.Generation, 10)
	}
	if oldName == "" {
		oldName = strconv.FormatInt(status.Generation, 10)
		if i := slices.Index(status.Generations, status.Generation); oldName == newName && i >= 0 &&
			i+1 < len(status.Generations) {
			oldName = strconv.FormatInt(status.Generations[i+1], 10)
		}
	}
	old, err := h.openGeneration(ctx, "old", status, oldName)
	if err != nil {
		return nil, nil, err
	}
	now, err := h.openGeneration(ctx, "new", status, newName)
	if err != nil {
		return nil, nil, err
	}
	return rangequery.Compare(d.Scheme, oldName, newName, old, now), status, nil
}

// openGeneration reads the generation that a parameter names: a number of one, 0 for none, or "held".
func (h *Handler) openGeneration(ctx context.Context, parameter string, status *RangesOfScheme,
	name string) (*ranges.Generation, error) {
	g, err := directory.OpenNamed(ctx, h.Keeper, status.Scheme, name, status.Held)
	if errors.Is(err, store.ErrNotFound) {
		return nil, refuse(http.StatusBadRequest,
			"%s: want held, or the number of a generation that GET ranges shows.", parameter)
	}
	return g, err
}

// acceptRanges has the nodes use the generation that is held back.
func acceptRanges(h *Handler, r *request) (any, error) {
	var asked struct {
		Held int64 `json:"held"`
	}
	if err := r.decode(&asked); err != nil {
		return nil, err
	}
	d, err := h.FindDirectory(r.PathValue("scheme"))
	if err == nil {
		_, err = h.AcceptRanges(r.Context(), r.actor, d.Scheme, asked.Held)
	}
	if err != nil {
		return nil, err
	}
	return h.readRangesOf(r.Context(), d)
}

// refreshRanges has a node ask the directory server as soon as the protocol allows.
func refreshRanges(h *Handler, r *request) (any, error) {
	if err := r.decode(&struct{}{}); err != nil {
		return nil, err
	}
	d, err := h.FindDirectory(r.PathValue("scheme"))
	if err == nil {
		err = h.RefreshRanges(r.Context(), r.actor, d.Scheme)
	}
	if err != nil {
		return nil, err
	}
	return h.readRangesOf(r.Context(), d)
}
