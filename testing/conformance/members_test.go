package conformance

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite members.txt and docs/conformance.md")

// TestMembersAreTheDictionary holds members.txt equal to the dictionary.
func TestMembersAreTheDictionary(t *testing.T) {
	data, err := os.ReadFile("../../message/testdata/dictionary/messages.json")
	if err != nil {
		t.Fatal(err)
	}
	var dictionary struct {
		Versions map[string]map[string]struct {
			Fields []struct {
				Name      string
				Leg       string
				Inclusion map[string]map[string]string
			}
		}
	}
	if err := json.Unmarshal(data, &dictionary); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, v := range allVersions {
		for _, message := range []string{"AReq", "PReq", "RRes", "Erro"} {
			for _, f := range dictionary.Versions[v][message].Fields {
				cells := ""
				for _, category := range []string{"PA", "NPA"} {
					for _, channel := range []string{"APP", "BRW", "3RI"} {
						cells += f.Inclusion[category][channel]
					}
				}
				if f.Leg == "DS>ACS" || f.Leg == "ACS>DS" {
					cells = "------"
				}
				fmt.Fprintln(&b, v, message, f.Name, cells)
			}
		}
	}
	if *update {
		if err := os.WriteFile("members.txt", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if b.String() != membersText {
		t.Error("members.txt is not what the dictionary says; go test ./conformance -update")
	}
}
