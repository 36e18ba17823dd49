package threedstest_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/threedstest"
)

// The tests of this file hold what front ends of others rely on: agnosco, test3ds, and the scripts of gateways, whose
// back ends send what the browser collected. No code of theirs is here.

// postRaw posts a request to the API as front ends do, and reads the answer as they do.
func postRaw(t *testing.T, s *threedstest.Server, path string, body map[string]any) (status int, answer map[string]any) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	r.Header.Set("APIKey", s.Key)
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer got.Body.Close()
	all, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(all, &answer); err != nil {
		t.Fatalf("%s: %d %s: %v, want JSON", path, got.StatusCode, all, err)
	}
	return got.StatusCode, answer
}

// TestForeignLastVersionIsTheHighest: who takes the last of acsProtocolVersions as the highest is right. A card
// without a 3DS Method has no threeDSMethodURL at all, for some ask only whether the member is there.
func TestForeignLastVersionIsTheHighest(t *testing.T) {
	s := threedstest.NewServer(t)
	for pan, end := range map[string]string{"4000000000000003": "2.3.1", "4000000000000103": "2.3.1", "4000000000001103": "2.1.0", "4000000000002103": "2.2.0"} {
		status, crd := postRaw(t, s, "/preauth", map[string]any{"acctNumber": pan})
		var versions []string
		list, _ := crd["acsProtocolVersions"].([]any)
		for _, one := range list {
			version, _ := one.(map[string]any)["version"].(string)
			versions = append(versions, version)
		}
		if status != 200 || len(versions) == 0 || !slices.IsSorted(versions) || versions[len(versions)-1] != end || crd["acsEndProtocolVersion"] != end {
			t.Errorf("%s: %d, versions %v up to %v, want them to rise to %s", pan, status, versions, crd["acsEndProtocolVersion"], end)
		}
		if _, has := crd["threeDSMethodURL"]; has != (pan == "4000000000000003") {
			t.Errorf("%s: threeDSMethodURL is there: %t", pan, has)
		}
	}
}

// TestForeignAsksUntilTheResultIsThere: who asks /postauth every two seconds goes on while the answer is JSON with a
// status below 500 and looks like no result. The result has its values at the top, and is the same each time.
func TestForeignAsksUntilTheResultIsThere(t *testing.T) {
	s := threedstest.NewServer(t)
	ares, erro := pay(t, s, "2.2.0", "4000000000000170", nil)
	if ares == nil || ares.TransStatus != "C" {
		t.Fatalf("%+v %s, want a challenge", ares, erro)
	}
	ask := map[string]any{"threeDSServerTransID": ares.ThreeDSServerTransID}
	for range 3 {
		status, early := postRaw(t, s, "/postauth", ask)
		_, hasStatus := early["transStatus"]
		if status < 400 || status > 499 || hasStatus || early["messageType"] != "Erro" || slices.Contains([]any{"402", "405"}, early["errorCode"]) {
			t.Errorf("/postauth of an open challenge: %d %v, want an Erro of 400 to 499 that tells of no end", status, early)
		}
	}
	openChallenge(t, "2.2.0", ares)
	want := waitForResult(t, s, ares.ThreeDSServerTransID)
	for range 2 {
		status, got := postRaw(t, s, "/postauth", ask)
		for _, name := range []string{"messageType", "transStatus", "eci", "authenticationValue"} {
			if text, _ := got[name].(string); status != 200 || text == "" || text != want[name] {
				t.Errorf("/postauth: %d, %s = %v, want %v", status, name, got[name], want[name])
			}
		}
	}
}

// TestForeignBrowserDataAsScriptsCollectIt: numbers where the protocol has texts, a colour depth that it does not
// have, an address that could not be learnt, and an acceptable header of last resort.
func TestForeignBrowserDataAsScriptsCollectIt(t *testing.T) {
	s := threedstest.NewServer(t)
	for name, changes := range map[string]map[string]any{
		"numbers":                 {"browserColorDepth": 24, "browserTZ": -60, "browserScreenWidth": 1920, "browserScreenHeight": 1080},
		"texts":                   {"browserColorDepth": "24", "browserTZ": "-60", "browserScreenWidth": "1920", "browserScreenHeight": "1080"},
		"no address, no header":   {"browserIP": "", "browserAcceptHeader": "*/*"},
		"depth 30, long language": {"browserColorDepth": 30, "browserLanguage": "zh-Hans-CN"},
		"private address":         {"browserIP": "192.168.1.11", "browserTZ": "-300"},
	} {
		for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
			if ares, erro := pay(t, s, version, "4000000000000103", changes); ares == nil || ares.TransStatus != "Y" {
				t.Errorf("%s, %s: %+v %s, want an ARes with Y", name, version, ares, erro)
			}
		}
	}
}

