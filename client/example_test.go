package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/openthreeds/threeds/client"
)

// An issuer that wants no challenge.
func Example() {
	server := newServer()
	defer server.Close()

	c := client.New(server.URL, "9fbb8e40-0000-4000-8000-000000000001")
	ctx := context.Background()

	crd, err := c.Preauth(ctx, client.PreauthRequest{AcctNumber: "4000001234560103"})
	if err != nil {
		log.Fatal(err)
	}
	ares, err := c.Auth(ctx, map[string]any{
		"messageType": "AReq", "messageVersion": crd.Versions()[0], "threeDSServerTransID": crd.ThreeDSServerTransID,
		"acctNumber": "4000001234560103", // and all else that an AReq has
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ares.TransStatus, ares.ECI, ares.AuthenticationValue)
	fmt.Println("put right:", ares.Normalised())
	// Output:
	// Y 05 AAABBCJZUwAAAAAAUFlTAAAAAAA=
	// put right: [browserIP browserLanguage]
}

// After a challenge, ask until there is a result.
func ExampleClient_PostAuth() {
	server := newServer()
	defer server.Close()

	c := client.New(server.URL, "9fbb8e40-0000-4000-8000-000000000001")
	for {
		rreq, err := c.PostAuth(context.Background(), "3a3a3a3a-0000-4000-8000-000000000000")
		var erro *client.Erro
		switch {
		case err == nil:
			fmt.Println("result:", rreq.TransStatus)
			return
		case errors.As(err, &erro) && erro.IsPending():
			fmt.Println("not yet")
			time.Sleep(max(erro.RetryAfter(), 10*time.Millisecond)) // a second, in life
		default:
			log.Fatal(err)
		}
	}
	// Output:
	// not yet
	// result: N
}

// What to do about each kind of error.
func ExampleErro() {
	server := newServer()
	defer server.Close()

	c := client.New(server.URL, "9fbb8e40-0000-4000-8000-000000000001")
	_, err := c.Preauth(context.Background(), client.PreauthRequest{AcctNumber: "9000100111111111"})
	var erro *client.Erro
	var refused *client.RefusedError
	switch {
	case errors.As(err, &erro) && erro.IsNotEnrolled():
		fmt.Println("go on without authentication, or with 3-D Secure 1.0.2")
	case errors.As(err, &erro):
		fmt.Println("the request is wrong:", erro.ErrorDetail)
	case errors.As(err, &refused):
		fmt.Println("this is a wrong key, or another server:", refused.Status)
	case err != nil:
		fmt.Println("no answer came")
	}
	// Output:
	// go on without authentication, or with 3-D Secure 1.0.2
}

func ExampleClient_Enrolled() {
	server := newServer()
	defer server.Close()

	c := client.New(server.URL, "9fbb8e40-0000-4000-8000-000000000001")
	enrollment, err := c.Enrolled(context.Background(), client.EnrolledRequest{
		Amount: "1099", Currency: "EUR", OrderID: "order-17",
		Card:     client.Card{Number: "4000001234560000", ExpireMonth: "12", ExpireYear: "2029"},
		Merchant: client.Merchant{AcquirerBIN: "400000", ID: "M1", Name: "Shop", Country: "DK", URL: "https://shop.example"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(enrollment.Enrolled, enrollment.ACSURL)
	// Output:
	// Y https://acs.example/pareq
}

// newServer answers as a 3DS Server might.
func newServer() *httptest.Server {
	answer := func(w http.ResponseWriter, status int, body string) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
	asked := 0
	mux := http.NewServeMux()
	mux.HandleFunc("POST /preauth", func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); string(body) == `{"acctNumber":"9000100111111111"}` {
			answer(w, 400, `{"messageType":"Erro","messageVersion":"2.2.0","errorCode":"305","errorComponent":"S","errorDescription":"Unknown BIN",`+
				`"errorDetail":"No CRD found"}`)
			return
		}
		answer(w, 200, `{"messageType":"CRD","threeDSServerTransID":"3a3a3a3a-0000-4000-8000-000000000000","scheme":"visa",`+
			`"acsProtocolVersions":[{"version":"2.2.0"}],"dsProtocolVersions":["2.1.0","2.2.0"],"threeDSServerProtocolVersions":["2.1.0","2.2.0"]}`)
	})
	mux.HandleFunc("POST /auth", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Normalised", "browserIP, browserLanguage")
		answer(w, 200, `{"messageType":"ARes","transStatus":"Y","eci":"05","authenticationValue":"AAABBCJZUwAAAAAAUFlTAAAAAAA="}`)
	})
	mux.HandleFunc("POST /postauth", func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 1 {
			answer(w, 400, `{"messageType":"Erro","messageVersion":"2.2.0","errorCode":"305","errorComponent":"S",`+
				`"errorDescription":"No RReq has been received","errorDetail":"No response from directory server yet"}`)
			return
		}
		answer(w, 200, `{"messageType":"RReq","transStatus":"N"}`)
	})
	mux.HandleFunc("POST /enrolled", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, `{"acs_url":"https://acs.example/pareq","pareq":"eJxVUtt…","enrolled":"Y","eci":"5","error":null}`)
	})
	return httptest.NewServer(mux)
}
