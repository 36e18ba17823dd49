package lanes

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The scale of the drawing.
const (
	unitMS  = 6    // milliseconds of one unit
	cutMS   = 1500 // what takes longer is cut
	rowGap  = 37   // the least distance of two messages
	firstY  = 104  // of the first message
	cutRoom = 92   // of a time that is cut
)

// A grid says where lanes are: the first one, and how far the others are from each other.
type grid struct{ first, gap int }

// screen is the grid of a [Drawing].
var screen = grid{100, 104}

// x is where a lane is drawn.
func (g grid) x(l Lane) int { return g.first + g.gap*int(l) }

// A Row is one hop with everything that the drawing and the list of the phone need. Its fields are for the templates.
type Row struct {
	Key               string
	Link, Label, Time string
	Name, Gist        string
	FromName, ToName  string
	Current, Self     bool
	Stroke, Fill      string // classes
	Y, PickY, TimeY   int
	LabelX, LabelY    int
	StartX            int
	Line, Head        string // paths
	Ghost, GhostHead  string // the part beyond the directory server
	GhostClass        string
	GhostHeadClass    string
	Dots              []int    // lanes that it passes over
	GlyphFrom         int      // of the small drawing
	GlyphLine         string   // path
	Glyph             []int    // where its lanes are
	Wait              *waiting // after it
}

// A waiting is a time during which everybody waited for one party.
type waiting struct {
	Fill        string
	Name, Text  string // how long, and for what
	X, Y, H     int
	TextX       int
	TextY       int
	Anchor      string
	HasText     bool
	Cut         bool
	Y2, H2      int // of the part after a cut
	CutPath     string
	BoxY, CutY  int
	SmallHeight int // in the list of the phone
}

// A strip is a part of the sum of all times.
type strip struct {
	Fill, Dot  string
	Name, Time string
	X, W       string
	Cut        bool
	CutPath    string
}

// A Drawing is what happened, in lanes. Its fields are for the templates.
type Drawing struct {
	Height, RailEnd, UsHeight int
	Heads                     []head
	Rows                      []Row
	Strips                    []strip
	Total                     string
	Sum                       string // the strip in words
	ScaleY                    int
	Unseen                    bool // a part of a message is not seen
}

type head struct {
	X               int
	Fill, Name, Sub string
}

// Draw draws hops in their order. Parties has one entry for each lane, and chosen is the key of the hop that is shown
// next to the drawing.
func Draw(parties []Party, hops []Hop, chosen string) *Drawing {
	g := &Drawing{}
	names := make([]string, len(letters))
	for l := range letters {
		names[l] = parties[l].Name
		g.Heads = append(g.Heads, head{screen.x(Lane(l)), Lane(l).fill(), parties[l].Name, parties[l].Sub})
	}
	sums := make([]int64, len(letters))
	y := firstY
	for i := range hops {
		h := &hops[i]
		r := screen.newRow(h, names, y)
		r.Key, r.Link, r.Current = h.Key, h.Link, h.Key == chosen
		r.Time = Span(h.At.Sub(hops[0].At).Milliseconds())
		r.Label = r.Time + ": " + Join(" ", h.Name, h.Gist) + ", " + names[h.From] + " to " + names[h.To]
		if h.Self {
			r.Label = r.Time + ": " + Join(" ", h.Name, h.Gist)
		}
		if i+1 < len(hops) {
			ms := max(0, hops[i+1].At.Sub(h.At).Milliseconds())
			sums[h.Waits] += ms
			r.Wait, y = newWaiting(h, names, ms, y)
		}
		g.Unseen = g.Unseen || h.Beyond == Unseen
		g.Rows = append(g.Rows, r)
	}
	g.RailEnd = y + 30
	g.Height, g.UsHeight, g.ScaleY = g.RailEnd+22, g.RailEnd-2, g.RailEnd+8
	g.addStrips(sums, names)
	return g
}

// Keys returns the names by which addresses choose steps: a second one of a name has a number.
func Keys(steps []string) []string {
	seen := map[string]int{}
	keys := slices.Clone(steps)
	for i, step := range steps {
		if seen[step]++; seen[step] > 1 {
			keys[i] += "-" + strconv.Itoa(seen[step])
		}
	}
	return keys
}

// Shorten returns a text of at most so many characters.
func Shorten(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// Span returns a number of milliseconds for people.
func Span(ms int64) string {
	switch {
	case ms < 1000:
		return strconv.FormatInt(ms, 10) + " ms"
	case ms < 10_000:
		return fmt.Sprintf("%.3g s", float64(ms)/1000)
	case ms < 120_000:
		return fmt.Sprintf("%.1f s", float64(ms)/1000)
	case ms < 2*60*60*1000:
		return strconv.FormatInt(ms/60_000, 10) + " min"
	}
	return strconv.FormatInt(ms/3_600_000, 10) + " h"
}

// Prefix returns a text with another one before it, or "" if it is empty.
func Prefix(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

// Join joins the texts that are not empty.
func Join(by string, texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), by)
}

