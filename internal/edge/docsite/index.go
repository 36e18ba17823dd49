package docsite

import (
	"encoding/json"
	"strings"

	"github.com/yuin/goldmark/ast"
	tables "github.com/yuin/goldmark/extension/ast"
)

// An entry is what the search can find: a part of a page below a heading, or a row of a table.
type entry struct {
	anchor  string // anchor is where the entry is on its page; "" is the top.
	title   string // title is the heading, or the first cell of a row.
	heading string // heading is the heading above a row; "" for an entry that is a heading itself.
	text    string
}

// An indexer collects the entries of a page, and gives rows their anchors.
type indexer struct {
	source  []byte
	ids     anchors
	entries []entry
	part    int // part is the index of the entry that text is added to.
}

// startPart adds an entry for a heading, to which the text below it goes.
func (x *indexer) startPart(anchor, title string) {
	x.part = len(x.entries)
	x.entries = append(x.entries, entry{anchor: anchor, title: title})
}

// add adds text to the part. Text in front of the first heading belongs to no part.
func (x *indexer) add(words string) {
	if x.part < len(x.entries) {
		e := &x.entries[x.part]
		e.text = strings.TrimSpace(e.text + " " + words)
	}
}

// addTable adds an entry for each row. A row whose first cell is empty goes on with the row above. It gives each row
// an anchor, and each cell the name of its column, which phones show.
func (x *indexer) addTable(table *tables.Table) {
	var names []string
	part := x.entries[x.part]
	for row := table.FirstChild(); row != nil; row = row.NextSibling() {
		var cells []string
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			words := plain(cell, x.source)
			if row.Kind() == tables.KindTableHeader {
				names = append(names, words)
			} else if n := len(cells); n > 0 && n < len(names) && names[n] != "" && words != "" {
				cell.SetAttributeString("data-l", []byte(names[n]))
			}
			if len(words) <= maxUnbroken {
				cell.SetAttributeString("class", []byte("nw"))
			}
			cells = append(cells, words)
		}
		if row.Kind() == tables.KindTableHeader {
			x.add(strings.Join(cells, " "))
			continue
		}
		words := strings.TrimSpace(strings.Join(cells[1:], " · "))
		if last := len(x.entries) - 1; cells[0] == "" && last > x.part {
			x.entries[last].text += " · " + words
			continue
		}
		id := x.ids.Generate([]byte(part.anchor+" "+firstWords(cells[0])), ast.KindDocument)
		row.SetAttributeString("id", id)
		x.entries = append(x.entries, entry{string(id), cells[0], part.title, words})
	}
}

// maxUnbroken is how long a cell may be that is not broken into lines, in bytes.
const maxUnbroken = 10

// maxEntryText is how much text of an entry is searched, in bytes.
const maxEntryText = 2000

// A pageEntry is an entry with the index of its page.
type pageEntry struct {
	page int
	entry
}

// entries returns the entries of all pages, in their order. What versions of a message have in common is in it once,
// for the newest version.
func (s *Site) entries() ([]pageEntry, error) {
	var all []pageEntry
	for i, p := range s.pages {
		c, err := p.content()
		if err != nil {
			return nil, err
		}
		last := map[entry]int{} // the newest version is the last
		for j, e := range c.entries {
			last[entry{title: e.title, text: e.text}] = j
		}
		for j, e := range c.entries {
			if last[entry{title: e.title, text: e.text}] != j {
				continue
			}
			if len(e.text) > maxEntryText {
				e.text = strings.ToValidUTF8(e.text[:maxEntryText], "")
			}
			all = append(all, pageEntry{i, e})
		}
	}
	return all, nil
}

// index returns the script with all entries: pages with address, title and area, and entries with the index of
// their page, anchor, title, heading and text.
func (s *Site) index() ([]byte, error) {
	var all struct {
		Pages   [][3]string `json:"pages"`
		Entries [][5]any    `json:"entries"`
	}
	for _, p := range s.pages {
		c, err := p.content()
		if err != nil {
			return nil, err
		}
		all.Pages = append(all.Pages, [3]string{p.path, c.title, p.area.Title})
	}
	entries, err := s.entries()
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		all.Entries = append(all.Entries, [5]any{e.page, e.anchor, e.title, e.heading, e.text})
	}
	data, err := json.Marshal(all)
	return append(append([]byte("globalThis.docsIndex = "), data...), ";\n"...), err
}

// mostAnchorWords is how many words of its first cell an anchor of a row has.
const mostAnchorWords = 5

// firstWords returns the first words of a text.
func firstWords(text string) string {
	words := strings.Fields(text)
	return strings.Join(words[:min(len(words), mostAnchorWords)], " ")
}
