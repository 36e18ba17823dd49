package sandbox

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// rangeText is the part of the control port for card ranges.
const rangeText = `GET  /ranges                    of each scheme: serial number, how many, how it is served
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

// rangeRoutes are what rangeText says.
func (s *Sandbox) rangeRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /ranges", func(w http.ResponseWriter, _ *http.Request) {
		var all []rangeStatus
		for _, d := range s.directories {
			all = append(all, d.ranges.status())
		}
		writeJSON(w, http.StatusOK, all)
	})
	mux.HandleFunc("GET /ranges/faults", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte(RangeFaults())) // the client has gone, or reads it
	})
	for pattern, f := range map[string]func(*Ranges, http.ResponseWriter, *http.Request) error{
		"GET /ranges/{scheme}":         func(*Ranges, http.ResponseWriter, *http.Request) error { return nil },
		"GET /ranges/{scheme}/all":     (*Ranges).showAll,
		"POST /ranges/{scheme}":        (*Ranges).takeChange,
		"PUT /ranges/{scheme}/service": (*Ranges).takeService,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			ranges := s.Ranges(r.PathValue("scheme"))
			if ranges == nil {
				writeJSON(w, http.StatusNotFound, map[string]string{"error": "no such scheme"})
				return
			}
			switch err := f(ranges, w, r); {
			case errors.Is(err, errWritten):
			case err != nil:
				writeJSON(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
			default:
				writeJSON(w, http.StatusOK, ranges.status())
			}
		})
	}
}

// errWritten says that the answer has been given.
var errWritten = errors.New("written")

// A rangeStatus is what the control port tells of a scheme's ranges.
type rangeStatus struct {
	Scheme  string      `json:"scheme"`
	Serial  string      `json:"serial"`
	Count   int         `json:"count"`
	Service serviceText `json:"service"`
}

// A serviceText is a RangeService as JSON: spans of time as 2s or 1h30m.
type serviceText struct {
	RangeService
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

func (r *Ranges) status() rangeStatus {
	s := r.Service()
	return rangeStatus{
		Scheme: r.d.scheme.word, Serial: r.Serial(), Count: r.Len(),
		Service: serviceText{RangeService: s, Delay: span(s.Delay), Pace: span(s.Pace)},
	}
}

func (r *Ranges) takeService(_ http.ResponseWriter, req *http.Request) error {
	var in serviceText
	if err := readStrictly(req, &in); err != nil {
		return err
	}
	in.RangeService.Delay, in.RangeService.Pace = time.Duration(in.Delay), time.Duration(in.Pace)
	return r.Serve(in.RangeService)
}

func (r *Ranges) takeChange(_ http.ResponseWriter, req *http.Request) error {
	var in struct {
		RangeChange
		Generate *struct {
			Count int    `json:"count"`
			Seed  uint64 `json:"seed"`
		} `json:"generate"`
	}
	if err := readStrictly(req, &in); err != nil {
		return err
	}
	if in.Generate == nil {
		return r.Change(in.RangeChange)
	}
	if in.Replace != nil || in.Delete != nil || in.Modify != nil || in.Add != nil {
		return errors.New("generate stands alone")
	}
	return r.Generate(in.Generate.Count, in.Generate.Seed)
}

func (r *Ranges) showAll(w http.ResponseWriter, req *http.Request) error {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	before := "["
	for c := range r.All() {
		if _, err := w.Write(append([]byte(before), encode(c)...)); err != nil || req.Context().Err() != nil {
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
	d := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 64<<20))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
