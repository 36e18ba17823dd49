package sandbox_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/sandbox"
	"github.com/openthreeds/threeds/sandbox/ranges"
)

var allVersions = []string{"2.1.0", "2.2.0", "2.3.1"}

func preq(version, serial string) members {
	m := members{
		"messageType": "PReq", "messageVersion": version, "threeDSServerTransID": newID(),
		"threeDSServerRefNumber": "3DS_LOA_SER_TEST_020200_00001",
	}
	if serial != "" {
		m["serialNum"] = serial
	}
	return m
}

// pres sends a PReq to visa and returns the answer, which is a good message.
func (s *server) pres(req members) (members, []byte) {
	s.t.Helper()
	raw, err := s.post(s.t.Context(), "visa", req.json(s.t))
	if err != nil {
		s.t.Fatal(err)
	}
	if !s.box.Ranges("visa").Service().Steps {
		valid(s.t, raw, message.Context{PReq: parse(s.t, req.json(s.t))})
	}
	return read(s.t, raw), raw
}

// A model is what a simple reader makes of PRes messages: what they say, as JSON, by bounds.
type model map[string]string

var errAction = errors.New("impossible action")

// apply takes a PRes as the specification says and returns the set after it.
func (m model) apply(raw []byte, full bool) (model, error) {
	var pres struct {
		ReadOrder     string
		CardRangeData []map[string]json.RawMessage
	}
	if err := json.Unmarshal(raw, &pres); err != nil {
		return nil, err
	}
	out := maps.Clone(m)
	if full {
		out = model{}
	}
	if pres.ReadOrder == "02" && !full {
		slices.Reverse(pres.CardRangeData)
	}
	for _, entry := range pres.CardRangeData {
		action := "A"
		if a := entry["actionInd"]; a != nil && !full {
			action = strings.Trim(string(a), `"`)
		}
		var keys []string
		if raw := entry["ranges"]; raw != nil {
			var pairs []struct{ Start, End string }
			if err := json.Unmarshal(raw, &pairs); err != nil {
				return nil, err
			}
			for _, p := range pairs {
				keys = append(keys, p.Start+"-"+p.End)
			}
		} else {
			keys = append(keys, strings.ReplaceAll(string(entry["startRange"])+"-"+string(entry["endRange"]), `"`, ""))
		}
		for _, name := range []string{"ranges", "startRange", "endRange", "actionInd"} {
			delete(entry, name)
		}
		told, _ := json.Marshal(entry)
		for _, key := range keys {
			if _, there := out[key]; there != (action != "A") {
				return nil, fmt.Errorf("%w %s of %s", errAction, action, key)
			}
			if action == "D" {
				delete(out, key)
			} else {
				out[key] = string(told)
			}
		}
	}
	return out, nil
}

// TestDeltasLeadToTheLatestSet changes a set at random and asks from each generation for the way
// to the last.
func TestDeltasLeadToTheLatestSet(t *testing.T) {
	for _, service := range []ranges.Service{
		{}, {ReadOrder: "02"}, {Steps: true, Bare: true}, {Steps: true, ReadOrder: "02", Together: 3}, {Together: 100, Plain: true},
	} {
		t.Run(fmt.Sprintf("%s %t %d", service.ReadOrder, service.Steps, service.Together), func(t *testing.T) {
			s := newServer(t, start(t, nil))
			r := s.box.Ranges("visa")
			if err := r.Serve(service); err != nil {
				t.Fatal(err)
			}
			if service.Together == 3 {
				if err := r.Generate(200, 1); err != nil {
					t.Fatal(err)
				}
			}
			type known struct {
				serial string
				sets   map[string]model
			}
			var past []known
			random := rand.New(rand.NewPCG(1, 2))
			for range 12 {
				now := known{r.Serial(), make(map[string]model)}
				for _, version := range allVersions {
					got, raw := s.pres(preq(version, ""))
					set, err := model(nil).apply(raw, true)
					if err != nil || got["serialNum"] != now.serial || len(set) != r.Len() {
						t.Fatalf("full: %v, serial %v, %d of %d ranges", err, got["serialNum"], len(set), r.Len())
					}
					now.sets[version] = set
				}
				past = append(past, now)
				if err := r.Change(randomChange(random, r)); err != nil {
					t.Fatal(err)
				}
			}
			last := past[len(past)-1]
			if err := r.Replace(ranges.Range{Start: "4000000000000000", End: "4000000000000000"}); err != nil {
				t.Fatal(err)
			}
			if service.Together == 3 { // Replace forgets what was generated
				if got, _ := s.pres(preq("2.2.0", last.serial)); got["errorCode"] != "307" {
					t.Errorf("after Replace: %v", got)
				}
				return
			}
			for _, from := range past {
				for _, version := range allVersions {
					got, raw := s.pres(preq(version, from.serial))
					set, err := from.sets[version].apply(raw, false)
					if err != nil || got["serialNum"] != r.Serial() {
						t.Fatalf("%s from %s: %v in %s", version, from.serial, err, raw)
					}
					_, raw = s.pres(preq(version, ""))
					if whole, _ := model(nil).apply(raw, true); !maps.Equal(set, whole) {
						t.Errorf("%s from %s: got %d ranges, want %d", version, from.serial, len(set), len(whole))
					}
				}
			}
		})
	}
}

