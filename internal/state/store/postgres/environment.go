package postgres

import (
	"os"
	"slices"
	"strings"
)

// DropEnvironment removes the variables of libpq, such as PGHOST and PGPASSWORD, from the environment of this process,
// and returns their names in order. Only the URL says where the store is. Call it before anything reads a URL.
func DropEnvironment() (dropped []string) {
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if isLibpqVariable(name) && os.Unsetenv(name) == nil {
			dropped = append(dropped, name)
		}
	}
	slices.Sort(dropped)
	return dropped
}

// isLibpqVariable reports whether libpq may read a variable. All names but one are PG and then only capital letters.
// Names with underscores belong to others, such as those that Kubernetes makes for a service.
func isLibpqVariable(name string) bool {
	rest, ok := strings.CutPrefix(name, "PG")
	return name == "PGCONNECT_TIMEOUT" || ok && rest != "" && strings.Trim(rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}
