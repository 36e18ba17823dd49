package docsite

import "io/fs"

// NewWithChecker returns the site of a program that was built with the checker in a folder.
func NewWithChecker(folder fs.FS) (*Site, error) { return newSite(nil, folder) }
