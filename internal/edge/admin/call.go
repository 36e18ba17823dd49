package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
)

// Call does what a request of an actor to a path does, and reads the answer into a value: same operations, same roles, same
// audit trail. The path has no [Prefix], and its elements are escaped as in an address. A refusal is a *[Problem].
// Of an operation that answers with a file, the value is an [io.Writer], and nothing is written before a refusal.
func (h *Handler) Call(ctx context.Context, actor operator.Actor, method, path string, query url.Values, body, answer any) error {
	rt, names := findRoute(method, path)
	if rt == nil {
		return refuse(http.StatusNotFound, "No such operation.")
	}
	if err := ops.Find(rt.act).Check(&actor); err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, Prefix+path+"?"+query.Encode(), nil)
	if err != nil {
		return refuse(http.StatusNotFound, "No such operation.")
	}
	for name, value := range names {
		r.SetPathValue(name, value)
	}
	asked := &request{Request: r, actor: actor}
	if body != nil {
		if asked.body, err = json.Marshal(body); err != nil {
			return err
		}
	}
	value, err := rt.do(h, asked)
	if err != nil || answer == nil {
		return err
	}
	if s, ok := value.(stream); ok {
		defer s.leave()
		to, ok := answer.(io.Writer)
		if !ok {
			return errors.New("admin: this operation wants a writer for its answer")
		}
		return s.write(to)
	}
	if made, ok := value.(created); ok {
		value = made.value
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, answer)
}

// findRoute returns the route of a path and the values of its names; nil if there is none.
func findRoute(method, path string) (*route, map[string]string) {
	given := strings.Split(path, "/")
	for _, rt := range routes() {
		if names := matchPath(strings.Split(rt.path, "/"), given); names != nil && rt.method == method {
			return &rt, names
		}
	}
	return nil, nil
}

// matchPath returns the values of the names in a pattern; nil if the path is another one.
func matchPath(pattern, given []string) map[string]string {
	if len(pattern) != len(given) {
		return nil
	}
	names := map[string]string{}
	for i, part := range pattern {
		value, err := url.PathUnescape(given[i])
		name, isName := strings.CutPrefix(part, "{")
		switch {
		case err != nil || value == "" || !isName && value != part:
			return nil
		case isName:
			names[strings.TrimSuffix(name, "}")] = value
		}
	}
	return names
}
