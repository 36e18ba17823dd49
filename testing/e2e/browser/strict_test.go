package browser

import (
	"strings"
	"testing"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestD88StrictIsAFlagAndTheShopIsAlways: a threeDSCompInd Y whose 3DS Method never ran is answered without --strict,
// refused with it, and refused in any case when it comes from the demo shop.
func TestD88StrictIsAFlagAndTheShopIsAlways(t *testing.T) {
	t.Parallel()
	lenient, strict := rig.StartSandbox(t), rig.StartSandbox(t, "--strict")
	public := rig.StartSandbox(t, "--public-url", "https://lab.example")
	public.API = "http://" + public.Listen
	refused := rig.Expected{Code: "305", Component: "D", Description: "Invalid ThreeDSCompInd"}
	for _, test := range []struct {
		name  string
		world *rig.World
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
			w := &rig.World{ReadyFile: test.world.ReadyFile, T: t}
			const pan = "4000001234560003"
			id := w.Preauth(pan).Text("threeDSServerTransID")
			code, got := w.Post("/auth", rig.BrowserRequest("2.2.0", pan, id, "Y").With(rig.Object{"notificationURL": test.back}))
			if !test.good {
				refused.Check(t, code, got)
			} else if code != 200 || got.Text("transStatus") != "Y" {
				t.Errorf("%d %v", code, got)
			}
		})
	}
}
