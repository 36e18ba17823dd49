//go:build !unix

package rig

import (
	"errors"
	"os"
)

// Suspend is not possible here.
func Suspend(*os.Process) error { return errors.ErrUnsupported }

// Resume is not possible here.
func Resume(*os.Process) error { return errors.ErrUnsupported }
