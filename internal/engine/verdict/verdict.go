// Package verdict says what is wrong with a text, without a server. Use [Check] for a message, and [Explain] for the
// body of an /auth. They are the commands `threeds check` and `threeds explain`, and the checker in the documentation,
// which runs in a browser. So all of them say the same.
//
// It uses no store, no network and no clock.
package verdict

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/base/hint"
	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/protocol/inspect"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/message"
)

// MaxText is how long a text may be: far more than any listener takes.
const MaxText = 64 << 20

// Options say how a text is judged, and how the verdict is written.
type Options struct {
	Name   string    // Name is what the lines of the verdict call the text.
	Scheme string    // Scheme is the card scheme whose rules count as well; "" is none, or that of the body.
	AsOf   time.Time // AsOf is the day whose rules count for [Explain]; its zero value is Now.
	Now    time.Time
	IsJSON bool // IsJSON writes the verdict as one JSON object.
}

// An UnreadableError says that a text holds nothing that can be judged. A command ends with the exit status 2.
type UnreadableError struct{ Err error }

func (e UnreadableError) Error() string { return e.Err.Error() }

func (e UnreadableError) Unwrap() error { return e.Err }

// Status returns the exit status of a command that ends with an error of this package: 0 if nothing is wrong with the
// text, 1 if it has faults, and 2 if it cannot be judged.
func Status(err error) int {
	if _, isUnreadable := errors.AsType[UnreadableError](err); isUnreadable {
		return 2
	}
	if err != nil {
		return 1
	}
	return 0
}

// FindScheme returns an error if a word is no card scheme. "" is none, and no error.
func FindScheme(word string) error {
	if known := scheme.Names(); word != "" && !slices.Contains(known, word) {
		return fmt.Errorf("no scheme %q%s", word, hint.For(word, known...))
	}
	return nil
}

// Check writes the message in a text, masked, to stdout, and all that is wrong with it to stderr. The error says how
// many faults there are.
func Check(text []byte, o Options, stdout, stderr io.Writer) error {
	if len(text) > MaxText {
		return o.tooLong()
	}
	input, ok := inspect.Read(text)
	if !ok {
		_, err := message.Parse(text, message.Limits{Members: -1})
		return o.unreadable(err, inspect.DescribeOther(text))
	}
	report, err := inspect.Check(input, o.Scheme, o.Now)
	if err != nil {
		return o.unreadable(err, inspect.DescribeOther(text))
	}
	if o.IsJSON {
		err = report.WriteJSON(stdout)
	} else {
		err = report.Write(o.Name, stdout, stderr)
	}
	if err == nil && report.Faults > 0 {
		err = o.faults(report.Faults)
	}
	return err
}

// Explain writes what /auth would make of the body in a text: the AReq to stdout, masked, and what is wrong to stderr.
// It does not know card ranges and the profile of a merchant. The error says how many faults there are.
func Explain(text []byte, o Options, stdout, stderr io.Writer) error {
	if len(text) > MaxText {
		return o.tooLong()
	}
	x, err := ExplainText(text, check.ExplainOptions{Scheme: o.Scheme, AsOf: o.AsOf, AllowMaskedCard: true}, o.Now)
	if err != nil {
		return o.unreadable(err, "")
	}
	if o.IsJSON {
		enc := json.NewEncoder(stdout)
		enc.SetEscapeHTML(false)
		err = enc.Encode(x.Shape())
	} else {
		err = x.Write(o.Name, stdout, stderr)
	}
	if err == nil && !x.IsValid {
		err = o.faults(len(x.Faults))
	}
	return err
}

func (o Options) unreadable(err error, what string) error {
	return UnreadableError{fmt.Errorf("%s: %w%s", o.Name, err, what)}
}

func (o Options) tooLong() error {
	return fmt.Errorf("%s: longer than %d MiB, so it was not checked: no message is", o.Name, MaxText>>20)
}

func (o Options) faults(n int) error { return fmt.Errorf("%s: %s", o.Name, terminal.Count(n, "fault")) }
