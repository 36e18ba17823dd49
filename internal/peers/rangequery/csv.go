package rangequery

import (
	"cmp"
	"context"
	"encoding/csv"
	"io"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/internal/peers/ranges"
)

// exportHeader names the columns of an export, in the words of the protocol.
var exportHeader = []string{"start", "end", "acsProtocolVersions", "threeDSMethodURL", "acsInfoInd", "supportedMsgExt",
	"dsProtocolVersions", "issuerCountryCode"}

// WriteCSV writes a generation as CSV (RFC 4180), one line per range.
func WriteCSV(ctx context.Context, stdout io.Writer, g *ranges.Generation) error {
	w := csv.NewWriter(stdout)
	w.UseCRLF = true
	if err := w.Write(exportHeader); err != nil {
		return err
	}
	known := make(map[*ranges.Info][]string) // there are far fewer than ranges
	record := make([]string, len(exportHeader))
	for r, info := range g.Table.All() {
		said, ok := known[info]
		if !ok {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			said = csvColumns(info)
			known[info] = said
		}
		record[0], record[1] = Bounds(r)
		copy(record[2:], said)
		if err := w.Write(record); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

// csvColumns are the columns of a range except its bounds.
func csvColumns(info *ranges.Info) []string {
	var versions, urls, infoInds, extensions []string
	for _, v := range info.ACS {
		versions = append(versions, v.Version)
		urls = append(urls, strings.ReplaceAll(v.MethodURL, " ", "%20"))
		infoInds = append(infoInds, strings.Join(v.InfoInd, "/"))
		var all []string
		for _, e := range v.Extensions {
			all = append(all, strings.ReplaceAll(e.ID+"="+e.Version, " ", "%20"))
		}
		extensions = append(extensions, strings.Join(all, "/"))
	}
	return []string{strings.Join(versions, " "), perVersion(urls), perVersion(infoInds), perVersion(extensions),
		strings.Join(info.DSVersions, " "), info.IssuerCountry}
}

// perVersion is one value when it is that of all versions, or else one for each
// of them, in their order, with - where there is none.
func perVersion(values []string) string {
	if len(slices.Compact(slices.Clone(values))) < 2 {
		return strings.Join(slices.Compact(slices.Clone(values)), "")
	}
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = cmp.Or(v, "-")
	}
	return strings.Join(all, " ")
}
