package v1_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/openthreeds/threeds/internal/protocol/v1"
	"github.com/openthreeds/threeds/internal/protocol/v1/packing"
	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
)

// What can be unpacked is within the limit, and comes back when it is packed.
func FuzzInflate(f *testing.F) {
	text, _ := realPARes(f)
	doc := []byte("<a>text</a>")
	for _, s := range []string{
		text, "", "=", " + ", packing.Deflate(doc), based(packed(doc, deflated)), based(packed(doc, stored)), based(packed(doc, gzipped)),
		wrapped(packing.Deflate(doc), " ", 4), " " + wrapped(packing.Deflate(doc), "\r\n", 4) + "\t", based(packed(make([]byte, packing.MaxXML+1), zlibbed)),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		doc, raw, err := packing.Inflate(text)
		if err != nil {
			if doc != nil || raw {
				t.Errorf("Inflate returns %d bytes and raw %t with the error %v, want neither", len(doc), raw, err)
			}
			return
		}
		if len(doc) > packing.MaxXML || len(text) > packing.MaxText {
			t.Errorf("%d bytes of a text of %d characters, want at most %d of %d", len(doc), len(text), packing.MaxXML, packing.MaxText)
		}
		repacked := packing.Deflate(doc)
		if len(repacked) > packing.MaxText {
			return
		}
		if again, raw, err := packing.Inflate(repacked); err != nil || raw || !bytes.Equal(again, doc) {
			t.Errorf("packed and unpacked again: raw %t, %v; want the same document", raw, err)
		}
	})
}

// A PARes made of documents and of texts is refused by an error of a kind that is
// known, or says what one of the signed ones says.
func FuzzOpenPARes(f *testing.F) {
	trust := vectorRoot(f)
	said := map[v1.PARes]bool{}
	for _, pattern := range []string{"*.xml", "wellformedness/*.xml"} {
		names, err := fs.Glob(os.DirFS(vectors), pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range names {
			doc := read(f, name)
			f.Add(doc)
			if o, err := v1.OpenPARes(packing.Deflate(doc), trust); err == nil {
				said[o.PARes] = true
			}
		}
	}
	f.Add(message("<Error/>"))
	f.Add([]byte(read(f, "real/mpidocs_pares.b64")))
	f.Fuzz(func(t *testing.T, doc []byte) {
		for _, text := range []string{string(doc), packing.Deflate(doc)} {
			o, err := v1.OpenPARes(text, trust)
			_, isError := errors.AsType[*v1.Error](err)
			_, isFault := errors.AsType[*v1.Fault](err)
			_, isRefusal := errors.AsType[*xmldsig.Refusal](err)
			_, _, envelope := packing.Inflate(text)
			switch {
			case err == nil && !said[o.PARes]:
				t.Errorf("nobody signed %+v", o.PARes)
			case err == nil || isError || isFault || isRefusal:
			case envelope == nil || err.Error() != envelope.Error():
				t.Errorf("error of an unknown kind: %v", err)
			}
		}
	})
}

// An answer is refused by a Fault or an Error, or keeps what the protocol
// promises of it.
func FuzzReadAnswer(f *testing.F) {
	for _, doc := range [][]byte{
		nil, veres(enrolled + acsURL + protocol), veres("<CH><enrolled>N</enrolled></CH><IReq><iReqCode>50</iReqCode></IReq>"),
		veres(enrolled + acsURL + protocol + `<Extension critical="true" id="x"><a/></Extension>`), message("<Error><errorCode>5</errorCode></Error>"),
		crres(serial), crres(cr("4000000000000", "4000000000999", "A") + serial), crres("<IReq><iReqCode>57</iReqCode></IReq>"),
		crres(""), crres(cr("4000000000000", "4000000000999", "A")), crres("<IReq><iReqCode>57</iReqCode></IReq>" + serial),
	} {
		f.Add(doc)
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		r, err := v1.ReadVERes(doc, asked, v1.Options{Lab: true})
		wantKind(t, err)
		if err == nil {
			y := r.Enrolled == "Y"
			bad := y && (r.AcctID == "" || r.AcctID == pan || r.URL == "" || r.IReq.Code != "") || !y && r.Enrolled != "N" && r.Enrolled != "U" ||
				!y && r.AcctID+r.URL != "" || r.ID != asked.ID || r.Version != v1.Version
			if bad {
				t.Errorf("a VERes that the protocol does not allow was taken: %+v", r)
			}
		}
		c, err := v1.ReadCRRes(doc, askedTable)
		wantKind(t, err)
		if err == nil && (c.Serial != "" && c.IReq.Code != "" || c.Serial == "" && len(c.Ranges) > 0) {
			t.Errorf("a CRRes was taken that has serialNumber and IReq, or ranges without serialNumber: %+v", c)
		}
		if err == nil {
			for _, one := range c.Ranges {
				if len(one.Begin) != len(one.End) || one.Begin > one.End || len(one.Begin) < 13 {
					t.Errorf("a bad range was taken: %+v", one)
				}
			}
		}
	})
}

// wantKind wants an error to be an Error, or a Fault with a short detail; or nil.
func wantKind(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	_, isError := errors.AsType[*v1.Error](err)
	fault, isFault := errors.AsType[*v1.Fault](err)
	if !isError && (!isFault || fault.Detail == "" || len(fault.Detail) > 1000) {
		t.Errorf("%v (%[1]T), want an Error, or a Fault with a detail of at most 1000 characters", err)
	}
}
