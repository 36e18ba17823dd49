package api_test

import (
	"encoding/json"
	"fmt"
	"log"

	"github.com/openthreeds/threeds/api"
)

// The body of a delivery, after its signature was verified.
func ExampleEvent() {
	body := []byte(`{"id": "evt_1", "type": "authentication.completed", "timestamp": "2026-11-25T10:00:00Z", "data": {
		"id": "09a1f8d5-0000-4000-8000-000000000001", "status": "completed", "reference": "order-17",
		"outcome": {"result": "authenticated", "next": {"action": "authorise", "because": "The cardholder was authenticated."}}}}`)
	var event api.Event[api.AuthenticationSummary]
	if err := json.Unmarshal(body, &event); err != nil {
		log.Fatal(err)
	}
	if event.Data.Outcome.Next.Action == api.ActionAuthorise {
		fmt.Println("ship", event.Data.Reference)
	}
	// Output: ship order-17
}

// An empty text is null.
func ExampleText() {
	text, err := json.Marshal(api.Liability{Shifts: api.ShiftsUnknown, Because: "no rule is known"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))
	// Output: {"shifts":"unknown","because":"no rule is known","source":null}
}
