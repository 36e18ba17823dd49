package cmdline

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Words are the words that a name in the Takes of a [Command] stands for: those of SCHEME, for example.
type Words map[string][]string

// A Description is what the table and the flags of a command say about it.
type Description struct {
	Name      string // such as "key create"; "" for the program
	Forms     []Form
	Flags     []Flag
	Arguments Values        // what its arguments may be
	Commands  []Description // the commands of the program, or of a group
}

// A Flag is one flag of a command.
type Flag struct {
	Name, Usage string
	Value       string // the name of its value, such as FILE; "" if it takes none
	Values
}

// Values are what the value of a flag, or an argument, may be. The zero value is any text.
type Values struct {
	Words  []string
	IsFile bool
	IsDir  bool
}

// Describe asks each command of the program for its flags. The error names a command that does not answer.
func Describe(ctx context.Context, all []Command, words Words) (Description, error) {
	return describe(ctx, &Command{Commands: all}, "", words)
}

func describe(ctx context.Context, c *Command, name string, words Words) (Description, error) {
	d := Description{Name: name, Forms: c.forms()}
	for i := range c.Commands {
		inner, err := describe(ctx, &c.Commands[i], strings.TrimSpace(name+" "+c.Commands[i].Name), words)
		if err != nil {
			return d, err
		}
		d.Commands = append(d.Commands, inner)
	}
	if len(c.Commands) > 0 {
		return d, nil
	}
	err := c.Run(ctx, New(name, []string{"--help"}, strings.NewReader(""), io.Discard, io.Discard))
	help, isHelp := errors.AsType[HelpRequest](err)
	if !isHelp || help.Flags == nil {
		return d, fmt.Errorf("%s --help: want a list of flags, got %v", name, err)
	}
	placeholders, arguments := readForms(d.Forms, help.Flags)
	for _, word := range arguments {
		d.Arguments.add(word, words)
	}
	help.Flags.VisitAll(func(f *flag.Flag) {
		d.Flags = append(d.Flags, newFlag(f, placeholders[f.Name], words))
	})
	return d, nil
}

func newFlag(f *flag.Flag, placeholder string, words Words) Flag {
	described := Flag{Name: f.Name, Usage: strings.ReplaceAll(f.Usage, "`", "")}
	if isSwitch(f) {
		return described
	}
	if _, rest, isQuoted := strings.Cut(f.Usage, "`"); placeholder == "" && isQuoted {
		placeholder, _, _ = strings.Cut(rest, "`")
	}
	if placeholder == "" {
		placeholder = "VALUE"
	}
	described.Value = placeholder
	described.add(placeholder, words)
	return described
}

func isSwitch(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// readForms returns what the forms of a command call the values of its flags, and its arguments.
func readForms(forms []Form, flags *flag.FlagSet) (values map[string]string, arguments []string) {
	values = map[string]string{}
	for _, form := range forms {
		words := strings.Fields(strings.NewReplacer("[", " ", "]", " ", "(", " ", ")", " ", "...", " ").Replace(form.Takes))
		for i := 0; i < len(words); i++ {
			name, isFlag := strings.CutPrefix(words[i], "--")
			switch f := flags.Lookup(name); {
			case words[i] == "|":
			case !isFlag:
				arguments = append(arguments, words[i])
			case f != nil && isSwitch(f):
			case i+1 < len(words): // a flag, or a name for many flags, with its value
				i++
				values[name] = words[i]
			}
		}
	}
	return values, arguments
}

// placeholderForm is a name for values, such as FILE. All else in a form is typed as it stands there.
var placeholderForm = regexp.MustCompile(`^[A-Z:]+$`)

// add adds the values that a word of a form stands for, such as FILE or a|b.
func (v *Values) add(form string, words Words) {
	for word := range strings.SplitSeq(form, "|") {
		known, isKnown := words[word]
		switch {
		case strings.HasSuffix(word, "FILE"):
			v.IsFile = true
		case word == "DIR":
			v.IsDir = true
		case isKnown:
			v.Words = append(v.Words, known...)
		case placeholderForm.MatchString(word):
			// any text
		default:
			v.Words = append(v.Words, word)
		}
	}
}

// Does returns in few words what a command does.
func (d *Description) Does() string {
	does, _, _ := strings.Cut(d.Forms[0].Does, ";")
	return strings.Join(strings.Fields(does), " ")
}

// Word returns the last word of the name: "create" of "key create".
func (d *Description) Word() string { return d.Name[strings.LastIndex(d.Name, " ")+1:] }

// Walk calls visit with a description and all that are in it.
func (d *Description) Walk(visit func(*Description)) {
	visit(d)
	for i := range d.Commands {
		d.Commands[i].Walk(visit)
	}
}
