package transid

import (
	"bytes"
	"reflect"
	"testing"
)

// TestTagForgetsTheCard: a tagger is used again, and nothing of the card number is left in it.
func TestTagForgetsTheCard(t *testing.T) {
	const pan = "4000001234567890"
	tagger := newTagger(make([]byte, 32))
	tagger.cardTag(new(bits), "owner", pan)
	held := appendBytesIn(nil, reflect.ValueOf(tagger))
	if len(held) < 4*32 {
		t.Fatalf("only %d bytes were looked at", len(held))
	}
	if bytes.Contains(held, []byte(pan[:6])) || bytes.Contains(held, []byte(pan[10:])) {
		t.Errorf("the tagger holds %q", held)
	}
	tagger.mac.Write([]byte(pan))
	if held := appendBytesIn(nil, reflect.ValueOf(tagger)); !bytes.Contains(held, []byte(pan)) {
		t.Error("this test does not find a card number that is there")
	}
}

// appendBytesIn appends the arrays and slices of bytes that v holds or points to.
func appendBytesIn(found []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return appendBytesIn(found, v.Elem())
	case reflect.Struct:
		for _, field := range v.Fields() {
			found = appendBytesIn(found, field)
		}
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice {
			v = v.Slice(0, v.Cap())
		}
		for i := range v.Len() {
			if v.Index(i).Kind() == reflect.Uint8 {
				found = append(found, byte(v.Index(i).Uint()))
			}
		}
	}
	return found
}
