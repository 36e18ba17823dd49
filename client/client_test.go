package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/client"
)

const testKey = "9fbb8e40-0000-4000-8000-000000000001"

// serve returns a client of a server that gives every request the same answer, and the last request that came.
func serve(t *testing.T, status int, body string, header ...string) (*client.Client, *http.Request) {
	t.Helper()
	came := new(http.Request)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		*came = *r
		came.Body = io.NopCloser(strings.NewReader(string(sent)))
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return client.New(server.URL+"/base/", testKey), came
}

func bodyOf(t *testing.T, r *http.Request) string {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestPreauthSendsTheCardAndReadsTheCRD(t *testing.T) {
	c, came := serve(t, 200, `{"messageType":"CRD","threeDSServerTransID":"id","scheme":"visa",
		"acsProtocolVersions":[{"version":"2.1.0"},{"version":"2.2.0","threeDSMethodURL":"https://acs.example/m"},{"version":"2.3.1"}],
		"dsProtocolVersions":["2.1.0","2.2.0"],"threeDSServerProtocolVersions":["2.1.0","2.2.0","2.3.1"]}`)
	crd, err := c.Preauth(t.Context(), client.PreauthRequest{AcctNumber: "4000001234560103", DS: "visa"})
	if err != nil {
		t.Fatal(err)
	}
	if got := bodyOf(t, came); came.URL.Path != "/base/preauth" || came.Header.Get("APIKey") != testKey ||
		got != `{"acctNumber":"4000001234560103","ds":"visa"}` {
		t.Errorf("%s %v %s", came.URL.Path, came.Header, got)
	}
	if v := crd.Versions(); !slices.Equal(v, []string{"2.1.0", "2.2.0"}) || crd.ThreeDSServerTransID != "id" || crd.Scheme != "visa" {
		t.Errorf("versions %v of %+v", v, crd)
	}
	if crd.MethodURL("2.2.0") != "https://acs.example/m" || crd.MethodURL("2.1.0") != "" || crd.MethodURL("3.0.0") != "" {
		t.Errorf("3DS Method of %+v", crd)
	}
}

func TestAuthSendsBytesAsTheyAre(t *testing.T) {
	const ares = `{"messageType":"ARes","transStatus":"C","unknown":null,"cardholderInfo":{"text":"call us"}}`
	c, came := serve(t, 200, ares, "X-Scheme-Rules", "email, shipAddrCity")
	got, err := c.Auth(t.Context(), []byte(`{ "messageType": "AReq" }`))
	if err != nil {
		t.Fatal(err)
	}
	if sent := bodyOf(t, came); sent != `{ "messageType": "AReq" }` {
		t.Errorf("sent %s", sent)
	}
	if got.TransStatus != "C" || got.CardholderInfo != "call us" || string(got.Raw) != ares || got.Status != 200 ||
		!slices.Equal(got.SchemeRules(), []string{"email", "shipAddrCity"}) || got.Normalised() != nil {
		t.Errorf("%+v", got)
	}
}

func TestErroOfAnyStatusIsAnErro(t *testing.T) {
	const body = `{"messageType":"Erro","messageVersion":"2.2.0","errorCode":"%","errorComponent":"S","errorDescription":"no","errorDetail":"x"}`
	for _, tt := range []struct {
		status                 int
		code, operation        string
		isPending, notEnrolled bool
	}{
		{200, "203", "/auth", false, false},
		{400, "305", "/auth", false, false},
		{400, "305", "/preauth", false, true},
		{400, "305", "/postauth", true, false},
		{503, "403", "/postauth", true, false},
		{429, "103", "/postauth", true, false},
		{400, "203", "/postauth", false, false},
	} {
		c, _ := serve(t, tt.status, strings.Replace(body, "%", tt.code, 1), "Retry-After", "2")
		err := call(t, c, tt.operation)
		var erro *client.Erro
		if !errors.As(err, &erro) {
			t.Errorf("%s, status %d: %v, want an Erro", tt.operation, tt.status, err)
			continue
		}
		if erro.ErrorCode != tt.code || erro.Status != tt.status || erro.IsPending() != tt.isPending || erro.IsNotEnrolled() != tt.notEnrolled ||
			erro.RetryAfter() != 2*time.Second {
			t.Errorf("%s, status %d: %+v", tt.operation, tt.status, erro)
		}
	}
}

// TestErroOfADirectoryServerIsTheEnd: its codes are not those of the server, which says that there is no result yet.
func TestErroOfADirectoryServerIsTheEnd(t *testing.T) {
	c, _ := serve(t, 400, `{"messageType":"Erro","errorCode":"305","errorComponent":"D"}`)
	_, err := c.PostAuth(t.Context(), "id")
	var erro *client.Erro
	if !errors.As(err, &erro) || erro.IsPending() {
		t.Errorf("%v, want an Erro that is final", err)
	}
}

func TestOtherAnswersAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		body   string
	}{
		"a wrong key":        {401, "Invalid API Key"},
		"a proxy's page":     {502, "<html>"},
		"a redirect":         {302, ""},
		"another message":    {200, `{"messageType":"PRes"}`},
		"a list":             {200, `[]`},
		"nothing":            {200, ""},
		"a member's type":    {200, `{"messageType":"ARes","transStatus":7,"enrolled":7,"status":7}`},
		"not success":        {202, `{"messageType":"ARes"}`},
		"no parameter error": {400, `{"error":null}`},
	} {
		for _, operation := range []string{"/preauth", "/auth", "/postauth", "/enrolled", "/check"} {
			c, _ := serve(t, tt.status, tt.body, "Location", "http://127.0.0.1:1/")
			if isV1 := operation == "/enrolled" || operation == "/check"; isV1 && name == "another message" {
				continue // in 1.0.2 messages have no type
			}
			err := call(t, c, operation)
			var refused *client.RefusedError
			if !errors.As(err, &refused) || refused.Status != tt.status || string(refused.Raw) != tt.body || refused.Operation != operation {
				t.Errorf("%s of %s: %v, want a RefusedError", name, operation, err)
			}
		}
	}
}

