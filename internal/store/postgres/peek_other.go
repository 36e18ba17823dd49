//go:build !unix

package postgres

import "net"

// peek cannot look here.
func peek(net.Conn) (quiet, over bool) { return true, false }
