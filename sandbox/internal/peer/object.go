package peer

import (
	"encoding/json"
	"fmt"
	"slices"
)

// An Object is a JSON object in the order in which its members were put.
type Object struct{ members []member }

type member struct {
	name  string
	value []byte
}

// Put adds a member. "" and nil values are left out, so that optional members need no if.
func (o *Object) Put(name string, value any) *Object {
	switch v := value.(type) {
	case nil:
		return o
	case string:
		if v == "" {
			return o
		}
	case json.RawMessage:
		if len(v) == 0 {
			return o
		}
	case *Object:
		if v == nil {
			return o
		}
		value = json.RawMessage(v.Bytes())
	}
	return o.Add(name, value)
}

// PutUnknownNull adds a member that no receiver knows, with the value null.
func (o *Object) PutUnknownNull() { o.Add("sandboxNothing", nil) }

// Add adds a member with any value.
func (o *Object) Add(name string, value any) *Object {
	o.members = append(o.members, member{name, Encode(value)})
	return o
}

// Drop removes the first member of a name, if there is one.
func (o *Object) Drop(name string) {
	if i := o.find(name); i >= 0 {
		o.members = slices.Delete(o.members, i, i+1)
	}
}

// Set replaces a member, or adds it.
func (o *Object) Set(name string, value any) {
	if i := o.find(name); i >= 0 {
		o.members[i].value = Encode(value)
	} else {
		o.Put(name, value)
	}
}

func (o *Object) find(name string) int {
	return slices.IndexFunc(o.members, func(m member) bool { return m.name == name })
}

// Members returns the members without the braces around them.
func (o *Object) Members() []byte {
	var all []byte
	for i, m := range o.members {
		if i > 0 {
			all = append(all, ',')
		}
		all = fmt.Appendf(all, "%q:%s", m.name, m.value)
	}
	return all
}

// Bytes returns the object as JSON.
func (o *Object) Bytes() []byte { return slices.Concat([]byte{'{'}, o.Members(), []byte{'}'}) }
