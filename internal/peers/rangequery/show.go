package rangequery

import (
	"slices"
	"strings"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/peers/ranges"
)

// A Range is a range in JSON, in the words of the protocol.
type Range struct {
	Start string `json:"start"`
	End   string `json:"end"`
	*Info
}

// An Info is what is said of a range.
type Info struct {
	ACS     []ACS    `json:"acsProtocolVersions"`
	DS      []string `json:"dsProtocolVersions"`
	Country string   `json:"issuerCountryCode,omitempty"`
}

// An ACS is one version of an issuer.
type ACS struct {
	Version    string      `json:"version"`
	MethodURL  string      `json:"threeDSMethodURL,omitempty"`
	InfoInd    []string    `json:"acsInfoInd,omitempty"`
	Extensions []Extension `json:"supportedMsgExt,omitempty"`
}

// An Extension is a message extension.
type Extension struct {
	ID      string `json:"id"`
	Version string `json:"version"`
}

// ShowInfo returns what is said of a range in JSON.
func ShowInfo(info *ranges.Info) *Info {
	if info == nil {
		return nil
	}
	shown := &Info{ACS: []ACS{}, DS: append([]string{}, info.DSVersions...), Country: info.IssuerCountry}
	for _, v := range info.ACS {
		one := ACS{Version: v.Version, MethodURL: v.MethodURL, InfoInd: v.InfoInd}
		for _, e := range v.Extensions {
			one.Extensions = append(one.Extensions, Extension(e))
		}
		shown.ACS = append(shown.ACS, one)
	}
	return shown
}

// Bounds returns the first and the last number of a range.
func Bounds(r ranges.Range) (start, end string) {
	start, end, _ = strings.Cut(r.String(), "-")
	return start, end
}

// narrow is how many numbers a range must have for its Bounds not to give away
// those within it.
const narrow = 10_000

// boundsAround are the Bounds of a range that holds a card number, so that they
// do not give it away.
func boundsAround(r ranges.Range, pan string) (start, end string) {
	start, end = Bounds(r)
	if r.End-r.Start < narrow-1 {
		return cardnumber.MaskDigits(start), cardnumber.MaskDigits(end)
	}
	if strings.HasPrefix(pan, start) {
		start = cardnumber.MaskDigits(start)
	}
	if strings.HasPrefix(pan, end) {
		end = cardnumber.MaskDigits(end)
	}
	return start, end
}

// DescribeInfo says in lines what is said of a range: one for the versions that
// have the same of all else, one for the rest.
func DescribeInfo(info *ranges.Info) []string {
	var lines []string
	for rest := info.ACS; len(rest) > 0; {
		first, n := rest[0], 1
		for n < len(rest) && differsOnlyInVersion(first, rest[n]) {
			n++
		}
		line := versionsOf(rest[:n])
		if first.MethodURL == "" {
			line += " no 3DS Method"
		} else {
			line += " " + first.MethodURL
		}
		if len(first.InfoInd) > 0 {
			line += " acsInfoInd " + strings.Join(first.InfoInd, ",")
		}
		for _, e := range first.Extensions {
			line += " extension " + e.ID + " " + e.Version
		}
		lines = append(lines, terminal.OneLine(line))
		rest = rest[n:]
	}
	if len(lines) == 0 {
		lines = append(lines, "no version")
	}
	last := "directory server " + strings.Join(info.DSVersions, ",")
	if len(info.DSVersions) == 0 {
		last = "directory server: no version"
	}
	if info.IssuerCountry != "" {
		last += ", issuer in " + info.IssuerCountry
	}
	return append(lines, last)
}

// differsOnlyInVersion reports whether two versions differ in nothing but their numbers.
func differsOnlyInVersion(x, y ranges.ACSVersion) bool {
	return x.MethodURL == y.MethodURL && slices.Equal(x.InfoInd, y.InfoInd) && slices.Equal(x.Extensions, y.Extensions)
}

func versionsOf(acs []ranges.ACSVersion) string {
	var versions []string
	for _, v := range acs {
		versions = append(versions, v.Version)
	}
	return strings.Join(versions, ",")
}

// InfoLine is DescribeInfo for a table.
func InfoLine(info *ranges.Info) string { return strings.Join(DescribeInfo(info), "; ") }

// DSURLs says where the directory server is reached for ranges of an issuer's country, besides the address that is
// configured.
func DSURLs(g *ranges.Generation, country string) string {
	var all []string
	for _, u := range g.URLs(country) {
		in := ""
		for _, d := range g.DSURLs {
			if d.URL == u && d.Country != "" && d.Country == country {
				in = " (" + d.Country + ")"
			}
		}
		all = append(all, terminal.OneLine(u)+in)
	}
	return strings.Join(all, ", ")
}
