package ops

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/internal/operate/operator"
)

// A Door is a way by which actors reach an act.
type Door string

// The doors.
const (
	Merchants Door = "merchants' API"
	Admin     Door = "admin API"
	Console   Door = "console"
	Command   Door = "command line"
)

// An Act is one thing that an actor may do.
type Act struct {
	Name     string        // the words of the command, where there is one, with an argument in capitals
	Least    operator.Role // the least role that may do it
	IsForOwn bool          // people and keys of one merchant may do it too, with what is that merchant's
	// IsForGroups lets people and tokens of a group of merchants do it too, with what is its merchants'. An act without it
	// is refused to them. One that has it takes all that it shows and changes through the scope of the actor.
	IsForGroups bool
	Action      string // what the audit trail calls it; "" means that it is not there
	Object      string // what the entry of the audit trail has as object
	Doors       []Door
	// Danger is the group of dangerous acts that the act is in; "" means that it is none. A person at the console confirms
	// each of these acts, and Summary says on the page what is confirmed.
	Danger string

	// Do does an act on one thing if its id is all that the act needs. nil means that a function of Acts needs more.
	// Doors serve such an act without knowing it: Route is its operation of the admin API, which Summary and Answer
	// describe. The button of a page and the command have the second word of the name.
	Do      func(a *Acts, ctx context.Context, by operator.Actor, id string) (any, error)
	Route   string
	Summary string
	Answer  any // a value of the type that Do returns; nil: none
}

// The doors of most acts.
var (
	byOperators = []Door{Admin, Console, Command}
	byAll       = []Door{Merchants, Admin, Console, Command}
	byHTTP      = []Door{Admin, Console}
)

// table returns the one table of acts and rights.
func table() []Act {
	return slices.Concat(
		webhookActs(), keyActs(), merchantActs(), operatorActs(), directoryActs(), journalActs(), holdActs(),
		approvalActs(),
		[]Act{{Name: "api describe", Least: operator.Viewer, IsForOwn: true, IsForGroups: true, Doors: []Door{Admin}}},
	)
}

// acts is what table returns, and places says where each act is. They are set at the start, for acts refer to them.
var (
	acts   []Act
	places = map[string]int{}
)

func init() {
	acts = table()
	for i := range acts {
		places[acts[i].Name] = i
	}
}

// Table returns all acts.
func Table() []Act { return slices.Clone(acts) }

// Lookup returns the act of a name; nil means that there is none.
func Lookup(name string) *Act {
	if i, ok := places[name]; ok {
		return &acts[i]
	}
	return nil
}

// Find is Lookup for a name that stands in the code. It panics if there is no such act.
func Find(name string) *Act {
	act := Lookup(name)
	if act == nil {
		panic("ops: no act is called " + name)
	}
	return act
}

// May reports whether an actor may do the act at all.
func (act *Act) May(by *operator.Actor) bool {
	return by.Role.Includes(act.Least) && act.isFor(by)
}

// isFor reports whether the act is for an actor who sees only one merchant or a group.
func (act *Act) isFor(by *operator.Actor) bool {
	return (act.IsForOwn || by.Merchant == "") && (act.IsForGroups || by.Group == "")
}

// Check refuses an actor who may not do the act.
func (act *Act) Check(by *operator.Actor) error {
	switch {
	case act.May(by):
		return nil
	case act.isFor(by):
		return refuse(Forbidden, "This needs the role %s.", act.Least)
	}
	return refuse(Forbidden, "This is for those who see all merchants, with the role %s.", act.Least)
}

// Has reports whether a door leads to the act.
func (act *Act) Has(d Door) bool { return slices.Contains(act.Doors, d) }

// notActs are actions that the audit trail has in addition to those of acts: what nodes do, what people do at the
// login, and what commands do with a whole store or journal.
var notActs = []string{
	"audit.sign", "config.reload", "journal.archive", "journal.forget", "journal.generate", "journal.import", "key.rotate",
	"key.wrap", "login", "login.failed", "logout", "operator.register", "backup.restore",
}

// Actions returns all words that the action of an entry of the audit trail may be, in order.
func Actions() []string {
	all := slices.Clone(notActs)
	for i := range acts {
		if acts[i].Action != "" {
			all = append(all, acts[i].Action)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// CheckAction returns an error with all actions that there are if a word is none; nil for "".
func CheckAction(word string) error {
	if all := Actions(); word != "" && !slices.Contains(all, word) {
		return errors.New("want one of " + strings.Join(all, ", "))
	}
	return nil
}
