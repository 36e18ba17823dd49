// Package coredump keeps the memory of this process, which has keys and card numbers, out of files. Call [Disable]
// first of all.
package coredump
