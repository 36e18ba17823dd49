package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// An object is a JSON object.
type object map[string]any

// text is the string at a path, "" if there is none.
func (o object) text(path string) string {
	s, _ := o.at(path).(string)
	return s
}

// has reports whether there is anything at a path; null counts too.
func (o object) has(path string) bool {
	_, there := findAt(o, split(path))
	return there
}

// at is the value at a path such as "messageExtension[0].id".
func (o object) at(path string) any {
	v, _ := findAt(o, split(path))
	return v
}

func findAt(v any, path []string) (any, bool) {
	if len(path) == 0 {
		return v, true
	}
	switch v := v.(type) {
	case object:
		next, there := v[path[0]]
		if !there {
			return nil, false
		}
		return findAt(next, path[1:])
	case []any:
		n, err := strconv.Atoi(path[0])
		if err != nil || n < 0 || n >= len(v) {
			return nil, false
		}
		return findAt(v[n], path[1:])
	}
	return nil, false
}

var step = regexp.MustCompile(`[^.\[\]]+`)

func split(path string) []string {
	if !strings.ContainsAny(path, ".[") {
		return []string{path}
	}
	return step.FindAllString(path, -1)
}

// An edit changes a message at one place: as an object, or as text, when it has been
// encoded. One of the two is nil.
type edit struct {
	object func(object)
	text   func(string) string
}

// set puts a value at a path. Objects on the way are made, arrays are not.
func set(path string, value any) edit {
	return edit{object: func(o object) { putAt(o, path, func(m object, name string) { m[name] = plain(value) }) }}
}

// drop takes away what is at a path.
func drop(path string) edit {
	return edit{object: func(o object) { putAt(o, path, func(m object, name string) { delete(m, name) }) }}
}

func putAt(o object, path string, do func(m object, name string)) {
	steps := split(path)
	var at any = o
	for i, s := range steps {
		switch v := at.(type) {
		case object:
			if i == len(steps)-1 {
				do(v, s)
				return
			}
			if v[s] == nil {
				v[s] = object{}
			}
			at = v[s]
		case []any:
			n, err := strconv.Atoi(s)
			if err != nil || n >= len(v) || i == len(steps)-1 {
				panic(fmt.Sprintf("conformance: no place %s", path))
			}
			at = v[n]
		default:
			panic(fmt.Sprintf("conformance: no place %s", path))
		}
	}
}

// text replaces the first occurrence of old, which must be there, in the encoded message.
func text(old, with string) edit {
	return edit{text: func(s string) string {
		if !strings.Contains(s, old) {
			panic(fmt.Sprintf("conformance: nothing to replace: %s", old))
		}
		return strings.Replace(s, old, with, 1)
	}}
}

// twice adds a member in front of all others, though there is one of that name.
func twice(name string, value any) edit {
	return edit{text: func(s string) string {
		return "{" + string(encode(name)) + ":" + string(encode(value)) + "," + strings.TrimPrefix(s, "{")
	}}
}

// raw replaces the whole message.
func raw(body string) edit { return edit{text: func(string) string { return body }} }

// bytes is the encoded message after the edits, those of objects first.
func (o object) bytes(edits ...edit) []byte {
	o = plain(o).(object)
	for _, e := range edits {
		if e.object != nil {
			e.object(o)
		}
	}
	s := string(encode(o))
	for _, e := range edits {
		if e.text != nil {
			s = e.text(s)
		}
	}
	return []byte(s)
}

// plain is a deep copy of a value with no types but those of decoded JSON.
func plain(v any) any {
	got, err := decode(encode(v))
	if err != nil {
		panic(err)
	}
	return got
}

func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// decode reads JSON; numbers stay as they are written.
func decode(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	return objects(v), nil
}

func objects(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, item := range v {
			v[name] = objects(item)
		}
		return object(v)
	case []any:
		for i, item := range v {
			v[i] = objects(item)
		}
	}
	return v
}

// read is a message as an object, nil if it is none.
func read(data []byte) object {
	v, err := decode(data)
	if err != nil {
		return nil
	}
	o, _ := v.(object)
	return o
}
