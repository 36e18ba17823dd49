//go:build !unix

package directory

import "syscall"

// stirs would look into the socket, which takes another call on each system.
func stirs(syscall.RawConn) bool { return false }
