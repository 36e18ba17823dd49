package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/client"
	"github.com/openthreeds/threeds/threedstest"
)

// erroFor returns the Erro that a request is refused with.
func erroFor(t *testing.T, err error, code string) *client.Erro {
	t.Helper()
	erro, ok := errors.AsType[*client.Erro](err)
	if !ok || erro.ErrorCode != code {
		t.Fatalf("%v, want Erro %s", err, code)
	}
	return erro
}

// TestR12aErrorsHeader: each Erro about the content of a request has its faults in X-Errors, and errorDetail stays a
// list of names. Other Erros do not have the header.
func TestR12aErrorsHeader(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	c, ctx := server.Client(), t.Context()
	const card = "4000000000000103"
	crd, err := c.Preauth(ctx, client.PreauthRequest{AcctNumber: card})
	if err != nil {
		t.Fatal(err)
	}
	auth := func(changes map[string]any) error {
		body := areq(crd.ThreeDSServerTransID, card)
		for name, value := range changes {
			if value == nil {
				delete(body, name)
				continue
			}
			body[name] = value
		}
		_, err := c.Auth(ctx, body)
		return err
	}
	preauth := func(r client.PreauthRequest) error {
		_, err := c.Preauth(ctx, r)
		return err
	}
	postauth := func(id string) error {
		_, err := c.PostAuth(ctx, id)
		return err
	}
	for _, tt := range []struct {
		name, code string
		err        error
		want       string // pointer, rule and what the limit says; "" means that there is no header
	}{
		{"a member is missing", "201", auth(map[string]any{"acquirerBIN": nil}), "/acquirerBIN required "},
		{"too long", "203", auth(map[string]any{"mcc": "54111"}), "/mcc length 4"},
		{"a code that is none", "203", auth(map[string]any{"threeDSRequestorChallengeInd": "0x"}), "/threeDSRequestorChallengeInd unknown-code "},
		{"a version that the card has not", "102", auth(map[string]any{"messageVersion": "2.0.1"}), "/messageVersion version 2.1.0"},
		{"no currency", "304", auth(map[string]any{"purchaseCurrency": "999"}), "/purchaseCurrency excluded-code "},
		{"/preauth without card", "201", preauth(client.PreauthRequest{}), "/acctNumber required "},
		{"/preauth with a ds that nobody has", "203", preauth(client.PreauthRequest{AcctNumber: card, DS: "nobody"}), "/ds unknown-code visa"},
		{"/postauth of an id that is unknown", "203", postauth("7b8d9b0e-0000-4000-8000-000000000000"), "/threeDSServerTransID condition "},
		{"a card that is not enrolled", "305", preauth(client.PreauthRequest{AcctNumber: "9000100111111111"}), ""},
		{"an id that is unknown", "301", auth(map[string]any{"threeDSServerTransID": "7b8d9b0e-0000-4000-8000-000000000000"}), ""},
	} {
		if tt.err == nil {
			t.Errorf("%s: not refused", tt.name)
			continue
		}
		erro := erroFor(t, tt.err, tt.code)
		header := erro.Header.Get("X-Errors")
		if tt.want == "" {
			if header != "" {
				t.Errorf("%s: X-Errors %s", tt.name, header)
			}
			continue
		}
		faults, more := erro.Faults()
		if len(faults) == 0 || more != 0 || strings.Contains(header, `"source"`) {
			t.Errorf("%s: X-Errors %q", tt.name, header)
			continue
		}
		f := faults[0]
		limit := ""
		if f.Limit != nil {
			limit = strings.Join(f.Limit.Allowed, " ")
			if f.Limit.Max != nil {
				limit = fmt.Sprint(*f.Limit.Max)
			}
		}
		got := fmt.Sprintf("%s %s %s", f.Where(), f.Rule, limit)
		if !strings.HasPrefix(got, tt.want) || f.Cure == "" || f.Code != tt.code {
			t.Errorf("%s: %s, want %s: %s", tt.name, got, tt.want, header)
		}
	}
}

// TestD44ErrorsHeaderOfWhatIsNoJSON: a body that cannot be read has one fault, of the whole body. Parameters and
// headers are named as such.
func TestD44ErrorsHeaderOfWhatIsNoJSON(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	for path, want := range map[string]string{
		"/preauth": `[{"pointer":"","code":"203","rule":"json",`, "/auth": `[{"pointer":"","code":"203","rule":"json",`,
		"/postauth": `[{"pointer":"","code":"203","rule":"json",`, "/postauth?wait=x": `[{"parameter":"wait","code":"203","rule":"range",`,
	} {
		got := postOnce(t, server, server.Key, path, "{")
		if header := got.header.Get("X-Errors"); got.status != 400 || !strings.HasPrefix(header, want) {
			t.Errorf("%s: %d, X-Errors %s, want %s", path, got.status, header, want)
		}
	}
}

// TestD44ErrorsHeaderIsShortAndASCII: the header has at most 4 KiB of ASCII, and counts what it leaves out. It never
// has a value.
func TestD44ErrorsHeaderIsShortAndASCII(t *testing.T) {
	t.Parallel()
	server := threedstest.NewServer(t)
	body := areq("", "4000000000000103")
	for name := range body {
		if !slices.Contains([]string{"messageType", "messageVersion", "deviceChannel", "messageCategory", "acctNumber", "threeDSServerTransID"}, name) {
			body[name] = "caf\u00e9 canary " + strings.Repeat("x", 3000)
		}
	}
	sent, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	got := postOnce(t, server, server.Key, "/auth", string(sent))
	header := got.header.Get("X-Errors")
	var entries []map[string]any
	if err := json.Unmarshal([]byte(header), &entries); err != nil || len(header) > 4096 || len(entries) < 2 ||
		strings.ContainsFunc(header, func(r rune) bool { return r < ' ' || r > '~' }) || strings.Contains(header, "canary") {
		t.Fatalf("%d %s, X-Errors of %d bytes: %v, %s", got.status, got.body, len(header), err, header)
	}
	more, _ := entries[len(entries)-1]["more"].(float64)
	var erro struct {
		ErrorDetail string `json:"errorDetail"`
	}
	if err := json.Unmarshal([]byte(got.body), &erro); err != nil || int(more)+len(entries)-1 != strings.Count(erro.ErrorDetail, ",")+1 {
		t.Errorf("%d entries and %g more, errorDetail %s", len(entries)-1, more, erro.ErrorDetail)
	}
}
