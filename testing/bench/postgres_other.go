//go:build !unix

package main

import (
	"context"
	"errors"
)

// onPostgres runs the database's programs as another user, which is written for Unix only.
func onPostgres(context.Context, *bench) ([]row, error) { return nil, errors.ErrUnsupported }

// journalOnPostgres does so too.
func journalOnPostgres(context.Context, *bench) ([]row, error) { return nil, errors.ErrUnsupported }

// restingKeys does so too.
func restingKeys(context.Context, *bench) ([]row, error) { return nil, errors.ErrUnsupported }
