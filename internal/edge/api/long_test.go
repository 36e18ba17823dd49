package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/edge/shed"
)

// A watched body tells how many places were taken while it was read, at most.
type watched struct {
	io.Reader
	h      *Handler
	places int64
}

func (w *watched) Read(b []byte) (int, error) {
	w.places = max(w.places, w.h.inFlight().Load())
	return w.Reader.Read(b)
}

// TestLongBodiesTakeMorePlaces: a body takes a place for each bytesPerPlace bytes while its request is in work. A body
// that does not announce its length, and is longer than that, takes as many as the longest. If there are not enough
// places for a body, it is refused like a request without a place.
func TestLongBodiesTakeMorePlaces(t *testing.T) {
	for path := range bodies {
		longest := int64(maxBody)
		if path == "/auth" {
			longest = maxAuthBody
		}
		most := map[shed.Priority]int64{shed.Low: 80, shed.Middle: 90, shed.High: 100}[classOf(path)]
		for _, size := range []int64{1, 8 << 10, 8<<10 + 1, bytesPerPlace - 1, bytesPerPlace, bytesPerPlace + 1, 2 * bytesPerPlace, 2*bytesPerPlace + 1, longest} {
			for _, chunked := range []bool{false, true} {
				places := (size + bytesPerPlace - 1) / bytesPerPlace
				if chunked && size > bytesPerPlace {
					places = longest / bytesPerPlace
				}
				for _, others := range []int64{0, most - places, most - places + 1} {
					refused := make(map[string]int)
					f := new(fake)
					h := newHandler(f)
					h.MaxInFlight, h.Refused = 100, func(operation string, why Refusal) { refused[operation+" "+string(why)]++ }
					h.inFlight().Store(others)
					sent := &watched{Reader: strings.NewReader(strings.Repeat(" ", int(size))), h: h}
					r := httptest.NewRequest(http.MethodPost, path, sent)
					r.Header.Set("APIKey", "k")
					if !chunked {
						r.ContentLength = size
					}
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					name := fmt.Sprintf("%s, %d bytes, chunked %t, beside %d", path, size, chunked, others)
					if n := h.inFlight().Load(); n != others {
						t.Errorf("%s: %d places are taken afterwards", name, n)
					}
					if others+places <= most {
						if came := f.came.Load(); !isMPI(path) && came != size {
							t.Errorf("%s: %d bytes came", name, came)
						}
						if w.Code == 503 || sent.places != others+places || len(refused) > 0 {
							t.Errorf("%s: %d, %d places, want %d", name, w.Code, sent.places, others+places)
						}
						continue
					}
					if w.Code != 503 || w.Header().Get("Retry-After") == "" || !json.Valid(w.Body.Bytes()) || len(refused) != 1 || refused[path[1:]+" in_flight"] != 1 {
						t.Errorf("%s: %d %v %s, %v", name, w.Code, w.Header(), w.Body, refused)
					}
				}
			}
		}
	}
}

// TestLongBodyIsServedAlone: a body that would take more than half of the places takes half.
func TestLongBodyIsServedAlone(t *testing.T) {
	for most := range int64(40) {
		for path := range bodies {
			h := newHandler(new(fake))
			h.MaxInFlight, h.AuthBody, h.Body = most, 40*bytesPerPlace, 40*bytesPerPlace
			if w := ask(h, path, "k", strings.NewReader(strings.Repeat(" ", 40*bytesPerPlace))); w.Code == 503 {
				t.Errorf("%s: with %d places there is none for a long body", path, most)
			}
		}
	}
}