// newRow returns a hop at its place.
func (g grid) newRow(h *Hop, names []string, y int) Row {
	r := Row{
		Name: h.Name, Gist: h.Gist, Self: h.Self, Stroke: h.From.stroke(), Fill: h.From.fill(), FromName: names[h.From],
		ToName: names[h.To], Y: y, PickY: y - 23, TimeY: y + 4, StartX: g.x(h.From), LabelX: (g.x(h.From) + g.x(h.To)) / 2,
		LabelY: y - 7, Glyph: []int{4, 17, 30, 43, 56}, GlyphFrom: 4 + 13*int(h.From),
	}
	if h.Self {
		r.LabelX = g.x(h.From)
		r.LabelY = y - 9
		return r
	}
	way := 1
	if h.To < h.From {
		way = -1
	}
	from, to := g.x(h.From)+6*way, g.x(h.To)-7*way
	r.Line = fmt.Sprintf("M%d %dH%d", from, y, to)
	r.Head = fmt.Sprintf("M%d %dl%d 4.5l%d 4.5", to-6*way, y-4, 6*way, -6*way)
	for l := min(h.From, h.To) + 1; l < max(h.From, h.To); l++ {
		r.Dots = append(r.Dots, g.x(l))
	}
	small := 4 + 13*int(h.To) - 2*way
	r.GlyphLine = fmt.Sprintf("M%d 8H%dM%d 4.5l%d 3.5l%d 3.5", r.GlyphFrom, small, small-3*way, 4*way, -4*way)
	g.addGhost(&r, h.Beyond, way, y)
	return r
}

// addGhost adds the part of a message that is beyond the directory server. What is not seen is dashed.
func (g grid) addGhost(r *Row, b Beyond, way, y int) {
	if b == Ends {
		return
	}
	first, last, sender := g.x(Directory)+8, g.x(Issuer)-9, Directory
	if way < 0 {
		first, last, sender = g.x(Issuer)-8, g.x(Directory)+9, Issuer
	}
	r.Ghost = fmt.Sprintf("M%d %dH%d", first, y, last)
	r.GhostHead = fmt.Sprintf("M%d %dl%d 4l%d 4", last-5*way, y-4, 6*way, -6*way)
	r.GhostClass, r.GhostHeadClass = "ghost", "ghost2"
	if b == Seen {
		r.GhostClass, r.GhostHeadClass = sender.stroke(), sender.stroke()
	}
}

// newWaiting returns the bar of a time after a hop at y, and where the next hop is.
func newWaiting(h *Hop, names []string, ms int64, y int) (*waiting, int) {
	if ms == 0 {
		return nil, y + rowGap
	}
	w := &waiting{Fill: h.Waits.fill(), Name: Span(ms), Text: h.Doing, X: screen.x(h.Waits) - 5, Y: y + 3}
	if w.Text == "" {
		w.Text = names[h.Waits]
	}
	if ms > cutMS {
		w.Cut, w.H, w.H2 = true, 26, 24
		w.BoxY, w.CutY = y+31, y+46
		w.Y2 = y + 61
		w.CutPath = "M20 " + strconv.Itoa(w.CutY) + strings.Repeat("l7 5l7 -5", 38)
		w.SmallHeight = 44
		return w, y + cutRoom + 16
	}
	w.H = max(2, int(ms/unitMS))
	w.SmallHeight = max(4, min(w.H, 80))
	w.HasText = w.H >= 9
	w.TextX, w.Anchor = screen.x(h.Waits)+12, "start"
	if h.Waits == Issuer {
		w.TextX, w.Anchor = screen.x(h.Waits)-12, "end"
	}
	w.TextY = w.Y + w.H/2 + 4
	next := y + max(rowGap, w.H+29)
	return w, next
}

// stripWidth is the width of the strip, stripCut that of a part that is cut.
const stripWidth, stripCut = 1000.0, 240.0

// addStrips sums the times up, by party.
func (g *Drawing) addStrips(sums []int64, names []string) {
	var total, whole int64
	cuts, parts := 0, 0
	for _, ms := range sums {
		total += ms
		switch {
		case ms > cutMS:
			cuts++
			parts++
		case ms > 0:
			whole += ms
			parts++
		}
	}
	g.Total = Span(total)
	if cuts == 1 && parts == 1 {
		whole = 0
	}
	room := stripWidth - 2*float64(max(0, parts-1))
	cutWidth := stripCut
	if cuts > 0 {
		// A cut part stands for at least cutMS, so no shorter time is drawn longer than it.
		cutWidth = max(min(stripCut, room/float64(cuts)), room*cutMS/float64(whole+int64(cuts)*cutMS))
	}
	room -= cutWidth * float64(cuts)
	x := 0.0
	var texts []string
	for l, ms := range sums {
		s := strip{Fill: Lane(l).fill(), Dot: "b" + letters[l], Name: names[l], Time: Span(ms)}
		if Lane(l) == Issuer && ms > cutMS {
			s.Name = "Shopper at the bank"
		}
		if Lane(l) == Directory {
			s.Name = "Directory and issuer"
		}
		if ms == 0 && Lane(l) != Server {
			continue
		}
		w := 0.0
		switch {
		case ms > cutMS:
			w, s.Cut = cutWidth, true
			s.CutPath = fmt.Sprintf("M%.0f -2l10 8l-10 9l10 9l-10 9", x+w/2)
		case whole > 0:
			w = max(2, room*float64(ms)/float64(whole))
		}
		s.X, s.W = fmt.Sprintf("%.1f", x), fmt.Sprintf("%.1f", w)
		x += w + 2
		g.Strips = append(g.Strips, s)
		texts = append(texts, s.Name+" "+s.Time)
	}
	g.Sum = g.Total + " in all: " + strings.Join(texts, ", ")
}
