package mcp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/leaktest"
	"github.com/openthreeds/threeds/internal/edge/docsite"
	"github.com/openthreeds/threeds/internal/edge/mcp"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A session is an assistant that talks to a server over pipes.
type session struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
	n   int    // requests so far
	all string // what was answered so far
}

// startSession starts a server, and ends it with the test.
func startSession(t *testing.T, admin *mcp.Admin) *session {
	t.Helper()
	site, err := docsite.New()
	if err != nil {
		t.Fatal(err)
	}
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- (&mcp.Server{Version: "1.2.3", Site: site, Admin: admin}).Serve(t.Context(), fromClient, toClient)
		toClient.Close()
	}()
	t.Cleanup(func() {
		toServer.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return &session{t: t, in: toServer, out: bufio.NewReader(fromServer)}
}

// An answer is the answer to a request.
type answer struct {
	JSONRPC string
	ID      json.RawMessage
	Result  json.RawMessage
	Error   *struct {
		Code    int
		Message string
	}
}

// send sends a line as it is, and returns the answer.
func (s *session) send(line string) (a answer) {
	s.t.Helper()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		s.t.Fatal(err)
	}
	text, err := s.out.ReadString('\n')
	if err != nil {
		s.t.Fatal(err)
	}
	s.all += text
	if err := json.Unmarshal([]byte(text), &a); err != nil || a.JSONRPC != "2.0" {
		s.t.Fatalf("%s: %v", text, err)
	}
	return a
}

// ask sends a request, and returns its answer.
func (s *session) ask(method string, params any) answer {
	s.t.Helper()
	s.n++
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": s.n, "method": method, "params": params})
	if err != nil {
		s.t.Fatal(err)
	}
	a := s.send(string(text))
	if string(a.ID) != fmt.Sprint(s.n) {
		s.t.Errorf("%s: the answer has the id %s, want %d", method, a.ID, s.n)
	}
	return a
}

// call calls a tool, and returns what it says.
func (s *session) call(tool string, args map[string]any) (text string, isError bool) {
	s.t.Helper()
	a := s.ask("tools/call", map[string]any{"name": tool, "arguments": args})
	var result struct {
		Content []struct{ Type, Text string }
		IsError bool
	}
	if a.Error != nil || json.Unmarshal(a.Result, &result) != nil || len(result.Content) != 1 || result.Content[0].Type != "text" {
		s.t.Fatalf("%s: %s %+v", tool, a.Result, a.Error)
	}
	return result.Content[0].Text, result.IsError
}

const (
	ares = `{"messageType":"ARes","messageVersion":"2.2.0","transStatus":"N","transStatusReason":"12","acsTransID":"x"}`
	body = `{"messageType":"AReq","messageVersion":"2.2.0","deviceChannel":"02","acctNumber":"4000000000000103"}`
)

// TestSessionOffersToolsThatOnlyRead: an assistant that begins a session gets the version that it asked for, or the
// newest, and a list of tools that change nothing.
func TestSessionOffersToolsThatOnlyRead(t *testing.T) {
	s := startSession(t, nil)
	for asked, want := range map[string]string{"2024-11-05": "2024-11-05", "2025-06-18": "2025-06-18", "1999-01-01": "2025-11-25"} {
		a := s.ask("initialize", map[string]any{"protocolVersion": asked, "capabilities": map[string]any{}})
		var result struct {
			ProtocolVersion, Instructions string
			Capabilities                  map[string]any
			ServerInfo                    struct{ Name, Version string }
		}
		err := json.Unmarshal(a.Result, &result)
		if err != nil || result.ProtocolVersion != want || result.ServerInfo.Name != "threeds" || result.ServerInfo.Version != "1.2.3" ||
			result.Capabilities["tools"] == nil || result.Instructions == "" {
			t.Errorf("initialize with %s: %s, %v, want %s", asked, a.Result, err, want)
		}
	}
	if _, err := io.WriteString(s.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n\n"); err != nil {
		t.Fatal(err)
	}
	if a := s.ask("ping", nil); string(a.Result) != "{}" { // the answer to nothing else
		t.Errorf("ping: %s", a.Result)
	}
	var list struct {
		Tools []struct {
			Name, Description string
			InputSchema       struct {
				Type       string
				Properties map[string]struct{ Type string }
			}
			Annotations struct{ ReadOnlyHint bool }
		}
	}
	if err := json.Unmarshal(s.ask("tools/list", nil).Result, &list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		if !tool.Annotations.ReadOnlyHint || tool.Description == "" || tool.InputSchema.Type != "object" {
			t.Errorf("%+v", tool)
		}
	}
	if want := []string{"explain", "check", "look_up"}; !slices.Equal(names, want) {
		t.Errorf("the tools are %v, want %v", names, want)
	}
}