// TestDeltasOfGenerated is the same of a generated set, whose members change.
func TestDeltasOfGenerated(t *testing.T) {
	s := newServer(t, start(t, nil))
	r := s.box.Ranges("visa")
	if err := r.Generate(500, 7); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 5 {
		before := r.Serial()
		_, raw := s.pres(preq("2.3.1", ""))
		set, _ := model(nil).apply(raw, true)
		for range 1 + random.IntN(2) {
			if err := r.Change(randomChange(random, r)); err != nil {
				t.Fatal(err)
			}
		}
		_, raw = s.pres(preq("2.3.1", before))
		got, err := set.apply(raw, false)
		if err != nil {
			t.Fatal(err)
		}
		_, raw = s.pres(preq("2.3.1", ""))
		if want, _ := model(nil).apply(raw, true); !maps.Equal(got, want) || len(want) != r.Len() {
			t.Errorf("got %d ranges, want %d, Len %d", len(got), len(want), r.Len())
		}
	}
}

// randomChange deletes, modifies and adds some ranges.
func randomChange(random *rand.Rand, r *ranges.Set) ranges.Change {
	var c ranges.Change
	for one := range r.All() {
		switch random.IntN(8) {
		case 0:
			c.Delete = append(c.Delete, one)
			if random.IntN(2) == 0 {
				c.Add = append(c.Add, randomRange(random, one.Start, one.End))
			}
		case 1, 2:
			c.Modify = append(c.Modify, randomRange(random, one.Start, one.End))
		}
	}
	for range random.IntN(12) {
		prefix := fmt.Sprintf("46%08d", random.IntN(100_000_000))
		c.Add = append(c.Add, randomRange(random, prefix+"000000", prefix+"999999"))
	}
	slices.SortFunc(c.Add, func(a, b ranges.Range) int { return strings.Compare(a.Start, b.Start) })
	c.Add = slices.CompactFunc(c.Add, func(a, b ranges.Range) bool { return a.Start == b.Start })
	return c
}

func randomRange(random *rand.Rand, start, end string) ranges.Range {
	c := ranges.Range{Start: start, End: end, Versions: allVersions[random.IntN(3):], Info: []string{"01", "02"}, Country: "208"}
	if random.IntN(2) == 0 {
		c.MethodURL = fmt.Sprintf("https://acs.example/%d", random.IntN(3))
		c.Extensions = []ranges.Extension{{ID: "A000000802-001", Version: "1.0"}}
		c.DSVersions = []string{"2.2.0", "2.3.1"}
	}
	return c
}

