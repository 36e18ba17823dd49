package docsite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// operationsPath is the page with every operation of the API. In the sandbox, readers can send requests from it.
const operationsPath = "operations.html"

// A description is what is read of openapi.json.
type description struct {
	Tags       []operationGroup
	Paths      json.RawMessage
	Components struct {
		Parameters map[string]parameter
		Responses  map[string]response
		Examples   map[string]struct {
			Summary string
			Value   json.RawMessage
		}
	}
}

// An operationGroup is the operations with one tag.
type operationGroup struct {
	Name, Description string
	ID                string `json:"-"` // the anchor
	Operations        []operation
}

// An operation is one that the page shows.
type operation struct {
	Ref         string `json:"operationId"`
	Summary     string
	Description string
	Tags        []string
	Parameters  []parameter
	Security    []map[string][]string
	RequestBody struct {
		Content map[string]struct {
			Examples map[string]reference
		}
	}
	Responses map[string]response

	Method, Path, Auth string   `json:"-"`
	Bodies             []body   `json:"-"`
	Answers            []answer `json:"-"`
}

// A reference leads to a part of the components.
type reference struct {
	Ref string `json:"$ref"`
}

// name returns the name of the part.
func (r reference) name() string { return path.Base(r.Ref) }

// A parameter is one of an operation: in its path, its query or its header.
type parameter struct {
	reference
	Name, In, Description string
	Required              bool
	Schema                struct{ Enum []string }
}

// Value returns the only value that the parameter may have; "" if it may have others.
func (p *parameter) Value() string {
	if len(p.Schema.Enum) == 1 {
		return p.Schema.Enum[0]
	}
	return ""
}

type response struct {
	reference
	Description string
}

// A body is an example of the body of a request.
type body struct{ Summary, Text string }

// An answer is a status of an operation, and when it is answered.
type answer struct{ Status, Description string }

// jsonType is the only type of bodies that the page shows. The operations that take a form take JSON as well.
const jsonType = "application/json"

// operations returns the operations of the API by their tags, in the order of the description.
func (s *Site) operations() ([]operationGroup, error) {
	text, err := s.files[openAPIPath].content()
	if err != nil {
		return nil, err
	}
	var d description
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, err
	}
	for i := range d.Tags {
		d.Tags[i].ID = strings.ToLower(notInAnchor.ReplaceAllString(strings.ReplaceAll(d.Tags[i].Name, " ", "-"), ""))
	}
	err = eachMember(d.Paths, func(at string, methods json.RawMessage) error {
		return eachMember(methods, func(method string, raw json.RawMessage) error {
			o := operation{Method: strings.ToUpper(method), Path: at, Auth: "key"}
			if err := json.Unmarshal(raw, &o); err != nil {
				return fmt.Errorf("%s %s: %w", method, at, err)
			}
			if err := d.complete(&o); err != nil {
				return err
			}
			i := slices.IndexFunc(d.Tags, func(g operationGroup) bool { return len(o.Tags) > 0 && g.Name == o.Tags[0] })
			if i < 0 {
				return fmt.Errorf("%s %s has no tag of the description", method, at)
			}
			d.Tags[i].Operations = append(d.Tags[i].Operations, o)
			return nil
		})
	})
	return d.Tags, err
}

// complete sets what an operation has by reference.
func (d *description) complete(o *operation) error {
	for i, p := range o.Parameters {
		if p.Ref != "" {
			o.Parameters[i] = d.Components.Parameters[p.name()]
		}
	}
	if len(o.Security) > 0 {
		for scheme := range o.Security[0] {
			o.Auth = scheme
		}
	}
	examples := o.RequestBody.Content[jsonType].Examples
	for _, name := range slices.Sorted(maps.Keys(examples)) {
		e := d.Components.Examples[examples[name].name()]
		var text bytes.Buffer
		if err := json.Indent(&text, e.Value, "", "  "); err != nil {
			return fmt.Errorf("%s: the example %s: %w", o.Path, name, err)
		}
		o.Bodies = append(o.Bodies, body{e.Summary, text.String()})
	}
	for _, status := range slices.Sorted(maps.Keys(o.Responses)) {
		r := o.Responses[status]
		if r.Ref != "" {
			r = d.Components.Responses[r.name()]
		}
		o.Answers = append(o.Answers, answer{status, r.Description})
	}
	return nil
}

// eachMember calls visit for each member of a JSON object, in its order.
func eachMember(object json.RawMessage, visit func(name string, value json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		if err := visit(fmt.Sprint(name), value); err != nil {
			return err
		}
	}
	return nil
}

// operationsFrame returns the frame of the page with every operation.
func (s *Site) operationsFrame() (*frame, error) {
	f, err := s.newFrame(nil)
	if err != nil {
		return nil, err
	}
	f.Title, f.About = "Every operation of the API", "Each operation with an example, and a form to try it."
	f.Area, f.Sandbox = "Build on it", s.sandbox
	f.Policy = s.operationsPolicy()
	f.Operations, err = s.operations()
	return f, err
}

// operationsPolicy returns what the page with every operation may load. In the sandbox it may call the API.
func (s *Site) operationsPolicy() string {
	if s.sandbox == nil {
		return policy
	}
	return policy + "; connect-src 'self'"
}
