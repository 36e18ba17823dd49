package operators

import (
	"encoding/json"
	"html"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// withConsole is the section of a console with pages.
const withConsole = `console: {listen: "127.0.0.1:0", url: "http://localhost:9090"}`

// A visitor is somebody who is logged in to the console of a site.
type visitor struct {
	*rig.Site
	session string
}

// visit logs an operator in to the console.
func visit(t *testing.T, s *rig.Site, user operator.User) *visitor {
	t.Helper()
	v := &visitor{Site: s}
	rig.Must(t, rig.WithOperators(t.Context(), s.ConfigFile, func(o *operator.Service) error {
		err := o.AddUser(t.Context(), &user)
		if err == nil {
			v.session, err = o.StartSession(t.Context(), &user, nil, time.Hour)
		}
		return err
	}))
	return v
}

var (
	tags   = regexp.MustCompile(`<[^>]*>`)
	spaces = regexp.MustCompile(`[\s\x{a0}]+`)
)

// read returns the words of a page; "" while the console has none.
func (v *visitor) read(path string) string {
	status, words := v.visitPage(path)
	if status != http.StatusOK {
		return ""
	}
	return words
}

// visitPage returns the status and the words of the answer to a visit of a page; 0 if there was no answer.
func (v *visitor) visitPage(path string) (status int, words string) {
	r, err := http.NewRequestWithContext(v.T.Context(), http.MethodGet, v.ConsoleURL+path, nil)
	rig.Must(v.T, err)
	r.AddCookie(&http.Cookie{Name: "threeds", Value: v.session})
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, ""
	}
	return res.StatusCode, spaces.ReplaceAllString(html.UnescapeString(tags.ReplaceAllString(string(data), " ")), " ")
}

// await waits until a page has all texts, and returns its words.
func (v *visitor) await(path string, texts ...string) (page string) {
	v.T.Helper()
	waittest.Until(v.T, "the page "+path+" with "+strings.Join(texts, " and "), func() bool {
		page = v.read(path)
		for _, text := range texts {
			if !strings.Contains(page, text) {
				return false
			}
		}
		return true
	})
	return page
}

// command runs a command on the configuration of a site, and returns what it prints.
func (v *visitor) command(args ...string) string {
	v.T.Helper()
	var out, errs strings.Builder
	args = append(args, "--config", v.ConfigFile)
	if code := rig.Run(v.T.Context(), args, strings.NewReader(""), &out, &errs); code != 0 {
		v.T.Fatalf("%v: %d %s", args, code, &errs)
	}
	return out.String()
}

// nodes returns what the command says of the nodes.
func (v *visitor) nodes() (all []node) {
	v.T.Helper()
	rig.Must(v.T, json.Unmarshal([]byte(v.command("nodes", "--json")), &all))
	return all
}

// A node is one of the list of nodes.
type node struct {
	Name, State, Release, Config, KeyFile string
	Since, Seen                           time.Time
	Problems                              []struct{ Part, Text string }
}
