package journal

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

// fill gives a value to what has none. Text is that of each text.
func fill(v reflect.Value, text string) {
	switch at := v.Addr().Interface().(type) {
	case *time.Time:
		*at = time.Date(2026, 11, 29, 23, 59, 59, 1_200_000, time.UTC)
	case *json.RawMessage:
		*at = json.RawMessage(`{"a":"<b>"}`)
	default:
		switch v.Kind() {
		case reflect.String:
			v.SetString(text)
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Int, reflect.Int64:
			v.SetInt(-17)
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), text)
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			fill(v.Index(0), text)
			fill(v.Index(1), text)
		case reflect.Struct:
			for i := range v.NumField() {
				fill(v.Field(i), text)
			}
		}
	}
}

// TestJ1EntriesAreWrittenAsJSONWritesThem: each member of an entry alone, and all of them, also with texts that need
// escapes.
func TestJ1EntriesAreWrittenAsJSONWritesThem(t *testing.T) {
	t.Parallel()
	check := func(e *Entry) {
		t.Helper()
		got, err := appendContent(nil, e)
		if err != nil {
			t.Fatal(err)
		}
		if want, err := json.Marshal(e); err != nil || string(got) != string(want) {
			t.Errorf("wrote\n%s, want\n%s, %v", got, want, err)
		}
	}
	check(new(Entry))
	for _, text := range []string{"a", "", `"\<>&`, "\x00\n\x7f\xff", "ü\u2028"} {
		all := &Entry{Steps: make([]Step, 1)}
		fill(reflect.ValueOf(&all.Kind).Elem(), text)
		for i := range reflect.TypeFor[Record]().NumField() {
			one := new(Entry)
			fill(reflect.ValueOf(&one.Record).Elem().Field(i), text)
			check(one)
			fill(reflect.ValueOf(&all.Record).Elem().Field(i), text)
		}
		for i := range reflect.TypeFor[Step]().NumField() {
			one := &Entry{Steps: make([]Step, 3)}
			fill(reflect.ValueOf(&one.Steps[1]).Elem().Field(i), text)
			check(one)
			fill(reflect.ValueOf(&all.Steps[0]).Elem().Field(i), text)
		}
		check(all)
	}
	never := Record{Created: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}
	if _, err := appendRecord(nil, &never); err == nil {
		t.Error("a record was written whose time cannot be written as JSON")
	}
	if _, err := appendContent(nil, &Entry{Steps: []Step{{At: never.Created}}}); err == nil {
		t.Error("a step was written whose time cannot be written as JSON")
	}
}
