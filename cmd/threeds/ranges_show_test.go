package main

import (
	"slices"
	"testing"

	"github.com/openthreeds/threeds/internal/peers/ranges"
)

// manyVersions says something else of almost every version.
var manyVersions = &ranges.Info{
	ACS: []ranges.ACSVersion{
		{Version: "2.1.0", MethodURL: "https://a.example/ x"},
		{Version: "2.2.0", MethodURL: "https://a.example/ x"},
		{Version: "2.2.1", MethodURL: "https://b.example/"},
		{Version: "2.2.2", MethodURL: "https://b.example/", InfoInd: []string{"01", "02"}},
		{Version: "2.3.0", MethodURL: "https://b.example/", InfoInd: []string{"01", "02"}, Extensions: []ranges.Extension{{ID: "A1", Version: "1"}, {ID: "A2", Version: "2"}}},
		{Version: "2.3.1"},
	},
	DSVersions: []string{"2.2.0", "2.3.1"}, IssuerCountry: "208",
}

// TestColumns: an export says of each version what is said of it, once if it is of all.
func TestColumns(t *testing.T) {
	same := &ranges.Info{ACS: []ranges.ACSVersion{{Version: "2.1.0", MethodURL: "https://a.example/"}, {Version: "2.2.0", MethodURL: "https://a.example/"}}}
	for _, tt := range []struct {
		info *ranges.Info
		want []string
	}{
		{manyVersions, []string{
			"2.1.0 2.2.0 2.2.1 2.2.2 2.3.0 2.3.1",
			"https://a.example/%20x https://a.example/%20x https://b.example/ https://b.example/ https://b.example/ -",
			"- - - 01/02 01/02 -", "- - - - A1=1/A2=2 -", "2.2.0 2.3.1", "208",
		}},
		{same, []string{"2.1.0 2.2.0", "https://a.example/", "", "", "", ""}},
		{&ranges.Info{}, []string{"", "", "", "", "", ""}},
	} {
		if got := csvColumns(tt.info); !slices.Equal(got, tt.want) {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
