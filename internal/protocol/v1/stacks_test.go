package v1_test

import (
	"encoding/binary"
	"encoding/pem"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/protocol/v1"
	"github.com/openthreeds/threeds/internal/protocol/v1/packing"
	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
)

// stacks are programs that sign XML, with what the PARes that each made says
// otherwise than the others; testdata/stacks has the documents.
var stacks = map[string]func(*v1.PARes){
	"jdk":            func(p *v1.PARes) { p.MerID = "M&S ©" },
	"santuario":      func(p *v1.PARes) { p.Status, p.ECI = "A", "06" },
	"dotnet":         func(p *v1.PARes) { *p = unproven(*p, "N") },
	"xmlseclibs":     func(p *v1.PARes) { *p = unproven(*p, "U"); p.IReq.Code = "55" },
	"xml-crypto":     func(*v1.PARes) {},
	"xml-security-c": func(p *v1.PARes) { p.ID, p.MerID = "PARes7weIqTcheCeuZw8aP+znllnC4Js=", "So\u0308ren\u0085😀" },
}

// unproven is p as one without a proof has it.
func unproven(p v1.PARes, status string) v1.PARes {
	p.Status, p.Last4, p.CAVV, p.ECI, p.CAVVAlgo = status, "0000", "", "", ""
	return p
}

// stack returns the document of a stack, what it says, and trust in who signed it.
func stack(t *testing.T, name string) (doc string, want v1.PARes, trust policies) {
	t.Helper()
	file := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join("testdata", "stacks", name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	block, _ := pem.Decode(file("root.pem"))
	root, err := xmldsig.NewRoot(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	want = v1.PARes{
		ID: "p1", AcqBIN: "400551", MerID: "M-1001", XID: "MDAwMDAwMDAwMDEyMzQ1Njc4OTA=", Date: "20261123 10:17:41",
		Amount: "12500", Currency: "208", Exponent: 2, Last4: "1548", PANLength: 16,
		Time:   time.Date(2026, 11, 23, 10, 17, 23, 0, time.UTC),
		Status: "Y", CAVV: "AAABBCJZUwAAAAAAUFlTAAAAAAA=", ECI: "05", CAVVAlgo: "2",
	}
	stacks[name](&want)
	return string(file(name + ".xml")), want, func(time.Time) []xmldsig.Policy {
		at := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
		return []xmldsig.Policy{{Name: "visa", Roots: []*xmldsig.Root{root}, At: at, AllowSHA1: true}}
	}
}

// What others sign by the rules is believed, whatever ways of writing they have.
func TestPAResOfOtherXMLStacks(t *testing.T) {
	for name := range stacks {
		doc, want, trust := stack(t, name)
		o, err := v1.OpenPARes(packing.Deflate([]byte(doc)), trust)
		if err != nil || o.PARes != want || o.MessageID != "m1" || o.Signature.Chain != 2 {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
}

// However the parts of a signed PARes and of a forged one are put together, nothing
// is believed but what was signed.
func TestRearrangedPAResIsRefused(t *testing.T) {
	for name, parts := range map[string]int{"jdk": 3, "santuario": 2, "xml-crypto": 2} { // which differ in prefixes and namespaces
		doc, want, trust := stack(t, name)
		believed := 0
		for _, shape := range rearranged(doc, want.ID, parts) {
			o, err := v1.OpenPARes(unpacked(shape), trust)
			if err != nil {
				continue
			}
			if believed++; o.PARes != want {
				t.Errorf("%s: believed %+v of\n%s", name, o.PARes, shape)
			}
		}
		if believed == 0 {
			t.Errorf("%s: nothing is believed, not even what was signed", name)
		}
	}
}

// unpacked is a document as a browser brings it, in one block that is not compressed,
// which takes no time.
func unpacked(doc string) string {
	n := uint16(len(doc))
	block := binary.LittleEndian.AppendUint16([]byte{1}, n)
	return based(append(binary.LittleEndian.AppendUint16(block, ^n), doc...))
}

// rearranged takes a message apart and returns ways of putting two or three parts together, with a PARes that nobody
// signed among them.
func rearranged(doc, id string, atMost int) []string {
	p := "" // the prefix of the message
	if strings.Contains(doc, "<t:PARes ") {
		p = "t:"
	}
	begin, end := strings.Index(doc, "<"+p+"PARes "), strings.Index(doc, "</"+p+"PARes>")+len("</PARes>")+len(p)
	open, signed := doc[strings.Index(doc, "<"+p+"ThreeDSecure"):begin], doc[begin:end]
	message, shut := open[strings.Index(open, "<"+p+"Message"):], "</"+p+"Message>"
	signature := strings.TrimSpace(doc[end:strings.Index(doc, shut)])
	forSignature := signature[1:strings.Index(signature, "Signature")] // its prefix

	extension := func(s string) string { return "<" + p + `Extension id="x">` + s + "</" + p + "Extension>" }
	object := func(s string) string { return "<" + forSignature + "Object>" + s + "</" + forSignature + "Object>" }
	into := func(host, s string) string {
		at := strings.LastIndex(host, "</")
		return host[:at] + s + host[at:]
	}
	shapes := map[string]bool{} // without the forged one among the parts, both ids make the same
	for _, forgedID := range []string{id, "other"} {
		forged := strings.NewReplacer(">12500<", ">1<", id, forgedID).Replace(signed)
		parts := []string{
			signed, signature, forged, extension(signed), extension(signature), into(signed, extension(forged)), into(signed, signature),
			into(forged, extension(signed)), into(forged, extension(signed+signature)), into(forged, signature),
			into(signature, signed), into(signature, object(signed)), into(signature, object(forged)), into(signature, object(signature)),
			message + signed + signature + shut,
			strings.Replace(signature, "#"+id, "#other", 1), strings.Replace(signature, "#"+id, "", 1),
		}
		thirds := []string{""}
		if atMost > 2 {
			thirds = append(thirds, signed, signature, forged)
		}
		outer := "</" + p + "ThreeDSecure>"
		for _, first := range parts {
			for _, second := range parts {
				for _, third := range thirds {
					shapes[open+first+second+third+shut+outer] = true
				}
				shapes[open+first+second+shut+message+forged+signature+shut+outer] = true
				shapes[open+forged+signature+shut+message+first+second+shut+outer] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(shapes))
}
