package extension

import (
	"slices"
	"strings"

	"github.com/openthreeds/threeds/message"
)

// An Extension is a message extension whose content is public.
type Extension struct {
	Word string // the member of "extensions" in which a requestor writes it, such as "travelIndustry"
	ID   string // as in messageExtension[].id; "" if the id is not public, see Target.IDs
	Name string // as in messageExtension[].name
	Doc  string // what it is for, in a few English words

	Versions    []string          // of the data, oldest first; nil if the data has no version
	From, Until message.Version   // the protocol versions that have it
	Channels    []message.Channel // the channels that have it; nil means all
	Schemes     []string          // the words of the payment systems that have it; nil means all
	// OnlyListed is set if it may be sent only to cards whose range lists it. Others are sent
	// unless the range lists extensions and not this one.
	OnlyListed bool
	// Keyed is set if the data is an object with one member, which has the id as its name and
	// holds the fields.
	Keyed bool
	// Single is set if the extension has one value and no fields. A requestor writes it as a
	// string; the data has one member, with the id as its name.
	Single bool

	// Members are members of the data by which an extension without a public id is recognised,
	// under an id with the prefix RID.
	Members []string
	RID     string

	Source string // where its content is public
	Sure   bool   // false if the id or the form of the data has no source of its own

	tables map[message.Type]*message.Table
}

// Table returns the table of the fields in a message of one type, or nil if messages of that type
// do not carry the extension. The table must not be changed.
func (e *Extension) Table(t message.Type) *message.Table { return e.tables[t] }

// Types returns the types of the messages that carry the extension.
func (e *Extension) Types() []message.Type {
	return slices.DeleteFunc(message.Types(), func(t message.Type) bool { return e.tables[t] == nil })
}

// All returns all extensions. The result must not be changed.
func All() []*Extension { return all }

// ByID returns the extension with this id, or nil if there is none.
func ByID(id string) *Extension {
	if id == "" {
		return nil
	}
	return findExtension(func(e *Extension) bool { return e.ID == id })
}

// ByWord returns the extension with this word in any case, or nil if there is none.
func ByWord(word string) *Extension {
	return findExtension(func(e *Extension) bool { return strings.EqualFold(e.Word, word) })
}

// findExtension returns the first extension for which ok returns true, or nil.
func findExtension(ok func(*Extension) bool) *Extension {
	if i := slices.IndexFunc(all, ok); i >= 0 {
		return all[i]
	}
	return nil
}

// VersionOf returns the version of the extension with this id in a message. It returns "" if the
// message has none, or its data has no version.
func VersionOf(m *message.Message, id string) string {
	for _, x := range findItems(m) {
		if x.ID == id {
			return m.Text(string(x.fields) + ".version")
		}
	}
	return ""
}

// An item is one item of messageExtension with an id that is in the list.
type item struct {
	*Extension
	index  int
	fields message.Path   // the path of the object that holds the fields
	table  *message.Table // nil if messages of this type do not carry the extension
}

// recognise returns the extension of an item at a path: by its id, or by members of its data if it
// is one without a public id.
func recognise(m *message.Message, at string) *Extension {
	id := m.Text(at + ".id")
	if e := ByID(id); e != nil {
		return e
	}
	return findExtension(func(e *Extension) bool {
		return e.ID == "" && strings.HasPrefix(id, e.RID) &&
			slices.ContainsFunc(e.Members, func(name string) bool { return m.Raw(at+".data."+name) != nil })
	})
}

// findItems returns the items of messageExtension that are in the list.
func findItems(m *message.Message) []item {
	var items []item
	kind, hasType := m.Type()
	for i := 0; ; i++ {
		at := indexPath("messageExtension", i)
		if m.Raw(string(at)) == nil {
			return items
		}
		e := recognise(m, string(at))
		if e == nil || !hasType {
			continue
		}
		found := item{Extension: e, index: i, fields: at + ".data", table: e.Table(kind)}
		if e.Keyed && m.Has(string(found.fields)+"."+e.ID) {
			found.fields += message.Path("." + e.ID)
		}
		items = append(items, found)
	}
}
