package ranges

import (
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/openthreeds/threeds/internal/base/uuid"
	"github.com/openthreeds/threeds/sandbox/internal/peer"
)

// A fault is a line of scenarios/ranges.txt: its arguments and what it changes. A fault that changes nothing here
// happens while the answer is sent.
type fault struct {
	arg     string           // CODE, BYTES or MEMBER; BYTES may be left out
	data    func(c *content) // cardRangeData
	members func(p *pres)    // all others
}

var faults = map[string]fault{
	"silence":   {},
	"reset":     {},
	"status":    {arg: "CODE"},
	"erro":      {arg: "CODE"},
	"garbage":   {},
	"truncated": {arg: "BYTES"},
	"broken":    {arg: "BYTES"},

	"missing":    {arg: "MEMBER", data: (*content).removeMember, members: func(p *pres) { p.Drop(p.arg) }},
	"duplicate":  {members: func(p *pres) { p.tail.Put("serialNum", p.serial) }},
	"type-other": {members: func(p *pres) { p.Set("messageType", "ARes") }},
	"id-other":   {members: func(p *pres) { p.Set("threeDSServerTransID", uuid.New()) }},
	"version-other": {members: func(p *pres) {
		p.Set("messageVersion",
			map[string]string{peer.V210: peer.V220, peer.V220: peer.V210, peer.V231: peer.V220}[p.version])
	}},
	"version-old": {members: func(p *pres) { p.Set("messageVersion", "1.0.2") }},
	"extension": {members: func(p *pres) {
		p.Set("messageExtension", json.RawMessage(
			`[{"name":"unknown","id":"A000000999-sandbox","criticalityIndicator":true,"data":{"unknown":"yes"}}]`))
	}},
	"serial-other": {data: func(c *content) { c.some = false; c.markSerial() }},
	"serial-blank": {members: func(p *pres) { p.Set("serialNum", json.RawMessage(`""`)) }},
	"serial-long":  {members: func(p *pres) { p.Set("serialNum", pad(p.serial, "0", 21)) }},
	"serial-none":  {members: func(p *pres) { p.Drop("serialNum") }},
	"ds-country": {members: func(p *pres) {
		if p.version == peer.V231 {
			p.Set("dsUrlList", []DSURL{{URL: "https://ds.example/", Country: unknownCountry}})
		}
	}},
	"url-beside": {members: func(p *pres) {
		if p.version == peer.V231 {
			p.Set("cardRangeDataFileURL", p.file)
		}
	}},

	"empty":  {data: func(c *content) { c.some, c.items = true, func(func(item) bool) {}; c.markSerial() }},
	"shrink": {data: (*content).keepLastQuarter},
	"overlap": {data: func(c *content) {
		start, end := c.firstBounds()
		if end%100 == 99 { // what lies behind may be another length, or another range
			c.addEntryBetween("A", start-min(start, 10), start+9)
			return
		}
		c.addEntryBetween("A", end-9, end+10)
	}},
	"nested": {data: func(c *content) {
		start, end := c.firstBounds()
		c.addEntryBetween("A", start+(end-start)/4, start+(end-start)/2)
	}},
	"add-known":      {data: func(c *content) { start, end := c.firstBounds(); c.addEntryBetween("A", start, end) }},
	"delete-unknown": {data: func(c *content) { c.addEntry("D", Range{}) }},
	"modify-unknown": {data: func(c *content) { c.addEntry("M", Range{}) }},
	"modify-bounds":  {data: func(c *content) { start, end := c.firstBounds(); c.addEntryBetween("M", start, end-1) }},

	"reversed":         {data: func(c *content) { c.addEntry("A", Range{Start: spareEnd, End: spareStart}) }},
	"lengths":          {data: func(c *content) { c.addEntry("A", Range{Start: spareStart[:13], End: spareEnd}) }},
	"method-http":      {data: func(c *content) { c.addEntry("A", Range{MethodURL: "http://acs.example/3ds-method"}) }},
	"method-bad":       {data: func(c *content) { c.addEntry("A", Range{MethodURL: "acs dot example"}) }},
	"country":          {data: func(c *content) { c.addEntry("A", Range{Country: unknownCountry}) }},
	"version-inactive": {data: func(c *content) { c.addEntry("A", Range{Versions: []string{peer.V220, "9.0.0"}}) }},
	"info": {data: func(c *content) {
		c.addEntry("A", Range{Info: []string{map[bool]string{true: "12", false: "05"}[c.version == peer.V231]}})
	}},
	"ext-version": {data: func(c *content) {
		c.addEntry("A", Range{Extensions: []Extension{{ID: "A000000802-001", Version: "2"}}})
	}},
	"pairs-none": {data: func(c *content) {
		if c.addEntry("A", Range{}); c.version == peer.V231 {
			c.last = without(c.last, []string{"ranges"}, json.RawMessage("[]"))
		}
	}},
}

