package operators

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// addUser NAME adds a user of the console, an admin, as a registration does.
func addUser(ts *testscript.TestScript, _ bool, args []string) {
	ring, err := keyring.Load(ts.MkAbs("threeds-data/keys.json"))
	ts.Check(err)
	db := scriptStore(ts)
	defer db.Close()
	s := &operator.Service{Store: db, Sealer: ring, Now: time.Now}
	ts.Check(s.AddUser(context.Background(), &operator.User{Name: args[0], Role: operator.Admin}))
}

// TestD109HealthKnowsTheConsolesCertificate: with console.tls the certificate of the configuration must answer,
// whatever its name is, and no other.
func TestD109HealthKnowsTheConsolesCertificate(t *testing.T) {
	t.Parallel()
	console := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, `{"status":"ready"}`)
	}))
	t.Cleanup(console.Close)
	good := string(rig.ReadFile(t, checkSite(t, rig.Plan{})))
	dir := t.TempDir()
	file := filepath.Join(dir, "threeds.yaml")
	address := strings.TrimPrefix(console.URL, "https://")
	rig.WriteFile(t, file, []byte(strings.Replace(good, "console: {listen: 127.0.0.1:0}",
		`console: {listen: "`+address+`", url: "https://console.example", tls: {cert: console.pem, key: console.key}}`, 1)))
	for name, test := range map[string]struct {
		der  []byte
		want int
	}{"its own": {console.Certificate().Raw, 0}, "another": {[]byte("x"), 1}} {
		rig.WriteFile(t, filepath.Join(dir, "console.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: test.der}))
		var out, errs strings.Builder
		if code := rig.Run(t.Context(), []string{"health", "--config", file}, strings.NewReader(""), &out, &errs); code != test.want {
			t.Errorf("%s: exit status %d, want %d: %s", name, code, test.want, errs.String())
		}
	}
}
