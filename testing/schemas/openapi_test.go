// Package schemas_test holds what the server answers against the descriptions of it: docs/openapi.yaml for the API, and
// for Delegate Authentication the published schema of the Agentic Commerce Protocol.
package schemas_test

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/client"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/threedstest"
)

// A description is docs/openapi.yaml, as a transport that holds each answer against it.
type description struct {
	t        *testing.T
	doc      map[string]any
	compiler *jsonschema.Compiler

	mu   sync.Mutex
	seen map[string]bool // operations with their statuses, such as "GET /authentications 200"
}

const openAPIFile = "openapi.yaml"

// readDescription reads docs/openapi.yaml. A member that it does not list is a fault, but for objects of which it says
// that they may have others.
func readDescription(t *testing.T) *description {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", openAPIFile))
	if err != nil {
		t.Fatal(err)
	}
	if data, err = yaml.YAMLToJSON(data); err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	d := &description{t: t, doc: doc.(map[string]any), compiler: jsonschema.NewCompiler(), seen: make(map[string]bool)}
	schemas := d.at("components", "schemas").(map[string]any)
	closeObjects(schemas)
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource(openAPIFile, doc); err != nil {
		t.Fatal(err)
	}
	return d
}

// at returns what stands under names, nil for nothing.
func (d *description) at(names ...string) any {
	var node any = d.doc
	for _, name := range names {
		object, _ := node.(map[string]any)
		node = object[name]
		if object, ok := node.(map[string]any); ok && object["$ref"] != nil {
			node = d.at(strings.Split(strings.TrimPrefix(object["$ref"].(string), "#/"), "/")...)
		}
	}
	return node
}

// closeObjects forbids members that are not listed, where a schema lists some.
func closeObjects(node any) {
	switch node := node.(type) {
	case []any:
		for _, n := range node {
			closeObjects(n)
		}
	case map[string]any:
		_, lists := node["properties"].(map[string]any)
		if _, says := node["additionalProperties"]; node["type"] == "object" && lists && !says {
			node["additionalProperties"] = false
		}
		for _, n := range node {
			closeObjects(n)
		}
	}
}

// RoundTrip makes a request, and holds its answer against the description.
func (d *description) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	if err := d.check(r, res, body); err != nil {
		d.t.Errorf("%s %s: %d %s: %v", r.Method, r.URL, res.StatusCode, body, err)
	}
	return res, nil
}

