//go:build !unix

package pgtest

import (
	"errors"
	"syscall"
)

// Where there are no signals no PostgreSQL is found either.

// Unprivileged is for other systems.
func Unprivileged(string) (*syscall.SysProcAttr, error) { return nil, errors.ErrUnsupported }

// Freeze is for other systems.
func (s *Server) Freeze() error { return errors.ErrUnsupported }

// Thaw is for other systems.
func (s *Server) Thaw() error { return errors.ErrUnsupported }

// Signal is for other systems.
func Signal(string, syscall.Signal) error { return errors.ErrUnsupported }

func (s *Server) kill() error { return errors.ErrUnsupported }

func lockFile(string) (unlock func(), err error) { return nil, errors.ErrUnsupported }