// The bounds of a range that no set has, and a country that is none.
const (
	spareStart     = "9990000000000000"
	spareEnd       = "9990999999999999"
	unknownCountry = "999"
)

// readFault divides a fault into its name and what follows it.
func readFault(text string) (name, arg string, err error) {
	name, arg, _ = strings.Cut(strings.TrimSpace(text), " ")
	f, known := faults[name]
	if !known && name != "" {
		return "", "", fmt.Errorf("there is no fault %q", name)
	}
	n, bad := strconv.ParseUint(arg, 10, 31)
	switch {
	case f.arg == "" && arg == "",
		f.arg == "CODE" && bad == nil && len(arg) == 3 && (name != "status" || 200 <= n && n <= 599),
		f.arg == "BYTES" && (bad == nil || arg == ""),
		f.arg == "MEMBER" && arg != "" && !strings.Contains(arg, " "):
		return name, arg, nil
	}
	return "", "", fmt.Errorf("fault %q: want %s", text, strings.TrimSpace(name+" "+f.arg))
}

// content is the cardRangeData of one answer.
type content struct {
	ranges  *Set
	have    snapshotSet
	version string
	arg     string // of the fault
	some    bool   // there is cardRangeData
	full    bool   // it is the whole set
	serial  string
	items   iter.Seq[item]
	last    json.RawMessage // one further entry
}

// markSerial marks the serial number: what comes with it is not the set.
func (c *content) markSerial() { c.serial = c.have.serial + "z" }

// addEntry adds an entry.
func (c *content) addEntry(action string, r Range) {
	if r.Start == "" {
		r.Start, r.End = spareStart, spareEnd
	}
	if r.MethodURL == "" {
		r.MethodURL = "https://acs.example/3ds-method"
	}
	it := item{bounds: r.bounds(), about: c.ranges.newAbout(r), action: action}
	c.some, c.last = true, it.entry(c.version)
	c.markSerial()
}

// addEntryBetween is extra with bounds of the length that the sample has.
func (c *content) addEntryBetween(action string, start, end uint64) {
	length := 16
	for it := range c.have.items() {
		length = len(it.start)
		break
	}
	c.addEntry(action, Range{Start: fmt.Sprintf("%0*d", length, start), End: fmt.Sprintf("%0*d", length, end)})
}

// firstBounds is the bounds of a range that is there.
func (c *content) firstBounds() (start, end uint64) {
	for it := range c.have.items() {
		start, _ = strconv.ParseUint(it.start, 10, 64)
		end, _ = strconv.ParseUint(it.end, 10, 64)
		return start, end
	}
	return 4000_0000_0000_0000, 4000_9999_9999_9999
}

// keepLastQuarter leaves the last quarter of the ranges: by not telling of the others,
// or by deleting them.
func (c *content) keepLastQuarter() {
	n, have, full := c.have.len(), c.have, c.full
	c.some = true
	c.markSerial()
	c.items = func(yield func(item) bool) {
		i := 0
		for it := range have.items() {
			gone := i < (n*3+3)/4
			if i++; gone == full {
				continue
			}
			if gone {
				it.action = "D"
			}
			if !yield(it) {
				return
			}
		}
	}
}

// removeMember takes a member out of one further entry.
func (c *content) removeMember() {
	if member, inside := strings.CutPrefix(c.arg, "cardRangeData."); inside {
		c.addEntry("A",
			Range{Country: "208", Info: []string{"01"}, Extensions: []Extension{{ID: "A000000802-001", Version: "1.0"}}})
		c.last = without(c.last, strings.Split(member, "."), nil)
	} else if c.arg == "cardRangeData" {
		c.some = false
	}
}

// all is the items with the further one.
func (c *content) all() iter.Seq[item] {
	if c.last == nil {
		return c.items
	}
	return func(yield func(item) bool) {
		for it := range c.items {
			if !yield(it) {
				return
			}
		}
		yield(item{raw: c.last})
	}
}

// without returns a JSON object in which the member at path has another value, or is left out. In an array it changes
// the first element.
func without(raw json.RawMessage, path []string, value json.RawMessage) json.RawMessage {
	if list := []json.RawMessage(nil); json.Unmarshal(raw, &list) == nil && len(list) > 0 {
		list[0] = without(list[0], path, value)
		return peer.Encode(list)
	}
	var m map[string]json.RawMessage
	_ = json.Unmarshal(raw, &m) // what is no object has no members, and stays as it is
	switch {
	case m == nil:
		return raw
	case len(path) > 1:
		if _, isThere := m[path[0]]; isThere {
			m[path[0]] = without(m[path[0]], path[1:], value)
		}
	case value == nil:
		delete(m, path[0])
	default:
		m[path[0]] = value
	}
	return peer.Encode(m)
}
