package api

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/openthreeds/threeds/internal/acp"
)

// TestF5IdempotencyKeyIsDescribed: docs/openapi.yaml has the header Idempotency-Key, and what is answered when it does
// not fit, at every POST that is answered once, and nowhere else. It knows every path that is served.
func TestF5IdempotencyKeyIsDescribed(t *testing.T) {
	data, err := os.ReadFile("../../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var description struct {
		Paths map[string]map[string]struct {
			Parameters []map[string]any
			Responses  map[string]any
		}
	}
	if err := yaml.Unmarshal(data, &description); err != nil {
		t.Fatal(err)
	}
	h := &Handler{ACP: new(acp.Signature)}
	const id = "019344a0-7f3c-4b1d-9c55-2f6a1e0d8b47"
	described := map[*endpoint]bool{noEndpoint: true}
	for path, operations := range description.Paths {
		for method, operation := range operations {
			r, err := http.NewRequest(strings.ToUpper(method), strings.ReplaceAll(path, "{id}", id), nil)
			if err != nil {
				t.Fatal(err)
			}
			ep := h.endpointOf(r)
			if ep.handle == nil {
				t.Errorf("%s %s is described, and not served", r.Method, path)
			}
			described[ep] = true
			has := false
			for _, p := range operation.Parameters {
				has = has || p["$ref"] == "#/components/parameters/Idempotency-Key"
			}
			if want := isIdempotent(ep, r); has != want {
				t.Errorf("%s %s: Idempotency-Key is described %t, and read %t", r.Method, path, has, want)
			}
			mismatch := "422"
			if strings.HasPrefix(path, "/delegate_authentication") {
				mismatch = "409" // as that protocol has it
			}
			for _, status := range []string{"409", mismatch} {
				if _, ok := operation.Responses[status]; has && !ok {
					t.Errorf("%s %s: no response %s", r.Method, path, status)
				}
			}
		}
	}
	for path, ep := range endpoints {
		if !described[ep] {
			t.Errorf("%s is served, and not described", path)
		}
	}
	for path, ep := range hookEndpoints {
		if !described[ep] {
			t.Errorf("%s is served, and not described", path)
		}
	}
}