// TestToolsAnswer: each tool says what it is for.
func TestToolsAnswer(t *testing.T) {
	s := startSession(t, nil)
	for _, tt := range []struct {
		tool  string
		args  map[string]any
		wants []string
	}{
		{"explain", map[string]any{"text": ares}, []string{"What decides", "- transStatus: N (", "not permitted to cardholder"}},
		{"explain", map[string]any{"text": body}, []string{"What /auth would make of it", `"verdict": "invalid"`, `"cure"`}},
		{"explain", map[string]any{"text": "305"}, []string{"errorCode 305: The transaction data is not valid.", "page errors.md"}},
		{"explain", map[string]any{"text": "Erro 402"}, []string{"errorCode 402: The transaction timed out."}},
		{"explain", map[string]any{"text": "transStatusReason 12"}, []string{"transStatusReason 12: not permitted to cardholder"}},
		{"explain", map[string]any{"text": "transstatusreason=80", "scheme": "visa"}, []string{"transStatusReason 80 at visa: "}},
		{"explain", map[string]any{"text": "threeDSCompInd"}, []string{"threeDSCompInd Y: method completed", "threeDSCompInd N: "}},
		{"explain", map[string]any{"text": "acctNumber"}, []string{"acctNumber: PAN or payment token"}},
		{"check", map[string]any{"text": ares}, []string{"Faults: ", "201", "threeDSServerTransID"}},
		{"check", map[string]any{"text": body, "scheme": "visa"}, []string{"Faults: ", "400000******0103", "browserUserAgent"}},
		{"look_up", map[string]any{"question": "Erro 305"}, []string{"page errors.md"}},
		{"look_up", map[string]any{"question": "how long is a result kept"}, []string{"(page "}},
		{"look_up", map[string]any{"question": "zzyzx"}, []string{"No page has these words"}},
		{"look_up", map[string]any{"page": "errors.md"}, []string{"# Errors and what to do"}},
		{"look_up", map[string]any{"page": "operating/admin.md"}, []string{"# The admin API"}},
	} {
		text, isError := s.call(tt.tool, tt.args)
		for _, want := range tt.wants {
			if isError || !strings.Contains(text, want) {
				t.Errorf("%s %v says %t %.600s, want %s", tt.tool, tt.args, isError, text, want)
			}
		}
	}
}

// TestWrongArgumentsAreNamed: an error of a tool names the argument and says what would be right. What is no request of
// the protocol gets its error.
func TestWrongArgumentsAreNamed(t *testing.T) {
	s := startSession(t, nil)
	for _, tt := range []struct {
		tool string
		args map[string]any
		want string
	}{
		{"explain", nil, "text: want a text that is not empty"},
		{"explain", map[string]any{"text": " "}, "text: want a text that is not empty"},
		{"explain", map[string]any{"text": 305}, "text: want a text"},
		{"explain", map[string]any{"text": nil}, "text: want a text"},
		{"explain", map[string]any{"text": "305", "scheme": "nosuch"}, "scheme: want one of visa, "},
		{"explain", map[string]any{"text": "nosuchelement"}, "text: it is no message"},
		{"explain", map[string]any{"text": strings.Repeat("x", 256<<10+1)}, "text: want at most 262144 bytes"},
		{"check", map[string]any{"text": "not a message"}, "text: there is no message in it"},
		{"check", map[string]any{"text": "{"}, "text: it cannot be read"},
		{"check", map[string]any{"text": ares, "more": "x"}, "check does not take; want only scheme, text"},
		{"look_up", nil, "want either question or page"},
		{"look_up", map[string]any{"question": "a", "page": "errors.md"}, "want either question or page"},
		{"look_up", map[string]any{"page": "../go.mod"}, "page: there is no such page"},
		{"look_up", map[string]any{"page": "openapi.yaml"}, "page: there is no such page"},
	} {
		if text, isError := s.call(tt.tool, tt.args); !isError || !strings.Contains(text, tt.want) {
			t.Errorf("%s %.100v says %t %q, want %q", tt.tool, tt.args, isError, text, tt.want)
		}
	}
	for line, want := range map[string]int{
		"no JSON": -32700, "[]": -32600, `{"jsonrpc":"1.0","id":1,"method":"ping"}`: -32600, `{"jsonrpc":"2.0","id":null,"method":"ping"}`: -32600,
		`{"jsonrpc":"2.0","id":{},"method":"ping"}`: -32600, `{"jsonrpc":"2.0","id":1,"method":"resources/list"}`: -32601,
		`{"jsonrpc":"2.0","id":1,"method":"initialize"}`: -32602, `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`: -32602,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay"}}`:                 -32602,
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":"` + strings.Repeat("x", 1<<20) + `"}`: -32600,
	} {
		if a := s.send(line); a.Error == nil || a.Error.Code != want || a.Error.Message == "" {
			t.Errorf("%.100s: %+v, want error %d", line, a.Error, want)
		}
	}
	if a := s.ask("ping", nil); a.Error != nil { // and the session goes on
		t.Errorf("ping: %+v", a.Error)
	}
}

