package admin

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/internal/operate/ops"
)

var pathParameter = regexp.MustCompile(`\{([a-z]+)\}`)

// describe returns the description of this API in OpenAPI, made from the table of routes.
func describe(*Handler, *request) (any, error) {
	paths := map[string]map[string]any{}
	isCollection := map[string]bool{}
	for _, rt := range routes() {
		isCollection[rt.path] = isCollection[rt.path] || rt.method == "GET"
	}
	for _, rt := range routes() {
		path := Prefix + rt.path
		if paths[path] == nil {
			paths[path] = map[string]any{}
		}
		success := "200"
		switch rt.method {
		case "POST":
			if isCollection[rt.path] {
				success = "201"
			}
		case "DELETE":
			success = "204"
		}
		act := ops.Find(rt.act)
		operation := map[string]any{
			"summary":        rt.summary,
			"description":    "Least role: " + string(act.Least) + ".",
			"x-act":          act.Name,
			"x-least-role":   act.Least,
			"x-one-merchant": act.IsForOwn,
			"responses": map[string]any{
				success:   map[string]any{"description": "Done"},
				"default": map[string]any{"description": "An application/problem+json, as RFC 9457 has it"},
			},
		}
		if bodies[rt.path] != nil && (rt.method == "POST" || rt.method == "PATCH") {
			operation["requestBody"] = map[string]any{
				"required": true, "content": map[string]any{"application/json": map[string]any{"schema": bodies[rt.path]}},
			}
		}
		var parameters []any
		for _, name := range pathParameter.FindAllStringSubmatch(rt.path, -1) {
			parameters = append(parameters, newParameter(name[1], "path"))
		}
		for _, name := range queries[rt.method+" "+rt.path] {
			parameters = append(parameters, newParameter(name, "query"))
		}
		if parameters != nil {
			operation["parameters"] = parameters
		}
		paths[path][strings.ToLower(rt.method)] = operation
	}
	bearer := map[string]any{"token": map[string]any{"type": "http", "scheme": "bearer"}}
	return map[string]any{
		"openapi":    "3.1.0",
		"info":       map[string]any{"title": "Admin API of threeds", "version": "1"},
		"paths":      paths,
		"security":   []any{map[string]any{"token": []string{}}},
		"components": map[string]any{"securitySchemes": bearer},
	}, nil
}

func newParameter(name, in string) map[string]any {
	return map[string]any{"name": name, "in": in, "required": in == "path", "schema": map[string]any{"type": "string"}}
}

// checkParameters refuses parameters in an address that the operation does not have, or that are there twice. What stands
// in the place of a name is not repeated.
func (rt *route) checkParameters(r *http.Request) error {
	known := queries[rt.method+" "+rt.path]
	for name, values := range r.URL.Query() {
		switch {
		case name == "acctNumber" && rt.path == "authentications":
			return refuse(http.StatusBadRequest, "acctNumber: POST it to %sauthentications/search.", Prefix)
		case len(known) == 0:
			return refuse(http.StatusBadRequest, "The address has a parameter, and this operation has none.")
		case !slices.Contains(known, name):
			return refuse(http.StatusBadRequest, "The address has a parameter that is none of this operation: want one of %s.", strings.Join(known, ", "))
		case len(values) > 1:
			return refuse(http.StatusBadRequest, "%s: send it once.", name)
		}
	}
	return nil
}

// queries are the names of parameters in addresses, by operation.
var queries = map[string][]string{
	"GET audit":                {"who", "action", "object", "from", "to", "limit", "cursor"},
	"GET audit/export":         {"who", "action", "object", "from", "to"},
	"GET journal/export":       {"merchant", "from", "to", "format"},
	"GET authentications":      append([]string{"limit"}, slices.Sorted(maps.Keys(new(RecordQuery).recordFields()))...),
	"GET reports":              {"by", "from", "to"},
	"GET billing":              {"from", "to"},
	"GET reports/mandates":     {"from", "to"},
	"GET webhook-endpoints":    {"merchant"},
	"GET events":               {"merchant", "endpoint", "type", "authentication", "from", "to", "limit", "cursor"},
	"GET overview":             {"from", "to"},
	"GET ranges/{scheme}":      {"prefix"},
	"GET ranges/{scheme}/diff": {"old", "new"},
	"POST explain":             {"merchant"},
	"DELETE merchants/{name}":  {"version"},
}

// bodies are the schemas of bodies, by path.
var bodies = map[string]any{
	"keys":             newSchema([]string{"merchant"}, "merchant", "label", "expires", "allow", "strict"),
	"merchants":        newSchema([]string{"name"}, ops.MerchantMembers...),
	"merchants/{name}": newSchema([]string{"version"}, append([]string{"version"}, ops.MerchantMembers...)...),
	"authentications/search": newSchema(nil,
		append([]string{"acctNumber", "limit"}, slices.Sorted(maps.Keys(new(RecordQuery).recordFields()))...)...),
	"journal/erase":           newSchema(nil, "acctNumber", "merchant"),
	"operators":               newSchema([]string{"role"}, "name", "role", "merchant"),
	"operators/{name}":        newSchema([]string{"role"}, "role"),
	"webhook-endpoints":       newSchema([]string{"url"}, "merchant", "url", "types", "description", "disabled", "secret"),
	"webhook-endpoints/{id}":  newSchema(nil, "url", "types", "description", "disabled"),
	"tokens":                  newSchema([]string{"name", "role"}, "name", "role", "merchant", "expires"),
	"ranges/{scheme}/accept":  newSchema(nil, "held"),
	"ranges/{scheme}/refresh": newSchema(nil),
	"explain":                 explainSchema,

	"certificates/{scheme}/request":  newSchema(nil, "bits", "curve", "subject"),
	"certificates/{scheme}/install":  newSchema([]string{"certificate"}, "certificate", "at"),
	"certificates/{scheme}/activate": newSchema(nil),
	"certificates/{scheme}/rollback": newSchema(nil),
	"certificates/{scheme}/test":     newSchema(nil),
}

// newSchema returns the schema of an object with members of the usual types.
func newSchema(required []string, members ...string) map[string]any {
	properties := map[string]any{}
	for _, name := range members {
		switch name {
		case "limit", "held", "bits":
			properties[name] = map[string]any{"type": "integer"}
		case "strict", "disabled", "bridging", "transliterate":
			properties[name] = map[string]any{"type": "boolean"}
		case "page", "per_directory":
			properties[name] = map[string]any{"type": "object"}
		case "allow", "origins", "types":
			properties[name] = map[string]any{"type": "array", "items": map[string]any{"type": "string"}}
		case "expires", "at":
			properties[name] = map[string]any{"type": "string", "format": "date-time"}
		case "role":
			properties[name] = map[string]any{"type": "string", "enum": []string{"viewer", "operator", "admin"}}
		default:
			properties[name] = map[string]any{"type": "string"}
		}
	}
	schema := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if required != nil {
		schema["required"] = required
	}
	return schema
}
