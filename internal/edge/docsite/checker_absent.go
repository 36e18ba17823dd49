//go:build !checker

package docsite

import "embed"

// builtChecker is empty: the checker is in programs that are built with the tag checker.
var builtChecker embed.FS