// TestNoAnswerHasACardNumber: wherever a card number is in what an assistant sends, no answer has it.
func TestNoAnswerHasACardNumber(t *testing.T) {
	s := startSession(t, nil)
	for _, card := range []string{"4000000000000103", "4000 0000 0000 0103", "4000-0000-0000-0103"} {
		inBody := strings.Replace(body, "4000000000000103", card, 1)
		inText := strings.Replace(ares, `"x"`, `"`+card+`"`, 1)
		asDetail := `{"messageType":"Erro","messageVersion":"2.2.0","errorCode":"203","errorDescription":"x","errorDetail":"` + card + `"}`
		logLine := `{"time":"2026-11-29T12:00:00Z","level":"INFO","msg":"request","operation":"/auth","http":400,"detail":"` + card + `"}`
		for _, text := range []string{
			card, inBody, inText, asDetail, logLine, "acctNumber " + card, "error " + card, `{"` + card + `":1}`, `{"messageType":"` + card + `"}`,
			"creq=" + card, "<PARes>" + card,
		} {
			for _, tool := range []string{"explain", "check"} {
				s.call(tool, map[string]any{"text": text})
				s.call(tool, map[string]any{"text": "305", "scheme": card})
				s.call(tool, map[string]any{"text": "305", card: text})
			}
			s.call("look_up", map[string]any{"question": text})
			s.call("look_up", map[string]any{"page": text})
		}
		s.ask("tools/call", map[string]any{"name": card})
		s.ask(card, nil)
		s.ask("initialize", map[string]any{"protocolVersion": card})
		for _, id := range []string{`"` + card + `"`, "4000000000000103"} {
			s.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
		}
		s.send(`{"jsonrpc":"` + card + `","id":1}`)
		if at := strings.Index(s.all, card); at >= 0 {
			t.Errorf("an answer has the card number: %.200s", s.all[max(0, at-150):])
		}
	}
	if len(s.all) < 10_000 {
		t.Errorf("the answers have only %d bytes: the test shows little", len(s.all))
	}
}

// TestRecordsComeFromTheAdminAPI: with an address and a token an assistant sees a record as the admin API shows it.
// What the admin API refuses is said in words, and the token is never sent in the clear to another machine.
func TestRecordsComeFromTheAdminAPI(t *testing.T) {
	const id, token = "8a880dc0-d2d2-4067-bcb1-b08d1690b26e", "threeds-admin-made-up"
	answers := map[string]int{id: 200, strings.Replace(id, "8", "1", 1): 404, strings.Replace(id, "8", "2", 1): 401, strings.Replace(id, "8", "3", 1): 500}
	console := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked := strings.TrimPrefix(r.URL.Path, "/admin/v1/authentications/")
		if r.Method != http.MethodGet || r.Header.Get("Authorization") != "Bearer "+token {
			t.Errorf("%s %s with %q", r.Method, r.URL, r.Header.Get("Authorization"))
		}
		w.WriteHeader(answers[asked])
		fmt.Fprintf(w, `{"id": %q, "note": "4111111111111111"}`, asked)
	}))
	defer console.Close()
	admin, err := mcp.NewAdmin(console.URL+"/", token)
	if err != nil {
		t.Fatal(err)
	}
	s := startSession(t, admin)
	if list := string(s.ask("tools/list", nil).Result); !strings.Contains(list, `"show_record"`) {
		t.Errorf("tools/list: %s", list)
	}
	for asked, status := range answers {
		want := map[int]string{200: `"id": "` + id, 404: "the journal has no such record", 401: "the token is not valid", 500: "the admin API answers 500"}[status]
		text, isError := s.call("show_record", map[string]any{"id": strings.ToUpper(asked)})
		if isError != (status != 200) || !strings.Contains(text, want) {
			t.Errorf("a record with %d: %t %q, want %q", status, isError, text, want)
		}
	}
	if text, isError := s.call("show_record", map[string]any{"id": "../keys"}); !isError || !strings.HasPrefix(text, "id: want a threeDSServerTransID") {
		t.Errorf("what is no id: %t %q", isError, text)
	}
	console.Close()
	if text, isError := s.call("show_record", map[string]any{"id": id}); !isError || !strings.Contains(text, "does not answer") {
		t.Errorf("a console that is gone: %t %q", isError, text)
	}
	if strings.Contains(s.all, token) || strings.Contains(s.all, "4111111111111111") {
		t.Errorf("the token or a card number is in the answers: %s", s.all)
	}
	for _, address := range []string{"http://console.example", "console.example", "ftp://127.0.0.1", "https://a:b@console.example", "https://c.example?x=1"} {
		if _, err := mcp.NewAdmin(address, token); err == nil {
			t.Errorf("%s is taken", address)
		}
	}
	if _, err := mcp.NewAdmin("https://console.example", ""); err == nil {
		t.Error("no token is taken")
	}
}
