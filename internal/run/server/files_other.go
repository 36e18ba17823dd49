//go:build !unix

package server

func openFiles() (int, bool) { return 0, false }
