package pages

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/openthreeds/threeds/internal/journal"
	"github.com/openthreeds/threeds/message"
)

// A lane is a party, in the order in which they are always drawn.
type lane int

const (
	browserLane lane = iota
	shopLane
	ourLane
	directoryLane
	issuerLane
)

// letters are the ends of the classes that give a lane its colour.
var letters = [...]string{"b", "s", "u", "d", "i"}

func (l lane) fill() string { return "l" + letters[l] }

func (l lane) stroke() string {
	if l == browserLane {
		return "sb1" // sb is a class of another meaning
	}
	return "s" + letters[l]
}

// x is where a lane is drawn.
func (l lane) x() int { return 100 + 104*int(l) }

// The scale of the drawing.
const (
	unitMS  = 6    // milliseconds of one unit
	cutMS   = 1500 // what takes longer is cut
	rowGap  = 37   // the least distance of two messages
	firstY  = 104  // of the first message
	cutRoom = 92   // of a time that is cut
)

// A hop is a message as it is drawn: an arrow from one lane to another.
type hop struct {
	Key, Name, Gist string
	From, To        lane
	Dashed          bool // it goes on to the issuer, or comes from there, which is not seen from here
	Self            bool // it is no message
	Waits           lane // whom everybody waits for after it
	Doing           string
}

// hopsOf are the messages by the names of the journal's steps.
var hopsOf = map[string]hop{
	"request":  {Name: "request", From: shopLane, To: ourLane, Waits: ourLane},
	"lookup":   {Name: "look-up", Self: true, From: ourLane, To: ourLane, Waits: ourLane},
	"method":   {Name: "3DS Method", Gist: "hidden frame", From: browserLane, To: issuerLane, Waits: issuerLane, Doing: "3DS Method"},
	"areq":     {Name: "AReq", From: ourLane, To: directoryLane, Dashed: true, Waits: directoryLane, Doing: "directory and issuer decide"},
	"ares":     {Name: "ARes", From: directoryLane, To: ourLane, Dashed: true, Waits: ourLane},
	"answered": {Name: "answer", From: ourLane, To: shopLane, Waits: shopLane, Doing: "shop"},
	"challenge": {
		Name: "challenge", From: ourLane, To: browserLane, Waits: issuerLane, Doing: "while the shopper is at the bank",
	},
	"creq": {Name: "CReq", Gist: "the bank’s page opens", From: browserLane, To: issuerLane, Waits: issuerLane, Doing: "while the shopper is at the bank"},
	"cres": {Name: "CRes", Gist: "never a result", From: issuerLane, To: browserLane, Waits: ourLane},
	"rreq": {Name: "RReq", From: directoryLane, To: ourLane, Dashed: true, Waits: ourLane},
	"rres": {Name: "RRes", Gist: "received", From: ourLane, To: directoryLane, Dashed: true, Waits: issuerLane},
	"erro": {Name: "Erro", Gist: "no usable answer", From: directoryLane, To: ourLane, Waits: ourLane},
	"cancelled": {
		Name: "cancel", Gist: "the merchant or the shopper ended it", From: shopLane, To: ourLane, Waits: ourLane,
	},
	"expired":  {Name: "expired", Gist: "the wait was over", Self: true, From: ourLane, To: ourLane, Waits: ourLane},
	"postauth": {Name: "/postauth", Gist: "the result is fetched", From: shopLane, To: ourLane, Waits: shopLane},
	"webhook":  {Name: "webhook", From: ourLane, To: shopLane, Waits: shopLane},
	"v1.vereq": {Name: "VEReq", From: ourLane, To: directoryLane, Waits: directoryLane, Doing: "directory"},
	"v1.veres": {Name: "VERes", From: directoryLane, To: ourLane, Waits: ourLane},
	"v1.pareq": {Name: "PAReq", From: browserLane, To: issuerLane, Waits: issuerLane, Doing: "while the shopper is at the bank"},
	"v1.pares": {Name: "PARes", From: issuerLane, To: browserLane, Waits: shopLane},
}