// call makes a call and returns its error.
func call(t *testing.T, c *client.Client, operation string) (err error) {
	t.Helper()
	var message any
	switch operation {
	case "/preauth":
		message, err = c.Preauth(t.Context(), client.PreauthRequest{AcctNumber: "4000001234560103"})
	case "/auth":
		message, err = c.Auth(t.Context(), map[string]string{"messageType": "AReq"})
	case "/postauth":
		message, err = c.PostAuth(t.Context(), "id")
	case "/enrolled":
		message, err = c.Enrolled(t.Context(), client.EnrolledRequest{})
	case "/check":
		message, err = c.Check(t.Context(), "pares")
	}
	if err == nil {
		t.Errorf("%s returned %v, want an error", operation, message)
	}
	return err
}

func TestAnswerOfTooManyBytesIsAnError(t *testing.T) {
	c, _ := serve(t, 200, `{"messageType":"ARes"}`+strings.Repeat(" ", 1<<20))
	if err := call(t, c, "/auth"); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("%v", err)
	}
}

// TestPostIsNeverRepeated: the server reads a whole request on a kept connection and hangs up. net/http would send a
// request that may be repeated once more.
func TestPostIsNeverRepeated(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		if requests.Add(1) == 1 {
			_, _ = io.WriteString(w, `{"messageType":"RReq","transStatus":"Y"}`)
			return
		}
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	c := client.New(server.URL, testKey)
	if _, err := c.PostAuth(t.Context(), "id"); err != nil {
		t.Fatal(err)
	}
	if err := call(t, c, "/auth"); !errors.Is(err, io.EOF) {
		t.Errorf("%v, want EOF", err)
	}
	if n := requests.Load(); n != 2 {
		t.Errorf("%d requests came, want 2", n)
	}
}

// roundTrip is a transport that answers nothing.
type roundTrip func(*http.Request)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	f(r)
	return nil, net.ErrClosed
}

