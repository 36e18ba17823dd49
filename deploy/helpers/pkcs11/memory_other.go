//go:build !linux

package main

// keepMemoryOutOfFiles does nothing: turn core dumps off where the process is started.
func keepMemoryOutOfFiles() error { return nil }
