package rig

import (
	"maps"
	"net/http"
	"strings"
)

// EnrolledPAN is a card that the wires enroll.
const EnrolledPAN = "4000001234567890"

// NewTransactionID is a fresh threeDSServerTransID for EnrolledPAN.
func (w *World) NewTransactionID() string {
	w.T.Helper()
	return w.Preauth(EnrolledPAN).Text("threeDSServerTransID")
}

// Request is a good browser AReq with an id of its own.
func (s *Site) Request(version string) Object {
	s.T.Helper()
	return BrowserRequest(version, EnrolledPAN, s.NewTransactionID(), "U")
}

// Through sends a request that must succeed and returns what the directory
// server got.
func (s *Site) Through(req Object) Object {
	s.T.Helper()
	code, got := s.Post("/auth", req)
	if code != 200 {
		s.T.Fatalf("/auth: %d %v", code, got)
	}
	sent := s.Directory.Sent(got.Text("threeDSServerTransID"))
	if len(sent) != 1 {
		s.T.Fatalf("%d AReqs came, want 1", len(sent))
	}
	return sent[0]
}

// Challenged runs an /auth that ends with a challenge, and returns the AReq as
// the directory server got it, and the ARes.
func (s *Site) Challenged(version string) (areq, answer Object) {
	s.T.Helper()
	s.Directory.SetAnswer(AnswerStatus("C"))
	defer s.Directory.SetAnswer(nil)
	code, answer := s.Post("/auth", s.Request(version))
	if code != 200 || answer.Text("transStatus") != "C" {
		s.T.Fatalf("/auth: %d %v, want a challenge", code, answer)
	}
	return s.Directory.Sent(answer.Text("threeDSServerTransID"))[0], answer
}

// Result posts an RReq as the directory server.
func (s *Site) Result(body []byte) Object {
	s.T.Helper()
	code, got, err := s.Directory.Post(s.ResultsURL, body)
	if err != nil || code != 200 {
		s.T.Fatalf("RReq: %d %v, want 200 whatever it says", code, err)
	}
	return got
}

func (s *Site) Postauth(id string) (int, Object) {
	s.T.Helper()
	return s.Post("/postauth", Object{"threeDSServerTransID": id})
}

// AppRequest and threeRI are good AReqs of the other channels.
func AppRequest(version, pan, transID string) Object {
	o := CoreRequest(version, pan, transID).With(Object{
		"deviceChannel": "01", "sdkAppID": NewUUID(), "sdkTransID": NewUUID(), "sdkReferenceNumber": "SDK-REF-1",
		"sdkMaxTimeout": "05", "sdkEncData": "eyJhbGciOiJFQ0RILUVTIn0..aXY.ZGF0YQ.dGFn",
		"sdkEphemPubKey": Object{
			"kty": "EC", "crv": "P-256", "x": "WKn-ZIGevcwGIyyrzFoZNBdaq9_TsqzGl96oc0CWuis",
			"y": "y77t-RvAHRKTsSGdIYUfweuOvwrvDD-Q3Hv5J0fSKbE",
		},
		"deviceRenderOptions": Object{"sdkInterface": "03", "sdkUiType": []string{"01", "02", "03", "04", "05"}},
	})
	if version == "2.3.1" {
		o["sdkType"], o["defaultSdkType"] = "01", Object{"sdkVariant": "01"}
	}
	return o
}

func ThreeRIRequest(version, pan, transID string) Object {
	o := CoreRequest(version, pan, transID).With(Object{"deviceChannel": "03", "threeRIInd": "11", "threeDSRequestorAuthenticationInd": nil})
	if version == "2.1.0" {
		o = o.With(Object{
			"messageCategory": "02", "threeRIInd": "03", "purchaseAmount": nil, "purchaseCurrency": nil,
			"purchaseExponent": nil, "purchaseDate": nil,
		})
	}
	return o
}

// CoreRequest is what the AReqs of all channels have in common.
func CoreRequest(version, pan, transID string) Object {
	o := BrowserRequest(version, pan, transID, "")
	maps.DeleteFunc(o, func(name string, _ any) bool {
		return strings.HasPrefix(name, "browser") || name == "notificationURL" || name == "threeDSCompInd"
	})
	if transID == "" {
		delete(o, "threeDSServerTransID")
	}
	return o
}

// HoldAuth has an /auth under way whose AReq the directory server does not answer until
// leave is closed. Its status comes on done.
func (s *Site) HoldAuth(ds *Wire) (request Object, leave chan<- bool, done <-chan int) {
	entered, wait, status := make(chan bool), make(chan bool), make(chan int)
	ds.Play(func(w http.ResponseWriter, areq Object) {
		entered <- true
		<-wait
		_, _ = w.Write(Marshal(ARes(areq, "Y")))
	})
	request = s.Request("2.2.0")
	go func() {
		code, _ := s.Post("/auth", request)
		status <- code
	}()
	<-entered
	return request, wait, status
}