func TestTimeouts(t *testing.T) {
	for operation, want := range map[string]time.Duration{
		"/preauth": 15 * time.Second, "/auth": 35 * time.Second, "/postauth": 15 * time.Second,
		"/enrolled": 35 * time.Second, "/check": 15 * time.Second,
	} {
		for _, own := range []time.Duration{0, time.Hour} {
			if own > 0 {
				want = own
			}
			var got time.Duration
			transport := roundTrip(func(r *http.Request) {
				if deadline, ok := r.Context().Deadline(); ok {
					got = time.Until(deadline)
				}
				if r.GetBody != nil {
					t.Errorf("%s: the body can be sent twice", operation)
				}
			})
			c := client.New("http://api.example", testKey, client.WithHTTPClient(&http.Client{Transport: transport, Timeout: own}))
			if err := call(t, c, operation); !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: %v", operation, err)
			}
			if got > want || got < want-5*time.Second {
				t.Errorf("%s: %v until the timeout, want %v", operation, got, want)
			}
		}
	}
}

func TestContextEndsACall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c, _ := serve(t, 200, "")
	if _, err := c.Auth(ctx, map[string]any{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestRequestThatIsNoJSON(t *testing.T) {
	c, _ := serve(t, 200, "")
	if _, err := c.Auth(t.Context(), make(chan int)); err == nil {
		t.Error("no error")
	}
}

func TestEnrolledSendsAForm(t *testing.T) {
	c, came := serve(t, 200, `{"acs_url":"https://acs.example","pareq":"eJx","enrolled":"Y","eci":"5","error":null}`)
	got, err := c.Enrolled(t.Context(), client.EnrolledRequest{
		Amount: "1099", Currency: "EUR", OrderID: "a b", Card: client.Card{Number: "4000001234560000", ExpireMonth: "12", ExpireYear: "2029"},
		Merchant: client.Merchant{AcquirerBIN: "400000", ID: "M1", Name: "Ärger & Co", Country: "DK", URL: "https://shop.example"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.Enrolled != "Y" || got.PAReq != "eJx" || got.ACSURL != "https://acs.example" || got.ECI != "5" || got.Error != nil {
		t.Errorf("%+v", got)
	}
	user, password, _ := came.BasicAuth()
	if user != testKey || password != "" {
		t.Errorf("user %q, password %q", user, password)
	}
	const want = "amount=1099&card%5Bexpire_month%5D=12&card%5Bexpire_year%5D=2029&card%5Bnumber%5D=4000001234560000&currency=EUR&" +
		"merchant%5Bacquirer_bin%5D=400000&merchant%5Bcountry%5D=DK&merchant%5Bid%5D=M1&merchant%5Bname%5D=%C3%84rger+%26+Co&" +
		"merchant%5Burl%5D=https%3A%2F%2Fshop.example&order_id=a+b"
	if form := bodyOf(t, came); form != want {
		t.Errorf("sent %s", form)
	}
}

func TestEnrolledOfAFailedDirectoryServer(t *testing.T) {
	c, _ := serve(t, 200, `{"acs_url":null,"pareq":null,"enrolled":null,"eci":"7","error":{"message":"timeout","detail":"10 s"}}`)
	got, err := c.Enrolled(t.Context(), client.EnrolledRequest{})
	if err != nil || got.Enrolled != "" || got.Error == nil || got.Error.Detail != "10 s" {
		t.Errorf("%+v %v", got, err)
	}
}

func TestCheckReadsWhatWasSigned(t *testing.T) {
	c, came := serve(t, 200, `{"amount":"1099","currency":"EUR","cavv":"AAAB","cavv_algorithm":"2","eci":"5","merchant_id":"M1","last4":"0000",
		"status":"Y","xid":"MDAw"}`)
	got, err := c.Check(t.Context(), "eJx+/=")
	if err != nil || got.Status != "Y" || got.CAVV != "AAAB" || got.Last4 != "0000" || got.XID != "MDAw" {
		t.Errorf("%+v %v", got, err)
	}
	if form := bodyOf(t, came); form != "pares=eJx%2B%2F%3D" {
		t.Errorf("sent %s", form)
	}
}

func TestCheckOfABadSignature(t *testing.T) {
	c, _ := serve(t, 400, `{"error":{"param":"pares","type":"invalid_param","message":null}}`)
	_, err := c.Check(t.Context(), "eJx")
	var bad *client.ParameterError
	if !errors.As(err, &bad) || bad.Param != "pares" || bad.Type != "invalid_param" || bad.Answer.Status != 400 {
		t.Errorf("%v, want a ParameterError", err)
	}
}
