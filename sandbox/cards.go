package sandbox

import (
	_ "embed"

	"github.com/openthreeds/threeds/sandbox/internal/cards"
	"github.com/openthreeds/threeds/sandbox/internal/peer"
	"github.com/openthreeds/threeds/sandbox/internal/scenario"
)

//go:embed scenarios/cards.txt
var cardsText string

// CardTable is scenarios/cards.txt: what each test card does, and how to read
// it.
func CardTable() string { return cardsText }

// A Card is what can be known of a card number before anything is sent.
type Card struct {
	Scheme       string   // the directory server that knows it
	Others       []string // further ones, of a co-badged card
	Listed       bool     // the table says what becomes of it; if not, /auth gets Erro 305
	Versions     []string // protocol versions, ascending
	MethodURL    string   // the 3DS Method's page in all these versions, "" when there is none
	MethodSilent bool     // that page never answers
}

// Card describes any card number. ok is false for a text that is no number of 13-19 digits, and for cards that are not
// enrolled.
func (s *Sandbox) Card(pan string) (Card, bool) {
	if len(pan) < 13 || len(pan) > 19 || !scenario.IsDigits(pan) {
		return Card{}, false
	}
	found := s.table.Find(pan)
	if found.Absent {
		return Card{}, false
	}
	c := Card{Scheme: cards.SchemeOf(pan), Listed: found.Listed(), Versions: peer.Versions()}
	for _, of := range cards.Schemes() {
		if of.Word != c.Scheme && of.Holds(pan) {
			c.Others = append(c.Others, of.Word)
		}
	}
	if !c.Listed {
		return c, true
	}
	c.Versions = found.Versions
	switch found.Method {
	case "answers":
		c.MethodURL = s.acs.url + methodPath
	case "silent":
		c.MethodURL, c.MethodSilent = s.acs.url+silentMethodPath, true
	}
	return c, true
}
