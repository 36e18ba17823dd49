package main

import (
	"strings"

	"github.com/openthreeds/threeds/internal/base/cmdline"
)

// rangesCommands show and change the card ranges that are kept in the store, next to a running server or without one.
var rangesCommands = []cmdline.Command{
	{
		Name: "status", Run: rangesStatus,
		Takes: `[--json] [--config FILE]`,
		Does:  `say how things stand with the card ranges of each directory`,
	},
	{
		Name: "lookup", Run: rangesLookup,
		Takes: `PREFIX [--scheme SCHEME] [--json] [--config FILE]`,
		Does: `say who holds cards that begin with these digits, or the card with these 13 to 19 (- is standard
			input)`,
	},
	{
		Name: "diff", Run: rangesDiff,
		Takes: `OLD|held NEW|held [--scheme SCHEME] [--json] [--config FILE]`,
		Does:  `say how two generations differ: numbers, or "held" for the one held back`,
	},
	{
		Name: "export", Run: rangesExport,
		Takes: `SCHEME [--generation N|held] [--config FILE]`,
		Does:  `print all ranges as CSV`,
	},
	{
		Name: "import", Run: rangesImport,
		Takes: `SCHEME FILE [--config FILE]`,
		Does: `use the complete set in a file: a PRes, or a card range file of 2.3.1, as it is or gzipped (- is
			standard input)`,
	},
	{
		Name: "refresh", Run: rangesRefresh,
		Takes: `SCHEME [--config FILE]`,
		Does:  `ask the directory server as soon as the protocol lets us`,
	},
	{
		Name: "accept", Run: rangesAccept,
		Takes: `SCHEME [--config FILE]`,
		Does:  `use the generation that is held back`,
	},
}

func isDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }
