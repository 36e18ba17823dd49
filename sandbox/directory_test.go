package sandbox_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/leaktest"
	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/sandbox"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// BenchmarkStart is the time until a sandbox is ready, which is most of what the whole command takes to start.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		box := new(sandbox.Sandbox)
		if err := box.Start(); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := box.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// TestCloseEndsAll closes a sandbox in which everything waits: a silent
// directory server, a challenge, a decoupled result.
func TestCloseEndsAll(t *testing.T) {
	box := start(t, func(s *sandbox.Sandbox) { s.DecoupledDelay = time.Hour })
	s := newServer(t, box)
	s.ask(s.areq("2.2.0", "02", "4000000000000172"))
	s.ask(s.areq("2.2.0", "02", "4000000000000183"))
	areq := s.areq("2.2.0", "02", "4000000000000163")
	silent := make(chan error, 1)
	go func() {
		_, err := s.post(context.Background(), "visa", areq.json(t))
		silent <- err
	}()
	waitFor(t, box, areq["threeDSServerTransID"].(string), func([]sandbox.Exchange) bool { return true })
	if err := box.Close(); err != nil {
		t.Error(err)
	}
	if err := <-silent; err == nil {
		t.Error("the silent directory server answered")
	}
	left := ""
	if !eventually(func() bool { left = ours(); return left == "" }) {
		t.Errorf("still running:\n%s", left)
	}
}

// ours is a goroutine that runs code of the package, if there is one.
func ours() string {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "threeds/sandbox.(*") {
			return stack
		}
	}
	return ""
}

func TestStartTwice(t *testing.T) {
	box := start(t, nil)
	if err := box.Start(); err == nil {
		t.Error("a second Start went well")
	}
	if err := (&sandbox.Sandbox{Listen: "127.0.0.1:8080"}).Start(); err == nil {
		t.Error("a fixed port went well")
	}
	if err := (&sandbox.Sandbox{Listen: "nowhere.invalid:0"}).Start(); err == nil {
		t.Error("a host that is not here went well")
	}
	if err := new(sandbox.Sandbox).Close(); err != nil {
		t.Errorf("Close before Start: %v", err)
	}
}

// TestMutualTLS knocks with the wrong certificates.
func TestMutualTLS(t *testing.T) {
	box := start(t, nil)
	visa, mastercard := box.Directories()[0], box.Directories()[1]
	post := func(c *http.Client) (*http.Response, error) {
		t.Cleanup(c.CloseIdleConnections)
		return c.Post(visa.URL, "application/json", strings.NewReader("{}"))
	}
	for name, c := range map[string]*http.Client{
		"without a certificate": clientWith(visa.ServerCA),
		"without trust":         clientWith(x509.NewCertPool(), visa.ClientCert),
		"of another authority":  clientWith(visa.ServerCA, foreign(t)),
	} {
		if answer, err := post(c); err == nil {
			answer.Body.Close()
			t.Errorf("a client %s got in", name)
		}
	}
	answer, err := post(clientWith(visa.ServerCA, mastercard.ClientCert))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var got members
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil || got["errorCode"] != "303" {
		t.Errorf("the certificate for another scheme: %v, %v; want code 303", got, err)
	}
}

// foreign is a client certificate of another sandbox.
func foreign(t *testing.T) tls.Certificate {
	return start(t, nil).Directories()[0].ClientCert
}

func TestWrongHTTPRequestsAreRefused(t *testing.T) {
	box := start(t, nil)
	s := newServer(t, box)
	answer, err := s.client("visa").Get(s.directory("visa").URL)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusMethodNotAllowed || answer.Header.Get("Allow") != "POST" {
		t.Errorf("GET: %s", answer.Status)
	}
	for size, want := range map[int]int{512 << 10: http.StatusOK, 512<<10 + 1: http.StatusRequestEntityTooLarge} {
		answer, err := s.client("visa").Post(s.directory("visa").URL, "application/json", strings.NewReader(strings.Repeat(" ", size)))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("a body of %d bytes: %s", size, answer.Status)
		}
	}
}

