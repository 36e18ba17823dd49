package threedstest_test

import (
	"context"
	"fmt"
	"log"

	"github.com/openthreeds/threeds/client"
	"github.com/openthreeds/threeds/threedstest"
)

// A payment without a challenge. A test calls NewServer(t) instead of Start, and does not
// close the server.
func Example() {
	server, err := threedstest.Start(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	ctx := context.Background()
	crd, err := server.Client().Preauth(ctx, client.PreauthRequest{AcctNumber: "4000000000000103"})
	if err != nil {
		log.Fatal(err)
	}
	ares, err := server.Client().Auth(ctx, browserPayment(crd.ThreeDSServerTransID))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(crd.Scheme, ares.TransStatus)
	for _, e := range server.Sandbox.Received(crd.ThreeDSServerTransID) {
		fmt.Println(e.Type)
	}
	// Output:
	// visa Y
	// AReq
	// ARes
}

// A payment of a browser, as a shop makes it: the back end begins, the shopper goes to the hosted page and to the bank,
// and the back end asks how it ended.
func ExampleServer_PlayShopper() {
	server, err := threedstest.Start(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	ctx := context.Background()
	a, err := server.Client().Authenticate(ctx, map[string]string{
		"acctNumber": "4000000000000172", "cardExpiryDate": "3012", "purchaseAmount": "1250", "purchaseCurrency": "978",
		"returnUrl": "https://shop.example/done",
	}, "order-17")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(a.Status)
	back, err := server.PlayShopper(ctx, a.Browser.URL, "submit")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(back == "https://shop.example/done?authentication="+a.ID)
	a, err = server.Client().Authentication(ctx, a.ID, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(a.Status, a.Outcome.Result, a.Outcome.Next.Action)
	// Output:
	// requires_browser
	// true
	// completed authenticated authorise
}
