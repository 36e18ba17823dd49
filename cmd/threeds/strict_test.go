package main

import (
	"strings"
	"testing"
)

// TestD88StrictIsAFlagAndTheShopIsAlways: a threeDSCompInd Y whose 3DS Method never ran is answered without --strict,
// refused with it, and refused in any case when it comes from the demo shop.
func TestD88StrictIsAFlagAndTheShopIsAlways(t *testing.T) {
	lenient, strict := startSandbox(t), startSandbox(t, "--strict")
	public := startSandbox(t, "--public-url", "https://lab.example")
	public.API = "http://" + public.Listen
	refused := expected{code: "305", component: "D", description: "Invalid ThreeDSCompInd"}
	for _, test := range []struct {
		name  string
		world *world
		back  string
		good  bool
	}{
		{"lenient", lenient, "https://shop.example/done", true},
		{"lenient, another shop on the same path", lenient, "https://shop.example/notify/challenge", true},
		{"strict", strict, "https://shop.example/done", false},
		{"the demo shop", lenient, lenient.API + "/notify/challenge", false},
		{"the demo shop by another name", lenient, strings.Replace(lenient.API, "127.0.0.1", "localhost", 1) + "/notify/challenge", false},
		{"the demo shop at its public address", public, "https://lab.example/notify/challenge", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := &world{test.world.ready, t}
			const pan = "4000001234560003"
			id := w.preauth(pan).text("threeDSServerTransID")
			code, got := w.post("/auth", browser("2.2.0", pan, id, "Y").with(object{"notificationURL": test.back}))
			if !test.good {
				refused.check(t, code, got)
			} else if code != 200 || got.text("transStatus") != "Y" {
				t.Errorf("%d %v", code, got)
			}
		})
	}
}