// newHop returns how a step is drawn. A step that is not known is drawn as a dot of ours.
func newHop(d *journal.Detail, i int) hop {
	step := &d.Steps[i]
	h, ok := hopsOf[step.Step]
	if !ok {
		h = hop{Name: step.Step, Self: true, From: ourLane, To: ourLane, Waits: ourLane}
	}
	m, err := message.Parse(step.Message, message.Limits{})
	hasMessage := err == nil && len(step.Message) > 0
	switch step.Step {
	case "request":
		h.Name, h.Gist = "POST /"+d.Operation, amount(d.Amount, d.Currency)
		if d.Operation == "" {
			h.Name = "request"
		}
		if d.API == "authentications" && d.DeviceChannel == "02" {
			h.Waits, h.Doing = browserLane, "browser and 3DS Method"
		}
	case "areq":
		h.Gist = d.MessageVersion
	case "ares", "rreq":
		if hasMessage {
			h.Gist = joinNonEmpty(", ", m.Text("transStatus"), prefixed("ECI ", m.Text("eci")))
		}
	case "webhook":
		if text := strings.Join(step.Findings, ", "); strings.Contains(text, "failed") {
			h.Gist = "not delivered"
		}
	case "erro":
		if hasMessage {
			h.Gist = prefixed("error ", m.Text("errorCode"))
		} else if d.ErrorCode != "" {
			h.Gist = "error " + d.ErrorCode
		}
	case "challenge":
		if d.API == "emv" {
			h.From, h.Gist = shopLane, "the shop opens it"
		}
	case "answered":
		isBefore := func(name string) bool {
			return slices.ContainsFunc(d.Steps[i:], func(s journal.Step) bool { return s.Step == name })
		}
		if d.API != "emv" && d.DeviceChannel == "02" && !slices.ContainsFunc(d.Steps[:i], func(s journal.Step) bool { return s.Step == "areq" }) &&
			(isBefore("areq") || d.Status == "requires_browser") {
			h.Name, h.Gist, h.Waits, h.Doing = "201", "waits for the browser", browserLane, "page loads"
		}
		if d.Challenged && slices.ContainsFunc(d.Steps[:i], func(s journal.Step) bool { return s.Step == "ares" }) && i < len(d.Steps)-1 {
			h.Waits, h.Doing = issuerLane, "while the shopper is at the bank"
		}
	}
	return h
}

func prefixed(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

func joinNonEmpty(by string, texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), by)
}

// A row is one hop with everything that the drawing and the list of the phone need.
type row struct {
	Link, Label, Time string
	Name, Gist        string
	FromName, ToName  string
	Current, Self     bool
	Stroke, Fill      string // classes
	Y, PickY, TimeY   int
	LabelX, LabelY    int
	StartX            int
	Line, Head        string   // paths
	Ghost, GhostHead  string   // the part that is not seen from here
	Dots              []int    // lanes that it passes over
	GlyphFrom         int      // of the small drawing
	GlyphLine         string   // path
	Glyph             []int    // where its lanes are
	Wait              *waiting // after it
	Step              *journal.Step
	Key               string
}

// A waiting is a time during which everybody waited for one party.
type waiting struct {
	Lane        lane
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
	ms          int64
}

// A strip is a part of the sum of all times.
type strip struct {
	Fill, Dot  string
	Name, Time string
	X, W       string
	Cut        bool
	CutPath    string
	ms         int64
	lane       lane
}

// A drawing is the timeline of an authentication in lanes.
type drawing struct {
	Height, RailEnd, UsHeight int
	Heads                     []head
	Rows                      []row
	Strips                    []strip
	Total                     string
	Sum                       string // the strip in words
	ScaleY                    int
}

type head struct {
	X               int
	Fill, Name, Sub string
}

// newDrawing draws the steps of a record. Chosen is the key of the step that is shown beside.
func newDrawing(d *journal.Detail, chosen string, asked url.Values) *drawing {
	g := &drawing{}
	names := laneNames(d)
	for l := browserLane; l <= issuerLane; l++ {
		g.Heads = append(g.Heads, head{l.x(), l.fill(), names[l], laneSubs(d)[l]})
	}
	keys := stepKeys(d.Steps)
	sums := make([]int64, len(letters))
	y := firstY
	for i := range d.Steps {
		h := newHop(d, i)
		at := d.Steps[i].At.Sub(d.Steps[0].At).Milliseconds()
		r := newRow(h, names, y)
		r.Key, r.Step, r.Time, r.Current = keys[i], &d.Steps[i], span(at), keys[i] == chosen
		r.Label = r.Time + ": " + joinNonEmpty(" ", h.Name, h.Gist) + ", " + names[h.From] + " to " + names[h.To]
		if h.Self {
			r.Label = r.Time + ": " + joinNonEmpty(" ", h.Name, h.Gist)
		}
		r.Link = stepLink(d.ID, asked, keys[i])
		if i+1 < len(d.Steps) {
			ms := max(0, d.Steps[i+1].At.Sub(d.Steps[i].At).Milliseconds())
			sums[h.Waits] += ms
			r.Wait, y = newWaiting(h, names, ms, y)
		}
		g.Rows = append(g.Rows, r)
	}
	g.RailEnd = y + 30
	g.Height, g.UsHeight, g.ScaleY = g.RailEnd+22, g.RailEnd-2, g.RailEnd+8
	g.addStrips(sums, names)
	return g
}

// stepKeys returns the names by which addresses choose a step: a second one of a name has a number.
func stepKeys(steps []journal.Step) []string {
	seen := map[string]int{}
	keys := make([]string, len(steps))
	for i := range steps {
		keys[i] = steps[i].Step
		if seen[keys[i]]++; seen[keys[i]] > 1 {
			keys[i] += "-" + strconv.Itoa(seen[keys[i]])
		}
	}
	return keys
}

