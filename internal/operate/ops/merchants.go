package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/operate/merchant"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/state/account"
)

// merchantActs are the acts on merchants.
func merchantActs() []Act {
	const object = "name"
	return []Act{
		{Name: "merchant list", Least: operator.Viewer, IsForOwn: true, IsForGroups: true, Doors: byOperators},
		{Name: "merchant add", Least: operator.Operator, Action: "merchant.create", Object: object, Doors: byOperators},
		{Name: "merchant set", Least: operator.Operator, IsForGroups: true, Action: "merchant.change", Object: object,
			Doors: byOperators},
		{
			Name: "merchant remove", Least: operator.Operator, Action: "merchant.remove", Object: object, Doors: byOperators,
			Danger: "merchants", Summary: "Remove a merchant",
		},
		{
			Name: "merchant import", Least: operator.Operator, Action: "merchant.import", Object: object,
			Doors: []Door{Command},
		},
		{Name: "merchant export", Least: operator.Viewer, Doors: []Door{Command}},
		// To disable is no dangerous act: it has to be fast, and can be taken back.
		{Name: "merchant disable", Least: operator.Operator, IsForGroups: true, Action: "merchant.disable", Object: object,
			Doors: byOperators},
		{
			Name: "merchant enable", Least: operator.Operator, IsForGroups: true, Action: "merchant.enable", Object: object,
			Doors: byOperators, Danger: "merchants", Route: "POST merchants/{name}/enable",
			Summary: "Serve a merchant again that was disabled",
			Answer:  merchant.Entry{},
			Do: func(a *Acts, ctx context.Context, by operator.Actor, name string) (any, error) {
				return a.enableMerchant(ctx, by, name)
			},
		},
	}
}

// merchantRefusal returns the refusal that an error of the registry is.
func merchantRefusal(err error) error {
	if errors.Is(err, merchant.ErrNotFound) {
		return errNoMerchant
	}
	for _, conflict := range []error{merchant.ErrInFile, merchant.ErrExists, merchant.ErrNoRow, merchant.ErrChanged,
		merchant.ErrRefused, merchant.ErrDisabled, merchant.ErrEnabled} {
		if errors.Is(err, conflict) {
			return &Refusal{Conflict, "", err.Error() + ".", err}
		}
	}
	return err
}

// ListMerchants returns the merchants that the actor may see, by name.
func (a *Acts) ListMerchants(ctx context.Context, by operator.Actor) ([]merchant.Entry, error) {
	if err := Find("merchant list").Check(&by); err != nil {
		return nil, err
	}
	all, err := a.Merchants().List(ctx)
	all = slices.DeleteFunc(all, func(e merchant.Entry) bool { return !by.CanSee(e.Name) })
	for i := range all {
		hideReason(&by, &all[i])
	}
	return all, err
}

// hideReason takes out of an entry why and by whom the merchant was disabled, for people of the merchant itself, and
// for those of its group unless one of them has disabled it.
func hideReason(by *operator.Actor, e *merchant.Entry) {
	if by.IsBound() && e.Disabled != nil && !isByGroup(by, e.Disabled) {
		e.Disabled = &account.Disabling{Since: e.Disabled.Since}
	}
}

// isByGroup reports whether a merchant was disabled by a person or a token of the actor's group.
func isByGroup(by *operator.Actor, d *account.Disabling) bool {
	return by.Group != "" && d.Group == by.Group
}

// findMerchant returns a merchant that the actor may see.
func (a *Acts) findMerchant(ctx context.Context, by *operator.Actor, name string) (merchant.Entry, error) {
	if !by.CanSee(name) {
		return merchant.Entry{}, errNoMerchant
	}
	e, err := a.Merchants().Get(ctx, name)
	return e, merchantRefusal(err)
}

// Merchant returns one merchant.
func (a *Acts) Merchant(ctx context.Context, by operator.Actor, name string) (merchant.Entry, error) {
	if err := Find("merchant list").Check(&by); err != nil {
		return merchant.Entry{}, err
	}
	e, err := a.findMerchant(ctx, &by, name)
	hideReason(&by, &e)
	return e, err
}

// A MerchantBody has members of a merchant, as JSON. They are named like the keys of the configuration.
type MerchantBody map[string]json.RawMessage

// MerchantMembers are the members of a merchant in a body.
var MerchantMembers = []string{
	"acquirer_country", "bridging", "group", "in_flight", "mcc", "merchant_country", "merchant_name", "name", "origins",
	"page", "per_directory", "rate", "requestor_id", "requestor_name", "requestor_url", "scheme_rules", "transliterate",
}

