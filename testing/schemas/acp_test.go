package schemas_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/protocol/acp"
	"github.com/openthreeds/threeds/internal/protocol/outcome"
	"github.com/openthreeds/threeds/message"
)

// published returns a file that the authors of the protocol publish.
func published(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// schemas returns what checks a value against a definition of the published schema. With isMended the definition of the
// answer to GET allows authentication_result, which as published it both has and forbids.
func schemas(t *testing.T, isMended bool) func(definition string) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(published(t, "schema.delegate_authentication.json")))
	if err != nil {
		t.Fatal(err)
	}
	if isMended {
		defs := doc.(map[string]any)["$defs"].(map[string]any)
		defs["DelegateAuthenticationSessionBase"].(map[string]any)["properties"].(map[string]any)["authentication_result"] = true
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("acp.json", doc); err != nil {
		t.Fatal(err)
	}
	return func(definition string) *jsonschema.Schema {
		s, err := c.Compile("acp.json#/$defs/" + definition)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// validate checks JSON against a schema.
func validate(s *jsonschema.Schema, text []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(value)
}

// definitionOf returns the definition that an example is of.
func definitionOf(example string) string {
	switch {
	case strings.HasPrefix(example, "create_") && strings.Contains(example, "_request"):
		return "DelegateAuthenticationCreateRequest"
	case strings.HasPrefix(example, "authenticate_request"):
		return "DelegateAuthenticationAuthenticateRequest"
	case strings.HasPrefix(example, "retrieve_"):
		return "DelegateAuthenticationSessionWithResult"
	case strings.HasPrefix(example, "error_"):
		return "Error"
	}
	return "DelegateAuthenticationSession"
}

// TestD51PublishedExamples: each published example keeps to the published schema; the requests are read, and the
// answers come out of our types as they went in.
func TestD51PublishedExamples(t *testing.T) {
	schema, asPublished := schemas(t, true), schemas(t, false)
	var examples map[string]json.RawMessage
	if err := json.Unmarshal(published(t, "examples.delegate_authentication.json"), &examples); err != nil {
		t.Fatal(err)
	}
	if len(examples) < 20 {
		t.Fatalf("%d examples are fewer than there must be", len(examples))
	}
	for name, text := range examples {
		definition := definitionOf(name)
		if err := validate(schema(definition), text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		isForbidden := bytes.Contains(text, []byte("authentication_result"))
		if err := validate(asPublished(definition), text); (err != nil) != isForbidden {
			t.Errorf("%s against the schema as published: %v", name, err)
		}
		var into any
		switch definition {
		case "DelegateAuthenticationCreateRequest":
			if _, _, err := acp.ReadCreate(text); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		case "DelegateAuthenticationAuthenticateRequest":
			if _, _, err := acp.ReadAuthenticate(text); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		case "Error":
			into = new(acp.Error)
		default:
			into = new(acp.Session)
		}
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		if err := dec.Decode(into); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		ours, err := json.Marshal(into)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(schema(definition), ours); err != nil {
			t.Errorf("%s, written by us: %v", name, err)
		}
		var was, is any
		if json.Unmarshal(text, &was) != nil || json.Unmarshal(ours, &is) != nil || fmt.Sprint(was) != fmt.Sprint(is) {
			t.Errorf("%s became %s", text, ours)
		}
	}
}

// TestD51MinimalExampleOfOpenAPI: the example has two members that its own schema does not have, and
// the answer names both.
func TestD51MinimalExampleOfOpenAPI(t *testing.T) {
	path, err := yaml.PathString("$.paths./delegate_authentication.post.requestBody.content.application/json.examples.minimal.value")
	if err != nil {
		path, err = yaml.PathString("$.paths.'/delegate_authentication'.post.requestBody.content.'application/json'.examples.minimal.value")
	}
	if err != nil {
		t.Fatal(err)
	}
	var example map[string]any
	if err := path.Read(bytes.NewReader(published(t, "openapi.delegate_authentication.yaml")), &example); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(example)
	if err != nil {
		t.Fatal(err)
	}
	if validate(schemas(t, false)("DelegateAuthenticationCreateRequest"), text) == nil {
		t.Error("the published schema allows the example")
	}
	_, _, err = acp.ReadCreate(text)
	said, ok := errors.AsType[*acp.Error](err)
	if !ok || said.Status != 400 || said.Param != "$.acquirer_bin" ||
		!strings.Contains(said.Message, "$.acquirer_bin, $.acquirer_merchant_id") {
		t.Errorf("%+v", said)
	}
}

// goodRequest is a request that is read.
const goodRequest = `{"merchant_id":"shop-1","payment_method":{"type":"card","number":"4000012345678010","exp_month":"12",
"exp_year":"2030","name":"Ann Example"},"amount":{"value":1250,"currency":"EUR"},"channel":{"type":"browser","browser":{
"accept_header":"*/*","ip_address":"192.0.2.1","javascript_enabled":true,"language":"en","user_agent":"Test/1",
"color_depth":24,"java_enabled":false,"screen_height":800,"screen_width":600,"timezone_offset":-60}},
"flow_preference":{"type":"challenge"},"shopper_details":{"phone_number":"15551234567"}}`

// TestD51FaultsHaveParamAndCode: each fault is told with its path, and invalid_card is for those of the card alone.
// Whatever we refuse for its form, the published schema refuses too.
func TestD51FaultsHaveParamAndCode(t *testing.T) {
	request, said := schemas(t, false)("DelegateAuthenticationCreateRequest"), schemas(t, false)("Error")
	for _, tt := range []struct {
		old, new, param string
		isOurRule       bool // the schema has no word for it
	}{
		{`"merchant_id":"shop-1",`, ``, "$.merchant_id", false},
		{`"merchant_id":"shop-1"`, `"merchant_id":1`, "$.merchant_id", false},
		{`"value":1250`, `"value":"1250"`, "$.amount.value", false},
		{`"value":1250`, `"value":12.5`, "$.amount.value", false},
		{`"value":1250`, `"value":0`, "$.amount.value", true},
		{`"value":1250`, `"value":-1`, "$.amount.value", true},
		{`"EUR"`, `"eur"`, "$.amount.currency", false},
		{`"EUR"`, `"ABC"`, "$.amount.currency", true},
		{`"type":"card"`, `"type":"bank"`, "$.payment_method.type", false},
		{`"exp_month":"12"`, `"exp_month":"13"`, "$.payment_method.exp_month", true},
		{`"exp_month":"12"`, `"exp_month":"012"`, "$.payment_method.exp_month", false},
		{`"exp_year":"2030"`, `"exp_year":"30"`, "$.payment_method.exp_year", true},
		{`,"name":"Ann Example"`, ``, "$.payment_method.name", false},
		{`"name":"Ann Example"`, `"name":"Ann Example","cvc":"123"`, "$.payment_method.cvc", false},
		{`"type":"challenge"`, `"type":"none"`, "$.flow_preference.type", false},
		{`"color_depth":24,`, ``, "$.channel.browser.color_depth", false},
		{`"java_enabled":false,`, ``, "$.channel.browser.java_enabled", false},
		{`"javascript_enabled":true`, `"javascript_enabled":"true"`, "$.channel.browser.javascript_enabled", false},
	} {
		text := strings.ReplaceAll(goodRequest, "\n", "")
		changed := strings.Replace(text, tt.old, tt.new, 1)
		if changed == text {
			t.Fatalf("there is no %s", tt.old)
		}
		_, _, err := acp.ReadCreate([]byte(changed))
		e, ok := errors.AsType[*acp.Error](err)
		if !ok || e.Status != 400 || e.Param != tt.param {
			t.Errorf("%s: %+v, want %s", tt.new, e, tt.param)
			continue
		}
		isCard := strings.HasPrefix(tt.param, "$.payment_method")
		body, _ := json.Marshal(e)
		if (e.Code == acp.InvalidCard) != isCard || (validate(said, body) == nil) != isCard {
			t.Errorf("%s: %s", tt.new, body)
		}
		if (validate(request, []byte(changed)) == nil) != tt.isOurRule {
			t.Errorf("%s: the published schema says otherwise", tt.new)
		}
	}
	for _, text := range []string{``, `[]`, `{"merchant_id":"a","merchant_id":"b"}`, `{`, `null`} {
		if _, _, err := acp.ReadCreate([]byte(text)); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

// newAuthentication returns an authentication with messages that say this; "" means that there is no such message.
func newAuthentication(t *testing.T, status api.Status, aresStatus, rreqStatus, canceled string) *acp.Authentication {
	t.Helper()
	a := &acp.Authentication{ID: "6f0f6a1c-6f1f-4d8c-8d0f-0a0b0c0d0e0f", Status: status}
	var m outcome.Messages
	parse := func(text string) *message.Message {
		m, err := message.Parse([]byte(text), message.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if aresStatus != "" {
		a.ARes = fmt.Appendf(nil, `{"transStatus":%q,"dsTransID":"ds-1","messageVersion":"2.2.0","eci":"05",`+
			`"authenticationValue":"of the ARes","acsURL":"https://acs.example/c","acsTransID":"acs-1"}`, aresStatus)
		m.ARes = parse(string(a.ARes))
	}
	if rreqStatus != "" {
		a.RReq = fmt.Appendf(nil, `{"transStatus":%q,"challengeCancel":%q,"eci":"06","authenticationValue":"of the RReq"}`, rreqStatus, canceled)
		m.RReq = parse(string(a.RReq))
	}
	if status.IsFinal() {
		o := outcome.Of(outcome.NewEnding(status, "", m))
		a.Outcome = &o
	}
	return a
}

// TestD54StatusTableIsComplete: each status of an authentication with each transStatus and each challengeCancel has a
// status of the closed list, and the answer keeps to the published schema.
func TestD54StatusTableIsComplete(t *testing.T) {
	session, result := schemas(t, false)("DelegateAuthenticationSession"), schemas(t, true)("DelegateAuthenticationSessionWithResult")
	ends := map[string]acp.Status{
		"Y": "authenticated", "A": "attempted", "N": "not_authenticated", "R": "rejected", "U": "unavailable", "I": "unavailable",
	}
	want := func(status api.Status, ares, rreq, canceled string) acp.Status {
		last := ares
		if rreq != "" {
			last = rreq
		}
		switch status {
		case api.StatusRequiresBrowser, api.StatusInProgress, api.StatusDecoupled:
			return "pending"
		case api.StatusChallenge:
			if ares == "C" {
				return "action_required"
			}
			return "pending"
		case api.StatusFailed:
			return "unavailable"
		case api.StatusExpired:
			return "expired"
		case api.StatusCancelled:
			if ares == "" {
				return "expired"
			}
			return "challenge_abandoned"
		}
		if slices.Contains([]string{"01", "03", "04", "08"}, canceled) && last != "Y" && last != "A" {
			return "challenge_abandoned"
		}
		if canceled == "05" && last != "Y" && last != "A" {
			return "unavailable" // the issuer's page was not reached
		}
		switch {
		case last == "":
			return "not_supported"
		case ends[last] != "":
			return ends[last]
		}
		return "unavailable" // C, D and S are no end
	}
	seen := map[acp.Status]bool{}
	rows := 0
	for _, status := range []api.Status{
		api.StatusRequiresBrowser, api.StatusInProgress, api.StatusChallenge, api.StatusDecoupled,
		api.StatusCompleted, api.StatusFailed, api.StatusCancelled, api.StatusExpired,
	} {
		for _, ares := range []string{"", "Y", "A", "N", "R", "U", "I", "C", "D", "S"} {
			for _, rreq := range []string{"", "Y", "A", "N", "R", "U"} {
				if rreq != "" && ares == "" {
					continue
				}
				for _, canceled := range []string{"", "01", "02", "03", "04", "05", "06", "07", "08"} {
					if rreq == "" && canceled != "" {
						continue
					}
					rows++
					a := newAuthentication(t, status, ares, rreq, canceled)
					for _, hasResult := range []bool{false, true} {
						s, err := acp.SessionOf(a, hasResult)
						if err != nil {
							t.Fatal(err)
						}
						if w := want(status, ares, rreq, canceled); s.Status != w {
							t.Errorf("%s %s %s %s: %s, want %s", status, ares, rreq, canceled, s.Status, w)
						}
						seen[s.Status] = true
						text, _ := json.Marshal(s)
						schema := session
						if hasResult {
							schema = result
						}
						if err := validate(schema, text); err != nil {
							t.Errorf("%s: %v", text, err)
						}
						if hasValues := hasResult && status == api.StatusCompleted && ares != ""; (s.Result != nil) != hasValues {
							t.Errorf("%s %s %s: %s", status, ares, rreq, text)
						}
						if s.Result != nil && rreq != "" && (s.Result.Cryptogram != "of the RReq" || s.Result.DSID != "ds-1" || s.Result.ECI != "06") {
							t.Errorf("after a challenge: %s", text)
						}
					}
				}
			}
		}
	}
	waiting := &acp.Authentication{ID: "x", Status: api.StatusRequiresBrowser, MethodURL: "https://acs.example/m"}
	if s, err := acp.SessionOf(waiting, true); err != nil || s.Status != acp.ActionRequired || s.Action.Fingerprint.MethodURL == "" {
		t.Errorf("%+v %v", s, err)
	}
	if rows < 400 || len(seen) != 10 {
		t.Errorf("%d rows have %v", rows, seen)
	}
}