// stepLink returns the address of the page with a step chosen.
func stepLink(id string, asked url.Values, key string) string {
	to := url.Values{"step": {key}}
	if beside := asked.Get("beside"); beside != "" && beside != key {
		to.Set("beside", beside)
	}
	return "/authentications/" + url.PathEscape(id) + "?" + to.Encode() + "#message"
}

func laneNames(d *journal.Detail) []string {
	directory := "Directory"
	if d.Card.Scheme != "" {
		directory = schemeName(d.Card.Scheme)
	}
	return []string{"Browser", "Shop", "threeds", directory, "Issuer"}
}

func laneSubs(d *journal.Detail) []string {
	browser := map[string]string{"01": "app", "02": "of the shopper", "03": "none, 3RI"}[d.DeviceChannel]
	return []string{browser, shorten(d.Merchant, 16), "this server", joinNonEmpty(" ", "directory", d.MessageVersion), shorten(d.ACS, 16)}
}

func shorten(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// newRow returns a hop at its place.
func newRow(h hop, names []string, y int) row {
	r := row{
		Name: h.Name, Gist: h.Gist, Self: h.Self, Stroke: h.From.stroke(), Fill: h.From.fill(), FromName: names[h.From], ToName: names[h.To],
		Y: y, PickY: y - 23, TimeY: y + 4, StartX: h.From.x(), LabelX: (h.From.x() + h.To.x()) / 2, LabelY: y - 7,
		Glyph: []int{4, 17, 30, 43, 56}, GlyphFrom: 4 + 13*int(h.From),
	}
	if h.Self {
		r.LabelX = h.From.x()
		r.LabelY = y - 9
		return r
	}
	way := 1
	if h.To < h.From {
		way = -1
	}
	from, to := h.From.x()+6*way, h.To.x()-7*way
	r.Line = fmt.Sprintf("M%d %dH%d", from, y, to)
	r.Head = fmt.Sprintf("M%d %dl%d 4.5l%d 4.5", to-6*way, y-4, 6*way, -6*way)
	for l := min(h.From, h.To) + 1; l < max(h.From, h.To); l++ {
		r.Dots = append(r.Dots, l.x())
	}
	small := 4 + 13*int(h.To) - 2*way
	r.GlyphLine = fmt.Sprintf("M%d 8H%dM%d 4.5l%d 3.5l%d 3.5", r.GlyphFrom, small, small-3*way, 4*way, -4*way)
	if h.Dashed {
		first, last := directoryLane.x()+8, issuerLane.x()-9
		if way < 0 {
			first, last = issuerLane.x()-8, directoryLane.x()+9
		}
		r.Ghost = fmt.Sprintf("M%d %dH%d", first, y, last)
		r.GhostHead = fmt.Sprintf("M%d %dl%d 4l%d 4", last-5*way, y-4, 6*way, -6*way)
	}
	return r
}

// newWaiting returns the bar of a time after a hop at y, and where the next hop is.
func newWaiting(h hop, names []string, ms int64, y int) (*waiting, int) {
	if ms == 0 {
		return nil, y + rowGap
	}
	w := &waiting{Lane: h.Waits, Fill: h.Waits.fill(), Name: span(ms), Text: h.Doing, X: h.Waits.x() - 5, Y: y + 3, ms: ms}
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
	w.TextX, w.Anchor = h.Waits.x()+12, "start"
	if h.Waits == issuerLane {
		w.TextX, w.Anchor = h.Waits.x()-12, "end"
	}
	w.TextY = w.Y + w.H/2 + 4
	next := y + max(rowGap, w.H+29)
	return w, next
}

// stripWidth is the width of the strip, stripCut that of a part that is cut.
const stripWidth, stripCut = 1000.0, 240.0

// addStrips sums the times up, by party.
func (g *drawing) addStrips(sums []int64, names []string) {
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
	g.Total = span(total)
	if cuts == 1 && parts == 1 {
		whole = 0
	}
	room := stripWidth - stripCut*float64(cuts) - 2*float64(max(0, parts-1))
	cutWidth := stripCut
	if whole == 0 && cuts > 0 {
		cutWidth = (stripWidth - 2*float64(parts-1)) / float64(cuts)
	}
	x := 0.0
	var texts []string
	for l, ms := range sums {
		s := strip{Fill: lane(l).fill(), Dot: "b" + letters[l], Name: names[l], Time: span(ms), ms: ms, lane: lane(l)}
		if lane(l) == issuerLane && ms > cutMS {
			s.Name = "Shopper at the bank"
		}
		if lane(l) == directoryLane {
			s.Name = "Directory and issuer"
		}
		if ms == 0 && lane(l) != ourLane {
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
