package journal

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// An ending is all that counts of the end of an authentication.
type ending struct {
	bucket, challenged          int
	status, result, transStatus string
}

// add counts authentications that ended alike.
func (r *Rollup) add(e *ending, n int64) {
	isChallenged := e.challenged == 1
	r.All += n
	if e.result == "authenticated" && isChallenged {
		r.Results[AfterChallenge] += n
	} else {
		r.Results[e.result] += n
	}
	if e.bucket > 0 {
		r.addTimes(e.bucket, n)
	}
	switch {
	case e.status == "completed" && (e.transStatus == "Y" || e.transStatus == "A"):
		r.Successful += n
	case e.status == "failed" && !isChallenged:
		r.Failed += n
	}
	if !isChallenged {
		return
	}
	r.Challenged += n
	if e.status == "expired" {
		r.Lost += n
	}
	if e.result == "abandoned" {
		r.Abandoned += n
	}
}

// tallies are the counts of a time and a merchant: by what they are made, then by value.
type tallies map[string]map[string]*Rollup

// of returns the count of a value.
func (t tallies) of(by, value string) *Rollup {
	values := t[by]
	if values == nil {
		values = map[string]*Rollup{}
		t[by] = values
	}
	if values[value] == nil {
		values[value] = NewRollup()
	}
	return values[value]
}

// encode writes tallies as journal_rollups has them. Numbers are varints, texts come after their length. First are the
// names of all results, then the parts: what they are by, their length, and for each value its numbers.
func (t tallies) encode() []byte {
	index := map[string]uint64{}
	var names []string
	for _, values := range t {
		for _, r := range values {
			for name := range r.Results {
				if _, ok := index[name]; !ok {
					index[name] = uint64(len(names))
					names = append(names, name)
				}
			}
		}
	}
	out := binary.AppendUvarint(nil, uint64(len(names)))
	for _, name := range names {
		out = appendText(out, name)
	}
	for _, by := range slices.Sorted(maps.Keys(t)) {
		values := t[by]
		part := binary.AppendUvarint(nil, uint64(len(values)))
		for _, value := range slices.Sorted(maps.Keys(values)) {
			part = values[value].append(appendText(part, value), index)
		}
		out = appendText(appendText(out, by), string(part))
	}
	return out
}

func appendText(to []byte, text string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

// counts are the plain numbers of a rollup, in the order in which they are written.
func (r *Rollup) counts() []*int64 {
	return []*int64{&r.All, &r.Challenged, &r.Successful, &r.Failed, &r.Lost, &r.Abandoned}
}

// append writes the numbers of a rollup.
func (r *Rollup) append(to []byte, index map[string]uint64) []byte {
	for _, n := range r.counts() {
		to = binary.AppendUvarint(to, uint64(*n))
	}
	to = binary.AppendUvarint(to, uint64(len(r.Results)))
	for _, name := range slices.Sorted(maps.Keys(r.Results)) {
		to = binary.AppendUvarint(binary.AppendUvarint(to, index[name]), uint64(r.Results[name]))
	}
	used := 0
	for _, n := range r.Times {
		if n > 0 {
			used++
		}
	}
	to = binary.AppendUvarint(to, uint64(used))
	for bucket, n := range r.Times {
		if n > 0 {
			to = binary.AppendUvarint(binary.AppendUvarint(to, uint64(bucket)), uint64(n))
		}
	}
	return to
}

var errTallies = errors.New("journal: a row of journal_rollups is damaged: delete it, and mark its hour in journal_dirty")

// decodeTallies adds the counts of those parts that are wanted to what of returns for each value.
func decodeTallies(in []byte, isWanted func(by string) bool, of func(by, value string) *Rollup) error {
	r := reader{in: in}
	names := make([]string, r.length())
	for i := range names {
		names[i] = r.text()
	}
	for len(r.in) > 0 && !r.isDamaged {
		by := r.text()
		part := reader{in: r.bytes()}
		if r.isDamaged || !isWanted(by) {
			continue
		}
		for range part.length() {
			part.addTo(of(by, part.text()), names)
		}
		if part.isDamaged || len(part.in) > 0 {
			return errTallies
		}
	}
	if r.isDamaged {
		return errTallies
	}
	return nil
}

// A reader reads what tallies are written as. When something is missing, it is damaged and returns zeros.
type reader struct {
	in        []byte
	isDamaged bool
}

func (r *reader) number() int64 {
	n, length := binary.Uvarint(r.in)
	if length <= 0 || n > 1<<62 {
		r.isDamaged, r.in = true, nil
		return 0
	}
	r.in = r.in[length:]
	return int64(n)
}

// length reads how many things follow, each of at least a byte.
func (r *reader) length() int {
	n := r.number()
	if n > int64(len(r.in)) {
		r.isDamaged, r.in = true, nil
		return 0
	}
	return int(n)
}

// bytes reads a length and as many bytes.
func (r *reader) bytes() []byte {
	n := r.length()
	b := r.in[:n]
	r.in = r.in[n:]
	return b
}

func (r *reader) text() string { return string(r.bytes()) }

// addTo reads the numbers of a rollup and adds them to another.
func (r *reader) addTo(to *Rollup, names []string) {
	for _, n := range to.counts() {
		*n += r.number()
	}
	for range r.length() {
		i, n := r.number(), r.number()
		if i >= int64(len(names)) {
			r.isDamaged = true
			return
		}
		to.Results[names[i]] += n
	}
	for range r.length() {
		bucket, n := r.number(), r.number()
		if bucket >= buckets {
			r.isDamaged = true
			return
		}
		to.addTimes(int(bucket), n)
	}
}
