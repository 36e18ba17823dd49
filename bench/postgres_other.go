//go:build !unix

package main

import (
	"context"
	"errors"
)

// onPostgres runs the server's programs as another user, which is not for every
// system.
func onPostgres(context.Context, *bench) ([]row, error) { return nil, errors.ErrUnsupported }

// restingKeys does too.
func restingKeys(context.Context, *bench) ([]row, error) { return nil, errors.ErrUnsupported }
