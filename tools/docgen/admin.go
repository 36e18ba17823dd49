package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/edge/admin"
)

// adminDescription is the description of the admin API in OpenAPI, which the server answers with.
const adminDescription = "internal/edge/admin/openapi.json"

// adminAPI describes the admin API by its table of operations.
func adminAPI(root string, events []api.EventRow) ([]byte, error) {
	operations := admin.Operations()
	values := []any{api.Problem{}}
	for _, o := range operations {
		if len(o.Answers) == 0 && o.Method != http.MethodDelete {
			return nil, fmt.Errorf("docgen: %s %s has no type of an answer: see answers in internal/edge/admin/openapi.go", o.Method, o.Path)
		}
		values = append(append(values, o.Body), o.Answers...)
	}
	values = slices.DeleteFunc(values, func(v any) bool { return v == nil })
	shapes, err := newShapeBook(root, events, values)
	if err != nil {
		return nil, err
	}
	for _, o := range operations {
		shapes.close(o.Body)
	}
	var paths object
	for _, o := range operations {
		path := admin.Prefix + o.Path
		i := slices.IndexFunc(paths, func(item yaml.MapItem) bool { return item.Key == path })
		if i < 0 {
			i = len(paths)
			put(&paths, path, object{})
		}
		paths[i].Value = append(paths[i].Value.(object), yaml.MapItem{Key: strings.ToLower(o.Method), Value: shapes.adminOperation(&o)})
	}
	text, err := yaml.Marshal(object{
		{Key: "openapi", Value: "3.1.0"},
		{Key: "info", Value: object{{Key: "title", Value: "Admin API of threeds"}, {Key: "version", Value: code("1")}}},
		{Key: "security", Value: []any{object{{Key: "token", Value: []string{}}}}},
		{Key: "paths", Value: paths},
		{Key: "components", Value: object{
			{Key: "securitySchemes", Value: object{{Key: "token", Value: object{{Key: "type", Value: "http"}, {Key: "scheme", Value: "bearer"}}}}},
			{Key: "schemas", Value: shapes.schemas()},
		}},
	})
	if err != nil {
		return nil, err
	}
	compact, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err = e.Encode(json.RawMessage(compact))
	return []byte(b.String()), err
}

// close says of the shape of a body that it takes no other members.
func (b *shapeBook) close(body any) {
	for _, s := range b.shapes {
		if t := reflect.TypeOf(body); t != nil && t.Kind() == reflect.Struct && t.Name() != "" && s.name == shapeName(t) && s.open == "" {
			s.open = "false"
		}
	}
}

var pathParameter = regexp.MustCompile(`\{([a-z]+)\}`)

// adminOperation describes an operation.
func (b *shapeBook) adminOperation(o *admin.Operation) object {
	d := object{
		{Key: "summary", Value: o.Summary}, {Key: "description", Value: "Least role: " + string(o.Least) + "."},
		{Key: "x-act", Value: o.Act}, {Key: "x-least-role", Value: string(o.Least)}, {Key: "x-one-merchant", Value: o.IsForOwn},
		{Key: "x-group", Value: o.IsForGroups},
	}
	var parameters []any
	add := func(name, in string) {
		parameters = append(parameters, object{
			{Key: "name", Value: name}, {Key: "in", Value: in}, {Key: "required", Value: in == "path"},
			{Key: "schema", Value: object{{Key: "type", Value: "string"}}},
		})
	}
	for _, name := range pathParameter.FindAllStringSubmatch(o.Path, -1) {
		add(name[1], "path")
	}
	for _, name := range o.Parameters {
		add(name, "query")
	}
	if parameters != nil {
		put(&d, "parameters", parameters)
	}
	if o.Body != nil {
		put(&d, "requestBody", object{{Key: "required", Value: true}, {Key: "content", Value: b.content("application/json", o.Body)}})
	}
	problem := object{{Key: "description", Value: "Refused"}, {Key: "content", Value: b.content("application/problem+json", api.Problem{})}}
	put(&d, "responses", object{{Key: statusOf(o), Value: b.adminAnswer(o)}, {Key: "default", Value: problem}})
	return d
}

// statusOf returns the status with which an operation succeeds: what is posted to a list makes an entry.
func statusOf(o *admin.Operation) string {
	isList := slices.ContainsFunc(admin.Operations(), func(of admin.Operation) bool { return of.Path == o.Path && of.Method == http.MethodGet })
	switch {
	case len(o.Answers) == 0:
		return "204"
	case o.Method == http.MethodPost && isList:
		return "201"
	}
	return "200"
}

// adminAnswer describes what an operation answers.
func (b *shapeBook) adminAnswer(o *admin.Operation) object {
	d := object{{Key: "description", Value: "Done"}}
	var content, some object
	var all []any
	for _, answer := range o.Answers {
		if file, ok := answer.(admin.File); ok {
			put(&content, string(file), object{{Key: "schema", Value: object{{Key: "type", Value: "string"}}}})
			continue
		}
		some = b.content("application/json", answer)
		all = append(all, some[0].Value.(object)[0].Value)
	}
	switch {
	case len(all) > 1:
		content = object{{Key: "application/json", Value: object{{Key: "schema", Value: object{{Key: "anyOf", Value: all}}}}}}
	case len(all) == 1:
		content = some
	}
	if content != nil {
		put(&d, "content", content)
	}
	return d
}

// content describes a body of a media type that holds a value.
func (b *shapeBook) content(media string, value any) object {
	schema := object{{Key: "type", Value: []string{"object", "string"}}} // of a text that may be anything
	switch t := reflect.TypeOf(value); {
	case t.Kind() == reflect.Struct && t.NumField() == 0:
		schema = object{{Key: "type", Value: "object"}, {Key: "additionalProperties", Value: false}}
	case t != rawType:
		schema = b.value(t, &member{name: media})
	}
	return object{{Key: media, Value: object{{Key: "schema", Value: schema}}}}
}
