package threedstest_test

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"strings"

	"github.com/openthreeds/threeds/threedstest"
)

// A test calls NewServer(t) instead of Start and does not close the server.
func Example() {
	server, err := threedstest.Start(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	req, err := http.NewRequest(http.MethodPost, server.URL+"/preauth", strings.NewReader(`{"acctNumber": "4000000000000103"}`))
	if err != nil {
		log.Fatal(err)
	}
	req.Header.Set("APIKey", server.Key)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		log.Fatal(err)
	}
	defer res.Body.Close()

	var card struct{ Scheme, ACSEndProtocolVersion string }
	if err := json.NewDecoder(res.Body).Decode(&card); err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Status, card.Scheme, card.ACSEndProtocolVersion)
	// Output: 200 OK visa 2.3.1
}
