package lanes

import (
	"bytes"
	"html/template"
	"regexp"
	"strings"
)

// paper is the grid of a [Picture]. It is so narrow that a phone shows the picture without making it smaller.
var paper = grid{38, 71}

// The scale of a picture.
const (
	paperWidth  = 360
	paperFirstY = 88
	paperRowGap = 34
	// monoWidth and sansWidth are how wide a character of a label is at most, in tenths of a unit.
	monoWidth, sansWidth = 70, 62
)

// A picture is what the template of a [Picture] shows.
type picture struct {
	Title, Text            string
	Width, Height, RailEnd int
	UsX, UsWidth           int
	Style                  template.CSS
	Heads                  []head
	Rows                   []Row
}

// Picture returns hops as an SVG image with a style of its own, in light and dark. It shows no times. Its text
// alternative is that of [Lines].
func Picture(title string, parties []Party, hops []Hop) []byte {
	p := &picture{
		Title: title, Text: strings.Join(Lines(parties, hops), ". "), Width: paperWidth, Style: pictureStyle(),
		UsX: paper.x(Server) - paper.gap/2, UsWidth: paper.gap,
	}
	names := make([]string, len(letters))
	for l := range letters {
		names[l] = parties[l].Name
		p.Heads = append(p.Heads, head{paper.x(Lane(l)), Lane(l).fill(), parties[l].Name, parties[l].Sub})
	}
	y := paperFirstY
	for i := range hops {
		r := paper.newRow(&hops[i], names, y)
		half := (len(r.Name)*monoWidth + (len(r.Gist)+1)*sansWidth) / 20
		r.LabelX = max(half, min(r.LabelX, paperWidth-half))
		p.Rows = append(p.Rows, r)
		y += paperRowGap
	}
	p.RailEnd = y - paperRowGap + 18
	p.Height = p.RailEnd + 12
	var b bytes.Buffer
	_ = pictureTemplate.Execute(&b, p) // The template and its data are ours, and a buffer takes all.
	return b.Bytes()
}

var pictureTemplate = template.Must(template.ParseFS(assets, "assets/picture.svg"))

// Lines returns hops as lines of text, in their order: from whom, to whom, and what.
func Lines(parties []Party, hops []Hop) []string {
	var all []string
	for i := range hops {
		h := &hops[i]
		who := parties[h.From].Name
		if !h.Self {
			who += " → " + parties[h.To].Name
		}
		all = append(all, who+": "+Join(", ", h.Name, h.Gist))
	}
	return all
}

// token is a line of the style sheet of [Tokens].
var token = regexp.MustCompile(`(?m)^  (--[a-z0-9-]+):.*\n`)

// pictureStyle returns the style of a picture, with those tokens that it uses.
func pictureStyle() template.CSS {
	own, _ := assets.ReadFile("assets/picture.css") // The file is embedded, so reading it cannot fail.
	_, tokens, _ := bytes.Cut(Tokens(), []byte("*/\n"))
	used := token.ReplaceAllFunc(tokens, func(line []byte) []byte {
		name := token.FindSubmatch(line)[1]
		if bytes.Contains(own, append([]byte("var("), append(name, ')')...)) {
			return line
		}
		return nil
	})
	return template.CSS("\n" + string(used) + string(own))
}
