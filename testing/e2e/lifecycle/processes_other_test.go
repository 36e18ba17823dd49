//go:build !unix

package lifecycle

import (
	"errors"
	"os"
)

func block(*os.File) error { return errors.ErrUnsupported }
