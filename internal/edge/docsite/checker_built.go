//go:build checker

package docsite

import "embed"

// builtChecker has the checker, which tools/checker has built.
//
//go:embed checker/checker.wasm.gz checker/wasm_exec.js
var builtChecker embed.FS
