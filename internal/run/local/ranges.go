package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/base/cmdline"
	"github.com/openthreeds/threeds/internal/base/hint"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/peers/directory"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/store"
)

// Ranges are the card ranges in the store of a configuration.
type Ranges struct {
	directory.Keeper // nil means that there is no store yet
	*config.Config
	file  string         // the configuration file
	audit operator.Store // nil without a store
}

// WithRanges opens the store that a configuration names, and closes it again.
// One that is not there is not made.
func WithRanges(ctx context.Context, file string, do func(*Ranges) error) error {
	return OpenRanges(ctx, file, false, do)
}

// OpenRanges is WithRanges, but makes a store that is not there if create is set.
func OpenRanges(ctx context.Context, file string, create bool, do func(*Ranges) error) error {
	c, err := config.Read(file)
	if err != nil {
		return err
	}
	s := &Ranges{Config: c, file: file}
	if at := c.Store.URL; at.Postgres == "" && !create {
		if _, err := os.Stat(at.Dir); errors.Is(err, fs.ErrNotExist) {
			return do(s)
		}
	}
	return withStore(ctx, c, func(db store.Store) error {
		s.Keeper, s.audit = db, db
		return do(s)
	})
}

// Directory is the configured directory of a scheme.
func (s *Ranges) Directory(scheme string) (config.Directory, error) {
	var names []string
	for _, d := range s.Directories {
		if d.Scheme == scheme {
			return d, nil
		}
		names = append(names, d.Scheme)
	}
	return config.Directory{}, cmdline.Usagef("ranges: %s names no directory of scheme %q%s (there are: %s)",
		s.file, cardnumber.MaskDigits(scheme), hint.For(scheme, names...), strings.Join(names, ", "))
}

// RefreshStatus returns the state of the refreshing of a scheme, for a node with this configuration.
func (s *Ranges) RefreshStatus(ctx context.Context, scheme string) (directory.RefreshStatus, error) {
	status, _, err := s.Refresh(ctx, scheme)
	return status, err
}

// Refresh is RefreshStatus with what an operator has asked for and no node has seen yet.
func (s *Ranges) Refresh(ctx context.Context,
	scheme string) (status directory.RefreshStatus, asked directory.RefreshRequest, err error) {
	d, err := s.Directory(scheme)
	if s.Keeper == nil || err != nil {
		return status, asked, err
	}
	return directory.ReadRefresh(ctx, s, scheme, d.Refresh, d.MinRefresh)
}

// ErrNoneWhole says that all generations in the store are incomplete.
var ErrNoneWhole = errors.New("none of its generations can be read")

// InUse reads the generation that a node would use if it started now: the newest complete one. It reports incomplete
// ones to complain. It returns nil if there are none at all.
func (s *Ranges) InUse(ctx context.Context, scheme string, complain io.Writer) (*ranges.Generation, int64, error) {
	if s.Keeper == nil {
		return nil, 0, nil
	}
	all, err := s.Snapshots(ctx, scheme)
	if err != nil {
		return nil, 0, err
	}
	for _, one := range all {
		g, err := directory.OpenGeneration(ctx, s, scheme, one.Generation)
		if err == nil {
			return g, one.Generation, nil
		}
		if ctx.Err() != nil {
			return nil, 0, err
		}
		fmt.Fprintf(complain, "threeds: %v\n", err)
	}
	if len(all) > 0 {
		return nil, 0, fmt.Errorf("%s: %w", scheme, ErrNoneWhole)
	}
	return nil, 0, nil
}

// Generation reads the generation of a scheme with a name, as [directory.OpenNamed].
func (s *Ranges) Generation(ctx context.Context, scheme, name string) (*ranges.Generation, error) {
	status, err := s.RefreshStatus(ctx, scheme)
	switch {
	case err != nil:
		return nil, err
	case s.Keeper == nil && name != "0":
		return nil, fmt.Errorf("%s has no card ranges yet", scheme)
	case name == directory.HeldName && status.Held == 0:
		return nil, fmt.Errorf("nothing of %s is held back", scheme)
	}
	g, err := directory.OpenNamed(ctx, s, scheme, name, status.Held)
	if errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("%s has no generation %s%s", scheme, name, s.describeGenerations(ctx, scheme))
	}
	return g, err
}

// describeGenerations returns which generations the store has, in words.
func (s *Ranges) describeGenerations(ctx context.Context, scheme string) string {
	all, err := s.Snapshots(ctx, scheme)
	if err != nil || len(all) == 0 {
		return " (there is none)"
	}
	var numbers []string
	for _, one := range all {
		numbers = append(numbers, strconv.FormatInt(one.Generation, 10))
	}
	slices.Reverse(numbers)
	return fmt.Sprintf(" (there are: %s)", strings.Join(numbers, ", "))
}

// CheckGeneration checks the name of a generation.
func CheckGeneration(name string) error {
	if directory.IsGenerationName(name) {
		return nil
	}
	return fmt.Errorf("%q is no number of a generation, and not %q", cardnumber.MaskDigits(name), directory.HeldName)
}

// ConfigArgument returns the --config flag for a command that is proposed to the operator, ""
// if the default configuration is used.
func (s *Ranges) ConfigArgument() string {
	if s.file == cmdline.DefaultConfig {
		return ""
	}
	return " --config " + s.file
}

// Acts returns what a command may do with the card ranges of the store.
func (s *Ranges) Acts() *ops.Acts {
	return &ops.Acts{Operators: NewTrail(s.Config, s.audit, nil), Keeper: s.Keeper, Now: time.Now}
}