// TestBadMessagesGetAnErro sends what a directory server refuses and looks at how it says so.
func TestBadMessagesGetAnErro(t *testing.T) {
	s := newServer(t, start(t, nil))
	good := func() members { return s.areq("2.2.0", "02", "4000000000000103") }
	duplicate := strings.Replace(string(good().json(t)), `"mcc"`, `"mcc":"5411","mcc"`, 1)
	for _, test := range []struct {
		name, body, code, detail string
	}{
		{"no JSON", "{", "101", "Invalid Formatted Message"},
		{"no object", "[]", "101", "Invalid Formatted Message"},
		{"no type", "{}", "201", "messageType"},
		{"unknown type", string(good().with(members{"messageType": "XReq"}).json(t)), "101", "Invalid Message Type"},
		{"other type", string(good().with(members{"messageType": "ARes"}).json(t)), "101", "Invalid Message for the receiving component"},
		{"no version", string(good().with(members{"messageVersion": nil}).json(t)), "201", "messageVersion"},
		{"old version", string(good().with(members{"messageVersion": "1.0.2"}).json(t)), "102", "2.1.0,2.2.0,2.3.1"},
		{"missing", string(good().with(members{"mcc": nil, "merchantName": nil}).json(t)), "201", "mcc"},
		{"format", string(good().with(members{"acctNumber": 4000000000000103}).json(t)), "203", "acctNumber"},
		{"duplicate", duplicate, "204", "mcc"},
		{"ISO", string(good().with(members{"purchaseCurrency": "999"}).json(t)), "304", "purchaseCurrency"},
		{"critical extension", string(good().with(members{"messageExtension": []members{{
			"name": "x", "id": "A0-X", "criticalityIndicator": true, "data": members{"a": "b"},
		}}}).json(t)), "202", "A0-X"},
		{"another scheme's card", string(good().with(members{"acctNumber": "5100000000000103"}).json(t)), "305", "acctNumber: not a card of this directory server"},
		{"results over http", string(good().with(members{"threeDSServerURL": "http://127.0.0.1/"}).json(t)), "203", "threeDSServerURL"},
		{"a blank behind an id", string(good().with(members{"acquirerMerchantID": "M-1001 "}).json(t)), "203", "acquirerMerchantID"},
		{"a blank before an id", string(good().with(members{"threeDSRequestorID": " corner-shop"}).json(t)), "203", "threeDSRequestorID"},
		{"the directory server's own", string(good().with(members{"dsTransID": newID()}).json(t)), "203", "dsTransID"},
	} {
		raw, err := s.post(t.Context(), "visa", []byte(test.body))
		if err != nil {
			t.Fatal(err)
		}
		valid(t, raw, message.Context{})
		got := read(t, raw)
		detail, _ := got["errorDetail"].(string)
		if got["messageType"] != "Erro" || got["errorCode"] != test.code || !strings.HasPrefix(detail, test.detail) || got["errorComponent"] != "D" {
			t.Errorf("%s: got %s, want %s %q", test.name, raw, test.code, test.detail)
		}
	}
}

// TestSecondAReqOfAnIDIsRefused sends an AReq again: an id is good for one.
func TestSecondAReqOfAnIDIsRefused(t *testing.T) {
	s := newServer(t, start(t, nil))
	for version, code := range map[string]string{"2.1.0": "301", "2.2.0": "301", "2.3.1": "312"} {
		areq := s.areq(version, "02", "4000000000000103")
		if got := s.ask(areq); got["transStatus"] != "Y" {
			t.Errorf("first: %v", got)
		}
		if got := s.ask(areq); got["errorCode"] != code {
			t.Errorf("%s, again: got %v, want code %s", version, got, code)
		}
	}
}

// TestErroIsTakenAndWrittenDown posts an Erro: it is taken without a word, and written down.
func TestErroIsTakenAndWrittenDown(t *testing.T) {
	box := start(t, nil)
	s := newServer(t, box)
	id := newID()
	raw, err := s.post(t.Context(), "visa", members{"messageType": "Erro", "threeDSServerTransID": id, "errorCode": 7}.json(t))
	if err != nil || len(raw) > 0 {
		t.Errorf("got %q, %v", raw, err)
	}
	if all := box.Received(id); len(all) != 1 || all[0].Type != "Erro" || all[0].From != "server" || all[0].To != "ds visa" {
		t.Errorf("Received = %+v", all)
	}
}

