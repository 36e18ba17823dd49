package xmldsig_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
)

// Whatever byte is changed, added or removed where something is signed, the document is
// refused or says the same. (Tests of this name are left out under the race detector, which
// would slow them down a hundredfold for nothing; see the Makefile.)
func TestGeneratedCases(t *testing.T) {
	type vector struct {
		doc    []byte
		policy xmldsig.Policy
		values string
		spans  [][2]int
	}
	all := []vector{{doc: realPARes(t), policy: realPolicy(t)}}
	for _, name := range vectors(t) {
		if _, bad := refused[name]; !bad {
			all = append(all, vector{doc: read(t, name), policy: vectorPolicy(t)})
		}
	}
	for i := range all {
		v := &all[i]
		good, err := verify(v.doc, v.policy)
		if err != nil {
			t.Fatal(err)
		}
		v.values = values(t, good.Canonical)
		for _, name := range []string{"PARes", "SignedInfo"} {
			v.spans = append(v.spans, [2]int{bytes.Index(v.doc, []byte(name)) - 4, bytes.LastIndex(v.doc, []byte(name)) + len(name)})
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	const (
		edits   = 10_000
		special = "<>&\"' \t\r\n/=:#;!?[]-a0"
	)
	same := 0
	for i := range edits {
		v := all[i%len(all)]
		span := v.spans[r.IntN(len(v.spans))]
		at := span[0] + r.IntN(span[1]-span[0])
		with := []byte{byte(r.IntN(256))}
		if r.IntN(2) == 0 { // what means something in XML
			with[0] = special[r.IntN(len(special))]
		}
		changed := slices.Clone(v.doc)
		switch r.IntN(3) {
		case 0:
			changed[at] = with[0]
		case 1:
			changed = slices.Insert(changed, at, with[0])
		case 2:
			changed = slices.Delete(changed, at, at+1)
		}
		got, err := verify(changed, v.policy)
		if err != nil {
			continue
		}
		same++
		if values := values(t, got.Canonical); values != v.values {
			t.Fatalf("edit %d at byte %d says otherwise:\n%s", i, at, changed)
		}
	}
	t.Logf("%d of %d edits changed nothing", same, edits)
}
