package otlptest

import (
	"reflect"
	"testing"
)

// part returns a field of bytes.
func part(id int, content string) string {
	return string([]byte{byte(id<<3 | bytes), byte(len(content))}) + content
}

// body is a request with a resource and a span.
var body = part(1, part(1, part(1, part(1, "n")+part(2, part(1, ""))))+ // Resource
	part(2, part(1, "")+ // InstrumentationScope
		part(2, part(1, "tt")+part(2, "ss")+part(3, "x")+part(4, "p")+part(5, "name")+"\x30\x03"+
			"\x39\x01\x00\x00\x00\x00\x00\x00\x00"+"\x41\x02\x00\x00\x00\x00\x00\x00\x00"+
			part(9, part(1, "k")+part(2, "\x18\xac\x02"))+ // k=300
			part(11, part(2, "e"))+ // Event
			part(15, "\x18\x02")+ // Status
			"\x85\x01\x00\x01\x00\x00"))) // flags

// TestWhatTestsAskForIsRead: what tests ask for is read, and everything else is skipped.
func TestWhatTestsAskForIsRead(t *testing.T) {
	got, err := Decode([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	want := &Export{
		Resource: map[string]string{"n": ""},
		Spans: []*Span{{
			TraceID: []byte("tt"), SpanID: []byte("ss"), ParentSpanID: []byte("p"), TraceState: "x", Name: "name",
			Kind: Client, Status: Error, Start: 1, End: 2, Attributes: map[string]string{"k": "300"},
			Events: []Event{{Name: "e", Attributes: map[string]string{}}},
		}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %+v", got, got.Spans)
	}
}

// TestDecodeRefusesWhatIsCutOff: no part of a request is a request, but for nothing at all.
func TestDecodeRefusesWhatIsCutOff(t *testing.T) {
	for n := 1; n < len(body); n++ {
		if _, err := Decode([]byte(body[:n])); err == nil {
			t.Errorf("the first %d bytes are read", n)
		}
	}
	for _, bad := range []string{"\x0b\x00", "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x09\x00", "\x0d\x00", "\x08", "\x80"} {
		if _, err := Decode([]byte(bad)); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}
