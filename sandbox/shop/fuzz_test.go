package shop

import (
	"strings"
	"testing"
)

// FuzzPacked reads what a browser brings as PaRes. Whatever it is, the panel
// shows no number that could be a card's.
func FuzzPacked(f *testing.F) {
	for _, seed := range []string{
		"", "eJw=", zipped(""), zipped("<a/>"), zipped(`<a b="4000001234567890">4000001234567890<c>4000001234567890</c></a>`),
		paRes("4000001234567890", "Y"), strings.ReplaceAll(paRes("4000001234567890", "N"), "+", " "),
	} {
		f.Add(seed, seed)
	}
	f.Add("", `<x xmlns:y="z"><pan>4000001234567890</pan><y:cavv>4000001234567890</y:cavv></x>`)
	f.Fuzz(func(t *testing.T, packed, text string) {
		for _, shown := range []string{shownXML(decodePacked(packed)), shownXML([]byte(text), nil)} {
			if longDigits.MatchString(shown) {
				t.Errorf("%q", shown)
			}
		}
	})
}
