package rangequery

import (
	"encoding/json"
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
		{Version: "2.3.0", MethodURL: "https://b.example/", InfoInd: []string{"01", "02"},
			Extensions: []ranges.Extension{{ID: "A1", Version: "1"}, {ID: "A2", Version: "2"}}},
		{Version: "2.3.1"},
	},
	DSVersions: []string{"2.2.0", "2.3.1"}, IssuerCountry: "208",
}

// TestDescribe: versions stand together where the same is said of them, and nowhere else.
func TestDescribe(t *testing.T) {
	for _, tt := range []struct {
		info *ranges.Info
		want []string
	}{
		{manyVersions, []string{
			"2.1.0,2.2.0 https://a.example/ x", "2.2.1 https://b.example/", "2.2.2 https://b.example/ acsInfoInd 01,02",
			"2.3.0 https://b.example/ acsInfoInd 01,02 extension A1 1 extension A2 2", "2.3.1 no 3DS Method",
			"directory server 2.2.0,2.3.1, issuer in 208",
		}},
		{&ranges.Info{}, []string{"no version", "directory server: no version"}},
	} {
		if got := DescribeInfo(tt.info); !slices.Equal(got, tt.want) {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// TestShowInfo: all that is said of a range is in its JSON.
func TestShowInfo(t *testing.T) {
	info := &ranges.Info{ACS: manyVersions.ACS[4:], DSVersions: manyVersions.DSVersions, IssuerCountry: "208"}
	for _, tt := range []struct {
		info *ranges.Info
		want string
	}{
		{info, `{"acsProtocolVersions":[{"version":"2.3.0","threeDSMethodURL":"https://b.example/","acsInfoInd":["01","02"],` +
			`"supportedMsgExt":[{"id":"A1","version":"1"},{"id":"A2","version":"2"}]},{"version":"2.3.1"}],"dsProtocolVersions":["2.2.0","2.3.1"],"issuerCountryCode":"208"}`},
		{&ranges.Info{}, `{"acsProtocolVersions":[],"dsProtocolVersions":[]}`},
		{nil, `null`},
	} {
		if got, err := json.Marshal(ShowInfo(tt.info)); err != nil || string(got) != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
}

// TestDSURLs: an address that is for the country of the issuer is marked with it.
func TestDSURLs(t *testing.T) {
	g := &ranges.Generation{DSURLs: []ranges.DSURL{
		{URL: "https://all.example/"}, {URL: "https://dk.example/", Country: "208"}, {URL: "https://se.example/", Country: "752"},
		{URL: "https://both.example/", Country: "752"}, {URL: "https://both.example/", Country: "208"},
	}}
	for country, want := range map[string]string{
		"208": "https://dk.example/ (208), https://both.example/ (208), https://all.example/", "578": "https://all.example/", "": "https://all.example/",
	} {
		if got := DSURLs(g, country); got != want {
			t.Errorf("issuer in %q: %s, want %s", country, got, want)
		}
	}
}
