package messagetest

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/message"
)

// TestARowThatComesOrGoesLeavesAllOthersAsTheyAre: a sample without one row of its table has the values of the sample
// with it, apart from those of rows whose condition names it.
func TestARowThatComesOrGoesLeavesAllOthersAsTheyAre(t *testing.T) {
	for _, v := range message.Versions() {
		whole := message.TableOf(message.AReq, v)
		draw := func(table *message.Table) map[string]string {
			s := &sampler{
				rand: rand.New(rand.NewPCG(3, 3)), typ: message.AReq, version: v,
				channel: message.BRW, category: message.PA,
			}
			values := map[string]string{}
			for row, value := range s.values(table, s.randsOf(table)) {
				values[table.Fields[row].Name] = value
			}
			return values
		}
		with := draw(whole)
		for row := range whole.Fields {
			gone := whole.Fields[row].Name
			if gone == "multiTransaction" { // what a merchant of it sells decides on sellerInfo
				continue
			}
			less := *whole
			less.Fields = slices.Delete(slices.Clone(whole.Fields), row, row+1)
			without := draw(&less)
			for _, f := range less.Fields {
				if without[f.Name] != with[f.Name] && !strings.Contains(f.When, gone) {
					t.Errorf("%s: without %s, %s is %.60s, and with it %.60s", v, gone, f.Name, without[f.Name], with[f.Name])
				}
			}
		}
	}
}