// Apply puts the members into a merchant. One that is null goes back to its default.
func (b MerchantBody) Apply(m *account.Merchant) error {
	members := map[string]json.RawMessage{}
	was, err := json.Marshal(m)
	if err == nil {
		err = json.Unmarshal(was, &members)
	}
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		switch {
		case !slices.Contains(MerchantMembers, name):
			return refuse(Wrong, "A member of the body is none of a merchant: want %v.", MerchantMembers)
		case string(b[name]) == "null":
			delete(members, name)
		default:
			members[name] = b[name]
		}
	}
	whole, err := json.Marshal(members)
	if err != nil {
		return err
	}
	var changed account.Merchant
	if err := json.Unmarshal(whole, &changed); err != nil {
		return refuse(Wrong, "A member of the body has the wrong type. GET merchants shows each.")
	}
	*m = changed
	return nil
}

// checkProfile returns a merchant with its values in their usual form. What is wrong with them is in the error.
func (a *Acts) checkProfile(m account.Merchant) (account.Merchant, error) {
	checked, err := a.Merchants().Check(m)
	if err != nil {
		return m, &Refusal{Wrong, "", err.Error() + ".", err}
	}
	return checked, nil
}

// MaxGroup is how many merchants a group may have. A search of a group looks for each of them in turn.
const MaxGroup = 1000

// checkRoom refuses one more merchant for a group that is full. Two changes at the same time may bring a group beyond
// the limit, and so may a configuration; it then only takes longer to search.
func (a *Acts) checkRoom(ctx context.Context, group string) error {
	if group == "" {
		return nil
	}
	members, err := a.Merchants().Members(ctx, group)
	if err == nil && len(members) >= MaxGroup {
		return refuseMember("group", "it has %d merchants, which is the maximum.", MaxGroup)
	}
	return err
}

// AddMerchant adds a merchant to the store.
func (a *Acts) AddMerchant(ctx context.Context, by operator.Actor, m account.Merchant) (merchant.Entry, error) {
	none := merchant.Entry{}
	if err := Find("merchant add").Check(&by); err != nil {
		return none, err
	}
	m, err := a.checkProfile(m)
	if err != nil {
		return none, err
	}
	was, err := a.Merchants().Get(ctx, m.Name)
	switch {
	case err == nil && was.Source == merchant.File:
		return none, merchantRefusal(merchant.ErrInFile)
	case err == nil && was.Source == merchant.Store:
		return none, merchantRefusal(merchant.ErrExists)
	case err != nil && !errors.Is(err, merchant.ErrNotFound):
		return none, err
	}
	if err := a.checkRoom(ctx, m.Group); err != nil {
		return none, err
	}
	if err := a.Record(ctx, by, "merchant add", m.Name, nil, &m); err != nil {
		return none, err
	}
	e, err := a.Merchants().Put(ctx, m, "")
	return e, merchantRefusal(err)
}

// findChangeable returns a merchant of the store that has the version that the actor has seen. A merchant that has only
// API keys has no version, and gets its first settings.
func (a *Acts) findChangeable(ctx context.Context, by *operator.Actor,
	act, name, version string) (merchant.Entry, error) {
	if err := Find(act).Check(by); err != nil {
		return merchant.Entry{}, err
	}
	was, err := a.findMerchant(ctx, by, name)
	switch {
	case err != nil:
		return was, err
	case was.Source == merchant.File:
		return was, merchantRefusal(merchant.ErrInFile)
	case version == "" && was.Source == merchant.Store:
		return was, refuseMember("version", "give that of the merchant as GET shows it.")
	case was.Version != version:
		return was, merchantRefusal(merchant.ErrChanged)
	}
	return was, nil
}

// checkBound refuses changes of what people of a group may not change of their merchants: the group, and the limits
// that keep one merchant from taking what all share.
func checkBound(by *operator.Actor, was, now *account.Merchant) error {
	for _, m := range []struct {
		name   string
		isSame bool
	}{
		{"group", now.Group == was.Group}, {"in_flight", now.InFlight == was.InFlight}, {"rate", now.Rate == was.Rate},
	} {
		if by.Group != "" && !m.isSame {
			return refuseMember(m.name, "only those who see all merchants can change it.")
		}
	}
	return nil
}

// ChangeMerchant changes a merchant of the store. version is that of the entry that the actor has seen.
func (a *Acts) ChangeMerchant(ctx context.Context, by operator.Actor, name, version string,
	change func(*account.Merchant) error) (merchant.Entry, error) {
	was, err := a.findChangeable(ctx, &by, "merchant set", name, version)
	if err != nil {
		return was, err
	}
	m := was.Merchant
	if err := change(&m); err != nil {
		return was, err
	}
	if m.Name != was.Name {
		return was, refuseMember("name", "it cannot be changed.")
	}
	if err := checkBound(&by, &was.Merchant, &m); err != nil {
		return was, err
	}
	if m, err = a.checkProfile(m); err != nil {
		return was, err
	}
	if m.Group != was.Group {
		if err := a.checkRoom(ctx, m.Group); err != nil {
			return was, err
		}
	}
	if err := a.Record(ctx, by, "merchant set", m.Name, &was.Merchant, &m); err != nil {
		return was, err
	}
	e, err := a.Merchants().Put(ctx, m, version)
	return e, merchantRefusal(err)
}

