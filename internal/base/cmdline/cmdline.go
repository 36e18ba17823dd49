// Package cmdline reads a command as somebody has typed it. A program has a table of [Command]. Each one gets an
// [Invocation], adds its flags, and reads them with [Invocation.ReadArgs]. [Usage], [Describe], [Completion] and
// [Manual.ManPages] make the help of the program from the same table.
//
// A [UsageError] says that a command line cannot be run, a [HelpRequest] that it asks for help.
package cmdline

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/base/hint"
	"github.com/openthreeds/threeds/internal/base/terminal"
)

// DefaultConfig is the configuration that is read when --config names none.
const DefaultConfig = "threeds.yaml"

// A UsageError is the error of a command line that cannot be run. Its exit status is 2.
type UsageError struct{ text string }

func (e UsageError) Error() string { return e.text }

// A HelpRequest is the error of a command line that asks for help with a command. Its text is
// the result, and the exit status is 0.
type HelpRequest struct {
	Text  string
	Flags *flag.FlagSet // the flags of the command; nil for a group
}

func (r HelpRequest) Error() string { return r.Text }

// Usagef returns a [UsageError].
func Usagef(format string, args ...any) error { return UsageError{fmt.Sprintf(format, args...)} }

// A Command is one of the program, or of a group such as "threeds key".
type Command struct {
	Name     string
	Run      func(ctx context.Context, cmd *Invocation) error // nil for a group
	Commands []Command                                        // the commands of a group; nil for one that runs

	// Takes names flags and arguments as people write them: [--config FILE] URL. The word behind a flag says what its
	// values are. FILE and DIR are completed as names of files, a|b by these words, and other names by [Words].
	Takes string
	Does  string // one sentence, or several separated by semicolons, without a full stop
	Other []Form // further ways to call it
}

// A Form is one way to call a command.
type Form struct{ Takes, Does string }

// Call runs the command, or the one of the group that the arguments begin with.
func (c *Command) Call(ctx context.Context, cmd *Invocation) error {
	if len(c.Commands) == 0 {
		return c.Run(ctx, cmd)
	}
	if err := checkWord(cmd, Names(c.Commands)); err != nil {
		return err
	}
	inner := New(cmd.Name()+" "+cmd.Words[0], cmd.Words[1:], cmd.Stdin, cmd.Stdout, cmd.Stderr)
	return Find(c.Commands, cmd.Words[0]).Call(ctx, inner)
}

// Find returns the command with a name, nil if there is none.
func Find(all []Command, name string) *Command {
	i := slices.IndexFunc(all, func(c Command) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// Names returns the names of commands.
func Names(all []Command) []string {
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = c.Name
	}
	return names
}

// An Invocation is a command as somebody has typed it. The command adds its flags and then reads them.
type Invocation struct {
	*flag.FlagSet           // has the name of the command, such as "key create"
	Words          []string // what stands behind that name
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// New returns a command with a name, and what stands behind it.
func New(name string, args []string, stdin io.Reader, stdout, stderr io.Writer) *Invocation {
	return &Invocation{flag.NewFlagSet(name, flag.ContinueOnError), args, stdin, stdout, stderr}
}

// Word returns the last word of the name: "create" of "key create".
func (cmd *Invocation) Word() string {
	words := strings.Fields(cmd.Name())
	return words[len(words)-1]
}

// checkWord refuses arguments of a group that do not begin with one of its commands. The error says which there are.
func checkWord(cmd *Invocation, names []string) error {
	last := len(names) - 1
	list := names[last]
	if last > 0 {
		list = strings.Join(names[:last], ", ") + " or " + list
	}
	switch {
	case len(cmd.Words) == 0:
		return Usagef("%s: no command (%s)", cmd.Name(), list)
	case slices.Contains([]string{"-h", "-help", "--help"}, cmd.Words[0]):
		return HelpRequest{Text: fmt.Sprintf("threeds %s takes a command: %s", cmd.Name(), list)}
	case !slices.Contains(names, cmd.Words[0]):
		return Usagef("%s: unknown command %q%s",
			cmd.Name(), cardnumber.MaskDigits(cmd.Words[0]), hint.For(cmd.Words[0], names...))
	}
	return nil
}

// ReadExactly is [Invocation.ReadArgs] for a command that needs n arguments. missing is what to say when one is not
// there.
func (cmd *Invocation) ReadExactly(n int, missing string) ([]string, error) {
	rest, err := cmd.ReadArgs(n)
	if err == nil && len(rest) < n {
		err = Usagef("%s: %s", cmd.Name(), missing)
	}
	return rest, err
}

// ReadArgs reads the flags of a command, which may stand before and after its arguments,
// and returns the arguments. More arguments than most are an error of usage.
func (cmd *Invocation) ReadArgs(most int) ([]string, error) {
	cmd.SetOutput(io.Discard) // the error is enough
	var rest []string
	for args := cmd.Words; ; args = cmd.Args()[1:] {
		if err := cmd.Parse(args); err != nil {
			return nil, flagError(cmd.FlagSet, args, err)
		}
		if cmd.NArg() == 0 {
			break
		}
		rest = append(rest, cmd.Arg(0))
	}
	if len(rest) > most {
		return nil, Usagef("%s: unexpected argument %q", cmd.Name(), rest[most])
	}
	return rest, nil
}

// ReadScheme reads a command line: a scheme, and then the arguments that more names. All of them must be there.
func (cmd *Invocation) ReadScheme(more ...string) ([]string, error) {
	want := append([]string{"SCHEME"}, more...)
	rest, err := cmd.ReadArgs(len(want))
	if err != nil {
		return nil, err
	}
	if len(rest) < len(want) {
		return nil, Usagef("%s: %s is missing", cmd.Name(), want[len(rest)])
	}
	return rest, nil
}

// ConfigFlag adds the flag that names the configuration.
func (cmd *Invocation) ConfigFlag() *string {
	return cmd.String("config", DefaultConfig, "the configuration")
}

// JSONFlag adds the flag that asks for JSON.
func (cmd *Invocation) JSONFlag() *bool { return cmd.Bool("json", false, "say it in JSON") }

// PrintResult writes a value in JSON, or a line of text to the standard error, where it disturbs no script.
func (cmd *Invocation) PrintResult(asJSON bool, value any, format string, args ...any) error {
	if asJSON {
		return terminal.WriteJSON(cmd.Stdout, value)
	}
	_, err := fmt.Fprintf(cmd.Stderr, "threeds: "+format+"\n", args...)
	return err
}

// flagError says what is wrong with a flag, with the nearest one that exists.
func flagError(fs *flag.FlagSet, args []string, err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return HelpRequest{Text: fmt.Sprintf("threeds %s takes%s", fs.Name(), flagNames(fs)), Flags: fs}
	}
	for _, arg := range args {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if strings.HasPrefix(arg, "-") && name != "" && fs.Lookup(name) == nil {
			var known []string
			fs.VisitAll(func(f *flag.Flag) { known = append(known, "--"+f.Name) })
			return Usagef("%s: unknown flag --%s%s", fs.Name(), name, hint.For("--"+name, known...))
		}
	}
	return Usagef("%s: %v", fs.Name(), err)
}

func flagNames(fs *flag.FlagSet) string {
	var b strings.Builder
	fs.VisitAll(func(f *flag.Flag) {
		fmt.Fprintf(&b, "\n    --%s: %s", f.Name, strings.ReplaceAll(f.Usage, "`", ""))
	})
	if b.Len() == 0 {
		return " no flags"
	}
	return b.String()
}