func (d *description) check(r *http.Request, res *http.Response, body []byte) error {
	path, operation := d.operationOf(r)
	if operation == nil {
		return fmt.Errorf("no such operation")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[fmt.Sprintf("%s %s %d", r.Method, path, res.StatusCode)] = true
	at := []string{"paths", path, strings.ToLower(r.Method), "responses", fmt.Sprint(res.StatusCode)}
	response, _ := d.at(at...).(map[string]any)
	if response == nil {
		return fmt.Errorf("this status is not described")
	}
	kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	if d.at(append(at, "content", kind)...) == nil {
		return fmt.Errorf("the type %s is not described", kind)
	}
	if !strings.HasSuffix(kind, "json") {
		return nil
	}
	ref, _ := response["content"].(map[string]any)[kind].(map[string]any)["schema"].(map[string]any)["$ref"].(string)
	schema, err := d.compiler.Compile(openAPIFile + ref)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// operationOf returns the operation that a request is for, and its path in the description.
func (d *description) operationOf(r *http.Request) (path string, operation any) {
	for _, path = range []string{r.URL.Path, templateOf(r.URL.Path)} {
		if operation = d.at("paths", path, strings.ToLower(r.Method)); operation != nil {
			return path, operation
		}
	}
	return path, nil
}

// templateOf writes {id} for the second part of a path.
func templateOf(path string) string {
	parts := strings.Split(path, "/")
	if len(parts) > 2 {
		parts[2] = "{id}"
	}
	return strings.Join(parts, "/")
}

// TestF8AnswersAreAsDescribed: what the server answers to operations of the Authentications API, good ones and refused
// ones, has exactly the members that docs/openapi.yaml lists.
func TestF8AnswersAreAsDescribed(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	d := readDescription(t)
	web := &http.Client{Transport: d}
	c, ctx := client.New(server.URL, server.Key, client.WithHTTPClient(web)), t.Context()
	send := func(key, method, path, body string, header ...string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("APIKey", key)
		if len(header) == 2 {
			r.Header.Set(header[0], header[1])
		}
		res, err := web.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res
	}

	var last string
	for _, card := range []string{
		"4000000000000103", "4000000000000113", "4000000000000123", "4000000000000133", "4000000000000153", "4000000000000143",
		"4000970000000103", "5100000000000103", "4000000000001051", "9000100111111111",
	} {
		request := appRequest(card)
		request["reference"], request["colour"], request["purchaseAmount"] = "order-1", "crimson", 1250
		a, err := c.Authenticate(ctx, request, "")
		if err != nil {
			t.Fatal(err)
		}
		last = a.ID
		if _, err := c.Outcome(ctx, last); err != nil {
			t.Fatal(err)
		}
	}
	for _, press := range []string{"submit", "cancel", "hosted-cancel", ""} { // "" is a cancellation by the merchant
		a, err := c.Authenticate(ctx, map[string]any{
			"acctNumber": "4000000000000172", "cardExpiryDate": "3012", "purchaseAmount": "1250", "purchaseCurrency": "EUR",
		}, "")
		if err != nil || a.Browser == nil {
			t.Fatalf("%+v, %v", a, err)
		}
		if _, err := c.Authentication(ctx, a.ID, 0); err != nil { // without URL and token
			t.Fatal(err)
		}
		if press == "" {
			_, err = c.Cancel(ctx, a.ID)
		} else if _, err = server.PlayShopper(ctx, a.Browser.URL, press); err == nil {
			_, err = c.Authentication(ctx, a.ID, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ares := authenticate(t, client.New(server.URL, server.Key), "4000000000000170") // in a challenge
	if _, err := c.Authentication(ctx, ares.ThreeDSServerTransID, 0); err != nil {
		t.Fatal(err)
	}
	for _, search := range []api.AuthenticationSearch{{}, {AcctNumber: "4000000000000103"}, {Last4: "9999"}} {
		waittest.Until(t, "15 authentications in the list", func() bool { // the journal is written within a second
			page, err := c.Search(ctx, search)
			if err != nil {
				t.Fatal(err)
			}
			return len(page.Data) == 15 || search != (api.AuthenticationSearch{})
		})
	}
	const unknown = "/authentications/00000000-0000-4000-8000-000000000000"
	for _, r := range []struct {
		key, method, path, body string
		status                  int
	}{
		{server.Key, "GET", "/authentications", "", 200},
		{server.Key, "GET", "/authentications?limit=1&status=completed", "", 200},
		{server.Key, "GET", "/authentications?limit=0&colour=x&acctNumber=1&scheme=x&cursor=AAAA", "", 400},
		{server.Key, "GET", "/authentications?cursor=AAAA", "", 400},
		{"x", "GET", "/authentications", "", 401},
		{server.Key, "POST", "/authentications/search", `{"limit":1}`, 200},
		{server.Key, "POST", "/authentications/search", `{"limit":"1","cursor":"AAAA","reference":""}`, 400},
		{server.Key, "POST", "/authentications/search", `[`, 400},
		{server.Key, "POST", "/authentications", `{"acctNumber":"1","purchaseAmount":"1,50","mcc":"54","shipAddrCountry":"XX","deviceChannel":"03"}`, 400},
		{server.Key, "GET", unknown, "", 404},
		{server.Key, "GET", unknown + "?wait=x", "", 400},
		{server.Key, "POST", unknown + "/cancel", "", 404},
		{server.Key, "POST", "/authentications/" + last + "/cancel", "", 409},
		{server.Key, "POST", "/authentications/" + ares.ThreeDSServerTransID + "/cancel", "", 409},
		{server.Key, "POST", "/outcome", "{}", 400},
		{server.Key, "POST", "/outcome", `{"threeDSServerTransID":"1"}`, 404},
		{server.Key, "POST", "/lookup", `{"acctNumber":"4000970000000103"}`, 200},
		{server.Key, "POST", "/lookup", `{"acctNumber":"9000100111111111"}`, 200},
		{server.Key, "POST", "/lookup", `{"acctNumber":"4"}`, 400},
		{server.Key, "POST", "/explain", `{"acctNumber":"4000000000000103","purchaseCurrency":"EUR","for":"authentications"}`, 200},
		{server.Key, "POST", "/explain", `{"messageType":"AReq","acctNumber":"5100000000000103","asOf":"2027-01-01","x":1}`, 200},
		{server.Key, "POST", "/explain", "x", 200},
	} {
		if res := send(r.key, r.method, r.path, r.body); res.StatusCode != r.status {
			t.Errorf("%s %s %s: %s, want %d", r.method, r.path, r.body, res.Status, r.status)
		}
	}
	for _, r := range []struct {
		key, body string
		status    int
	}{
		{strings.Repeat("x", 256), "{}", 400}, {"one", "{}", 400}, {"one", `{"acctNumber":"1"}`, 422},
	} {
		if res := send(server.Key, "POST", "/authentications", r.body, "Idempotency-Key", r.key); res.StatusCode != r.status {
			t.Errorf("Idempotency-Key %s: %s, want %d", r.key, res.Status, r.status)
		}
	}
	for path, operations := range d.doc["paths"].(map[string]any) {
		if !regexp.MustCompile("^/(authentications|outcome|lookup|explain)(/|$)").MatchString(path) {
			continue
		}
		for method := range operations.(map[string]any) {
			operation := strings.ToUpper(method) + " " + path
			if !d.seen[operation+" 200"] && !d.seen[operation+" 201"] {
				t.Errorf("%s was not answered with success", operation)
			}
		}
	}
}

// appRequest returns a request of an app with all that the protocol wants of it.
func appRequest(card string) map[string]any {
	return map[string]any{
		"acctNumber": card, "cardExpiryDate": "3012", "purchaseAmount": "1250", "purchaseCurrency": "978",
		"deviceChannel": "03", "threeRIInd": "03", "messageVersion": "2.2.0",
	}
}

// authenticate makes an /auth with a card and returns its ARes.
func authenticate(t testing.TB, c *client.Client, card string) *client.ARes {
	t.Helper()
	crd, err := c.Preauth(t.Context(), client.PreauthRequest{AcctNumber: card})
	if err != nil {
		t.Fatal(err)
	}
	ares, err := c.Auth(t.Context(), browserAReq(crd.ThreeDSServerTransID, card))
	if err != nil {
		t.Fatal(err)
	}
	return ares
}

// browserAReq returns the AReq of a payment in a browser.
func browserAReq(transID, card string) map[string]any {
	return map[string]any{
		"messageType": "AReq", "messageVersion": "2.2.0", "deviceChannel": "02", "messageCategory": "01",
		"threeDSServerTransID": transID, "threeDSCompInd": "U", "acctNumber": card, "cardExpiryDate": "3012",
		"threeDSRequestorAuthenticationInd": "01", "threeDSRequestorURL": "https://shop.example",
		"acquirerBIN": "400000", "acquirerMerchantID": "M1", "mcc": "5411", "merchantCountryCode": "8", "merchantName": "Shop",
		"purchaseAmount": "1099", "purchaseCurrency": "36", "purchaseExponent": "2", "purchaseDate": "20261120120000",
		"browserAcceptHeader": "text/html", "browserIP": "192.0.2.1", "browserJavaEnabled": false, "browserJavascriptEnabled": true,
		"browserLanguage": "en", "browserColorDepth": "24", "browserScreenHeight": "1080", "browserScreenWidth": "1920", "browserTZ": "-60",
		"browserUserAgent": "Mozilla/5.0", "notificationURL": "https://shop.example/done", "cardholderName": "Ann Example",
	}
}