// TestImpossibleChangeChangesNothing checks which changes are not possible, and that nothing is done then.
func TestImpossibleChangeChangesNothing(t *testing.T) {
	r := start(t, nil).Ranges("visa")
	serial := r.Serial()
	there := slices.Collect(r.All())[0]
	away := ranges.Range{Start: "4999000000000000", End: "4999999999999999"}
	for name, err := range map[string]error{
		"add":          r.Add(away, there),
		"add twice":    r.Add(away, away),
		"modify":       r.Modify(there, away),
		"delete":       r.Delete(there, away),
		"delete twice": r.Delete(there, there),
		"replace":      r.Replace(away, away),
		"generate":     r.Generate(1<<40, 1),
		"fault":        r.Serve(ranges.Service{Fault: "sulks"}),
		"status":       r.Serve(ranges.Service{File: ranges.File{Status: 99}}),
		"order":        r.Serve(ranges.Service{ReadOrder: "03"}),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if r.Serial() != serial || r.Len() != 2 {
		t.Errorf("serial %s, %d ranges; want %s, 2", r.Serial(), r.Len(), serial)
	}
	if new(sandbox.Sandbox).Ranges("visa") != nil {
		t.Error("ranges before Start")
	}
	other := start(t, nil).Ranges("visa")
	if other.Serial() == serial {
		t.Error("another sandbox has the same serial number")
	}
}

// TestKeepGenerations forgets old generations.
func TestKeepGenerations(t *testing.T) {
	s := newServer(t, start(t, nil))
	r := s.box.Ranges("visa")
	if err := r.Serve(ranges.Service{Keep: 2}); err != nil {
		t.Fatal(err)
	}
	var serials []string
	for i := range 5 {
		serials = append(serials, r.Serial())
		start := fmt.Sprintf("4%d00000000000000", i+2)
		if err := r.Add(ranges.Range{Start: start, End: start}); err != nil {
			t.Fatal(err)
		}
	}
	for i, serial := range append(serials, r.Serial()) {
		got, _ := s.pres(preq("2.2.0", serial))
		if want := map[bool]string{true: "Erro", false: "PRes"}[i < 3]; got["messageType"] != want {
			t.Errorf("generation %d: %v, want %s", i, got["messageType"], want)
		}
	}
}

// TestPReqTooSoonGets103 asks too often.
func TestPReqTooSoonGets103(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := newServer(t, start(t, func(b *sandbox.Sandbox) { b.Now = func() time.Time { return now } }))
	if err := s.box.Ranges("visa").Serve(ranges.Service{Pace: time.Hour}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		after time.Duration
		want  any
	}{{0, nil}, {0, "103"}, {59 * time.Minute, "103"}, {time.Minute, nil}, {time.Second, "103"}} {
		now = now.Add(step.after)
		if got, _ := s.pres(preq("2.3.1", "")); got["errorCode"] != step.want {
			t.Errorf("at %v: code %v, want %v", now, got["errorCode"], step.want)
		}
	}
}

// TestUnchangedSetHasNoRanges has nothing to tell, and a list of addresses.
func TestUnchangedSetHasNoRanges(t *testing.T) {
	s := newServer(t, start(t, func(b *sandbox.Sandbox) { b.Nice = true }))
	r := s.box.Ranges("visa")
	urls := []ranges.DSURL{{URL: "https://ds.example/in", Country: "356"}, {URL: "https://ds.example/"}}
	if err := r.Serve(ranges.Service{URLs: urls}); err != nil {
		t.Fatal(err)
	}
	for _, version := range allVersions {
		got, raw := s.pres(preq(version, r.Serial()))
		if got["cardRangeData"] != nil || got["serialNum"] != r.Serial() || (got["dsUrlList"] != nil) != (version == "2.3.1") {
			t.Errorf("%s: %s", version, raw)
		}
		if !bytes.Contains(raw, []byte(`"dsUrlList":[{"threeDSServerToDsUrl":"https://ds.example/in","dsCountryCode":"356"},`)) && version == "2.3.1" {
			t.Errorf("%s", raw)
		}
	}
	// Added and deleted: the serial number is another, nothing else is.
	serial := r.Serial()
	one := ranges.Range{Start: "4999000000000000", End: "4999999999999999"}
	if err := errors.Join(r.Add(one), r.Delete(one), r.Add(one), r.Delete(one)); err != nil {
		t.Fatal(err)
	}
	if got, raw := s.pres(preq("2.3.1", serial)); strings.Count(string(raw), one.Start) != 2 || got["serialNum"] == serial {
		t.Errorf("%s", raw)
	}
	serial = r.Serial()
	was := slices.Collect(r.All())[0]
	other := was
	other.Country = "208"
	if err := errors.Join(r.Modify(other), r.Modify(was)); err != nil {
		t.Fatal(err)
	}
	if _, raw := s.pres(preq("2.3.1", serial)); strings.Count(string(raw), `"actionInd":"M"`) != 1 {
		t.Errorf("%s", raw)
	}
}
