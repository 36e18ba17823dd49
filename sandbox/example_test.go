package sandbox_test

import (
	"fmt"
	"log"

	"github.com/openthreeds/threeds/sandbox"
)

func Example() {
	box := &sandbox.Sandbox{Nice: true}
	if err := box.Start(); err != nil {
		log.Fatal(err)
	}
	defer box.Close()
	for _, ds := range box.Directories() {
		fmt.Println(ds.Scheme, ds.ClientName)
	}
	card, _ := box.Card("4000000000001103")
	fmt.Println(card.Scheme, card.Versions)
	// Output:
	// visa rreq.visa.sandbox.test
	// mastercard rreq.mastercard.sandbox.test
	// amex rreq.amex.sandbox.test
	// jcb rreq.jcb.sandbox.test
	// upi rreq.upi.sandbox.test
	// protectbuy rreq.protectbuy.sandbox.test
	// sbn rreq.sbn.sandbox.test
	// cb rreq.cb.sandbox.test
	// standin rreq.standin.sandbox.test
	// visa [2.1.0]
}
