package rig

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"testing"
)

// A Wire is a directory server that keeps what it gets byte for byte and may
// answer as no directory server should.
type Wire struct {
	*Peer

	mu    sync.Mutex
	raw   map[string][]byte // AReqs by threeDSServerTransID
	trick func(w http.ResponseWriter, areq Object)
}

func NewWire(t *testing.T, ca *Authority) *Wire {
	t.Helper()
	w := &Wire{Peer: NewPeer(t, ca), raw: make(map[string][]byte)}
	w.Server.Config.Handler = w // nobody has called yet
	w.SetAnswer(nil)
	return w
}

// SetAnswer makes f answer every AReq; nil: with a good Y.
func (w *Wire) SetAnswer(f func(areq Object) (int, []byte)) {
	if f == nil {
		f = AnswerStatus("Y")
	}
	w.Peer.SetAnswer(f)
}

// AnswerStatus answers with a good ARes of that status.
func AnswerStatus(status string) func(areq Object) (int, []byte) {
	return func(areq Object) (int, []byte) { return 200, Marshal(AnswerTo(areq, status)) }
}

// AnswerTo is ares for every channel.
func AnswerTo(areq Object, status string) Object {
	o := ARes(areq, status)
	switch areq.Text("deviceChannel") + status {
	case "01C":
		o["acsSignedContent"] = "eyJhbGciOiJQUzI1NiJ9.e30.c2ln"
		o["acsRenderingType"] = Object{"acsInterface": "01", "acsUiTemplate": "01"}
		delete(o, "acsURL")
	}
	if areq.Text("deviceChannel") == "01" {
		o["sdkTransID"] = areq["sdkTransID"]
		if areq.Text("messageVersion") == "2.3.1" {
			o["deviceInfoRecognisedVersion"], o["threeDSRequestorAppURLInd"] = "1.6", "N"
		}
	}
	return o
}

func (w *Wire) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var o Object
	if err := json.Unmarshal(body, &o); err != nil || o.Text("messageType") != "AReq" {
		w.Peer.ServeHTTP(rw, r)
		return
	}
	w.mu.Lock()
	w.raw[o.Text("threeDSServerTransID")] = body
	trick := w.trick
	w.mu.Unlock()
	if trick == nil {
		w.Peer.ServeHTTP(rw, r)
		return
	}
	w.Peer.Mu.Lock()
	w.AReqs = append(w.AReqs, o)
	w.Peer.Mu.Unlock()
	trick(rw, o)
}

// Play makes f answer every AReq from now on; nil: as a good one does.
func (w *Wire) Play(f func(w http.ResponseWriter, areq Object)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trick = f
}

// Got is the AReq that came for an id, as it came.
func (w *Wire) Got(transID string) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.raw[transID]
}
