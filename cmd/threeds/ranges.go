package main

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
	"unicode"

	"github.com/openthreeds/threeds/internal/base/hint"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/peers/directory"
	"github.com/openthreeds/threeds/internal/peers/rangequery"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/internal/state/store"
)

// rangesCommands show and change the card ranges that are kept in the store, next to a running server or without one.
var rangesCommands = []command{
	{"status", rangesStatus}, {"lookup", rangesLookup}, {"diff", rangesDiff}, {"export", rangesExport}, {"import", rangesImport},
	{"refresh", rangesRefresh}, {"accept", rangesAccept},
}

// A rangeStore is the store of a configuration, as the commands on card ranges use it.
type rangeStore struct {
	directory.Keeper // nil means that there is no store yet
	*config.Config
	file  string         // the configuration file
	audit operator.Store // nil without a store
}

// withRanges opens the store that a configuration names, and closes it again.
// One that is not there is not made.
func withRanges(ctx context.Context, file string, do func(*rangeStore) error) error {
	return openRanges(ctx, file, false, do)
}

// openRanges is withRanges, but makes a store that is not there if create is set.
func openRanges(ctx context.Context, file string, create bool, do func(*rangeStore) error) (err error) {
	c, err := config.Read(file)
	if err != nil {
		return err
	}
	s := &rangeStore{Config: c, file: file}
	if at := c.Store.URL; at.Postgres == "" && !create {
		if _, err := os.Stat(at.Dir); errors.Is(err, fs.ErrNotExist) {
			return do(s)
		}
	}
	db, err := server.OpenStore(ctx, c.Store.URL)
	if err != nil {
		return err
	}
	s.Keeper, s.audit = db, db
	defer func() { err = errors.Join(err, db.Close()) }()
	return do(s)
}

// directory is the configured directory of a scheme.
func (s *rangeStore) directory(scheme string) (config.Directory, error) {
	var names []string
	for _, d := range s.Directories {
		if d.Scheme == scheme {
			return d, nil
		}
		names = append(names, d.Scheme)
	}
	return config.Directory{}, usageErrorf("ranges: %s names no directory of scheme %q%s (there are: %s)",
		s.file, maskDigits(scheme), hint.For(scheme, names...), strings.Join(names, ", "))
}

// refreshStatus returns the state of the refreshing of a scheme, for a node with this configuration.
func (s *rangeStore) refreshStatus(ctx context.Context, scheme string) (directory.RefreshStatus, error) {
	if s.Keeper == nil {
		return directory.RefreshStatus{}, nil
	}
	status, err := directory.ReadRefreshStatus(ctx, s, scheme)
	if i := slices.IndexFunc(s.Directories, func(d config.Directory) bool { return d.Scheme == scheme }); i >= 0 {
		status = status.AdaptTo(s.Directories[i].Refresh, s.Directories[i].MinRefresh)
	}
	return status, err
}

// refreshRequest returns what an operator has asked for and no node has seen yet.
func (s *rangeStore) refreshRequest(ctx context.Context, scheme string, status directory.RefreshStatus) (directory.RefreshRequest, error) {
	if s.Keeper == nil {
		return directory.RefreshRequest{}, nil
	}
	return directory.ReadRefreshRequest(ctx, s, scheme, status)
}

var errNoneWhole = errors.New("none of its generations can be read")

// inUse reads the generation that a node would use if it started now: the newest complete one. It reports incomplete
// ones to complain. It returns nil if there are none at all.
func (s *rangeStore) inUse(ctx context.Context, scheme string, complain io.Writer) (*ranges.Generation, int64, error) {
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
		return nil, 0, fmt.Errorf("%s: %w", scheme, errNoneWhole)
	}
	return nil, 0, nil
}

// heldWord stands for the generation that is held back where a number of one is
// expected.
const heldWord = "held"

// generation reads one generation of a scheme; that of number 0 is empty.
func (s *rangeStore) generation(ctx context.Context, scheme, word string) (*ranges.Generation, error) {
	open, number := directory.OpenGeneration, int64(0)
	if word != heldWord {
		if number, _ = strconv.ParseInt(word, 10, 64); number == 0 { // generationWord has checked it
			return &ranges.Generation{}, nil
		}
	}
	if s.Keeper == nil {
		return nil, fmt.Errorf("%s has no card ranges yet", scheme)
	}
	if word == heldWord {
		status, err := s.refreshStatus(ctx, scheme)
		if err != nil {
			return nil, err
		}
		if status.Held == 0 {
			return nil, fmt.Errorf("nothing of %s is held back", scheme)
		}
		open, number = directory.OpenHeld, status.Held
	}
	g, err := open(ctx, s, scheme, number)
	if errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("%s has no generation %s%s", scheme, word, s.describeGenerations(ctx, scheme))
	}
	return g, err
}

// describeGenerations returns which generations the store has, in words.
func (s *rangeStore) describeGenerations(ctx context.Context, scheme string) string {
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

// checkGenerationWord checks the word that names a generation.
func checkGenerationWord(word string) error {
	if n, err := strconv.ParseInt(word, 10, 64); word == heldWord || err == nil && n >= 0 {
		return nil
	}
	return fmt.Errorf("%q is no number of a generation, and not %q", maskDigits(word), heldWord)
}

// parseScheme reads a command line: a scheme, and then the arguments that more names. All of them must be there.
func (cmd *invocation) parseScheme(more ...string) ([]string, error) {
	want := append([]string{"SCHEME"}, more...)
	rest, err := cmd.parse(len(want))
	if err != nil {
		return nil, err
	}
	if len(rest) < len(want) {
		return nil, usageErrorf("%s: %s is missing", cmd.Name(), want[len(rest)])
	}
	return rest, nil
}

// configArgument returns the --config flag for a command that is proposed to the operator, ""
// if the default configuration is used.
func (s *rangeStore) configArgument() string {
	if s.file == defaultConfig {
		return ""
	}
	return " --config " + s.file
}

// maskDigits returns a text without a card number.
func maskDigits(s string) string { return rangequery.MaskDigits(s) }

func isDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }

// oneLine is a text that others wrote, fit for a terminal and a table.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
}
