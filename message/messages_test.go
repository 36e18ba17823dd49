package message

import (
	"fmt"
	"strings"
	"testing"
)

// oreq is an OReq with some of its members replaced; "" takes one out.
func oreq(changes ...string) []byte {
	members := []string{
		"dsReferenceNumber", `"DS_REF_1"`,
		"dsTransID", `"d0000000-0000-4000-8000-000000000001"`,
		"messageType", `"OReq"`, "messageVersion", `"2.3.1"`,
		"opCategory", `"02"`, "opDescription", `"Maintenance on Sunday"`, "opExpDate", `"20261231"`,
		"opSeq", `{"seqId":"50000000-0000-4000-8000-000000000001","seqNum":"01","seqTotal":"02"}`,
		"opSeverity", `"03"`,
	}
	for i := 0; i < len(changes); i += 2 {
		found := false
		for j := 0; j < len(members); j += 2 {
			if members[j] == changes[i] {
				members[j+1], found = changes[i+1], true
			}
		}
		if !found {
			members = append(members, changes[i], changes[i+1])
		}
	}
	var list []string
	for i := 0; i < len(members); i += 2 {
		if members[i+1] != "" {
			list = append(list, fmt.Sprintf("%q:%s", members[i], members[i+1]))
		}
	}
	return []byte("{" + strings.Join(list, ",") + "}")
}

// Each element of an OReq is tried with each fault that it can have.
func TestVO01FaultsOfAnOReqAreReported(t *testing.T) {
	long := strings.Repeat("x", 20000)
	seq := func(id, num, total string) string {
		return fmt.Sprintf(`{"seqId":%q,"seqNum":%q,"seqTotal":%q}`, id, num, total)
	}
	const id = "50000000-0000-4000-8000-000000000001"
	for _, tt := range []struct{ name, value, want string }{
		{"opSeverity", `"03"`, ""},
		{"dsReferenceNumber", "", "201 dsReferenceNumber"},
		{"dsTransID", "", "201 dsTransID"},
		{"opCategory", "", "201 opCategory"},
		{"opDescription", "", "201 opDescription"},
		{"opExpDate", "", "201 opExpDate"},
		{"opSeq", "", "201 opSeq"},
		{"opSeverity", "", "201 opSeverity"},
		{"opSeverity", `"09"`, "207 opSeverity"},
		{"opSeverity", `"80"`, ""},
		{"opSeverity", `"1"`, "203 opSeverity"},
		{"opCategory", `"06"`, ""},
		{"opCategory", `"07"`, "207 opCategory"},
		{"opCategory", `"99"`, ""},
		{"opDescription", `"` + long + `"`, ""},
		{"opDescription", `"` + long + `x"`, "203 opDescription"},
		{"opExpDate", `"20261301"`, "203 opExpDate"},
		{"dsTransID", `"d"`, "203 dsTransID"},
		{"dsReferenceNumber", `"` + long[:32] + `"`, ""},
		{"dsReferenceNumber", `"` + long[:33] + `"`, "203 dsReferenceNumber"},
		{"opSeq", seq(id, "99", "99"), ""},
		{"opSeq", seq(id, "00", "01"), "203 opSeq.seqNum"},
		{"opSeq", seq(id, "01", "100"), "203 opSeq.seqTotal"},
		{"opSeq", seq("1", "01", "01"), "203 opSeq.seqId"},
		{"opSeq", `{"seqId":"` + id + `","seqNum":"01"}`, "201 opSeq.seqTotal"},
		{"opPriorTransRef", `{"transIdType":"01","transId":"` + id + `"}`, ""},
		{"opPriorTransRef", `{"transIdType":"04","transId":"` + id + `"}`, "203 opPriorTransRef.transIdType"},
		{"messageVersion", `"2.2.0"`, "101 messageType"}, // VO-03
		{"messageVersion", `"2.1.0"`, "101 messageType"},
	} {
		m, err := Parse(oreq(tt.name, tt.value), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range m.Check(Context{}) {
			got = append(got, p.Code.String()+" "+string(p.Path))
		}
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("%s %.40s: %v, want %q", tt.name, tt.value, got, tt.want)
		}
	}
}