// RemoveMerchant removes a merchant from the store. Its API keys stay good.
func (a *Acts) RemoveMerchant(ctx context.Context, by operator.Actor, name, version string) error {
	was, err := a.findChangeable(ctx, &by, "merchant remove", name, version)
	if err != nil {
		return err
	}
	if was.Source == merchant.Keys || was.Source == merchant.Removed {
		return merchantRefusal(merchant.ErrNoRow)
	}
	if err := a.Record(ctx, by, "merchant remove", was.Name, &was.Merchant, nil); err != nil {
		return err
	}
	return merchantRefusal(a.Merchants().Remove(ctx, was.Name, version))
}

// MaxReason is the length of the longest reason for which a merchant is disabled, in characters.
const MaxReason = 200

// checkReason refuses a reason that says nothing, or more than a line.
func checkReason(reason string) error {
	if reason == "" {
		return refuseMember("reason", "say why, for those who read the audit trail.")
	}
	isUnprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	if utf8.RuneCountInString(reason) > MaxReason || !utf8.ValidString(reason) ||
		strings.ContainsFunc(reason, isUnprintable) {
		return refuseMember("reason", "want printable text of at most %d characters.", MaxReason)
	}
	if err := cardnumber.Check(reason); err != nil {
		return refuseMember("reason", "%v.", err)
	}
	return nil
}

// DisableMerchant has all nodes refuse what the API keys of a merchant would begin, within a second. What is under way
// goes on, and its results are handed out. The merchant may be of the configuration, too. One that people of a group
// have disabled is disabled again by those who see all merchants: after that the group cannot enable it.
func (a *Acts) DisableMerchant(ctx context.Context, by operator.Actor, name, reason string) (merchant.Entry, error) {
	if err := Find("merchant disable").Check(&by); err != nil {
		return merchant.Entry{}, err
	}
	why := account.Disabling{
		Since: a.Now().UTC().Truncate(time.Second), Reason: strings.TrimSpace(reason), By: by.Who, Group: by.Group,
	}
	e, err := a.findMerchant(ctx, &by, name)
	if err != nil {
		return merchant.Entry{}, err
	}
	if err := checkReason(why.Reason); err != nil {
		return merchant.Entry{}, err
	}
	if !MayDisable(&by, &e) {
		return merchant.Entry{}, merchantRefusal(merchant.ErrDisabled)
	}
	var before any
	if e.Disabled != nil {
		before = e.Disabled
	}
	if err := a.Record(ctx, by, "merchant disable", name, before, why); err != nil {
		return merchant.Entry{}, err
	}
	if err := a.Merchants().Disable(ctx, name, why); err != nil {
		return merchant.Entry{}, merchantRefusal(err)
	}
	a.Hooks.AnnounceToOperator(ctx, api.EventMerchantDisabled, occurrenceOf(name, a.Now()),
		api.MerchantDisabled{Merchant: name, Reason: why.Reason, By: why.By, At: why.Since})
	e.Disabled = &why
	return e, nil
}

// MayDisable reports whether a merchant is one that the actor would disable: it is served, or people of a group have
// disabled it and would enable it again, and the actor is of none.
func MayDisable(by *operator.Actor, e *merchant.Entry) bool {
	return e.Disabled == nil || e.Disabled.Group != "" && !by.IsBound()
}

// enableMerchant serves a merchant again.
func (a *Acts) enableMerchant(ctx context.Context, by operator.Actor, name string) (merchant.Entry, error) {
	if err := Find("merchant enable").Check(&by); err != nil {
		return merchant.Entry{}, err
	}
	e, err := a.findMerchant(ctx, &by, name)
	switch {
	case err != nil:
		return merchant.Entry{}, err
	case e.Disabled == nil:
		return merchant.Entry{}, merchantRefusal(merchant.ErrEnabled)
	case by.Group != "" && !isByGroup(&by, e.Disabled):
		return merchant.Entry{}, refuse(Forbidden, "The operator of this server has disabled this merchant, and enables it.")
	}
	// Who confirms or allows the act sees what it ends, and means no later one.
	object := name
	if d := e.Disabled; !d.Since.IsZero() { // its row is as it was sealed
		object = fmt.Sprintf("%s, disabled at %s: %s", name, d.Since.Format(time.RFC3339), d.Reason)
	}
	if err := a.checkDanger(&by, "merchant enable", object); err != nil {
		return merchant.Entry{}, err
	}
	if err := a.record(ctx, by, "merchant enable", name, e.Disabled, nil); err != nil {
		return merchant.Entry{}, err
	}
	if err := a.Merchants().Enable(ctx, name); err != nil {
		return merchant.Entry{}, merchantRefusal(err)
	}
	at := a.Now().UTC().Truncate(time.Second)
	a.Hooks.AnnounceToOperator(ctx, api.EventMerchantEnabled, occurrenceOf(name, a.Now()),
		api.MerchantEnabled{Merchant: name, By: by.Who, At: at})
	e.Disabled = nil
	return e, nil
}