// TestForeignRequestorInitiatedWithBrowserData: a form that is made for a browser sends what it collected with a 3RI
// too. The directory server gets none of it.
func TestForeignRequestorInitiatedWithBrowserData(t *testing.T) {
	s := threedstest.NewServer(t)
	changes := threeRI("06")
	for name, value := range browserPayment("") {
		if strings.HasPrefix(name, "browser") || name == "notificationURL" || name == "threeDSCompInd" {
			changes[name] = value
		}
	}
	ares, erro := pay(t, s, "2.2.0", "4000000000000103", changes)
	if ares == nil {
		t.Fatalf("%s, want an ARes", erro)
	}
	areqs := 0
	for _, e := range s.Sandbox.Received(ares.ThreeDSServerTransID) {
		if e.Type != "AReq" {
			continue
		}
		areqs++
		if strings.Contains(e.Body, `"browser`) || strings.Contains(e.Body, "threeDSCompInd") {
			t.Errorf("the AReq has data of a browser: %s", e.Body)
		}
	}
	if areqs != 1 {
		t.Errorf("the directory server got %d AReqs, want 1", areqs)
	}
}

// TestForeignRefusalsKeepTheirWords: front ends compare these texts.
func TestForeignRefusalsKeepTheirWords(t *testing.T) {
	s := threedstest.NewServer(t)
	if status, got := postRaw(t, s, "/preauth", map[string]any{"acctNumber": "9000100111111111"}); status != 400 || got["errorCode"] != "305" {
		t.Errorf("a card that is not enrolled: %d %v, want 305", status, got)
	}
	start := func(pan string) string {
		_, crd := postRaw(t, s, "/preauth", map[string]any{"acctNumber": pan})
		id, _ := crd["threeDSServerTransID"].(string)
		return id
	}
	for name, c := range map[string]struct {
		pan, code, description string
		change                 map[string]any
	}{
		"no such version":  {"4000000000001103", "102", "Unsupported message version", map[string]any{"messageVersion": "2.2.0"}},
		"method never ran": {"4000000000000003", "305", "Invalid ThreeDSCompInd", map[string]any{"threeDSCompInd": "Y"}},
	} {
		areq := browserPayment(start(c.pan))
		areq["acctNumber"] = c.pan
		for member, value := range c.change {
			areq[member] = value
		}
		status, got := postRaw(t, s, "/auth", areq)
		detail, _ := got["errorDetail"].(string)
		if status != 400 || got["errorCode"] != c.code || got["errorDescription"] != c.description || detail == "" {
			t.Errorf("%s: %d %v, want %s %q with a detail", name, status, got, c.code, c.description)
		}
	}
}

// TestForeignResultIsThereWithTheCRes: who fetches the result in the request that brings the CRes gets it, without
// asking twice.
func TestForeignResultIsThereWithTheCRes(t *testing.T) {
	s := threedstest.NewServer(t)
	for range 20 {
		ares, erro := pay(t, s, "2.2.0", "4000000000000170", nil)
		if ares == nil || ares.TransStatus != "C" {
			t.Fatalf("%+v %s, want a challenge", ares, erro)
		}
		creq, _ := json.Marshal(map[string]any{"messageType": "CReq", "messageVersion": "2.2.0", "challengeWindowSize": "05",
			"threeDSServerTransID": ares.ThreeDSServerTransID, "acsTransID": ares.ACSTransID})
		answer, err := http.PostForm(ares.ACSURL, url.Values{"creq": {base64.StdEncoding.EncodeToString(creq)}})
		if cres := load(t, answer, err).cres(t); cres["transStatus"] != "Y" {
			t.Fatalf("CRes %v, want Y", cres)
		}
		if status, got := postRaw(t, s, "/postauth", map[string]any{"threeDSServerTransID": ares.ThreeDSServerTransID}); status != 200 || got["transStatus"] != "Y" {
			t.Fatalf("/postauth right after the CRes: %d %v, want the result", status, got)
		}
	}
}
