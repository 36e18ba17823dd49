package pages

// Patterns returns the patterns of all pages and files, for tests that walk over them.
func Patterns() (all []string) {
	for _, rt := range routes() {
		all = append(all, rt.pattern)
	}
	for _, rt := range fileRoutes() {
		all = append(all, rt.pattern)
	}
	return all
}