func TestDocumentedRangesAreServed(t *testing.T) {
	s := newServer(t, start(t, nil))
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		for _, d := range s.box.Directories() {
			preq := members{
				"messageType": "PReq", "messageVersion": version, "threeDSServerTransID": newID(),
				"threeDSServerRefNumber": "3DS_LOA_SER_TEST_020200_00001",
			}
			ask := func(changes members) (members, []byte) {
				raw, err := s.post(t.Context(), d.Scheme, preq.with(changes).json(t))
				if err != nil {
					t.Fatal(err)
				}
				valid(t, raw, message.Context{PReq: parse(t, preq.with(changes).json(t))})
				return read(t, raw), raw
			}
			got, raw := ask(nil)
			if all, _ := got["cardRangeData"].([]any); len(all) != len(d.CardPrefixes) {
				t.Errorf("%s %s: %s", d.Scheme, version, raw)
			}
			for _, prefix := range d.CardPrefixes {
				zeros := strings.Repeat("0", 12-len(prefix))
				card, _ := s.box.Card(prefix + zeros + "0103")
				isOfScheme := card.Scheme == d.Scheme || slices.Contains(card.Others, d.Scheme)
				if !isOfScheme || !strings.Contains(string(raw), prefix+zeros+"0000") {
					t.Errorf("%s %s: prefix %s", d.Scheme, version, prefix)
				}
			}
			if got, raw := ask(members{"serialNum": got["serialNum"]}); got["cardRangeData"] != nil || got["messageType"] != "PRes" {
				t.Errorf("known serial: %s", raw)
			}
			if got, raw := ask(members{"serialNum": "999"}); got["errorCode"] != "307" {
				t.Errorf("unknown serial: %s", raw)
			}
		}
	}
}

// TestFirstAnswerIsSlowOnce is slow once.
func TestFirstAnswerIsSlowOnce(t *testing.T) {
	const delay = 30 * time.Millisecond
	s := newServer(t, start(t, func(s *sandbox.Sandbox) { s.FirstAnswerDelay = delay }))
	began := time.Now()
	s.ask(s.areq("2.2.0", "02", "4000000000000103"))
	if took := time.Since(began); took < delay {
		t.Errorf("the first answer took %v", took)
	}
}

// TestAlterChangesWhatIsSent breaks what a directory server sends.
func TestAlterChangesWhatIsSent(t *testing.T) {
	s := newServer(t, start(t, func(s *sandbox.Sandbox) {
		s.Alter = func(kind string, body []byte) []byte { return []byte(`{"was":"` + kind + `"}`) }
	}))
	if got := s.ask(s.areq("2.2.0", "02", "4000000000000103")); got["was"] != "ARes" {
		t.Errorf("got %v", got)
	}
}

// TestLargestAReq: an AReq that was made of the largest /auth there may be is answered,
// and one that no /auth can have been made of is not.
func TestLargestAReq(t *testing.T) {
	s := newServer(t, start(t, nil))
	for _, size := range []int{256<<10 + 4096, 512<<10 - 1, 512 << 10, 512<<10 + 1} {
		areq := s.areq("2.3.1", "02", "4000000000000103")
		areq["padding"] = ""
		areq["padding"] = strings.Repeat("x", size-len(areq.json(t)))
		answer, err := s.post(t.Context(), "visa", areq.json(t))
		if good := err == nil && read(t, answer)["messageType"] == "ARes"; good != (size <= 512<<10) {
			t.Errorf("%d bytes: %.200s, %v", size, answer, err)
		}
	}
	// The connection of the last one stays for half a second, so that the client gets its answer.
	stacks := make([]byte, 4<<20)
	if !eventually(func() bool {
		return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "closeWriteAndWait")
	}) {
		t.Error("the connection of the one that was too long is still there")
	}
}
