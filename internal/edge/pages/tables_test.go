package pages_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/edge/pages/consoletest"
)

var (
	tablePattern = regexp.MustCompile(`(?s)<table class="rows.*?</table>`)
	rowPattern   = regexp.MustCompile(`(?s)<tr\b.*?</tr>`)
	cellPattern  = regexp.MustCompile(`(?s)<t[dh]\b([^>]*)>(.*?)</t[dh]>`)
)

// TestTablesHaveACellForEachHead: in each table of the console a row has as many cells as the table has heads. A phone
// hides the heads. So in a table with labels for phones (data-l), each cell has one, unless it begins the row, has the
// whole width, or holds a pill.
func TestTablesHaveACellForEachHead(t *testing.T) {
	s := newSite(t)
	s.Fill()
	rows := 0
	for _, at := range consoletest.Faces {
		for _, table := range tablePattern.FindAllString(s.get("admin", at).Body.String(), -1) {
			head, body, hasHead := strings.Cut(table, "</thead>")
			if !hasHead {
				continue
			}
			heads := cellPattern.FindAllStringSubmatch(head, -1)
			for _, row := range rowPattern.FindAllString(body, -1) {
				cells := cellPattern.FindAllStringSubmatch(row, -1)
				if rows++; len(cells) != len(heads) {
					t.Errorf("%s: a row has %d cells, and the table %d heads: %s", at, len(cells), len(heads), row)
					continue
				}
				for i, cell := range cells[1:] {
					isPill := strings.HasPrefix(strings.TrimSpace(cell[2]), `<span class="pill`)
					if strings.Contains(body, "data-l=") && !strings.Contains(cell[1], "data-l=") && !strings.Contains(cell[1], "full") && !isPill {
						t.Errorf("%s: a phone does not say that this cell is the %q: %s", at, heads[i+1][2], cell[0])
					}
				}
			}
		}
	}
	if rows < 20 {
		t.Errorf("%d rows of tables seen, fewer than there must be", rows)
	}
}