// occurrenceOf distinguishes what happens to a merchant at one moment from what happens at others.
func occurrenceOf(name string, at time.Time) string {
	return name + " " + at.UTC().Format(time.RFC3339Nano)
}

// An ImportFault is what is wrong with one merchant that is to be imported.
type ImportFault struct {
	Index int // of the merchant, from 0
	Err   error
}

// An Imported says how many merchants an import adds, changes and leaves as they are.
type Imported struct {
	Added     int `json:"added"`
	Changed   int `json:"changed"`
	Unchanged int `json:"unchanged"`
}

// ImportMerchants puts many merchants into the store, each in the place of the one with its name, all of them or none.
// If anything is wrong it changes nothing, and returns all faults. A dry run changes nothing either. Other merchants
// stay as they are. Each merchant that changes is an entry of the audit trail.
func (a *Acts) ImportMerchants(ctx context.Context, by operator.Actor, wanted []account.Merchant,
	isDry bool) (done Imported, faults []ImportFault, err error) {
	if err := Find("merchant import").Check(&by); err != nil {
		return done, nil, err
	}
	registry := a.Merchants()
	entries, err := registry.List(ctx)
	if err != nil {
		return done, nil, err
	}
	present := map[string]merchant.Entry{}
	for _, e := range entries {
		present[e.Name] = e
	}
	var changes []merchant.Change
	seen := map[string]bool{}
	for i := range wanted {
		m, err := registry.Check(wanted[i])
		was := present[m.Name]
		switch {
		case err != nil:
		case seen[m.Name]:
			err = errors.New("name: is there twice")
		case was.Source == merchant.File:
			err = merchant.ErrInFile
		case was.IsRefused:
			err = merchant.ErrRefused
		}
		if err != nil {
			faults = append(faults, ImportFault{i, err})
			continue
		}
		seen[m.Name] = true
		switch {
		case was.Source != merchant.Store:
			done.Added++
			changes = append(changes, merchant.Change{Merchant: m})
		case was.IsChange(&m):
			done.Changed++
			changes = append(changes, merchant.Change{Merchant: m, Was: was})
		default:
			done.Unchanged++
		}
	}
	faults = append(faults, findFullGroups(present, wanted)...)
	if len(faults) > 0 || isDry || len(changes) == 0 {
		return done, faults, nil
	}
	for i := range changes {
		var before any
		if changes[i].Was.Name != "" {
			before = &changes[i].Was.Merchant
		}
		if err := a.Record(ctx, by, "merchant import", changes[i].Merchant.Name, before, &changes[i].Merchant); err != nil {
			return Imported{}, nil, err
		}
	}
	return done, nil, merchantRefusal(registry.PutAll(ctx, changes))
}

// findFullGroups returns a fault for the first merchant of each group that has too many merchants after an import.
func findFullGroups(present map[string]merchant.Entry, wanted []account.Merchant) (faults []ImportFault) {
	groups := map[string]string{} // by merchant
	for name, e := range present {
		groups[name] = e.Group
	}
	for i := range wanted {
		groups[wanted[i].Name] = wanted[i].Group
	}
	sizes := map[string]int{}
	for _, group := range groups {
		sizes[group]++
	}
	for i := range wanted {
		if group := wanted[i].Group; group != "" && sizes[group] > MaxGroup {
			faults = append(faults, ImportFault{i, fmt.Errorf("group: has more than %d merchants", MaxGroup)})
			delete(sizes, group)
		}
	}
	return faults
}

// ExportMerchants returns the settings of the merchants in the store, and how many have settings that are not among
// them: those of the configuration, and those whose rows do not open.
func (a *Acts) ExportMerchants(ctx context.Context, by operator.Actor) (all []account.Merchant, left int, err error) {
	if err := Find("merchant export").Check(&by); err != nil {
		return nil, 0, err
	}
	entries, err := a.Merchants().List(ctx)
	for i := range entries {
		switch e := &entries[i]; {
		case e.Source == merchant.Store && !e.IsRefused:
			all = append(all, e.Merchant)
		case e.Source == merchant.Store, e.Source == merchant.File:
			left++
		}
	}
	return all, left, err
}
