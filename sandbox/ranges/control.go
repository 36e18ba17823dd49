package ranges

import (
	"errors"
	"net/http"
	"time"

	"github.com/openthreeds/threeds/sandbox/internal/peer"
)

// ControlText says what [Routes] adds to the control port.
const ControlText = `GET  /ranges                    of each scheme: serial number, how many, how it is served
GET  /ranges/faults             what can be wrong with an answer
GET  /ranges/SCHEME             the same of one
GET  /ranges/SCHEME/all         the set: an array of {start, end, methodURL, versions, info,
                                dsVersions, country, extensions: [{id, version}]}
POST /ranges/SCHEME             a change, one generation; each part may be missing, ranges are
                                written as above:
                                {"replace": […], "delete": […], "modify": […], "add": […]}
                                or {"generate": {"count": 2000000, "seed": 1}}
PUT  /ranges/SCHEME/service     how PReqs are answered, whole; {} is well-behaved:
                                {"fault": "erro 103", "times": 1, "delay": "2s", "pace": "1h",
                                "readOrder": "02", "steps": true, "together": 10, "bare": true,
                                "plain": true, "urls": [{"threeDSServerToDsUrl": "…", "dsCountryCode": "356"}],
                                "keep": 3, "file": {"on": true, "mutual": true, "breakAfter": 100000, "breaks": 3,
                                "changes": 1, "length": -10, "status": 503, "whole": true, "noETag": true}}

An answer is the status of the scheme, or {"error": "…"} with 400 or 404.
`

// Routes adds to the control port what [ControlText] says. faults is the text of scenarios/ranges.txt; all returns the
// sets in order, and find the set of a scheme, nil if there is none.
func Routes(mux *http.ServeMux, faults string, all func() []*Set, find func(scheme string) *Set) {
	mux.HandleFunc("GET /ranges", func(w http.ResponseWriter, _ *http.Request) {
		var list []setStatus
		for _, r := range all() {
			list = append(list, r.status())
		}
		peer.WriteJSON(w, http.StatusOK, list)
	})
	mux.HandleFunc("GET /ranges/faults", peer.ServeText(faults))
	for pattern, f := range map[string]func(*Set, http.ResponseWriter, *http.Request) error{
		"GET /ranges/{scheme}":         func(*Set, http.ResponseWriter, *http.Request) error { return nil },
		"GET /ranges/{scheme}/all":     (*Set).showAll,
		"POST /ranges/{scheme}":        (*Set).changeByRequest,
		"PUT /ranges/{scheme}/service": (*Set).serveByRequest,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			set := find(r.PathValue("scheme"))
			if set == nil {
				peer.WriteError(w, http.StatusNotFound, "no such scheme")
				return
			}
			switch err := f(set, w, r); {
			case errors.Is(err, errWritten):
			case err != nil:
				peer.WriteError(w, http.StatusBadRequest, err.Error())
			default:
				peer.WriteJSON(w, http.StatusOK, set.status())
			}
		})
	}
}

// errWritten says that the answer has been given.
var errWritten = errors.New("written")

// A setStatus is the answer of the control port about a scheme's ranges.
type setStatus struct {
	Scheme  string      `json:"scheme"`
	Serial  string      `json:"serial"`
	Count   int         `json:"count"`
	Service serviceText `json:"service"`
}

// A serviceText is a Service as JSON: spans of time as 2s or 1h30m.
type serviceText struct {
	Service
	Delay span `json:"delay,omitempty"`
	Pace  span `json:"pace,omitempty"`
}

// A span is a time.Duration as text.
type span time.Duration

func (s span) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

func (s *span) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	*s = span(d)
	return err
}

func (r *Set) status() setStatus {
	s := r.Service()
	return setStatus{
		Scheme: r.o.Scheme, Serial: r.Serial(), Count: r.Len(),
		Service: serviceText{Service: s, Delay: span(s.Delay), Pace: span(s.Pace)},
	}
}

func (r *Set) serveByRequest(_ http.ResponseWriter, req *http.Request) error {
	var in serviceText
	if err := readStrictly(req, &in); err != nil {
		return err
	}
	in.Service.Delay, in.Service.Pace = time.Duration(in.Delay), time.Duration(in.Pace)
	return r.Serve(in.Service)
}

func (r *Set) changeByRequest(_ http.ResponseWriter, req *http.Request) error {
	var in struct {
		Change
		Generate *struct {
			Count int    `json:"count"`
			Seed  uint64 `json:"seed"`
		} `json:"generate"`
	}
	if err := readStrictly(req, &in); err != nil {
		return err
	}
	if in.Generate == nil {
		return r.Change(in.Change)
	}
	if in.Replace != nil || in.Delete != nil || in.Modify != nil || in.Add != nil {
		return errors.New("generate stands alone")
	}
	return r.Generate(in.Generate.Count, in.Generate.Seed)
}

func (r *Set) showAll(w http.ResponseWriter, req *http.Request) error {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	before := "["
	for c := range r.All() {
		if _, err := w.Write(append([]byte(before), peer.Encode(c)...)); err != nil || req.Context().Err() != nil {
			panic(http.ErrAbortHandler)
		}
		before = ",\n"
	}
	if before == "[" {
		_, _ = w.Write([]byte(before)) // an empty set; the client has gone, or reads it
	}
	_, _ = w.Write([]byte("]\n"))
	return errWritten
}

// readStrictly reads a JSON body without unknown members. Changes of many
// ranges are long.
func readStrictly(r *http.Request, into any) error {
	return peer.ReadJSON(http.MaxBytesReader(nil, r.Body, 64<<20), into)
}
