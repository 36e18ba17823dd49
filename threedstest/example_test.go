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
