package message

import "testing"

func BenchmarkReadRequest(b *testing.B) {
	body := []byte(`{"acctNumber":"4000001234567890"}`)
	b.ReportAllocs()
	for b.Loop() {
		r, err := ReadRequest(body, Limits{})
		if err != nil || r.Text("acctNumber") == "" || r.Has("ds") || r.Duplicates() != nil {
			b.Fatal(err)
		}
	}
}
