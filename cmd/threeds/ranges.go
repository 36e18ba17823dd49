package main

import (
	"strings"

	"github.com/openthreeds/threeds/internal/base/cmdline"
)

// rangesCommands show and change the card ranges that are kept in the store, next to a running server or without one.
var rangesCommands = []cmdline.Command{
	{Name: "status", Run: rangesStatus},
	{Name: "lookup", Run: rangesLookup},
	{Name: "diff", Run: rangesDiff},
	{Name: "export", Run: rangesExport},
	{Name: "import", Run: rangesImport},
	{Name: "refresh", Run: rangesRefresh},
	{Name: "accept", Run: rangesAccept},
}

func isDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }
